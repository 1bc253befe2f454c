# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf bisect next``: from a table of boots to the next commit, or to the first bad one."""

import json
import math
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema_rs
import numpy as np
import pytest

from schedperf.cli import main
from tests.git_repository import Git, init_git
from tests.histories import add_to, make_recording, night_name

PUBLISHED = Path(__file__).parents[3] / "docs" / "schema" / "bisect-1.schema.json"
COMMITS = 13
CAUSE = 9
MORE, WITHHELD = 75, 3

Next = Callable[..., str]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Return a function that runs git in a repository of commits with the tags v0 to v12."""
    folder = tmp_path / "linux"
    run = init_git(folder)
    for number in range(COMMITS):
        name = "fair.c" if number in {3, CAUSE} else "mm.c"
        (folder / name).write_text(f"{number}\n")
        run("add", name)
        run("commit", "--quiet", "--no-gpg-sign", "-m", f"change {number}")
        run("tag", f"v{number}")
    return run


class Lab:
    """A table of boots of a machine, which another program makes.

    :param steps: new / old of the commits that change the result, by their numbers
    """

    def __init__(self, path: Path, steps: Mapping[int, float]) -> None:
        self.path = path
        self._steps = steps
        self._made: Counter[str] = Counter()
        self._generator = np.random.default_rng(1)
        path.write_text("commit,boot,value\n")

    def boot(self, name: str, number: int, times: int = 1) -> None:
        """Boot a commit, and add a line for each boot.

        :param name: as the file spells the commit
        :param number: its number in the range
        """
        level = math.prod(ratio for step, ratio in self._steps.items() if step <= number)
        with self.path.open("a") as file:
            for _ in range(times):
                self._made[name] += 1
                value = 100.0 * level * math.exp(0.01 * self._generator.standard_normal())
                file.write(f"{name},{self._made[name]},{value:.3f}\n")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Return a lab whose results drop by 8% at one commit."""
    return Lab(tmp_path / "boots.csv", {CAUSE: 0.92})


