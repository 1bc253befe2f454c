# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers of many places: means, intervals, what changed, and what cannot be said."""

import numpy as np
import pytest
import scipy
from msgspec.structs import replace

from schedperf.model.run import Captured, RunKey, SideOf
from schedperf.stats.counted.distributions import (
    MOST_BINS,
    CpuMeasure,
    CpuValues,
    compare_bins,
    compare_cpus,
    compare_places,
    means_over_runs,
)
from schedperf.stats.welch import welch_difference

KEY = RunKey(side="base", workload="hackbench", point="", boot=0, run=0)


def placed(
    boot: int, values: dict[int, float], number: int | None = None
) -> Captured[dict[int, float]]:
    return Captured(key=replace(KEY, boot=boot, round=number), content=values)


def runs_of(*values: list[float], boots: tuple[int, ...] = ()) -> list[Captured[dict[int, float]]]:
    """Return a run for each list, of the places 0, 1 …"""
    numbers = boots or (0,) * len(values)
    return [placed(boot, dict(enumerate(one))) for boot, one in zip(numbers, values, strict=True)]


def test_intervals_are_those_of_welch() -> None:
    draw = np.random.default_rng(3)
    base, new = draw.normal(5.0, 1.0, (4, 3)), draw.normal(6.0, 2.0, (7, 3))
    found = compare_places(runs_of(*base.tolist()), runs_of(*new.tolist()))
    for place in range(3):
        expected = welch_difference(base[:, place].tolist(), new[:, place].tolist())
        assert found.ci_low[place] == pytest.approx(expected.ci_low)
        assert found.ci_high[place] == pytest.approx(expected.ci_high)
    assert found.base[1] == pytest.approx(base[:, 1].mean())


def test_one_place_of_many_that_changed_is_found_and_the_others_are_not() -> None:
    draw = np.random.default_rng(5)
    base, new = draw.normal(100.0, 1.0, (6, 64)), draw.normal(100.0, 1.0, (6, 64))
    new[:, 9] += 20.0
    found = compare_places(runs_of(*base.tolist()), runs_of(*new.tolist()))
    assert [place for place, changed in enumerate(found.changed) if changed] == [9]


def test_places_that_did_not_change_are_seldom_marked() -> None:
    draw = np.random.default_rng(7)
    marked = 0
    for _ in range(200):
        sides = draw.normal(100.0, 1.0, (2, 5, 16)).tolist()
        marked += any(compare_places(runs_of(*sides[0]), runs_of(*sides[1])).changed)
    # 5% of the families, give or take three standard errors.
    assert marked <= 200 * 0.05 + 3 * (200 * 0.05 * 0.95) ** 0.5


def test_boots_are_what_is_independent_where_both_sides_have_several() -> None:
    boots = (0, 0, 1, 1)
    base = runs_of([1.0], [1.1], [5.0], [5.1], boots=boots)
    new = runs_of([3.0], [3.1], [7.0], [7.1], boots=boots)
    found = compare_places(base, new)
    assert (found.replication, found.n_base, found.n_new) == ("boots", 2, 2)
    assert found.changed == (False,)
    assert compare_places(base, runs_of([3.0], [3.1])).replication == "runs"


def test_boots_that_happen_to_agree_tell_no_change_where_runs_scatter() -> None:
    boots = (0, 0, 0, 1, 1, 1)
    base = runs_of(*[[0.0]] * 6, boots=boots)
    new = runs_of([409.0], [0.0], [0.2], [0.0], [0.0], [410.0], boots=boots)
    found = compare_places(base, new)
    assert (found.replication, found.changed) == ("boots", (False,))
    (low,), (high,) = found.ci_low, found.ci_high
    assert low is not None
    assert high is not None
    assert low < 0.0
    assert high > 136.5


def in_rounds(*values: float, first: int = 0, boot: int = 0) -> list[Captured[dict[int, float]]]:
    """Return a run for each value, of place 0, in rounds of their own."""
    return [placed(boot, {0: value}, number) for number, value in enumerate(values, start=first)]


