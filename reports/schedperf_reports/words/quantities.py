# SPDX-License-Identifier: GPL-2.0-or-later
"""Format numbers for people: scaled to a fitting unit, changes in percent, probabilities.

A missing number, None, is formatted as "-".

::

    >>> format_change(1.3724), format_interval(1.35, 1.395)
    ('+37.2%', '[+35.0%, +39.5%]')
"""

from schedperf.model.units import MISSING, Scale, format_number, interval_of, scale_for, signed

__all__ = [
    "MISSING",
    "TOO_WIDE",
    "WIDEST_INTERVAL",
    "Scale",
    "format_change",
    "format_interval",
    "format_number",
    "format_p",
    "format_percent",
    "format_points",
    "format_share",
    "is_wide",
    "scale_for",
]

# An interval whose bounds are further apart only shows that there are too few runs.
WIDEST_INTERVAL = 100.0
TOO_WIDE = "too wide"

# Smaller probabilities are rounding errors of the tail of a distribution.
SMALLEST_P = 1e-99


def format_change(ratio: float | None) -> str:
    """Format new / base as a change: ``+37.2%``; "-" for None."""
    if ratio is None:
        return MISSING
    return signed(ratio - 1.0)


def write_size(value: float, unit: str) -> str:
    """Format the size of a change with its unit: ``+24.2%``, ``+0.29 pp``, ``+25 pp``."""
    if unit == "%":
        return format_change(1.0 + value / 100.0)
    decimals = 0 if abs(value) >= 10.0 else 2  # noqa: PLR2004 # two digits are enough
    return f"{value:+.{decimals}f} {unit}".rstrip()


def is_wide(low: float | None, high: float | None) -> bool:
    """Return whether the bounds of an interval of new / base are too far apart to be useful.

    An interval with a missing bound is not wide.
    """
    return low is not None and high is not None and high > WIDEST_INTERVAL * low


def format_interval(low: float | None, high: float | None) -> str:
    """Format an interval of new / base as changes: ``[+35.0%, +39.5%]``.

    An interval whose bounds differ by more than a factor of :data:`WIDEST_INTERVAL` is "too wide",
    one with a missing bound is "-".
    """
    if low is None or high is None:
        return MISSING
    if is_wide(low, high):
        return TOO_WIDE
    return interval_of(low - 1.0, high - 1.0)


def format_share(fraction: float | None) -> str:
    """Format a fraction as a percentage without a plus sign: ``7.2%``; "-" for None."""
    return MISSING if fraction is None else signed(fraction).lstrip("+")


def format_percent(percent: float | None) -> str:
    """Format a number in percent with two decimals, without the percent sign: ``7.21``."""
    return MISSING if percent is None else f"{percent:.2f}"


def format_points(low: float | None, high: float | None) -> str:
    """Format an interval in percentage points, without their unit: ``[-0.10, +1.25]``."""
    return MISSING if low is None or high is None else f"[{low:+.2f}, {high:+.2f}]"


def format_p(p: float | None) -> str:
    """Format a probability: ``0.084``, ``3.6e-07``; ``<1e-99`` below :data:`SMALLEST_P`."""
    if p is None:
        return MISSING
    return f"{p:.2g}" if p >= SMALLEST_P else f"<{SMALLEST_P:g}"
