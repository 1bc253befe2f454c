# SPDX-License-Identifier: GPL-2.0-or-later
"""The Markdown format: read by a parser of Markdown, it is tables and text, and nothing more."""

import re
from collections.abc import Callable, Iterator

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import (
    Block,
    Cell,
    Column,
    Drawing,
    DrawingLine,
    Headline,
    Item,
    Items,
    Table,
    Text,
)
from schedperf_reports.formats import Options
from schedperf_reports.formats.markdown import markdown
from schedperf_reports.text.markdown import code, draw_section, escape

Make = Callable[..., Comparison]

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])

# What GitHub makes a link of, wherever it stands outside of code.
ACTIVE = re.compile(r"@|://|www\.|#\d|:[a-z]+:|\$|\b[0-9a-f]{7,40}\b")
HARMLESS = {"text", "softbreak", "code_inline", "strong_open", "strong_close"}

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "![x](https://example.org/x.png)",
    "<https://example.org>",
    "https://example.org/a_b_c www.example.org mailto:a@example.org",
    "@torvalds and a@example.org, torvalds/linux#1, #12, GH-12, deadbeef1234",
    "| a | b |\n| --- | --- |",
    "``` ` `` x",
    "`@torvalds`",
    "a`@torvalds`b `x",
    "*a* _b_ **c** __d__ ~~e~~ \\*f\\*",
    "# heading",
    "- item",
    "1. item",
    "2) item",
    "> quotation",
    "---",
    "===",
    "&lt;b&gt; &#64;torvalds",
    "[^1] [x]: https://example.org",
    ":tada: $x$ $$y$$",
    "\\",
    "a|b\\|c",
    "@a|b\\|c",
    "\u202ertl\x1b[31m",
)


def draw(*blocks: Block, title: str | None = None) -> str:
    return "\n\n".join(draw_section(blocks, title))


def inline_tokens(text: str) -> Iterator[Token]:
    for token in PARSER.parse(text):
        yield from token.children or ()


def shown(text: str) -> str:
    """Return what a reader sees of one paragraph."""
    return "".join(token.content for token in inline_tokens(text))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_text_of_strangers_is_shown_as_it_is_and_is_nothing_else(hostile: str) -> None:
    text = draw(Text(text=hostile))
    assert [token.type for token in PARSER.parse(text)] == [
        "paragraph_open", "inline", "paragraph_close",
    ]  # fmt: skip
    tokens = list(inline_tokens(text))
    assert {token.type for token in tokens} <= HARMLESS
    plain = re.sub("[\u202e\x1b]", "", hostile)
    assert shown(text).split() == plain.split()
    for token in tokens:
        if token.type == "text":
            assert not ACTIVE.search(token.content), token.content


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("is_code", [False, True])
def test_a_cell_stays_in_its_cell(hostile: str, *, is_code: bool) -> None:
    columns = (Column(title=hostile, code=is_code), Column(title="n", align="right"))
    row = (Cell(text=hostile), Cell(text="1"))
    tokens = PARSER.parse(draw(Table(caption=hostile, columns=columns, rows=(row,))))
    kinds = [token.type for token in tokens]
    assert kinds.count("th_open") == kinds.count("td_open") == 2
    assert kinds.count("tr_open") == 2
    cells = [tokens[place + 1] for place, kind in enumerate(kinds) if kind == "td_open"]
    assert {one.type for one in cells[0].children or ()} <= HARMLESS
    told = "".join(one.content for one in cells[0].children or ())
    assert told.split() == re.sub("[\u202e\x1b]", "", hostile).split()
    assert cells[1].content == "1"


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_drawing_ends_its_code_block(hostile: str) -> None:
    lines = (DrawingLine(text=hostile), DrawingLine(text="```"))
    [block] = PARSER.parse(draw(Drawing(caption="c", titles=("a",), columns=(lines,))))
    assert block.type == "fence"
    assert block.content.splitlines()[-1].strip() == "```"


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_text_of_the_record_is_alive(
    make_comparison: Make,
    replace_texts: Callable[[Comparison, str], Comparison],
    hostile: str,
    *,
    everything: bool,
) -> None:
    comparison = replace_texts(make_comparison(), hostile)
    text = markdown(comparison, Options(width=78, colour=False, everything=everything))
    blocks = PARSER.parse(text)
    assert not {"html_block", "blockquote_open", "hr", "code_block"} & {one.type for one in blocks}
    for token in inline_tokens(text):
        assert token.type in HARMLESS
        assert token.type != "text" or not ACTIVE.search(token.content), token.content


