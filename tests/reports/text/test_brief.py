# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen of a text: what is left out of it, and how that is said."""

import shlex
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Drawing,
    Headline,
    Item,
    Items,
    Table,
    Text,
    Tone,
)
from schedperf_reports.graphics.chart import Chart
from schedperf_reports.text.brief import MOST_ROWS, shorten
from schedperf_reports.text.terminal import draw_section, write_text


def make_table(*rows: tuple[str, ...], **changes: Any) -> Table:
    """Make a table of results: name, unit, n, verdict; a row of one text is a heading or a note."""
    columns = (
        Column(title="result"),
        Column(title="unit", priority=1),
        Column(title="n", priority=2),
        Column(title="verdict"),
        Column(title="q", priority=REFERENCE_PRIORITY),
    )
    tones: dict[str, Tone] = {"regression": "bad", "improvement": "good"}

    def make_row(texts: tuple[str, ...]) -> tuple[Cell, ...]:
        if len(texts) == 1:
            tone: Tone = "muted" if texts[0].startswith("    ") else "strong"
            return (Cell(text=texts[0], tone=tone), *(Cell(text=""),) * 4)
        name, verdict = texts
        tone = tones.get(verdict, "plain")
        return tuple(Cell(text=one, tone=tone) for one in (name, "v s", "5+5", verdict, "0.01"))

    return Table(
        caption="results", columns=columns, rows=tuple(map(make_row, rows)), brief=True, **changes
    )


def draw_brief(*blocks: Block) -> list[str]:
    drawn = draw_section(shorten(blocks, see="--all"), None, 78, see="--all", is_dense=True)
    return write_text(drawn, 78, colour=False).splitlines()


def test_the_first_screen_has_only_what_is_marked_for_it() -> None:
    blocks = (
        Headline(word="regression", text="slower"),
        Text(text="shown", brief=True),
        Text(text="left out"),
        Items(items=(Item(text="left out"),)),
        Table(caption="left out", columns=(Column(title="a"),), rows=()),
        Drawing(caption="left out", titles=(), columns=()),
        Chart(caption="left out", sides=(), panels=()),
    )
    assert draw_brief(*blocks) == ["regression: slower", "  shown"]


def test_the_first_screen_has_the_first_items_each_in_one_paragraph() -> None:
    items = (
        Item(text="one", detail="5+5 runs; correlated", evidence=("Cache lines",)),
        Item(text="two"),
        Item(text="three"),
    )
    assert draw_brief(Items(items=items, ordered=True, brief=2)) == [
        "  1. one (5+5 runs; correlated) [see Cache lines]",
        "  2. two",
        "  … 1 more, see --all",
    ]


def test_warnings_stand_first_and_what_is_harmless_is_not_counted() -> None:
    items = (
        Item(text="the sides took turns"),
        Item(text="one boot a side", tone="warning"),
        Item(text="the same build"),
        Item(text="frequencies differ", tone="bad"),
    )
    assert draw_brief(Items(items=items, brief=2)) == [
        "  - one boot a side",
        "  - frequencies differ",
    ]
    assert draw_brief(Items(items=items, brief=3))[2:] == ["  - the sides took turns"]
    assert draw_brief(Items(items=items, brief=1)) == [
        "  - one boot a side",
        "  … 1 more, see --all",
    ]


def test_of_what_is_not_ranked_only_what_forbids_a_comparison_has_its_remark() -> None:
    items = (
        Item(text="frequencies differ", detail="or allow it: --allow cpu.mhz", tone="bad"),
        Item(text="one boot a side", detail="another may differ", tone="warning"),
    )
    assert draw_brief(Items(items=items, brief=2)) == [
        "  - frequencies differ (or allow it: --allow cpu.mhz)",
        "  - one boot a side",
    ]


def test_reasons_are_in_their_short_form() -> None:
    claim = "softirqs SCHED per message, +34.0% (95% CI [+16.0%, +54.0%]): softirqs of this kind"
    short = "softirqs SCHED per message, +34.0% (95% CI [+16.0%, +54.0%])"
    items = (
        Item(text=claim, short=Item(text=short), detail="8 pairs", evidence=("Counters",)),
    ) * 4
    drawn = draw_brief(Items(items=items, ordered=True, brief=3))
    assert drawn[-2:] == [f"  3. {short}", "  … 1 more, see --all"]


