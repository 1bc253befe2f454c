# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare two times of a history: the changes of all series between them, with intervals.

Each time is the last nights up to a date; the p values are corrected over all series.
"""

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from schedperf.history.questions.chains import read_chains
from schedperf.history.questions.history import History
from schedperf.history.questions.levels import LevelChange, Levels, Word
from schedperf.history.questions.noise import WEEK
from schedperf.history.questions.records import Night
from schedperf.inputs.git import Commit, Repository
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, cut
from schedperf.stats import false_discovery

# A time needs a night within so many days before it.
_LATEST_DAYS = 31
_DISCOVERED = 0.05
_LONGEST = 60
_DAYS = re.compile(r"\A[0-9]{1,5}d\Z")


class NewKernels(Struct, frozen=True, kw_only=True):
    """The last new kernels of both times, which some series have in common.

    :param commits: those that the second one has and the first one lacks, newest first; None
        without a repository that has both
    """

    tree: str
    before: str
    after: str
    commits: tuple[Commit, ...] | None


class Times(Struct, frozen=True, kw_only=True):
    """Two times of a history.

    :param before: the first date, as 2026-10-30
    :param of_reference: whether the changes are those of the reference kernel
    :param changes: of all series: first those that are significant, and largest
    :param kernels: new kernels of the second time that differ from those of the first
    """

    before: str
    after: str
    of_reference: bool
    changes: tuple[LevelChange, ...]
    kernels: tuple[NewKernels, ...]


def last_day(nights: Iterable[Sequence[Night]]) -> int | None:
    """Return the day of the last night of all series; None if no night has a date."""
    days = (each[-1].day for each in nights if each)
    return max((day for day in days if day is not None), default=None)


def parse_day(text: str, last: int | None) -> int:
    """Return a date as days since the year 1.

    :param text: a date, "yesterday", or days before the last night: "30d"
    :param last: day of the last night
    :raises InputError: it is not a date, or no night has one
    """
    if text == "yesterday" or _DAYS.match(text):
        if last is None:
            raise _undated(text)
        return max(1, last - (1 if text == "yesterday" else int(text[:-1])))
    try:
        return date.fromisoformat(text).toordinal()
    except ValueError:
        shown = clean_line(cut(text, _LONGEST))
        raise InputError(
            f"{shown}: invalid date (expected e.g. 2026-10-30, yesterday, or 30d for 30 days "
            "before the last night)"
        ) from None


def compare_times(
    history: History,
    before: str,
    after: str | None = None,
    nights: int | None = None,
    *,
    of_reference: bool = False,
    repository: Path | None = None,
) -> Times:
    """Return the changes of all series between two times.

    :param before: a date, as :func:`parse_day` takes it
    :param after: None for the last night
    :param nights: how many nights up to a date are compared; None for 7, or the number of days
        between the dates if that is smaller
    :param of_reference: whether to compare the reference kernel with itself: drift of the machine
    :param repository: names the commits between the kernels; None to leave them out
    :raises InputError: a date is invalid, the second is not after the first, or the repository
        cannot be read
    """
    by_key = history.all_nights()
    chains = read_chains(history)
    first, second = _parse_days(before, after, last_day(by_key.values()))
    number = nights or min(WEEK, second - first)
    changes = []
    for series in history.series():
        if series.key in by_key:
            of_series = chains.get(series.key, ())
            levels = Levels(series, by_key[series.key], of_series, of_reference=of_reference)
            changes.append(compare_days(levels, first, second, number))
    return Times(
        before=date.fromordinal(first).isoformat(),
        after=date.fromordinal(second).isoformat(),
        of_reference=of_reference,
        changes=tuple(sorted(correct(changes), key=_rank)),
        kernels=_kernels(changes, repository),
    )


def _parse_days(before: str, after: str | None, last: int | None) -> tuple[int, int]:
    first = parse_day(before, last)
    if after is not None:
        second = parse_day(after, last)
        if first >= second:
            raise InputError(
                f"{clean_line(after)}: not after {clean_line(before)} (expected the earlier date "
                "first); exchange them"
            )
        return first, second
    if last is None:
        raise _undated(before)
    if first >= last:
        raise InputError(
            f"{clean_line(before)}: not before the last night (expected an earlier date); choose "
            "another one"
        )
    return first, last


def _undated(text: str) -> InputError:
    return InputError(f"{clean_line(text)}: no night of the history has a date; give two dates")


def compare_days(levels: Levels, first: int, second: int, number: int) -> LevelChange:
    """Return the change of a series between the last nights up to two days."""
    groups = [levels.up_to(day, number, _LATEST_DAYS) for day in (first, second)]
    why = next(
        (
            f"no night in the {_LATEST_DAYS} days before the {time} date"
            for group, time in zip(groups, ("first", "second"), strict=True)
            if not group
        ),
        None,
    )
    if why is None and {*groups[0]} & {*groups[1]}:
        why = "the same nights are before both dates"
    change = levels.compare(*groups)
    if why is None:
        return change
    return replace(change, change=None, ci_low=None, ci_high=None, p=None, why=why)


def correct(changes: Sequence[LevelChange]) -> list[LevelChange]:
    """Return changes with q values and words, corrected for multiple testing."""
    p = np.array([math.nan if each.p is None else each.p for each in changes])
    q = false_discovery(p, np.zeros(len(p), dtype=np.int64)) if len(p) else p
    return [
        replace(each, q=None if math.isnan(number) else float(number), word=_word(each, number))
        for each, number in zip(changes, q, strict=True)
    ]


def _rank(change: LevelChange) -> tuple[bool, bool, float]:
    is_significant = change.q is not None and change.q < _DISCOVERED
    return change.change is None, not is_significant, -abs(change.change or 0.0)


def _word(change: LevelChange, q: float) -> Word:
    if change.change is None:
        return "unknown"
    if math.isnan(q) or q >= _DISCOVERED:
        return "no significant change"
    is_higher = change.change > 0.0
    if change.series.better not in {"higher", "lower"}:
        return "higher" if is_higher else "lower"
    return "better" if is_higher == (change.series.better == "higher") else "worse"


def _kernels(changes: Iterable[LevelChange], repository: Path | None) -> tuple[NewKernels, ...]:
    ranges = {
        (each.series.tree, each.revision_before, each.revision_after)
        for each in changes
        if each.revision_before and each.revision_after
    }
    opened = None if repository is None else Repository(repository)
    return tuple(
        NewKernels(tree=tree, before=before, after=after, commits=_commits(opened, before, after))
        for tree, before, after in sorted(ranges)
        if before != after
    )


def _commits(repository: Repository | None, before: str, after: str) -> tuple[Commit, ...] | None:
    if repository is None or not (repository.has(before) and repository.has(after)):
        return None
    return tuple(repository.between(before, after))
