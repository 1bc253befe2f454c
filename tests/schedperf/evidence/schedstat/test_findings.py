# SPDX-License-Identifier: GPL-2.0-or-later
"""Which readings of the scheduler's counts become findings, on bundles that are compared."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.schedstat.findings import MOST_FINDINGS, scheduler_counts
from schedperf.evidence.schedstat.record import ReadingRow, SchedstatRow
from schedperf.model.sections import Finding
from tests.schedperf.evidence.schedstat.records import reading_row, schedstat_of, schedstat_row

Find = Callable[..., list[Finding]]

READING = reading_row()
ROW = schedstat_row(base=0.1, new=0.009, n_new=4, ci_low=0.08, ci_high=0.1)


@pytest.fixture
def find() -> Find:
    """Return the findings of readings, each with a row of its own."""

    def run(
        *readings: ReadingRow, others: Sequence[SchedstatRow] = (), **row: Any
    ) -> list[Finding]:
        named = tuple(replace(one, row=f"new-{index}") for index, one in enumerate(readings))
        rows = [replace(ROW, row=one.row, side=one.side, **row) for one in named]
        return list(scheduler_counts(schedstat_of(*rows, *others, readings=named)))

    return run


def test_one_reading_stands_for_all_of_a_function(find: Find) -> None:
    other = replace(READING, look_at="detach_tasks()", point="")
    found = find(READING, replace(READING, point="groups=16"), other)
    assert [one.evidence for one in found] == [("schedstat#new-0",), ("schedstat#new-2",)]


def test_each_side_has_a_few_findings_of_its_own(find: Find) -> None:
    readings = [
        replace(READING, side=side, look_at=f"function_{number}()")
        for number in range(MOST_FINDINGS + 2)
        for side in ("new", "new2")
    ]
    found = find(*readings)
    assert [sum(one.side == side for one in found) for side in ("new", "new2")] == [4, 4]


def test_a_count_that_was_zero_has_neither_ratio_nor_interval(find: Find) -> None:
    [found] = find(READING, ratio=None, ci_low=None, ci_high=None)
    assert (found.value, found.ci) == (None, None)
    assert "interval" not in found.claim


@pytest.mark.parametrize(("ratio", "changed"), [(1.0, False), (0.9, False), (1.2, True)])
def test_what_comes_as_often_or_more_often_per_second_is_no_finding(
    ratio: float, find: Find, *, changed: bool
) -> None:
    rate = schedstat_row(
        row="s", basis="time", unit="1/s", base=0.1, new=0.1 * ratio, ratio=ratio, changed=changed
    )
    assert find(READING, others=[rate]) == []
    # A rate of another level says nothing of it.
    [found] = find(READING, others=[replace(rate, level="PKG")])
    assert "per second" not in found.claim


def test_what_falls_per_second_too_says_both_rates(find: Find) -> None:
    rate = replace(ROW, row="s", basis="time", unit="1/tick", ratio=0.1, ci_high=0.12)
    [found] = find(READING, others=[rate])
    assert "(95% CI [-92%, -90%], per tick -90% [-92%, -88%]): CPUs" in found.claim
