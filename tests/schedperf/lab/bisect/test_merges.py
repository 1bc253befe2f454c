# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.bisect.judge: merges that are named, and the branches that they merged."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from schedperf.commands._bisect_text import format_document
from schedperf.inputs.git import Repository
from schedperf.lab.bisect.document import BisectDocument
from schedperf.lab.bisect.judge import Options, judge, read_range
from schedperf.lab.bisect.rule import MOST_BOOTS
from tests.bisections import no_estimates
from tests.git_repository import Git, init_git

History = Mapping[str, Sequence[str]]

MAIN: History = {"c0": (), "c1": ["c0"], "c2": ["c1"]}
BRANCH: History = {"b1": ["c0"], "b2": ["b1"], "b3": ["b2"]}
ONE_BRANCH: History = {**MAIN, **BRANCH, "merge": ["c2", "b3"], "c3": ["merge"], "c4": ["c3"]}
OCTOPUS: History = {
    **MAIN, **BRANCH, "d1": ["b1"], "d2": ["d1"], "merge": ["c2", "b3", "d2"], "c3": ["merge"],
}  # fmt: skip
NESTED: History = {
    **MAIN, **BRANCH, "d1": ["b1"], "d2": ["d1"], "inner": ["b3", "d2"], "b4": ["inner"],
    "merge": ["c2", "b4"], "c3": ["merge"],
}  # fmt: skip
BACK_MERGE: History = {
    **MAIN, "b1": ["c0"], "back": ["b1", "c1"], "b2": ["back"], "merge": ["c2", "b2"],
    "c3": ["merge"],
}  # fmt: skip


class Lab:
    """A machine that boots the commits of a repository.

    A commit has the changes of all commits of its history.

    :param history: parents of each commit, by its subject; the last one is the bad end
    :param causes: new / old of the commits that change the result
    """

    def __init__(
        self, folder: Path, history: History, causes: Mapping[str, float], sd: float = 0.01
    ) -> None:
        self.git: Git = init_git(folder)
        self.hashes: dict[str, str] = {}
        self.boots: list[tuple[str, float]] = []
        self._repository = Repository(folder)
        self._causes = causes
        self._generator = np.random.default_rng(1)
        self._sd = sd
        tree = self.git("write-tree")
        for subject, parents in history.items():
            words = [word for each in parents for word in ("-p", self.hashes[each])]
            self.hashes[subject] = self.git("commit-tree", tree, *words, "-m", subject)
        self.git("update-ref", "refs/heads/main", self.hashes[subject])

    def boot(self, subject: str, times: int) -> None:
        """Boot a commit."""
        commit = self.hashes[subject]
        ancestors = self.git("log", "--format=%s", commit).split()
        level = math.prod(ratio for cause, ratio in self._causes.items() if cause in ancestors)
        for _ in range(times):
            noise = self._sd * self._generator.standard_normal()
            self.boots.append((commit, 100.0 * level * math.exp(noise)))

    def judge(self, untestable: Collection[str] = (), *, is_final: bool = False) -> BisectDocument:
        """Judge the boots so far."""
        span = read_range(self._repository, self.hashes["c0"], "main", Options())
        skipped = {self.hashes[each] for each in untestable}
        return judge(span, self.boots, skipped, is_final=is_final)

    def search(self, *untestable: str) -> BisectDocument:
        """Make the boots that are asked for, until none is; return the record."""
        span = read_range(self._repository, self.hashes["c0"], "main", Options())
        skipped = {self.hashes[each] for each in untestable}
        with no_estimates():
            while (asked := (found := judge(span, self.boots, skipped)).next) is not None:
                self.boot(asked.commit.subject, asked.boots)
        return found


MakeLab = Callable[..., Lab]


@pytest.fixture
def make_lab(tmp_path: Path) -> MakeLab:
    """Return a function that makes a lab for a history and its causes."""

    def make(history: History, causes: Mapping[str, float], **options: float) -> Lab:
        return Lab(tmp_path / "linux", history, causes, **options)

    return make


def names(found: BisectDocument) -> list[tuple[str, ...]]:
    """Return the subjects of each named commit, and of the merges by which it came."""
    return [
        (each.commits[-1].subject, *(merge.commit.subject for merge in each.merges))
        for each in found.named
    ]


def results(found: BisectDocument) -> dict[tuple[str, str], str]:
    """Return the result of each branch, by the subjects of its merge and its tip."""
    return {(each.merge.subject, each.bad.subject): each.result for each in found.branches}


@pytest.mark.parametrize("cause", ["b1", "b2", "b3"])
def test_a_cause_in_a_branch_is_named_instead_of_the_merge(make_lab: MakeLab, cause: str) -> None:
    lab = make_lab(ONE_BRANCH, {cause: 0.9})
    found = lab.search()
    assert found.status == "named"
    assert names(found) == [(cause, "merge")]
    assert results(found) == {("merge", "b3"): "named"}
    [named] = found.named
    # The cause counts once, not as the merge and as its commit.
    assert found.explained == named.change.ratio == pytest.approx(0.9, abs=0.02)
    assert named.merges[0].change.ratio == pytest.approx(0.9, abs=0.02)
    assert found.boots == len(lab.boots)
    assert found.not_used == {}
    printed = format_document(found)
    short = {subject: commit[:12] for subject, commit in lab.hashes.items()}
    assert printed.startswith(
        f'first bad commit  {short[cause]} ("{cause}")\n'
        f'merged by         {short["merge"]} ("merge"), -'
    )
    assert (
        f"merged branch     {short['c0']}..{short['b3']}, 3 commits, by {short['merge']}" in printed
    )


