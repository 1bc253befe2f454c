# SPDX-License-Identifier: GPL-2.0-or-later
"""Laws of the comparison, whatever the numbers are."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.stats import compare_runs, welch_difference
from tests.schedperf.stats.as_dicts import as_dicts

pytestmark = pytest.mark.property

# What benchmarks print: nanoseconds to bytes.
POSITIVE = st.lists(st.floats(1e-9, 1e12), min_size=1, max_size=9)
ANY = st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=9)
# Without a step, or printed in steps.
RESOLUTION = st.sampled_from([None, 1e-3, 1.0])
SEED = st.integers(0, 2**32 - 1)

MIRRORED = {
    "regression": "improvement",
    "improvement": "regression",
    "no-change": "no-change",
    "inconclusive": "inconclusive",
    "invalid": "invalid",
}
# Ways to record a sweep: points, runs a side, and the further columns of a run: of each side, or of
# both if the sides differ.
DESIGNS: dict[str, tuple[int, int, dict[str, list[int]]]] = {
    "plain": (2, 5, {}),
    "tied": (2, 6, {}),
    "moderated": (5, 3, {}),
    "paired": (5, 4, {"round": [0, 1, 2, 3]}),
    "boots": (2, 6, {"boot": [0, 0, 1, 1, 2, 2]}),
    "one boot each": (5, 5, {"boot_id": [1] * 5 + [2] * 5}),
    "one boot and three": (
        2,
        6,
        {"boot": [0] * 6 + [0, 0, 1, 1, 2, 2], "boot_id": [9] * 6 + [0, 0, 1, 1, 2, 2]},
    ),
    "bimodal": (1, 10, {}),
}


def table_of(sides: dict[str, Sequence[float]], **columns: Any) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"value": pd.Series(values, dtype=float)}).assign(side=side, **columns)
        for side, values in sides.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    absent = {"workload": "w", "point": "", "metric": "m", "unit": "s", "better": "lower"}
    return table.assign(**{k: v for k, v in absent.items() if k not in table})


def compare_values(
    base: Sequence[float], new: Sequence[float], resolution: float | None = None
) -> dict[str, Any]:
    table = table_of({"base": base, "new": new}, resolution=resolution)
    [row] = as_dicts(compare_runs(table, base="base").rows)
    return row


def designed(design: str, seed: int) -> pd.DataFrame:
    """Make the runs of a sweep with noise, and a change that is sometimes there."""
    random = np.random.default_rng(seed)
    points, n, columns = DESIGNS[design]
    parts = []
    for point in range(points):
        logs = random.normal(0.0, 0.02, (2, n))
        logs[1] += random.choice([0.0, 0.02, -0.08])
        if design == "bimodal":
            logs += 0.5 * (random.random((2, n)) < random.random((2, 1)))
        values = np.round(np.exp(logs), 2) if design == "tied" else np.exp(logs)
        part = table_of({"base": list(values[0]), "new": list(values[1])}, point=f"groups={point}")
        further = {name: numbers * (2 * n // len(numbers)) for name, numbers in columns.items()}
        parts.append(part.assign(**further))
    return pd.concat(parts, ignore_index=True)


def compare(table: pd.DataFrame) -> list[dict[str, Any]]:
    rows = as_dicts(compare_runs(table, base="base").rows)
    return sorted(rows, key=lambda row: (row["family"], row["metric"], row["point"]))


def assert_alike(
    one: list[dict[str, Any]], other: list[dict[str, Any]], *, names: Sequence[str]
) -> None:
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        for name in names:
            assert left[name] == pytest.approx(right[name], rel=1e-6, abs=1e-9), name
        assert left["verdict"] == right["verdict"]


class TestEqualSides:
    """compare(a, a) is never significant, and its interval holds no change."""

    @given(ANY, RESOLUTION)
    def test_no_change_is_found_in_equal_data(
        self, values: list[float], resolution: float | None
    ) -> None:
        row = compare_values(values, values, resolution)
        assert row["verdict"] in {"no-change", "inconclusive"}
        assert row["p"] is None or row["p"] == pytest.approx(1.0)
        if row["ci_low"] is not None:
            assert row["ci_low"] <= 1.0 <= row["ci_high"]

    @given(st.sampled_from(sorted(DESIGNS)), SEED)
    def test_nor_in_any_design(self, design: str, seed: int) -> None:
        table = designed(design, seed)
        base = table[table["side"] == "base"]
        for row in compare(pd.concat([base, base.assign(side="new")])):
            assert row["verdict"] in {"no-change", "inconclusive"}


class TestMirror:
    """Swapping the sides swaps the verdict and inverts the ratio."""

    @given(POSITIVE, POSITIVE, RESOLUTION)
    def test_swapping_sides_mirrors_the_row(
        self, one: list[float], other: list[float], resolution: float | None
    ) -> None:
        there = compare_values(one, other, resolution)
        back = compare_values(other, one, resolution)
        assert back["verdict"] == MIRRORED[there["verdict"]]
        assert back["ratio"] == pytest.approx(1.0 / there["ratio"], rel=1e-9)
        assert (back["p"] is None) == (there["p"] is None)
        if there["p"] is not None:
            assert back["p"] == pytest.approx(there["p"], rel=1e-6)
        if there["ci_low"] is not None and there["ci_low"] > 1e-300 and there["ci_high"] < 1e300:
            assert back["ci_low"] == pytest.approx(1.0 / there["ci_high"], rel=1e-6)

    @given(st.sampled_from(sorted(DESIGNS)), SEED)
    def test_in_every_design(self, design: str, seed: int) -> None:
        table = designed(design, seed)
        swapped = table.assign(side=table["side"].map({"base": "new", "new": "base"}))
        for there, back in zip(compare(table), compare(swapped), strict=True):
            assert back["verdict"] == MIRRORED[there["verdict"]]
            assert back["ratio"] == pytest.approx(1.0 / there["ratio"], rel=1e-9)
            assert back["ci_high"] == pytest.approx(1.0 / there["ci_low"], rel=1e-9)
            assert (back["p"], back["q"]) == pytest.approx((there["p"], there["q"]), rel=1e-6)

    @given(ANY, ANY)
    def test_differences_are_mirrored_too(self, one: list[float], other: list[float]) -> None:
        there, back = welch_difference(one, other), welch_difference(other, one)
        assert there.difference is not None
        assert back.difference == -there.difference
        if there.ci_low is not None:
            assert back.ci_high == pytest.approx(-there.ci_low, rel=1e-9, abs=1e-12)


class TestScale:
    """The unit in which a metric is written changes neither p nor ratio."""

    @given(POSITIVE, POSITIVE, st.sampled_from([1e-9, 1e-3, 60.0, 1024.0]))
    def test_scaling_leaves_p_and_ratio(
        self, base: list[float], new: list[float], factor: float
    ) -> None:
        plain = compare_values(base, new)
        scaled = compare_values([factor * x for x in base], [factor * x for x in new])
        assert scaled["ratio"] == pytest.approx(plain["ratio"], rel=1e-9)
        is_noisy = all(len(side) > 1 and max(side) > 1.001 * min(side) for side in (base, new))
        if is_noisy and plain["method"] == scaled["method"]:
            # Rounding of logarithms is all the variance that numbers alike to the last digits have.
            assert scaled["p"] == pytest.approx(plain["p"], rel=1e-3, abs=1e-6)

    @given(st.sampled_from(sorted(DESIGNS)), SEED, st.sampled_from([2.0**-20, 4.0, 2.0**30]))
    def test_in_every_design(self, design: str, seed: int, factor: float) -> None:
        table = designed(design, seed)
        scaled = table.assign(value=factor * table["value"])
        assert_alike(
            compare(table), compare(scaled), names=("ratio", "ci_low", "ci_high", "p", "q")
        )


class TestOrder:
    """Neither the order of the lines nor that of the runs within a side means anything."""

    @given(st.sampled_from(sorted(DESIGNS)), SEED, SEED)
    def test_shuffled_lines_say_the_same(self, design: str, seed: int, other: int) -> None:
        table = designed(design, seed)
        shuffled = table.sample(frac=1.0, random_state=other)
        assert_alike(
            compare(table), compare(shuffled), names=("ratio", "ci_low", "ci_high", "p", "q", "mde")
        )


class TestFamilies:
    """What explains a row takes no part in its decision."""

    @given(st.sampled_from(sorted(DESIGNS)), SEED, SEED)
    def test_an_informational_row_leaves_the_primary_ones(
        self, design: str, seed: int, other: int
    ) -> None:
        table = designed(design, seed)
        more = designed(design, other).assign(metric="z", family="informational")
        both = pd.concat([table.assign(family="primary"), more], ignore_index=True)
        primary = [row for row in compare(both) if row["family"] == "primary"]
        assert_alike(primary, compare(table), names=("p", "q"))


class TestHonesty:
    """Every row that comes out can be written as JSON and has a reason."""

    @given(ANY, ANY, RESOLUTION)
    def test_numbers_are_finite_or_missing(
        self, base: list[float], new: list[float], resolution: float | None
    ) -> None:
        row = compare_values(base, new, resolution)
        row["caveats"] = [[w.text, dict(w.numbers)] for w in row["caveats"]]
        assert json.loads(json.dumps(row, allow_nan=False)) == row
        assert row["reason"]

    @given(st.lists(st.floats(-1e150, 1e150), min_size=1, max_size=9), ANY)
    def test_extreme_values_are_numbers_too(self, base: list[float], new: list[float]) -> None:
        row = compare_values(base, new, 1e-300)
        assert json.dumps({**row, "caveats": None}, allow_nan=False)
        assert row["p"] is None or 0.0 <= row["p"] <= 1.0

    @given(st.sampled_from(sorted(DESIGNS)), SEED)
    def test_q_is_never_below_p_and_the_ratio_lies_in_its_interval(
        self, design: str, seed: int
    ) -> None:
        tolerance = 1.0 + 1e-12
        for row in compare(designed(design, seed)):
            assert row["q"] * tolerance >= row["p"]
            assert row["ci_low"] <= row["ratio"] * tolerance
            assert row["ratio"] <= row["ci_high"] * tolerance
            assert row["rank_low"] is None or row["rank_low"] <= row["rank_ratio"] * tolerance

    @given(st.sampled_from(sorted(DESIGNS)), SEED)
    def test_a_change_has_an_interval_without_1(self, design: str, seed: int) -> None:
        for row in compare(designed(design, seed)):
            # With two modes, their frequency can have changed and the mean's interval be wide.
            if row["verdict"] in {"regression", "improvement"} and "bimodal" not in row["method"]:
                assert not row["ci_low"] <= 1.0 <= row["ci_high"]
                is_up = row["verdict"] == "regression"
                assert math.copysign(1.0, row["ratio"] - 1.0) == (1.0 if is_up else -1.0)
