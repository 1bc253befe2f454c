# SPDX-License-Identifier: GPL-2.0-or-later
import base64
import gzip
import hashlib
import itertools
import json
import re
import time
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.json_text import to_json
from schedperf.model.rows import Row
from schedperf_reports.blocks import (
    Block,
    Cell,
    Column,
    Drawing,
    DrawingLine,
    Graphic,
    Item,
    Items,
    Table,
)
from schedperf_reports.formats import Options
from schedperf_reports.formats.html import html
from schedperf_reports.formats.lkml import lkml
from schedperf_reports.graphics.axes import Axis
from schedperf_reports.graphics.chart import Chart, Panel
from schedperf_reports.page.page import Described, describe_head, render_sections
from schedperf_reports.page.views import draw_island
from schedperf_reports.sections import shown_sections

Make = Callable[..., Comparison]

LARGEST_REPORT_BYTES = 900_000
LARGEST_EXAMPLE_BYTES = 3_000_000
# Of the processor: what others do on the machine meanwhile does not count.
SLOWEST_RENDER_SECONDS = 1.0


class Page(HTMLParser):
    """A page as (tag, attributes) pairs and the text of each element kind."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open, data))

    def attributes(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


def draw(comparison: Comparison) -> str:
    return html(comparison, Options(width=78, colour=False))


@pytest.fixture(scope="module")
def report(make_comparison: Make) -> str:
    return draw(make_comparison())


@pytest.fixture(scope="module")
def page(report: str) -> Page:
    return Page(report)


def draw_blocks(comparison: Comparison, *blocks: Block, name: str = "layout") -> Page:
    described = Described(name=name, title="Per-CPU layout", blocks=blocks)
    return Page(render_sections(describe_head(comparison), [described]))


def test_everything_is_said_without_scripting(report: str) -> None:
    for said in ("+37.2% [+35.0%, +39.5%]", "expected", "6.12.0-new", "no cpufreq on this"):
        assert said in report


def test_a_note_spans_its_table_and_a_heading_is_none(report: str) -> None:
    note = re.search(
        r'<tr [^>]*class="note[^"]*">\s*<td colspan="10" class="warning"><span>(.+)</span>', report
    )
    assert note is not None
    assert note[1].strip() == "new is noisier than base by a factor of 3.4 (p = 0.008)"
    assert re.search(r'<tr [^>]*class="heading">\s*<th scope="rowgroup" colspan="10"', report)


def test_the_page_asks_nothing_of_the_network(page: Page) -> None:
    linked = [
        attributes[name]
        for _, attributes in page.tags
        for name in ("src", "href", "action")
        if name in attributes
    ]
    assert linked
    assert all(address.startswith("#") for address in linked)


def sources(report: str) -> list[str]:
    """Return what the page may run."""
    return re.findall(r"<script>(.*?)</script>", report, flags=re.DOTALL)


def test_the_policy_allows_the_scripts_of_the_page_and_no_other(report: str, page: Page) -> None:
    policy = next(
        attributes["content"]
        for attributes in page.attributes("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "http" not in policy
    assert "self" not in policy
    for ending in ("base-uri 'none'", "form-action 'none'"):
        assert ending in policy
    hashes = {
        base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        for source in sources(report)
    }
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == hashes


def test_the_page_of_sixty_results_stays_small(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    rows = tuple(make_row(point=f"groups={number}") for number in range(60))
    comparison = make_comparison(rows=rows)
    draw(comparison)
    start = time.process_time()
    text = draw(comparison)
    assert time.process_time() - start < SLOWEST_RENDER_SECONDS
    assert len(text.encode()) < LARGEST_REPORT_BYTES


def test_each_table_has_a_name_and_scoped_headers(page: Page) -> None:
    named = [one for one in page.attributes("table") if "aria-labelledby" in one]
    assert len(page.attributes("table")) == len(page.attributes("caption")) + len(named)
    assert {one["aria-labelledby"] for one in named} <= set(page.ids())
    headers = page.attributes("th")
    assert headers
    assert {header.get("scope") for header in headers} <= {"col", "colgroup", "row", "rowgroup"}


def test_numbers_are_right_aligned(page: Page) -> None:
    numbers = [cell for cell in page.attributes("td") if "number" in cell.get("class", "").split()]
    assert len(numbers) > 10


def test_each_id_is_used_once_and_each_link_has_a_target(page: Page) -> None:
    ids = page.ids()
    assert len(ids) == len(set(ids))
    targets = [unquote(link["href"].removeprefix("#")) for link in page.attributes("a")]
    assert targets
    assert set(targets) <= set(ids)


def test_sides_are_a_blue_square_and_an_orange_circle_before_their_names(report: str) -> None:
    badge = r'<b class="badge side-(\d)"></b>\s*<span class="label" title="[^"]*">([^<]+)</span>'
    sides = re.findall(badge, report)
    assert sides[:2] == [("0", "base"), ("1", "new")]


PAIR = "root_cpuacct_cpuusage+sd_llc_id"


def make_table(*anchors: str) -> Table:
    return Table(
        caption="pairs",
        columns=(Column(title="pair"),),
        rows=tuple((Cell(text=anchor),) for anchor in anchors),
        anchors=anchors,
    )


def test_evidence_links_to_its_row_else_to_its_section(make_comparison: Make) -> None:
    items = Items(items=(Item(text="a", evidence=(f"layout#{PAIR}", "layout#other", "nowhere#x")),))
    table = replace(make_table(PAIR), rows=((Cell(text="both of them"),),))
    page = draw_blocks(make_comparison(), items, table)
    links = [link["href"] for link in page.attributes("a") if link.get("class") == "evidence"]
    assert links == ["#layout-root_cpuacct_cpuusage%2Bsd_llc_id", "#layout"]
    words = [text for tag, text in page.texts if tag == "a" and text.startswith("Per-CPU layout")]
    assert words == ["Per-CPU layout", "Per-CPU layout: both of them", "Per-CPU layout"]
    assert f"layout-{PAIR}" in page.ids()


def test_a_row_that_stands_twice_has_its_id_once(make_comparison: Make) -> None:
    page = draw_blocks(make_comparison(), make_table(PAIR), make_table(PAIR))
    assert page.ids().count(f"layout-{PAIR}") == 1


def test_rules_of_a_drawing_are_ruled_lines(make_comparison: Make) -> None:
    drawing = Drawing(
        caption="c",
        titles=("base: tip", "new: cluster"),
        columns=(
            (DrawingLine(text="20238 D sd_llc_id"),),
            (DrawingLine(text="------- 64 B cacheline boundary", tone="muted"),),
        ),
    )
    page = draw_blocks(make_comparison(), drawing)
    assert ("i", "64 B cacheline boundary") in page.texts
    assert ("span", "20238 D sd_llc_id") in page.texts
    # Columns that nobody says are sides have no side's colour.
    assert not any("mark" in span.get("class", "") for span in page.attributes("span"))
    marked = draw_blocks(make_comparison(), replace(drawing, places=(0, 2)))
    assert {"class": "mark side-2"} in marked.attributes("span")


def test_a_reference_table_is_folded(make_comparison: Make) -> None:
    table = Table(
        caption="109 fields", columns=(Column(title="a"),), rows=((Cell(text="b"),),), limit=0
    )
    page = draw_blocks(make_comparison(), table)
    assert ("summary", "109 fields") in page.texts
    assert "open" not in page.attributes("details")[0]


def test_a_chart_is_a_picture_named_by_its_caption(make_comparison: Make) -> None:
    axis = Axis(low=0.0, high=1.0, ticks=((0.0, "<b>0</b>"),), title="a<b>")
    chart = Chart(caption="a finding", sides=("base",), panels=(Panel(height=9, x=axis, y=axis),))
    page = draw_blocks(make_comparison(), chart)
    assert ("figcaption", "a finding") in page.texts
    plot = next(one for one in page.attributes("div") if one.get("class") == "plot")
    assert plot["aria-labelledby"] in page.ids()
    assert [text for tag, text in page.texts if tag == "text" and text.strip()][:1] == ["<b>0</b>"]


def test_an_island_cannot_end_its_script() -> None:
    class Flames(Graphic, frozen=True, kw_only=True):
        def data(self) -> object:
            return {"title": "</script><b>&"}

    (island,) = re.findall(
        r'<script type="application/json">(.*?)</script>', draw_island(Flames(caption="c"))
    )
    assert json.loads(island)["title"] == "</script><b>&"


def test_a_section_without_blocks_says_so(make_comparison: Make) -> None:
    assert ("p", "nothing to show") in draw_blocks(make_comparison()).texts


def test_an_optional_section_without_blocks_is_left_out(report: str) -> None:
    assert "Time and power" not in report


def test_further_sides_have_a_colour_and_a_shape_of_their_own(
    make_comparison: Make, make_side: Callable[..., object]
) -> None:
    names = ("base", "new", *(f"new{number}" for number in range(2, 8)))
    page = Page(draw(make_comparison(sides=tuple(make_side(name) for name in names))))
    badges = [one["class"] for one in page.attributes("b") if "badge" in one.get("class", "")]
    # The header's; columns of tables have them too.
    badges = badges[: len(names)]
    assert badges[:6] == [f"badge side-{place}" for place in range(6)]
    # The name behind it alone tells those apart that share the last shape.
    assert set(badges[6:]) == {"badge side-5"}
    words = [text.strip() for _, text in page.texts]
    assert set(names) <= set(words)


def test_the_list_of_sections_is_by_chapter(page: Page, make_comparison: Make) -> None:
    chapters = [one for one in page.attributes("a") if "chapter" in one.get("class", "").split()]
    assert [one["data-keys"] for one in chapters][:2] == ["gv", "gb"]
    shown = {section.chapter for section in shown_sections(make_comparison())}
    assert len(chapters) == len(shown)
    assert len({one["data-keys"] for one in chapters}) == len(chapters)


def test_a_chapter_of_which_there_is_nothing_is_one_muted_line(make_comparison: Make) -> None:
    page = Page(draw(make_comparison(sections={})))
    memory = next(one for one in page.attributes("a") if one.get("data-keys") == "gm")
    assert memory == {"class": "chapter muted", "href": "#absent-memory", "data-keys": "gm"}
    section = next(one for one in page.attributes("section") if one["id"] == "absent-memory")
    assert section["class"] == "absent"


def test_headings_skip_no_level(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(lower <= upper + 1 for upper, lower in itertools.pairwise(levels))


def test_the_page_names_the_command_of_each_other_base(
    make_comparison: Make, make_side: Callable[..., object]
) -> None:
    # Two of them call themselves new: another name tells them apart.
    three = (make_side("base"), make_side("new"), make_side("new2", label="new"))
    comparison = make_comparison(sides=three)
    commands = ["schedperf compare 'a b.tar' c.tar", "schedperf compare c.tar 'a b.tar'"]
    text = html(comparison, Options(width=78, colour=False, other_bases=commands))
    menu = text.partition('class="menu other-bases"')[2].partition("</details>")[0]
    words = [text.strip() for _, text in Page(menu).texts]
    assert [one for one in words if one][1:] == [
        "Other base", "new as base:", commands[0], "Copy",
        "new2 as base:", commands[1], "Copy",
    ]  # fmt: skip
    assert "Other base" not in draw(comparison)


def test_the_record_can_be_saved_as_it_is(make_comparison: Make) -> None:
    comparison = make_comparison(command=("schedperf", "compare", "a b.tar", "new.tar"))
    text = draw(comparison)
    island = text.partition('class="download"')[2].partition('"application/gzip">')[2]
    packed = island.partition("</script>")[0]
    assert gzip.decompress(base64.b64decode(packed)).decode() == to_json(comparison)
    assert "schedperf compare &#39;a b.tar&#39; new.tar --html report.html" in text
    assert "schedperf compare &#39;a b.tar&#39; new.tar --json compare.json" in text


def test_the_page_holds_the_text_for_a_mail_as_it_is(make_comparison: Make) -> None:
    comparison, options = make_comparison(), Options(width=78, colour=False)
    page = html(comparison, options)
    held = re.search('<template id="lkml">(.*?)</template>', page, re.DOTALL)
    assert held is not None
    assert unescape(held[1]) == lkml(comparison, options)
    assert '<button type="button" id="copy-lkml">' in page


@pytest.mark.parametrize("name", ["cluster-percpu", "deep-cgroup", "deep-cgroup-arm64"])
def test_the_page_of_an_example_is_at_most_3_mb(
    name: str, compared_example: Callable[[str], Comparison]
) -> None:
    assert len(draw(compared_example(name)).encode()) <= LARGEST_EXAMPLE_BYTES
