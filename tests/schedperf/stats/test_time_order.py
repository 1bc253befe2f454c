# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats._time_order: what time alone could have made is never called a change."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from schedperf.stats import Result, compare_runs
from schedperf.stats._estimates import Estimates
from schedperf.stats._rows import Block
from schedperf.stats._time_order import Drift, find_drift
from tests.schedperf.stats.as_dicts import as_dicts, df_rows

Compare = Callable[..., dict[str, Any]]
ComparePoints = Callable[..., Result]
MakeBlock = Callable[..., Block]

NOISE = np.array([0.3, -0.5, 0.1, 0.6, -0.4, -0.2, 0.5, -0.3, 0.2, -0.1, 0.4, -0.6])
RECIPE = "interleave the sides (settings with `schedperf ab`, kernels by booting them alternately)"


def values(n: int, *, start: int = 0, drift: float = 0.0, effect: float = 0.0) -> list[float]:
    """Return n runs from place ``start`` on, with 1% noise and a drift per run."""
    noise = np.resize(np.roll(NOISE, start), n)
    return list(np.exp(0.01 * noise + drift * (start + np.arange(n)) + effect))


def blocked(n: int) -> dict[str, Any]:
    return {"order": {"base": list(range(n)), "new": list(range(n, 2 * n))}}


class TestOneRow:
    def test_two_short_blocks_are_inconclusive_with_the_recipe(
        self, compare_values: Compare
    ) -> None:
        row = compare_values(values(5), values(5, start=5, effect=0.2), **blocked(5))
        assert row["q"] < 0.05
        assert row["verdict"] == "inconclusive"
        assert (
            "the sides were not interleaved, and 5+5 runs are too few to separate a change from "
            "drift; record 10 runs per side"
        ) in row["reason"]
        assert RECIPE in row["reason"]
        assert row["more_runs"] is None

    def test_base_after_new_is_blocked_too(self, compare_values: Compare) -> None:
        order = {"base": [5, 6, 7, 8, 9], "new": [0, 1, 2, 3, 4]}
        row = compare_values(values(5), values(5, effect=0.2), order=order)
        assert row["verdict"] == "inconclusive"
        assert ": the sides were not interleaved, and 5+5 runs are too few" in row["reason"]

    def test_equal_sides_in_blocks_are_not_called_equal_either(
        self, compare_values: Compare
    ) -> None:
        row = compare_values(values(5), values(5), **blocked(5))
        assert row["verdict"] == "inconclusive"

    def test_ten_quiet_runs_a_side_are_decided(self, compare_values: Compare) -> None:
        row = compare_values(values(10), values(10, start=10, effect=0.2), **blocked(10))
        assert row["verdict"] == "regression"

    def test_a_drift_that_is_seen_is_named_with_its_size(self, compare_values: Compare) -> None:
        n = 12
        row = compare_values(values(n, drift=0.01), values(n, start=n, drift=0.01), **blocked(n))
        assert row["q"] < 0.05
        assert row["verdict"] == "inconclusive"
        assert "drift within the sides explains a change of +1" in row["reason"]
        assert RECIPE in row["reason"]

    @pytest.mark.parametrize("order", [{"base": [0, 3, 4, 7, 8], "new": [1, 2, 5, 6, 9]}, np.nan])
    def test_turns_and_an_unknown_order_are_no_blocks(
        self, compare_values: Compare, order: object
    ) -> None:
        row = compare_values(values(5), values(5, start=5, effect=0.2), order=order)
        assert row["verdict"] == "regression"

    def test_rounds_cancel_a_drift(self, compare_values: Compare) -> None:
        drift = 0.05 * np.arange(8)
        base, new = (np.array(values(8, effect=effect)) * np.exp(drift) for effect in (0.0, 0.04))
        new = new * np.exp(0.002 * NOISE[:8])
        row = compare_values(
            list(base), list(new), round=list(range(8)),
            order={"base": list(range(0, 16, 2)), "new": list(range(1, 16, 2))},
        )  # fmt: skip
        assert row["verdict"] == "regression"
        assert row["ratio"] == pytest.approx(np.exp(0.04), rel=0.01)
        # As two samples the same runs show nothing.
        assert stats.ttest_ind(np.log(new), np.log(base), equal_var=False).pvalue > 0.5


