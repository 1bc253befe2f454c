# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record that ``schedperf bisect`` writes: what the boots of a range show so far."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Struct

from schedperf.inputs.git import Commit
from schedperf.lab.bisect.rule import Bisection, Check, Phase, Visit
from schedperf.stats.welch import welch_difference

Status = Literal["named", "no-change", "withheld", "more-boots"]

# Longest list of candidates; more than a hundred show nothing yet.
MOST_CANDIDATES = 100
# Fewest boots of a commit for an interval.
_FEWEST = 2
# Bounds of intervals of absurd values are cut here, before they overflow a float.
_LARGEST_LOG = 700.0

Commits = Annotated[
    tuple[Commit, ...],
    "one commit; or several, oldest first, that cannot be distinguished because only the last one "
    "can be tested",
]
Probability = Annotated[float, "probability that the first bad commit is among them, from 0 to 1"]


class Change(Struct, frozen=True, kw_only=True):
    """The geometric mean of a commit divided by that of an older one, with its 95% CI.

    The interval is Welch's, on logarithms.
    """

    ratio: float
    ci_low: float
    ci_high: float
    older_boots: Annotated[int, "boots of the older commit, without its first"]
    newer_boots: Annotated[int, "boots of the newer commit, without its first"]


class NextBoots(Struct, frozen=True, kw_only=True):
    """The boots to make next."""

    commit: Commit
    boots: int
    phase: Annotated[Phase, "to compare the ends, to search, or to check the suspect"]
    suspect: Annotated[
        Commit | None, "commit whose probability reached 0.99; null outside of a check"
    ]
    good: Annotated[Commit, "older end of the range that is searched now"]
    bad: Annotated[Commit, "newer end of this range"]


class Candidate(Struct, frozen=True, kw_only=True):
    """A commit that may be the first bad one of the range that is searched now."""

    commits: Commits
    probability: Probability
    boots: Annotated[int, "boots of the commit, first boot included"]


class NamedCommit(Struct, frozen=True, kw_only=True):
    """A commit that changes the result, reproduced on fresh boots."""

    commits: Commits
    parent: Commit
    probability: Annotated[Probability, "at the end of the search, before the check"]
    check: Check
    change: Change


class OpenRange(Struct, frozen=True, kw_only=True):
    """A range that differs at its ends, but in which no commit is named."""

    good: Commit
    bad: Commit
    commits: Annotated[Commits, "the most probable ones"]
    probability: Probability
    check: Annotated[Check | None, "the check that failed; null if the boots were used up before"]


class BisectDocument(Struct, frozen=True, kw_only=True):
    """What the boots of a range of commits show so far."""

    schema: str = "schedperf/bisect/1"
    good: Commit
    bad: Commit
    commits: Annotated[int, "commits of the range, without the good one"]
    untestable: Annotated[tuple[Commit, ...], "commits of the range that cannot be tested"]
    boots: Annotated[int, "boots of the range, first boots included"]
    not_used: Annotated[
        Mapping[str, int], "boots of commits that are untestable or not in the range, by hash"
    ]
    status: Annotated[
        Status,
        "named: a commit is named, and no range is left to search; no-change: the ends do not "
        "differ; withheld: they do, but no commit is named; more-boots: make those of `next`",
    ]
    next: Annotated[NextBoots | None, "null if the search is over"]
    change: Annotated[Change | None, "bad / good; null with less than 2 usable boots of either"]
    explained: Annotated[
        float | None, "product of the ratios of the named commits; null if none is named"
    ]
    candidates: Annotated[
        tuple[Candidate, ...],
        "the 100 most probable ones, most probable first; empty while the ends have less than 2 "
        "usable boots, and if nothing is left to search",
    ]
    named: Annotated[tuple[NamedCommit, ...], "in the order in which they were found"]
    open: tuple[OpenRange, ...]


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
    groups: Sequence[tuple[Commit, ...]],
    bisection: Bisection,
    not_used: Mapping[str, int],
    *,
    is_final: bool,
) -> BisectDocument:
    """Return the record of a search.

    :param groups: as :func:`group_commits` returns them; the search knows each by its index
    :param not_used: number of boots of other commits, by hash
    :param is_final: whether no more boots can be made
    """
    steps, visit = bisection.steps, bisection.visit
    named = tuple(
        NamedCommit(
            commits=groups[step.commit],
            parent=groups[step.commit - 1][-1],
            probability=step.probability,
            check=step.check,
            change=_required_change(bisection, step.commit - 1, step.commit),
        )
        for step in steps
    )
    is_open = visit is not None or bool(bisection.withheld)
    status: Status = "named" if named else "withheld" if is_open else "no-change"
    return BisectDocument(
        good=groups[0][-1],
        bad=groups[-1][-1],
        commits=sum(map(len, groups[1:])),
        untestable=tuple(commit for group in groups for commit in group[:-1]),
        boots=bisection.spent(0, len(groups) - 1),
        not_used=not_used,
        status=status if visit is None or is_final else "more-boots",
        next=None if visit is None else _next_boots(groups, bisection, visit),
        change=_change(bisection, 0, len(groups) - 1),
        explained=math.prod(each.change.ratio for each in named) if named else None,
        candidates=_candidates(groups, bisection) if is_open else (),
        named=named,
        open=tuple(
            OpenRange(
                good=groups[each.first][-1],
                bad=groups[each.last][-1],
                commits=groups[each.commit],
                probability=each.probability,
                check=each.check,
            )
            for each in bisection.withheld
        ),
    )


def _next_boots(
    groups: Sequence[tuple[Commit, ...]], bisection: Bisection, visit: Visit
) -> NextBoots:
    return NextBoots(
        commit=groups[visit.commit][-1],
        boots=visit.boots,
        phase=visit.phase,
        suspect=None if visit.suspect is None else groups[visit.suspect][-1],
        good=groups[bisection.first][-1],
        bad=groups[bisection.last][-1],
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


def _change(bisection: Bisection, older: int, newer: int) -> Change | None:
    sides = bisection.boots(older), bisection.boots(newer)
    if min(map(len, sides)) < _FEWEST:
        return None
    found = welch_difference(*sides)
    assert found.difference is not None
    assert found.ci_low is not None
    assert found.ci_high is not None
    return Change(
        ratio=_ratio(found.difference),
        ci_low=_ratio(found.ci_low),
        ci_high=_ratio(found.ci_high),
        older_boots=len(sides[0]),
        newer_boots=len(sides[1]),
    )


def _ratio(log: float) -> float:
    return math.exp(min(max(log, -_LARGEST_LOG), _LARGEST_LOG))


def _required_change(bisection: Bisection, older: int, newer: int) -> Change:
    change = _change(bisection, older, newer)
    # The check made four boots of each.
    assert change is not None
    return change
