# SPDX-License-Identifier: GPL-2.0-or-later
"""List the series of a history: how long, how they are now, what they see, and their state."""

import math
from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct

from schedperf.history.questions.history import History
from schedperf.history.questions.noise import WEEK, Noise, noise_of
from schedperf.history.questions.records import Analysed, Night, Series, Step
from schedperf.history.states import is_open

_SHOWN_NIGHTS = 14


class Listed(Struct, frozen=True, kw_only=True):
    """A series, as ``history list`` shows it.

    :param first: its first night
    :param last: its last night
    :param now: change of new / reference, mean of the last 7 nights: a fraction, or a difference in
        the unit if the series has values of 0 or less; None without references
    :param step: the last open step of the series; None if it has none
    :param recent: what is analysed, of the last 14 nights; None for lost nights
    """

    series: Series
    first: str
    last: str
    noise: Noise
    now: float | None
    step: Step | None
    recent: tuple[float | None, ...]


class SeriesStep(Struct, frozen=True, kw_only=True):
    """A step, and its series."""

    series: Series
    step: Step


def list_steps(history: History) -> tuple[SeriesStep, ...]:
    """Return the steps of all series, by their first night; those without a date come first.

    :raises InputError: the database cannot be read
    """
    series = {each.key: each for each in history.series()}
    steps = sorted(history.steps(), key=lambda step: (step.day or 0, step.position))
    return tuple(SeriesStep(series=series[each.series], step=each) for each in steps)


def list_open(history: History, direction: str | None = None) -> tuple[SeriesStep, ...]:
    """Return the steps about which something is left to be done.

    :param direction: "worse", "better", "higher" or "lower"; None for all
    :raises InputError: the database cannot be read
    """
    return tuple(
        each
        for each in list_steps(history)
        if is_open(each.step.state) and direction in {None, each.step.direction}
    )


def list_series(history: History) -> tuple[Listed, ...]:
    """Return all series.

    :raises InputError: the database cannot be read
    """
    nights = history.all_nights()
    steps: dict[str, Step] = {each.series: each for each in history.steps() if is_open(each.state)}
    return tuple(
        _list(each, nights[each.key], steps.get(each.key))
        for each in history.series()
        if each.key in nights
    )


def _list(series: Series, nights: Sequence[Night], step: Step | None) -> Listed:
    analysed = Analysed.of(nights)
    recent = analysed.measured[-WEEK:]
    now = fmean(recent) if analysed.is_paired and recent else None
    return Listed(
        series=series,
        first=nights[0].night,
        last=nights[-1].night,
        noise=noise_of(series, nights),
        now=math.expm1(now) if now is not None and analysed.is_log else now,
        step=step,
        recent=analysed.values[-_SHOWN_NIGHTS:],
    )
