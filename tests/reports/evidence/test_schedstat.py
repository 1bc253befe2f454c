# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's scheduler statistics: readings first, tables a level, refusals and notes."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.schedstat.record import SchedstatRefusal, SchedstatRow
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section
from schedperf_reports.blocks import Block, Items, Table, Text
from schedperf_reports.evidence.schedstat import schedstat
from schedperf_reports.rates.cells import QUIET_WORD
from tests.schedperf.evidence.schedstat.records import (
    core_type_row,
    level_row,
    reading_row,
    schedstat_of,
    schedstat_row,
)

Describe = Callable[..., list[Block]]

ROW = schedstat_row()
READING = reading_row()


@pytest.fixture
def describe(make_comparison: Callable[..., Comparison]) -> Describe:
    """Return the blocks for a section's data."""

    def run(*rows: SchedstatRow, **changes: Any) -> list[Block]:
        data = schedstat_of(*rows, **changes)
        section = Section.of(data)
        return list(schedstat(make_comparison(sections={data.section: section})))

    return run


def tables(blocks: list[Block]) -> list[Table]:
    return [block for block in blocks if isinstance(block, Table)]


def texts(blocks: list[Block]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text)]


def test_a_reading_names_its_rule_and_leads_to_its_row(describe: Describe) -> None:
    blocks = describe(ROW, readings=(READING,))
    items = next(block for block in blocks if isinstance(block, Items))
    assert items.items[0].text == f"{READING.text}: look at {READING.look_at}"
    assert items.items[0].detail.endswith("(rule newidle-pulls)")
    assert items.items[0].evidence == ("schedstat#new-0",)
    assert tables(blocks)[0].anchors == ("new-0",)


def test_changed_rows_come_first_and_the_rest_keeps_its_order(describe: Describe) -> None:
    rows = [
        replace(ROW, field=name, changed=changed, ratio=ratio)
        for name, changed, ratio in (
            ("lb_count", False, 9.0),
            ("lb_failed", None, None),
            ("lb_gained", True, 1.2),
            ("lb_nobusyq", True, 0.2),
        )
    ]
    [table] = tables(describe(*rows))
    assert [row[0].text.split()[1] for row in table.rows] == [
        "lb_nobusyq", "lb_gained", "lb_count", "lb_failed",
    ]  # fmt: skip


def test_a_terminal_shows_what_changed_at_a_level_and_some_counts_of_the_cpus(
    describe: Describe,
) -> None:
    quiet = replace(ROW, changed=False)
    cpus = [replace(quiet, level="", idle="", field=f"count{number}") for number in range(9)]
    levels = [
        replace(quiet, field="lb_count"),
        ROW,
        replace(ROW, field="lb_failed", level="NUMA", changed=None),
    ]
    changed = "1 of 2 rows changed significantly: newidle lb_gained -91.0%"
    unchanged = "0 of 1 row changed significantly"
    drifted = "1 more differs, but may be drift: the sides were not interleaved"
    found = tables(describe(*cpus, *levels))
    assert [(table.caption, table.limit, len(table.rows)) for table in found] == [
        ("CPUs: 0 of 9 rows changed significantly; n = 5+5 runs", 6, 9),
        (f"load balancing and wakeups at MC: {changed}; n = 5+5 runs", 1, 2),
        (
            f"load balancing and wakeups at NUMA: {unchanged}; {drifted}",
            0,
            1,
        ),
    ]


def test_the_same_count_a_second_is_what_its_row_opens_to(describe: Describe) -> None:
    twin = replace(ROW, row="new-9", basis="time", unit="1/s", base=5.0, new=1.0)
    quiet = replace(ROW, row="new-1", field="lb_count", changed=False)
    [table] = tables(describe(twin, quiet, ROW))
    assert [row[0].text for row in table.rows] == ["newidle lb_gained", "newidle lb_count"]
    assert table.limit == 1
    about, chance, others = table.details[0]
    assert isinstance(about, Text)
    assert isinstance(chance, Text)
    assert chance.text == (
        "q = 1e-05 (p = 1e-06; q is corrected over all rows of this section with rates per "
        "operation)"
    )
    assert about.text == "newidle lb_gained: tasks pulled, see detach_tasks()"
    assert isinstance(others, Table)
    assert [[cell.text for cell in row] for row in others.rows] == [
        ["second", "5", "1", "* -91.0%", "[-91.5%, -90.5%]", "5+5 runs"]
    ]
    assert others.anchors == ("new-9",)