@pytest.fixture
def folder(git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to the directory with the repository and the table."""
    assert git("rev-parse", "HEAD")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ask(folder: Path, capsys: Capture) -> Next:
    """Return a function that runs the command, and returns what it prints, or its error."""
    assert (folder / "linux").is_dir()

    def run(*options: str, status: int | None = MORE, bad: str = "v12") -> str:
        ends = ("--repo", "linux", "--good", "v0", "--bad", bad)
        ended = main(["bisect", "next", "boots.csv", *ends, *options])
        assert status is None or ended == status
        out, err = capsys.readouterr()
        assert len(err.splitlines()) == int(status == 2)
        return err if status == 2 else out

    return run


def record(ask: Next, *options: str, status: int | None = MORE) -> Any:
    """Return the JSON record, which follows the published schema."""
    document = json.loads(ask("--json", "-", *options, status=status))
    schema = json.loads(PUBLISHED.read_text())
    jsonschema_rs.Draft202012Validator(schema).validate(document)
    return document


def follow(ask: Next, lab: Lab, git: Git, *options: str) -> Any:
    """Make the boots that the command asks for, until it asks for none; return its record."""
    while (asked := (found := record(ask, *options, status=None))["next"]) is not None:
        lab.boot(asked["commit"]["hash"][:12], number_of(git, asked), asked["boots"])
    return found


def number_of(git: Git, asked: Any) -> int:
    """Return the number of the commit to boot next."""
    return int(git("describe", "--tags", asked["commit"]["hash"]).removeprefix("v"))


def test_the_boots_that_it_asks_for_lead_to_the_first_bad_commit(
    ask: Next, lab: Lab, git: Git
) -> None:
    found = follow(ask, lab, git)
    assert found["status"] == "named"
    assert found["next"] is None
    [named] = found["named"]
    assert [each["subject"] for each in named["commits"]] == [f"change {CAUSE}"]
    assert named["parent"]["hash"] == git("rev-parse", f"v{CAUSE - 1}")
    assert named["probability"] >= 0.99
    assert named["check"]["is_passed"]
    assert named["change"]["ci_low"] < 0.92 < named["change"]["ci_high"]
    assert found["explained"] == named["change"]["ratio"]
    assert found["boots"] == len(lab.path.read_text().splitlines()) - 1
    printed = ask(status=0)
    hash_ = git("rev-parse", "--short=12", f"v{CAUSE}")
    assert printed.startswith(f'first bad commit  {hash_} ("change {CAUSE}")\n')
    assert "probability       >= 0.99; 4 + 4 fresh boots, p = " in printed
    assert "explains -" in printed


def test_it_begins_with_the_ends(ask: Next, lab: Lab, git: Git) -> None:
    hashes = [git("rev-parse", "--short=12", name) for name in ("v0", "v12")]
    printed = ask()
    assert printed.splitlines() == [
        f'next              {hashes[0]} ("change 0"), 3 boots',
        f"why               to find out whether {hashes[0]} and {hashes[1]} differ",
        f"range             {hashes[0]}..{hashes[1]}, 12 commits",
        "boots             0, first boots included",
    ]
    lab.boot("v0", 0, 3)
    assert ask().startswith(f'next              {hashes[1]} ("change 12"), 3 boots\n')


def test_commits_may_have_any_name_that_git_resolves(ask: Next, lab: Lab, git: Git) -> None:
    names = ("v0", git("rev-parse", "v12"), git("rev-parse", "--short=8", "v6"), "main~4")
    for name, number in zip(names, (0, 12, 6, 8), strict=True):
        lab.boot(name, number, 10)
    found = record(ask)
    boots = {each["commits"][-1]["subject"]: each["boots"] for each in found["candidates"]}
    assert {name: made for name, made in boots.items() if made} == {
        "change 6": 10, "change 8": 10, "change 12": 10,
    }  # fmt: skip
    assert found["boots"] == 40
    assert [each["commits"][-1]["subject"] for each in found["candidates"][:4]] == [
        f"change {number}" for number in (9, 10, 11, 12)
    ]
    printed = ask()
    assert re_bars(printed) == [0.25] * 4
    assert "half of the probability is of this commit and those before it" in printed


def re_bars(printed: str) -> list[float]:
    """Return the probabilities beside the bars."""
    lines = printed.partition("probability ")[2].splitlines()[1:]
    return [float(line.split()[0]) for line in lines if line[0].isdigit()]


def boot_ends(lab: Lab, *more: int) -> None:
    """Boot some commits, then the ends, nine times each: eight boots besides the first ones."""
    for number in (*more, 0, 12):
        lab.boot(f"v{number}", number, 9)


def test_a_check_says_what_it_is_for(ask: Next, lab: Lab, git: Git) -> None:
    boot_ends(lab, CAUSE - 1, CAUSE)
    suspect = git("rev-parse", "--short=12", f"v{CAUSE}")
    printed = ask()
    assert (
        f"why               check of {suspect} on fresh boots, interleaved with its parent\n"
        in printed
    )
    assert record(ask)["next"]["suspect"]["subject"] == f"change {CAUSE}"


def test_without_more_boots_the_commit_is_withheld(ask: Next, lab: Lab, git: Git) -> None:
    boot_ends(lab, CAUSE - 1, CAUSE)
    suspect = git("rev-parse", "--short=12", f"v{CAUSE}")
    printed = ask("--final", status=WITHHELD)
    assert printed.startswith(
        f'withheld          {suspect} ("change {CAUSE}") has a probability of 1.000, but no fresh '
        "boots of it and its parent\n"
    )
    assert record(ask, "--final", status=WITHHELD)["status"] == "withheld"


@pytest.mark.parametrize(
    ("tested", "reason"),
    [
        ((), "has a probability of 0.083 (expected 0.99 or more)"),
        ((6,), "has a probability of 0.1"),
    ],
)
def test_without_more_boots_an_open_search_is_withheld(
    ask: Next, lab: Lab, tested: Sequence[int], reason: str
) -> None:
    boot_ends(lab, *tested)
    assert reason in ask("--final", status=WITHHELD)


def test_without_boots_nothing_is_known(ask: Next, lab: Lab) -> None:
    assert lab.path.exists()
    assert ask("--final", status=WITHHELD).startswith("withheld          too few boots of good and")


def test_ends_that_do_not_differ(ask: Next, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "boots.csv", {})
    for number in (0, 12):
        lab.boot(f"v{number}", number, 17)
    printed = ask(status=1)
    assert printed.startswith("no change         good and bad do not differ significantly by 1%")
    assert "(n = 16 + 16 boots)" in printed
    assert record(ask, status=1)["status"] == "no-change"


def test_a_step_that_is_not_reproduced_is_withheld(ask: Next, lab: Lab, tmp_path: Path) -> None:
    boot_ends(lab, CAUSE - 1, CAUSE)
    same = Lab(tmp_path / "fresh.csv", {})
    for number in (CAUSE - 1, CAUSE):
        same.boot(f"main~{12 - number}", number, 12)
    # Names of the same commits, whose boots have higher numbers.
    fresh = same.path.read_text().splitlines()[1:]
    rows = [line.split(",") for line in fresh]
    with lab.path.open("a") as file:
        file.writelines(f"{name},{int(boot) + 9},{value}\n" for name, boot, value in rows)
    printed = ask(status=WITHHELD)
    assert "the ends differ, but no commit is named" in printed
    assert "not reproduced: 12 + 12 fresh boots, p = " in printed
    [part] = record(ask, status=WITHHELD)["open"]
    assert part["commits"][0]["subject"] == f"change {CAUSE}"


def test_a_search_that_reaches_the_limit_is_withheld(ask: Next, tmp_path: Path) -> None:
    # Each commit changes the result a little.
    lab = Lab(tmp_path / "boots.csv", dict.fromkeys(range(1, COMMITS), 1.01))
    for number in range(COMMITS):
        lab.boot(f"v{number}", number, 12)
    printed = ask(status=WITHHELD)
    assert "the ends differ, but no commit is named" in printed
    assert "the limit of 140 boots is reached" in printed
    [part] = record(ask, status=WITHHELD)["open"]
    assert part["check"] is None
    assert part["probability"] < 0.99


def test_after_a_name_the_parts_of_the_range_are_searched(ask: Next, lab: Lab, git: Git) -> None:
    for name in (CAUSE - 1, CAUSE):
        lab.boot(f"v{name}", name, 2)
    boot_ends(lab, CAUSE - 2)
    while (asked := record(ask)["next"])["phase"] == "search":
        lab.boot(f"v{number_of(git, asked)}", number_of(git, asked), asked["boots"])
    for _ in range(4):
        for name in (CAUSE - 1, CAUSE):
            lab.boot(f"v{name}", name)
    found = record(ask)
    assert [each["commits"][0]["subject"] for each in found["named"]] == [f"change {CAUSE}"]
    good, bad = (git("rev-parse", "--short=12", f"v{name}") for name in (0, CAUSE - 1))
    printed = ask()
    assert f"why               to find out whether {good} and {bad} differ\n" in printed
    assert "\nfirst bad commit  " in printed
    # A name stands when no more boots can be made.
    assert record(ask, "--final", status=0)["status"] == "named"


def test_untestable_commits_are_named_with_the_one_that_can_be_tested(
    ask: Next, lab: Lab, git: Git
) -> None:
    skipped = ("--skip", f"v{CAUSE}", "--skip", git("rev-parse", f"v{CAUSE - 1}"))
    [named] = follow(ask, lab, git, *skipped)["named"]
    subjects = [each["subject"] for each in named["commits"]]
    assert subjects == [f"change {number}" for number in (CAUSE - 1, CAUSE, CAUSE + 1)]
    assert named["parent"]["subject"] == f"change {CAUSE - 2}"
    printed = ask(*skipped, status=0)
    assert f'("change {CAUSE + 1}"), or untestable before it: ' in printed
    assert "12 commits, 2 untestable" in printed


def test_commits_that_touch_a_path_are_more_probable(ask: Next, lab: Lab) -> None:
    boot_ends(lab)
    found = record(ask, "--paths", "fair.c")
    by_subject = {
        each["commits"][0]["subject"]: each["probability"] for each in found["candidates"]
    }
    assert by_subject["change 3"] == pytest.approx(1.0 / 3.0)
    assert by_subject[f"change {CAUSE}"] == pytest.approx(1.0 / 3.0)
    assert by_subject["change 1"] == pytest.approx(0.1 / 3.0)


@pytest.fixture
def side(git: Git, folder: Path) -> Mapping[str, str]:
    """Merge a branch with a cause into the last commit; return the hashes of its commits."""
    git("checkout", "--quiet", "-b", "side", "v3")
    hashes = {}
    for name in ("mm.c", "fair.c", "other.c"):
        (folder / "linux" / name).write_text("side\n")
        git("add", name)
        git("commit", "--quiet", "--no-gpg-sign", "-m", f"side: {name}")
        hashes[name] = git("rev-parse", "HEAD")
    git("checkout", "--quiet", "--detach", f"v{CAUSE - 1}")
    git("merge", "--quiet", "--no-ff", "-s", "ours", "-m", "Merge side", "side")
    git("tag", "merged")
    return hashes


def boot_side(lab: Lab) -> None:
    """Boot both ends, the merge and its parent, and both ends of the branch."""
    for name, number in (("v0", 0), ("v3", 3), (f"v{CAUSE - 1}", 0), ("side", CAUSE)):
        lab.boot(name, number, 9)
    lab.boot("merged", CAUSE, 9)
    for _ in range(4):
        lab.boot(f"v{CAUSE - 1}", 0)
        lab.boot("merged", CAUSE)


def test_commits_of_a_branch_that_touch_a_path_are_more_probable(
    ask: Next, lab: Lab, side: Mapping[str, str]
) -> None:
    boot_side(lab)
    found = json.loads(ask("--json", "-", "--paths", "fair.c", bad="merged"))
    assert found["next"]["merge"]["subject"] == "Merge side"
    assert {each["commits"][0]["hash"]: each["probability"] for each in found["candidates"]} == {
        side["fair.c"]: pytest.approx(1.0 / 1.2),
        side["mm.c"]: pytest.approx(0.1 / 1.2),
        side["other.c"]: pytest.approx(0.1 / 1.2),
    }


def test_a_commit_of_a_branch_can_be_skipped(ask: Next, lab: Lab, side: Mapping[str, str]) -> None:
    boot_side(lab)
    found = json.loads(ask("--json", "-", "--skip", side["fair.c"], bad="merged"))
    assert [each["hash"] for each in found["untestable"]] == [side["fair.c"]]
    assert len(found["candidates"]) == 2


def test_a_given_deviation_is_used(ask: Next, lab: Lab) -> None:
    boot_ends(lab, 6)
    given, estimated = (
        record(ask, *options)["candidates"][0]["probability"]
        for options in (("--boot-sd", "20%"), ())
    )
    assert given < estimated


def test_the_deviation_of_a_series_is_used(ask: Next, lab: Lab, tmp_path: Path) -> None:
    boot_ends(lab, 6)
    boots = [[0.5], [0.5 * math.exp(0.2 * math.sqrt(2))]]
    path = make_recording(tmp_path / "new.tar", night_name(0), "new", boots)
    add_to(tmp_path / "history", path)
    given = record(ask, "--boot-sd", "20%")["candidates"]
    assert record(ask, "--history", "history", "hackbench")["candidates"] == [
        {**each, "probability": pytest.approx(each["probability"], rel=0.01)} for each in given
    ]
    both = ("--history", "history", "hackbench", "--boot-sd", "1%")
    assert "exclude each other" in ask(*both, status=2)
    assert "no store" in ask("--history", "nothing", "hackbench", status=2)
    assert "no such series" in ask("--history", "history", "dbench", status=2)
    single = make_recording(tmp_path / "one.tar", night_name(1), "new", [[0.5]])
    add_to(tmp_path / "single", single)
    assert "give --boot-sd instead" in ask("--history", "single", "hackbench", status=2)


def test_absurd_values_do_not_overflow(ask: Next, lab: Lab) -> None:
    lines = [
        f"{name},{boot},1e{150 - 300 * (boot % 2)}\n" for name in ("v0", "v12") for boot in range(4)
    ]
    lab.path.write_text("commit,boot,value\n" + "".join(lines))
    assert record(ask)["change"]["ci_high"] > 1e300


def test_other_boots_are_named_and_not_used(
    folder: Path, lab: Lab, git: Git, capsys: Capture
) -> None:
    lab.boot("v3", 3, 2)
    boot_ends(lab)
    lab.boot("v6", 6, 1)
    words = ["bisect", "next", "boots.csv", "--repo", "linux", "--good", "v6", "--bad", "v12"]
    assert main([*words, "--json", "out.json"]) == MORE
    _, err = capsys.readouterr()
    v0, v3 = (git("rev-parse", name) for name in ("v0", "v3"))
    assert err.splitlines() == [
        f"schedperf: boots.csv: {boots} boot(s) of {commit[:12]} not used: untestable, or not in "
        "v6..v12 or a branch that is searched"
        for commit, boots in ((v3, 2), (v0, 9))
    ]
    found = json.loads((folder / "out.json").read_text())
    assert found["not_used"] == {v0: 9, v3: 2}
    assert found["boots"] == 10


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"good": "v3", "bad": "v3"}, "v3..v3: empty"),
        ({"good": "v9", "bad": "v3"}, "v9..v3: reversed (expected older..newer); use v3..v9"),
        ({"good": "gone"}, "gone: no such commit in linux"),
        ({"bad": "v1\x1b[31m"}, "invalid name of a commit"),
        ({"bad": "apart"}, "v0 is not an ancestor of apart"),
        ({"skip": "v0"}, "v0: not between good and bad"),
        ({"skip": "gone"}, "gone: no such commit"),
        ({"skip": "apart"}, "apart: not between good and bad"),
        ({"paths": "gone.c"}, "gone.c: not changed in v0..v12"),
        ({"boot_sd": "200%"}, "'200%' is out of range"),
        ({"repo": "elsewhere"}, "--repo elsewhere: no such directory"),
        ({"json": "boots.csv"}, "boots.csv: also an input"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_bad_options_are_one_line(
    git: Git, lab: Lab, capsys: Capture, options: Mapping[str, str], problem: str
) -> None:
    git("checkout", "--quiet", "--orphan", "apart")
    git("commit", "--quiet", "--allow-empty", "-m", "apart")
    given = {"repo": "linux", "good": "v0", "bad": "v12", **options}
    words = [
        word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    assert main(["bisect", "next", str(lab.path.name), *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert problem in line
    assert "\x1b" not in line


def test_a_shallow_clone_is_refused(folder: Path, lab: Lab, capsys: Capture) -> None:
    url = f"file://{folder}/linux"
    subprocess.run(["git", "clone", "--quiet", "--depth=2", url, folder / "cut"], check=True)
    subprocess.run(
        ["git", "-C", folder / "cut", "fetch", "--quiet", "--depth=1", "origin", "tag", "v0"],
        check=True,
    )
    words = ("--repo", "cut", "--good", "v0", "--bad", "HEAD")
    assert main(["bisect", "next", lab.path.name, *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("which is a shallow clone; run there: git fetch --unshallow")


def test_an_unknown_commit_of_the_table_is_named_with_its_line(ask: Next, lab: Lab) -> None:
    lab.boot("v0", 0)
    lab.boot("no\x1b-such", 0)
    assert "boots.csv:3: 'no-such': invalid name of a commit" in ask(status=2)


def test_control_characters_of_subjects_do_not_reach_the_terminal(
    ask: Next, lab: Lab, git: Git
) -> None:
    git("checkout", "--quiet", "-B", "main", "v11")
    git("commit", "--quiet", "--allow-empty", "-m", "an \x1b]0;evil\x07 end")
    lab.boot("v0", 0, 3)
    printed = ask(bad="main")
    assert '("an ]0;evil end")' in printed
    assert "\x1b" not in printed
