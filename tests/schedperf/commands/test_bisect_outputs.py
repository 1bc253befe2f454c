# SPDX-License-Identifier: GPL-2.0-or-later
"""What ``schedperf bisect next`` hands on: a page, a log of git, and the bisection of a record."""

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from schedperf.cli import main
from schedperf.inputs.git import Commit, Repository
from schedperf.model.json_text import to_json
from schedperf.publish.culprit.files import load_culprit
from tests.bisections import Search
from tests.culprits import regression
from tests.git_repository import init_git

COMMITS, CAUSE = 17, 11
ENDS = ("--repo", "linux", "--good", "v0", "--bad", "main")
SITE = """\
allow = ["@kernel.example"]
[site]
name = "Example lab"
domain = "lab.example"
from = "schedperf <schedperf@lab.example>"
contact = "perf-team@lab.example"
list = "sched-perf@lab.example"
base_url = "https://lab.example/schedperf"
"""
Run = Callable[..., str]


@pytest.fixture
def commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Commit]:
    """Make the repository ``linux`` in the current directory; return its commits."""
    monkeypatch.chdir(tmp_path)
    git = init_git(tmp_path / "linux")
    for number in range(COMMITS):
        git("commit", "--quiet", "--allow-empty", "-m", f"sched: change {number} <b>\x1b[1m")
    git("tag", "v0", f"main~{COMMITS - 1}")
    return Repository(tmp_path / "linux").series("v0", "main")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command, and returns what it prints, or its error."""

    def schedperf(*words: str, status: int = 0) -> str:
        assert main(words) == status
        out, err = capsys.readouterr()
        return err if status == 2 else out

    return schedperf


def write_boots(boots: Sequence[tuple[str, float]]) -> None:
    """Write the boots to ``boots.csv``; each commit's are numbered."""
    made: list[str] = []
    lines = ["commit,boot,value"]
    for commit, value in boots:
        made.append(commit)
        lines.append(f"{commit},{made.count(commit)},{value}")
    Path("boots.csv").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def searched(commits: list[Commit]) -> list[Commit]:
    """Write the boots of a search that names a commit; return the commits."""
    search = Search(commits, {CAUSE: 0.92})
    search.finish()
    write_boots(search.boots)
    return commits


def test_one_run_writes_all_files_and_prints_the_text(run: Run, searched: list[Commit]) -> None:
    files = ("--html", "b.html", "--git-log", "b.log", "--json", "b.json")
    printed = run("bisect", "next", "boots.csv", *ENDS, *files)
    cause = searched[CAUSE].hash
    assert printed.startswith(f"first bad commit  {cause[:12]}")
    page = Path("b.html").read_text()
    assert f"{cause[:12]} (&#34;sched: change {CAUSE} &lt;b&gt;[1m&#34;)" in page
    assert "boots.csv" in page
    assert json.loads(Path("b.json").read_text())["named"][0]["commits"][0]["hash"] == cause
    subprocess.run(
        ["git", "-C", "linux", "bisect", "replay", "../b.log"], check=True, capture_output=True
    )
    bad = ["git", "-C", "linux", "rev-parse", "refs/bisect/bad"]
    assert subprocess.run(bad, capture_output=True, text=True).stdout.strip() == cause


@pytest.mark.parametrize(
    ("option", "start"),
    [("--html", "<!DOCTYPE html>"), ("--git-log", "# bad: ["), ("--json", '{\n "schema":')],
)
@pytest.mark.usefixtures("searched")
def test_one_format_goes_to_stdout(run: Run, option: str, start: str) -> None:
    assert run("bisect", "next", "boots.csv", *ENDS, option, "-").lstrip().startswith(start)


@pytest.mark.usefixtures("searched")
def test_two_formats_for_stdout_are_refused(run: Run) -> None:
    error = run("bisect", "next", "boots.csv", *ENDS, "--html", "-", "--json", "-", status=2)
    assert "stdout: 2 formats requested (expected one of json, html)" in error


@pytest.mark.parametrize("option", ["--html", "--git-log"])
@pytest.mark.usefixtures("searched")
def test_a_file_that_cannot_be_written_is_one_line(run: Run, option: str) -> None:
    error = run("bisect", "next", "boots.csv", *ENDS, option, "no/file", status=2)
    [line] = error.splitlines()
    assert line.startswith(
        "schedperf: error: no/file: cannot be written (no such file or directory)"
    )
    error = run("bisect", "next", "boots.csv", *ENDS, option, "boots.csv", status=2)
    assert "boots.csv: also an input" in error


