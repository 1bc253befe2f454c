# SPDX-License-Identifier: GPL-2.0-or-later
"""Which columns of a table have room, and how wide each becomes."""

from schedperf_reports.blocks import SET_PRIORITY, Cell, Column
from schedperf_reports.text.column_widths import choose_columns


def test_columns_of_the_highest_priority_number_go_first() -> None:
    columns = [
        Column(title="symbol"),
        Column(title="share", align="right", priority=1),
        Column(title="note", priority=2),
    ]
    rows = [[Cell(text="update_cfs_group"), Cell(text="12.68"), Cell(text="x" * 20)]]
    assert list(choose_columns(columns, rows, 60)) == [0, 1, 2]
    assert list(choose_columns(columns, rows, 30)) == [0, 1]
    assert list(choose_columns(columns, rows, 20)) == [0]


def test_columns_of_a_set_go_together() -> None:
    columns = [
        Column(title="symbol"),
        *(Column(title=f"node {node}", priority=SET_PRIORITY) for node in range(3)),
        Column(title="share", align="right", priority=1),
    ]
    rows = [[Cell(text="update_cfs_group"), *[Cell(text="12.68 -> 7.73")] * 3, Cell(text="12.68")]]
    assert list(choose_columns(columns, rows, 80)) == [0, 1, 2, 3, 4]
    assert list(choose_columns(columns, rows, 60)) == [0, 4]


def test_a_unit_goes_with_its_number() -> None:
    columns = [
        Column(title="result"),
        Column(title="unit", priority=1, with_next=True),
        Column(title="base", align="right", priority=1),
        Column(title="new", align="right", priority=2),
    ]
    rows = [[Cell(text="hackbench time"), Cell(text="ms"), Cell(text="59.86"), Cell(text="65.6")]]
    assert list(choose_columns(columns, rows, 40)) == [0, 1, 2, 3]
    assert list(choose_columns(columns, rows, 30)) == [0, 1, 2]
    assert list(choose_columns(columns, rows, 22)) == [0]


def test_numbers_are_never_cut() -> None:
    columns = [Column(title="command"), Column(title="value", align="right")]
    rows = [[Cell(text="a long command " * 9), Cell(text="123456.789")]]
    assert choose_columns(columns, rows, 40) == {0: 28, 1: 10}


def test_few_long_names_are_cut_before_a_column_goes() -> None:
    columns = [
        Column(title="symbol", code=True),
        Column(title="dso", code=True, priority=1),
        Column(title="cost", align="right"),
    ]
    rows = [[Cell(text="schedule"), Cell(text="[kernel]"), Cell(text="12.68")] for _ in range(9)]
    long = [[Cell(text="x" * 60), Cell(text="[kernel]"), Cell(text="12.68")]]
    assert list(choose_columns(columns, rows + long, 36)) == [0, 1, 2]
    assert list(choose_columns(columns, rows[:2] + long * 8, 36)) == [0, 2]