def test_sides_that_took_turns_are_compared_round_by_round() -> None:
    # What rounds have in common is far larger than the difference.
    values = (1.0, 5.0, 9.0, 2.0, 7.0)
    apart = (0.5, 0.6, 0.5, 0.4, 0.5)
    moved = [value + more for value, more in zip(values, apart, strict=True)]
    found = compare_places(in_rounds(*values), in_rounds(*moved))
    assert (found.replication, found.n_base, found.n_new) == ("rounds", 5, 5)
    assert found.changed == (True,)
    # t of 4 degrees of freedom at 97.5% is 2.7764; the differences deviate by 0.070711.
    assert found.ci_low[0] == pytest.approx(0.5 - 2.7764451 * 0.0707107 / 5**0.5)
    apart_runs = compare_places(runs_of(*([v] for v in values)), runs_of(*([v] for v in moved)))
    assert (apart_runs.replication, apart_runs.changed) == ("runs", (False,))


def test_rounds_without_a_counterpart_are_left_out_and_few_are_no_pairs() -> None:
    found = compare_places(in_rounds(1.0, 2.0, 3.0, 4.0), in_rounds(2.1, 3.0, 4.2, first=1))
    assert (found.replication, found.n_base, found.base) == ("rounds", 3, (3.0,))
    few = compare_places(in_rounds(1.0, 2.0), in_rounds(1.1, 2.1))
    assert (few.replication, few.n_base) == ("runs", 2)
    # Rounds of one boot share it, so of several boots these are compared.
    base, new = (
        [*in_rounds(*values), *in_rounds(*values, first=2, boot=1)]
        for values in ((1.0, 2.0), (1.1, 2.1))
    )
    assert compare_places(base, new).replication == "boots"


def test_what_cannot_be_said_is_not_said() -> None:
    one = compare_places(runs_of([1.0]), runs_of([9.0]))
    assert (one.changed, one.ci_low, one.new) == ((None,), (None,), (9.0,))
    constant = compare_places(runs_of([1.0, 2.0], [1.0, 2.0]), runs_of([1.0, 3.0], [1.0, 3.0]))
    assert constant.changed == (False, None)
    assert constant.ci_low == (0.0, 1.0)
    refused = compare_places(
        runs_of([1.0], [1.1]), runs_of([9.0], [9.1]), is_comparable=False
    )  # fmt: skip
    assert (refused.changed, refused.ci_high, refused.base) == ((None,), (None,), (1.05,))


def test_a_place_that_a_run_did_not_look_at_has_no_interval() -> None:
    base = [placed(0, {0: 1.0, 1: 2.0}), placed(0, {0: 1.1})]
    new = [placed(0, {0: 1.0}), placed(0, {0: 1.2})]
    found = compare_places(base, new)
    assert (found.base[1], found.new[1], found.changed[1]) == (2.0, None, None)
    assert found.changed[0] is False


def test_a_side_alone_has_values() -> None:
    found = compare_places(runs_of([1.0], [2.0]), [])
    assert found.as_fields() == {
        "replication": "runs", "n_base": 2, "n_new": 0, "base": (1.5,), "new": (None,),
        "ci_low": (None,), "ci_high": (None,), "changed": (None,),
    }  # fmt: skip


def bins_of(*counts: list[int]) -> list[Captured[list[int]]]:
    return [Captured(key=KEY, content=one) for one in counts]


EDGES = [0.0, 1.0, 2.0, 3.0]


def test_bins_are_shares_of_each_run_from_the_first_to_the_last_that_has_any() -> None:
    found = compare_bins(bins_of([0, 10, 30, 0]), bins_of([0, 0, 20, 0]), EDGES)
    assert (found.low, found.high) == ((1.0, 2.0), (2.0, None))
    assert (found.base, found.new) == ((0.25, 0.75), (0.0, 1.0))
    assert (found.events_base, found.events_new) == (40, 20)


def test_a_few_events_at_the_end_join_the_last_bin() -> None:
    found = compare_bins(bins_of([500, 500, 0, 1]), bins_of([500, 500, 0, 1]), EDGES)
    assert found.high == (1.0, None)
    assert sum(share or 0.0 for share in found.base) == pytest.approx(1.0)


def test_many_bins_are_joined_and_still_hold_all() -> None:
    counts, edges = [1] * 100, [float(place) for place in range(100)]
    found = compare_bins(bins_of(counts), bins_of(counts), edges)
    assert len(found.low) <= MOST_BINS
    assert sum(share or 0.0 for share in found.new) == pytest.approx(1.0)
    assert found.high[:-1] == found.low[1:]


