# SPDX-License-Identifier: GPL-2.0-or-later
"""Run all tests on all rows: effects, ranks, modes, drift, and multiple-testing correction."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from schedperf.model.frame import Frame
from schedperf.model.verdict import FALSE_DISCOVERY_RATE
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

# Two one-sided tests at 5% each are one 90% interval: Schuirmann, "A comparison of the two
# one-sided tests procedure and the power approach", J. Pharmacokin. Biopharm. 15 (1987).
EQUALITY_LEVEL = 0.05

RANKS = ("p", "floor", "shift", "low", "high", "is_tied", "is_outlying")


class Findings(Struct, frozen=True, kw_only=True):
    """The results of all tests; arrays of shape (rows,) if no other shape is given.

    :param numbers: independent values per side, shape (rows, 2), NaN where unknown
    :param whole: estimates of the mean shift
    :param deciding: the effect that ``p`` belongs to: that of ``whole``, save where there are two
        modes and the shift within them is the clearer one; of maxima Hodges and Lehmann's shift
    :param p_mean: of ``whole``
    :param p: what each row is judged by, before the correction for all rows
    :param equality_level: of each one-sided test against the margin
    :param q: ``p`` after the correction
    :param twins: number of the first row of the same measurement, whose q is the row's, too
    :param ranks: the fields of :class:`schedperf.stats._ranks.Ranks` as columns, and
        ``is_confirmed``: was the p of the ranks the one that counts?
    :param modes: of each row that has two: its block's modes and its place there
    :param correlation: of successive values; intervals allow for it
    :param p_spread: of equal spread on both sides; ``spread_ratio`` is new / base
    :param icc: share of the variance that is between boots
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
    p_spread: Floats
    spread_ratio: Floats
    icc: Floats
    design_effect: Floats


def analyse(rows: Rows, *, looks: Mapping[str, int], history: Sequence[Frame]) -> Findings:
    """Run all tests.

    :param looks: largest number of runs of each side recorded with group-sequential stopping
    :param history: completed tables of earlier runs of the same machine, one per bundle
    """
    blocks = list(blocks_of(rows))
    whole = estimate(rows, blocks)
    moderate(rows, whole, past_variances(rows, history))
    sweep = sweeps_of(rows)
    drift = find_drift(blocks, sweep)
    correlation = widen(whole, blocks, sweep, drift.is_blocked)
    ranks = _rank_all(rows, blocks)
    modes = {
        int(row): (block_modes, at)
        for block_modes in _modes_of(blocks)
        for at, row in enumerate(block_modes.rows)
        if not rows.is_maximum[row]
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
        p_spread=p_spread,
        spread_ratio=spread_ratio,
        icc=icc,
        design_effect=design_effect,
    )


def _rank_all(rows: Rows, blocks: Sequence[Block]) -> dict[str, Floats]:
    columns = {name: np.full(len(rows), np.nan) for name in RANKS}
    for block in blocks:
        ranks = rank(block, is_maximum=rows.is_maximum[block.rows])
        if ranks is not None:
            for name in RANKS:
                columns[name][block.rows] = getattr(ranks, name)
    # Where the t test's assumptions are in doubt, both have to see the change.
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
    # What is exact (NaN) needs no confirmation.
    p = np.where(ranks["is_confirmed"], np.maximum(p, ranks["p"]), p)
    # Maxima have no mean: ranks decide alone.
    p = np.where(is_maximum, ranks["p"], p)
    effect = np.where(is_maximum, ranks["shift"], whole.effect)
    for row, (block_modes, at) in modes.items():
        # Two questions are asked where there are two modes, so the clearer answer counts double.
        within, occupancy = float(block_modes.p_within[at]), float(block_modes.p_occupancy[at])
        p[row] = min(2.0 * np.fmin(within, occupancy), 1.0)
        if within <= occupancy:
            effect[row] = block_modes.effect[at]
    return p, effect


def _price_of_looks(max_runs: int) -> float:
    # Who looks after every block finds something sooner or later; each look has a lower level.
    return FALSE_DISCOVERY_RATE / nominal_level(max_runs)


def _by_side(
    rows: Rows, looks: Mapping[str, int], value_of: Callable[[int], float], default: float
) -> Floats:
    # What the largest number of runs costs the sides that were looked at, for each row.
    values = {side: value_of(max_runs) for side, max_runs in looks.items()}
    return np.array([values.get(side, default) for side in rows.table["side"]], dtype=np.float64)


def _correct(p: Floats, rows: Rows, twins: Integers) -> Floats:
    # The rows of all new sides are one family: who compares five kernels asks five times as often.
    is_first = twins == np.arange(len(p))
    once = np.where(is_first, p, np.nan)
    q = false_discovery(once, rows.table.number_rows(["comparison", "family"]))
    return np.where(is_first, q, q[twins])
