# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables as markup: what stands on the page before any script runs."""

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from schedperf_reports.blocks import Cell, Column, Table, Text

COLUMNS = (
    Column(title="result"),
    Column(title="change", align="right", explains="new vs base"),
)

HOSTILE = (
    "<b onclick='window.pwned = 1'>\"' {{7*7}}</td></tr></table><script>window.pwned = 1</script>"
)


class Tags(HTMLParser):
    """The start tags of a page with their attributes, in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, {name: value or "" for name, value in attrs}))

    def rows(self) -> list[dict[str, str]]:
        return [found for tag, found in self.all if tag == "tr"][1:]

    def find(self, tag: str, css_class: str) -> list[dict[str, str]]:
        return [
            found
            for name, found in self.all
            if name == tag and css_class in found.get("class", "").split()
        ]


def make_row(name: str, change: str = "-", sort: float | None = None) -> tuple[Cell, ...]:
    return Cell(text=name), Cell(text=change, sort=sort)


def make_spanning(text: str, *, is_note: bool = False) -> tuple[Cell, ...]:
    return Cell(text=text, tone="warning" if is_note else "strong"), Cell(text="")


def make_table(*rows: tuple[Cell, ...], **changes: object) -> Table:
    values: dict[str, object] = {"caption": "61 results", "columns": COLUMNS, "rows": rows}
    return Table(**values | changes)  # type: ignore[arg-type] # each value has its field's type


def test_a_row_says_its_number_and_a_cell_what_it_is_sorted_by(draw: Callable[..., str]) -> None:
    text = draw(make_table(make_row("a", "1.6 ms", 0.0016), make_row("b", "2 ms")))
    tags = Tags(text)
    assert [row["data-row"] for row in tags.rows()] == ["0", "1"]
    assert [cell.get("data-sort") for cell in tags.find("td", "number")] == ["0.0016", None]


def test_quiet_rows_are_marked_and_not_hidden(draw: Callable[..., str]) -> None:
    table = make_table(make_row("a"), make_row("b"), quiet=(True, False), quiet_word="unmoved")
    tags = Tags(draw(table))
    assert [row.get("class") for row in tags.rows()] == ["quiet", None]
    assert not any("hidden" in found for _, found in tags.all)
    assert tags.find("div", "table")[0]["data-quiet-word"] == "unmoved"


def test_what_a_row_opens_to_is_folded_below_its_notes(draw: Callable[..., str]) -> None:
    table = make_table(
        make_spanning("hackbench"),
        make_row("a"),
        make_spanning("new is noisier", is_note=True),
        make_row("b"),
        make_row("c"),
        details=((), (Text(text="runs of a"),), (), (), (make_table(make_row("run 1")),)),
    )
    tags = Tags(draw(table))
    classes = [row.get("class", "") for row in tags.rows() if row.get("data-row") or row.get("id")]
    assert classes[:7] == ["heading", "noted", "note", "opened", "", "", "opened"]
    ids = [row["id"] for row in tags.find("tr", "opened")]
    assert ids == ["table-benchmarks-0-1", "table-benchmarks-0-4"]


@pytest.mark.parametrize(("rows", "state"), [(7, None), (8, "t.benchmarks-0-0-0")])
def test_a_short_table_in_a_row_is_only_read(
    draw: Callable[..., str], rows: int, state: str | None
) -> None:
    inner = make_table(*(make_row(f"run {number}") for number in range(rows)))
    tags = Tags(draw(make_table(make_row("a"), details=((inner,),))))
    states = [found.get("data-state") for found in tags.find("div", "table")]
    assert states == ["t.benchmarks-0", state]


def test_each_folded_row_says_whose_it_is(draw: Callable[..., str]) -> None:
    text = draw(make_table(make_row("hackbench time"), details=((Text(text="runs"),),)))
    assert "<details><summary>more on hackbench time</summary>" in text


def test_a_row_without_details_folds_nothing(draw: Callable[..., str]) -> None:
    assert "opened" not in draw(make_table(make_row("a")))
    assert "opened" not in draw(make_table(make_row("a"), details=((),)))


def test_what_a_column_says_stands_below_the_table(draw: Callable[..., str]) -> None:
    text = draw(make_table(make_row("a")))
    assert re.search(r"<dt>change</dt><dd>new vs base</dd>", text)


def test_columns_that_need_no_words_have_none(draw: Callable[..., str]) -> None:
    assert "explained" not in draw(make_table(make_row("a"), columns=(COLUMNS[0], COLUMNS[0])))


def test_a_reference_table_is_named_by_what_unfolds_it(draw: Callable[..., str]) -> None:
    tags = Tags(draw(make_table(make_row("a"), limit=0)))
    (table,) = [found for tag, found in tags.all if tag == "table"]
    (summary,) = [found for tag, found in tags.all if tag == "summary" and "id" in found]
    assert table["aria-labelledby"] == summary["id"]


def test_long_tables_scroll_below_their_head(draw: Callable[..., str]) -> None:
    short, tall = (Tags(draw(make_table(*[make_row("a")] * count))) for count in (40, 41))
    assert not short.find("div", "tall")
    assert tall.find("div", "tall")
    assert tall.find("div", "scroll")[0]["tabindex"] == "0"


def test_texts_of_strangers_are_texts(draw: Callable[..., str]) -> None:
    table = make_table(
        make_spanning(HOSTILE),
        make_row(HOSTILE, HOSTILE),
        make_spanning(HOSTILE, is_note=True),
        caption=HOSTILE,
        columns=(Column(title=HOSTILE, explains=HOSTILE), Column(title=HOSTILE)),
        quiet=(False, True, False),
        quiet_word=HOSTILE,
        details=((), (Text(text=HOSTILE),), ()),
    )
    tags = Tags(draw(table))
    assert not {"b", "script"} & {tag for tag, _ in tags.all}
    assert not any("onclick" in found for _, found in tags.all)
    assert len(tags.rows()) == 4


def test_a_corner_without_a_title_is_no_header(draw: Callable[..., str]) -> None:
    columns = (Column(title=""), COLUMNS[1])
    tags = Tags(draw(make_table(make_row("a"), columns=columns)))
    assert len([found for tag, found in tags.all if found.get("scope") == "col"]) == 1
