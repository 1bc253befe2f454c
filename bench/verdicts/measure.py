# SPDX-License-Identifier: GPL-2.0-or-later
"""Apply the decision rules of all tools to simulated recordings and measure their error rates."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pandas as pd
from msgspec import to_builtins
from numpy.typing import NDArray
from scipy import stats

from bench.verdicts.cells import Cell
from bench.verdicts.generate import Trials, df_trials, generate
from bench.verdicts.rivals import RIVALS
from schedperf.model.verdict import MARGIN
from schedperf.stats import compare_runs

OURS = "schedperf"
SEED = 20261121

# Values of one call: the memory of a call grows with them, its speed per row does not.
VALUES_A_CALL = 100_000

DIRECTIONS = {"regression": 1, "improvement": -1}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """A measured share.

    :param value: from 0 to 1
    :param error: one Monte-Carlo standard error; trials are independent, the rows of a trial are
        not
    """

    value: float
    error: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """The verdicts of one tool on all rows of many trials; arrays have shape (trials, rows).

    :param calls: +1: new is reported as larger; -1: as smaller; 0: no change is reported
    :param is_no_change: whether the verdict is "no-change"; None if the tool has no such verdict
    :param is_inconclusive: whether the verdict is "inconclusive"; None if the tool has no such
        verdict
    :param is_covered: 1 if the CI of the ratio contains the true ratio, 0 if it does not, NaN if
        the row has no CI; None if the benchmark has no CIs of the tool
    :param ms: CPU time in ms for all rows of all trials, a single number
    """

    calls: NDArray[np.int8]
    is_no_change: NDArray[np.bool_] | None
    is_inconclusive: NDArray[np.bool_] | None
    is_covered: NDArray[np.float64] | None
    ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """The rates of one tool in one cell; a rate is None if the cell or the tool has no such rate.

    :param row_alarms: share of the rows without a true change that are reported as changed
    :param family_alarms: share of the trials with at least one such row; None if all rows have a
        true change
    :param fdr: false discovery rate: share of such rows among the reported changes, 0 if there are
        none; mean over the trials
    :param power: share of the rows with a true change that are reported in the correct direction
    :param sign_errors: share of the rows with a true change that are reported in the wrong
        direction
    :param coverage: share of the CIs that contain the true ratio
    :param false_no_change: share of the rows with a true change of MARGIN or more that are reported
        as no-change
    :param inconclusive: share of the rows that are reported as inconclusive
    :param no_interval: share of the rows without a CI
    :param ms_per_1000_rows: CPU time in ms for 1000 rows
    """

    tool: str
    row_alarms: Rate | None
    family_alarms: Rate | None
    fdr: Rate | None
    power: Rate | None
    sign_errors: Rate | None
    coverage: Rate | None
    false_no_change: Rate | None
    inconclusive: Rate | None
    no_interval: Rate | None
    ms_per_1000_rows: float


def score_cell(cell: Cell) -> list[Score]:
    """Simulate a cell; return the score of each tool, ours first."""
    rng = np.random.default_rng([SEED, crc32(cell.name.encode())])
    runs = 2 * cell.recipe.rows * cell.recipe.n * cell.recipe.iterations
    step = max(1, VALUES_A_CALL // runs)
    parts: dict[str, list[Answers]] = {}
    truth = np.zeros(cell.recipe.rows)
    for start in range(0, cell.trials, step):
        trials = generate(cell.recipe, min(step, cell.trials - start), rng)
        truth = trials.truth
        for tool, answers in answer(trials):
            parts.setdefault(tool, []).append(answers)
    return [score(tool, truth, _join(answers)) for tool, answers in parts.items()]


def answer(trials: Trials) -> Iterator[tuple[str, Answers]]:
    """Apply all tools to the same trials; yield the name and the answers of each, ours first."""
    yield OURS, _ask_ours(trials)
    samples = trials.samples()
    shape = (-1, trials.recipe.rows)
    for tool, rule in RIVALS.items():
        start = time.process_time()
        calls = rule(samples)
        ms = (time.process_time() - start) * 1e3
        is_covered = _welch_covers(trials).reshape(shape) if tool == "Welch" else None
        yield (
            tool,
            Answers(
                calls=calls.reshape(shape),
                is_no_change=None,
                is_inconclusive=None,
                is_covered=is_covered,
                ms=ms,
            ),
        )


def _ask_ours(trials: Trials) -> Answers:
    table = df_trials(trials)
    start = time.process_time()
    found = compare_runs(table, base="base").rows
    ms = (time.process_time() - start) * 1e3
    rows = pd.DataFrame(to_builtins(found))
    place = rows["point"].str.removeprefix("row=").astype(int).to_numpy()
    trial = rows["comparison"].astype(int).to_numpy()
    shape = (trials.times.shape[1], trials.recipe.rows)
    order = np.argsort(trial * shape[1] + place)
    verdict = rows["verdict"].to_numpy()[order].reshape(shape)
    low, high = (rows[name].astype(float).to_numpy()[order] for name in ("ci_low", "ci_high"))
    ratio = np.tile(np.exp(trials.truth), shape[0])
    is_covered = np.where(np.isnan(low), np.nan, (low <= ratio) & (ratio <= high))
    calls = np.zeros(shape, dtype=np.int8)
    for name, direction in DIRECTIONS.items():
        calls[verdict == name] = direction
    return Answers(
        calls=calls,
        is_no_change=verdict == "no-change",
        is_inconclusive=verdict == "inconclusive",
        is_covered=is_covered.reshape(shape),
        ms=ms,
    )


def _welch_covers(trials: Trials) -> NDArray[np.float64]:
    samples = trials.samples()
    found = stats.ttest_ind(np.log(samples.new), np.log(samples.base), axis=1, equal_var=False)
    interval = found.confidence_interval()
    truth = np.tile(trials.truth, trials.times.shape[1])
    return ((interval.low <= truth) & (truth <= interval.high)).astype(np.float64)


def _join(parts: list[Answers]) -> Answers:
    def joined(name: str) -> NDArray[np.float64] | None:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    names = ("calls", "is_no_change", "is_inconclusive", "is_covered")
    return Answers(**{name: joined(name) for name in names}, ms=sum(part.ms for part in parts))  # type: ignore[arg-type] # a name has the type of its parts


def rate(hits: NDArray[np.float64] | NDArray[np.bool_]) -> Rate | None:
    """Return the share of hits among the values that are not NaN; None if all are NaN.

    The standard error is that of the mean over trials. It is 0 if all trials have the same share;
    therefore it is raised to at least 1 / (trials * rows).

    :param hits: shape (trials, rows) or (trials,)
    """
    counts = np.asarray(hits, dtype=np.float64)
    if counts.ndim == 1:
        counts = counts[:, None]
    if counts.size == 0 or np.isnan(counts).all():
        return None
    per_trial = np.nanmean(counts[~np.isnan(counts).all(axis=1)], axis=1)
    trials = len(per_trial)
    error = float(np.std(per_trial) / np.sqrt(trials))
    return Rate(value=float(np.nanmean(counts)), error=max(error, 1 / (trials * counts.shape[1])))


def score(tool: str, truth: NDArray[np.float64], answers: Answers) -> Score:
    """Return the rates of a tool from its answers.

    :param truth: natural logarithms of the true ratios new / base, shape (rows,)
    """
    still, moved = truth == 0, truth != 0
    called = answers.calls != 0
    is_right = answers.calls == np.sign(truth)
    false = called & still
    # A change of exactly the margin counts as one that must not be called no-change.
    is_large = np.abs(np.expm1(truth)) >= MARGIN * (1 - 1e-9)
    covered, same, open_ = answers.is_covered, answers.is_no_change, answers.is_inconclusive
    return Score(
        tool=tool,
        row_alarms=rate(called[:, still]),
        family_alarms=rate(false.any(axis=1)) if still.any() else None,
        fdr=rate(false.sum(axis=1) / np.maximum(called.sum(axis=1), 1)),
        power=rate(is_right[:, moved]),
        sign_errors=rate(called[:, moved] & ~is_right[:, moved]),
        coverage=None if covered is None else rate(covered),
        false_no_change=None if same is None else rate(same[:, is_large]),
        inconclusive=None if open_ is None else rate(open_),
        no_interval=None if covered is None else rate(np.isnan(covered)),
        ms_per_1000_rows=answers.ms / answers.calls.size * 1e3,
    )
