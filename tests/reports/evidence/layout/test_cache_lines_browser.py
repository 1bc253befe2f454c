# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines in a real browser: to scale, walked by keys, on a telephone, without scripting."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf_reports.graphics.cache_lines import (
    Badge,
    CacheLines,
    LineGroup,
    LineMove,
    LinePair,
    LineRow,
    Occupant,
)
from schedperf_reports.page.head import Head, PageSource
from schedperf_reports.page.page import Described, render_sections
from tests.chromium import Tab
from tests.reports.visits import Visit

pytestmark = pytest.mark.browser

# Pixels: what borders and rounding make of a place that is a part of a row.
TOLERANCE = 1.5

HOSTILE = "<img src=x onerror='window.pwned = 1'>\"' onfocus='window.pwned = 1' {{7*7}}"

HEAD = Head(
    title="t",
    sides=(
        PageSource(name="base", label="base", path="base.tar"),
        PageSource(name="new", label="new", path="new.tar"),
    ),
    tool_version="0",
    schema="x/1",
)


def occupant(name: str, start: int, size: int, **changes: Any) -> Occupant:
    return Occupant(name=name, start=start, size=size, facts=(f"{size} bytes, {name}",), **changes)


def make_drawing(llc_id: str = "llc_id") -> CacheLines:
    """Return two lines of two sides; ``llc_id`` leaves the first one."""
    usage, llc = occupant("usage", 8, 8, is_hot=True), occupant("llc", 0, 8)
    old = occupant(llc_id, 56, 4, is_hot=True)
    new = occupant(llc_id, 4, 4, is_hot=True, word="moved")
    cluster = occupant("cluster", 56, 8, word="added")
    return CacheLines(
        caption="llc_id went to the next line",
        line_bytes=64,
        sides=(Badge(name="base", label="base"), Badge(name="new", label="new")),
        groups=(
            LineGroup(
                title="line",
                rows=(
                    LineRow(offset="0x200", occupants=(usage, old)),
                    LineRow(offset="0x200", occupants=(usage, cluster)),
                ),
            ),
            LineGroup(
                title="64 B boundary at 0x240",
                rows=(
                    LineRow(offset="0x240", occupants=(llc,)),
                    LineRow(offset="0x240", occupants=(new, occupant("llc", 16, 8))),
                ),
            ),
        ),
        pairs=(
            LinePair(
                names=("usage", llc_id),
                words=("together", "separated"),
                tones=("plain", "bad"),
                text="usage and llc_id: together in base, separated in new",
            ),
        ),
        moves=(LineMove(name=llc_id, side=1, text="llc_id moved by +12 bytes"),),
    )


Open = Callable[..., Any]


@pytest.fixture
def show(lend_tab: Callable[..., Tab], tmp_path: Path) -> Iterator[Open]:
    """Open a page with one drawing: ``show(drawing, width=360)``; complaints fail the test."""
    visits = []

    def open_page(drawing: CacheLines, **settings: Any) -> Any:
        path = tmp_path / "lines.html"
        section = Described(name="layout", title="Cache lines", blocks=(drawing,))
        path.write_text(render_sections(HEAD, [section]), encoding="utf-8")
        visits.append(Visit(lend_tab(**settings)))
        visits[-1].go_to(path.as_uri())
        return visits[-1].page

    yield open_page
    assert [complaint for visit in visits for complaint in visit.complaints] == []


def boxes(page: Any, selector: str) -> list[dict[str, float]]:
    """Return where elements stand, in pixels."""
    return [one.bounding_box() for one in page.query_selector_all(selector)]


def focused(page: Any) -> tuple[str, str]:
    """Return the side's line and the name that have the focus."""
    line = "document.activeElement.closest('.line-row').querySelector('.line-place').textContent"
    place = " ".join(str(page.evaluate(line)).split())
    return place, str(page.evaluate("document.activeElement.dataset.name"))


