# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.build: builds that work, fail, hang and print without end."""

import shlex
from pathlib import Path

import pytest

from schedperf.inputs.git import Repository
from schedperf.lab.build import LOG_LIMIT_BYTES, Builder, BuildFailed, Recipe, read_built
from schedperf.model.errors import InputError
from tests.git_repository import init_git
from tests.programs import lives

LIMIT_S = 60.0
SUBJECTS = ("first", "second", "third")
# Prints how often this check-out has been built, and keeps that number as an object.
COUNT = """
echo x >>objects; cp file "$SCHEDPERF_OUT"; wc -l <objects >"$SCHEDPERF_OUT/bzImage"
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("git") / "repository"
    git = init_git(folder)
    for subject in SUBJECTS:
        (folder / "file").write_text(subject)
        git("add", "file")
        git("commit", "--quiet", "-m", subject)
        git("tag", subject)
    git("commit", "--quiet", "--allow-empty", "-m", "same tree as third")
    git("tag", "same")
    return Repository(folder)


def make_builder(
    repository: Repository, folder: Path, command: str, limit_s: float = LIMIT_S
) -> Builder:
    recipe = Recipe(command=command, config=None, limit_s=limit_s)
    return Builder(repository.borrow(folder / "work"), folder / "builds", recipe)


def failure(repository: Repository, folder: Path, command: str, limit_s: float = LIMIT_S) -> str:
    builder = make_builder(repository, folder, command, limit_s)
    commit = repository.resolve("first")
    with pytest.raises(BuildFailed) as error:
        builder.build(commit)
    assert builder.existing(commit) is None
    return error.value.reason


def count_builds(result: Path) -> int:
    return int((result / "bzImage").read_text())


def test_a_result_is_kept_by_its_tree_and_recipe(repository: Repository, tmp_path: Path) -> None:
    builder = make_builder(repository, tmp_path, COUNT)
    first, third, same = map(repository.resolve, ("first", "third", "same"))
    assert builder.existing(first) is None
    result = builder.build(first)
    assert (result / "file").read_text() == "first"
    assert builder.existing(first) == result
    assert make_builder(repository, tmp_path, f"{COUNT} ").existing(first) is None
    assert builder.build(same) == builder.build(third)


def test_builds_reuse_the_objects_of_earlier_ones(repository: Repository, tmp_path: Path) -> None:
    builder = make_builder(repository, tmp_path, COUNT)
    made = [count_builds(builder.build(repository.resolve(name))) for name in SUBJECTS]
    assert made == [1, 2, 3]


def test_a_build_that_fails_among_old_objects_is_repeated_without_them(
    repository: Repository, tmp_path: Path
) -> None:
    command = f'[ ! -e objects ] || [ "$(cat file)" != second ] || exit 1; {COUNT}'
    builder = make_builder(repository, tmp_path, command)
    made = [count_builds(builder.build(repository.resolve(name))) for name in SUBJECTS]
    assert made == [1, 1, 2]


def test_after_a_killed_build_objects_are_not_reused(
    repository: Repository, tmp_path: Path
) -> None:
    builder = make_builder(repository, tmp_path, COUNT)
    builder.build(repository.resolve("first"))
    [tree] = (tmp_path / "work").glob("tree-*")
    (tmp_path / "builds" / f"{tree.name}.building").touch()
    assert count_builds(builder.build(repository.resolve("second"))) == 1
    assert count_builds(builder.build(repository.resolve("third"))) == 2


def test_a_build_without_space_is_not_a_commit_that_does_not_build(
    repository: Repository, tmp_path: Path
) -> None:
    command = "echo 'ld: final link failed: No space left on device' >&2; exit 1"
    builder = make_builder(repository, tmp_path, command)
    with pytest.raises(InputError, match="no space left on device; free space there"):
        builder.build(repository.resolve("first"))


def test_a_failing_build_has_its_last_line(repository: Repository, tmp_path: Path) -> None:
    reason = failure(
        repository, tmp_path, "echo first; echo 'fair.c:1: error: oops\x1b[0m' >&2; exit 2"
    )
    assert reason.startswith("exit status 2: fair.c:1: error: oops")
    assert "\x1b" not in reason


def test_a_failing_build_has_its_first_error(repository: Repository, tmp_path: Path) -> None:
    lines = ("fair.c:1:9: error: oops", "    1 | oops", "      | ^~~~", "error: again")
    command = f"printf '%s\\n' {' '.join(map(shlex.quote, lines))}; exit 2"
    reason = failure(repository, tmp_path, command)
    assert reason.startswith("exit status 2: fair.c:1:9: error: oops; log: ")


def test_a_build_without_an_image_fails(repository: Repository, tmp_path: Path) -> None:
    assert "left no bzImage" in failure(repository, tmp_path, "true")


def test_a_build_that_hangs_is_killed_with_all_it_started(
    repository: Repository, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    limit_s = 0.5
    # A busy machine takes its time to start it.
    while not started.exists() or not started.read_text():
        limit_s *= 2
        command = f"sleep 1000 & echo $! >{started}; wait"
        assert "--build-timeout" in failure(repository, tmp_path, command, limit_s)
    assert not lives(started.read_text().strip())


def test_a_build_that_closes_its_output_and_hangs_is_killed(
    repository: Repository, tmp_path: Path
) -> None:
    assert "--build-timeout" in failure(repository, tmp_path, "exec >&- 2>&-; sleep 1000", 1.0)


def test_a_log_that_fills_the_disk_is_one_line(repository: Repository, small_disk: Path) -> None:
    with pytest.raises(InputError) as error:
        make_builder(repository, small_disk, "head -c 7000000 /dev/zero").build(
            repository.resolve("first")
        )
    assert str(error.value) == (
        f"{small_disk}/builds: no space left on device; free space there, or give another "
        "--output, and repeat the command"
    )


def test_of_a_long_output_the_log_has_the_beginning_and_the_end(
    repository: Repository, tmp_path: Path
) -> None:
    reason = failure(
        repository,
        tmp_path,
        "echo begin; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end; exit 1",
    )
    assert reason.startswith("exit status 1: end")
    [path] = (tmp_path / "builds").glob("*.log")
    log = path.read_bytes()
    assert len(log) < LOG_LIMIT_BYTES + (1 << 16)
    assert log.startswith(b"begin\n")
    assert log.endswith(b"end\n")


def test_a_directory_without_an_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no kernel image"):
        read_built(tmp_path, "name", "label")
