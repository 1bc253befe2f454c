# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.series.build: builds that work, fail, hang and print without end."""

from pathlib import Path

import pytest

from schedperf.lab.series.build import LOG_LIMIT_BYTES, Builder, BuildFailed, read_built
from schedperf.model.errors import InputError
from tests.programs import lives

COMMIT = "c" * 40
LIMIT_S = 60.0


def builder(folder: Path, command: str, limit_s: float = LIMIT_S) -> Builder:
    return Builder(folder=folder / "builds", command=command, config=None, limit_s=limit_s)


def failure(folder: Path, command: str, limit_s: float = LIMIT_S) -> str:
    with pytest.raises(BuildFailed) as error:
        builder(folder, command, limit_s).build(COMMIT, folder)
    assert not (folder / "builds" / COMMIT).exists()
    return error.value.reason


def test_a_build_is_kept_by_its_commit_and_command(tmp_path: Path) -> None:
    made = builder(tmp_path, 'echo "$SCHEDPERF_COMMIT" >"$SCHEDPERF_OUT/bzImage"')
    assert made.existing(COMMIT) is None
    assert (made.build(COMMIT, tmp_path) / "bzImage").read_text() == f"{COMMIT}\n"
    assert made.existing(COMMIT) == tmp_path / "builds" / COMMIT
    assert builder(tmp_path, "another command").existing(COMMIT) is None


def test_a_failing_build_has_its_last_line(tmp_path: Path) -> None:
    reason = failure(tmp_path, "echo first; echo 'fair.c:1: error: oops\x1b[0m' >&2; exit 2")
    assert reason.startswith("exit status 2: fair.c:1: error: oops")
    assert "\x1b" not in reason


def test_a_build_without_an_image_fails(tmp_path: Path) -> None:
    assert "left no bzImage" in failure(tmp_path, "true")


def test_a_build_that_hangs_is_killed_with_all_it_started(tmp_path: Path) -> None:
    started = tmp_path / "started"
    limit_s = 0.5
    # A busy machine takes its time to start it.
    while not started.exists() or not started.read_text():
        limit_s *= 2
        command = f"sleep 1000 & echo $! >{started}; wait"
        assert "--build-timeout" in failure(tmp_path, command, limit_s)
    assert not lives(started.read_text().strip())


def test_a_build_that_closes_its_output_and_hangs_is_killed(tmp_path: Path) -> None:
    assert "--build-timeout" in failure(tmp_path, "exec >&- 2>&-; sleep 1000", 1.0)


def test_a_log_that_fills_the_disk_is_one_line(small_disk: Path) -> None:
    with pytest.raises(InputError) as error:
        builder(small_disk, "head -c 7000000 /dev/zero").build(COMMIT, small_disk)
    assert str(error.value) == (
        f"{small_disk}/builds: no space left on device; free space there, or give another "
        "--output, and repeat the command"
    )


def test_of_a_long_output_the_log_has_the_beginning_and_the_end(tmp_path: Path) -> None:
    reason = failure(
        tmp_path, "echo begin; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end; exit 1"
    )
    assert reason.startswith("exit status 1: end")
    log = (tmp_path / "builds" / f"{COMMIT}.log").read_bytes()
    assert len(log) < LOG_LIMIT_BYTES + (1 << 16)
    assert log.startswith(b"begin\n")
    assert log.endswith(b"end\n")


def test_a_directory_without_an_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no kernel image"):
        read_built(tmp_path, "name", "label")
