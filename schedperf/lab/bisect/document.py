# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record that ``schedperf bisect`` writes: what the boots of a range show so far."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from schedperf.inputs.git import Commit
from schedperf.lab.bisect.changes import (
    FEWEST,
    Change,
    Count,
    Positive,
    bound_ratio,
    compare_commits,
)
from schedperf.lab.bisect.checks import boots_to_differ
from schedperf.lab.bisect.estimate import Estimate, estimate_left
from schedperf.lab.bisect.rule import Bisection, Check, Phase, Step
from schedperf.lab.bisect.tested import BootedCommit, describe_tested

SCHEMA = "schedperf/bisect/1"

Status = Literal["named", "no-change", "withheld", "more-boots"]
Unsearched = Literal["no-merge-base", "untestable"]
TrialKind = Literal["revert", "feature", "alignment"]
TrialResult = Literal["present", "absent", "undecided", "impossible"]
BranchResult = Literal["named", "excluded", "undecided", "withheld", "unfinished", Unsearched]

# Longest list of candidates; more than a hundred show nothing yet.
MOST_CANDIDATES = 100

Commits = Annotated[
    tuple[Commit, ...],
    "one commit; or several, oldest first, that cannot be distinguished because only the last one "
    "can be tested",
    Meta(min_length=1),
]
Probability = Annotated[
    float, "probability that the first bad commit is among them, from 0 to 1", Meta(ge=0, le=1)
]


class NextBoots(Struct, frozen=True, kw_only=True):
    """The boots to make next."""

    commit: Commit
    boots: Count
    phase: Annotated[Phase, "to compare the ends, to search, or to check the suspect"]
    suspect: Annotated[
        Commit | None, "commit whose probability reached 0.99; null outside of a check"
    ]
    good: Annotated[Commit, "older end of the range that is searched now"]
    bad: Annotated[Commit, "newer end of this range"]
    merge: Annotated[
        Commit | None, "merge whose branch has this range; null if it is part of the whole range"
    ]
    left: Annotated[
        Estimate | None, "what the search of this range needs; null while its ends have few boots"
    ]


class Candidate(Struct, frozen=True, kw_only=True):
    """A commit that may be the first bad one of the range that is searched now."""

    commits: Commits
    probability: Probability
    boots: Annotated[Count, "boots of the commit, first boot included"]


class Merge(Struct, frozen=True, kw_only=True):
    """A merge by which a commit came."""

    commit: Commit
    change: Annotated[Change, "of the merge, or of the set that it cannot be distinguished from"]


class MergedBranch(Struct, frozen=True, kw_only=True):
    """A branch of a merge that changes the result."""

    merge: Commit
    good: Annotated[Commit | None, "merge base; null if there is none, or several"]
    bad: Annotated[Commit, "tip of the branch"]
    commits: Annotated[
        int | None, "commits of the branch by first parents; null without a merge base"
    ]
    change: Annotated[Change | None, "bad / good; null with less than 2 usable boots of either"]
    result: Annotated[
        BranchResult,
        "named: commits of it are named, instead of the merge; excluded: the 95% CIs of its change "
        "and that of the merge are apart; undecided: its ends do not differ significantly, but the "
        "CIs overlap; withheld: its ends differ, but no commit is named; unfinished: more boots "
        "are needed; no-merge-base: not searched, because there is none, or several; untestable: "
        "not searched, because one of its ends cannot be tested",
    ]
    tested: Annotated[
        tuple[BootedCommit, ...],
        "the commits of the branch with boots, oldest first; empty if it was not searched",
    ]


class Trial(Struct, frozen=True, kw_only=True):
    """A test of whether a named commit causes the change, on boots made for it, interleaved."""

    kind: Annotated[
        TrialKind,
        "revert: the newest kernel, and the same with the commit reverted; feature: the named "
        "commit, with a scheduler feature that it guards on, and off; alignment: commit and "
        "parent, both built with functions and per-CPU variables aligned to 64 bytes",
    ]
    kernel: Annotated[Commit, "the newest kernel for a revert, else the named commit"]
    feature: Annotated[str | None, "name of the scheduler feature; null for other kinds"]
    change: Annotated[
        Change | None,
        "with / without what is tested: newest / reverted, on / off, or commit / parent; null if "
        "nothing was measured",
    ]
    p: Annotated[float | None, "one-sided, that of the last look; null if nothing was measured"]
    result: Annotated[
        TrialResult,
        "present: the change is there with what is tested, and not without it; absent: the end of "
        "the 95% CI is below half of the named change; undecided: neither after the last look; "
        "impossible: see the reason",
    ]
    reason: Annotated[str | None, "why it is impossible; null if it was measured"]


class NamedCommit(Struct, frozen=True, kw_only=True):
    """A commit that changes the result, reproduced on fresh boots."""

    commits: Commits
    parent: Commit
    probability: Annotated[Probability, "at the end of the search, before the check"]
    check: Check
    change: Change
    merges: Annotated[
        tuple[Merge, ...],
        "if it is a commit of a branch: the merges by which it came into the range, last one of "
        "the range itself",
    ]
    trials: Annotated[tuple[Trial, ...], "empty if none was asked for"] = ()


