# SPDX-License-Identifier: GPL-2.0-or-later
"""Blocks drawn for a terminal: tables, drawings and lists within their width."""

import pytest
from msgspec.structs import replace

from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Drawing,
    DrawingLine,
    Item,
    Items,
    Table,
    Text,
)
from schedperf_reports.graphics.chart import Chart
from schedperf_reports.text.terminal import draw_section, write_text


def draw_blocks(*blocks: Block, width: int = 78) -> list[str]:
    return write_text(
        draw_section(blocks, None, width, see="--html or --json"), width, colour=False
    ).splitlines()


def test_a_cut_table_says_how_many_rows_are_missing() -> None:
    rows = tuple((Cell(text=f"symbol_{number}"),) for number in range(15))
    table = Table(caption="symbols", columns=(Column(title="symbol"),), rows=rows, limit=3)
    assert draw_blocks(table) == [
        "  symbols",
        "  symbol",
        "  symbol_0",
        "  symbol_1",
        "  symbol_2",
        "  … 12 more, see --html or --json",
    ]


def test_a_reference_table_is_one_line() -> None:
    table = Table(
        caption="109 fields", columns=(Column(title="a"),), rows=((Cell(text="b"),),), limit=0
    )
    assert draw_blocks(table) == ["  109 fields (see --html or --json)"]


def test_what_all_rows_say_is_said_once_where_there_is_no_room() -> None:
    columns = (
        Column(title="event"),
        Column(title="per", priority=1),
        Column(title="share", align="right", priority=2),
    )
    rows = tuple(
        (Cell(text=name), Cell(text="1000 messages"), Cell(text=share))
        for name, share in (("sched_switch", "12.68"), ("sched_waking", "9.13"))
    )
    table = Table(caption="events", columns=columns, rows=rows)
    assert draw_blocks(table, width=60)[:2] == [
        "  events",
        "  event         per            share",
    ]
    assert draw_blocks(table, width=30) == [
        "  events; in all rows: per",
        "  1000 messages",
        "  event         share",
        "  sched_switch  12.68",
        "  sched_waking   9.13",
    ]
    other = replace(table, rows=(rows[0], (*rows[1][:1], Cell(text="message"), *rows[1][2:])))
    assert draw_blocks(other, width=30)[0] == "  events"
    assert draw_blocks(other, width=32)[-2:] == [
        "  columns not shown at this",
        "  width: share",
    ]


def test_columns_that_were_left_out_are_named() -> None:
    table = Table(
        caption="symbols",
        columns=(
            Column(title="symbol"),
            Column(title="share", align="right", priority=1),
            Column(title="q", align="right", priority=REFERENCE_PRIORITY),
        ),
        rows=((Cell(text="update_cfs_group"), Cell(text="1" * 20), Cell(text="2" * 20)),),
    )
    assert draw_blocks(table, width=38)[-2:] == [
        "  columns not shown at this width:",
        "  share",
    ]
    assert not any("not shown" in line for line in draw_blocks(table, width=64))


def test_a_heading_row_may_be_wider_than_its_column() -> None:
    table = Table(
        caption="results",
        columns=(Column(title="point"), Column(title="change", align="right")),
        rows=(
            (Cell(text="perf bench sched messaging"), Cell(text="")),
            (Cell(text="  groups=1"), Cell(text="+1.0%")),
        ),
    )
    assert draw_blocks(table)[2:] == ["  perf bench sched messaging", "    groups=1   +1.0%"]


def test_a_note_is_wrapped_below_its_own_first_word() -> None:
    columns = (Column(title="point"), Column(title="change", align="right"))
    row = (Cell(text="  groups=1"), Cell(text="+1.0%"))
    note = (Cell(text="    two modes: 3 of 8 runs were slow", tone="warning"), Cell(text=""))
    table = Table(caption="results", columns=columns, rows=(row, note))
    assert draw_blocks(table, width=30)[2:] == [
        "    groups=1   +1.0%",
        "      two modes: 3 of 8 runs",
        "      were slow",
    ]


