# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``balance``: regressions and improvements are found about equally often.

A process that finds 17 regressions and no improvement finds its own noise.
"""

import math

from schedperf.culprit.record import Check
from schedperf.mail.checks.context import Context, judge

MOST = 50
LARGEST_P = 0.01


def check(context: Context) -> Check:
    """Fail if a sign test over the last 50 retested changes has p < 0.01."""
    last = context.directions[-MOST:]
    worse = sum(last)
    p = sign_test(worse, len(last))
    if p >= LARGEST_P:
        return judge("balance")
    return judge(
        "balance",
        f"{worse} regressions and {len(last) - worse} improvements among the last retested changes "
        f"(sign test, p = {p:.1g}): run A/A comparisons first",
    )


def sign_test(worse: int, total: int) -> float:
    """Return the two-sided p of so many regressions, if both directions are equally likely."""
    fewer = min(worse, total - worse)
    tail = sum(math.comb(total, number) for number in range(fewer + 1)) / 2.0**total
    return min(1.0, 2.0 * tail)