class OpenRange(Struct, frozen=True, kw_only=True):
    """A range that differs at its ends, but in which no commit is named."""

    good: Commit
    bad: Commit
    commits: Annotated[Commits, "the most probable ones"]
    probability: Probability
    check: Annotated[Check | None, "the check that failed; null if the boots were used up before"]


class BisectDocument(Struct, frozen=True, kw_only=True):
    """What the boots of a range of commits show so far."""

    schema: str = SCHEMA
    good: Commit
    bad: Commit
    commits: Annotated[Count, "commits of the range, without the good one"]
    untestable: Annotated[
        tuple[Commit, ...], "commits of the searched ranges that cannot be tested"
    ]
    reasons: Annotated[
        Mapping[str, str], "why commits are untestable, by hash; without those that are left out"
    ]
    emulated: Annotated[
        bool | None, "true if the CPUs were emulated in software; null if it is not known"
    ] = None
    boots: Annotated[Count, "boots of the searched ranges, first boots included"]
    not_used: Annotated[
        Mapping[str, Count], "boots of commits that are untestable or not in these ranges, by hash"
    ]
    status: Annotated[
        Status,
        "named: a commit is named, and no range is left to search; no-change: the ends do not "
        "differ; withheld: they do, but no commit is named; more-boots: make those of `next`",
    ]
    next: Annotated[NextBoots | None, "null if the search is over"]
    change: Annotated[Change | None, "bad / good; null with less than 2 usable boots of either"]
    needed_boots: Annotated[
        int | None,
        "boots of each end that would show the measured change, or one of 1% if it is smaller, "
        "with a power of 80%; null unless the status is no-change",
    ]
    most_boots: Annotated[Count, "boots after which the search of a range is given up"]
    explained: Annotated[
        Positive | None, "product of the ratios of the named commits; null if none is named"
    ]
    unexplained: Annotated[
        Positive | None, "ratio of `change` / `explained`; null if one of them is null"
    ]
    candidates: Annotated[
        tuple[Candidate, ...],
        "the 100 most probable ones, most probable first; empty while the ends have less than 2 "
        "usable boots, and if nothing is left to search",
    ]
    named: Annotated[
        tuple[NamedCommit, ...],
        "those of the range first, then those of branches; without merges whose branches have a "
        "named commit",
    ]
    open: tuple[OpenRange, ...]
    branches: Annotated[
        tuple[MergedBranch, ...], "what the merges that change the result have merged"
    ]
    tested: Annotated[tuple[BootedCommit, ...], "the commits of the range with boots, oldest first"]

    def steps_in(self, tested: Sequence[BootedCommit]) -> list[int]:
        """Return the indices of the commits that are named, or merged a branch with a named one.

        :param tested: the tested commits of the range, or of a branch
        """
        steps = {
            commit.hash
            for named in self.named
            for commit in (named.commits[-1], *(merge.commit for merge in named.merges))
        }
        return [i for i, each in enumerate(tested) if i and each.commit.hash in steps]


class Searched(Struct, frozen=True, kw_only=True):
    """The search of the range, or of a branch.

    :param groups: as :func:`group_commits` returns them; the search knows each by its index
    :param merges: the merges by which a branch came, last one of the range itself
    """

    groups: Sequence[tuple[Commit, ...]]
    bisection: Bisection
    merges: tuple[Merge, ...] = ()

    def change_at(self, step: Step) -> Change:
        """Return the change from the parent of a named commit to it."""
        change = compare_commits(self.bisection, step.commit - 1, step.commit)
        # The check made four boots of each.
        assert change is not None
        return change

    def whole_change(self) -> Change | None:
        """Return the change from one end to the other; None with too few boots."""
        return compare_commits(self.bisection, 0, len(self.groups) - 1)


def group_commits(
    commits: Sequence[Commit], untestable: Collection[str]
) -> list[tuple[Commit, ...]]:
    """Return the sets of commits that boots can distinguish, oldest first.

    Each set ends with a commit that can be tested; the others of the set, before it, cannot.

    :param commits: oldest first; the last one can be tested
    :param untestable: hashes
    """
    groups: list[tuple[Commit, ...]] = []
    group: list[Commit] = []
    for commit in commits:
        group.append(commit)
        if commit.hash not in untestable:
            groups.append(tuple(group))
            group = []
    return groups


