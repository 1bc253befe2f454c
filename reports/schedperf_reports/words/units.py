# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers as people read them: scaled to a fitting unit, changes in per cent, probabilities.

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

# Ends of an interval that are further apart say no more than that the runs are too few.
WIDEST_INTERVAL = 100.0
TOO_WIDE = "too wide"

# Smaller probabilities are rounding errors of the tail of a distribution.
SMALLEST_P = 1e-99


def format_change(ratio: float | None) -> str:
    """Write new / base as a change: ``+37.2%``."""
    if ratio is None:
        return MISSING
    return signed(ratio - 1.0)


def write_size(value: float, unit: str) -> str:
    """Write the size of a change with its unit: ``+24.2%``, ``+0.29 pp``."""
    if unit == "%":
        return format_change(1.0 + value / 100.0)
    return f"{value:+.2f} {unit}".rstrip()


def is_wide(low: float | None, high: float | None) -> bool:
    """Say whether the ends of an interval of new / base are too far apart to say anything."""
    return low is not None and high is not None and high > WIDEST_INTERVAL * low


def format_interval(low: float | None, high: float | None) -> str:
    """Write an interval of new / base as changes: ``[+35.0%, +39.5%]``.

    One whose ends are more than a factor of :data:`WIDEST_INTERVAL` apart is "too wide".
    """
    if low is None or high is None:
        return MISSING
    if is_wide(low, high):
        return TOO_WIDE
    return interval_of(low - 1.0, high - 1.0)


def format_share(fraction: float | None) -> str:
    """Write a fraction without a sign: ``7.2%``."""
    return MISSING if fraction is None else signed(fraction).lstrip("+")


def format_percent(percent: float | None) -> str:
    """Write a share of samples that is in per cent already, without the sign: ``7.21``."""
    return MISSING if percent is None else f"{percent:.2f}"


def format_points(low: float | None, high: float | None) -> str:
    """Write an interval of a difference of such shares: ``[-0.10, +1.25]``."""
    return MISSING if low is None or high is None else f"[{low:+.2f}, {high:+.2f}]"


def format_p(p: float | None) -> str:
    """Write a probability: ``0.084``, ``3.6e-07``; never 0, also where a float underflows."""
    if p is None:
        return MISSING
    return f"{p:.2g}" if p >= SMALLEST_P else f"<{SMALLEST_P:g}"
