# SPDX-License-Identifier: GPL-2.0-or-later
"""Who touches which bytes of a line: table, drawing and text."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from schedperf.evidence.c2c.record import C2c
from schedperf.model.base_new import BaseNew
from schedperf_reports.blocks import Table, is_note
from schedperf_reports.graphics.cache_lines import CacheLines
from tests.schedperf.evidence.c2c.records import (
    ACCESS,
    DATA,
    LINE,
    SEEN,
    UNNAMED,
    unmatched,
    with_point,
)

Describe = Callable[[C2c], Any]
Cells = Callable[[Table], list[list[str]]]


def test_who_touches_which_bytes_is_shown_for_both_sides(describe: Describe, cells: Cells) -> None:
    *_, table = describe(DATA).tables()
    rows = cells(table)
    assert rows[0][0] == "base, task_group+0x100"
    assert rows[1] == [
        "0-7", "task_group.load_avg [A]", "93", "40", "93+0", "50.0%",
        "r update_cfs_group, r+W update_load_avg", "3.1",
    ]  # fmt: skip
    # Of bytes without a name nobody knows how many there are.
    assert rows[3][:2] == ["8-?", "name unknown"]
    assert rows[5][0] == "new, task_group+0x140"
    assert "0% false sharing in base" in table.caption


def test_the_drawing_has_who_reads_and_writes_which_bytes_of_both_sides(
    describe: Describe,
) -> None:
    (drawing,) = [block for block in describe(DATA) if isinstance(block, CacheLines)]
    assert drawing.caption == (
        "reads and writes of each byte range; task_group.load_avg: remote HITM at 0.129 times "
        "the base rate"
    )
    (group,) = drawing.groups
    assert [row.offset for row in group.rows] == ["0x100", "0x140"]
    assert group.rows[0].note == "true sharing; remote 3.1 HITM per 1000 messages"
    assert group.rows[1].note == (
        "false sharing; remote 0.4 HITM per 1000 messages, 0.129 times the base rate [0.067, 0.23]"
    )
    first, second = group.rows[0].occupants
    assert (first.name, first.start, first.size) == ("task_group.load_avg", 0, 8)
    assert (first.reads, first.writes, first.heat) == (93, 40, 0.5)
    assert first.is_sized
    assert (second.name, second.is_sized) == ("byte 8", False)
    # All 93 samples of the line are a rate of 3.1, and each stretch of bytes has 93 of them here.
    assert first.facts[:4] == (
        "grade A, bytes 0-7 of the line",
        "samples: 93 reads, 40 writes, 93 remote + 0 local HITM (50.0% of all HITM on the line)",
        "3.1 HITM per 1000 messages",
        "accessed by r update_cfs_group, r+W update_load_avg, W attach_entity_cfs_rq",
    )
    assert second.facts[0] == ("name unknown, bytes 8-? of the line, field size unknown")


def test_below_a_drawn_line_stands_who_reads_and_writes_which_bytes_from_which_nodes(
    describe: Describe,
) -> None:
    unsaid = replace(
        UNNAMED, reads=None, readers=None, writers=None, nodes=None, symbols=(), commands=None
    )
    base = replace(SEEN, accesses=(ACCESS, unsaid))
    blocks = describe(with_point(lines=(replace(LINE, base=base),)))
    (drawing,) = [block for block in blocks if isinstance(block, CacheLines)]
    assert drawing.groups[0].rows[0].who == (
        (
            "0-7 task_group.load_avg: 93 reads, 40 writes, 50.0% of HITM on the line; r "
            "update_cfs_group, r+W update_load_avg; hackbench, kworker/0:1 and 1 more; nodes 0, 1"
        ),
        (
            "8-? name unknown: reads unknown, 0 writes, 50.0% of HITM on the line; "
            "functions unknown; commands unknown; nodes unknown"
        ),
    )


def test_a_name_that_stands_elsewhere_on_the_line_has_moved(describe: Describe) -> None:
    new = replace(SEEN, accesses=(replace(ACCESS, offset=24),))
    blocks = describe(with_point(lines=(replace(LINE, new=new),)))
    (drawing,) = [block for block in blocks if isinstance(block, CacheLines)]
    words = [[one.word for one in row.occupants] for row in drawing.groups[0].rows]
    assert words == [["", ""], ["moved"]]


def test_a_line_of_one_side_is_drawn_with_why_the_other_is_empty(describe: Describe) -> None:
    counted = BaseNew(base=1, new=0)
    blocks = describe(with_point(lines=(unmatched("base", 1),), seen_unmatched=counted))
    (drawing,) = [block for block in blocks if isinstance(block, CacheLines)]
    assert drawing.groups[0].rows[0].note == "true sharing"
    assert drawing.groups[0].rows[1].occupants == ()
    assert drawing.groups[0].rows[1].note == "addresses differ between boots"
    assert "no significant change in HITM on the drawn lines" in drawing.caption


def test_who_and_on_which_nodes_stands_below_the_bytes(describe: Describe) -> None:
    *_, table = describe(DATA).tables()
    note = table.rows[2]
    assert is_note(note)
    assert note[0].text.strip() == (
        "samples by command: hackbench 130, kworker/0:1 2, swapper 1; "
        "read by CPUs 0-3,8, written by CPUs 1; "
        "node 0: 90 reads, 40 writes, 90 remote + 0 local HITM; node 1: 3 reads, "
        "3 remote + 0 local HITM"
    )
    assert "written by" not in table.rows[4][0].text


def test_what_a_source_does_not_say_is_a_dash_and_no_row(describe: Describe, cells: Cells) -> None:
    unsaid = replace(ACCESS, reads=None, readers=None, writers=None, nodes=None, commands=None)
    seen = replace(SEEN, copies=None, double_counted=None, accesses=(unsaid,))
    _, lines, table = describe(with_point(lines=(replace(LINE, base=seen, new=seen),))).tables()
    assert cells(lines)[0][-2] == "-"
    assert len(table.rows) == 4
    assert cells(table)[1][2] == "-"


def test_an_equal_split_of_both_sides_is_said_once_and_an_atomic_by_its_own_name(
    describe: Describe, cells: Cells
) -> None:
    atomic = replace(ACCESS, name="nohz.nr_cpus.counter")
    split = replace(SEEN, false_share=0.25, accesses=(atomic,))
    lines = (replace(LINE, base=split, new=split),)
    *_, table = describe(with_point(lines=lines)).tables()
    assert "(25% false sharing in base and new)" in table.caption
    assert cells(table)[1][1] == "nohz.nr_cpus [A]"