def test_bytes_are_to_scale_and_equal_bytes_stand_above_each_other(show: Open) -> None:
    page = show(make_drawing())
    row = boxes(page, ".line-bytes")[0]
    first, old, again, cluster = boxes(page, ".line-group:first-child .occupant")
    assert first["x"] - row["x"] == pytest.approx(row["width"] * 8 / 64, abs=TOLERANCE)
    assert first["width"] == pytest.approx(row["width"] / 8, abs=TOLERANCE)
    assert old["width"] == pytest.approx(row["width"] / 16, abs=TOLERANCE)
    assert old["x"] == pytest.approx(cluster["x"], abs=TOLERANCE)
    assert again["x"] == pytest.approx(first["x"], abs=TOLERANCE)
    assert again["y"] > first["y"] + first["height"]


def test_an_arrow_ends_at_what_moved(show: Open) -> None:
    page = show(make_drawing())
    (head,) = boxes(page, ".line-marks.wide .head")
    (moved,) = boxes(page, ".occupant.moved")
    assert head["x"] + head["width"] / 2 == pytest.approx(moved["x"] + moved["width"] / 2, abs=2.5)
    assert head["y"] + head["height"] == pytest.approx(moved["y"], abs=3)


def test_on_a_telephone_lines_run_down_and_sides_stand_beside_each_other(show: Open) -> None:
    page = show(make_drawing(), width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    base, new = boxes(page, ".line-group:first-child .line-bytes")
    assert base["y"] == pytest.approx(new["y"], abs=TOLERANCE)
    assert base["x"] + base["width"] < new["x"]
    usage, old = boxes(page, ".line-group:first-child .line-row:nth-child(2) .occupant")
    assert usage["y"] - base["y"] == pytest.approx(base["height"] / 8, abs=TOLERANCE)
    assert old["y"] > usage["y"] + usage["height"]
    (head,) = boxes(page, ".line-marks.narrow .head")
    (moved,) = boxes(page, ".occupant.moved")
    assert head["x"] + head["width"] == pytest.approx(moved["x"], abs=4)
    assert head["y"] + head["height"] / 2 == pytest.approx(moved["y"] + moved["height"] / 2, abs=3)


def test_arrow_keys_walk_and_what_has_the_focus_is_told(show: Open) -> None:
    page = show(make_drawing())
    page.locator(".occupant.hot").first.focus()
    assert focused(page) == ("base 0x200", "usage")
    page.keyboard.press("ArrowRight")
    assert focused(page) == ("base 0x200", "llc_id")
    page.keyboard.press("ArrowDown")
    assert focused(page) == ("new 0x200", "cluster")
    page.keyboard.press("ArrowLeft")
    assert focused(page) == ("new 0x200", "usage")
    page.keyboard.press("ArrowUp")
    assert focused(page) == ("base 0x200", "usage")
    detail = page.locator(".line-detail").text_content()
    assert detail == "usage (base 0x200): 8 bytes, usage"
    # The same name on the other side is marked with it.
    assert page.locator(".occupant.alike").count() == 2


def test_the_drawing_is_one_stop_of_the_tab_key(show: Open) -> None:
    page = show(make_drawing())
    assert page.locator(".occupant[tabindex='0']").count() == 1
    page.locator(".occupant.hot").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".occupant[tabindex='0']").get_attribute("data-name") == "llc_id"
    page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.classList.contains('occupant')")


def test_pointing_tells_who_it_is(show: Open) -> None:
    page = show(make_drawing())
    assert not page.locator(".line-detail").is_visible()
    page.locator(".occupant.moved").hover()
    assert page.locator(".line-detail").text_content() == "llc_id (new 0x240): 4 bytes, llc_id"


def test_without_scripting_all_of_it_is_there(show: Open) -> None:
    page = show(make_drawing(), java_script_enabled=False)
    assert page.locator(".occupant.moved").get_attribute("title") == "4 bytes, llc_id"
    assert page.locator(".line-marks.wide .label").all_text_contents() == [
        "llc_id moved by +12 bytes",
        "1 separated",
        "1 together",
    ]
    assert page.locator(".line-pairs").is_visible()


