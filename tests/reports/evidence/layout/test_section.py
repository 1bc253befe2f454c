# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's layout section: alarms, aligned drawings, advice, counts."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from schedperf.evidence.layout.section import layout as analyse
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.comparison import SCHEMA, Comparison
from schedperf.model.sections import Section
from schedperf.model.sides import Comparability
from schedperf_reports.blocks import Block, Drawing, Items, Table, Text
from schedperf_reports.evidence.layout.section import layout
from schedperf_reports.formats import Options
from schedperf_reports.graphics.cache_lines import CacheLines
from schedperf_reports.standalone import Head, PageSource, draw_page, draw_text
from tests.reports.comparison_records import overall_of

BASE = {
    "root_cpuacct_cpuusage": 0x20208,
    "sd_llc_shared": 0x20230,
    "sd_llc_id": 0x20238,
    "sd_llc": 0x20240,
    "printk_pending": 0x20280,
}
NEW = {
    "root_cpuacct_cpuusage": 0x20208,
    "sd_llc_shared": 0x20230,
    "sd_cluster": 0x20238,
    "sd_llc_id": 0x20240,
    "sd_llc": 0x20248,
    "printk_pending": 0x20280,
}


def comparison(section: Section | None) -> Comparison:
    return Comparison(
        schema=SCHEMA,
        id="0",
        tool_version="0.1.0",
        sides=(),
        comparability=Comparability(comparable=True, compared=0, differences=()),
        rows=(),
        sweeps=(),
        families=(),
        findings=(),
        sections={} if section is None else {"layout": section},
        caveats=(),
        overall=overall_of("inconclusive", "", 0),
    )


HEAD = Head(
    title="t",
    sides=(PageSource(name="base", label="tip", path="tip/System.map"),),
    tool_version="0.1.0",
    schema="schedperf/section/layout/2",
)
Kind = TypeVar("Kind", bound=Block)
Describe = Callable[..., list[Block]]


@pytest.fixture
def describe(tmp_path: Path, make_bundle: Callable[..., Path]) -> Describe:
    """Return the blocks for sides that are given as variables with their offsets."""

    def run(*sides: dict[str, int]) -> list[Block]:
        bundles = []
        for number, rows in enumerate(sides):
            places = {"__per_cpu_start": 0, **rows, "__per_cpu_end": 0x34000, "_end": 0xFFFFFF}
            text = "".join(f"{offset:016x} D {name}\n" for name, offset in places.items())
            files = {"boots/0/layout/System.map": text} if rows else {}
            bundles.append(
                open_bundle(make_bundle(tmp_path / f"{number}.tar", runs=1, files=files))
            )
        data = analyse(name_sides(bundles), lambda _: {})
        section = Section.of(data)
        return list(layout(comparison(section)))

    return run


def texts(blocks: list[Block]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text)]


def drawings(blocks: list[Block]) -> list[Drawing]:
    """Return the drawings as text, as a terminal shows them."""
    return only([plain for one in only(blocks, CacheLines) for plain in one.plain()], Drawing)


def only(blocks: list[Block], kind: type[Kind]) -> list[Kind]:
    return [block for block in blocks if isinstance(block, kind)]


def test_a_prediction_is_a_map_of_one_column(describe: Describe) -> None:
    blocks = describe(BASE, NEW)
    observed, predicted = drawings(blocks)
    assert observed.places == (0, 1)
    # It is about new, and has its mark.
    assert predicted.places == (1,)
    (lines,) = predicted.columns
    starts = [int(line.text.split()[0], 16) for line in lines if "sd_llc_id" in line.text]
    usage = [int(line.text.split()[0], 16) for line in lines if "cpuusage" in line.text]
    assert starts[0] // 64 == usage[0] // 64


def test_a_prediction_knows_the_same_heat_as_the_drawing_of_what_is(describe: Describe) -> None:
    observed, predicted = (
        {
            one.name: one.facts[-2:]
            for group in drawn.groups
            for row in group.rows
            for one in row.occupants
            if one.name in ("root_cpuacct_cpuusage", "sd_llc_id")
        }
        for drawn in only(describe(BASE, NEW), CacheLines)
    )
    assert observed == predicted
    assert predicted["root_cpuacct_cpuusage"][0].startswith("written by its own CPU, ")


def test_pairs_and_alarms_have_the_anchors_that_findings_name(describe: Describe) -> None:
    tables = only(describe(BASE, NEW), Table)
    anchors = [anchor for table in tables for anchor in table.anchors]
    assert "percpu/root_cpuacct_cpuusage+sd_llc_id" in anchors
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)


def test_counts_say_unknown_where_no_size_is_known(describe: Describe) -> None:
    counts = next(table for table in only(describe(BASE, NEW), Table) if table.limit)
    titles = [column.title for column in counts.columns]
    cells = dict(zip(titles, (cell.text for cell in counts.rows[0]), strict=True))
    assert cells["resized"] == "unknown"
    assert (cells["lost"], cells["gained"], cells["added"]) == ("2", "1", "1")


def test_swapped_sides_say_who_is_gone(describe: Describe) -> None:
    blocks = describe(NEW, BASE)
    assert "per-CPU section: removed: sd_cluster" in texts(blocks)
    # The pair shares a line again: that is good, and so it is no alarm.
    assert not [
        item
        for block in only(blocks, Items)
        for item in block.items
        if item.detail.startswith("separated")
    ]


def test_a_side_without_a_layout_says_why(describe: Describe) -> None:
    blocks = describe(BASE, {}, NEW)
    assert any(text.startswith("new: ") and "System.map" in text for text in texts(blocks))


def test_many_changes_say_how_many_there_are(describe: Describe) -> None:
    names = [f"v{number}" for number in range(480)]
    base = {name: 8 * place for place, name in enumerate(names)}
    new = {name: 8 * place for place, name in enumerate(sorted(names, key=lambda n: n[::-1]))}
    blocks = describe(base, new)
    assert any("first 200 listed" in table.caption for table in only(blocks, Table))
    for drawing in drawings(blocks):
        assert len({len(column) for column in drawing.columns}) == 1


def test_names_of_strangers_stay_text(describe: Describe) -> None:
    evil = "<script>alert(1)</script>"
    base = {"sd_llc_id": 0x100, evil: 0x108}
    new = {"sd_llc_id": 0x100, evil: 0x140}
    page = draw_page("layout", "t", describe(base, new), HEAD)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_drawing_fits_78_columns_with_the_longest_names(describe: Describe) -> None:
    long = {f"{name}_{'x' * 90}": offset for name, offset in BASE.items()}
    text = draw_text("t", describe(long | BASE, BASE | NEW), Options(width=78, colour=False))
    assert max(map(len, text.splitlines())) <= 78
    assert "\x1b" not in text
