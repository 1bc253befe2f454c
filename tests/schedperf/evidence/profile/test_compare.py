# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.evidence.profile.compare on runs whose weights are known."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from schedperf.evidence.profile.compare import (
    compare_point,
    explain_change,
    part_of_change,
)
from schedperf.evidence.profile.family import HIDDEN, OTHER_KERNEL, USER
from schedperf.evidence.profile.shares import PlaceWeights, one_node_only, spread_of
from schedperf.model.place import KERNEL, OTHER_LOAD, Place
from schedperf.model.run import Captured, Operations, RunKey

PELT = Place("update_cfs_group", "[kernel]")
OTHER = Place("some_function_of_nobody", "[kernel]")
HALT = Place("default_idle", "[kernel]")
CODE = Place("main", "hackbench")
MODULE = Place("nf_hook", "[nf_tables]")

# Of the generated machine.
NODES = {0: 0, 1: 0, 2: 1, 3: 1}


def captured(
    weights: PlaceWeights, operations: float | None = None, boot: int = 0
) -> Captured[PlaceWeights]:
    key = RunKey(side="", workload="", point="", boot=boot, run=0)
    ops = None if operations is None else Operations(count=operations, unit="loop", exact=True)
    return Captured(key=key, ops=ops, content=weights)


def run_of(
    cpus: Mapping[int, Mapping[Place, float]], operations: float | None = 1000.0, boot: int = 0
) -> Captured[PlaceWeights]:
    """Return a run that spent these weights on these CPUs."""
    places = tuple(dict.fromkeys(place for weights in cpus.values() for place in weights))
    table = np.array([[weights.get(place, 0.0) for place in places] for weights in cpus.values()])
    is_idle = np.array([place == HALT for place in places])
    return captured(
        PlaceWeights(
            samples=100,
            places=places,
            weights=table.sum(axis=0),
            is_idle=is_idle,
            cpus=tuple(cpus),
            cpu_weights=sparse.csr_array(np.where(is_idle, 0.0, table)),
            node_of_cpu=NODES,
        ),
        operations,
        boot,
    )


def runs_of(
    pelt: Sequence[float], *, idle: float = 200.0, **chosen: Any
) -> list[Captured[PlaceWeights]]:
    """Return one run a value, the weight of PELT in 1000; the rest goes to others."""
    jitter = np.linspace(-3.0, 3.0, len(pelt))
    return [
        run_of(
            {
                0: {
                    PELT: hot,
                    OTHER: 300.0 + step,
                    MODULE: 50.0 - step,
                    CODE: 450.0 + 2.0 * step - hot,
                    HALT: idle - step,
                }
            },
            **chosen,
        )
        for hot, step in zip(pelt, jitter, strict=True)
    ]


BASE, NEW = (20.0, 22.0, 21.0, 19.0), (60.0, 64.0, 61.0, 59.0)


def test_shares_are_of_all_cpus_and_costs_are_per_operation() -> None:
    found = compare_point(runs_of(BASE), runs_of(NEW), sees_kernel=True)
    at = found.places.index(PELT)
    assert found.share.difference[at] == pytest.approx(100.0 * (61.0 - 20.5) / 1000.0, rel=0.01)
    assert found.costs is not None
    assert found.costs.by_place.base[at] == pytest.approx(20.5 / 1000.0)
    assert found.is_changed[at]
    assert found.share.q[at] < 0.01


def test_cost_does_not_move_with_the_length_of_the_run_and_the_share_of_idle_does_not_count() -> (
    None
):
    once = runs_of(BASE, operations=1000.0)
    twice = [
        captured(
            PlaceWeights(
                samples=200,
                places=run.content.places,
                weights=2.0 * run.content.weights,
                is_idle=run.content.is_idle,
                cpus=run.content.cpus,
                cpu_weights=2.0 * run.content.cpu_weights,
                node_of_cpu=NODES,
            ),
            2000.0,
        )
        for run in once
    ]
    found = compare_point(once, twice, sees_kernel=True)
    assert found.costs is not None
    assert found.costs.by_place.difference == pytest.approx(0.0)
    assert found.costs.busy_change.difference == pytest.approx(0.0)
    assert not found.is_changed.any()


