# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats.welch: SciPy's numbers, and exact differences."""

import numpy as np
import pytest
from scipy import stats

from schedperf.stats.welch import welch_difference

BASE = (0.612, 0.624, 0.603, 0.631, 0.605)
SLOWER = (0.812, 0.834, 0.803, 0.841, 0.825)


def test_difference_interval_and_p_equal_scipy() -> None:
    found = welch_difference(BASE, SLOWER, confidence=0.9)
    expected = stats.ttest_ind(SLOWER, BASE, equal_var=False)
    interval = expected.confidence_interval(0.9)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.ci_low == pytest.approx(interval.low, rel=1e-9)
    assert found.ci_high == pytest.approx(interval.high, rel=1e-9)
    assert found.difference == pytest.approx(np.mean(SLOWER) - np.mean(BASE))


def test_one_run_gives_a_difference_without_interval() -> None:
    found = welch_difference([1.0], SLOWER)
    assert found.difference == pytest.approx(np.mean(SLOWER) - 1.0)
    assert (found.ci_low, found.ci_high, found.p) == (None, None, None)


def test_nothing_gives_nothing() -> None:
    assert welch_difference([], BASE).difference is None
    assert welch_difference(BASE, []).difference is None


def test_without_variance_the_difference_is_exact() -> None:
    found = welch_difference([0.1] * 3, [0.3] * 4)
    assert found.difference == found.ci_low == found.ci_high == 0.3 - 0.1
    assert found.p is None


def test_variance_on_one_side_is_enough() -> None:
    found = welch_difference([0.1] * 3, [0.3, 0.4, 0.5])
    assert found.p is not None
    assert 0.0 < found.p < 0.1


def test_a_known_error_widens_the_interval() -> None:
    exact, wide = welch_difference(BASE, SLOWER), welch_difference(BASE, SLOWER, error=0.05)
    assert exact.ci_low is not None
    assert wide.ci_low is not None
    assert wide.difference == exact.difference
    assert wide.ci_low < exact.ci_low
    # Without other variance, it is the interval of a normal distribution.
    found = welch_difference([0.0] * 2, [1.0] * 2, error=0.1)
    assert found.ci_low == pytest.approx(1.0 - 0.1 * stats.norm.ppf(0.975))
    assert found.p == pytest.approx(2.0 * stats.norm.sf(10.0))
