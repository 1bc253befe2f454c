# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimate drift and autocorrelated noise from the order of the runs in time.

If one side was recorded after the other, a machine that gets warmer looks like a slower kernel. The
trend *within* the sides estimates the drift independently of the kernels; the rows of a sweep are
pooled.

Background load or a warm cache can last several runs, so successive values are correlated. Their
correlation is estimated from all rows of a sweep together, and standard errors grow by sqrt((1 + r)
/ (1 - r)), that of the mean of a first-order autoregression (Box, Jenkins & Reinsel, "Time Series
Analysis", section 2.1).
"""

from collections.abc import Iterable

import numpy as np
import scipy
from msgspec import Struct

from schedperf.stats._estimates import Estimates
from schedperf.stats._rows import Block, Flags, Floats, Integers, add_up
from schedperf.stats.verdicts import FEWEST_POINTS

# Two sides and a trend take three degrees of freedom.
MODEL_DF = 3.0
# Prior degrees of freedom of the sweep's variance when it is combined with a row's own.
COMMON_DF = 4.0
# The significance level, as for every other test.
DRIFT_LEVEL = 0.05
# In shorter series the correlation estimate is dominated by the bias from the estimated mean.
_FEWEST_NEIGHBOURS = 5
# A correlation is used if it exceeds this many of its standard errors. A smaller limit loses power
# under independent noise; a larger one gives false alarms under autocorrelated noise.
_BELIEVED_CORRELATION = 0.75
_LARGEST_CORRELATION = 0.8


class Drift(Struct, frozen=True, kw_only=True):
    """Drift estimates of each row; arrays of shape (rows,).

    :param is_blocked: True if one side was recorded wholly after the other
    :param bias: change between the sides that the drift within the sides of the sweep predicts, on
        the scale of the rows; NaN for pairs, for rows with a run of unknown order, and if no row of
        the sweep has an estimate
    :param se: standard error of ``bias``; NaN or infinite where ``bias`` is NaN
    :param df: degrees of freedom of ``se``; 0 if no row of the sweep has an estimate
    :param is_drifting: True if one side was recorded after the other and the sides drift
        significantly
    :param is_pooled: True if enough rows of the sweep were pooled for an estimate from few runs
    """

    is_blocked: Flags
    bias: Floats
    se: Floats
    df: Floats
    is_drifting: Flags
    is_pooled: Flags

    def outlives(self, estimates: Estimates) -> Flags:
        """Return whether the effect is significantly larger than the estimated drift.

        True also where ``se`` is NaN or 0; False where it is infinite. Shape (rows,).
        """
        has_se = self.se > 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            se = np.sqrt(estimates.se**2 + self.se**2)
            df = se**4 / (estimates.se**4 / estimates.df + self.se**4 / self.df)
            t = np.abs(estimates.effect - self.bias) / se
        is_same = np.sign(estimates.effect - self.bias) == np.sign(estimates.effect)
        outlives: Flags = ~has_se | (is_same & (2.0 * scipy.special.stdtr(df, -t) < DRIFT_LEVEL))
        return outlives


class _Trends(Struct, frozen=True, kw_only=True):
    # The trend within the sides of each row; NaN where the order is unknown. slope: over the
    # position in time, from 0 (the first run of both sides) to 1 (the last); squares: sum of
    # squares of the positions; residual: sum of squares around the trend, with its df; reach:
    # distance between the middles of the sides
    slope: Floats
    squares: Floats
    residual: Floats
    df: Floats
    reach: Floats


def find_drift(blocks: Iterable[Block], sweep: Integers) -> Drift:
    """Estimate the drift within the sides, pooled over the rows of each sweep.

    :param blocks: values of all rows; blocks of pairs, and blocks with a run of unknown order, are
        not used
    :param sweep: number of each row's sweep, shape (rows,)
    :return: arrays of shape (rows,). ``bias`` is NaN for rows that are not in a used block, and if
        no row of the sweep has an estimate; a row needs four runs (both sides together) that vary
    """
    count = len(sweep)
    is_blocked = np.zeros(count, dtype=np.bool_)
    columns = {name: np.full(count, np.nan) for name in _Trends.__struct_fields__}
    for block in blocks:
        if block.is_paired or np.isnan(block.order_base).any() or np.isnan(block.order_new).any():
            continue
        before = block.order_base.max(axis=1) < block.order_new.min(axis=1)
        after = block.order_new.max(axis=1) < block.order_base.min(axis=1)
        is_blocked[block.rows] = before | after
        trends = _find_trends(block)
        for name, column in columns.items():
            column[block.rows] = getattr(trends, name)
    return _pool(is_blocked, _Trends(**columns), sweep)


def _find_trends(block: Block) -> _Trends:
    n_base = block.base.shape[1]
    orders = np.hstack((block.order_base, block.order_new))
    ranks = np.argsort(np.argsort(orders, axis=1), axis=1) / (orders.shape[1] - 1.0)
    squares, products, total = np.zeros((3, len(ranks)))
    middles = []
    for x, y in ((ranks[:, :n_base], block.base), (ranks[:, n_base:], block.new)):
        middles.append(x.mean(axis=1))
        x_within = x - middles[-1][:, None]
        y_within = y - y.mean(axis=1)[:, None]
        squares += (x_within**2).sum(axis=1)
        products += (x_within * y_within).sum(axis=1)
        total += (y_within**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = products / squares
    return _Trends(
        slope=slope,
        squares=squares,
        residual=np.maximum(total - products * slope, 0.0),
        df=np.full(len(ranks), orders.shape[1] - MODEL_DF),
        reach=middles[1] - middles[0],
    )


def _pool(is_blocked: Flags, trends: _Trends, sweep: Integers) -> Drift:
    # One drift per sweep: the mean over its rows, weighted by precision. If the rows disagree by
    # more than their noise, they are treated as a sample of drifts instead.
    slope, df = trends.slope, trends.df
    usable = np.isfinite(slope) & (df >= 1.0) & (trends.residual > 0.0)
    size = int(sweep.max(initial=-1)) + 1

    def add(values: Floats) -> Floats:
        return add_up(values[usable], sweep[usable], size)

    with np.errstate(divide="ignore", invalid="ignore"):
        total_df, rows = add(df), add(np.ones_like(df))
        # A variance with few degrees of freedom is a poor weight, so it is shrunk to the sweep's.
        common = (add(trends.residual) / total_df)[sweep]
        weight = trends.squares * (df + COMMON_DF) / (trends.residual + COMMON_DF * common)
        whole = add(weight)
        mean = add(weight * slope) / whole
        spread = add(weight * (slope - mean[sweep]) ** 2) / (rows - 1.0)
        se = np.sqrt(np.where(rows > 1.0, np.maximum(spread, 1.0), 1.0) / whole)
        bias, bias_se = mean[sweep] * trends.reach, se[sweep] * np.abs(trends.reach)
        p = 2.0 * scipy.special.stdtr(total_df[sweep], -np.abs(bias) / bias_se)
    return Drift(
        is_blocked=is_blocked,
        bias=bias,
        se=bias_se,
        df=total_df[sweep],
        is_drifting=is_blocked & (p < DRIFT_LEVEL),
        is_pooled=rows[sweep] >= FEWEST_POINTS,
    )


def widen(
    estimates: Estimates, blocks: Iterable[Block], sweep: Integers, is_blocked: Flags
) -> Floats:
    """Widen the standard errors in ``estimates``, in place, of rows with autocorrelated values.

    Pairs of an interleaved recording are a series of differences; if the sides were recorded one
    after the other, each side is a series. If sides alternate without rounds, autocorrelated noise
    affects both alike and nothing is widened.

    :param sweep: number of each row's sweep, shape (rows,)
    :param is_blocked: True for rows with one side recorded wholly after the other
    :return: the estimated correlation, shape (rows,); 0 if none was found
    """
    count = len(sweep)
    products, squares, steps, bias = np.zeros((4, count))
    for block in blocks:
        rows = block.rows
        for values, is_series in _series(block, is_blocked[rows]):
            n = values.shape[1]
            if n < _FEWEST_NEIGHBOURS:
                continue
            centred = np.where(is_series[:, None], values - values.mean(axis=1)[:, None], 0.0)
            products[rows] += (centred[:, 1:] * centred[:, :-1]).sum(axis=1)
            squares[rows] += (centred**2).sum(axis=1)
            steps[rows] += np.where(is_series, n - 1.0, 0.0)
            bias[rows] += np.where(is_series, (n - 1.0) / n, 0.0)
    has_drift = squares > 0.0
    size = int(sweep.max(initial=-1)) + 1

    def pooled(values: Floats) -> Floats:
        return add_up(values[has_drift], sweep[has_drift], size)[sweep]

    with np.errstate(divide="ignore", invalid="ignore"):
        # Each row has the same weight, whatever its variance. The mean estimated from n values
        # biases the correlation by -1 / n.
        each = np.where(has_drift, products / squares * steps, 0.0)
        correlation = (pooled(each) + pooled(bias)) / pooled(steps)
        is_believed = has_drift & (correlation * np.sqrt(pooled(steps)) > _BELIEVED_CORRELATION)
    r: Floats = np.clip(np.where(is_believed, correlation, 0.0), 0.0, _LARGEST_CORRELATION)
    estimates.se *= np.sqrt((1.0 + r) / (1.0 - r))
    return r


def _series(block: Block, is_blocked: Flags) -> list[tuple[Floats, Flags]]:
    if block.is_paired:
        return [(block.new - block.base, np.ones(len(block.rows), dtype=np.bool_))]
    return [
        (np.take_along_axis(values, np.argsort(order, axis=1), axis=1), is_blocked)
        for values, order in ((block.base, block.order_base), (block.new, block.order_new))
    ]
