# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts divided by time and work, and what may be said of a change of them."""

from typing import Any

import numpy as np
import pytest

from schedperf.model.run import Captured, Operations, RunKey, SideOf
from schedperf.stats.counted.rates import (
    Measure,
    Measures,
    Question,
    compare_rates,
    divide,
)


def measured(values: dict[str, float], unit: str = "1/s") -> Measures[str]:
    return {(key, "time"): Measure(value, unit) for key, value in values.items()}


def side(
    name: str, *values: float, unit: str = "1/s", key: str = "calls", in_turns: bool = True
) -> SideOf[Measures[str]]:
    """Return runs that alternate with those of the other side, or come before or after all."""
    is_new = name == "new"
    runs = tuple(
        Captured(
            key=RunKey(
                side=name,
                workload="hackbench",
                point="",
                boot=0,
                run=number,
                order=2 * number + is_new if in_turns else number + len(values) * is_new,
                round=number if in_turns else None,
            ),
            content=measured({key: value}, unit),
        )
        for number, value in enumerate(values)
    )
    return SideOf(name=name, kind="clean", runs=runs)


ASKED = Question("hackbench", "", "calls", "time")


def noisy(mean: float, seed: int, runs: int = 10) -> Any:
    return np.random.default_rng(seed).normal(mean, mean / 100, runs)


def test_amounts_are_divided_by_what_is_known() -> None:
    amounts = {"calls": Measure(6.0, "1"), "busy": Measure(0.5, "s")}
    both = dict(divide(amounts, seconds=2.0, ops=Operations(count=3.0, unit="message", exact=True)))
    assert both == {
        ("calls", "time"): Measure(3.0, "1/s"),
        ("calls", "operation"): Measure(2.0, "1/message"),
        ("busy", "time"): Measure(0.25, "s/s"),
        ("busy", "operation"): Measure(0.5 / 3.0, "s/message"),
    }
    assert not dict(divide(amounts, seconds=None, ops=None))
    ticks = dict(divide(amounts, seconds=2.0, ops=None, tick="tick"))
    assert ticks["calls", "time"] == Measure(3.0, "1/tick")


def test_a_change_beyond_noise_is_one_and_the_same_runs_are_none() -> None:
    base = side("base", *noisy(100.0, 1))
    rate = compare_rates(base, side("new", *noisy(150.0, 2)))[ASKED]
    assert rate.changed is True
    assert rate.ratio == pytest.approx(1.5, rel=0.02)
    assert rate.ci_low is not None
    assert rate.ci_high is not None
    assert rate.ci_low < 1.5 < rate.ci_high
    assert (rate.n_base, rate.n_new, rate.unit) == (10, 10, "1/s")
    assert compare_rates(base, side("new", *noisy(100.0, 3)))[ASKED].changed is False


@pytest.mark.parametrize(
    ("runs", "order", "said"),
    [
        (5, "in blocks", (None, "runs")),
        (5, "in turns", (True, "rounds")),
        (10, "in blocks", (True, "runs")),
    ],
)
def test_few_runs_of_sides_that_take_no_turns_may_have_drifted(
    runs: int, order: str, said: tuple[bool | None, str]
) -> None:
    base, new = (
        side(name, *noisy(mean, seed, runs), in_turns=order == "in turns")
        for name, mean, seed in (("base", 100.0, 1), ("new", 150.0, 2))
    )
    rate = compare_rates(base, new)[ASKED]
    assert (rate.changed, rate.replication) == said
    assert rate.n_base == runs
    # The difference itself is shown all the same, and so is how sure it is.
    assert rate.q is not None
    assert rate.q < 0.001
    assert rate.ratio == pytest.approx(1.5, rel=0.02)


def test_runs_of_one_kind_that_do_not_differ_have_not_drifted() -> None:
    base, new = (side(name, *noisy(100.0, 7, 5), in_turns=False) for name in ("base", "new"))
    assert compare_rates(base, new)[ASKED].changed is False


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_what_was_never_there_before_is_a_change_without_a_ratio(runs: int) -> None:
    base, new = side("base", *[0.0] * runs), side("new", *([0.27, 0.64, 0.52] * 4)[:runs])
    rate = compare_rates(base, new)[ASKED]
    assert (rate.ratio, rate.ci_low, rate.ci_high) == (None, None, None)
    assert rate.changed is True
    assert rate.p is not None
    assert rate.q == rate.p < 0.05


def test_two_runs_after_two_zeros_tell_no_change() -> None:
    rate = compare_rates(side("base", 0.0, 0.0), side("new", 3.0, 5.0))[ASKED]
    assert (rate.ratio, rate.changed) == (None, False)


def zero_or_fifty(rng: Any, shape: tuple[int, int]) -> Any:
    return rng.binomial(1, 0.5, shape) * rng.normal(50.0, 5.0, shape)


def a_few(rng: Any, shape: tuple[int, int]) -> Any:
    return rng.poisson(1.0, shape).astype(float)


