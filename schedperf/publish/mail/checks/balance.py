# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``balance``: nights find regressions and improvements about equally often.

If a process finds 17 regressions and no improvement, it reports noise.
"""

import math
from collections.abc import Sequence

from schedperf.publish.culprit.record import Check
from schedperf.publish.mail.checks.context import Context
from schedperf_reports.words.rows import count_of

MOST = 50
LARGEST_P = 0.01


def check(context: Context) -> Check:
    """Fail if a two-sided sign test has p < 0.01 for the last 50 changes, or all if fewer."""
    return check_directions(context.directions)


def check_directions(directions: Sequence[bool]) -> Check:
    """Fail under the condition of :func:`check`, for the given directions.

    :param directions: directions of the changes that nights found, oldest first; True for a
        regression
    """
    return Check.of("balance", describe(directions) if _p(directions) < LARGEST_P else None)


def describe(directions: Sequence[bool]) -> str:
    """Count regressions and improvements among the last 50 changes, in words.

    If a two-sided sign test has p < 0.01, the text advises A/A comparisons.
    """
    last = directions[-MOST:]
    if not last:
        return "no change found by the nights"
    worse = count_of(sum(last), "regression")
    better = count_of(len(last) - sum(last), "improvement")
    p = _p(directions)
    warning = f" (sign test, p = {p:.1g}): run A/A comparisons" if p < LARGEST_P else ""
    return f"{worse} and {better} among the last changes that nights found{warning}"


def _p(directions: Sequence[bool]) -> float:
    last = directions[-MOST:]
    return sign_test(sum(last), len(last))


def sign_test(worse: int, total: int) -> float:
    """Return the two-sided p of an exact sign test of equally likely directions.

    :param worse: number of regressions
    :param total: number of changes
    """
    fewer = min(worse, total - worse)
    tail = sum(math.comb(total, number) for number in range(fewer + 1)) / 2.0**total
    return min(1.0, 2.0 * tail)
