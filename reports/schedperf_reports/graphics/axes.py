# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute axes of charts: positions of values in percent, and tick marks."""

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from schedperf.model.units import format_number

# Padding around values on a linear axis, as a share of their range; if all values are equal, the
# range is this share of the value.
ROOM = 0.06
LEAST_RANGE = 0.02

MOST_TICKS = 4
# Ticks within each power of ten.
ROUND_STEPS = (1.0, 2.0, 5.0, 10.0)

# Widths of an axis in a wide and in a narrow window, and of a letter, in pixels.
WIDE_PIXELS, NARROW_PIXELS = 560.0, 220.0
LETTER_PIXELS = 7.0
LONGEST_TICK = 24


class Tick(Struct, frozen=True, kw_only=True):
    """One mark of an axis.

    :param place: position in percent of the axis
    :param is_zero: whether it marks a change of 0
    :param is_minor: whether a narrow window has no room for it
    """

    place: float
    text: str
    is_zero: bool = False
    is_minor: bool = False


class Axis(Struct, frozen=True, kw_only=True):
    """An axis from one value to another.

    :param low: value at its start
    :param high: value at its end; larger than ``low``
    :param ticks: values to mark, each with its text
    :param title: title with the unit; "" for none
    :param is_log: whether it is logarithmic; ``low`` is then positive
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str = ""
    is_log: bool = False

    def place(self, value: float) -> float:
        """Return the position of a value in percent; values beyond an edge are at that edge."""
        low, high, at = (
            (math.log(one) if one > 0.0 else -math.inf) if self.is_log else one
            for one in (self.low, self.high, value)
        )
        return round(100.0 * min(max((at - low) / (high - low), 0.0), 1.0), 2)

    def marks(self) -> tuple[Tick, ...]:
        """Return the marks of a horizontal axis, without those whose texts would overlap."""
        placed = sorted((self.place(value), _shorten(text)) for value, text in self.ticks)
        wide, narrow = (_fitting(placed, width) for width in (WIDE_PIXELS, NARROW_PIXELS))
        return tuple(
            Tick(place=placed[index][0], text=placed[index][1], is_minor=index not in narrow)
            for index in wide
        )

    def levels(self) -> tuple[Tick, ...]:
        """Return the marks of a vertical axis, with their positions in percent from the top."""
        marks = sorted((self.place(value), text) for value, text in self.ticks)
        return tuple(Tick(place=round(100.0 - place, 2), text=text) for place, text in marks)


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_TICK else f"{text[: LONGEST_TICK - 1]}…"


def _fitting(placed: Sequence[tuple[float, str]], width: float) -> list[int]:
    kept: list[int] = []
    end = -math.inf
    for index, (place, text) in enumerate(placed):
        half = LETTER_PIXELS * (len(text) + 1) / 2.0
        middle = width * place / 100.0
        if middle - half >= end:
            kept.append(index)
            end = middle + half
    return kept


def linear_axis(values: Iterable[float], title: str = "", *, is_from_zero: bool = False) -> Axis:
    """Return a linear axis for some values with padding and round tick values.

    :param values: at least one
    :param is_from_zero: whether it begins at 0 if no value is negative
    """
    some = list(values)
    low, high = min(some), max(some)
    room = ROOM * (high - low) or LEAST_RANGE * abs(high) or 1.0
    low, high = low - room, high + room
    if is_from_zero and min(some) >= 0.0:
        low = 0.0
    ticks = round_ticks(low, high)
    texts = tuple((tick, format_number(tick)) for tick in ticks)
    return Axis(low=low, high=high, ticks=texts, title=title)


def log_axis(values: Iterable[float], ticks: Iterable[tuple[float, str]], title: str = "") -> Axis:
    """Return a logarithmic axis for some values with padding.

    :param values: at least one; all are positive
    :param ticks: values to mark, each with its text
    """
    logs = [math.log(value) for value in values]
    room = ROOM * (max(logs) - min(logs)) or LEAST_RANGE
    low, high = math.exp(min(logs) - room), math.exp(max(logs) + room)
    return Axis(low=low, high=high, ticks=tuple(ticks), title=title, is_log=True)


def word_axis(words: Sequence[str], title: str = "") -> Axis:
    """Return an axis with one position per word: the first is at 0, the second at 1."""
    ticks = tuple((float(index), word) for index, word in enumerate(words))
    return Axis(low=-0.5, high=len(words) - 0.5, ticks=ticks, title=title)


def round_ticks(low: float, high: float) -> list[float]:
    """Return round numbers to mark on a linear axis.

    >>> round_ticks(0.93, 1.31)
    [1.0, 1.1, 1.2, 1.3]

    :param high: end of the axis; larger than ``low``
    """
    rough = (high - low) / MOST_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in ROUND_STEPS if factor * power >= rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]