def test_a_count_that_versions_split_says_so_where_its_row_opens(describe: Describe) -> None:
    [table] = tables(describe(replace(ROW, split="before version 17: a single sum")))
    about, _ = table.details[0]
    assert isinstance(about, Text)
    assert about.text.endswith("; before version 17: a single sum")


def test_a_page_hides_what_did_not_change_but_for_the_first_rows(describe: Describe) -> None:
    many = [replace(ROW, field=f"f{one}", changed=False) for one in range(8)]
    [table] = tables(describe(ROW, *many))
    assert table.quiet == (False,) * 5 + (True,) * 4
    assert table.quiet_word == QUIET_WORD


def test_the_domains_open_to_their_flags(describe: Describe) -> None:
    levels = (level_row(), level_row(level="NUMA", cpus=None, domains=None, flags=None))
    blocks = describe(
        ROW,
        replace(ROW, field="lb_count", changed=False, level="NUMA", idle="busy"),
        replace(ROW, field="ttwu_move_affine", idle="", changed=False, level="MC"),
        levels=levels,
    )
    tree = tables(blocks)[0]
    assert tree.columns[2].explains == "tasks pulled: detach_tasks()"
    assert [[cell.text for cell in row] for row in tree.rows] == [
        ["MC, 2 CPUs, 2 domains", "", "", "90 -> 8.1"],
        ["   busy CPUs", "0", "0", ""],
        ["   idle CPUs", "0", "0", ""],
        ["   CPUs becoming idle", "0", "90 -> 8.1 (-91.0%)", ""],
        ["   └ NUMA", "", "", ""],
        ["      busy CPUs", "90 -> 8.1", "0", ""],
        ["      idle CPUs", "0", "0", ""],
        ["      CPUs becoming idle", "0", "0", ""],
    ]
    flags = [[one.text for one in blocks if isinstance(one, Text)] for blocks in tree.details]
    assert flags[0] == ["domain flags: SD_SHARE_LLC X"]
    assert flags[4] == ["domain flags: not recorded"]
    assert flags[1] == []
    assert tree.rows[3][2].tone == "strong"


def test_what_is_missing_is_said(describe: Describe) -> None:
    refused = (SchedstatRefusal(side="base", what="lb_imbalance", reason="one sum"),)
    notes = [f"{side}: note {number}" for number in range(7) for side in ("base", "new")]
    blocks = describe(ROW, not_compared=refused, zeros=["MC alb_count"], notes=notes)
    items = [block for block in blocks if isinstance(block, Items)]
    assert items[-1].items[0].text == "not compared: lb_imbalance of base: one sum"
    [zeros] = [table for table in tables(blocks) if table.limit == 0]
    assert zeros.caption == "1 count with the value 0 in all runs"
    assert zeros.rows[0][0].text == "MC alb_count"
    assert "base and new: note 0" in texts(blocks)
    assert "2 more notes" in texts(blocks)


def test_each_type_of_core_has_its_share_of_the_run_time(describe: Describe) -> None:
    table = tables(describe(ROW, core_types=(core_type_row(),)))[-1]
    assert table.caption.startswith("types of CPU cores: 1 of 1 row changed significantly")
    assert table.rows[0][0].text == "cpu_atom rq_cpu_time"
    assert [cell.text for cell in table.rows[0][2:4]] == ["25.0%", "75.0%"]
    assert table.anchors == ("new-type-0",)


def test_types_of_one_side_have_their_shares(describe: Describe) -> None:
    alone = core_type_row(side="base", n_new=0, new=None, ratio=None, changed=None)
    table = tables(describe(replace(ROW, n_new=0, new=None), core_types=(alone,)))[-1]
    assert [cell.text for cell in table.rows[0]] == [
        "cpu_atom rq_cpu_time", "share", "25.0%", "share of the run time of all tasks",
    ]  # fmt: skip
