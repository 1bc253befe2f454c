# SPDX-License-Identifier: GPL-2.0-or-later
"""Format quantities in a suitable unit with four digits.

Numbers are scaled only when a sentence or a table is written, so that all numbers of the record are
in base units::

    >>> scale = scale_for("s", 0.000612, 0.00084)
    >>> scale.unit, scale.format(0.000612), scale.format(0.00084)
    ('us', '612', '840')
"""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

# Printed for a missing value.
MISSING = "-"

SIGNIFICANT_DIGITS = 4
# Digits of the smallest value of a column; and the maximum number of extra decimals compared with
# the largest value.
SMALLEST_DIGITS = 3
MOST_MORE_DECIMALS = 2
# Digits of rates and costs, whose runs seldom agree in more.
RATE_DIGITS = 3
# Numbers outside of these powers of ten are written with an exponent.
SMALLEST_PLAIN_POWER = -4
LARGEST_PLAIN_POWER = 6

# Percentages of at least this are printed with an exponent; percentages below this get a second
# decimal, shares a second digit.
LARGEST_PERCENT_IN_REASONS = 1e6
SMALLEST_SHORT_PERCENT = 0.1
# Changes (in percent) of at least these sizes have no decimals, and only three digits; an interval
# narrower than NARROW needs a second decimal.
LARGE_PERCENT = 1000.0
LARGEST_CHANGE_PERCENT = 1e5
NARROW_PERCENT = 0.2

# One nanosecond in the unit that times are scaled from.
NANOSECOND_S = 1e-9

