# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats._sweeps: the whole of a sweep, from numbers on paper."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from schedperf.model.row_groups import Sweep
from schedperf.stats._sweeps import SweepPoint, describe_sweep


def point(name: str, effect: float | None, se: float | None = 0.01, **changes: Any) -> SweepPoint:
    p = None if not effect or not se else float(2.0 * stats.t.sf(abs(effect) / se, 8))
    facts: dict[str, Any] = {
        "point": name, "effect": effect, "se": se, "df": 8.0, "p": p, "is_log": True,
        "verdict": "inconclusive",
    }  # fmt: skip
    return SweepPoint(**{**facts, **changes})


def sweep(effects: Sequence[float], ses: Sequence[float] | None = None) -> list[SweepPoint]:
    errors = ses or [0.01] * len(effects)
    return [
        point(f"groups={2**place}", effect, se)
        for place, (effect, se) in enumerate(zip(effects, errors, strict=True))
    ]


def describe(points: Sequence[SweepPoint]) -> Sweep:
    return describe_sweep("new", "hackbench", "time", points)


class TestMean:
    def test_it_is_geometric_with_the_variances_of_its_points(self) -> None:
        found = describe(sweep([0.1, 0.3], [0.01, 0.03]))
        assert found.geomean_ratio == pytest.approx(math.exp(0.2))
        # Satterthwaite: (1e-4 + 9e-4)^2 / ((1e-4)^2 / 8 + (9e-4)^2 / 8).
        df = 8.0 * 1e-6 / (1e-8 + 81e-8)
        half = stats.t.ppf(0.975, df) * math.sqrt(10e-4) / 2.0
        assert found.ci_low == pytest.approx(math.exp(0.2 - half))
        assert found.ci_high == pytest.approx(math.exp(0.2 + half))

    def test_exact_points_have_an_exact_mean(self) -> None:
        found = describe(sweep([0.1, 0.3], [0.0, 0.0]))
        assert found.ci_low == found.ci_high == pytest.approx(math.exp(0.2))
        assert found.p is None

    @pytest.mark.parametrize(
        "odd", [point("b", None, None), point("b", 0.1, None), point("b", 0.1, is_log=False)]
    )
    def test_a_point_without_its_share_leaves_the_mean_without_one(self, odd: SweepPoint) -> None:
        found = describe([point("a", 0.1), odd])
        assert (found.geomean_ratio, found.ci_low, found.ci_high) == (None, None, None)
        assert found.points == ("a", "b")


class TestGlobalTest:
    def test_it_is_scipy_s_stouffer_with_weights(self) -> None:
        points = sweep([0.01, 0.02, -0.005], [0.01, 0.02, 0.005])
        # SciPy combines one-sided p values.
        one_sided = [float(stats.t.sf(one.effect / one.se, 8)) for one in points]  # type: ignore[operator] # both are given
        z = stats.combine_pvalues(one_sided, method="stouffer", weights=[100.0, 50.0, 200.0])
        expected = 2.0 * min(z.pvalue, 1.0 - z.pvalue)
        assert describe(points).p == pytest.approx(expected, rel=1e-9)

    def test_many_small_changes_are_one_clear_change(self) -> None:
        points = sweep([0.015] * 9)
        assert all(one.p is not None and one.p > 0.05 for one in points)
        p = describe(points).p
        assert p is not None
        assert p < 0.001

    def test_changes_that_cancel_out_are_none(self) -> None:
        assert describe(sweep([0.05, -0.05])).p == pytest.approx(1.0)

    def test_one_tested_point_is_no_sweep(self) -> None:
        found = describe([point("a", 0.1), point("b", 0.1, None)])
        assert (found.p, found.method) == (None, "none")

    def test_a_p_of_0_is_only_very_small(self) -> None:
        p = describe([point("a", 9.0, p=0.0), point("b", 9.0, p=0.0)]).p
        assert p is not None
        assert p < 1e-300 + 1e-16


class TestShape:
    @pytest.mark.parametrize(
        ("effects", "shape"),
        [
            ([0.01, 0.05, 0.1, 0.15], "grows with groups"),
            ([-0.01, -0.05, -0.1, -0.15], "grows with groups"),
            ([0.15, 0.1, 0.05, 0.01], "shrinks with groups"),
            ([0.1, 0.1, 0.1, 0.1], "similar at all groups"),
            ([-0.15, -0.05, 0.05, 0.15], "changes sign with groups"),
        ],
    )
    def test_a_line_over_the_logarithm_of_the_parameter(
        self, effects: list[float], shape: str
    ) -> None:
        points = sweep(effects)
        changed = [point(one.point, one.effect, verdict="regression") for one in points]
        assert describe(changed).shape == shape

    def test_nothing_changed_has_no_shape(self) -> None:
        found = describe(sweep([0.001, 0.002, -0.001]))
        assert (found.shape, found.first_point) == (None, None)

    @pytest.mark.parametrize(
        "names",
        [
            ["groups=1", "groups=2"],
            ["mode=a", "mode=b", "mode=c"],
            ["a=1,b=1", "a=2,b=1", "a=1,b=2"],
            ["a=0", "a=1", "a=2"],
            ["a=-1", "a=1", "a=2"],
            ["a=nan", "a=1", "a=2"],
            ["a=inf", "a=1", "a=2"],
            ["a=1", "a=1.0", "a=01"],
            ["", "a=1", "a=2"],
        ],
    )
    def test_what_is_no_scale_has_no_shape(self, names: list[str]) -> None:
        points = [point(name, 0.2 + 0.1 * place) for place, name in enumerate(names)]
        assert describe(points).shape is None

    def test_other_parameters_may_stand_beside_it(self) -> None:
        points = [point(f"groups={n},mode=pipe", 0.05 * n, verdict="regression") for n in (1, 2, 4)]
        assert describe(points).shape == "grows with groups"

    def test_the_first_point_is_the_first_that_changed(self) -> None:
        points = [
            point("groups=1", 0.0), point("groups=2", 0.1, verdict="improvement"),
            point("groups=4", 0.1, verdict="regression"),
        ]  # fmt: skip
        assert describe(points).first_point == "groups=2"

    def test_the_slope_is_that_of_a_weighted_line(self) -> None:
        # Where the weighted slope is just significant the shape turns from alike to growing.
        ses = [0.01, 0.03, 0.02, 0.01]
        x, weights = np.arange(4.0), np.array(ses) ** -2.0
        centre = (weights * x).sum() / weights.sum()
        critical = stats.norm.ppf(0.975) / math.sqrt((weights * (x - centre) ** 2).sum())
        for factor, shape in ((0.99, "similar at all groups"), (1.01, "grows with groups")):
            points = sweep([0.5 + factor * critical * step for step in range(4)], ses)
            points = [replace(one, verdict="regression") for one in points]
            assert describe(points).shape == shape
