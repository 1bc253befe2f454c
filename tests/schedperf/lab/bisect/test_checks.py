# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.bisect.checks: whether ends differ."""

import math

import pytest

from schedperf.lab.bisect.checks import do_ends_differ, pooled_sd
from schedperf.stats.looks import LEAST_SD

QUIET = [0.0, 0.002, -0.002, 0.001, -0.001, 0.0, 0.001, -0.001]
NOISY = [0.0, 0.06, -0.06, 0.04, -0.04, 0.02, -0.02, 0.0]


def moved(boots: list[float], change: float) -> list[float]:
    return [value + math.log1p(change) for value in boots]


def test_the_deviation_of_the_ends_is_pooled() -> None:
    # Variances 2 and 0.5, with 1 and 2 degrees of freedom.
    good, bad = [0.0, 2.0], [1.0, 1.0 + math.sqrt(0.75), 1.0 - math.sqrt(0.75)]
    assert pooled_sd(good, bad) == pytest.approx(math.sqrt((2.0 + 1.5) / 3.0))


def test_boots_that_agree_by_chance_have_the_least_deviation() -> None:
    assert pooled_sd([1.0, 1.0], [2.0, 2.0]) == LEAST_SD


@pytest.mark.parametrize(
    ("boots", "change", "expected"),
    [
        (QUIET, 0.02, True),
        (QUIET, -0.02, True),
        # Significant, but smaller than 1%.
        (QUIET, 0.008, False),
        (NOISY, 0.03, False),
        (NOISY, 0.10, True),
        # No variance at all.
        ([0.5, 0.5], 0.02, True),
        ([0.5, 0.5], 0.0, False),
    ],
)
def test_ends_differ(boots: list[float], change: float, expected: bool) -> None:  # noqa: FBT001 # a case
    assert do_ends_differ(boots, moved(boots, change)) is expected


def test_ends_may_have_to_differ_in_one_direction() -> None:
    assert do_ends_differ(QUIET, moved(QUIET, 0.02), rises=True)
    assert not do_ends_differ(QUIET, moved(QUIET, 0.02), rises=False)
    assert do_ends_differ(QUIET, moved(QUIET, -0.02), rises=False)


def test_ends_whose_ratio_is_too_large_for_a_float_differ() -> None:
    assert do_ends_differ([-744.0] * 2, [709.0] * 2)
