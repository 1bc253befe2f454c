# SPDX-License-Identifier: GPL-2.0-or-later
import numpy as np
import pytest
from numpy.typing import NDArray

from schedperf.inputs.perf_data._count import Rows, merge


def rows_of(key: NDArray[np.uint64]) -> Rows:
    words, numbers = np.zeros(len(key), np.uint64), np.zeros(len(key), np.int64)
    return Rows(
        key=key,
        where=words,
        task=words,
        space=numbers,
        ip=key,
        chain_hash=words,
        chain_offset=np.arange(len(key)),
        chain_length=numbers,
        count=np.ones(len(key), np.int64),
        period=np.arange(len(key)),
    )


@pytest.mark.parametrize(
    "distinct",
    [
        np.random.default_rng(5).integers(0, 1 << 64, 50, np.uint64),
        # All equal but for the bits that make room for an index while they are sorted.
        np.uint64(7 << 40) + np.arange(50, dtype=np.uint64),
    ],
    ids=["random", "alike"],
)
def test_equal_keys_become_one_row_in_the_order_of_their_first(
    distinct: NDArray[np.uint64],
) -> None:
    key = distinct[np.random.default_rng(3).integers(0, len(distinct), 4000)]
    merged = merge(rows_of(key))
    expected: dict[int, list[int]] = {}
    for row, one in enumerate(key.tolist()):
        expected.setdefault(one, []).append(row)
    assert merged.key.tolist() == list(expected)
    assert merged.count.tolist() == [len(rows) for rows in expected.values()]
    assert merged.period.tolist() == [sum(rows) for rows in expected.values()]
    assert merged.chain_offset.tolist() == [rows[0] for rows in expected.values()]