def cut(page: Any, selector: str) -> list[str]:
    """Return what stands beyond the block that it is in."""
    beyond = """(parts, slack) => parts.filter((part) => {
      const [inner, outer] = [part, part.closest(".occupant")].map(
        (one) => one.getBoundingClientRect());
      return inner.width && (inner.top < outer.top - slack || inner.bottom > outer.bottom + slack);
    }).map((part) => part.textContent)"""
    found: list[str] = page.locator(selector).evaluate_all(beyond, TOLERANCE)
    return found


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_words_of_small_blocks_stay_inside_and_the_key_has_their_marks(
    show: Open, width: int
) -> None:
    page = show(make_drawing(), width=width)
    assert cut(page, ".occupant :is(b, .word)") == []
    assert page.locator(".occupant.moved .word").text_content() == "moved"
    key = page.locator(".line-key li").all_text_contents()
    assert [text for text in key if text[0] in "→+"] == ["→ moved", "+ added"]


def test_labels_of_brackets_stand_clear_of_the_blocks(show: Open) -> None:
    page = show(make_drawing())
    (label,) = [
        one.bounding_box()
        for one in page.query_selector_all(".line-marks.wide .label")
        if one.text_content() == "1 together"
    ]
    row = boxes(page, ".line-bytes")[0]
    assert label["y"] >= row["y"] + row["height"]


def make_counted() -> CacheLines:
    """Return one line of which somebody sampled who reads and writes it."""
    read = occupant("sampled_by_idle_cpus", 4, 4, reads=300, writes=0, heat=0.75)
    hot = occupant("load_avg", 8, 8, reads=90, writes=40, heat=0.25)
    row = LineRow(
        offset="0x100",
        occupants=(read, hot),
        note="false sharing",
        who=("4-7 sampled_by_idle_cpus: r nohz_balancer_kick; swapper", "8-15 load_avg: kworker"),
    )
    return CacheLines(
        caption="who reads and writes which bytes",
        line_bytes=64,
        sides=(Badge(name="base", label="base"),),
        groups=(LineGroup(title="load_avg", rows=(row,)),),
        has_counts=True,
    )


@pytest.mark.parametrize("width", [360, 1400])
def test_who_reads_and_writes_is_readable_without_pointing_and_without_scripting(
    show: Open, width: int
) -> None:
    page = show(make_counted(), width=width, java_script_enabled=False)
    who = page.locator(".line-who li")
    assert who.all_text_contents() == list(make_counted().groups[0].rows[0].who)
    assert all(one.is_visible() for one in who.all())
    note, first = boxes(page, ".line-note")[0], boxes(page, ".line-who li")[0]
    assert first["y"] >= note["y"] + note["height"] - TOLERANCE
    assert cut(page, ".occupant :is(b, .counts)") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_share_of_a_block_is_a_number_and_not_its_colour_alone(show: Open) -> None:
    page = show(make_counted())
    assert page.locator(".occupant .share").all_text_contents() == ["75.0%", "25.0%"]


@pytest.mark.parametrize("line_bytes", [128, 256])
def test_long_lines_are_scrolled_by_keys_on_a_screen_and_shrink_on_paper(
    show: Open, line_bytes: int
) -> None:
    page = show(replace(make_drawing(), line_bytes=line_bytes))
    scroll = page.locator(".cachelines .scroll")
    assert scroll.evaluate("one => one.scrollWidth > one.clientWidth")
    scroll.focus()
    page.keyboard.press("ArrowRight")
    scroll.evaluate("""(one) => new Promise((done) => {
      const look = () => (one.scrollLeft > 0 ? done() : requestAnimationFrame(look));
      look();
    })""")
    page.emulate_media(media="print")
    assert scroll.evaluate("one => one.scrollWidth <= one.clientWidth + 1")


def test_a_hostile_name_stays_a_name(show: Open) -> None:
    page = show(make_drawing(HOSTILE))
    page.locator(".occupant.moved").hover()
    page.locator(".occupant.moved").focus()
    assert HOSTILE in page.locator(".line-detail").text_content()
    assert page.evaluate("window.pwned") is None
    assert page.locator(".cachelines img").count() == 0