def test_idle_time_is_no_function_that_changed() -> None:
    found = compare_point(runs_of(BASE), runs_of(BASE, idle=500.0), sees_kernel=True)
    at = found.places.index(HALT)
    assert abs(found.share.difference[at]) > 10.0
    assert np.isnan(found.share.q[at])
    assert not found.is_changed[at]
    assert found.busy.difference == pytest.approx(-found.share.difference[at])
    assert found.classes.count("idle") == 0


def test_a_blind_event_tests_all_but_the_functions_that_hidden_time_is_attributed_to() -> None:
    charged = Place("finish_task_switch", KERNEL)

    def runs(extra: float) -> list[Captured[PlaceWeights]]:
        return [
            run_of(
                {
                    0: {
                        PELT: 20.0 + extra + step,
                        charged: 90.0 + extra - step,
                        CODE: 500.0 + 2.0 * step,
                    }
                }
            )
            for step in (-1.0, -0.3, 0.4, 0.9)
        ]

    for sees_kernel in (True, False):
        found = compare_point(runs(0.0), runs(80.0), sees_kernel=sees_kernel)
        assert found.is_changed[found.places.index(PELT)]
        assert found.is_changed[found.places.index(charged)] == sees_kernel
        assert np.isnan(found.share.q[found.places.index(charged)]) != sees_kernel
        untested = [
            name for name, q in zip(found.classes, found.class_share.q, strict=True) if np.isnan(q)
        ]
        assert untested == ([] if sees_kernel else [HIDDEN])


def test_other_load_is_tested_but_explains_nothing() -> None:
    def runs(extra: float) -> list[Captured[PlaceWeights]]:
        return [
            run_of({0: {PELT: 20.0 + extra / 8.0 + step, OTHER_LOAD: 90.0 + extra, CODE: 500.0}})
            for step in (-1.0, -0.3, 0.4, 0.9)
        ]

    found = compare_point(runs(0.0), runs(80.0), sees_kernel=True)
    assert found.is_changed[found.places.index(OTHER_LOAD)]
    assert found.is_class_changed[found.classes.index("other load")]
    explained = explain_change(found)
    assert explained is not None
    assert explained.places == (PELT,)
    assert explained.part.value == pytest.approx(1.0)


def test_every_busy_place_is_in_one_class_and_classes_add_up() -> None:
    found = compare_point(runs_of(BASE), runs_of(NEW), sees_kernel=True)
    assert set(found.classes) >= {"PELT and group shares", OTHER_KERNEL, USER}
    busy = found.share.base[~found.is_idle].sum()
    assert found.class_share.base.sum() == pytest.approx(busy)
    at = found.classes.index("PELT and group shares")
    assert found.class_share.base[at] == pytest.approx(found.share.base[found.places.index(PELT)])


def test_without_operations_of_one_run_there_are_no_costs() -> None:
    runs = [*runs_of(BASE), *runs_of(BASE[:1], operations=None)]
    assert compare_point(runs, runs_of(NEW), sees_kernel=True).costs is None


def test_runs_of_one_boot_count_once_where_there_are_several_boots() -> None:
    base = [*runs_of(BASE, boot=0), *runs_of(BASE, boot=1)]
    found = compare_point(base, [*runs_of(NEW, boot=0), *runs_of(NEW, boot=1)], sees_kernel=True)
    assert found.independent == "boots"
    assert found.share.n_base.tolist() == [2] * len(found.places)
    alone = compare_point(base, runs_of(NEW), sees_kernel=True)
    assert np.isnan(alone.share.ci_low).all()


def test_the_same_runs_never_changed() -> None:
    found = compare_point(runs_of(BASE), runs_of(BASE), sees_kernel=True)
    assert not found.is_changed.any()
    assert explain_change(found) is None


