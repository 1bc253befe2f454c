# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines as a page: several sides, line sizes, the key, without scripting, names."""

import re

import pytest
from msgspec.structs import replace

from schedperf.evidence.layout.record import LayoutAlarm, LayoutWindow
from schedperf_reports.blocks import Drawing
from schedperf_reports.evidence.layout._graphic import MOST_LINES, draw_lines, draw_rows
from schedperf_reports.graphics.cache_lines import (
    Badge,
    CacheLines,
    LineGroup,
    LineRow,
)
from schedperf_reports.page.head import Head, PageSource
from schedperf_reports.page.page import Described, render_sections
from tests.schedperf.evidence.layout.records import (
    make_column,
    make_entry,
    make_window,
)

HOSTILE = (
    "<script>window.pwned = 1</script></script><img src=x onerror='window.pwned = 1'>"
    "\"' onmouseover='window.pwned = 1' {{7*7}} javascript:window.pwned=1 \u202egnirts "
    + "n"
    * 9000
)


def head(*sides: str) -> Head:
    """Return what stands above a page."""
    chosen = [PageSource(name=side, label=side, path=f"{side}.tar") for side in sides]
    return Head(title="t", sides=tuple(chosen), tool_version="0", schema="x/1")


def page(drawing: CacheLines) -> str:
    section = Described(name="layout", title="Cache lines", blocks=(drawing,))
    return render_sections(head("base", "new"), [section])


def test_three_sides_are_three_rows_and_a_side_without_the_unit_says_why(
    parted: LayoutWindow,
) -> None:
    without = make_column("new2", lines=(), reason="no BTF in new2")
    drawing = draw_lines(make_window(*parted.columns, without), 64, [])
    assert [len(group.rows) for group in drawing.groups] == [3, 3]
    assert drawing.groups[0].rows[2] == LineRow(offset="", note="no BTF in new2")
    assert 'badge side-2"></b>' in page(drawing)


def test_one_kernel_alone_shows_the_first_lines_and_says_how_many_there_are() -> None:
    rows = [make_entry(f"v{number}", 64 * number) for number in range(MOST_LINES + 10)]
    drawing = draw_rows("percpu", make_column("base", *rows), "the section", 64)
    assert len(drawing.groups) == MOST_LINES
    assert drawing.caption.endswith(
        f"; first {MOST_LINES} of 58 lines drawn; the text version lists all lines"
    )
    (text,) = drawing.plain()
    assert isinstance(text, Drawing)
    assert len(text.columns[0]) == len(rows)


@pytest.mark.parametrize("line_bytes", [64, 128, 256])
def test_a_line_is_as_long_as_the_machine_says(line_bytes: int) -> None:
    last = make_entry("last", line_bytes - 8)
    drawing = draw_lines(make_window(make_column("base", last, lines=(0,))), line_bytes, [])
    assert f"--bytes:{line_bytes};" in page(drawing)
    assert f"--at:{100 * (line_bytes - 8) / line_bytes}" in page(drawing)


def test_without_scripting_each_block_says_what_it_is(
    parted: LayoutWindow, pair: LayoutAlarm
) -> None:
    text = page(draw_lines(parted, 64, [pair]))
    assert 'title="u64, 4 bytes; at 0x238, byte 56 of its line' in text
    assert "1 separated" in text
    assert "<summary>as text</summary>" in text
    drawn = re.sub(r"<details.*?</details>", "", text, flags=re.DOTALL)
    assert "64 B boundary at 0x240" in drawn
    assert "64 B cacheline boundary" not in drawn


def test_the_key_explains_only_what_is_drawn(parted: LayoutWindow) -> None:
    assert "bytes after the last field" not in page(draw_lines(parted, 64, []))
    padded = draw_lines(
        make_window(make_column("base", make_entry("a", 0), lines=(0,), bytes=16), unit="struct s"),
        64,
        [],
    )
    assert "bytes after the last field" in page(padded)


def test_names_of_strangers_stay_text(parted: LayoutWindow) -> None:
    columns = [
        make_column(
            one.side,
            *(replace(row, name=HOSTILE + row.name, type=HOSTILE) for row in one.rows),
            lines=one.lines,
            label=HOSTILE,
        )
        for one in parted.columns
    ]
    text = page(draw_lines(make_window(*columns, unit=HOSTILE), 64, []))
    body = text[: text.rindex("<script>")]
    assert "<script>window" not in body
    assert "<img" not in body
    assert "onmouseover='" not in body
    assert "\u202e" not in text
    assert len(text) < 600_000


def test_a_drawing_without_lines_is_still_a_page() -> None:
    empty = CacheLines(
        caption="nothing", line_bytes=64, sides=(Badge(name="base", label="b"),), groups=()
    )
    assert "nothing</figcaption>" in page(empty)
    group = LineGroup(title="line", rows=(LineRow(offset="0x0", note="not drawn"),))
    assert "not drawn" in page(
        CacheLines(caption="c", line_bytes=64, sides=empty.sides, groups=(group,))
    )
