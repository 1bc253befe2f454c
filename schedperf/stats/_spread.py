# SPDX-License-Identifier: GPL-2.0-or-later
"""Test the variation within a row: equal spread of the sides, variance between boots, two modes.

If values have two modes, the mean changes with the frequency of the modes, even if neither mode
gets slower. Two tests are therefore done: for a change of the frequency of the slow mode, and for a
shift within the modes.
"""

from collections.abc import Iterable

import numpy as np
import scipy
from msgspec import Struct

from schedperf.model.verdict import CONFIDENCE
from schedperf.stats._densities import fisher_p
from schedperf.stats._estimates import variances_of
from schedperf.stats._rows import REPLICATIONS, Block, Flags, Floats, Integers, Rows, add_up

# Fewest values per side from which a variance is estimated.
FEWEST_VALUES = 5
# A split into two modes is accepted if all of these hold. In normal data it is accepted in 1.5% of
# rows with four runs per side and in less than 1% with five. Two equally frequent modes 8% apart
# with 1% noise are found in 82% of rows with five runs per side and in 94% with ten.
_FEWEST_IN_MODE = 2
_LEAST_GAIN = 6.0  # gain of the Bayesian information criterion
_LEAST_DISTANCE = 6.0  # distance of the modes, in standard deviations within modes
_LEAST_GAP = 3.0  # distance of their nearest values, in the same unit
_FEWEST_OF_MODES = 8  # values of both sides together


