# SPDX-License-Identifier: GPL-2.0-or-later
"""Find rows of the same measurement: a time and its reciprocal, a value and its percentage.

In such rows the runs deviate from the mean equally, or with opposite sign. All of these rows are
shown, but the measurement is tested once, so that printing it several times does not affect the
multiple-testing correction.
"""

from collections.abc import Iterable

import numpy as np

from schedperf.stats._rows import FAMILY_ORDER, Block, Floats, Integers, Rows

# Relative tolerance for equal deviations of the runs, which allows for rounding of printed digits.
ROUNDING = 0.01
# With two runs, deviations agree by chance.
FEWEST_VALUES = 4

WHERE = ["comparison", "side", "workload", "point"]


def find_twins(rows: Rows, blocks: Iterable[Block]) -> Integers:
    """Return for each row the number of the row that is tested in its place, usually its own.

    Of several rows of the same measurement, the first one in the most important family is tested.

    :return: shape (rows,)
    """
    first: Integers = np.arange(len(rows), dtype=np.intp)
    family = np.array(list(map(FAMILY_ORDER.index, rows.table["family"].tolist())), dtype=np.intp)
    where = rows.table.number_rows(WHERE)
    is_alone = np.bincount(where, minlength=len(rows))[where] == 1
    for block in blocks:
        members = np.flatnonzero(~is_alone[block.rows])
        members = members[np.argsort(family[block.rows[members]], kind="stable")]
        values = np.hstack((block.base, block.new))[members]
        if len(members) and values.shape[1] >= FEWEST_VALUES:
            _mark(first, block.rows[members], where, _deviations(values))
    return first


def _deviations(values: Floats) -> Floats:
    # Deviations from the mean of each row, with the sign that makes the largest one positive.
    apart = values - values.mean(axis=1, keepdims=True)
    at = np.abs(apart).argmax(axis=1)[:, None]
    deviations: Floats = apart * np.sign(np.take_along_axis(apart, at, axis=1))
    return deviations


def _mark(first: Integers, members: Integers, where: Integers, deviations: Floats) -> None:
    largest = np.abs(deviations).max(axis=1)
    for question in np.unique(where[members]):
        group = np.flatnonzero((where[members] == question) & (largest > 0.0))
        for position, index in enumerate(group):
            for earlier in group[:position]:
                gap = np.abs(deviations[index] - deviations[earlier]).max()
                if gap <= ROUNDING * largest[earlier]:
                    first[members[index]] = first[members[earlier]]
                    break
