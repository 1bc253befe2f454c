# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure false positives and power on samples of real recordings of one unchanged kernel.

The A/A comparisons are selected in three ways. "shuffled": the runs are assigned to the sides at
random, as the theory of all tests assumes. "odd/even": every other run belongs to new, as in an
interleaved recording. "blocks": the runs of base come first, then those of new. The last two keep
the autocorrelation of the noise. Then known changes are injected into the runs of new: a shift,
another share of slow runs (for which runs of base are made slow too), and a larger spread.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np
import pandas as pd
from msgspec import to_builtins
from numpy.typing import NDArray

from bench.verdicts.measure import DIRECTIONS, OURS, SEED, Rate, rate
from bench.verdicts.rivals import RIVALS, Samples
from schedperf.inputs.benchmarks import BadLine, all_parsers
from schedperf.model.errors import InputError
from schedperf.stats import compare_runs

Floats = NDArray[np.float64]
Draw = Literal["shuffled", "odd/even", "blocks"]
Change = Literal["shift", "slow mode", "spread"]

RUNS = (5, 10, 20)
SHUFFLES = 300
SHIFTS = (0.05, 0.10, 0.20)
# Slow runs are slower by this factor; these shares of the runs of base and of new are slow.
SLOW_FACTOR = 3.0
SLOW_SHARES = (0.1, 0.7)
# The distance of each run of new from the median grows by this factor.
SPREAD_FACTOR = 3.0
# Codes of the warnings about the injected changes.
FLAGS = ("modes", "spread")

