"""Noise that wanders: neighbours in time resemble each other, so they tell less than they count.

A neighbour on a shared machine or a warm cache stays for some runs. The correlation
of successive values is estimated from all rows of a sweep together, and standard
errors grow by sqrt((1 + r) / (1 - r)), that of the mean of a first-order
autoregression (Box, Jenkins & Reinsel, "Time Series Analysis", section 2.1).
"""

from collections.abc import Iterable

import numpy as np

from schedperf.stats._estimates import Estimates
from schedperf.stats._rows import Block, Flags, Floats, Integers, add_up

# With fewer values in a series their correlation is mostly their mean's fault.
FEWEST_VALUES = 5
# A correlation is believed where it is larger than so many of its standard errors. With less,
# power is lost where nothing wanders; with more, wandering noise makes false alarms.
BELIEVED = 0.75
LARGEST = 0.8


def widen(found: Estimates, blocks: Iterable[Block], sweep: Integers, is_blocked: Flags) -> Floats:
    """Multiply the standard errors of rows whose values are correlated in time.

    Pairs of an interleaved recording are a series of differences; of two sides in blocks
    each is a series. Where sides alternate without rounds, wandering noise hits both alike.

    :param sweep: number of each row's sweep, shape (rows,)
    :param is_blocked: rows with one side recorded wholly after the other
    :return: the correlation that is believed, shape (rows,); 0 without one
    """
    count = len(sweep)
    products, squares, steps, bias = np.zeros((4, count))
    for block in blocks:
        rows = block.rows
        for values, is_series in _series(block, is_blocked[rows]):
            n = values.shape[1]
            if n < FEWEST_VALUES:
                continue
            centred = np.where(is_series[:, None], values - values.mean(axis=1)[:, None], 0.0)
            products[rows] += (centred[:, 1:] * centred[:, :-1]).sum(axis=1)
            squares[rows] += (centred**2).sum(axis=1)
            steps[rows] += np.where(is_series, n - 1.0, 0.0)
            bias[rows] += np.where(is_series, (n - 1.0) / n, 0.0)
    known = squares > 0.0
    size = int(sweep.max(initial=-1)) + 1

    def pooled(values: Floats) -> Floats:
        return add_up(values[known], sweep[known], size)[sweep]

    with np.errstate(divide="ignore", invalid="ignore"):
        # Each row counts alike, however much it varies; a mean that is estimated from n values
        # makes their correlation too small by 1 / n.
        each = np.where(known, products / squares * steps, 0.0)
        correlation = (pooled(each) + pooled(bias)) / pooled(steps)
        is_believed = known & (correlation * np.sqrt(pooled(steps)) > BELIEVED)
    r: Floats = np.clip(np.where(is_believed, correlation, 0.0), 0.0, LARGEST)
    found.se *= np.sqrt((1.0 + r) / (1.0 - r))
    return r


def _series(block: Block, is_blocked: Flags) -> list[tuple[Floats, Flags]]:
    if block.is_paired:
        return [(block.new - block.base, np.ones(len(block.rows), dtype=np.bool_))]
    return [
        (np.take_along_axis(values, np.argsort(order, axis=1), axis=1), is_blocked)
        for values, order in ((block.base, block.order_base), (block.new, block.order_new))
    ]
