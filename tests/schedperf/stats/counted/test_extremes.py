# SPDX-License-Identifier: GPL-2.0-or-later
"""Exceedances keep their error rate where runs differ by more than Poisson; maxima use ranks."""

import numpy as np
import pytest

from schedperf.stats.counted.extremes import (
    Counted,
    compare_exceedances,
    correct,
)

SAMPLES = 10_000
REPETITIONS = 80


def simulated(generator: np.random.Generator, mean: float, scatter: float) -> list[Counted]:
    """Return ten runs whose rates differ with this coefficient of variation."""
    shape = 1.0 / scatter**2
    rates = generator.gamma(shape, mean / shape, size=10)
    counts = generator.poisson(rates)
    return [Counted(boot=0, samples=SAMPLES, above=(int(count),)) for count in counts]


def test_equal_rates_seldom_differ_significantly() -> None:
    generator = np.random.default_rng(21)
    for scatter in (0.05, 0.5):
        p_values = [
            compare_exceedances(
                simulated(generator, 20.0, scatter), simulated(generator, 20.0, scatter)
            )[0].p[0]
            for _ in range(REPETITIONS)
        ]
        assert np.mean(np.array(p_values) < 0.05) < 0.1


def test_intervals_hold_the_true_rate() -> None:
    generator = np.random.default_rng(22)
    held = 0
    for _ in range(REPETITIONS):
        sides = [simulated(generator, 20.0, 0.5) for _ in range(2)]
        compared, _, _ = compare_exceedances(*sides)
        held += compared.base_low[0] <= 20.0 / SAMPLES <= compared.base_high[0]
    assert held / REPETITIONS > 0.9


def test_a_third_more_is_found() -> None:
    generator = np.random.default_rng(23)
    compared, replication, n = compare_exceedances(
        simulated(generator, 200.0, 0.05), simulated(generator, 267.0, 0.05)
    )
    assert compared.p[0] < 0.001
    assert (replication, n) == ("runs", (10, 10))


def test_unknown_p_values_are_not_corrected_for() -> None:
    corrected = correct([0.01, None, 0.04])
    assert corrected[1] is None
    assert corrected[0] == pytest.approx(correct([0.01, 0.04])[0])