def make_document(
    searches: Sequence[Searched],
    unsearched: Sequence[MergedBranch],
    boots: Sequence[str],
    *,
    reasons: Mapping[str, str],
    is_final: bool,
) -> BisectDocument:
    """Return the record of a search.

    :param searches: that of the range, then those of branches
    :param unsearched: branches that cannot be searched
    :param boots: hashes of the booted commits, one per boot
    :param reasons: why commits are untestable, by hash
    :param is_final: whether no more boots can be made
    """
    whole, *inner = searches
    groups = whole.groups
    made = Counter(boots)
    used = {group[-1].hash for search in searches for group in search.groups}
    untestable = tuple(
        commit for search in searches for group in search.groups for commit in group[:-1]
    )
    named = _named(searches)
    change = whole.whole_change()
    explained = bound_ratio(math.prod(each.change.ratio for each in named)) if named else None
    visited = next((each for each in searches if each.bisection.visit is not None), None)
    withheld = [each for each in searches if each.bisection.withheld]
    current = visited or next(iter(withheld), None)
    status: Status = "named" if named else "no-change" if current is None else "withheld"
    return BisectDocument(
        good=groups[0][-1],
        bad=groups[-1][-1],
        commits=sum(map(len, groups[1:])),
        untestable=untestable,
        reasons={each.hash: reasons[each.hash] for each in untestable if each.hash in reasons},
        boots=sum(made[commit] for commit in used),
        not_used={commit: number for commit, number in made.items() if commit not in used},
        status=status if visited is None or is_final else "more-boots",
        next=None if visited is None else _next_boots(visited),
        change=change,
        needed_boots=_needed_boots(whole) if status == "no-change" and visited is None else None,
        most_boots=whole.bisection.most_boots,
        explained=explained,
        unexplained=bound_ratio(change.ratio / explained) if change and explained else None,
        candidates=() if current is None else _candidates(current.groups, current.bisection),
        named=named,
        open=tuple(
            OpenRange(
                good=search.groups[each.first][-1],
                bad=search.groups[each.last][-1],
                commits=search.groups[each.commit],
                probability=each.probability,
                check=each.check,
            )
            for search in withheld
            for each in search.bisection.withheld
        ),
        branches=(*map(_branch, inner), *unsearched),
        tested=describe_tested(groups, whole.bisection),
    )


def make_unsearched(commits: Sequence[Commit], merge: Merge, reason: Unsearched) -> MergedBranch:
    """Return the record of a branch that cannot be searched.

    :param commits: from the merge base to the tip; only the tip without a merge base
    """
    has_base = reason != "no-merge-base"
    return MergedBranch(
        merge=merge.commit,
        good=commits[0] if has_base else None,
        bad=commits[-1],
        commits=len(commits) - 1 if has_base else None,
        change=None,
        result=reason,
        tested=(),
    )


def _named(searches: Sequence[Searched]) -> tuple[NamedCommit, ...]:
    """Return the named commits, without merges whose branches have one."""
    explained = {
        search.merges[0].commit.hash
        for search in searches
        if search.merges and search.bisection.steps
    }
    return tuple(
        NamedCommit(
            commits=search.groups[step.commit],
            parent=search.groups[step.commit - 1][-1],
            probability=step.probability,
            check=step.check,
            change=search.change_at(step),
            merges=search.merges,
        )
        for search in searches
        for step in search.bisection.steps
        if explained.isdisjoint(each.hash for each in search.groups[step.commit])
    )


def _branch(search: Searched) -> MergedBranch:
    return MergedBranch(
        merge=search.merges[0].commit,
        good=search.groups[0][-1],
        bad=search.groups[-1][-1],
        commits=sum(map(len, search.groups[1:])),
        change=search.whole_change(),
        result=_branch_result(search),
        tested=describe_tested(search.groups, search.bisection),
    )


def _branch_result(search: Searched) -> BranchResult:
    if search.bisection.steps:
        return "named"
    if search.bisection.visit is not None:
        return "unfinished"
    if search.bisection.withheld:
        return "withheld"
    branch, merge = search.whole_change(), search.merges[0].change
    # Its ends were compared.
    assert branch is not None
    is_apart = branch.ci_high < merge.ci_low or merge.ci_high < branch.ci_low
    return "excluded" if is_apart else "undecided"


def _needed_boots(whole: Searched) -> int | None:
    ends = whole.bisection.boots(0), whole.bisection.boots(len(whole.groups) - 1)
    return boots_to_differ(*ends) if min(map(len, ends)) >= FEWEST else None


def _next_boots(search: Searched) -> NextBoots:
    groups, bisection, visit = search.groups, search.bisection, search.bisection.visit
    assert visit is not None
    return NextBoots(
        commit=groups[visit.commit][-1],
        boots=visit.boots,
        phase=visit.phase,
        suspect=None if visit.suspect is None else groups[visit.suspect][-1],
        good=groups[bisection.first][-1],
        bad=groups[bisection.last][-1],
        merge=search.merges[0].commit if search.merges else None,
        left=estimate_left(bisection),
    )


def _candidates(
    groups: Sequence[tuple[Commit, ...]], bisection: Bisection
) -> tuple[Candidate, ...]:
    probabilities = bisection.probabilities()
    if probabilities is None:
        return ()
    first = bisection.first + 1
    # Of equally probable commits, the oldest is listed first.
    order = (-probabilities).argsort(kind="stable")[:MOST_CANDIDATES]
    return tuple(
        Candidate(
            commits=groups[first + index],
            probability=float(probabilities[index]),
            boots=bisection.spent(first + index, first + index),
        )
        for index in map(int, order)
    )
