# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute logarithmic axes of new / base with ticks in percent, and ticks of values.

On these axes, ratios of 2 and of 1/2 are equally far from 1.
"""

import math
from collections.abc import Iterable

from schedperf.model.units import format_number
from schedperf_reports.graphics.axes import Axis

# Padding around the values, as a share of their range, and the smallest range (as a ratio), so that
# a change of half a percent does not fill the page.
ROOM = 0.08
SMALLEST_RANGE = 1.05

MOST_TICKS = 7
# Ticks of thousands of percent have texts as wide as two others.
MOST_WIDE_TICKS = 4
WIDE_RATIO = 11.0
# Distances between ticks, in percent; for larger ones, ticks are powers of two.
TICK_STEPS = (1, 2, 5, 10, 20, 25, 50, 100)

# Ticks within each power of ten.
FINE_STEPS = (1.0, 2.0, 3.0, 5.0, 7.0)
COARSE_STEPS = (1.0, 2.0, 5.0)

# Ratios beyond this are drawn at the edge; the text beside them has the number.
LARGEST_RATIO = 1e6


def fit_axis(ends: Iterable[float]) -> Axis:
    """Return the axis that contains 1 and all given ratios, clipped by :func:`bounded`."""
    logs = [math.log(bounded(end)) for end in ends] + [0.0]
    low, high = min(logs), max(logs)
    lacking = math.log(SMALLEST_RANGE) - (high - low)
    room = ROOM * (high - low) + max(lacking, 0.0) / 2
    return ratio_axis(math.exp(low - room), math.exp(high + room))


def ratio_axis(low: float, high: float) -> Axis:
    """Return the logarithmic axis from one ratio to another, with ticks in percent."""
    ticks = tuple((tick, tick_text(tick)) for tick in choose_ticks(low, high))
    return Axis(low=low, high=high, ticks=ticks, is_log=True)


def bounded(ratio: float) -> float:
    """Clip a ratio to at most ``LARGEST_RATIO`` and at least its inverse."""
    return min(max(ratio, 1.0 / LARGEST_RATIO), LARGEST_RATIO)


def choose_ticks(low: float, high: float) -> list[float]:
    """Return ratios to mark between two ratios: round percentages, or powers of two if far apart.

    >>> [round(100 * (tick - 1)) for tick in choose_ticks(0.97, 1.43)]
    [0, 10, 20, 30, 40]
    """
    for step in TICK_STEPS:
        first = math.ceil(round(100.0 * (low - 1.0) / step, 9))
        last = math.floor(round(100.0 * (high - 1.0) / step, 9))
        if last - first < MOST_TICKS:
            return [1.0 + step * number / 100.0 for number in range(first, last + 1)]
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    stride = 1 + (last - first) // (MOST_TICKS if high < WIDE_RATIO else MOST_WIDE_TICKS)
    return [2.0**power for power in range(first, last + 1) if power % stride == 0]


def value_ticks(values: Iterable[float]) -> list[float]:
    """Return round numbers to mark between the smallest and the largest of some positive values.

    >>> value_ticks([0.3, 40.0])
    [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]

    :param values: at least one
    """
    some = list(values)
    low, high = min(some), max(some)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in (FINE_STEPS, COARSE_STEPS, (1.0,)):
        # A computed power of ten is not always exactly the written number.
        marks = [float(f"{step:g}e{power}") for power in powers for step in steps]
        shown = [mark for mark in marks if low <= mark <= high]
        if len(shown) <= MOST_TICKS:
            return shown
    return shown[:: 1 + len(shown) // MOST_TICKS]


def value_marks(values: Iterable[float]) -> list[tuple[float, str]]:
    """Return the marks of a logarithmic axis for some positive values, each with its text."""
    return [(tick, format_number(tick)) for tick in value_ticks(values)]


def tick_text(ratio: float) -> str:
    """Format a ratio as a change in percent.

    >>> tick_text(1.1), tick_text(1.0), tick_text(0.5)
    ('+10%', '0', '-50%')
    """
    percent = 100.0 * (ratio - 1.0)
    return "0" if ratio == 1.0 else f"{percent:+.3g}%"
