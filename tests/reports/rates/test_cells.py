# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells of rates: readable numbers, no interval that says nothing, and why there is none."""

import pytest
from msgspec.structs import replace

from schedperf_reports.blocks import Cell, Column, Table, Text
from schedperf_reports.rates.cells import (
    RUNS_COLUMN,
    Shown,
    change_of,
    compared_cells,
    describe_rate,
    explain_gaps,
    gather_twins,
    interval_of,
    move_n_to_caption,
    zeros_table,
)
from schedperf_reports.rates.details import opened
from tests.counted_rows import named_row

RATE = named_row()


def test_small_counts_are_of_a_thousand_operations() -> None:
    assert describe_rate(Shown(RATE)) == ("1000 messages", "0.138", "0.0719")
    assert describe_rate(Shown(named_row(base=0.2))) == ("message", "0.2", "7.19e-05")
    assert describe_rate(Shown(named_row(new=None))) == ("1000 messages", "0.138", "-")


def test_times_an_operation_and_rates_a_second_keep_their_unit() -> None:
    time = named_row(unit="s/message")
    assert describe_rate(Shown(time)) == ("message", "138 us", "71.9 us")
    second = named_row(basis="time", unit="task/s", base=0.05, new=0.02)
    assert describe_rate(Shown(second)) == ("second", "0.05", "0.02")


def test_shares_means_and_levels_say_what_they_are() -> None:
    share = named_row(basis="share", unit="")
    assert describe_rate(Shown(share))[0] == "share"
    assert describe_rate(Shown(replace(share, unit="Hz")))[0] == "mean"
    assert describe_rate(Shown(replace(share, unit="s", field="p99")))[0] == "quantile"


def test_the_same_count_a_second_is_a_twin_and_watts_are_none() -> None:
    second = named_row(basis="time", unit="1/s")
    alone = replace(second, name="execs")
    watts = named_row(basis="time", unit="W", name="power")
    joules = named_row(unit="J/message", name="power")
    assert gather_twins([second, RATE, alone, watts, joules]) == [
        Shown(RATE, is_rare=True, twins=(Shown(second),)),
        *map(Shown, (alone, watts, joules)),
    ]


def test_counts_that_stand_below_each_other_are_of_as_many_operations() -> None:
    often = named_row(name="wakeups", base=0.179, new=0.15)
    rare = named_row(name="goidle", base=0.00242, new=0.00234)
    assert [describe_rate(shown) for shown in gather_twins([often, rare])] == [
        ("1000 messages", "179", "150"),
        ("1000 messages", "2.42", "2.34"),
    ]
    # Where none is rare a thousand would only be harder to read.
    [alone] = gather_twins([often])
    assert describe_rate(alone)[0] == "message"


def test_a_row_opens_to_its_runs_in_order_and_to_why_it_has_no_interval() -> None:
    runs = named_row(changed=False, values_base=(0.0001, 0.0002), values_new=(7e-05,))
    wide = replace(runs, ci_low=0.001, ci_high=10.0)
    why, values = opened(Shown(wide))
    assert isinstance(why, Text)
    assert "the ends differ by more than a factor of 100" in why.text
    assert isinstance(values, Table)
    assert [[cell.text for cell in cells] for cells in values.rows] == [
        ["base", "1000 messages", "0.1, 0.2"],
        ["new", "1000 messages", "0.07"],
    ]
    assert opened(Shown(RATE)) == ()


def test_a_sure_row_that_is_no_change_says_why() -> None:
    def said(ratio: float, q: float = 0.02, small: str = "") -> list[str]:
        row = named_row(ratio=ratio, p=0.01, q=q, changed=False)
        return [block.text for block in opened(Shown(row), small=small) if isinstance(block, Text)][
            1:
        ]

    assert said(1.005) == ["not marked as significant: the change is below 1%"]
    assert said(1.07, small="too few events") == ["not marked as significant: too few events"]
    assert said(1.07) == []
    assert said(1.07, q=0.06, small="too few events") == []


def test_what_all_rows_count_is_said_once() -> None:
    columns = (Column(title="count"), RUNS_COLUMN)
    rows = tuple((Cell(text=name), Cell(text="5 rounds")) for name in ("a", "b"))
    table = move_n_to_caption(Table(caption="CPUs", columns=columns, rows=rows))
    assert (table.caption, len(table.columns)) == ("CPUs; n = 5 rounds", 1)
    assert table.rows == ((Cell(text="a"),), (Cell(text="b"),))
    other = Table(caption="CPUs", columns=columns, rows=(rows[0], (Cell(text="b"), Cell(text="3"))))
    assert move_n_to_caption(other) is other


@pytest.mark.parametrize(
    ("changed", "p", "change"),
    [
        (True, 0.001, "* -47.7%"),
        (False, 0.001, "-47.7%"),
        (None, 0.001, "? -47.7%"),
        # One run per side has no p, so nothing is known of a drift either.
        (None, None, "-47.7%"),
    ],
)
def test_a_change_is_marked_as_beyond_noise_or_as_possible_drift(
    changed: bool | None,  # noqa: FBT001
    p: float | None,
    change: str,
) -> None:
    row = named_row(changed=changed, p=p)
    assert compared_cells(Shown(row))[2].text == change
    invalid = replace(row, changed=None, reason="lost")
    assert compared_cells(Shown(invalid))[2].text == "invalid"


def test_an_interval_that_spans_everything_is_no_number_and_says_why() -> None:
    assert interval_of(RATE) == "[-60.0%, -30.0%]"
    wide = named_row(ci_low=0.0, ci_high=23900.0)
    assert interval_of(wide) == "too wide"
    [text] = explain_gaps([RATE, wide])
    assert text.text.endswith(" (record more runs or boots)")
    assert list(explain_gaps([RATE])) == []


def test_a_change_from_nothing_says_why_it_has_no_number() -> None:
    none = named_row(base=0.0, ratio=None, ci_low=None, ci_high=None)
    assert change_of(none) == interval_of(none) == "-"
    [text] = explain_gaps([none])
    assert text.text.startswith(
        "change not available: the ratio is undefined, because the value is 0 in at least one "
        "run or boot"
    )


def test_what_is_not_compared_or_alone_needs_no_reason() -> None:
    invalid = named_row(reason="lost", ratio=None, ci_low=None, ci_high=None)
    assert change_of(invalid) == "invalid"
    assert list(explain_gaps([invalid, replace(invalid, reason=None, new=None)])) == []


def test_zeros_are_a_number_on_a_terminal_and_names_on_the_page() -> None:
    assert list(zeros_table([])) == []
    [table] = zeros_table(["execs", "forks"])
    assert table.caption == "2 counts with the value 0 in all runs"
