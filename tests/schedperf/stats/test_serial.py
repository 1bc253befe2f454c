"""schedperf.stats._serial: runs that resemble their neighbours tell less than they count."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schedperf.stats import compare_runs
from tests.schedperf.stats.as_dicts import df_rows

Compare = Callable[..., dict[str, Any]]

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