def test_a_merge_whose_branch_alone_does_not_differ_is_the_first_bad_commit(
    make_lab: MakeLab,
) -> None:
    lab = make_lab(ONE_BRANCH, {"merge": 0.9})
    found = lab.search()
    assert names(found) == [("merge",)]
    [branch] = found.branches
    assert (branch.result, branch.commits) == ("excluded", 3)
    assert branch.change is not None
    assert branch.change.ci_low < 1.0 < branch.change.ci_high
    assert found.boots == len(lab.boots)
    assert (
        "merged branches alone do not have it: the merge itself is the first bad commit\n"
        in format_document(found)
    )


def test_a_branch_that_differs_in_the_other_direction_is_not_searched(make_lab: MakeLab) -> None:
    lab = make_lab(ONE_BRANCH, {"b2": 1.1, "merge": 0.8})
    found = lab.search()
    assert names(found) == [("merge",)]
    assert results(found) == {("merge", "b3"): "excluded"}
    assert not {commit for commit, _ in lab.boots} & {lab.hashes[each] for each in ("b1", "b2")}


def test_a_branch_whose_ends_differ_too_little_for_its_boots_does_not_accuse_the_merge(
    make_lab: MakeLab,
) -> None:
    lab = make_lab(ONE_BRANCH, {"b2": 0.98}, sd=0.025)
    found = lab.search()
    assert names(found) == [("merge",)]
    assert results(found) == {("merge", "b3"): "undecided"}
    printed = format_document(found)
    assert "its ends do not differ significantly, but its 95% CI overlaps" in printed
    assert "the merge itself" not in printed


@pytest.mark.parametrize(
    ("cause", "by"),
    [("d2", ["inner", "merge"]), ("b2", ["merge"]), ("b4", ["merge"]), ("inner", ["merge"])],
)
def test_a_merge_in_a_branch_is_searched_in_the_same_way(
    make_lab: MakeLab, cause: str, by: Sequence[str]
) -> None:
    lab = make_lab(NESTED, {cause: 0.9})
    found = lab.search()
    assert names(found) == [(cause, *by)]
    assert found.boots == len(lab.boots)
    assert results(found)["merge", "b4"] == "named"
    assert results(found).get(("inner", "d2")) == {"d2": "named", "inner": "excluded"}.get(cause)


@pytest.mark.parametrize(
    ("cause", "branch"), [("b1", "b3"), ("b2", "b3"), ("d1", "d2"), ("merge", None)]
)
def test_each_branch_of_an_octopus_merge_is_searched(
    make_lab: MakeLab, cause: str, branch: str | None
) -> None:
    found = make_lab(OCTOPUS, {cause: 0.9}).search()
    assert names(found) == [("merge",) if branch is None else (cause, "merge")]
    # Both branches contain b1, which belongs to the first.
    assert results(found) == {
        ("merge", tip): "named" if tip == branch else "excluded" for tip in ("b3", "d2")
    }


def test_a_branch_that_merged_the_range_is_searched_on_both_sides_of_that_merge(
    make_lab: MakeLab,
) -> None:
    found = make_lab(BACK_MERGE, {"b1": 0.9}).search()
    assert names(found) == [("b1", "back", "merge")]
    outer, inner = found.branches
    assert [each.good and each.good.subject for each in (outer, inner)] == ["c1", "c0"]


def test_a_branch_that_is_already_merged_adds_nothing(make_lab: MakeLab) -> None:
    found = make_lab({**MAIN, "merge": ["c2", "c1"], "c3": ["merge"]}, {"merge": 0.9}).search()
    assert names(found) == [("merge",)]
    assert found.branches == ()


@pytest.mark.parametrize(
    ("branch", "cause"),
    [
        ({"r1": (), "r2": ["r1"]}, "r1"),
        # Both have merged the other's first commit.
        ({"r0": ["c0"], "back": ["c2", "r0"], "r1": ["r0", "c1"], "r2": ["r1"]}, "r2"),
    ],
    ids=["unrelated", "criss-cross"],
)
def test_a_branch_without_a_single_merge_base_is_not_searched(
    make_lab: MakeLab, branch: History, cause: str
) -> None:
    parent = "back" if "back" in branch else "c2"
    history = {**MAIN, **branch, "merge": [parent, "r2"], "c3": ["merge"]}
    found = make_lab(history, {cause: 0.9}).search()
    assert names(found) == [("merge",)]
    [searched] = found.branches
    assert (searched.good, searched.commits, searched.result) == (None, None, "no-merge-base")
    assert "not searched: no merge base, or several" in format_document(found)


