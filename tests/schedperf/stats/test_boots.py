# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows with one boot per side: the variance between boots is part of p, the CI and the verdict."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from schedperf.model.rows import BootSd
from schedperf.stats import compare_runs
from tests.schedperf.stats.as_dicts import as_dicts

MakeRuns = Callable[..., pd.DataFrame]
Compare = Callable[..., dict[str, Any]]

BASE = (0.600, 0.606, 0.603, 0.607, 0.598, 0.604, 0.601, 0.605, 0.599, 0.602)
OF_TWO_BOOTS = {"base": "boot-a", "new": "boot-b"}
ASSUMED = BootSd(sd=0.1, source="assumed")


def times(factor: float) -> list[float]:
    return [factor * value for value in BASE]


@pytest.mark.parametrize(
    ("boot_id", "verdict"),
    [
        (OF_TWO_BOOTS, "inconclusive"),
        ({"base": "boot-a", "new": "boot-a"}, "regression"),
        ({"base": "boot-a", "new": None}, "regression"),
        (None, "regression"),
    ],
)
def test_only_boots_that_are_known_to_differ_count(
    compare_values: Compare, boot_id: object, verdict: str
) -> None:
    row = compare_values(BASE, times(1.05), boot_id=boot_id)
    assert row["verdict"] == verdict
    assert (row["boot_sd"] is None) == (verdict == "regression")


def test_the_reason_names_the_boots_and_not_the_runs(compare_values: Compare) -> None:
    row = compare_values(BASE, times(1.05), boot_id=OF_TWO_BOOTS)
    why = "one boot per side; two boots of one kernel can differ by this much"
    how = "boot-to-boot standard deviation 10% (assumed); record two boots per side or more"
    assert f"(q = 0.73, n = 10+10 runs): {why}; {how}; smallest detectable" in row["reason"]
    assert row["more_runs"] is None
    assert (row["p_rank"], row["rank_low"]) == (None, None)


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.30, "inconclusive"), (1.33, "regression"), (1 / 1.30, "inconclusive"),
     (1 / 1.33, "improvement"), (2.0, "regression"), (1.0, "inconclusive")],
)  # fmt: skip
def test_without_history_about_32_percent_is_the_smallest_change(
    compare_values: Compare, factor: float, verdict: str
) -> None:
    assert compare_values(BASE, times(factor), boot_id=OF_TWO_BOOTS)["verdict"] == verdict


def test_the_interval_is_that_of_the_formula(make_runs: MakeRuns) -> None:
    table = make_runs({"base": BASE, "new": times(1.05)}, boot_id=OF_TWO_BOOTS)
    [row] = as_dicts(compare_runs(table, base="base", boot_sd=0.02).rows)
    within = 2.0 * float(np.var(np.log(BASE), ddof=1)) / len(BASE)
    se = math.sqrt(2.0 * 0.02**2 + within)
    # The standard deviation between boots is taken as known, so only that of the runs has df.
    df = se**4 / (within**2 / (2.0 * (len(BASE) - 1.0)))
    half = float(stats.t.ppf(0.975, df)) * se
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(
        (1.05 * math.exp(-half), 1.05 * math.exp(half))
    )
    assert row["p"] == pytest.approx(float(2.0 * stats.t.sf(math.log(1.05) / se, df)))
    assert row["boot_sd"] == BootSd(sd=0.02, source="given")


def test_equal_boots_can_be_shown_to_be_within_the_margin(make_runs: MakeRuns) -> None:
    table = make_runs({"base": BASE, "new": times(1.001)}, boot_id=OF_TWO_BOOTS)
    [row] = as_dicts(compare_runs(table, base="base", boot_sd=0.005).rows)
    assert row["verdict"] == "no-change"


def earlier(make_runs: MakeRuns, kernels: Sequence[Sequence[float]]) -> list[pd.DataFrame]:
    """Return a table for each boot, with two runs; the value is the boot's deviation on logs."""
    return [
        make_runs(
            {"base": [math.exp(boot - 0.001), math.exp(boot + 0.001)]},
            boot_id=f"earlier-{kernel}-{number}",
            kernel=f"kernel {kernel}",
        )
        for kernel, boots in enumerate(kernels)
        for number, boot in enumerate(boots)
    ]


def test_history_tells_the_deviation_of_boots_within_kernels(make_runs: MakeRuns) -> None:
    # The kernels differ by 30%; the variance between boots excludes that.
    kernels = [(-0.01, 0.0, 0.01, 0.0), (0.29, 0.3, 0.31, 0.3)]
    table = make_runs({"base": BASE, "new": times(1.05)}, boot_id=OF_TWO_BOOTS)
    past = earlier(make_runs, kernels)
    [row] = as_dicts(compare_runs(table, base="base", history=past).rows)
    of_runs = 2.0 * 0.001**2
    between = float(np.var(kernels[0], ddof=1)) - of_runs / 2.0
    assert row["boot_sd"].source == "history"
    assert row["boot_sd"].df == 6
    assert row["boot_sd"].sd == pytest.approx(math.sqrt(between))
    assert row["verdict"] == "regression"


