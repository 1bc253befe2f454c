# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats._correction: the published procedures, step by step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from schedperf.stats._correction import false_discovery

P_VALUES = st.lists(st.floats(0.0, 1.0) | st.floats(0.0, 0.06), min_size=1, max_size=12)


def one_family(p: list[float]) -> np.ndarray:
    return np.zeros(len(p), dtype=np.intp)


def rejected_by_definition_6(p: list[float], level: float = 0.05) -> list[bool]:
    """Benjamini, Krieger & Yekutieli's two stages, as the paper words them."""

    def step_up(at: float) -> list[bool]:
        ordered = sorted(p)
        passed = [k for k in range(1, len(p) + 1) if ordered[k - 1] <= k * at / len(p)]
        bound = ordered[passed[-1] - 1] if passed else -1.0
        return [value <= bound for value in p]

    first = step_up(level / (1.0 + level))
    count = sum(first)
    if count in {0, len(p)}:
        return first
    return step_up(level / (1.0 + level) * len(p) / (len(p) - count))


class TestFalseDiscovery:
    @given(P_VALUES.filter(lambda p: len(p) > 1))
    def test_discoveries_are_those_of_the_two_stages_that_are_below_their_own_p(
        self, p: list[float]
    ) -> None:
        q = false_discovery(np.array(p), one_family(p))
        expected = [
            hit and value < 0.05 for hit, value in zip(rejected_by_definition_6(p), p, strict=True)
        ]
        # A p that lies on a bound to the last digit may fall on either side of it.
        clear = np.abs(q - 0.05) > 1e-9
        assert (q < 0.05)[clear].tolist() == np.array(expected)[clear].tolist()

    @given(P_VALUES)
    def test_q_is_never_below_p_and_never_above_the_one_stage_form(self, p: list[float]) -> None:
        q = false_discovery(np.array(p), one_family(p))
        assert (q >= p).all()
        assert (q <= np.minimum(1.05 * stats.false_discovery_control(p), 1.0) + 1e-12).all()
        assert (np.argsort(q, kind="stable").shape) == (len(p),)

    def test_a_single_row_pays_nothing(self) -> None:
        assert false_discovery(np.array([0.049]), one_family([0.0])).tolist() == [0.049]

    def test_families_pay_for_themselves(self) -> None:
        p = np.array([0.01, 0.02, 0.5, 0.04, np.nan])
        both = false_discovery(p, np.array([0, 0, 0, 1, 0]))
        assert both[:3] == pytest.approx(false_discovery(p[:3], np.zeros(3, dtype=np.intp)))
        assert both[3] == 0.04

    def test_what_was_not_tested_does_not_count(self) -> None:
        q = false_discovery(np.array([np.nan, 0.03, np.nan]), np.zeros(3, dtype=np.intp))
        assert np.isnan(q).tolist() == [True, False, True]
        assert q[1] == 0.03

    def test_the_rate_is_kept_where_half_of_the_rows_changed(self) -> None:
        random = np.random.default_rng(6)
        z = random.normal(0.0, 1.0, (2000, 10)) + np.where(np.arange(10) < 5, 3.0, 0.0)
        p = 2.0 * stats.norm.sf(np.abs(z))
        q = false_discovery(p.ravel(), np.repeat(np.arange(2000), 10)).reshape(p.shape)
        found = q < 0.05
        false_share = found[:, 5:].sum(axis=1) / np.maximum(found.sum(axis=1), 1)
        assert false_share.mean() < 0.05
