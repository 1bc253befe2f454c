# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf culprit new --step``: one record over all nights, the retest and the bisection."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.cli import main
from schedperf.commands._outputs import dump_json
from schedperf.history.store.nights import position_of
from schedperf.model.json_text import to_json
from schedperf.publish.culprit.files import load_culprit
from tests.bisections import CAUSE, Search, make_commits
from tests.mail_inputs import BAD, GOOD, HACKBENCH, TIP, compare, write_kernel
from tests.step_stores import OTHER_STEP, PLACE, STEP, decide, make_step_store, state_of

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a step, and the comparisons of a night, of a retest and of the tip."""
    folder = tmp_path_factory.mktemp("lab")
    make_step_store(folder)
    night = folder / "nights" / f"{PLACE:%Y-%m-%d}"
    pairs = {
        "compare": [night / "night-base.tar", night / "night-new.tar"],
        "retest": [
            write_kernel(folder / f"retest-{kernel}.tar", kernel, HACKBENCH, session="retest")
            for kernel in ("base", "new")
        ],
        "later": [
            write_kernel(folder / f"later-{kernel}.tar", kernel, HACKBENCH, session="later")
            for kernel in ("base", "tip")
        ],
    }
    for name, paths in pairs.items():
        (folder / f"{name}.json").write_text(to_json(compare(*paths)))
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str, out: str = "culprit.json") -> tuple[int, str, str]:
        store = ["--store", str(made / "history"), "--step", STEP]
        files = [str(made / f"{word}.json") if word.isalpha() else word for word in words]
        status = main(["culprit", "new", str(tmp_path / out), *store, *files])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_a_later_night_updates_the_record(run: Run, tmp_path: Path) -> None:
    status, out, err = run("compare")
    assert (status, err) == (0, "")
    assert "bad end of range  4ab2d1379d59" in out
    path = tmp_path / "culprit.json"
    first = load_culprit(path)
    assert (first.is_range, first.good.commit, first.bad.commit) == (True, GOOD, BAD)
    assert first.range_name == "6.19.0-base..6.19.0-new"
    assert [each.step for each in first.steps] == [STEP]
    assert (first.steps[0].night, first.steps[0].change) == (f"{PLACE:%Y-%m-%d}", 0.21)
    assert (first.steps[0].nights, first.steps[0].false_alarms) == (5, 0)
    assert (tmp_path / f"{first.main.comparison[:16]}.json").exists()
    assert run("--retest", "retest", "compare", "later")[0] == 0
    again = load_culprit(path)
    assert again.key == first.key
    assert (again.good, again.bad) == (first.good, first.bad)
    assert again.retest is not None
    assert again.retest.found == first.main.comparison
    assert again.tip is not None
    assert again.tree is not None
    assert again.tree.date == "2026-11-25T00:00:00Z"
    # The same once more changes nothing.
    before = path.read_bytes()
    assert run("--retest", "retest", "compare", "later")[0] == 0
    assert path.read_bytes() == before


def test_a_bisection_replaces_the_range(run: Run, made: Path, tmp_path: Path) -> None:
    commits = make_commits()
    commits[CAUSE - 1] = replace(commits[CAUSE - 1], hash=GOOD)
    commits[CAUSE] = replace(commits[CAUSE], hash=BAD)
    (made / "bisect.json").write_text(dump_json(Search(commits, {CAUSE: 1.3}).finish()))
    assert run("later")[0] == 0
    path = tmp_path / "culprit.json"
    before = load_culprit(path)
    assert (before.is_range, before.bad.commit) == (True, TIP)
    status, _, err = run("--bisect", "bisect", "later")
    assert status == 0
    assert "--bisect: no comparison of 4ab2d1379d59 with its parent c07cac21ad45" in err
    assert load_culprit(path) == before
    status, out, err = run("--bisect", "bisect", "later", "compare")
    assert (status, err) == (0, "")
    assert "first bad commit  4ab2d1379d59" in out
    after = load_culprit(path)
    assert (after.is_range, after.good.commit, after.bad.commit) == (False, GOOD, BAD)
    assert after.key == before.key
    assert after.retest is not None
    assert after.retest.found == before.main.comparison
    assert after.bisection is not None
    assert after.bisection.probability is not None
    # The next night knows the commit already.
    written = path.read_bytes()
    assert run("later")[0] == 0
    assert load_culprit(path).bad.commit == BAD
    assert run("--bisect", "bisect", "later", "compare")[0] == 0
    assert load_culprit(path) == after
    assert path.read_bytes() == written


def test_steps_of_one_place_have_one_record(run: Run, made: Path, tmp_path: Path) -> None:
    from schedperf.history.store.directory import open_directory  # noqa: PLC0415 # as the command

    directory = open_directory(made / "history")
    later = f"{PLACE + timedelta(days=1):%Y-%m-%d}"
    numbers = {"earliest": 0.0, "latest": 1e9, "found": float(position_of(later))}
    decide(directory, "groups=4", step=OTHER_STEP, night=later, numbers=numbers)
    assert run("compare")[0] == 0
    culprit = load_culprit(tmp_path / "culprit.json")
    assert [each.step for each in culprit.steps] == [STEP, OTHER_STEP]
    decide(directory, "groups=4", step=OTHER_STEP, night=later, state="not reproduced")
    assert run("compare", out="again.json")[0] == 0
    alone = load_culprit(tmp_path / "again.json")
    assert [each.step for each in alone.steps] == [STEP]
    assert alone.key == culprit.key


def test_the_state_of_the_step_follows(run: Run, made: Path) -> None:
    from schedperf.history.store.directory import open_directory  # noqa: PLC0415 # as the command

    directory = open_directory(made / "history")
    assert run("compare", out="suspected.json")[0] == 0
    # What was not retested does not become known.
    assert state_of(directory) == "suspected"
    decide(directory, state="reproduced")
    assert run("--retest", "retest", "compare", out="known.json")[0] == 0
    assert state_of(directory) == "range known"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no comparison (expected one that shows the regression)"),
        (["--good", "v6.18", "compare"], "--good, --bad, --parent: given with --step"),
        (["--bisect", "missing.json", "compare"], "missing.json"),
        (["missing.json"], "missing.json"),
    ],
)
def test_mistakes_are_one_line(run: Run, words: list[str], said: str) -> None:
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_a_private_tree_needs_no_name(run: Run, tmp_path: Path) -> None:
    assert run("--private", "compare")[0] == 0
    tree = load_culprit(tmp_path / "culprit.json").tree
    assert tree is not None
    assert (tree.name, tree.private) == ("sched/core", True)


def test_a_store_needs_a_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["culprit", "new", str(tmp_path / "c.json"), "--step", STEP, "x.json"]) == 2
    assert "--store, --step: one is given without the other" in capsys.readouterr().err


def test_a_record_without_a_step_is_not_overwritten(run: Run, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "old.json"
    words = ["--good", GOOD[:12], "--bad", BAD[:12], str(made / "compare.json")]
    assert main(["culprit", "new", str(out), *words]) == 0
    status, _, err = run("compare", out="old.json")
    assert status == 2
    assert "a record without a step" in err