def test_all_bins_of_a_turn_are_kept() -> None:
    found = compare_bins(bins_of([0, 0, 5, 0]), bins_of([0, 0, 5, 0]), EDGES, is_trimmed=False)
    assert found.low == tuple(EDGES)


def test_a_bin_that_gained_is_marked_and_a_run_without_events_has_no_shares() -> None:
    base = bins_of([50, 50, 0, 0], [51, 49, 0, 0], [49, 51, 0, 0], [0, 0, 0, 0])
    new = bins_of([20, 80, 0, 0], [21, 79, 0, 0], [19, 81, 0, 0])
    assert compare_bins(base[:3], new, EDGES).changed == (True, True)
    assert compare_bins(base, new, EDGES).base[0] == pytest.approx(0.5)


WAKEUPS = CpuMeasure("ttwu_count", "1/s", "wakeups")
NOTHING = CpuMeasure("yld_count", "1/s", "yields")


def cpu_run(*counts: float, point: str = "", number: int | None = None) -> Captured[CpuValues]:
    return Captured(
        key=RunKey(side="base", workload="hackbench", point=point, boot=0, run=0, round=number),
        content={WAKEUPS: dict(enumerate(counts)), NOTHING: dict.fromkeys(range(len(counts)), 0.0)},
    )


def cpu_side(name: str, *runs: Captured[CpuValues]) -> SideOf[CpuValues]:
    return SideOf(name=name, kind="clean", runs=runs)


def test_a_measure_of_the_cpus_is_one_entry_and_one_that_is_zero_none() -> None:
    base = cpu_side("base", cpu_run(1.0, 5.0), cpu_run(1.1, 5.1))
    new = cpu_side("new", cpu_run(9.0, 5.0), cpu_run(9.1, 5.2))
    [found] = compare_cpus(base, new)
    assert (found.side, found.measure, found.unit) == ("new", "ttwu_count", "1/s")
    assert (found.cpus, found.changed) == ((0, 1), (True, False))
    [invalid] = compare_cpus(base, new, invalid=frozenset({"ttwu_count"}))
    assert invalid.changed == (None, None)
    [alone] = compare_cpus(base, None)
    assert (alone.side, alone.n_new) == ("base", 0)


def test_cpus_and_bins_of_sides_that_took_turns_are_compared_by_rounds() -> None:
    rounds = enumerate(((1.0, 5.0), (3.0, 2.0), (9.0, 7.0)))
    base = [cpu_run(*counts, number=number) for number, counts in rounds]
    [found] = compare_cpus(cpu_side("base", *base), cpu_side("new", *base))
    assert (found.replication, found.n_base) == ("rounds", 3)
    binned = enumerate(bins_of(*[[0, 9, 4, 0]] * 3))
    bins = [replace(one, key=replace(KEY, round=number)) for number, one in binned]
    assert compare_bins(bins, bins, EDGES).replication == "rounds"


def test_points_of_one_side_only_are_left_out() -> None:
    both = [cpu_run(1.0), cpu_run(1.0, point="groups=2")]
    found = list(compare_cpus(cpu_side("base", *both), cpu_side("new", *both[:1])))
    assert [one.point for one in found] == [""]


def test_means_of_runs_have_the_interval_of_one_side() -> None:
    values = np.array([[10.0, 4.0], [14.0, 4.0], [12.0, 4.0], [17.0, 4.0]])
    found = means_over_runs(values, [KEY] * 4)
    assert (found.replication, found.n) == ("runs", 4)
    low, high = scipy.stats.ttest_1samp(values[:, 0], 0.0).confidence_interval(0.95)
    assert found.means[0] == pytest.approx((13.25, low, high))
    assert found.means[1] == (4.0, 4.0, 4.0)


def test_boots_are_what_is_independent() -> None:
    values = np.array([[10.0], [12.0], [12.0], [20.0], [22.0]])
    found = means_over_runs(values, [replace(KEY, boot=boot) for boot in (0, 0, 0, 1, 1)])
    assert (found.replication, found.n) == ("boots", 2)
    assert found.means[0].mean == pytest.approx((34.0 / 3.0 + 21.0) / 2.0)
