import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from schedperf.model import Comparison, Overall, Row
from schedperf_reports._terminal import choose_columns, draw_section, write_text
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Drawing,
    DrawingLine,
    Figure,
    Item,
    Items,
    Table,
    Text,
)
from schedperf_reports.formats import Options
from schedperf_reports.formats.text import text
from schedperf_reports.sections import all_report_sections

Make = Callable[..., Comparison]

COLOUR_CODES = re.compile(r"\x1b\[[0-9;]*m")
BOX_DRAWING = re.compile("[\u2500-\u257f]")


def draw(
    comparison: Comparison, width: int = 78, *, colour: bool = False, everything: bool = False
) -> str:
    return text(comparison, Options(width=width, colour=colour, everything=everything))


def draw_blocks(*blocks: Block, width: int = 78) -> list[str]:
    return write_text(
        draw_section(blocks, None, width, see="--html or --json"), width, colour=False
    ).splitlines()


def test_piped_report_is_as_blessed(
    make_comparison: Make, golden: Callable[[str, str, str], None]
) -> None:
    golden("text", "regression", draw(make_comparison()))


def test_whole_report_is_as_blessed(
    make_comparison: Make, golden: Callable[[str, str, str], None]
) -> None:
    golden("text", "regression-all", draw(make_comparison(), everything=True))


def test_narrow_report_is_as_blessed(
    make_comparison: Make, golden: Callable[[str, str, str], None]
) -> None:
    golden("text", "regression-60-columns", draw(make_comparison(), 60))


def test_the_verdict_is_the_first_line_and_the_exit_status_the_last(make_comparison: Make) -> None:
    lines = draw(make_comparison()).splitlines()
    assert lines[0].startswith("regression (")
    assert "hackbench time at groups=4 is 37.2 % longer" in " ".join(lines[:3])
    assert lines[-1] == "overall: regression, exit status 1"


def test_an_inconclusive_report_names_the_strict_exit_status(make_comparison: Make) -> None:
    overall = Overall(verdict="inconclusive", reason="no results", exit_status=0)
    lines = draw(make_comparison(overall=overall, rows=(), sweeps=())).splitlines()
    assert lines[0].startswith("inconclusive: ")
    assert lines[0].endswith("no results")
    assert lines[-1] == "overall: inconclusive, exit status 0 (3 with --strict)"


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("width", [40, 60, 70, 78, 100, 200])
def test_no_line_is_wider_than_the_terminal(
    make_comparison: Make, width: int, *, everything: bool
) -> None:
    drawn = draw(make_comparison(), width, everything=everything)
    assert max(map(cell_len, drawn.splitlines())) <= width


def test_a_terminal_that_is_narrower_than_40_columns_gets_40(make_comparison: Make) -> None:
    assert draw(make_comparison(), 10) == draw(make_comparison(), 40)


@pytest.mark.parametrize("width", [60, 78, 200])
def test_hostile_texts_change_no_width_and_drive_no_terminal(
    make_comparison: Make, replace_texts: Callable[[Comparison, str], Comparison], width: int
) -> None:
    hostile = "\x1b]0;pwned\x07\u202e[red]x[/red]\r\n" + "a b " * 2500 + "c" * 5000
    hostiles = replace_texts(make_comparison(), hostile)
    drawn = draw(hostiles, width) + draw(hostiles, width, everything=True)
    assert max(map(cell_len, drawn.splitlines())) <= width
    assert not set(drawn) & set("\x1b\x07\r\u202e")
    assert "[red]x[/red]" in drawn


def test_colour_adds_codes_and_changes_no_text(make_comparison: Make) -> None:
    plain, coloured = (draw(make_comparison(), colour=colour) for colour in (False, True))
    assert "\x1b" not in plain
    assert "\x1b" in coloured
    stripped = [line.rstrip() for line in COLOUR_CODES.sub("", coloured).splitlines()]
    assert stripped == plain.splitlines()


def test_piped_output_has_no_box_drawing(make_comparison: Make) -> None:
    assert not BOX_DRAWING.search(draw(make_comparison(), everything=True))


def test_undecided_rows_say_why(make_comparison: Make) -> None:
    lines = " ".join(draw(make_comparison(), everything=True).split())
    assert "hackbench time at groups=16: inconclusive: no significant change, and not" in lines


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
    assert draw_blocks(other, width=32)[-1] == "  left out at this width: share"


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
    assert draw_blocks(table, width=38)[-1] == "  left out at this width: share"
    assert not any("left out" in line for line in draw_blocks(table, width=64))


def test_numbers_are_never_cut() -> None:
    columns = [Column(title="command"), Column(title="value", align="right")]
    rows = [[Cell(text="a long command " * 9), Cell(text="123456.789")]]
    assert choose_columns(columns, rows, 40) == {0: 28, 1: 10}