@pytest.mark.parametrize("design", ["runs", "boots", "rounds"])
@pytest.mark.parametrize("runs", [3, 5, 10])
@pytest.mark.parametrize("draw", [zero_or_fifty, a_few])
def test_equal_sides_with_many_zeros_differ_in_less_than_one_of_twenty(
    draw: Any, runs: int, design: str
) -> None:
    # 400 rows of a test at 5% would be above 7.2% once in forty times, these are far below 5%.
    rng = np.random.default_rng(runs)
    sides = [
        SideOf(
            name=name,
            kind="clean",
            runs=tuple(
                Captured(
                    key=RunKey(
                        side=name,
                        workload="hackbench",
                        point="",
                        boot=number if design == "boots" else 0,
                        run=number,
                        order=2 * number + (number + place) % 2,
                        round=number if design == "rounds" else None,
                    ),
                    content=measured(dict(zip(map(str, range(400)), values.tolist(), strict=True))),
                )
                for number, values in enumerate(draw(rng, (runs, 400)))
            ),
        )
        for place, name in enumerate(("base", "new"))
    ]
    found = [rate for rate in compare_rates(*sides).values() if rate.ratio is None]
    assert len(found) > 300
    assert {rate.replication for rate in found} == {design}
    assert sum(rate.p is not None and rate.p < 0.05 for rate in found) < 0.05 * len(found)
    # Five zeros against five others are a change to whoever sees them, and 0.2% of such rows.
    assert sum(bool(rate.changed) for rate in found) <= 0.01 * len(found)


def booted(name: str, *boots: tuple[float, ...]) -> SideOf[Measures[str]]:
    """Return runs of several boots, which are not independent of their boot."""
    is_new = name == "new"
    runs = tuple(
        Captured(
            key=RunKey(
                side=name,
                workload="hackbench",
                point="",
                boot=boot,
                run=number,
                order=2 * (boot * len(values) + number) + is_new,
                round=None,
            ),
            content=measured({"calls": value}),
        )
        for boot, values in enumerate(boots)
        for number, value in enumerate(values)
    )
    return SideOf(name=name, kind="clean", runs=runs)


@pytest.mark.parametrize(
    ("base", "new"),
    [
        # One event in each boot, of as many runs as it takes.
        (((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), ((409.0, 0.0, 0.2), (0.0, 0.0, 410.0))),
        # As many events in each boot, so that no boot differs from another.
        (((0.03, 0.0, 0.0), (0.0, 0.01, 0.02)), ((0.01, 0.0, 0.0), (0.0, 0.01, 0.0))),
        (((9.0, 4.0, 5.0), (3.0, 7.0, 8.0)), ((3.0, 7.0, 2.1), (5.0, 3.0, 4.1))),
    ],
)
def test_boots_that_happen_to_agree_tell_no_change_where_runs_scatter(
    base: tuple[tuple[float, ...], ...], new: tuple[tuple[float, ...], ...]
) -> None:
    rate = compare_rates(booted("base", *base), booted("new", *new))[ASKED]
    assert rate.replication == "boots"
    assert not rate.changed


def test_boots_that_agree_tell_a_change_where_runs_agree_too() -> None:
    base = booted("base", (10.0, 10.2, 9.9), (10.1, 10.0, 10.1))
    new = booted("new", (20.0, 20.3, 19.8), (20.1, 19.9, 20.0))
    assert compare_rates(base, new)[ASKED].changed is True


def test_runs_that_never_vary_changed_where_their_ranks_show_it() -> None:
    few, many = (
        compare_rates(side("base", *[82.0] * runs), side("new", *[90.0] * runs))[ASKED]
        for runs in (5, 10)
    )
    assert (few.changed, many.changed) == (None, True)
    assert few.ratio == many.ratio == pytest.approx(90 / 82)


def test_one_run_a_side_tells_no_change() -> None:
    rate = compare_rates(side("base", 100.0), side("new", 900.0))[ASKED]
    assert rate.changed is None
    assert (rate.base, rate.new) == pytest.approx((100.0, 900.0))


def test_one_side_alone_has_its_mean() -> None:
    rate = compare_rates(side("base", 1.0, 3.0), None)[ASKED]
    assert rate.base == pytest.approx(3.0**0.5)
    assert (rate.new, rate.n_base, rate.n_new) == (None, 2, 0)
    assert (list(rate.values_base), list(rate.values_new)) == ([1.0, 3.0], [])
    # A geometric mean with a 0 would be 0, whatever the others are.
    assert compare_rates(side("base", 0.0, 3.0), None)[ASKED].base == 1.5
    assert rate.changed is None


def test_nothing_is_compared_that_has_no_counterpart_or_another_unit() -> None:
    base = side("base", 1.0, 2.0)
    assert compare_rates(base, side("new", 1.0, 2.0, key="other")) == {}
    assert compare_rates(base, side("new", 1.0, 2.0, unit="1/tick")) == {}
    empty: SideOf[Measures[str]] = SideOf(name="new", kind="clean", runs=())
    assert compare_rates(base, empty) == {}


def test_maxima_of_runs_are_medians_and_compared_by_ranks() -> None:
    def maxima(name: str, *values: float) -> SideOf[Measures[str]]:
        counted = side(name, *values, in_turns=False)
        return counted.having(
            lambda run: {key: m._replace(is_maximum=True) for key, m in run.content.items()}
        )

    base = maxima("base", 70.0, 75.0, 71.0, 90.0, 73.0)
    rate = compare_rates(base, maxima("new", 170.0, 9000.0, 165.0, 180.0, 172.0))[ASKED]
    assert rate.base == pytest.approx(73.0)
    assert rate.new == pytest.approx(172.0)
    # Two of the 252 arrangements of 5 and 5 are as extreme.
    assert rate.p == pytest.approx(2 / 252)
    assert compare_rates(base, None)[ASKED].base == pytest.approx(73.0)