def test_details_of_the_reason_above_are_not_repeated() -> None:
    items = tuple(
        Item(text=text, detail="1 build per side", evidence=("Cache lines",))
        for text in ("a left the line", "b is on 2 lines")
    )
    assert draw_brief(Items(items=items, ordered=True, brief=2)) == [
        "  1. a left the line (1 build per side) [see Cache lines]",
        "  2. b is on 2 lines",
    ]
    other = Item(text="c (8 bytes)", detail="5+5 runs", evidence=("Counters",))
    assert draw_brief(Items(items=(items[0], other), ordered=True, brief=2))[1:] == [
        "  2. c (8 bytes) (5+5 runs) [see Counters]",
    ]


def test_an_item_is_in_its_short_form() -> None:
    short = Item(text="2 boots per side: too few")
    long = Item(text="2 boots per side: too few; more text", short=short)
    plain = Item(text="one boot per side")
    assert draw_brief(Items(items=(long, plain), brief=2))[-2:] == [
        "  - 2 boots per side: too few",
        "  - one boot per side",
    ]


def test_a_heading_over_one_remark_is_the_beginning_of_its_line() -> None:
    heading = Text(text="not measured", tone="strong", brief=True)
    one, two = (Item(text=text, tone="warning") for text in ("the profile is blind", "no PMU"))
    assert draw_brief(heading, Items(items=(one,), brief=1)) == [
        "  not measured: the profile is blind"
    ]
    assert draw_brief(heading, Items(items=(one, two), brief=2)) == [
        "  not measured",
        "  - the profile is blind",
        "  - no PMU",
    ]
    assert draw_brief(heading, Text(text="next", brief=True)) == ["  not measured", "  next"]
    assert draw_brief(heading) == ["  not measured"]


def make_remarks(prefix: str, number: int, tone: Tone = "plain") -> Items:
    items = tuple(Item(text=f"{prefix} {place}", tone=tone) for place in range(number))
    return Items(items=items, brief=number)


def test_a_section_has_room_for_three_remarks_and_counts_the_others_at_its_end() -> None:
    comparable = Text(text="comparable: yes", brief=True)
    blocks = (make_remarks("caveat", 2, "warning"), comparable, make_remarks("difference", 3))
    assert draw_brief(*blocks) == [
        "  - caveat 0",
        "  - caveat 1",
        "  comparable: yes",
        "  - difference 0",
        "  … 2 more, see --all",
    ]


def test_a_fourth_remark_takes_the_line_that_would_count_it() -> None:
    assert draw_brief(make_remarks("caveat", 4))[-1] == "  - caveat 3"
    assert draw_brief(make_remarks("caveat", 5))[-1] == "  … 2 more, see --all"


def test_what_forbids_a_comparison_and_what_stands_with_the_verdict_has_always_room() -> None:
    assert len(draw_brief(make_remarks("blocks", 9, "bad"))) == 9
    headline = Headline(word="regression", text="of 9 sides")
    assert len(draw_brief(headline, make_remarks("side", 9))) == 10


def test_a_reader_who_cannot_ask_for_more_is_not_told_how() -> None:
    rows = [(f"test {number}", "no-change") for number in range(58)]
    blocks = shorten([make_table(*rows, quiet=(True,) * 58)], see="")
    assert list(blocks) == [Text(text="results: 58 unchanged", tone="muted")]


def test_only_what_is_ranked_says_where_it_is_proved() -> None:
    items = (Item(text="one boot a side", evidence=("Caveats",)),)
    assert draw_brief(Items(items=items, brief=1)) == ["  - one boot a side"]


def test_the_first_step_has_its_commands_and_the_others_are_one_line() -> None:
    commands = ("schedperf doctor", "schedperf ab")
    steps = tuple(
        Item(
            text=f"step {number}: on bare metal, or in a guest",
            short=Item(text=f"step {number}", commands=commands),
            detail="why",
            commands=commands,
        )
        for number in (1, 2)
    )
    first, *others = draw_brief(Items(items=(steps[0], *steps[1:] * 2), ordered=True, brief=2))
    assert first == "  1. step 1"
    assert others == [
        "  schedperf doctor",
        "  schedperf ab",
        "  2. step 2",
        "  … 1 more, see --all",
    ]


@pytest.mark.parametrize(("see", "hint"), [("--all", ", see --all"), ("", "")])
def test_further_commands_of_a_step_are_counted_in_what_a_shell_takes_for_a_comment(
    see: str, hint: str
) -> None:
    def shown(*commands: str) -> tuple[str, ...]:
        step = Item(text="x", commands=commands)
        [block] = shorten([Items(items=(step,), ordered=True, brief=1)], see=see)
        assert isinstance(block, Items)
        return block.items[0].commands

    assert shown("a", "b", "c") == ("a", "b", "c")
    assert shown("a", "b", "c", "d") == ("a", "b", f"# … 2 more commands{hint}")
    assert shlex.split(shown("a", "b", "c", "d", "e")[-1], comments=True) == []


