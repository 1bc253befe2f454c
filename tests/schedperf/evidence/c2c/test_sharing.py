# SPDX-License-Identifier: GPL-2.0-or-later
"""True against false sharing of a line, from who reads and who writes which bytes."""

import math

import pandas as pd
import pytest

from schedperf.evidence.c2c.sharing import df_false_share, sharing_of

# Line, copy, bytes, CPU, whether it writes, how often it counts as contended.
Row = tuple[int, int, int, int, bool, int]
COLUMNS = ["line", "copy", "bytes", "cpu", "writes", "slow"]


def share(*rows: Row) -> float:
    return float(df_false_share(pd.DataFrame(rows, columns=COLUMNS))[0])


def test_readers_and_writers_of_the_same_bytes_share_truly() -> None:
    assert share((0, 0, 8, 1, False, 5), (0, 0, 8, 2, True, 0)) == 0.0


def test_readers_of_other_bytes_share_falsely() -> None:
    assert share((0, 0, 8, 1, False, 5), (0, 0, 16, 2, True, 0)) == 1.0


def test_a_mixed_line_is_split_by_the_writes_of_the_others() -> None:
    reads: Row = (0, 0, 8, 1, False, 4)
    writes: list[Row] = [(0, 0, 8, 2, True, 0), *[(0, 0, 16, 3, True, 0)] * 3]
    assert share(reads, *writes) == pytest.approx(0.75)


def test_what_a_cpu_writes_itself_does_not_slow_its_loads() -> None:
    own: list[Row] = [(0, 0, 16, 1, True, 0)] * 9
    assert share((0, 0, 8, 1, False, 4), *own, (0, 0, 8, 2, True, 0)) == 0.0


def test_copies_of_a_percpu_line_are_different_bytes() -> None:
    assert math.isnan(share((0, 0, 8, 1, False, 4), (0, 1, 8, 2, True, 0)))


def test_without_a_writer_or_without_cpus_nothing_is_known() -> None:
    assert math.isnan(share((0, 0, 8, 1, False, 4), (0, 0, 8, 2, False, 4)))
    assert math.isnan(share((0, 0, 8, -1, False, 4), (0, 0, 8, -1, True, 0)))


def test_every_line_has_a_share_of_its_own() -> None:
    rows: list[Row] = [(0, 0, 8, 1, False, 5), (0, 0, 8, 2, True, 0),
                       (7, 3, 8, 1, False, 5), (7, 3, 0, 2, True, 0)]  # fmt: skip
    found = df_false_share(pd.DataFrame(rows, columns=COLUMNS))
    assert found.to_dict() == {0: 0.0, 7: 1.0}
    assert found.index.name == "line"
    assert found.dtype == float


@pytest.mark.parametrize(
    ("part", "kind"),
    [(None, None), (0.0, "true"), (0.1, "true"), (0.5, "mixed"), (0.9, "false"), (1.0, "false")],
)
def test_a_few_samples_of_the_other_kind_do_not_make_a_line_mixed(
    part: float | None, kind: str | None
) -> None:
    assert sharing_of(part) == kind
