"""What is said of how many rates changed, and of those of which nothing can be said."""

import pytest

from schedperf_reports.words.rows import count_changes
from tests.counted_rows import NamedRow, named_row

CHANGED = named_row(changed=True, p=1e-6)
SAME = named_row(changed=False, p=0.7)
DRIFTED = named_row(changed=None, p=1e-6)
SINGLE = named_row(changed=None, p=None)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([CHANGED], "1 of 1 row changed beyond noise"),
        ([CHANGED, SAME, CHANGED, SINGLE], "2 of 4 rows changed beyond noise"),
        ([SAME, SAME], "0 of 2 rows changed beyond noise"),
        (
            [SINGLE, SINGLE],
            "one run a side cannot tell a change from noise, so none is read as one",
        ),
    ],
)
def test_changes_are_counted_where_runs_can_tell_them(rows: list[NamedRow], words: str) -> None:
    assert count_changes(rows) == words


def test_differences_that_may_be_drift_are_counted_apart() -> None:
    said = (
        "2 more differ, but may have drifted: the sides did not take turns, and have less than 10 "
        "runs each"
    )
    assert count_changes([CHANGED, SAME, DRIFTED, DRIFTED]) == (
        f"1 of 4 rows changed beyond noise; {said}"
    )
    assert count_changes([DRIFTED, DRIFTED]) == f"0 of 2 rows changed beyond noise; {said}"