def test_quiet_rows_are_counted_and_what_all_rows_share_is_said_once() -> None:
    rows = [(f"test {number}", "no-change") for number in range(4)]
    table = make_table(
        ("a", "regression"), *rows, ("b", "inconclusive"), quiet=(False, *(True,) * 4, False)
    )
    assert draw_brief(table) == [
        "  results; in all rows: unit v s, n 5+5",
        "  result  verdict",
        "  a       regression",
        "  b       inconclusive",
        "  4 more unchanged (list: --all)",
    ]


def test_a_column_without_a_value_in_any_row_is_no_statement() -> None:
    table = make_table(("a", "regression"), ("b", "inconclusive"))
    rows = tuple((row[0], Cell(text="-"), *row[2:]) for row in table.rows)
    assert draw_brief(replace(table, rows=rows))[0] == "  results; in all rows: n 5+5"


def test_the_unit_of_one_result_is_not_that_of_a_count() -> None:
    table = make_table(("a", "regression"), ("b", "regression"), ("mean", "-"))
    no_unit, mean = list(table.rows[1]), list(table.rows[2])
    no_unit[1] = mean[1] = mean[2] = Cell(text="")
    table = replace(table, rows=(table.rows[0], tuple(no_unit), tuple(mean)))
    assert draw_brief(table) == [
        "  results; in all rows: n 5+5",
        "  result  unit  verdict",
        "  a       v s   regression",
        "  b             regression",
        "  mean          -",
    ]


def test_a_quiet_mean_of_results_is_hidden_with_them_and_not_counted() -> None:
    rows = [(f"test {number}", "no-change") for number in range(3)]
    details = (*(((Text(text="runs"),),) * 3), (), (Text(text="runs"),))
    table = make_table(
        *rows, ("geomean", "-"), ("b", "regression"), quiet=(*(True,) * 4, False), details=details
    )
    assert draw_brief(table)[2:] == [
        "  b       v s   5+5  regression",
        "  3 more unchanged (list: --all)",
    ]


def test_a_few_quiet_rows_are_shown_because_counting_them_takes_a_line_too() -> None:
    table = make_table(("a", "regression"), ("b", "no-change"), quiet=(False, True))
    assert draw_brief(table)[-2:] == ["  a       regression", "  b       no-change"]


def test_where_all_rows_are_quiet_one_line_says_so() -> None:
    rows = [(f"test {number}", "no-change") for number in range(58)]
    assert draw_brief(make_table(*rows, quiet=(True,) * 58)) == [
        "  results: 58 unchanged (list: --all)"
    ]


def test_a_heading_goes_with_its_rows_and_notes_with_theirs() -> None:
    rows = [
        ("hackbench",),
        *((f"  groups={number}", "no-change") for number in (1, 2, 3)),
        ("    needs more runs",),
        ("tbench", "regression"),
        ("schbench",),
        ("  workers=4", "inconclusive"),
        ("    needs 6 more runs",),
    ]
    quiet = (False, True, True, True, False, False, False, False, False)
    assert draw_brief(make_table(*rows, quiet=quiet))[2:] == [
        "  tbench       regression",
        "  schbench",
        "    workers=4  inconclusive",
        "      needs 6 more runs",
        "  3 more unchanged (list: --all)",
    ]


def test_of_more_rows_than_a_screen_has_room_for_the_bad_ones_stay_in_their_order() -> None:
    rows = [(f"test {number}", "inconclusive") for number in range(20)]
    rows[17], rows[3] = ("late", "regression"), ("early", "improvement")
    drawn = draw_brief(make_table(*rows))
    names = [line.split("  ")[1] for line in drawn[2:-1]]
    assert names[3] == "early"
    assert names[-1] == "late"
    assert len(names) == MOST_ROWS
    assert drawn[-1] == "  8 more (list: --all)"


def test_the_mean_of_all_results_has_always_room() -> None:
    results = [(f"test {number}", "regression") for number in range(MOST_ROWS + 3)]
    details = (*(((Text(text="runs"),),) * len(results)), ())
    drawn = draw_brief(make_table(*results, ("geomean of all", "-"), details=details))
    assert drawn[-3].split() == ["test", str(MOST_ROWS - 2), "regression"]
    assert drawn[-2].split() == ["geomean", "of", "all", "-"]
    assert drawn[-1] == "  4 more (list: --all)"
