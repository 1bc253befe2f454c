# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of how many rates changed, and of those of which nothing can be said."""

from collections.abc import Callable

import pytest

from schedperf.model.caveats import caveat
from schedperf.model.rows import Row
from schedperf_reports.words.rows import count_changes, describe_directions, merge_caveats
from tests.counted_rows import NamedRow, named_row

CHANGED = named_row(changed=True, p=1e-6)
SAME = named_row(changed=False, p=0.7)
DRIFTED = named_row(changed=None, p=1e-6)
SINGLE = named_row(changed=None, p=None, n_base=1, n_new=1)
FEW = named_row(changed=None, p=None, n_base=4, n_new=4, values_base=(1.0, 2.0, 1.0, 3.0))
EQUAL = named_row(changed=None, p=None, values_base=(1.0, 1.0), values_new=(2.0, 2.0))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([CHANGED], "1 of 1 row changed significantly"),
        ([CHANGED, SAME, CHANGED, SINGLE], "2 of 4 rows changed significantly"),
        ([SAME, SAME], "0 of 2 rows changed significantly"),
        ([SINGLE, SINGLE], "one run per side: significance unknown"),
        ([FEW, SINGLE], "too few runs per side: significance unknown"),
        ([EQUAL, EQUAL], "equal values in all runs of a side: significance unknown"),
        ([EQUAL, FEW], "too few runs per side: significance unknown"),
    ],
)
def test_changes_are_counted_where_runs_can_tell_them(rows: list[NamedRow], words: str) -> None:
    assert count_changes(rows) == words


def test_differences_that_may_be_drift_are_counted_apart() -> None:
    said = "2 more differ, but may be drift: the sides were not interleaved"
    assert count_changes([CHANGED, SAME, DRIFTED, DRIFTED]) == (
        f"1 of 4 rows changed significantly; {said}"
    )
    assert count_changes([DRIFTED, DRIFTED]) == f"0 of 2 rows changed significantly; {said}"


@pytest.mark.parametrize(
    ("higher", "lower", "words"),
    [
        (0, 2, "lower is better"),
        (2, 0, "higher is better"),
        (1, 2, "lower is better (higher for rate 0)"),
        (3, 2, "higher is better (lower for time 0, time 1)"),
        (4, 4, None),
    ],
)
def test_directions_name_the_fewer_metrics(
    make_row: Callable[..., Row], higher: int, lower: int, words: str | None
) -> None:
    rows = [
        *(make_row(metric=f"rate {n}", better="higher") for n in range(higher)),
        *(make_row(metric=f"time {n}", point=point) for n in range(lower) for point in "ab"),
    ]
    assert describe_directions(rows) == words


def test_caveats_that_differ_only_in_the_side_are_merged() -> None:
    merged = merge_caveats(
        [
            caveat("bad-lines", count=4, label="base", problem="x"),
            caveat("emulated", how="QEMU"),
            caveat("bad-lines", count=4, label="new", problem="x"),
            caveat("bad-lines", count=5, label="new2", problem="x"),
        ]
    )
    assert [each.text for each in merged] == [
        "4 lines of base and new could not be parsed; first: x",
        "timings come from an emulator (QEMU) and do not predict real hardware",
        "5 lines of new2 could not be parsed; first: x",
    ]
    assert merged[1].short == "timings come from an emulator and do not predict real hardware"
