# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by the tests of the statistics: tables of runs and blocks of values, from lists."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from schedperf.model.frame import Frame
from schedperf.stats import Result, compare_runs
from schedperf.stats._rows import Block, complete
from tests.schedperf.stats.as_dicts import as_dicts

Floats = npt.NDArray[np.float64]
MakeRuns = Callable[..., pd.DataFrame]

KEY = {"workload": "hackbench", "point": "", "metric": "time", "unit": "s", "better": "lower"}


def _make_runs(sides: Mapping[str, Sequence[object]], **columns: object) -> pd.DataFrame:
    rows = []
    for side, values in sides.items():
        mine = {
            name: column[side] if isinstance(column, Mapping) else column
            for name, column in columns.items()
        }
        for place, value in enumerate(values):
            own = {
                name: column[place] if isinstance(column, list) else column
                for name, column in mine.items()
            }
            rows.append({"side": side, **KEY, "value": value, **own})
    return pd.DataFrame(rows)


@pytest.fixture
def make_runs() -> MakeRuns:
    """Return a function that makes a table of runs from the values of each side.

    A further column is one value, a list (one value a run), or a dict of those by side.
    """
    return _make_runs


@pytest.fixture
def compare_values() -> Callable[..., dict[str, Any]]:
    """Return a function that compares the runs of two sides and returns the only row."""

    def compare_values(base: Sequence[object], new: Sequence[object], **columns: Any) -> Any:
        [row] = as_dicts(
            compare_runs(_make_runs({"base": base, "new": new}, **columns), base="base").rows
        )
        return row

    return compare_values


@pytest.fixture
def compare_points() -> Callable[..., Result]:
    """Return a function that compares a sweep: (base, new) of each point."""

    def compare_points(
        points: Mapping[str, tuple[Sequence[float], Sequence[float]]], **options: Any
    ) -> Result:
        columns = options.pop("columns", {})
        parts = [
            _make_runs({"base": base, "new": new}, point=point, **columns)
            for point, (base, new) in points.items()
        ]
        return compare_runs(pd.concat(parts, ignore_index=True), base="base", **options)

    return compare_points


@pytest.fixture
def completed() -> Callable[..., Frame]:
    """Return ``make_runs`` with all columns filled in, as the engine's modules take it."""

    def completed(sides: Mapping[str, Sequence[object]], **columns: object) -> Frame:
        return complete(_make_runs(sides, **columns))

    return completed


@pytest.fixture
def make_block() -> Callable[..., Block]:
    """Return a function that makes a block from matrices, one line a row."""

    def make_block(
        base: object,
        new: object,
        *,
        order: tuple[object, object] | None = None,
        floor: float = 0.0,
        is_paired: bool = False,
    ) -> Block:
        one, other = (np.atleast_2d(np.asarray(side, dtype=np.float64)) for side in (base, new))
        times: list[Floats] = [
            np.full(one.shape, np.nan),
            np.full(other.shape, np.nan),
        ]
        if order is not None:
            times = [
                np.broadcast_to(np.asarray(part, dtype=np.float64), side.shape)
                for part, side in zip(order, (one, other), strict=True)
            ]
        return Block(
            rows=np.arange(len(one)),
            base=one,
            new=other,
            order_base=times[0],
            order_new=times[1],
            floors=np.full((len(one), 2), floor),
            is_paired=is_paired,
        )

    return make_block
