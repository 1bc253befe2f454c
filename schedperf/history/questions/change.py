# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare two times of a history: the change of new / reference between them, with intervals.

Each time is the last nights up to a date. The unit of replication is the night; the two groups of
nights are compared by Welch's test, and the p values are corrected over all series.
"""

import math
from collections.abc import Sequence
from datetime import date
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from schedperf.history.questions.history import History
from schedperf.history.questions.records import Analysed, Night, Series
from schedperf.model.errors import InputError
from schedperf.stats import false_discovery, welch_difference

# Nights of each time.
WEEK = 7
# Values of a group that an interval needs.
_FEWEST = 2
# A time needs a night within so many days before it.
_LATEST_DAYS = 31
_DISCOVERED = 0.05
Word = Literal["worse", "better", "higher", "lower", "no significant change", "unknown"]


class Change(Struct, frozen=True, kw_only=True):
    """The change of a series between two times.

    :param nights_before: nights of the first time
    :param change: of new / reference, or of the value if ``is_paired`` is false; a fraction, or a
        difference in the unit if ``is_log`` is false; None if it cannot be stated
    :param ci_low: lower end of its 95% CI
    :param q: p value after multiple-testing correction
    :param why: why nothing is stated; None if something is
    """

    series: Series
    is_paired: bool
    is_log: bool
    nights_before: int
    nights_after: int
    change: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    q: float | None
    word: Word
    why: str | None


def parse_date(text: str) -> int:
    """Return a date as days since the year 1.

    :raises InputError: it is not a date
    """
    try:
        return date.fromisoformat(text).toordinal()
    except ValueError:
        raise InputError(f"{text}: invalid date (expected e.g. 2026-10-30)") from None


def compare_times(
    history: History, before: str, after: str, nights: int = WEEK
) -> tuple[Change, ...]:
    """Return the changes of all series: first those that are significant, and largest.

    :param before: a date: 2026-10-30
    :param nights: how many nights up to a date are compared
    :raises InputError: a date is invalid, or the second is not after the first
    """
    first, second = parse_date(before), parse_date(after)
    if first >= second:
        raise InputError(
            f"{after}: not after {before} (expected the earlier date first); exchange them"
        )
    by_key = history.all_nights()
    found = [
        _compare(each, by_key[each.key], (first, second), nights)
        for each in history.series()
        if each.key in by_key
    ]
    return tuple(sorted(_correct(found), key=_rank))


def _rank(change: Change) -> tuple[bool, bool, float]:
    is_significant = change.q is not None and change.q < _DISCOVERED
    return change.change is None, not is_significant, -abs(change.change or 0.0)


def _compare(
    series: Series, nights: Sequence[Night], times: tuple[int, int], number: int
) -> Change:
    groups = [_up_to(nights, time, number) for time in times]
    analysed = Analysed.of(nights)
    values = [Analysed.of(group).measured for group in groups]
    shown = Change(
        series=series,
        is_paired=analysed.is_paired,
        is_log=analysed.is_log,
        nights_before=len(values[0]),
        nights_after=len(values[1]),
        change=None,
        ci_low=None,
        ci_high=None,
        p=None,
        q=None,
        word="unknown",
        why=_why_not(groups, values, is_paired=analysed.is_paired),
    )
    if shown.why is not None:
        return shown
    found = welch_difference(values[0], values[1])
    scale = math.expm1 if analysed.is_log else float
    return replace(
        shown,
        change=None if found.difference is None else scale(found.difference),
        ci_low=None if found.ci_low is None else scale(found.ci_low),
        ci_high=None if found.ci_high is None else scale(found.ci_high),
        p=found.p,
    )


def _up_to(nights: Sequence[Night], day: int, number: int) -> list[Night]:
    """Return the last nights with a value up to a day; lost nights are left out."""
    return [
        night
        for night in nights
        if night.new is not None and night.day is not None and day - _LATEST_DAYS < night.day <= day
    ][-number:]


def _why_not(
    groups: Sequence[Sequence[Night]], values: Sequence[Sequence[float]], *, is_paired: bool
) -> str | None:
    for group, time in zip(values, ("first", "second"), strict=True):
        if len(group) < _FEWEST:
            return (
                f"{len(group)} nights in the {_LATEST_DAYS} days before the {time} date (expected "
                f"{_FEWEST} or more)"
            )
    if {night.position for night in groups[0]} & {night.position for night in groups[1]}:
        return "the same nights are before both dates"
    references = {night.reference_revision for group in groups for night in group} - {None}
    if is_paired and len(references) > 1:
        return "the reference kernel was renewed between the dates"
    return None


def _correct(changes: Sequence[Change]) -> list[Change]:
    p = np.array([math.nan if each.p is None else each.p for each in changes])
    q = false_discovery(p, np.zeros(len(p), dtype=np.int64)) if len(p) else p
    return [
        replace(each, q=None if math.isnan(number) else float(number), word=_word(each, number))
        for each, number in zip(changes, q, strict=True)
    ]


def _word(change: Change, q: float) -> Word:
    if change.change is None:
        return "unknown"
    if math.isnan(q) or q >= _DISCOVERED:
        return "no significant change"
    is_higher = change.change > 0.0
    if change.series.better not in {"higher", "lower"}:
        return "higher" if is_higher else "lower"
    return "better" if is_higher == (change.series.better == "higher") else "worse"
