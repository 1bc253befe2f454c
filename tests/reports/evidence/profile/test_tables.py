# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of the report's hot symbols: shares, nodes, costs and classes."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.profile.record import Profile, ProfileOperations, ProfileTest
from schedperf_reports.blocks import Table
from tests.schedperf.evidence.profile.records import (
    COST,
    SHARE,
    make_class_row,
    make_profile,
    make_row,
    with_point,
)

Describe = Callable[[Profile], Any]
Cells = Callable[[Table], list[list[str]]]

CHANGED_OVER_NODES = "1 function with a significant change in share, summed over all call paths: "


def titled(blocks: Any, start: str) -> Table:
    found: Table
    (found,) = [table for table in blocks.tables() if table.caption.startswith(start)]
    return found


def test_a_table_shows_shares_change_and_ranges_over_nodes(
    describe: Describe, cells: Cells
) -> None:
    table = describe(make_profile()).tables()[0]
    assert cells(table) == [
        [
            "update_cfs_group",
            "8.50",
            "16.25",
            "* +7.75",
            "[+7.00, +8.50]",
            "0.004",
            "scheduler: PELT",
            "7.73 -> 12.68",
            "13.15 -> 20.22",
        ],
        [
            "default_idle (idle)",
            "8.50",
            "16.25",
            "+7.75",
            "-",
            "-",
            "",
            "0.00 -> -",
            "-",
        ],
    ]
    assert [column.title for column in table.columns[-2:]] == ["node 0, %", "node 1, %"]
    assert [cell.sort for cell in table.rows[0][-2:]] == pytest.approx([4.95, 7.07])
    assert table.anchors == ("update_cfs_group", "default_idle")
    assert table.caption == (
        "hackbench -g {groups} at groups=4: cycles, n = 5 + 6 runs, 1000 + 2000 samples, "
        "idle 12.3% in base and 0.5% in new; 1 of 1 tested row changed "
        "significantly: update_cfs_group +7.75 pp; 1 not tested: "
        "idle time; 5 symbols with smaller shares omitted"
    )


def test_a_row_opens_to_its_file_its_class_and_its_spread(describe: Describe) -> None:
    table = describe(make_profile()).tables()[0]
    hot, idle = ([item.text for item in blocks[0].items] for blocks in table.details)
    assert hot == [
        "binary: [kernel], class: PELT",
        "base share by CPU: 6.50% - 21.00% over 192 CPUs",
        "new share by CPU: 6.50% - 21.00% over 192 CPUs",
    ]
    assert idle == ["binary: [kernel]", "not tested: idle time"]


def test_cold_rows_that_did_not_change_are_hidden_where_something_did(describe: Describe) -> None:
    cold = tuple(make_row(f"f{n}", changed=False) for n in range(11))
    rows = (make_row(), *cold)
    assert describe(with_point(rows=rows)).tables()[0].quiet == (
        *[False] * 10,
        True,
        True,
    )
    # Where nothing changed, what is hot is what there is to see.
    assert not any(describe(with_point(rows=cold)).tables()[0].quiet)


def test_a_row_without_q_says_why(describe: Describe) -> None:
    def untested(base: float) -> ProfileTest:
        return replace(SHARE, base=base, new=0.09, p=None, q=None)

    rows = (
        make_row(),
        make_row("__calc_delta", changed=False, share=untested(0.003)),
        make_row("finish_task_switch", changed=False, share=untested(13.3)),
        make_row("once", changed=False, share=replace(untested(13.3), ci_low=None, ci_high=None)),
    )
    table = describe(with_point(rows=rows)).tables()[0]
    cold = "share below 0.1% (sum of base and new)"
    blind = "time with interrupts off is attributed to it"
    few = "no CI, because a side has one run or all runs have the same value"
    assert f"3 not tested: {cold} (1), {blind} (1), {few} (1); " in table.caption
    said = [blocks[0].items[1].text for blocks in table.details[1:]]
    assert said == [f"not tested: {why}" for why in (cold, blind, few)]
    # A class has no least share: where one has no q, the event is blind.
    classes = (make_class_row(share=untested(0.003), changed=False),)
    table = titled(describe(with_point(classes=classes)), "by function class")
    assert table.caption.endswith(f"none of 1 row was tested for significance ({blind})")


def test_what_changed_is_shown_over_nodes_in_a_narrow_table_too(
    describe: Describe, cells: Cells
) -> None:
    nodes = titled(describe(make_profile()), CHANGED_OVER_NODES)
    assert cells(nodes) == [["update_cfs_group", "7.73 -> 12.68", "13.15 -> 20.22", "0.004"]]


def test_scheduler_functions_that_did_not_change_have_columns_of_nodes_as_well(
    describe: Describe, cells: Cells
) -> None:
    others = (
        make_row("update_load_avg", changed=False),
        make_row("nf_conntrack_in", changed=False, scheduler=False),
        make_row("rarely_sampled", changed=False, share=replace(SHARE, q=None)),
    )
    table = titled(
        describe(with_point(rows=(make_row(), *others))),
        "1 function with a significant change in share and 1 other scheduler function, summed "
        "over all call paths: ",
    )
    assert [row[0] for row in cells(table)] == ["update_cfs_group", "update_load_avg"]
    unchanged = titled(
        describe(with_point(rows=others)), "1 scheduler function without a significant change"
    )
    assert [row[0] for row in cells(unchanged)] == ["update_load_avg"]


FIVE = {0: 9.0, 1: 13.0, 2: 20.0, 3: 5.0, 4: 12.0}