class TestSweep:
    @staticmethod
    def points(count: int, **shape: float) -> dict[str, tuple[list[float], list[float]]]:
        # Each point has its own noise, and each point's runs are in blocks.
        random = np.random.default_rng(4)
        found = {}
        for place in range(count):
            noise = random.normal(0.0, 0.01, 10)
            trend = shape.get("drift", 0.0) * np.arange(10)
            effect = np.where(np.arange(10) < 5, 0.0, shape.get("effect", 0.0))
            logs = noise + trend + effect
            found[f"groups={2**place}"] = (list(np.exp(logs[:5])), list(np.exp(logs[5:])))
        return found

    def test_four_quiet_rows_together_decide_what_one_cannot(
        self, compare_points: ComparePoints
    ) -> None:
        for count, verdicts in ((3, {"inconclusive"}), (6, {"regression"})):
            result = compare_points(self.points(count, effect=0.2), columns=blocked(5))
            assert {row.verdict for row in result.rows} == verdicts

    def test_a_drift_that_all_rows_share_is_found_with_few_runs(
        self, compare_points: ComparePoints
    ) -> None:
        result = compare_points(self.points(8, drift=0.02), columns=blocked(5))
        for row in as_dicts(result.rows):
            assert row["verdict"] == "inconclusive"
            assert "drift within the sides explains a change of +" in row["reason"]

    def test_a_small_change_that_a_hidden_drift_would_explain_is_not_decided(
        self, compare_points: ComparePoints
    ) -> None:
        result = compare_points(self.points(4, effect=0.01, drift=0.003), columns=blocked(5))
        significant = [row for row in as_dicts(result.rows) if row["q"] < 0.05]
        assert significant
        assert all(
            "drift that these runs cannot exclude could explain it" in r["reason"]
            for r in significant
        )


class TestOutlives:
    @staticmethod
    def outlives(effect: float, bias: float, se: float = 0.01) -> bool:
        found = Estimates(count=1)
        found.effect[:], found.se[:], found.df[:] = effect, 0.01, 10.0
        number = {"bias": np.array([bias]), "se": np.array([se]), "df": np.array([10.0])}
        flag = np.ones(1, dtype=np.bool_)
        drift = Drift(is_blocked=flag, is_drifting=~flag, is_pooled=flag, **number)
        return bool(drift.outlives(found)[0])

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_the_effect_must_remain_and_keep_its_sign_without_the_drift(self, sign: float) -> None:
        assert self.outlives(0.1 * sign, 0.05 * sign)
        assert self.outlives(0.1 * sign, -0.05 * sign)
        assert not self.outlives(0.1 * sign, 0.09 * sign)
        # Without the drift the change would have gone the other way.
        assert not self.outlives(0.1 * sign, 0.2 * sign)

    def test_an_unknown_order_leaves_the_effect_as_it_is(self) -> None:
        assert self.outlives(0.1, np.nan, np.nan)


class TestEstimate:
    def test_one_row_is_the_slope_of_a_model_with_two_sides_and_a_trend(
        self, make_block: MakeBlock
    ) -> None:
        base, new = np.array(values(6, drift=0.004)), np.array(values(7, start=6, drift=0.004))
        block = make_block(base, new, order=(np.arange(6), np.arange(6, 13)))
        found = find_drift([block], np.zeros(1, dtype=np.intp))
        places = np.arange(13) / 12.0
        design = np.column_stack((places, places < 0.5, places >= 0.5)).astype(float)
        logs = np.concatenate((base, new))
        (slope, *_), [residual], *_ = np.linalg.lstsq(design, logs, rcond=None)
        reach = places[6:].mean() - places[:6].mean()
        within = np.concatenate((places[:6] - places[:6].mean(), places[6:] - places[6:].mean()))
        se = np.sqrt(residual / 10.0 / (within**2).sum())
        assert found.bias[0] == pytest.approx(slope * reach)
        assert found.se[0] == pytest.approx(se * reach, rel=1e-6)
        assert found.df[0] == 10.0

    def test_times_count_only_by_their_order(self, make_block: MakeBlock) -> None:
        base, new = values(6), values(6, start=6)
        plain = make_block(base, new, order=(np.arange(6), np.arange(6, 12)))
        late = make_block(base, new, order=(np.arange(6) ** 3.0, np.arange(6, 12) * 1e9))
        found = [find_drift([block], np.zeros(1, dtype=np.intp)).bias[0] for block in (plain, late)]
        assert found[0] == found[1]

    def test_a_false_drift_is_found_at_its_level(self, make_block: MakeBlock) -> None:
        random = np.random.default_rng(9)
        block = make_block(
            *random.normal(0.0, 0.02, (2, 4000, 6)), order=(np.arange(6), np.arange(6, 12))
        )
        alone = find_drift([block], np.arange(4000))
        assert alone.is_drifting.mean() == pytest.approx(0.05, abs=0.012)
        assert not alone.is_pooled.any()
        sweeps = find_drift([block], np.repeat(np.arange(400), 10))
        assert sweeps.is_drifting[::10].mean() == pytest.approx(0.05, abs=0.035)
        assert sweeps.is_pooled.all()


