# SPDX-License-Identifier: GPL-2.0-or-later
"""Convert times in seconds since 1970 to the format of bundles."""

import time

# The last second of year 9999; larger values are not times.
LAST_TIME_S = 253_402_300_799
MOST_DIGITS = 12


def parse_seconds(digits: str) -> int | None:
    """Return a time in s since 1970; None if the text is not such a time."""
    if not digits.isascii() or not digits.isdigit() or len(digits) > MOST_DIGITS:
        return None
    seconds = int(digits)
    return seconds if 0 < seconds <= LAST_TIME_S else None


def to_utc(seconds: int) -> str:
    """Return a time as bundles contain it: "2025-01-01T00:00:05.000000Z"."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(seconds))
