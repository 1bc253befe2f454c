# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf culprit``: records are made, added to and shown; bad input is one line."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.cli import main
from schedperf.model.comparison import Comparison
from schedperf.model.json_text import to_json
from schedperf.publish.culprit.files import (
    change_record,
    find_comparisons,
    load_culprit,
    save_culprit,
)
from schedperf.publish.culprit.record import Bisection, BisectionStep, Links
from tests.culprits import BAD, GOOD, no_change, regression, series

Run = Callable[..., str]
OTHER_MACHINE = {"cpu": {"model": "Another 9000", "count_online": 64}}


@pytest.fixture
def commits(tmp_path: Path) -> list[str]:
    """Make a repository ``linux`` of four commits; return their hashes."""
    folder = tmp_path / "linux"
    git = ("git", "-c", "user.name=A. Author", "-c", "user.email=a@example.org", "-C", str(folder))
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(folder)], check=True)
    for number in range(4):
        body = (
            f"Link: https://lore.kernel.org/r/{number}@example.org\n"
            "Reviewed-by: R. Eviewer <r@example.org>"
        )
        message = ("-m", f"sched/fair: change {number}", "-m", body)
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", *message], check=True)
    subprocess.run([*git, "branch", "release", "HEAD~2"], check=True)
    listed = subprocess.run(
        [*git, "rev-list", "--reverse", "HEAD"], check=True, capture_output=True, text=True
    )
    return listed.stdout.split()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command, and returns what it prints, or its error."""
    monkeypatch.chdir(tmp_path)

    def culprit(*words: str, status: int = 0) -> str:
        assert main(["culprit", *words]) == status
        out, err = capsys.readouterr()
        assert len(err.splitlines()) == int(status != 0)
        return err if status else out

    return culprit


def write(path: Path, comparison: Comparison) -> None:
    path.write_text(to_json(comparison))


def test_a_record_is_made_from_a_repository(run: Run, commits: list[str], tmp_path: Path) -> None:
    write(tmp_path / "compare.json", regression("found", None, None))
    repository = ("--repo", "linux", "--good", commits[2], "--bad", "main", "--tree", "release")
    printed = run("new", "c.json", *repository, "compare.json")
    assert f'{commits[3][:12]} ("sched/fair: change 3"), A. Author <a@example.org>' in printed
    assert "increases hackbench time by 30." in printed
    assert "not measured      retest, tip, revert" in printed
    culprit = load_culprit(tmp_path / "c.json")
    assert not culprit.is_range
    assert culprit.bad.commit == commits[3]
    assert [each.name for each in culprit.bad.trailers] == ["Link", "Reviewed-by"]
    assert culprit.bad.links == ("https://lore.kernel.org/r/3@example.org",)
    # It is in no tree yet, so the mail goes to the thread of the patch.
    assert culprit.merged is False
    assert culprit.links.posted == "<3@example.org>"


def test_commits_between_good_and_bad_make_a_range(
    run: Run, commits: list[str], tmp_path: Path
) -> None:
    write(tmp_path / "compare.json", regression("found", None, None))
    printed = run("new", "c.json", "--repo", "linux", "--good", commits[0], "--bad", "release",
                  "--tree", "main", "compare.json")  # fmt: skip
    assert printed.startswith(f"bad end of range  {commits[1][:12]}") is False
    culprit = load_culprit(tmp_path / "c.json")
    assert culprit.is_range is False
    assert culprit.merged is True
    assert culprit.links.posted is None
    run("new", "d.json", "--repo", "linux", "--good", commits[0], "--bad", commits[2],
        "compare.json")  # fmt: skip
    assert load_culprit(tmp_path / "d.json").is_range


def test_a_fix_must_be_in_the_tree(run: Run, commits: list[str], tmp_path: Path) -> None:
    write(tmp_path / "compare.json", regression("found", None, None))
    ends = ("--good", commits[0], "--bad", commits[1])
    run("new", "c.json", "--repo", "linux", *ends, "--tree", "release", "compare.json")
    fixed = ("add", "c.json", "--repo", "linux", "--fixed-by", commits[3])
    error = run(*fixed, status=2)
    assert f"--fixed-by {commits[3]}: not in release (expected a commit of that tree)" in error
    run(*fixed, "--tree", "main")
    culprit = load_culprit(tmp_path / "c.json")
    assert culprit.fixed_by is not None
    assert culprit.fixed_by.commit == commits[3]


def test_without_a_repository_the_bundles_name_the_commits(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "compare.json", regression())
    ends = ("--good", GOOD[:12], "--bad", BAD[:12])
    printed = run("new", "c.json", *ends, "compare.json")
    assert printed.startswith('bad end of range  222222222222 ("sched: a change"), A. Author <a@')
    assert load_culprit(tmp_path / "c.json").is_range
    run("new", "d.json", "--parent", *ends, "compare.json")
    assert not load_culprit(tmp_path / "d.json").is_range


def test_more_is_added_and_all_of_it_is_shown(run: Run, tmp_path: Path) -> None:
    for name, comparison in {
        "compare": regression(),
        "retest": regression("retest"),
        "revert": no_change("revert"),
        "other": regression("other", hosts=OTHER_MACHINE),
    }.items():
        write(tmp_path / f"{name}.json", comparison)
    run("new", "c.json", "--good", GOOD, "--bad", BAD, "--parent", "compare.json",
        "--retest", "retest.json")  # fmt: skip
    run("add", "c.json", "--revert", "revert.json", "--also", "other.json", "--also", "other.json",
        "--tree", "tip/sched/core", "--posted", "<1@example.org>")  # fmt: skip
    run("add", "c.json", "--report", "2@example.org", "--revert-impossible", "conflicts")
    shown = run("show", "c.json")
    for line in (
        "first bad commit  222222222222",
        "retest            hackbench time +30.1% [",
        "tree              tip/sched/core",
        "merged            unknown",
        "regressed on      1-socket, 64-CPU Another 9000, hackbench time +30.1% [",
        "revert            impossible: conflicts",
        "posted            <1@example.org>",
        "report            <2@example.org>",
        "check             boots: ",
        "check             culprit: not bisected: how the commit was found is not recorded",
        "check             size: passed",
        "not measured      tip, feature switch, forced alignment, A/A, bisection",
    ):
        assert f"\n{line}" in f"\n{shown}"
    assert "file not found" not in shown
    culprit = load_culprit(tmp_path / "c.json")
    assert len(culprit.regressed_on) == 1
    assert json.loads(run("show", "c.json", "--json", "-"))["key"] == culprit.key
    run("show", "c.json", "--json", "copy.json")
    assert (tmp_path / "copy.json").read_bytes() == (tmp_path / "c.json").read_bytes()


def test_what_another_command_adds_meanwhile_is_kept(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "compare.json", regression())
    run("new", "c.json", "--good", GOOD, "--bad", BAD, "compare.json")
    path = tmp_path / "c.json"
    words = [
        sys.executable,
        "-m",
        "schedperf",
        "culprit",
        "add",
        "c.json",
        "--report",
        "2@a.example",
    ]
    with change_record(path):
        adding = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL)
        waits = re.compile(rf"-> FLOCK .* {adding.pid} ")
        while not waits.search(Path("/proc/locks").read_text()):
            assert adding.poll() is None
            time.sleep(0.01)
        culprit = load_culprit(path)
        save_culprit(path, replace(culprit, links=Links(posted="<1@a.example>")))
    assert adding.wait() == 0
    assert load_culprit(path).links == Links(posted="<1@a.example>", report="<2@a.example>")


def test_a_record_is_shown_without_its_comparisons(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "compare.json", regression())
    run("new", "c.json", "--good", GOOD, "--bad", BAD, "compare.json")
    (tmp_path / "compare.json").unlink()
    shown = run("show", "c.json")
    assert f"result            unknown (comparison {regression().id[:16]} not found)" in shown
    assert f"comparison        {regression().id[:16]} (file not found)" in shown
    error = run("add", "c.json", "--posted", "1@example.org", status=2)
    assert f"comparison {regression().id[:16]}: not found" in error


def test_a_side_and_a_step_of_a_series_are_chosen(
    run: Run, commits: list[str], tmp_path: Path
) -> None:
    write(tmp_path / "series.json", series())
    ends = ("--repo", "linux", "--good", commits[2], "--bad", commits[3])
    assert "increases hackbench time by 20." in run("new", "c.json", *ends, "series.json")
    assert "increases hackbench time by 25." in run("new", "d.json", *ends, "series.json:new2")


def test_a_comparison_elsewhere_is_to_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "record").mkdir()
    write(tmp_path / "compare.json", regression())
    words = ("culprit", "new", "record/c.json", *ENDS, "compare.json")
    assert main(words) == 0
    assert capsys.readouterr().err == (
        "copy compare.json to record: comparisons are found there only\n"
    )


def test_comparisons_are_found_by_their_ids(tmp_path: Path) -> None:
    write(tmp_path / "a.json", regression())
    write(tmp_path / "b.json", no_change("b"))
    (tmp_path / "c.json").write_text("{")
    (tmp_path / "d.json").mkdir()
    assert {*find_comparisons(tmp_path, [regression().id])} == {regression().id}
    (tmp_path / "a.json").write_text(to_json(regression())[:3000])
    with pytest.raises(Exception, match=r"a\.json: invalid JSON"):
        find_comparisons(tmp_path, [regression().id])


ENDS = ("--good", GOOD, "--bad", BAD)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("new", "c.json", *ENDS, "gone.json"), "gone.json: cannot be read: no such file"),
        (("new", "c.json", *ENDS, "linux"), "linux: cannot be read: is a directory"),
        (("new", "no/c.json", *ENDS, "compare.json"), "no/c.json: cannot be written (no such file"),
        (("new", "compare.json", *ENDS, "compare.json"), "compare.json: exists; add to it by"),
        (("new", "c.json", "--good", "x", "--bad", BAD, "compare.json"),
         "--good x: the comparison is of 111111111111 (expected the same commit)"),
        (("new", "c.json", "--good", "", "--bad", BAD, "compare.json"), "--good : the comparison"),
        (("new", "c.json", *ENDS, "--repo", "linux", "compare.json"), f"{GOOD}: no such commit in"),
        (("new", "c.json", *ENDS, "--repo", "gone", "compare.json"), "--repo gone: no such direc"),
        (("new", "c.json", *ENDS, "compare.json", "--retest", "compare.json"),
         "--retest compare.json: base has the recordings of compare.json"),
        (("new", "c.json", *ENDS, "compare.json", "--tip", "compare.json:new3"),
         "--tip compare.json:new3: unknown side 'new3' (expected one of new)"),
        (("new", "c.json", *ENDS, "compare.json", "--feature", "PLACE_LAG"),
         "--feature: invalid 'PLACE_LAG' (expected NAME=FILE"),
        (("new", "c.json", *ENDS, "compare.json", "--posted", "a@b@c\r\nBcc: x@y"),
         "--posted: invalid Message-ID 'a@b@c Bcc: x@y'"),
        (("new", "c.json", *ENDS, "compare.json", "--report", "a@b@c"), "--report: invalid Mess"),
        (("new", "c.json", *ENDS, "compare.json", "--report", "x" * 999), "--report: invalid Mess"),
        (("new", "c.json", *ENDS, "compare.json", "--tree", "a\nb"), "--tree: invalid 'a b' (exp"),
        (("new", "c.json", *ENDS, "compare.json", "--revert-impossible", "\u202ex"),
         "--revert-impossible: invalid 'x' (expected one line"),
        (("new", "c.json", *ENDS, "compare.json", "--private"), "--private: given without --tree"),
        (("new", "c.json", *ENDS, "compare.json", "--fixed-by", BAD), "--fixed-by: given without"),
        (("new", "c.json", *ENDS, "compare.json", "--bisection", "compare.json"),
         '--bisection compare.json: $.schema is "schedperf/compare/2" (expected "schedperf/bise'),
        (("new", "c.json", *ENDS, "compare.json", "--bisection", "empty"),
         "--bisection empty: $.good is missing"),
        (("new", "c.json", *ENDS, "compare.json", "--bisection", "hostile"),
         'c.json: not written: $.bisection.steps[0].untestable is "not\\nbuilt" (exp'),
        (("new", "c.json", *ENDS, "compare.json", "--revert", "compare.json",
          "--revert-impossible", "conflicts"), "--revert-impossible: given with --revert; leave"),
        (("add", "compare.json"), 'compare.json: $.schema is "schedperf/compare/2" (expected "sc'),
        (("show", "fifo"), "fifo: not a regular file"),
        (("new", "c.json", *ENDS, "fifo"), "fifo: not a regular file"),
        (("new", "c.json", *ENDS, "compare.json", "--bisection", "fifo"), "fifo: not a regular"),
        (("show", "gone.json"), "gone.json: cannot be read: no such file"),
        (("new", "c.json", *ENDS, "other.json"), 'other.json: $.schema is "schedperf/compare/9"'),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_writes_nothing(
    run: Run, commits: list[str], tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    assert commits
    write(tmp_path / "compare.json", regression())
    other: Any = json.loads(to_json(regression()))
    (tmp_path / "other.json").write_text(json.dumps({**other, "schema": "schedperf/compare/9"}))
    os.mkfifo(tmp_path / "fifo")
    step = BisectionStep(commit=GOOD, boots=1, probability=None, untestable="not\nbuilt")
    bisection = Bisection(
        good=GOOD, bad=BAD, steps=(step,), builds=1, boots=1, probability=None,
        neighbours_tested=False,
    )  # fmt: skip
    (tmp_path / "empty").write_text("{}")
    (tmp_path / "hostile").write_text(to_json(bisection))
    before = sorted(path.name for path in tmp_path.iterdir())
    assert run(*words, status=2).startswith(f"schedperf: error: {problem}")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_file_of_another_kind_is_not_called_old(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "compare.json", regression())
    assert run("show", "compare.json", status=2).endswith("; pass a file of the expected kind\n")
    (tmp_path / "next.json").write_text('{"schema": "schedperf/culprit/2"}')
    assert "use the version of schedperf that wrote" in run("show", "next.json", status=2)
