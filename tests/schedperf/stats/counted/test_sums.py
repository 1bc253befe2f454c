# SPDX-License-Identifier: GPL-2.0-or-later
"""Sums by name: a name that a run does not have is 0 there, and percentiles are unknown."""

from collections.abc import Mapping

import pytest

from schedperf.model.run import Captured, Operations, RunKey, SideOf
from schedperf.stats.counted.rates import Measure, Question
from schedperf.stats.counted.sums import Sums, compare_sums, largest


def side(name: str, *runs: Mapping[str, float], ops: float | None = 10.0) -> SideOf[Sums[str]]:
    return SideOf(
        name=name,
        kind="instrumented",
        runs=tuple(
            Captured(
                key=RunKey(side=name, workload="w", point="", boot=0, run=number),
                ops=None if ops is None else Operations(count=ops, unit="message", exact=True),
                content=Sums(
                    seconds=2.0,
                    sums={key: Measure(value, "s") for key, value in run.items() if key != "p99"},
                    statistics={
                        key: Measure(value, "s") for key, value in run.items() if key == "p99"
                    },
                ),
            )
            for number, run in enumerate(runs)
        ),
    )


def test_a_sum_that_a_run_does_not_have_is_0() -> None:
    rates = compare_sums(
        side("base", {"a": 4.0}, {"a": 4.2, "b": 1.0}), side("new", {}, {"a": 8.0})
    )
    a = rates[Question("w", "", "a", "operation")]
    assert a.values_base == pytest.approx((0.4, 0.42))
    assert a.values_new == pytest.approx((0.0, 0.8))
    assert rates[Question("w", "", "b", "time")].values_base == pytest.approx((0.0, 0.5))
    assert rates[Question("w", "", "b", "time")].values_new == (0.0, 0.0)


def test_a_percentile_that_a_run_does_not_have_is_unknown() -> None:
    rates = compare_sums(side("base", {"p99": 1.0}, {}), side("new", {"p99": 2.0}, {"p99": 2.0}))
    assert rates[Question("w", "", "p99", "share")].values_base == (1.0,)


def test_without_operations_there_is_only_the_rate_per_second() -> None:
    rates = compare_sums(side("base", {"a": 4.0}, ops=None), None)
    assert [question.basis for question in rates] == ["time"]
    assert rates[Question("w", "", "a", "time")].base == 2.0


def test_the_largest_are_those_per_run_over_all_sides() -> None:
    def amounts(name: str, *runs: Mapping[str, float]) -> SideOf[Mapping[str, float]]:
        return side(name, *runs).having(
            lambda run: {key: measure.value for key, measure in run.content.sums.items()}
        )

    base = amounts("base", {"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0})
    new = amounts("new", {"c": 2.5, "d": 0.001})
    assert largest((base, new), 2) == {("w", ""): ["c", "b"]}
    assert largest((base, new), 9, 0.01) == {("w", ""): ["c", "b", "a"]}