def test_a_note_that_begins_with_very_many_blanks_stays_on_the_line() -> None:
    note = (Cell(text=" " * 200 + "word", tone="muted"), Cell(text=""))
    columns = (Column(title="a"), Column(title="b"))
    drawn = draw_blocks(Table(caption="c", columns=columns, rows=(note,)), width=30)
    assert drawn[-1] == " " * 10 + "word"


@pytest.mark.parametrize("width", range(14, 40))
def test_a_number_and_its_sign_stay_on_one_line(width: int) -> None:
    told = "of the growth +24.2% and 5 rounds of 100% or 7%"
    table = Table(caption=told, columns=(Column(title=told),), rows=((Cell(text=told),),))
    for block in (Text(text=told), Items(items=(Item(text=told),)), table):
        lines = draw_blocks(block, width=width)
        assert not [line for line in lines if line.strip().startswith("%")]
        assert told in " ".join(" ".join(lines).split())


def test_a_number_and_the_word_behind_it_may_part() -> None:
    assert draw_blocks(Text(text="growth and 5 rounds of it"), width=16)[0] == "  growth and 5"


DRAWING = Drawing(
    caption="per-CPU section",
    titles=("base: tip", "new: cluster"),
    columns=(
        (
            DrawingLine(text="20230 D sd_llc_shared"),
            DrawingLine(text=""),
            DrawingLine(text="20238 D sd_llc_id"),
        ),
        (
            DrawingLine(text="20230 D sd_llc_shared"),
            DrawingLine(text="------------- 64 B cacheline boundary", tone="muted"),
            DrawingLine(text="20244 D sd_llc_id  <- moved", tone="warning"),
        ),
    ),
)


def test_a_drawing_stands_side_by_side() -> None:
    assert draw_blocks(DRAWING) == [
        "  per-CPU section",
        "  base: tip                              new: cluster",
        "  20230 D sd_llc_shared                  20230 D sd_llc_shared",
        "                                         ------------- 64 B cacheline boundary",
        "  20238 D sd_llc_id                      20244 D sd_llc_id  <- moved",
    ]


def test_columns_that_have_no_room_beside_the_others_go_below_them() -> None:
    third = (DrawingLine(text=""), DrawingLine(text=""), DrawingLine(text="20240 D sd_llc_id"))
    drawing = Drawing(
        caption="per-CPU section",
        titles=(*DRAWING.titles, "new2: align_first"),
        columns=(*DRAWING.columns, third),
    )
    assert draw_blocks(drawing)[:5] == draw_blocks(DRAWING)
    assert draw_blocks(drawing)[5:] == ["", "  new2: align_first", "  20240 D sd_llc_id"]
    beside = draw_blocks(drawing, width=120)
    assert beside[1].split("  ")[-1] == "new2: align_first"
    assert len(beside) == 5


def test_a_drawing_of_one_column_has_the_whole_width() -> None:
    drawing = Drawing(caption="c", titles=("tip",), columns=(DRAWING.columns[1],))
    assert draw_blocks(drawing)[3] == "  " + "-" * 52 + " 64 B cacheline boundary"


def test_a_drawing_is_stacked_where_columns_have_no_room() -> None:
    assert draw_blocks(DRAWING, width=60) == [
        "  per-CPU section",
        "  base: tip",
        "  20230 D sd_llc_shared",
        "  20238 D sd_llc_id",
        "",
        "  new: cluster",
        "  20230 D sd_llc_shared",
        "  " + "-" * 34 + " 64 B cacheline boundary",
        "  20244 D sd_llc_id  <- moved",
    ]


def test_a_name_too_long_for_its_column_keeps_its_end_and_its_mark() -> None:
    drawing = Drawing(
        caption="c",
        titles=("base", "new"),
        columns=(
            (DrawingLine(text=f"20238 D {'x' * 90}.tail"),),
            (DrawingLine(text=f"20238 D {'x' * 90}.tail  <- moved"),),
        ),
    )
    assert draw_blocks(drawing)[2] == (
        f"  20238 D {'x' * 10}…{'x' * 13}.tail  20238 D xxxxx…{'x' * 8}.tail  <- moved"
    )


def test_a_mark_that_leaves_no_room_for_a_name_is_cut() -> None:
    drawing = Drawing(
        caption="c",
        titles=("base",),
        columns=((DrawingLine(text=f"1 a  <- {'y' * 200}"),),),
    )
    assert draw_blocks(drawing)[2] == f"  1 a  <- {'y' * 67}…"