def test_from_the_boots_to_the_mail_without_hand_work(run: Run, searched: list[Commit]) -> None:
    good, bad = (searched[index].hash for index in (CAUSE - 1, CAUSE))
    Path("compare.json").write_text(to_json(regression("found", None, None)))
    run("bisect", "next", "boots.csv", *ENDS, "--json", "bisect.json")
    printed = run(
        "culprit", "new", "c.json", "--repo", "linux", "--good", good, "--bad", bad,
        "--tree", "main", "--revert-impossible", "conflicts", "compare.json",
        "--bisection", "bisect.json",
    )  # fmt: skip
    assert "check             culprit: passed" in printed
    bisection = load_culprit(Path("c.json")).bisection
    assert bisection is not None
    boots = len(Path("boots.csv").read_text().splitlines()) - 1
    builds = f"{bisection.builds} builds"
    effort = f"{builds} and {boots} boots, probability "
    assert effort in run("culprit", "show", "c.json")
    Path("outbox").mkdir()
    Path("outbox/mail.toml").write_text(SITE)
    run("mail", "draft", "c.json")
    [mail] = Path("outbox/held").glob("*.eml")
    text = " ".join(mail.read_text().split())
    assert re.search(
        rf"bisected from [0-9a-f]{{12}} in {builds}, {boots} boots, probability ", text
    )
    checks = json.loads(mail.with_suffix(".json").read_text())["metadata"]["checks"]
    assert {check["name"]: check["passed"] for check in checks}["culprit"]
    run("publish", "c.json", "site")
    [page] = Path("site/r").glob("*/index.html")
    described = f"{effort}{bisection.probability:.3f}; it and the commit before it were tested"
    assert described in page.read_text()


def test_a_bisection_is_added_to_a_record(run: Run, searched: list[Commit]) -> None:
    good, bad, other = (searched[index].hash for index in (CAUSE - 1, CAUSE, CAUSE + 1))
    Path("compare.json").write_text(to_json(regression("found", None, None)))
    run("bisect", "next", "boots.csv", *ENDS, "--json", "bisect.json")
    ends = ("--repo", "linux", "--good", good, "--bad")
    run("culprit", "new", "c.json", *ends, bad, "compare.json")
    assert "not bisected" not in run("culprit", "add", "c.json", "--bisection", "bisect.json")
    error = run(
        "culprit",
        "new",
        "d.json",
        *ends,
        other,
        "compare.json",
        "--bisection",
        "bisect.json",
        status=2,
    )
    [line] = error.splitlines()
    assert line.startswith(
        f"schedperf: error: --bisection bisect.json: names {bad[:12]} (expected {other[:12]}, the "
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"schema": "schedperf/bisect/2"}, '$.schema is "schedperf/bisect/2" (expected "schedpe'),
        ({"status": "more-boots"}, "the search is not over"),
        ({"status": "withheld"}, "no commit is named"),
        ({"status": "no-change"}, "good and bad do not differ"),
        ({"named": []}, "names no commit (expected "),
        ({"good": {"hash": "x", "subject": ""}}, "$.good.hash is "),
        ({"tested": None}, "$.tested is null"),
    ],
)
def test_a_bisection_without_the_answer_is_one_line(
    run: Run, searched: list[Commit], change: dict[str, object], problem: str
) -> None:
    good, bad = (searched[index].hash for index in (CAUSE - 1, CAUSE))
    Path("compare.json").write_text(to_json(regression("found", None, None)))
    run("bisect", "next", "boots.csv", *ENDS, "--json", "bisect.json")
    document = json.loads(Path("bisect.json").read_text())
    Path("bisect.json").write_text(json.dumps({**document, **change}))
    [line] = run(
        "culprit", "new", "c.json", "--repo", "linux", "--good", good, "--bad", bad,
        "compare.json", "--bisection", "bisect.json", status=2,
    ).splitlines()  # fmt: skip
    assert line.startswith(f"schedperf: error: --bisection bisect.json: {problem}")
    assert not Path("c.json").exists()