# A line between two runs of a text file, as written by the script that ran the programs.
RUN_LINE = re.compile(r"^### run \d+.*$", re.MULTILINE)
# A metric with fewer values is left out, e.g. that of a program that ran only in some rounds.
FEWEST_RUNS = 2 * max(RUNS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """The values of a recording.

    :param numbers: shape (metrics, rounds); rounds in the order of time
    :param is_higher_better: shape (metrics,)
    """

    name: str
    metrics: tuple[str, ...]
    numbers: Floats
    is_higher_better: NDArray[np.bool_]


def read_csv(path: Path) -> Recording:
    """Read the table that ``extract_aa`` writes, such as aa.csv.

    :raises InputError: no metric has FEWEST_RUNS values
    """
    table = pd.read_csv(path, comment="#")
    table["name"] = table["point"] + " " + table["metric"]
    series = {str(name): rows["value"].tolist() for name, rows in table.groupby("name", sort=False)}
    better = dict(zip(table["name"], table["better"] == "higher", strict=True))
    return _recording(path.name, series, better)


def read_texts(folder: Path) -> Recording:
    """Read files of captured text: one per program, with a line ``### run N`` before each run.

    The project's parsers read the text. Only primary metrics are kept; several values of a metric
    in one run are averaged.

    :raises InputError: no metric has FEWEST_RUNS values
    """
    series: dict[str, list[float]] = {}
    better: dict[str, bool] = {}
    for path in sorted(folder.glob("*.txt")):
        for text in RUN_LINE.split(path.read_text(encoding="utf-8"))[1:]:
            for metric, (value, is_higher_better) in _numbers(text, path.name).items():
                name = f"{path.stem} {metric}"
                series.setdefault(name, []).append(value)
                better[name] = is_higher_better
    return _recording(str(folder.name), series, better)


def _numbers(text: str, label: str) -> dict[str, tuple[float, bool]]:
    found: dict[str, list[float]] = {}
    better: dict[str, bool] = {}
    for parser in all_parsers().values():
        for item in parser.read(text.splitlines(), label) if parser.claims(text) else ():
            if not isinstance(item, BadLine) and item.metric.family == "primary":
                found.setdefault(item.metric.name, []).append(item.value)
                better[item.metric.name] = item.metric.better == "higher"
    return {name: (fmean(values), better[name]) for name, values in found.items()}


def _recording(
    name: str, series: Mapping[str, Sequence[float]], better: Mapping[str, bool]
) -> Recording:
    long = {key: values for key, values in series.items() if len(values) >= FEWEST_RUNS}
    if not long:
        raise InputError(f"{name}: no program has {FEWEST_RUNS} runs with a number; record more")
    rounds = min(len(values) for values in long.values())
    return Recording(
        name=name,
        metrics=tuple(long),
        numbers=np.array([values[:rounds] for values in long.values()]),
        is_higher_better=np.array([better[key] for key in long]),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Windows:
    """Samples of a recording, each with two sides.

    :param base: values of base, shape (windows, metrics, runs)
    :param new: values of new, same shape
    :param places: numbers of the rounds of base and of new, shape (2, windows, runs)
    """

    base: Floats
    new: Floats
    places: NDArray[np.int64]


def draw(recording: Recording, how: Draw, n: int, rng: np.random.Generator) -> Windows:
    """Select samples of 2 n rounds and assign n to each side, with all metrics of the round.

    "shuffled" takes SHUFFLES random samples; the other two take all samples of 2 n consecutive
    rounds.
    """
    rounds = recording.numbers.shape[1]
    if how == "shuffled":
        taken = np.stack([rng.choice(rounds, 2 * n, replace=False) for _ in range(SHUFFLES)])
    else:
        taken = np.arange(rounds - 2 * n + 1)[:, None] + np.arange(2 * n)
    split = (
        (slice(0, None, 2), slice(1, None, 2)) if how == "odd/even" else (slice(n), slice(n, None))
    )
    base, new = (taken[:, part] for part in split)
    values = np.moveaxis(recording.numbers[:, np.stack([base, new])], 0, 2)
    return Windows(base=values[0], new=values[1], places=np.stack([base, new]))


def inject(windows: Windows, change: Change, shift: float, rng: np.random.Generator) -> Windows:
    """Return the windows with a known change of new (and, for "slow mode", of base).

    :param shift: new / base - 1; only used for "shift"
    :param rng: only used for "slow mode"
    """
    base, new = windows.base, windows.new
    if change == "shift":
        return replace(windows, new=new * (1 + shift))
    if change == "slow mode":
        slow = [rng.random(new.shape) < share for share in SLOW_SHARES]
        return replace(
            windows,
            base=np.where(slow[0], base * SLOW_FACTOR, base),
            new=np.where(slow[1], new * SLOW_FACTOR, new),
        )
    middle = np.median(new, axis=2, keepdims=True)
    return replace(windows, new=middle * (new / middle) ** SPREAD_FACTOR)


def df_windows(recording: Recording, windows: Windows, how: Draw) -> pd.DataFrame:
    """Return windows as the table that ``compare_runs`` reads; each window is a comparison.

    There is an ``order`` unless the windows are shuffled, and a ``round`` only for "odd/even".
    """
    values = np.stack([windows.base, windows.new])
    side, window, metric, run = (grid.ravel() for grid in np.indices(values.shape))
    better = np.where(recording.is_higher_better, "higher", "lower").astype(object)
    table = {
        "comparison": window,
        "side": np.array(["base", "new"], dtype=object)[side],
        "workload": np.array(recording.metrics, dtype=object)[metric],
        "point": "",
        "metric": "number",
        "unit": "1",
        "better": better[metric],
        "value": values.ravel(),
    }
    if how != "shuffled":
        places = np.broadcast_to(windows.places[:, :, None, :], values.shape)
        table["order"] = (places * len(recording.metrics)).ravel() + metric
    if how == "odd/even":
        table["round"] = run
    return pd.DataFrame(table)


@dataclass(frozen=True, kw_only=True, slots=True)
class RealScore:
    """How often a tool reports changes in one case of a recording.

    :param case: name of the selection or of the injected change, with the number of runs per side
    :param rows: share of the rows that are reported as changed
    :param families: share of the windows with at least one such row
    :param sign_errors: share of the rows that are reported as changed against the direction of the
        injected shift; None without a shift
    :param flags: share of the rows with a warning about modes, and of those with a warning about
        the spread; None for other tools
    """

    recording: str
    case: str
    tool: str
    rows: Rate | None
    families: Rate | None
    sign_errors: Rate | None
    flags: tuple[float, float] | None


def score_recording(recording: Recording) -> Iterator[RealScore]:
    """Yield the scores of all tools: A/A comparisons first, then injected changes."""
    rng = np.random.default_rng(SEED)
    draws: tuple[Draw, ...] = ("shuffled", "odd/even", "blocks")
    for n, how in product(RUNS, draws):
        windows = draw(recording, how, n, rng)
        yield from _score(recording, windows, how, case=f"{how} n={n}")
    for n, shift in product(RUNS, SHIFTS):
        windows = inject(draw(recording, "odd/even", n, rng), "shift", shift, rng)
        yield from _score(recording, windows, "odd/even", case=f"{shift:+.0%} n={n}", shift=shift)
    changes: tuple[Change, ...] = ("slow mode", "spread")
    for n, how, change in product(RUNS, draws[:2], changes):
        windows = inject(draw(recording, how, n, rng), change, 0.0, rng)
        yield from _score(recording, windows, how, case=f"{change}, {how} n={n}")


def _score(
    recording: Recording, windows: Windows, how: Draw, *, case: str, shift: float = 0.0
) -> Iterator[RealScore]:
    count, metrics, _ = windows.base.shape
    found = compare_runs(df_windows(recording, windows, how), base="base").rows
    rows = pd.DataFrame(to_builtins(found))
    # If higher is better, a regression is a decrease.
    sign = np.where(rows["better"] == "higher", -1, 1)
    ours = rows["verdict"].map(DIRECTIONS).fillna(0).to_numpy(dtype=np.int8) * sign
    codes = [{one.code for one in row.caveats} for row in found]
    modes, spread = (fmean(code in of_row for of_row in codes) for code in FLAGS)
    samples = Samples(
        base=windows.base.reshape(count * metrics, -1),
        new=windows.new.reshape(count * metrics, -1),
        is_higher_better=np.tile(recording.is_higher_better, count),
    )
    for tool in (OURS, *RIVALS):
        calls = (ours if tool == OURS else RIVALS[tool](samples)).reshape(count, metrics)
        called = calls != 0
        yield RealScore(
            recording=recording.name,
            case=case,
            tool=tool,
            rows=rate(called),
            families=rate(called.any(axis=1)),
            sign_errors=rate(calls < 0) if shift else None,
            flags=(modes, spread) if tool == OURS else None,
        )
