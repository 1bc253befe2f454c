# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats.shift: the Hodges-Lehmann shift with its exact CI."""

import numpy as np
import pytest

from schedperf.stats.shift import rank_shift


def test_the_shift_is_the_median_of_all_differences() -> None:
    found = rank_shift([0.0, 1.0, 10.0], [5.0, 7.0])
    assert found.estimate == np.median([5.0, 4.0, -5.0, 7.0, 6.0, -3.0])


def test_three_against_eight_values_have_an_interval_and_three_against_three_have_none() -> None:
    found = rank_shift(range(8), [100.0, 101.0, 102.0])
    assert found.low is not None
    assert found.high is not None
    assert 93.0 <= found.low < found.estimate < found.high <= 102.0
    few = rank_shift([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    assert (few.estimate, few.low, few.high) == (3.0, None, None)


def test_equal_values_have_an_exact_shift() -> None:
    found = rank_shift([2.0] * 30, [3.0] * 5)
    assert (found.estimate, found.low, found.high) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(("n", "m"), [(8, 3), (30, 6)])
def test_the_interval_covers_the_shift_in_95_percent(n: int, m: int) -> None:
    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(1000):
        found = rank_shift(list(generator.normal(size=n)), list(generator.normal(1.0, size=m)))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 1.0 <= found.high
    # The exact interval covers at least 95%; 3 standard errors of 1000 trials are 2.1%.
    assert covered >= 929
