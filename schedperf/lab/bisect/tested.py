# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe the tested commits of a range: their boots, levels, changes and probabilities."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Annotated

from msgspec import Meta, Struct

from schedperf.inputs.git import Commit
from schedperf.lab.bisect.changes import Change, Count, Positive, compare_commits
from schedperf.lab.bisect.rule import Bisection
from schedperf.stats.one_side import interval_of_mean, mean_of

# The lower one of absurd values is 0.
End = Annotated[float, Meta(ge=0)]


class Boot(Struct, frozen=True, kw_only=True):
    """The result of one boot."""

    value: Positive
    is_used: Annotated[bool, "false for the first boot of a commit, which is often different"]


class Level(Struct, frozen=True, kw_only=True):
    """The geometric mean of the used boots of a commit, with its 95% CI.

    The interval is Student's, on logarithms; the unit of replication is the boot.
    """

    mean: Positive
    ci_low: Annotated[End | None, "null with less than 2 usable boots"]
    ci_high: Annotated[End | None, "as ci_low; null, too, if it is too large for a float"]


class BootedCommit(Struct, frozen=True, kw_only=True):
    """A commit of the range that was booted."""

    commit: Commit
    position: Annotated[
        Count, "number of commits of the range, or branch, up to it; 0 for the good end"
    ]
    boots: Annotated[tuple[Boot, ...], "in the order in which they were made"]
    level: Annotated[Level | None, "null without usable boots"]
    change: Annotated[
        Change | None,
        "level / that of the good end; null for this end, and with less than 2 usable boots of "
        "either",
    ]
    probability: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        "probability that it, or an untestable commit directly before it, is the first bad one, at "
        "the end of the last search of a range with it inside, or now during the search; null "
        "before, and for the good end",
    ]


class _Unit(Struct, frozen=True, kw_only=True):
    """A boot as a unit of replication."""

    boot: int
    round: None = None


def describe_tested(
    groups: Sequence[tuple[Commit, ...]], bisection: Bisection
) -> tuple[BootedCommit, ...]:
    """Return the commits with boots, oldest first.

    :param groups: sets of commits that boots can distinguish, oldest first; the search knows each
        by its index
    """
    probabilities = _probabilities(bisection)
    positions = [*accumulate(map(len, groups[1:]), initial=0)]
    return tuple(
        BootedCommit(
            commit=groups[index][-1],
            position=positions[index],
            boots=_boots(bisection, index),
            level=_level([boot.value for boot in _boots(bisection, index) if boot.is_used]),
            change=compare_commits(bisection, 0, index) if index else None,
            probability=probabilities.get(index),
        )
        for index in sorted({index for index, _ in bisection.history})
    )


def _probabilities(bisection: Bisection) -> Mapping[int, float]:
    is_searching = bisection.visit is not None and bisection.visit.phase == "search"
    now = bisection.probabilities() if is_searching else None
    if now is None:
        return bisection.searched
    return {**bisection.searched, **dict(enumerate(map(float, now), bisection.first + 1))}


def _boots(bisection: Bisection, index: int) -> tuple[Boot, ...]:
    values = [value for commit, value in bisection.history if commit == index]
    unused = len(values) - len(bisection.boots(index))
    return tuple(Boot(value=value, is_used=i >= unused) for i, value in enumerate(values))


def _level(values: Sequence[float]) -> Level | None:
    if not values:
        return None
    units = [_Unit(boot=number) for number in range(len(values))]
    low, high = interval_of_mean(values, units, "boots", is_log=True)
    return Level(mean=mean_of(values, is_log=True), ci_low=low, ci_high=high)