def test_items_are_numbered_and_name_their_evidence() -> None:
    items = Items(
        items=(
            Item(text="first", detail="5+5 runs", evidence=("Counters", "Counters")),
            Item(text="second", evidence=("Benchmarks",)),
            Item(text="third"),
        ),
        ordered=True,
        limit=2,
    )
    assert draw_blocks(items) == [
        "  1. first",
        "     5+5 runs; see Counters",
        "  2. second [see Benchmarks]",
        "  … 1 more, see --html or --json",
    ]


def test_a_section_of_one_paragraph_is_one_line() -> None:
    one = write_text(
        draw_section([Text(text="not analysed")], "Counters", 78, see="--json"), 78, colour=False
    )
    assert one == "Counters: not analysed\n"
    blocks = [Text(text="one"), Text(text="two")]
    two = write_text(draw_section(blocks, "Counters", 78, see="--json"), 78, colour=False)
    assert two == "Counters\n  one\n  two\n"


def test_a_chart_leaves_no_gap() -> None:
    chart = Chart(caption="intervals", sides=(), panels=())
    assert draw_blocks(Text(text="one"), chart, Text(text="two")) == ["  one", "  two"]


def test_sides_of_a_stacked_drawing_are_below_each_other_without_the_gaps() -> None:
    rule = DrawingLine(text="--- 64 B cacheline boundary")
    columns = (
        (DrawingLine(text="0 d first"), DrawingLine(text=""), rule, DrawingLine(text="40 D x")),
        (DrawingLine(text="0 d first"), DrawingLine(text="8 D x"), *[DrawingLine(text="")] * 2),
    )
    drawing = Drawing(caption="c", titles=("tip", "new"), columns=columns, stacked=True)
    lines = draw_blocks(drawing, width=200)
    assert [line.strip() for line in lines if "boundary" not in line] == [
        "c", "tip", "0 d first", "40 D x", "", "new", "0 d first", "8 D x",
    ]  # fmt: skip
    [boundary] = [line for line in lines if "boundary" in line]
    assert len(boundary) < 80
    assert draw_blocks(replace(drawing, stacked=False))[1].split() == ["tip", "new"]


def per_table(*denominators: str) -> Table:
    """Return rates in this order, with names of 45 letters."""
    rows = tuple(
        (Cell(text=f"{number}{'x' * 44}"), Cell(text=per), Cell(text="12.68"))
        for number, per in enumerate(denominators)
    )
    columns = (
        Column(title="event"),
        Column(title="per", priority=2, as_heading=True),
        Column(title="base", align="right"),
    )
    return Table(caption="events", columns=columns, rows=rows)


def test_a_denominator_without_room_is_a_heading_over_its_rows() -> None:
    table = per_table("message", "second", "message")
    drawn = draw_blocks(table, width=60)
    assert drawn[1].split() == ["event", "base"]
    assert [line.split()[0][0] if "x" in line else line.strip() for line in drawn[2:]] == [
        "per: message", "0", "2", "per: second", "1"
    ]  # fmt: skip
    assert draw_blocks(table, width=78)[1].split() == ["event", "per", "base"]


def test_notes_stay_below_the_rows_that_they_are_about() -> None:
    table = per_table("message", "second", "message")
    note = (Cell(text="  a note", tone="muted"), Cell(text=""), Cell(text=""))
    first, *others = table.rows
    drawn = draw_blocks(replace(table, rows=(first, note, *others)), width=60)
    assert [line.strip() for line in drawn[2:] if "x" not in line] == [
        "per: message", "a note", "per: second", "per: message"
    ]  # fmt: skip


@pytest.mark.parametrize("width", [40, 78])
def test_a_column_without_any_value_is_no_statement(width: int) -> None:
    rows = tuple((Cell(text=name * 30), Cell(text="-")) for name in "ab")
    columns = (Column(title="line"), Column(title="per operation", align="right", priority=2))
    drawn = "\n".join(draw_blocks(Table(caption="lines", columns=columns, rows=rows), width=width))
    assert "in all rows" not in drawn
    assert "not shown" not in drawn