# Factors and units in rising order, by base unit.
SCALES: Mapping[str, Sequence[tuple[float, str]]] = {
    "s": ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s")),
    "B": ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"), (2.0**40, "TiB")),
    "B/s": ((1.0, "B/s"), (2.0**10, "KiB/s"), (2.0**20, "MiB/s"), (2.0**30, "GiB/s")),
    "1/s": ((1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")),
    "count": ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")),
    "J": ((1e-9, "nJ"), (1e-6, "uJ"), (1e-3, "mJ"), (1.0, "J"), (1e3, "kJ")),
    "W": ((1e-3, "mW"), (1.0, "W"), (1e3, "kW")),
    "Hz": ((1.0, "Hz"), (1e3, "kHz"), (1e6, "MHz"), (1e9, "GHz")),
}


class Scale(Struct, frozen=True, kw_only=True):
    """A unit in which values are printed.

    :param factor: size of the printed unit, in base units
    """

    factor: float
    unit: str

    def format(self, value: float | None, digits: int = SIGNIFICANT_DIGITS) -> str:
        """Format a value of the base unit in this unit, without the unit's name; None is "-"."""
        return MISSING if value is None else format_number(value / self.factor, digits)

    def format_alike(self, values: Sequence[float | None]) -> list[str]:
        """Format values of a column with the same number of decimals, if their sizes permit it.

        >>> Scale(factor=1.0, unit="s").format_alike([0.412, 2.1, None])
        ['0.412', '2.100', '-']
        """
        shown = [abs(value / self.factor) for value in values if value]
        decimals = _common_decimals(shown)
        return [
            self.format(value)
            if value is None or decimals is None
            else f"{value / self.factor:.{decimals}f}"
            for value in values
        ]

    def format_change(self, value: float | None, digits: int = SIGNIFICANT_DIGITS) -> str:
        """Format a change with its sign: ``+1.25``; None is "-"."""
        text = self.format(value, digits)
        return text if value is None or text.startswith("-") else f"+{text}"


def scale_for(unit: str, *values: float | None) -> Scale:
    """Return the largest unit in which the largest absolute value is at least 1.

    For smaller values, return the smallest unit. If all values are 0 or None, return the base unit.

    :param unit: base unit, a key of ``SCALES``; any other unit is returned as it is
    """
    steps = SCALES.get(unit, ((1.0, unit),))
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    fitting = [step for step in steps if step[0] <= (largest or 1.0)]
    factor, name = fitting[-1] if fitting else steps[0]
    return Scale(factor=factor, unit=name)


def _common_decimals(sizes: Sequence[float]) -> int | None:
    """Return the number of decimals that suits the smallest and the largest number of a column.

    :param sizes: positive numbers
    :return: None if their sizes differ too much, if one is infinite or needs an exponent, or if
        there are none
    """
    if not sizes or not all(map(math.isfinite, sizes)):
        return None
    least, most = (math.floor(math.log10(size)) for size in (min(sizes), max(sizes)))
    if least < SMALLEST_PLAIN_POWER or most > LARGEST_PLAIN_POWER:
        return None
    decimals = max(SIGNIFICANT_DIGITS - 1 - most, 0)
    needed = SMALLEST_DIGITS - 1 - least
    return max(decimals, needed) if needed <= decimals + MOST_MORE_DECIMALS else None


def format_number(value: float, digits: int = SIGNIFICANT_DIGITS) -> str:
    """Format a number with ``digits`` significant digits, without trailing zeros: ``0.6123``.

    All digits before the decimal point are printed: ``61243``. Numbers below 1e-4 and from 1e7 on
    have an exponent and three digits.
    """
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")
    power = math.floor(math.log10(abs(rounded)))
    if not SMALLEST_PLAIN_POWER <= power <= LARGEST_PLAIN_POWER:
        return f"{value:.{SIGNIFICANT_DIGITS - 1}g}"
    if power >= digits:
        return f"{value:.0f}"
    return f"{rounded:.{digits}g}"


def format_measure(
    value: float | None, unit: str, *others: float | None, digits: int = SIGNIFICANT_DIGITS
) -> str:
    """Format a rate, a mean or a share without its denominator: ``104 W``, ``84.0%``.

    :param value: in base units; a share as a fraction; None is printed as "-"
    :param unit: "1/s", "s/message", "W"; "" for a share
    :param others: values in the same column, which get the same scale

    >>> format_measure(0.0031, "J/message", 0.00025)
    '3.1 mJ'
    >>> format_measure(0.84, ""), format_measure(0.00031, "")
    ('84.0%', '0.031%')
    """
    counted = unit.partition("/")[0]
    if value is None:
        return MISSING
    if not counted:
        percent = 100.0 * value
        # One decimal would print a small share as 0.
        is_small = 0.0 < abs(percent) < SMALLEST_SHORT_PERCENT
        return f"{percent:.2g}%" if is_small else f"{percent:.1f}%"
    if counted == "1":
        return format_number(value, digits)
    scale = scale_for(counted, value, *others)
    return f"{scale.format(value, digits)} {scale.unit}"


def cost_scale(unit: str, *values: float | None) -> Scale:
    """Return the unit for costs per operation: "ns per message" is scaled like times.

    >>> cost_scale("cycles per message", 21400.0).unit, cost_scale("ns per message", 1250.0).unit
    ('k cycles per message', 'us per message')
    """
    counted, _, operation = unit.partition(" per ")
    if counted == "ns":
        scale = scale_for(
            "s", *(None if value is None else value * NANOSECOND_S for value in values)
        )
        return Scale(factor=scale.factor / NANOSECOND_S, unit=f"{scale.unit} per {operation}")
    scale = scale_for("count", *values)
    return Scale(factor=scale.factor, unit=f"{scale.unit} {counted} per {operation}".lstrip())


def percent(fraction: float) -> str:
    """Format a fraction as a percentage: ``3%``, ``37.2%``, ``0.04%``, ``0%``, ``1.2e+09%``."""
    value = 100.0 * fraction
    if abs(value) >= LARGEST_PERCENT_IN_REASONS:
        return f"{value:.3g}%"
    digits = 1 if abs(value) >= SMALLEST_SHORT_PERCENT else 2
    text = f"{value:.{digits}f}".removesuffix(".0")
    return f"{text}%" if float(text) else "0%"


def signed(fraction: float, digits: int = 1) -> str:
    """Format a change as a percentage with its sign: ``+37.2%``, ``+1235%``, ``+1.2e+05%``.

    :param digits: decimals; from 1000% on there are none
    """
    value = 100.0 * fraction
    if abs(value) >= LARGEST_CHANGE_PERCENT:
        return f"{value:+.3g}%"
    digits = 0 if abs(value) >= LARGE_PERCENT else digits
    # All values that round to 0 are printed as "+0.0%".
    return f"{round(value, digits) + 0.0:+.{digits}f}%"


def interval_of(low: float, high: float) -> str:
    """Format the bounds of an interval, which are fractions: ``[+16.1%, +27.9%]``."""
    digits = 2 if 100.0 * abs(high - low) < NARROW_PERCENT else 1
    return f"[{signed(low, digits)}, {signed(high, digits)}]"