def test_of_more_than_four_nodes_a_row_shows_the_most_and_the_least(
    describe: Describe, cells: Cells
) -> None:
    row = make_row(base_nodes=FIVE, new_nodes={node: share / 2 for node, share in FIVE.items()})
    blocks = describe(with_point(rows=(row,)))
    table = titled(blocks, CHANGED_OVER_NODES)
    assert [column.title for column in table.columns[1:3]] == ["most on, %", "least on, %"]
    assert cells(table)[0][1:3] == ["node 2 20.00 -> 10.00", "node 3 5.00 -> 2.50"]
    # All five are among the details.
    facts = [item.text for item in blocks.tables()[0].details[0][0].items]
    assert facts[-2] == (
        "base share by node: node 0 9.00%, node 1 13.00%, node 2 20.00%, node 3 5.00%, "
        "node 4 12.00%"
    )


def test_four_nodes_have_a_column_each(describe: Describe, cells: Cells) -> None:
    four = {node: share for node, share in FIVE.items() if node < 4}
    table = titled(
        describe(with_point(rows=(make_row(base_nodes=four, new_nodes=four),))), CHANGED_OVER_NODES
    )
    assert cells(table)[0][1:5] == [
        "9.00 -> 9.00", "13.00 -> 13.00", "20.00 -> 20.00", "5.00 -> 5.00",
    ]  # fmt: skip


def test_a_change_on_one_node_only_is_stated(describe: Describe, cells: Cells) -> None:
    nodes = titled(
        describe(with_point(rows=(make_row(one_node=1),))),
        CHANGED_OVER_NODES,
    )
    assert cells(nodes)[0][3] == "node 1 only"


def test_without_a_change_or_with_one_node_there_is_no_second_table(describe: Describe) -> None:
    one = make_row(base_nodes={0: 7.0}, new_nodes={0: 12.0}, new_range=(12.0, 12.0))
    for row in (one, make_row(changed=False)):
        captions = [table.caption for table in describe(with_point(rows=(row,))).tables()]
        assert not any("summed over all call paths" in caption for caption in captions)


def test_one_node_has_no_ranges(describe: Describe) -> None:
    nodes, ends = {0: 12.0}, (12.0, 12.0)
    row = make_row(base_nodes=nodes, new_nodes=nodes, base_range=ends, new_range=ends)
    classes = (make_class_row(base_nodes=nodes, new_nodes=nodes),)
    blocks = describe(with_point(rows=(row,), classes=classes))
    assert not any(
        column.title.startswith("node ") for table in blocks.tables() for column in table.columns
    )
    assert all(len(row) == len(table.columns) for table in blocks.tables() for row in table.rows)
    assert not any(text.startswith("node 0, node 1") for text in blocks.texts())


def test_costs_are_scaled_and_begin_with_all_that_is_not_idle(
    describe: Describe, cells: Cells
) -> None:
    table = titled(
        describe(make_profile()), "cost in us per message, without idle time: 40k messages per run"
    )
    assert cells(table) == [
        ["all but idle and other load", "10", "12", "+2", "[+1.9, +2.1]", ""],
        ["update_cfs_group", "0.85", "1.7", "* +0.85", "[+0.8, +0.9]", "0.004"],
    ]
    cold = make_row(cost=replace(COST, base=85.0, new=170.0))
    assert cells(titled(describe(with_point(rows=(cold,))), "cost in ns per"))[1][1:3] == [
        "85",
        "170",
    ]
    cycles = titled(
        describe(with_point(cost_unit="cycles per message")), "cost in k cycles per mes"
    )
    assert cells(cycles)[1][1:3] == ["0.85", "1.7"]


def test_what_sums_of_floats_differ_by_is_no_change(describe: Describe, cells: Cells) -> None:
    def change_of(new: float) -> str:
        rows = (make_row(cost=replace(COST, base=3.14, new=new, change=new - 3.14)),)
        table = titled(describe(with_point(rows=rows, busy_cost=None)), "cost in ns per")
        return cells(table)[0][3]

    assert 3.14 - 4.44e-16 < 3.14  # else there would be no noise to see
    assert change_of(3.14 - 4.44e-16) == "+0"
    assert change_of(3.13) == "* -0.01"


def test_a_rate_times_the_time_is_no_count_and_that_is_said(describe: Describe) -> None:
    operations = ProfileOperations(unit="message", exact=False, base=40e3, new=40e3)
    table = titled(describe(with_point(operations=operations)), "cost in")
    assert table.caption.endswith(
        " (estimated as printed rate times run time); "
        "1 of 1 row changed significantly: update_cfs_group +0.85"
    )


def test_without_operations_there_are_no_costs_and_the_reason_is_given(describe: Describe) -> None:
    rows = (make_row(cost=None),)
    blocks = describe(
        with_point(
            rows=rows,
            operations=None,
            cost_unit=None,
            busy_cost=None,
            explained=None,
            cost_reason="nobody counted",
        )
    )
    assert not any(table.caption.startswith("cost in") for table in blocks.tables())
    assert "no cost per operation: nobody counted" in blocks.texts()


def test_classes_have_a_table_with_what_moved_them(describe: Describe, cells: Cells) -> None:
    table = titled(describe(make_profile()), "by function class")
    assert cells(table)[0][:4] == ["PELT", "8.50", "16.25", "* +7.75"]
    assert cells(table)[0][-3:] == [
        "7.73 -> 12.68",
        "13.15 -> 20.22",
        "update_cfs_group +7.75",
    ]
    assert table.anchors == ("class:PELT",)
