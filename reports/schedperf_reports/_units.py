"""Numbers as people read them: scaled to a fitting unit, three or four digits.

Scaling happens here and nowhere before, so that every number of the record is
in base units::

    >>> scale = scale_for("s", 0.000612, 0.00084)
    >>> scale.unit, scale.format(0.000612), scale.format(0.00084)
    ('us', '612', '840')
    >>> format_change(1.3724), format_interval(1.35, 1.395)
    ('+37.2 %', '+35.0..+39.5')
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# What a reader sees where a value is missing.
MISSING = "-"

SIGNIFICANT_DIGITS = 4
# Outside of these powers of ten a number is written with an exponent.
SMALLEST_PLAIN_POWER = -4
LARGEST_PLAIN_POWER = 6

# From here on (in per cent) digits behind the point say nothing, and further on only the power
# of ten does; an interval narrower than NARROW needs a second digit.
LARGE_PERCENT = 1000.0
LARGEST_PLAIN_PERCENT = 1e5
NARROW_PERCENT = 0.2

# Smaller probabilities are rounding errors of the tail of a distribution.
SMALLEST_P = 1e-99

# By base unit: factors and units in rising order.
SCALES: Mapping[str, Sequence[tuple[float, str]]] = {
    "s": ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s")),
    "B": ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"), (2.0**40, "TiB")),
    "B/s": ((1.0, "B/s"), (2.0**10, "KiB/s"), (2.0**20, "MiB/s"), (2.0**30, "GiB/s")),
    "1/s": ((1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")),
    "count": ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """A unit to show values in.

    :param factor: one of the shown unit, in base units
    """

    factor: float
    unit: str

    def format(self, value: float | None) -> str:
        """Write a value of the base unit in this one, without the unit."""
        return MISSING if value is None else format_number(value / self.factor)


def scale_for(unit: str, *values: float | None) -> Scale:
    """Return the largest unit in which the largest of the values is at least 1.

    Where there is nothing but zeros it is the base unit.
    """
    steps = SCALES.get(unit, ((1.0, unit),))
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    fitting = [step for step in steps if step[0] <= (largest or 1.0)]
    factor, name = fitting[-1] if fitting else steps[0]
    return Scale(factor=factor, unit=name)


def format_number(value: float) -> str:
    """Write a number with four significant digits, no trailing zeros: ``61240``, ``0.6123``."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{SIGNIFICANT_DIGITS - 1}e}")
    power = math.floor(math.log10(abs(rounded)))
    if not SMALLEST_PLAIN_POWER <= power <= LARGEST_PLAIN_POWER:
        return f"{value:.{SIGNIFICANT_DIGITS - 1}g}"
    if power >= SIGNIFICANT_DIGITS:
        return f"{value:.0f}"
    return f"{rounded:.{SIGNIFICANT_DIGITS}g}"


def format_change(ratio: float | None) -> str:
    """Write new / base as a change: ``+37.2 %``."""
    if ratio is None:
        return MISSING
    percent = _percent(ratio)
    return f"{_format_percent(percent, digits=1)} %"


def format_interval(low: float | None, high: float | None) -> str:
    """Write an interval of new / base as changes in per cent: ``+35.0..+39.5``."""
    if low is None or high is None:
        return MISSING
    ends = (_percent(low), _percent(high))
    digits = 2 if abs(ends[1] - ends[0]) < NARROW_PERCENT else 1
    return "..".join(_format_percent(end, digits=digits) for end in ends)


def format_share(fraction: float | None) -> str:
    """Write a fraction without a sign: ``7.2 %``."""
    return (
        MISSING
        if fraction is None
        else f"{_format_percent(100.0 * fraction, digits=1)} %".lstrip("+")
    )


def format_p(p: float | None) -> str:
    """Write a probability: ``0.084``, ``3.6e-07``; one too small for a float is no 0."""
    if p is None:
        return MISSING
    return f"{p:.2g}" if p >= SMALLEST_P else f"<{SMALLEST_P:g}"


def format_size(ratio: float) -> str:
    """Write how far new is from base, without a sign: ``37.2 %``."""
    return format_change(ratio).lstrip("+-")


def format_size_interval(low: float, high: float) -> str:
    """Write an interval of new / base for a sentence that says the direction in words.

    Where the interval holds 1 the signs stay: ``-1.0 % to +9.8 %``.
    """
    ends = format_interval(low, high).split("..")
    if (low - 1.0) * (high - 1.0) > 0.0:
        ends = sorted((end.lstrip("+-") for end in ends), key=float)
    return " to ".join(f"{end} %" for end in ends)


def _percent(ratio: float) -> float:
    return 100.0 * (ratio - 1.0)


def _format_percent(percent: float, *, digits: int) -> str:
    if abs(percent) >= LARGEST_PLAIN_PERCENT:
        return f"{percent:+.3g}"
    return f"{percent:+.{0 if abs(percent) >= LARGE_PERCENT else digits}f}"
