# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe the open steps of a lab: how large they are now, and on which machines they are."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from schedperf.history.questions.chains import ChainNight, read_chains
from schedperf.history.questions.change import correct
from schedperf.history.questions.explain import MOST_NIGHTS
from schedperf.history.questions.history import History
from schedperf.history.questions.levels import LevelChange, Levels
from schedperf.history.questions.listing import SeriesStep, list_open
from schedperf.history.questions.records import Series

# Nights whose level is that of now.
_LAST = 3

Answer = Literal["yes", "no", "unclear", "not measured"]


class OnMachine(Struct, frozen=True, kw_only=True):
    """A step on a machine: its own or another one that measures the same result.

    :param answer: "yes" if the series moved in the direction of the step, significantly; "no" if
        the 95% CI excludes half of its change; "not measured" without nights on both sides of it
    :param change: of the level, between up to 30 nights before the step and up to 30 since then
    """

    series: Series
    answer: Answer
    change: LevelChange


class OpenStep(Struct, frozen=True, kw_only=True):
    """A step about which something is left to be done.

    :param now: change between up to 30 nights before the step and the last 3 nights
    :param is_gone: whether the 95% CI of ``now`` excludes half of the change of the step
    :param nights: nights with a result since the step
    :param before: new kernel of the last night before it; "" if unknown
    :param first: new kernel of its first night; "" if unknown
    :param machines: by machine class, its own one first
    """

    found: SeriesStep
    now: LevelChange
    is_gone: bool
    nights: int
    before: str
    first: str
    machines: tuple[OnMachine, ...]


def describe_open(history: History) -> tuple[OpenStep, ...]:
    """Return the open steps, the newest one first.

    :raises InputError: the database cannot be read
    """
    found = list_open(history)
    if not found:
        return ()
    all_levels = _AllLevels(history)
    described = [_describe(each, all_levels) for each in reversed(found)]
    return tuple(described)


class _AllLevels:
    """The levels of the series that are asked for; each is read once."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._chains: Mapping[str, Sequence[ChainNight]] = read_chains(history)
        self._read: dict[str, Levels] = {}
        self._like: dict[tuple[str, ...], list[Series]] = {}
        for each in history.series():
            self._like.setdefault(_without_machine(each), []).append(each)

    def of(self, series: Series) -> Levels:
        """Return the levels of a series."""
        if series.key not in self._read:
            chains = self._chains.get(series.key, ())
            self._read[series.key] = Levels(series, self._history.nights(series), chains)
        return self._read[series.key]

    def like(self, series: Series) -> Sequence[Series]:
        """Return the same result on all machines, that of the series first."""
        return sorted(
            self._like[_without_machine(series)],
            key=lambda each: (each.key != series.key, each.machine_class),
        )


def _without_machine(series: Series) -> tuple[str, ...]:
    return (series.tree, series.workload, series.point, series.metric, series.unit)


def _describe(found: SeriesStep, all_levels: _AllLevels) -> OpenStep:
    own = all_levels.of(found.series)
    before, after = _split(own, found.step.position)
    [now] = correct([own.compare(before[-MOST_NIGHTS:], after[-_LAST:])])
    series = all_levels.like(found.series)
    changes = correct([_change_at(all_levels.of(each), found.step.position) for each in series])
    return OpenStep(
        found=found,
        now=now,
        is_gone=_answer(now, found) == "no",
        nights=len(after),
        before=own.nights[before[-1]].revision if before else "",
        first=own.nights[after[0]].revision if after else "",
        machines=tuple(
            OnMachine(series=change.series, answer=_answer(change, found), change=change)
            for change in changes
        ),
    )


def _split(levels: Levels, position: int) -> tuple[list[int], list[int]]:
    """Return the indexes of the nights with a value before a position, and since then."""
    measured = [index for index, value in enumerate(levels.values) if value is not None]
    split = bisect_left(measured, position, key=lambda index: levels.nights[index].position)
    return measured[:split], measured[split:]


def _change_at(levels: Levels, position: int) -> LevelChange:
    before, after = _split(levels, position)
    return levels.compare(before[-MOST_NIGHTS:], after[:MOST_NIGHTS])


def _answer(change: LevelChange, found: SeriesStep) -> Answer:
    if change.change is None:
        return "not measured"
    if change.word == found.step.direction:
        return "yes"
    size, low, high = found.step.change, change.ci_low, change.ci_high
    if size is None or low is None or high is None:
        return "unclear"
    is_excluded = high < size / 2.0 if size > 0.0 else low > size / 2.0
    return "no" if is_excluded else "unclear"