RUNS = 20
ROWS = 9


def wandering(phi: float, *, order: str, seed: int) -> pd.DataFrame:
    """Return two equal sides whose noise is a first-order autoregression in time."""
    generator = np.random.default_rng(seed)
    rows = []
    for point in range(ROWS):
        noise = generator.standard_normal(2 * RUNS)
        for place in range(1, 2 * RUNS):
            noise[place] = phi * noise[place - 1] + np.sqrt(1.0 - phi**2) * noise[place]
        for place, value in enumerate(np.exp(0.02 * noise)):
            pair, second = divmod(place, 2)
            is_new = place >= RUNS if order == "blocks" else (pair + second) % 2 == 1
            rows.append(
                {
                    "side": "new" if is_new else "base",
                    "workload": "w",
                    "point": f"groups={2**point}",
                    "metric": "time",
                    "unit": "s",
                    "better": "lower",
                    "value": value,
                    "order": place,
                    "round": None if order == "blocks" else pair,
                }
            )
    return pd.DataFrame(rows)


def warned(runs: pd.DataFrame) -> list[float]:
    rows = compare_runs(runs, base="base").rows
    return [
        float(str(one.numbers["correlation"]))
        for row in rows
        for one in row.caveats
        if one.code == "serial"
    ]


def widths(runs: pd.DataFrame) -> "pd.Series[float]":
    rows = df_rows(compare_runs(runs, base="base").rows)
    return rows["ci_high"].astype(float) - rows["ci_low"].astype(float)


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_wanders_between_blocks_is_told(seed: int) -> None:
    found = warned(wandering(0.8, order="blocks", seed=seed))
    assert len(found) == ROWS
    # Half of the wandering is taken for each side's mean, so less is seen of it.
    assert found[0] == pytest.approx(0.7, abs=0.2)


@pytest.mark.parametrize("order", ["blocks", "turns"])
def test_noise_that_does_not_wander_is_not_told(order: str) -> None:
    told = sum(bool(warned(wandering(0.0, order=order, seed=seed))) for seed in range(20))
    assert told <= 2


def test_the_order_in_time_makes_the_interval_not_that_of_the_table() -> None:
    runs = wandering(0.8, order="blocks", seed=1)
    shuffled = runs.sample(frac=1.0, random_state=0)
    ordered = widths(runs).to_numpy()
    by_point = df_rows(compare_runs(shuffled, base="base").rows).set_index("point")
    again = (by_point["ci_high"] - by_point["ci_low"]).astype(float)
    expected = dict(zip([f"groups={2**point}" for point in range(ROWS)], ordered, strict=True))
    assert again.to_dict() == pytest.approx(expected)


def test_intervals_of_wandering_noise_are_wider() -> None:
    runs = wandering(0.8, order="blocks", seed=2)
    assert (widths(runs) > 1.5 * widths(runs.drop(columns="order"))).all()


def test_the_correlation_allows_for_the_mean_that_its_values_share(
    compare_values: Compare,
) -> None:
    # 1 to 6, less 3.5: the products of neighbours sum to 8.75 and the squares to 17.5, which is
    # 1/2; a mean of 6 values hides 1/6 more.
    ramp = list(np.exp(0.01 * np.arange(1, 7)))
    order = {"base": list(range(6)), "new": list(range(6, 12))}
    row = compare_values(ramp, ramp, order=order)
    [serial] = [one for one in row["caveats"] if one.code == "serial"]
    assert serial.numbers["correlation"] == pytest.approx(1 / 2 + 1 / 6)


def test_few_values_have_no_series() -> None:
    runs = wandering(0.8, order="turns", seed=3)
    assert not warned(runs[runs["round"] < 4])