@pytest.mark.parametrize("drop", ["kernel", "boot"])
def test_few_or_unknown_earlier_boots_tell_nothing(make_runs: MakeRuns, drop: str) -> None:
    past = earlier(make_runs, [(-0.01, 0.0, 0.01, 0.0), (0.29, 0.3, 0.31, 0.3)])
    past = past[:-1] if drop == "boot" else [part.drop(columns="kernel") for part in past]
    table = make_runs({"base": BASE, "new": times(1.05)}, boot_id=OF_TWO_BOOTS)
    [row] = as_dicts(compare_runs(table, base="base", history=past).rows)
    assert row["boot_sd"] == ASSUMED


@pytest.mark.parametrize(
    ("base", "change"), [(BASE, "+200.0%"), ((0.0, *BASE[1:]), "+66.7%")], ids=["logs", "shares"]
)
def test_maxima_of_one_boot_each_are_inconclusive(
    compare_values: Compare, base: Sequence[float], change: str
) -> None:
    row = compare_values(base, times(3.0), boot_id=OF_TWO_BOOTS, is_maximum=True)
    assert row["verdict"] == "inconclusive"
    assert row["reason"] == (
        f"{change}: one boot per side, and tests of maxima exclude boot-to-boot variance; "
        "record at least 5 boots per side"
    )
    assert (row["p"], row["more_runs"]) == (None, None)


def test_values_that_are_all_0_are_equal_on_any_boot(compare_values: Compare) -> None:
    row = compare_values([0.0] * 5, [0.0] * 5, boot_id=OF_TWO_BOOTS)
    assert (row["verdict"], row["boot_sd"]) == ("no-change", None)


def test_where_boots_hardly_differ_more_runs_are_missing_and_decide(make_runs: MakeRuns) -> None:
    pattern = np.array([-0.06, 0.0, 0.06, 0.03, -0.03])

    def judged(factor: float, n: int, boot_sd: float = 0.005) -> dict[str, Any]:
        runs = np.exp(np.resize(pattern, n) + 1e-6 * np.arange(n))
        sides = {"base": runs, "new": factor * runs[::-1]}
        table = make_runs(sides, boot_id=OF_TWO_BOOTS)
        [row] = as_dicts(compare_runs(table, base="base", boot_sd=boot_sd).rows)
        return row

    for factor, verdict in ((1.0, "no-change"), (1.05, "regression")):
        few = judged(factor, 5)
        assert few["verdict"] == "inconclusive"
        assert "not significant, and equivalence within +-3% is not shown" in few["reason"]
        assert f"about {few['more_runs']} more runs per side" in few["reason"]
        # Boots add to what the runs need.
        assert few["more_runs"] > (judged(factor, 5, boot_sd=0.0)["more_runs"])
        assert judged(factor, 5 + few["more_runs"])["verdict"] == verdict
    hidden = judged(1.0, 5, boot_sd=0.02)
    assert "one boot per side; two boots of one kernel can differ" in hidden["reason"]
    assert hidden["more_runs"] is None


def test_two_modes_of_one_boot_each_do_not_decide(compare_values: Compare) -> None:
    slow = [1.1 * value for value in BASE]
    mixed = (*BASE[:9], slow[9]), (BASE[0], *slow[1:])
    assert compare_values(*mixed)["verdict"] == "regression"
    assert compare_values(*mixed, boot_id=OF_TWO_BOOTS)["verdict"] == "inconclusive"


def test_points_of_a_sweep_share_their_boots(make_runs: MakeRuns) -> None:
    parts = [
        make_runs({"base": BASE, "new": times(1.2)}, point=f"x={n}", boot_id=OF_TWO_BOOTS)
        for n in range(1, 10)
    ]
    result = compare_runs(pd.concat(parts, ignore_index=True), base="base")
    [(_, sweep)] = result.sweeps
    first = result.rows[0]
    assert sweep.ci_low is not None
    assert sweep.p is not None
    assert first.ci_low is not None
    assert first.p is not None
    # Nine points say no more of two boots than one.
    assert sweep.ci_low == pytest.approx(first.ci_low, rel=0.01)
    assert sweep.p == pytest.approx(first.p, rel=0.05)


def test_interleaved_runs_of_two_boots_are_of_two_boots(compare_values: Compare) -> None:
    # Two guests that run at once.
    row = compare_values(BASE, times(1.05), boot_id=OF_TWO_BOOTS, round=list(range(10)))
    assert (row["replication"], row["verdict"]) == ("rounds", "inconclusive")


def test_several_boots_on_one_side_tell_how_boots_differ(compare_values: Compare) -> None:
    boots = [number // 2 for number in range(10)]
    several = [value * (1.0 + 0.02 * (boot - 2)) for value, boot in zip(BASE, boots, strict=True)]
    columns: dict[str, object] = {
        "boot": {"base": 0, "new": boots},
        "boot_id": {"base": "a", "new": [f"b{boot}" for boot in boots]},
    }
    near = compare_values(BASE, [1.05 * value for value in several], **columns)
    far = compare_values(BASE, [1.5 * value for value in several], **columns)
    assert [(row["verdict"], row["boot_sd"]) for row in (near, far)] == [
        ("inconclusive", None),
        ("regression", None),
    ]
    # One value beside five: their variance stands for both.
    means = np.log([1.05 * value for value in several]).reshape(5, 2).mean(axis=1)
    lone = float(np.mean(np.log(BASE)))
    se = float(np.std(means, ddof=1)) * math.sqrt(1.0 + 1.0 / 5.0)
    t = (float(means.mean()) - lone) / se
    assert near["p"] == pytest.approx(float(2.0 * stats.t.sf(t, 4)))
