"""Laws of the comparison, whatever the numbers are."""

import json
import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedperf.stats import compare_runs, records, welch_difference

pytestmark = pytest.mark.property

# What benchmarks print: nanoseconds to bytes.
POSITIVE = st.lists(st.floats(1e-9, 1e12), min_size=1, max_size=6)
ANY = st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=6)
# Without a step, or printed in steps.
RESOLUTION = st.sampled_from([None, 1e-3, 1.0])

# The machine may be busy, so there is no deadline.
LAW = settings(deadline=None, max_examples=60)

MIRRORED = {
    "regression": "improvement",
    "improvement": "regression",
    "no-change": "no-change",
    "inconclusive": "inconclusive",
}


def compare_values(
    base: list[float], new: list[float], resolution: float | None = None
) -> dict[str, Any]:
    table = pd.DataFrame(
        [
            {
                "side": side, "workload": "w", "point": "", "metric": "m", "unit": "s",
                "better": "lower", "value": value, "resolution": resolution,
            }
            for side, values in (("base", base), ("new", new))
            for value in values
        ]
    ).astype({"resolution": float})  # fmt: skip
    [row] = records(compare_runs(table, base="base").rows)
    return row


class TestEqualSides:
    """compare(a, a) is never significant, and its interval holds no change."""

    @LAW
    @given(ANY, RESOLUTION)
    def test_no_change_is_found_in_equal_data(
        self, values: list[float], resolution: float | None
    ) -> None:
        row = compare_values(values, values, resolution)
        assert row["verdict"] in {"no-change", "inconclusive"}
        assert row["p"] is None or row["p"] == pytest.approx(1.0)
        if row["ci_low"] is not None:
            assert row["ci_low"] <= 1.0 <= row["ci_high"]


class TestMirror:
    """Swapping the sides swaps the verdict and inverts the ratio."""

    @LAW
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

    @LAW
    @given(ANY, ANY)
    def test_differences_are_mirrored_too(self, one: list[float], other: list[float]) -> None:
        there, back = welch_difference(one, other), welch_difference(other, one)
        assert there.difference is not None
        assert back.difference == -there.difference
        if there.ci_low is not None:
            assert back.ci_high == pytest.approx(-there.ci_low, rel=1e-9, abs=1e-12)


class TestScale:
    """The unit in which a metric is written changes neither p nor ratio."""

    @LAW
    @given(POSITIVE, POSITIVE, st.sampled_from([1e-9, 1e-3, 60.0, 1024.0]))
    def test_scaling_leaves_p_and_ratio(
        self, base: list[float], new: list[float], factor: float
    ) -> None:
        plain = compare_values(base, new)
        scaled = compare_values([factor * x for x in base], [factor * x for x in new])
        assert scaled["ratio"] == pytest.approx(plain["ratio"], rel=1e-9)
        if plain["p"] is not None and scaled["p"] is not None:
            # Rounding of logarithms is all the variance that numbers alike to the last digits have.
            assert scaled["p"] == pytest.approx(plain["p"], rel=1e-3, abs=1e-6)


class TestHonesty:
    """Every row that comes out can be written as JSON and has a reason."""

    @LAW
    @given(ANY, ANY, RESOLUTION)
    def test_numbers_are_finite_or_missing(
        self, base: list[float], new: list[float], resolution: float | None
    ) -> None:
        row = compare_values(base, new, resolution)
        row["warnings"] = [warning.text for warning in row["warnings"]]
        assert json.loads(json.dumps(row, allow_nan=False)) == row
        assert row["reason"]

    @LAW
    @given(POSITIVE, POSITIVE)
    def test_the_ratio_lies_in_its_interval(self, base: list[float], new: list[float]) -> None:
        row = compare_values(base, new)
        if row["ci_low"] is not None:
            tolerance = 1.0 + 1e-12
            assert row["ci_low"] <= row["ratio"] * tolerance
            assert row["ratio"] <= row["ci_high"] * tolerance

    @LAW
    @given(POSITIVE, POSITIVE)
    def test_a_verdict_of_change_has_an_interval_without_1(
        self, base: list[float], new: list[float]
    ) -> None:
        row = compare_values(base, new)
        if row["verdict"] in {"regression", "improvement"}:
            assert not row["ci_low"] <= 1.0 <= row["ci_high"]
            assert math.copysign(1.0, row["ratio"] - 1.0) == (
                1.0 if row["verdict"] == "regression" else -1.0
            )
