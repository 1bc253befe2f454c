# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the boots of two commits of a range: the ratio of their means, with its 95% CI."""

import math
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from schedperf.lab.bisect.rule import Bisection
from schedperf.stats.welch import welch_difference

# Fewest boots of a commit for an interval.
FEWEST = 2
# Ratios of absurd values are cut here, before they overflow a float.
_LARGEST_LOG = 700.0
_LARGEST = math.exp(_LARGEST_LOG)

Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=0)]


class Change(Struct, frozen=True, kw_only=True):
    """The geometric mean of a commit divided by that of an older one, with its 95% CI.

    The interval is Welch's, on logarithms.
    """

    ratio: Positive
    ci_low: Positive
    ci_high: Positive
    older_boots: Annotated[Count, "boots of the older commit, without its first"]
    newer_boots: Annotated[Count, "boots of the newer commit, without its first"]


def compare_commits(bisection: Bisection, older: int, newer: int) -> Change | None:
    """Return the change from one commit to another.

    :param older: index of the commit in the search; so is ``newer``
    :return: None if one of them has less than two usable boots
    """
    return compare_boots(bisection.boots(older), bisection.boots(newer))


def compare_boots(older: Sequence[float], newer: Sequence[float]) -> Change | None:
    """Return the change from some boots to others; None with less than two of either.

    :param older: logarithms of values, without the first boot; so is ``newer``
    """
    if min(len(older), len(newer)) < FEWEST:
        return None
    found = welch_difference(older, newer)
    assert found.difference is not None
    assert found.ci_low is not None
    assert found.ci_high is not None
    return Change(
        ratio=_ratio(found.difference),
        ci_low=_ratio(found.ci_low),
        ci_high=_ratio(found.ci_high),
        older_boots=len(older),
        newer_boots=len(newer),
    )


def bound_ratio(ratio: float) -> float:
    """Return a product or quotient of ratios, cut to e**-700 or e**700 if it is beyond."""
    return min(max(ratio, 1.0 / _LARGEST), _LARGEST)


def _ratio(log: float) -> float:
    return math.exp(min(max(log, -_LARGEST_LOG), _LARGEST_LOG))