def test_what_grew_explains_its_part_of_the_whole() -> None:
    def grown(extra: float) -> list[Captured[PlaceWeights]]:
        return [
            run_of({0: {PELT: 20.0 + extra + step, CODE: 500.0 + extra / 4.0 - step, HALT: 200.0}})
            for step in (-1.0, -0.3, 0.4, 0.9)
        ]

    found = compare_point(grown(0.0), grown(80.0), sees_kernel=True)
    explained = explain_change(found)
    assert explained is not None
    assert explained.places[0] == PELT
    assert explained.part.value == pytest.approx(1.0)


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
    assert found.reason.startswith("the total cost did not change significantly")


def test_the_same_runs_on_both_sides_have_no_parts() -> None:
    found = part_of_change([1.0, 1.1], [5.0, 5.5], [1.0, 1.1], [5.0, 5.5])
    assert found.value is None
    assert part_of_change([1.0, 1.0], [5.0, 5.0], [1.0, 1.0], [5.0, 5.0]).value is None


def test_values_that_never_vary_make_an_exact_part() -> None:
    found = part_of_change([1.0, 1.0], [5.0, 5.0], [3.0, 3.0], [9.0, 9.0])
    assert (found.value, found.ci_low, found.ci_high) == (0.5, 0.5, 0.5)


def test_one_run_has_no_interval_and_so_no_part() -> None:
    found = part_of_change([1.0], [5.0], [3.0, 3.1], [9.0, 9.2])
    assert (found.value, found.reason) == (
        None,
        "a side has fewer than 2 runs, so the variance is unknown",
    )


def test_swapped_sides_have_the_same_part() -> None:
    sides = ([1.0, 1.2, 1.1], [9.0, 9.4, 9.1]), ([3.0, 3.3, 3.1], [14.0, 14.4, 14.1])
    there = part_of_change(*sides[0], *sides[1])
    assert there == part_of_change(*sides[1], *sides[0])
    assert there.value is not None


def on_nodes(first: Sequence[float], second: Sequence[float]) -> list[PlaceWeights]:
    return [
        run_of(
            {
                cpu: {PELT: hot, CODE: 1000.0 - hot, HALT: 400.0}
                for cpu, hot in ((0, one), (1, one + 1.0), (2, other), (3, other + 1.0))
            }
        ).content
        for one, other in zip(first, second, strict=True)
    ]


def test_spreads_are_of_what_a_node_or_a_cpu_did_while_not_idle() -> None:
    spread = spread_of(on_nodes([100.0, 100.0], [200.0, 220.0]), [PELT, OTHER])
    assert spread.nodes[0][0] == pytest.approx(10.05)
    assert spread.nodes[1].tolist() == pytest.approx([21.05, 0.0])
    assert spread.cpus.shape == (4, 2)
    assert (spread.cpus[:, 0].min(), spread.cpus[:, 0].max()) == pytest.approx((10.0, 21.1))


OneNode = Callable[[Sequence[float], Sequence[float]], int | None]


@pytest.fixture
def only_node() -> OneNode:
    """Return which node alone shows a change of PELT from 100 in 1000 to these values."""
    base = on_nodes([99.0, 101.0, 100.0, 102.0], [100.0, 101.0, 99.0, 98.0])

    def find(first: Sequence[float], second: Sequence[float]) -> int | None:
        found = one_node_only(base, on_nodes(first, second), [PELT, CODE])
        return found[0]

    return find


def test_a_change_on_one_node_is_told_from_one_on_both(only_node: OneNode) -> None:
    same, more = [100.0, 101.0, 99.0, 98.0], [150.0, 151.0, 149.0, 152.0]
    assert only_node(same, more) == 1
    assert only_node(more, same) == 0
    assert only_node(more, more) is None
    assert only_node(same, same) is None


def test_a_node_of_which_too_little_is_known_is_not_said_to_lack_the_change(
    only_node: OneNode,
) -> None:
    assert only_node([60.0, 180.0, 20.0, 190.0], [150.0, 151.0, 149.0, 152.0]) is None


def test_one_node_is_no_choice() -> None:
    runs = [run.content for run in runs_of(BASE)]
    assert one_node_only(runs, runs, [PELT]) == (None,)