def test_a_heading_row_may_be_wider_than_its_column() -> None:
    table = Table(
        caption="results",
        columns=(Column(title="point"), Column(title="change", align="right")),
        rows=(
            (Cell(text="perf bench sched messaging"), Cell(text="")),
            (Cell(text="  groups=1"), Cell(text="+1.0 %")),
        ),
    )
    assert draw_blocks(table)[2:] == ["  perf bench sched messaging", "    groups=1  +1.0 %"]


def test_a_note_is_wrapped_below_its_own_first_word() -> None:
    columns = (Column(title="point"), Column(title="change", align="right"))
    row = (Cell(text="  groups=1"), Cell(text="+1.0 %"))
    note = (Cell(text="    two modes: 3 of 8 runs were slow", tone="warning"), Cell(text=""))
    table = Table(caption="results", columns=columns, rows=(row, note))
    assert draw_blocks(table, width=30)[2:] == [
        "    groups=1  +1.0 %",
        "      two modes: 3 of 8 runs",
        "      were slow",
    ]


def test_a_note_that_begins_with_very_many_blanks_stays_on_the_line() -> None:
    note = (Cell(text=" " * 200 + "word", tone="muted"), Cell(text=""))
    columns = (Column(title="a"), Column(title="b"))
    drawn = draw_blocks(Table(caption="c", columns=columns, rows=(note,)), width=30)
    assert drawn[-1] == " " * 10 + "word"


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


def test_evidence_is_named_as_its_section_is_headed(make_comparison: Make) -> None:
    lines = " ".join(draw(make_comparison(), everything=True).split())
    assert "not shown to cause the change; see Cache lines 2. hackbench" in lines


def test_a_section_of_one_paragraph_is_one_line() -> None:
    one = write_text(
        draw_section([Text(text="not analysed")], "Counters", 78, see="--json"), 78, colour=False
    )
    assert one == "Counters: not analysed\n"
    blocks = [Text(text="one"), Text(text="two")]
    two = write_text(draw_section(blocks, "Counters", 78, see="--json"), 78, colour=False)
    assert two == "Counters\n  one\n  two\n"


def test_a_figure_leaves_no_gap() -> None:
    figure = Figure(caption="intervals", figure={"data": [], "layout": {}}, height=100)
    assert draw_blocks(Text(text="one"), figure, Text(text="two")) == ["  one", "  two"]


def test_the_environment_has_no_second_opinion_on_colour(
    make_comparison: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: dict[bool, Any] = {
        colour: draw(make_comparison(), colour=colour) for colour in (False, True)
    }
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "33")
    assert draw(make_comparison()) == wanted[False]
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("NO_COLOR", "1")
    assert draw(make_comparison(), colour=True) == wanted[True]


def test_the_first_screen_of_a_large_comparison_is_one_screen(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    verdicts = ["regression", "inconclusive", *["no-change"] * 59]
    rows = tuple(
        make_row(metric=f"test {number} time", point="", verdict=verdict, reason="why")
        for number, verdict in enumerate(verdicts)
    )
    lines = draw(make_comparison(rows=rows, sweeps=())).splitlines()
    assert len(lines) <= 45
    assert any("59 more unchanged (list: --all)" in line for line in lines)
    assert lines[-2] == "everything: --all; as a page with charts: --html FILE"
    everything = draw(make_comparison(rows=rows, sweeps=()), everything=True)
    assert len(everything.splitlines()) > len(lines)
    assert "test 33 time" in everything
    assert "test 33 time" not in "\n".join(lines)


def test_everything_cuts_nothing_and_names_what_a_text_has_not(make_comparison: Make) -> None:
    drawn = draw(make_comparison(), everything=True)
    assert " more, see " not in drawn
    assert drawn.splitlines()[-2] == (
        "not in this text: charts, tables and columns that are only named: --html FILE"
    )


@pytest.mark.parametrize("everything", [False, True])
def test_no_evidence_is_named_as_an_anchor(make_comparison: Make, *, everything: bool) -> None:
    comparison = make_comparison()
    absent = {
        name: replace(found, status="absent", reason="not recorded", data={})
        for name, found in comparison.sections.items()
    }
    drawn = draw(replace(comparison, sections=absent), everything=everything)
    assert "absent-" not in drawn
    assert ("not in this report]" in " ".join(drawn.split())) == everything


def test_why_and_what_next_stand_behind_the_results(make_comparison: Make) -> None:
    titles = {section.name: section.title for section in all_report_sections()}
    lines = draw(make_comparison()).splitlines()
    assert lines.index(titles["benchmarks"]) < lines.index(titles["findings"])