def test_a_table_has_its_caption_alignment_headings_and_notes_below() -> None:
    columns = (Column(title="result"), Column(title="change", align="right"))
    rows = (
        (Cell(text="hackbench time", tone="strong"), Cell(text="")),
        (Cell(text="  groups=4"), Cell(text="+37.2%")),
        (Cell(text="    needs 6 more runs", tone="muted"), Cell(text="")),
        (Cell(text="tbench"), Cell(text="-1.0%")),
        (Cell(text="left out"), Cell(text="")),
    )
    assert draw(Table(caption="results", columns=columns, rows=rows, limit=4)).splitlines() == [
        "**results**",
        "",
        "| result | change |",
        "| --- | ---: |",
        "| **hackbench time** |  |",
        "| groups=4 | +37.2% |",
        "| tbench | -1.0% |",
        "",
        "- hackbench time groups=4: needs 6 more runs",
        "- … 1 more",
    ]


def test_headlines_items_and_reference_tables() -> None:
    items = Items(
        items=(Item(text="one", detail="5+5 runs", evidence=("Cache lines",)), Item(text="two")),
        ordered=True,
        limit=1,
    )
    blocks = (
        Headline(word="regression", text="slower"),
        items,
        Table(caption="58 fields", columns=(), rows=(), limit=0),
    )
    assert draw(*blocks, title="Why").splitlines() == [
        "## Why",
        "",
        "# regression: slower",
        "",
        "1. one (5+5 runs; see Cache lines)",
        "- … 1 more",
        "",
        "58 fields",
    ]


def test_names_of_the_kernel_stay_readable() -> None:
    assert escape("update_cfs_group in cfs_rq->tg") == "update_cfs_group in cfs_rq->tg"
    assert code("a`b") == "``a`b``"
    assert code("`") == "`` ` ``"
    assert code(" ") == ""


def test_the_report_begins_with_kernels_and_the_verdict_and_ends_with_the_status(
    make_comparison: Make,
) -> None:
    comparison = make_comparison()
    text = markdown(comparison, Options(width=78, colour=False))
    base, new, empty, first = text.splitlines()[:4]
    for line, side in zip((base, new), comparison.sides, strict=True):
        release = side.host["kernel"]["release"]  # type: ignore[index]
        assert line.startswith(f"- {side.name}: kernel {release}, {side.path}, ")
        assert side.digest[:16] in line
    assert not empty
    assert first.startswith("# regression (")
    assert "hackbench time at groups=4 +37.2% \\[+35.0%, +39.5%]" in first
    assert text.endswith("\n\noverall: **regression**, exit status 1\n")
    assert "\n\n\n" not in text


@pytest.mark.parametrize("everything", [False, True])
def test_a_mail_names_no_options_of_a_command_that_made_it(
    make_comparison: Make, *, everything: bool
) -> None:
    text = markdown(make_comparison(), Options(width=78, colour=False, everything=everything))
    assert "--all" not in text
    assert "--html" not in text


def test_everything_has_more_than_what_matters(make_comparison: Make) -> None:
    brief, everything = (
        markdown(make_comparison(), Options(width=78, colour=False, everything=all_of_it))
        for all_of_it in (False, True)
    )
    assert "## Caveats and methods" in everything
    assert "tests: Welch t on logs" in everything
    assert "tests: Welch t on logs" not in brief