def test_a_branch_may_begin_before_the_range(make_lab: MakeLab) -> None:
    history = {"old": (), **MAIN, "c0": ["old"], "b1": ["old"], "b2": ["b1"], "merge": ["c2", "b2"]}
    lab = make_lab(history, {"b2": 0.9})
    found = lab.search()
    assert names(found) == [("b2", "merge")]
    assert lab.hashes["old"] in {commit for commit, _ in lab.boots}
    assert found.boots == len(lab.boots)


def test_two_causes_one_of_them_in_a_branch(make_lab: MakeLab) -> None:
    found = make_lab(ONE_BRANCH, {"c1": 0.9, "b2": 0.85}).search()
    assert sorted(names(found)) == [("b2", "merge"), ("c1",)]
    assert found.explained == pytest.approx(0.9 * 0.85, abs=0.03)


def test_two_causes_in_one_branch(make_lab: MakeLab) -> None:
    found = make_lab(ONE_BRANCH, {"b1": 0.9, "b3": 0.85}).search()
    assert sorted(names(found)) == [("b1", "merge"), ("b3", "merge")]
    assert found.explained == pytest.approx(0.9 * 0.85, abs=0.03)


def test_untestable_commits_of_a_branch_are_named_with_the_one_after_them(
    make_lab: MakeLab,
) -> None:
    found = make_lab(ONE_BRANCH, {"b1": 0.9}).search("b1")
    [named] = found.named
    assert [each.subject for each in named.commits] == ["b1", "b2"]
    assert [each.subject for each in found.untestable] == ["b1"]


def test_an_untestable_merge_is_searched_too(make_lab: MakeLab) -> None:
    found = make_lab(ONE_BRANCH, {"b2": 0.9}).search("merge")
    assert names(found) == [("b2", "merge")]


@pytest.mark.parametrize("end", ["b3", "base"])
def test_a_branch_with_an_untestable_end_is_not_searched(make_lab: MakeLab, end: str) -> None:
    history = {**MAIN, "base": ["c2"], "c3": ["base"], "b3": ["base"], "merge": ["c3", "b3"]}
    lab = make_lab(history, {"b3": 0.9})
    found = lab.search(end)
    assert names(found) == [("merge",)]
    assert results(found) == {("merge", "b3"): "untestable"}
    assert "not searched: one of its ends cannot be tested" in format_document(found)


def test_boots_of_a_branch_count_once_its_merge_is_named(make_lab: MakeLab) -> None:
    lab = make_lab(ONE_BRANCH, {"b2": 0.9})
    lab.boot("b3", 9)
    assert lab.judge().not_used == {lab.hashes["b3"]: 9}
    for subject in ("c0", "c4", "c2", "merge"):
        lab.boot(subject, 9)
    for _ in range(4):
        for subject in ("c2", "merge"):
            lab.boot(subject, 1)
    found = lab.judge()
    assert found.not_used == {}
    assert found.boots == len(lab.boots)
    # Both ends of the branch have their boots, so they are compared at once.
    assert found.next is not None
    assert found.next.merge is not None
    assert (found.next.phase, found.next.good.subject) == ("search", "c0")
    assert names(found) == [("merge",)]


def test_the_search_of_a_branch_is_asked_for_and_may_stay_unfinished(make_lab: MakeLab) -> None:
    lab = make_lab(ONE_BRANCH, {"b2": 0.9})
    while (asked := lab.judge().next) is not None and asked.merge is None:
        lab.boot(asked.commit.subject, asked.boots)
    assert asked is not None
    assert asked.merge is not None
    assert (asked.merge.subject, asked.good.subject, asked.bad.subject) == ("merge", "c0", "b3")
    # The good end was booted before, as that of the range.
    assert asked.commit.subject == "b3"
    merge = lab.hashes["merge"][:12]
    assert f"differ, in the branch of {merge}\n" in format_document(lab.judge())
    found = lab.judge(is_final=True)
    assert (found.status, names(found)) == ("named", [("merge",)])
    assert results(found) == {("merge", "b3"): "unfinished"}


def test_the_search_of_a_branch_ends_after_the_most_boots(make_lab: MakeLab) -> None:
    # Each commit of the branch changes the result a little.
    branch = {f"b{number}": [f"b{number - 1}"] for number in range(1, 9)}
    history = {**MAIN, **branch, "b1": ["c0"], "merge": ["c2", "b8"]}
    lab = make_lab(history, dict.fromkeys(branch, 1.01), sd=0.005)
    found = lab.search()
    assert names(found) == [("merge",)]
    assert results(found) == {("merge", "b8"): "withheld"}
    [part] = found.open
    assert (part.good.subject, part.bad.subject, part.check) == ("c0", "b8", None)
    inside = {lab.hashes[each] for each in ("c0", *branch)}
    assert MOST_BOOTS <= sum(commit in inside for commit, _ in lab.boots) <= MOST_BOOTS + 2
    assert found.boots == len(lab.boots) > MOST_BOOTS
