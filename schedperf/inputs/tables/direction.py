# SPDX-License-Identifier: GPL-2.0-or-later
"""Derive from the unit of a metric whether higher or lower is better.

Shorter times and higher rates of work are better. For other rates (``faults/s``), counts, shares
and power, the better direction depends on the metric.
"""

import re
from typing import Literal

_DURATION = r"(?:ns|nsecs?|us|µs|μs|usecs?|ms|msecs?|s|secs?|seconds?|min|minutes?|h)"
_WORK = (
    r"(?:ops?|operations?|loops?|iterations?|messages?|msgs?|events?|requests?|req|query|queries|"
    r"transactions?|trans|txns?|jobs?|[kMGT]?i?(?:B|bytes?|bits?|b))"
)
# A duration, alone or per operation: us/op, ns per message.
_TIME = re.compile(rf"{_DURATION}(?:(?:/| per ){_WORK})?")
_RATE = re.compile(rf"{_WORK}(?:/s|/sec|/second| per second|ps)|tps|qps|rps|iops", re.IGNORECASE)


def direction_of(unit: str) -> Literal["higher", "lower"] | None:
    """Return whether higher or lower is better for a unit; None if it depends on the metric.

    >>> direction_of("ms"), direction_of("MB/s"), direction_of("faults/s")
    ('lower', 'higher', None)
    """
    if _TIME.fullmatch(unit):
        return "lower"
    return "higher" if _RATE.fullmatch(unit) else None