def compare_spread(count: int, blocks: Iterable[Block]) -> tuple[Floats, Floats]:
    """Test whether the sides vary alike.

    Brown & Forsythe, "Robust tests for the equality of variances", J. Am. Stat. Assoc.
    69 (1974): Student's t of the distances from the side's median.

    :param count: number of rows
    :return: two-sided p and the quotient new / base of the standard deviations, shape (rows,) each;
        NaN with fewer than five values on a side; p is NaN also if no distance varies; the quotient
        is infinite if only new varies, and NaN if no side does
    """
    p, quotient = np.full(count, np.nan), np.full(count, np.nan)
    for block in blocks:
        sides = (block.base, block.new)
        sizes = [side.shape[1] for side in sides]
        if min(sizes) < FEWEST_VALUES:
            continue
        distances = [np.abs(side - np.median(side, axis=1)[:, None]) for side in sides]
        df = sum(sizes) - 2.0
        squares = sum(
            variances_of(side_distances) * (size - 1.0)
            for side_distances, size in zip(distances, sizes, strict=True)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            se = np.sqrt(squares / df * sum(1.0 / size for size in sizes))
            t = np.abs(distances[1].mean(axis=1) - distances[0].mean(axis=1)) / se
            quotient[block.rows] = np.sqrt(variances_of(sides[1]) / variances_of(sides[0]))
        p[block.rows] = np.where(se > 0.0, 2.0 * scipy.special.stdtr(df, -t), np.nan)
    return p, quotient


def boot_shares(rows: Rows) -> tuple[Floats, Floats]:
    """Return the intraclass correlation of boots (ICC) and the design effect.

    One-way analysis of variance by the method of moments (Searle, Casella & McCulloch, "Variance
    Components", section 3.6), both sides pooled; the design effect is 1 + (m - 1) ICC with m runs
    per boot (Kish, "Survey Sampling", section 5.4).

    :return: ICC and design effect, shape (rows,); NaN if boots are not the unit or have one run
        each
    """
    count = len(rows)
    icc, effect = np.full(count, np.nan), np.full(count, np.nan)
    by_boot = rows.replication == REPLICATIONS.index("boots")
    boot = rows.inner["boot"]
    row = rows.inner["row"]
    taken = by_boot[row] & ~np.isnan(boot)
    if not taken.any():
        return icc, effect
    value = rows.inner["value"][taken]
    boots, number = np.unique(boot[taken], return_inverse=True)
    side = 2 * row[taken] + rows.inner["is_new"][taken]
    # From here on, arrays have one entry per boot of a side.
    cells, cell = np.unique(side * len(boots) + number, return_inverse=True)
    size = np.bincount(cell).astype(np.float64)
    mean = add_up(value, cell, len(cells)) / size
    within = add_up((value - mean[cell]) ** 2, cell, len(cells))
    side = cells // len(boots)
    runs_of_side = add_up(size, side, 2 * count)
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = add_up(mean * size, side, 2 * count) / runs_of_side
        between = size * (mean - centre[side]) ** 2
        sums = {
            name: add_up(values, side // 2, count)
            for name, values in {
                "boots": np.ones(len(cells)),
                "runs": size,
                "within": within,
                "between": between,
                "square": size**2 / runs_of_side[side],
            }.items()
        }
        sides = np.bincount(np.unique(side) // 2, minlength=count)
        between_df, within_df = sums["boots"] - sides, sums["runs"] - sums["boots"]
        inside, outside = sums["within"] / within_df, sums["between"] / between_df
        each = (sums["runs"] - sums["square"]) / between_df
        share = ((outside - inside) / (outside + (each - 1.0) * inside)).clip(0.0, 1.0)
        repeats = 1.0 + (sums["runs"] / sums["boots"] - 1.0) * share
    members = sums["boots"] > 0.0
    icc[members], effect[members] = share[members], repeats[members]
    return icc, effect


class Modes(Struct, frozen=True, kw_only=True):
    """The rows of a block that have two modes; arrays of shape (rows,) unless stated otherwise.

    Values are those of the block: runs, boots or rounds, on the scale of the rows.

    :param rows: numbers of the rows
    :param high: number of values in the mode of larger values, shape (rows, 2), base first
    :param n: number of values of each side, base first
    :param boundary: value between the modes
    :param centres: mean of the values of both sides in each mode, the smaller first, shape
        (rows, 2)
    :param p_occupancy: two-sided p of Fisher's exact test of ``high`` of ``n``
    :param effect: new - base within the modes, with its standard error and degrees of freedom;
        NaN where no mode has values of both sides
    """

    rows: Integers
    high: Integers
    n: tuple[int, int]
    boundary: Floats
    centres: Floats
    p_occupancy: Floats
    effect: Floats
    se: Floats
    df: Floats

    @property
    def half_width(self) -> Floats:
        """Half the width of the 95% CI of ``effect``; NaN without a standard error."""
        with np.errstate(invalid="ignore"):
            return scipy.special.stdtrit(self.df, (1.0 + CONFIDENCE) / 2.0) * self.se

    @property
    def p_within(self) -> Floats:
        """Two-sided p of the shift within the modes; NaN without a standard error."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return 2.0 * scipy.special.stdtr(self.df, -np.abs(self.effect) / self.se)


def find_modes(block: Block) -> Modes | None:
    """Return the rows with two modes; None if there are none, or if rows have fewer than 8 values.

    At least one side must have values in both modes.
    """
    n_base, n_new = block.base.shape[1], block.new.shape[1]
    if n_base + n_new < _FEWEST_OF_MODES:
        return None
    is_bimodal, cut = _split(np.hstack((block.base, block.new)), block.floors.mean(axis=1))
    high = np.column_stack([(side > cut[:, None]).sum(axis=1) for side in (block.base, block.new)])
    # A large difference between the sides is not bimodality: at least one side must have both
    # modes.
    low = np.array([n_base, n_new]) - high
    many_high, many_low = high >= _FEWEST_IN_MODE, low >= _FEWEST_IN_MODE
    is_shared = ((high > 0) & (low > 0)).all(axis=1) & many_high.any(axis=1) & many_low.any(axis=1)
    is_bimodal &= (many_high & many_low).any(axis=1) | is_shared
    if not is_bimodal.any():
        return None
    chosen = np.flatnonzero(is_bimodal)
    effect, se, df = _within(
        block.base[chosen], block.new[chosen], cut[chosen], block.floors[chosen]
    )
    counts = high[chosen]
    values = np.hstack((block.base, block.new))[chosen]
    is_high = values > cut[chosen, None]
    return Modes(
        rows=block.rows[chosen],
        high=counts,
        n=(n_base, n_new),
        boundary=cut[chosen],
        centres=np.column_stack([_cell(values, mode)[0] for mode in (~is_high, is_high)]),
        p_occupancy=np.array(
            [fisher_p((base, new), (n_base, n_new)) for base, new in counts.tolist()]
        ),
        effect=effect,
        se=se,
        df=df,
    )


def _split(values: Floats, floors: Floats) -> tuple[Flags, Floats]:
    # The best split of the ordered values by least squares, and whether it is accepted.
    ordered = np.sort(values, axis=1)
    n = ordered.shape[1]
    ordered = ordered - ordered[:, :1]  # Sums of squared residuals avoid cancellation.
    sizes = np.arange(_FEWEST_IN_MODE, n - _FEWEST_IN_MODE + 1)
    sums, squares = np.cumsum(ordered, axis=1), np.cumsum(ordered**2, axis=1)
    left = sums[:, sizes - 1]
    right = sums[:, -1:] - left
    within = squares[:, -1:] - left**2 / sizes - right**2 / (n - sizes)
    best = np.argmin(within, axis=1)
    lines = np.arange(len(values))
    size, rest = sizes[best], np.maximum(within[lines, best], 0.0)
    total = squares[:, -1] - sums[:, -1] ** 2 / n
    tiny = np.finfo(np.float64).tiny
    spread = np.sqrt(np.maximum(np.maximum(rest / (n - 2), floors), tiny))
    distance = right[lines, best] / (n - size) - left[lines, best] / size
    gap = ordered[lines, size] - ordered[lines, size - 1]
    # Two modes have two parameters more than one mode: a mean and a share.
    left_over = (n - 2) * spread**2
    gain = n * (np.log(np.maximum(total, tiny)) - np.log(left_over)) - 2.0 * np.log(n)
    is_bimodal = (
        (gain > _LEAST_GAIN) & (distance > _LEAST_DISTANCE * spread) & (gap > _LEAST_GAP * spread)
    )
    edges = np.sort(values, axis=1)
    return is_bimodal, (edges[lines, size] + edges[lines, size - 1]) / 2.0


def _within(
    base: Floats, new: Floats, cut: Floats, floors: Floats
) -> tuple[Floats, Floats, Floats]:
    # Strata weighted by n m / (n + m), with the variance of all cells pooled.
    weighted = np.zeros(len(base))
    weights = np.zeros(len(base))
    squares = np.zeros(len(base))
    cells = np.zeros(len(base))
    for is_high in (False, True):
        mean_base, squares_base, in_base = _cell(base, (base > cut[:, None]) == is_high)
        mean_new, squares_new, in_new = _cell(new, (new > cut[:, None]) == is_high)
        weight = np.where(
            in_base * in_new > 0, in_base * in_new / np.maximum(in_base + in_new, 1), 0
        )
        weighted += weight * (mean_new - mean_base)
        weights += weight
        squares += squares_base + squares_new
        cells += (in_base > 0).astype(np.float64) + (in_new > 0)
    df = base.shape[1] + new.shape[1] - cells
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.maximum(squares / df, floors.mean(axis=1))
        return (
            np.where(weights > 0.0, weighted / weights, np.nan),
            np.where(weights > 0.0, np.sqrt(variance / weights), np.nan),
            df,
        )


def _cell(values: Floats, is_member: Flags) -> tuple[Floats, Floats, Integers]:
    n = is_member.sum(axis=1)
    mean = np.where(is_member, values, 0.0).sum(axis=1) / np.maximum(n, 1)
    squares = np.where(is_member, (values - mean[:, None]) ** 2, 0.0).sum(axis=1)
    return mean, squares, n
