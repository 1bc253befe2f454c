"""The first screen of a text: what is left out of it, and how that is said."""

from typing import Any

from schedperf_reports._brief import COMMAND_CHARACTERS, LONGEST_DETAIL, MOST_ROWS, shorten
from schedperf_reports._terminal import draw_section, write_text
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Drawing,
    Figure,
    Headline,
    Item,
    Items,
    Table,
    Text,
    Tone,
)


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
        Figure(caption="left out", figure={}, height=1),
    )
    assert draw_brief(*blocks) == ["regression: slower", "  shown"]


def test_the_first_screen_has_the_first_items_each_in_one_paragraph() -> None:
    items = (
        Item(text="one", detail="5+5 runs; co-occurs", evidence=("Cache lines",)),
        Item(text="two"),
        Item(text="three"),
    )
    assert draw_brief(Items(items=items, ordered=True, brief=2)) == [
        "  1. one (5+5 runs; co-occurs) [see Cache lines]",
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


def test_long_remarks_are_on_the_first_reason_and_on_what_forbids_only() -> None:
    long = "d" * (LONGEST_DETAIL + 1)
    items = (Item(text="one", detail=long), Item(text="two", detail=long), Item(text="three"))

    def has_remark(items: tuple[Item, ...], *, ordered: bool) -> list[bool]:
        [block] = shorten([Items(items=items, ordered=ordered, brief=3)], see="--all")
        assert isinstance(block, Items)
        return [long in item.text for item in block.items]

    assert has_remark(items, ordered=True) == [True, False, False]
    assert has_remark(items, ordered=False) == [False, False, False]
    assert has_remark((Item(text="one", detail=long, tone="bad"),), ordered=False) == [True]


def test_a_reader_who_cannot_ask_for_more_is_not_told_how() -> None:
    rows = [(f"test {number}", "no-change") for number in range(58)]
    blocks = shorten([make_table(*rows, quiet=(True,) * 58)], see="")
    assert list(blocks) == [Text(text="results: 58 unchanged", tone="muted")]


def test_only_what_is_ranked_says_where_it_is_proved() -> None:
    items = (Item(text="one boot a side", evidence=("Caveats",)),)
    assert draw_brief(Items(items=items, brief=1)) == ["  - one boot a side"]


def test_the_commands_of_the_first_item_are_shown_and_others_while_there_is_room() -> None:
    def draw(*lengths: int) -> list[str]:
        items = tuple(Item(text="x", commands=("c" * length,)) for length in lengths)
        return draw_brief(Items(items=items, ordered=True, brief=3))

    def commands(*lengths: int) -> list[int]:
        return [len(line.strip()) for line in draw(*lengths) if "c" in line]

    assert commands(50, 60, 70) == [50, 60, 70]
    assert commands(COMMAND_CHARACTERS - 10, 20, 5) == [COMMAND_CHARACTERS - 10]
    assert commands(2 * COMMAND_CHARACTERS, 20) == [2 * COMMAND_CHARACTERS]


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
