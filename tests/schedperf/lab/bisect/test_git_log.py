# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.bisect.git_log: ``git bisect replay`` ends at the named commit."""

import subprocess
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import pytest

from schedperf.inputs.git import Commit, Repository
from schedperf.lab.bisect.document import BisectDocument
from schedperf.lab.bisect.git_log import write_git_log
from tests.bisections import HOSTILE, Branch, Search
from tests.git_repository import Git, init_git

COMMITS = 33
Judge = Callable[..., BisectDocument]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Return a function that runs git in a repository, in which each sixth commit is a merge."""
    run = init_git(tmp_path / "linux")
    run("commit", "--quiet", "--allow-empty", "-m", "change 0")
    for number in range(1, COMMITS):
        if number % 6 == 2:
            run("checkout", "--quiet", "-b", f"topic{number}", "HEAD~1")
            for inner in range(5):
                run("commit", "--quiet", "--allow-empty", "-m", f"topic {number} {inner}")
            run("checkout", "--quiet", "main")
            run("merge", "--quiet", "--no-ff", "-m", f"change {number}", f"topic{number}")
        else:
            run("commit", "--quiet", "--allow-empty", "-m", f"change {number} {HOSTILE}")
    return run


@pytest.fixture
def commits(git: Git, tmp_path: Path) -> list[Commit]:
    """Return the commits, oldest first."""
    return Repository(tmp_path / "linux").series(git("rev-list", "--max-parents=0", "main"), "main")


@pytest.fixture
def search(commits: list[Commit]) -> Judge:
    """Return a function that searches steps in the repository."""

    def run(
        steps: Mapping[int, float], untestable: Collection[int] = (), most_boots: int = 1000
    ) -> BisectDocument:
        return Search(commits, steps, untestable).finish(most_boots)

    return run


@pytest.fixture
def replay(git: Git, tmp_path: Path) -> Callable[[BisectDocument], str]:
    """Return a function that replays the log of a search, and returns git's own log."""

    def run(document: BisectDocument) -> str:
        path = tmp_path / "bisect.log"
        path.write_text(write_git_log(document))
        # It reports by its exit status that only skipped commits are left.
        subprocess.run(
            ["git", "-C", tmp_path / "linux", "bisect", "replay", path], capture_output=True
        )
        return git("bisect", "log")

    return run


def conclusions(log: str) -> list[str]:
    return [line for line in log.splitlines() if "first bad commit" in line]


@pytest.mark.parametrize("cause", [1, 8, 9, 20, COMMITS - 1])
def test_a_replay_ends_at_the_named_commit(
    search: Judge, replay: Callable[..., str], commits: list[Commit], cause: int
) -> None:
    document = search({cause: 0.92})
    [named] = document.named
    assert named.commits == (commits[cause],)
    [conclusion] = conclusions(replay(document))
    assert conclusion.startswith(f"# first bad commit: [{commits[cause].hash}] change {cause}")
    assert conclusions(write_git_log(document))[0].startswith(conclusion[:60])


def test_each_tested_commit_has_its_verdict_level_and_probability(search: Judge) -> None:
    document = search({20: 0.92})
    lines = write_git_log(document).splitlines()
    verdicts = {line.split()[-1]: line.split()[2] for line in lines if line.startswith("git ")}
    for tested in document.tested[1:-1]:
        assert verdicts[tested.commit.hash] == ("good" if tested.position < 20 else "bad")
        place = lines.index(f"git bisect {verdicts[tested.commit.hash]} {tested.commit.hash}")
        assert lines[place - 2].startswith("# level ")
        assert (
            f"probability {tested.probability:.3f}, {len(tested.boots)} boots" in lines[place - 2]
        )


def test_of_several_named_commits_the_largest_change_decides(
    search: Judge, replay: Callable[..., str], commits: list[Commit]
) -> None:
    document = search({7: 0.94, 18: 1.14, 29: 0.94})
    assert len(document.named) == 3
    [conclusion] = conclusions(replay(document))
    assert f"[{commits[18].hash}]" in conclusion
    log = write_git_log(document)
    start = f"git bisect start '--first-parent' '{commits[28].hash}' '{commits[7].hash}'"
    assert start in log.splitlines()
    assert {commits[0].hash, commits[6].hash, commits[29].hash}.isdisjoint(log.split())


def test_untestable_commits_are_skipped_and_stay_possible(
    search: Judge, replay: Callable[..., str], commits: list[Commit]
) -> None:
    document = search({22: 0.92}, untestable=(4, 21, 22))
    found = conclusions(replay(document))
    expected = {commits[i].hash for i in (21, 22, 23)}
    assert {line.split("[")[1][:40] for line in found} == expected
    own = conclusions(write_git_log(document))
    assert {line.split("[")[1][:40] for line in own} == expected
    assert f"git bisect skip {commits[4].hash}\n" in write_git_log(document)


@pytest.mark.parametrize(
    ("steps", "most_boots", "status"), [({20: 0.92}, 25, "more-boots"), ({}, 1000, "no-change")]
)
def test_without_a_named_commit_no_tested_commit_is_good_or_bad(
    search: Judge, replay: Callable[..., str], steps: Mapping[int, float], most_boots: int,
    status: str,
) -> None:  # fmt: skip
    document = search(steps, most_boots=most_boots)
    log = write_git_log(document)
    assert f"# no commit is named: {status}\n" in log
    assert [line.split()[2] for line in log.splitlines() if line.startswith("git ")] == ["start"]
    assert conclusions(replay(document)) == []


def test_no_text_of_a_commit_is_a_command(search: Judge) -> None:
    log = write_git_log(search({20: 0.92}))
    assert "\x1b" not in log
    assert "\u202e" not in log
    assert all(line.startswith(("# ", "git bisect ")) for line in log.splitlines())


def test_a_named_commit_of_a_merged_branch_is_found_in_the_branch(
    replay: Callable[..., str], commits: list[Commit], tmp_path: Path
) -> None:
    repository = Repository(tmp_path / "linux")
    [inside] = repository.branches(commits[20].hash, commits[19].hash)
    alike = (0, 0, 0, 20, 20, 20)
    branch = Branch(merge=commits[20].hash, commits=inside, alike=alike)
    document = Search(commits, {20: 0.92}, branch=branch).finish()
    assert [named.commits[-1].subject for named in document.named] == ["topic 20 2"]
    [conclusion] = conclusions(replay(document))
    assert f"[{inside[3].hash}] topic 20 2" in conclusion
    start = f"git bisect start '--first-parent' '{inside[-1].hash}' '{inside[0].hash}'"
    assert start in write_git_log(document).splitlines()
