# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats._power: promises about runs, kept by runs."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from schedperf.stats._power import least_detectable, runs_to_settle

Compare = Callable[..., dict[str, Any]]


def runs_needed(effect: float, sd: float, *, paired: bool = False) -> float:
    return float(
        runs_to_settle(
            np.array([effect]), np.array([sd**2]),
            smallest=np.array([0.01]), margin=np.array([0.03]), is_paired=np.array([paired]),
            fixed=np.array([0.0]), fixed_df=np.array([1.0]),
        )[0]
    )  # fmt: skip


def test_the_least_detectable_effect_is_the_closed_form() -> None:
    found = least_detectable(np.array([0.01, 0.02]), np.array([8.0, 4.0]))
    for value, se, df in zip(found, (0.01, 0.02), (8, 4), strict=True):
        assert value == pytest.approx((stats.t.ppf(0.975, df) + stats.t.ppf(0.8, df)) * se)


def test_an_effect_of_that_size_is_found_in_four_of_five_cases() -> None:
    sd, n = 0.02, 8
    effect = float(least_detectable(np.array([sd * math.sqrt(2 / n)]), np.array([2.0 * n - 2]))[0])
    random = np.random.default_rng(2)
    base, new = random.normal(0.0, sd, (2, 8000, n))
    found = stats.ttest_ind(base, new + effect, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("paired", [False, True])
def test_so_many_runs_find_the_effect_and_fewer_do_not(paired: bool) -> None:  # noqa: FBT001
    effect, sd = 0.05, 0.04
    n = int(runs_needed(effect, sd, paired=paired))
    random = np.random.default_rng(3)
    for runs, low, high in ((n, 0.77, 0.87), (n // 2, 0.0, 0.65)):
        base, new = random.normal(0.0, sd, (2, 8000, runs))
        both = (base, new + effect)
        found = stats.ttest_rel(*both, axis=1) if paired else stats.ttest_ind(*both, axis=1)
        power = (found.pvalue < 0.05).mean()
        assert low < power < high


def test_so_many_runs_show_that_nothing_changed() -> None:
    sd = 0.02
    n = int(runs_needed(0.0, sd))
    random = np.random.default_rng(4)
    base, new = random.normal(0.0, sd, (2, 8000, n))
    interval = stats.ttest_ind(new, base, axis=1).confidence_interval(0.90)
    within = (interval.low > -0.03) & (interval.high < 0.03)
    assert within.mean() == pytest.approx(0.8, abs=0.05)


def test_an_effect_between_too_small_to_count_and_the_margin_takes_the_shorter_way() -> None:
    assert runs_needed(0.005, 0.02) < runs_needed(0.015, 0.02)
    assert runs_needed(0.029, 0.02) < runs_needed(0.02, 0.02)


def test_quiet_runs_need_two_and_endless_noise_is_no_advice() -> None:
    assert runs_needed(0.5, 0.001) == 2.0
    assert math.isnan(runs_needed(0.02, 1e4))
    assert math.isnan(runs_needed(0.02, math.nan))


def test_the_advice_settles_the_row(compare_values: Compare) -> None:
    pattern = np.array([-0.03, 0.0, 0.03, 0.015, -0.015])
    row = compare_values(list(np.exp(pattern)), list(np.exp(pattern[::-1] + 0.03)))
    assert row["verdict"] == "inconclusive"
    assert f"about {row['more_runs']} more runs per side would give a verdict" in row["reason"]
    assert row["mde"] > 0.03
    n = 5 + row["more_runs"]
    more = np.resize(pattern, n) + 1e-6 * np.arange(n)
    settled = compare_values(list(np.exp(more)), list(np.exp(more[::-1] + 0.03)))
    assert settled["verdict"] == "regression"
    assert settled["more_runs"] is None
