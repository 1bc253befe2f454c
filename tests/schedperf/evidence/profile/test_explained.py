"""A part of a change, with an interval that knows of the whole."""

import numpy as np
import pytest

from schedperf.evidence.profile.explained import part_of_change


def test_a_part_that_is_all_of_the_change_is_one_without_doubt() -> None:
    base, new = [10.0, 11.0, 10.5], [20.0, 21.5, 20.4]
    found = part_of_change(base, base, new, new)
    assert found.value == pytest.approx(1.0)
    # Numerator and denominator err together, so their quotient does not err at all.
    assert (found.ci_low, found.ci_high) == pytest.approx((1.0, 1.0))


def test_the_interval_is_that_of_fieller_s_equation() -> None:
    rng = np.random.default_rng(3)
    part = [rng.normal(5.0, 0.3, 6), rng.normal(8.0, 0.3, 6)]
    whole = [part[0] + rng.normal(20.0, 0.5, 6), part[1] + rng.normal(21.0, 0.5, 6)]
    found = part_of_change(part[0], whole[0], part[1], whole[1])
    assert found.value is not None
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert found.ci_low < found.value < found.ci_high
    # At both ends part - r * whole is as far from 0 as the quantile allows, by Welch's t of it.
    widths = []
    for ratio in (found.ci_low, found.ci_high):
        left = [p - ratio * w for p, w in zip(part, whole, strict=True)]
        error = np.sqrt(sum(side.var(ddof=1) / 6 for side in left))
        widths.append(abs(left[1].mean() - left[0].mean()) / error)
    assert widths[0] == pytest.approx(widths[1])
    assert 2.2 < widths[0] < 2.8


def test_intervals_cover_the_true_part() -> None:
    rng = np.random.default_rng(8)
    inside = 0
    for _ in range(2_000):
        part = [rng.normal(5.0, 0.4, 5), rng.normal(8.0, 0.4, 5)]
        whole = [part[0] + rng.normal(20.0, 0.4, 5), part[1] + rng.normal(21.0, 0.4, 5)]
        found = part_of_change(part[0], whole[0], part[1], whole[1])
        assert found.ci_low is not None
        assert found.ci_high is not None
        inside += found.ci_low <= 0.75 <= found.ci_high
    assert inside / 2_000 == pytest.approx(0.95, abs=0.02)


def test_a_whole_that_may_not_have_changed_has_no_parts() -> None:
    found = part_of_change([1.0, 1.1, 0.9], [50.0, 55.0, 45.0], [2.0, 2.1, 1.9], [51.0, 56.0, 45.0])
    assert (found.value, found.ci_low, found.ci_high) == (None, None, None)
    assert found.reason is not None
    assert "may not have changed" in found.reason


def test_the_same_runs_on_both_sides_have_no_parts() -> None:
    found = part_of_change([1.0, 1.1], [5.0, 5.5], [1.0, 1.1], [5.0, 5.5])
    assert found.value is None
    assert part_of_change([1.0, 1.0], [5.0, 5.0], [1.0, 1.0], [5.0, 5.0]).value is None


def test_values_that_never_vary_make_an_exact_part() -> None:
    found = part_of_change([1.0, 1.0], [5.0, 5.0], [3.0, 3.0], [9.0, 9.0])
    assert (found.value, found.ci_low, found.ci_high) == (0.5, 0.5, 0.5)


def test_one_run_has_no_interval_and_so_no_part() -> None:
    found = part_of_change([1.0], [5.0], [3.0, 3.1], [9.0, 9.2])
    assert (found.value, found.reason) == (None, "it takes two runs a side")


def test_swapped_sides_have_the_same_part() -> None:
    sides = ([1.0, 1.2, 1.1], [9.0, 9.4, 9.1]), ([3.0, 3.3, 3.1], [14.0, 14.4, 14.1])
    there = part_of_change(*sides[0], *sides[1])
    assert there == part_of_change(*sides[1], *sides[0])
    assert there.value is not None
