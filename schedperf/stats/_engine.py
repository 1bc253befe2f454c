# SPDX-License-Identifier: GPL-2.0-or-later
"""Run all tests on all rows: effects, ranks, modes, drift, and multiple-testing correction."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct

from schedperf.model.frame import Frame
from schedperf.model.verdict import FALSE_DISCOVERY_RATE
from schedperf.stats._boots import BootVariance, include_boots
from schedperf.stats._correction import false_discovery
from schedperf.stats._estimates import Estimates, estimate
from schedperf.stats._moderation import moderate, past_variances, sweeps_of
from schedperf.stats._ranks import rank
from schedperf.stats._rows import (
    Block,
    Flags,
    Floats,
    Integers,
    Rows,
    blocks_of,
    count_units,
)
from schedperf.stats._spread import Modes, boot_shares, compare_spread, find_modes
from schedperf.stats._time_order import Drift, find_drift, widen
from schedperf.stats._twins import find_twins
from schedperf.stats.sequential import equality_level, nominal_level
from schedperf.stats.verdicts import EQUALITY_LEVEL

RANKS = ("p", "floor", "shift", "low", "high", "is_tied", "is_outlying")


class Findings(Struct, frozen=True, kw_only=True):
    """The results of all tests; arrays of shape (rows,) if no other shape is given.

    :param numbers: number of independent values per side, shape (rows, 2), NaN where unknown
    :param whole: estimates of the mean shift, new - base, on the scale of the rows: natural
        logarithms where ``Rows.is_log``
    :param deciding: the effect that ``p`` belongs to: that of ``whole``; the shift within modes if
        there are two modes and it is clearer; the Hodges-Lehmann shift for maxima
    :param p_mean: p of the t test of ``whole``, corrected for interim looks; NaN if untested
    :param p: the p value that decides each row, corrected for interim looks, but not yet for
        multiple testing; NaN if the row is not tested or its difference is exact
    :param equality_level: level of each one-sided test against the margin
    :param q: ``p`` after the correction for multiple testing
    :param twins: number of the first row of the same measurement, whose q this row shares
    :param ranks: the fields of :class:`schedperf.stats._ranks.Ranks` as columns (NaN if untested),
        and ``is_confirmed``: True if the rank test must confirm the t test, so that ``p`` is the
        larger of both
    :param modes: by number of each row with two modes: the modes of its block, and its index there
    :param correlation: of successive values, 0 if none was found; the intervals account for it
    :param p_spread: for the hypothesis of equal spread on both sides; ``spread_ratio`` is new /
        base; NaN if untested
    :param boots: boot variance of rows with one boot per side; these rows have no ranks and modes,
        which are tests of runs
    :param icc: share of the variance that is between boots; like ``design_effect``, NaN if boots
        are not the units or have one run each
    """

    numbers: Floats
    whole: Estimates
    deciding: Floats
    p_mean: Floats
    p: Floats
    equality_level: Floats
    q: Floats
    twins: Integers
    ranks: Mapping[str, Floats]
    modes: Mapping[int, tuple[Modes, int]]
    drift: Drift
    correlation: Floats
    boots: BootVariance
    p_spread: Floats
    spread_ratio: Floats
    icc: Floats
    design_effect: Floats


def analyse(
    rows: Rows, *, looks: Mapping[str, int], history: Sequence[Frame], boot_sd: float | None
) -> Findings:
    """Run all tests on all rows, and correct their p values for looks and multiple testing.

    :param looks: largest number of runs of each side recorded with group-sequential stopping
    :param history: completed tables of earlier runs of the same machine, one per bundle
    :param boot_sd: standard deviation between boots of one kernel, as a fraction; None to estimate
        or assume it
    :raises ValueError: a number in ``looks`` is larger than 100
    """
    blocks = list(blocks_of(rows))
    whole = estimate(rows, blocks)
    moderate(rows, whole, past_variances(rows, history))
    sweep = sweeps_of(rows)
    drift = find_drift(blocks, sweep)
    correlation = widen(whole, blocks, sweep, drift.is_blocked)
    boots = include_boots(rows, whole, history, given=boot_sd)
    ranks = _rank_all(rows, blocks, left_out=boots.is_included)
    modes = {
        int(row): (block_modes, at)
        for block_modes in _modes_of(blocks)
        for at, row in enumerate(block_modes.rows)
        if not rows.is_maximum[row] and not boots.is_included[row]
    }
    p, deciding = _judged_by(whole, ranks, modes, rows.is_maximum)
    price = _by_side(rows, looks, _price_of_looks, 1.0)
    p, p_mean = (np.minimum(each * price, 1.0) for each in (p, whole.p))
    ranks |= {name: np.minimum(ranks[name] * price, 1.0) for name in ("p", "floor")}
    p_spread, spread_ratio = compare_spread(len(rows), blocks)
    icc, design_effect = boot_shares(rows)
    twins = find_twins(rows, blocks)
    return Findings(
        numbers=count_units(rows),
        whole=whole,
        deciding=deciding,
        p_mean=p_mean,
        p=p,
        equality_level=_by_side(rows, looks, equality_level, EQUALITY_LEVEL),
        q=_correct(p, rows, twins),
        twins=twins,
        ranks=ranks,
        modes=modes,
        drift=drift,
        correlation=correlation,
        boots=boots,
        p_spread=p_spread,
        spread_ratio=spread_ratio,
        icc=icc,
        design_effect=design_effect,
    )


def _rank_all(rows: Rows, blocks: Sequence[Block], *, left_out: Flags) -> dict[str, Floats]:
    columns = {name: np.full(len(rows), np.nan) for name in RANKS}
    for block in blocks:
        ranks = rank(block, is_maximum=rows.is_maximum[block.rows])
        if ranks is not None:
            for name in RANKS:
                columns[name][block.rows] = getattr(ranks, name)
    for column in columns.values():
        column[left_out] = np.nan
    # If the t test's assumptions are in doubt, both tests must find the change.
    columns["is_confirmed"] = (columns["is_tied"] == 1.0) | (columns["is_outlying"] == 1.0)
    return columns


def _modes_of(blocks: Sequence[Block]) -> list[Modes]:
    candidates = [find_modes(block) for block in blocks]
    return [modes for modes in candidates if modes is not None]


def _judged_by(
    whole: Estimates,
    ranks: Mapping[str, Floats],
    modes: Mapping[int, tuple[Modes, int]],
    is_maximum: Flags,
) -> tuple[Floats, Floats]:
    # The p that counts, and the effect that it belongs to.
    p = whole.p
    # Exact differences (NaN) need no confirmation.
    p = np.where(ranks["is_confirmed"], np.maximum(p, ranks["p"]), p)
    # Maxima have no mean: ranks decide alone.
    p = np.where(is_maximum, ranks["p"], p)
    effect = np.where(is_maximum, ranks["shift"], whole.effect)
    for row, (block_modes, at) in modes.items():
        # Rows with two modes have two tests, so the smaller p is doubled (Bonferroni).
        within, occupancy = float(block_modes.p_within[at]), float(block_modes.p_occupancy[at])
        p[row] = min(2.0 * np.fmin(within, occupancy), 1.0)
        if within <= occupancy:
            effect[row] = block_modes.effect[at]
    return p, effect


def _price_of_looks(max_runs: int, *, is_paired: bool) -> float:
    # Testing after every block raises the false-positive rate, so each look has a stricter level.
    return FALSE_DISCOVERY_RATE / nominal_level(max_runs, is_paired=is_paired)


class _OfLooks(Protocol):
    def __call__(self, max_runs: int, *, is_paired: bool) -> float: ...


def _by_side(rows: Rows, looks: Mapping[str, int], value_of: _OfLooks, default: float) -> Floats:
    # For each row, the correction for interim looks, which depends on the maximum number of runs.
    values = {
        (side, is_paired): value_of(max_runs, is_paired=is_paired)
        for side, max_runs in looks.items()
        for is_paired in (False, True)
    }
    keys = zip(rows.table["side"].tolist(), rows.is_paired.tolist(), strict=True)
    return np.array([values.get(key, default) for key in keys], dtype=np.float64)


def _correct(p: Floats, rows: Rows, twins: Integers) -> Floats:
    # The rows of all new sides are one family: comparing five kernels makes five times as many
    # tests.
    is_first = twins == np.arange(len(p))
    once = np.where(is_first, p, np.nan)
    q = false_discovery(once, rows.table.number_rows(["comparison", "family"]))
    return np.where(is_first, q, q[twins])
