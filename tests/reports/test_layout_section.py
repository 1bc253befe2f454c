"""The report's layout section: alarms, aligned drawings, advice, counts."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from schedperf.bundle import open_bundle
from schedperf.model import SCHEMA, Comparability, Comparison, Overall, Section
from schedperf.sections.layout import layout as analyse
from schedperf.sides import name_sides
from schedperf_reports.blocks import Block, Drawing, Headline, Items, Table, Text
from schedperf_reports.formats import Options
from schedperf_reports.graphics.cache_lines import CacheLines
from schedperf_reports.sections import all_report_sections
from schedperf_reports.sections._layout_drawing import COLUMN_WIDTH
from schedperf_reports.sections.layout import layout
from schedperf_reports.standalone import Head, HeadSide, draw_page, draw_text

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
        tool_version="0.1.0",
        sides=(),
        comparability=Comparability(comparable=True, compared=0, differences=()),
        rows=(),
        sweeps=(),
        families=(),
        findings=(),
        sections={} if section is None else {"layout": section},
        caveats=(),
        overall=Overall(verdict="inconclusive", reason="", exit_status=0),
    )


HEAD = Head(
    title="t",
    sides=(HeadSide(name="base", label="tip", path="tip/System.map"),),
    tool_version="0.1.0",
    schema="schedperf/layout/1",
)
Kind = TypeVar("Kind", bound=Block)
Describe = Callable[..., list[Block]]


@pytest.fixture
def describe(tmp_path: Path, make_bundle: Callable[..., Path]) -> Describe:
    """Return the blocks for sides that are given as variables with their offsets."""

    def run(*sides: dict[str, int]) -> list[Block]:
        bundles = []
        for number, rows in enumerate(sides):
            places = {"__per_cpu_start": 0, **rows, "__per_cpu_end": 0x34000}
            text = "".join(f"{offset:016x} D {name}\n" for name, offset in places.items())
            files = {"boots/0/layout/System.map": text} if rows else {}
            bundles.append(
                open_bundle(make_bundle(tmp_path / f"{number}.tar", runs=1, files=files))
            )
        data = analyse(name_sides(bundles))
        section = Section(schema="", status="ok", reason=None, data=data)
        return list(layout(comparison(section)))

    return run


def texts(blocks: list[Block]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text)]


def test_it_is_the_first_section_about_memory() -> None:
    names = [one.name for one in all_report_sections() if one.chapter == "memory"]
    assert names[:2] == ["layout", "c2c"]


def drawings(blocks: list[Block]) -> list[Drawing]:
    """Return the drawings as text, as a terminal shows them."""
    return only([plain for one in only(blocks, CacheLines) for plain in one.plain()], Drawing)


def only(blocks: list[Block], kind: type[Kind]) -> list[Kind]:
    return [block for block in blocks if isinstance(block, kind)]


def test_the_first_alarm_names_pair_boundary_cause_and_evidence(describe: Describe) -> None:
    (alarms,) = only(describe(BASE, NEW), Items)
    assert alarms.ordered
    first = alarms.items[0]
    assert first.text == (
        "root_cpuacct_cpuusage and sd_llc_id shared a 64-byte line and are separated by the "
        "boundary at 0x20240"
    )
    assert first.detail.startswith("cause: sd_cluster (inserted, at most 8 bytes); separated, ")
    assert "27 % on a Zen 3" in first.detail
    assert "cpus_share_cache" in first.detail


def test_what_no_alarm_claims_is_said_once(describe: Describe) -> None:
    blocks = describe(BASE, NEW)
    (alarms,) = only(blocks, Items)
    said = [text for text in texts(blocks) if "does not tell what it costs on this CPU" in text]
    assert len(said) == 1
    assert not any("does not tell" in item.detail for item in alarms.items)


def test_the_drawing_puts_equal_names_beside_each_other(describe: Describe) -> None:
    drawing = drawings(describe(BASE, NEW))[0]
    rule = "------------- 64 B cacheline boundary"
    rows = zip(*drawing.columns, strict=True)
    assert [(left.text, right.text) for left, right in rows] == [
        ("20208 D root_cpuacct_cpuusage", "20208 D root_cpuacct_cpuusage"),
        ("20230 D sd_llc_shared", "20230 D sd_llc_shared"),
        ("", "20238 D sd_cluster  <- added"),
        ("", rule),
        ("20238 D sd_llc_id", "20240 D sd_llc_id  <- moved"),
        (rule, ""),
        ("20240 D sd_llc", "20248 D sd_llc"),
    ]
    assert len(rule) == COLUMN_WIDTH
    assert drawing.titles == ("base", "new")
    assert drawing.caption.endswith("inserted here: sd_cluster")


def test_three_kernels_are_three_columns_with_equal_names_in_one_row(describe: Describe) -> None:
    blocks = describe(BASE, NEW, BASE)
    drawing = drawings(blocks)[0]
    assert drawing.titles == ("base", "new", "new2")
    assert drawing.places == (0, 1, 2)
    assert len({len(column) for column in drawing.columns}) == 1
    (row,) = [
        row
        for row in zip(*drawing.columns, strict=True)
        if any("sd_llc_id" in line.text for line in row)
    ]
    assert [line.text for line in row] == [
        "20238 D sd_llc_id",
        "20240 D sd_llc_id  <- moved",
        "20238 D sd_llc_id",
    ]
    assert [block.word for block in only(blocks, Headline)] == ["new", "new2"]
    assert only(blocks, Headline)[1].text.startswith("layout unchanged: per-CPU section")


def test_advice_has_an_order_and_a_predicted_map_of_one_column(describe: Describe) -> None:
    blocks = describe(BASE, NEW)
    (advice,) = [text for text in texts(blocks) if text.startswith("advice for new: declare ")]
    assert "root_cpuacct_cpuusage, " in advice
    assert ": 1 line instead of 2, fewest possible 1" in advice
    predicted = drawings(blocks)[-1]
    assert predicted.caption.startswith("per-CPU section as predicted: root_cpuacct_cpuusage, ")
    assert predicted.caption.endswith(" on 1 line instead of 2")
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


def test_a_variable_that_its_own_cpu_writes_is_said_to_join(describe: Describe) -> None:
    (joins,) = [text for text in texts(describe(BASE, NEW)) if "its own CPU" in text]
    assert joins.startswith("root_cpuacct_cpuusage is written by its own CPU and shares the line")


def test_pairs_and_alarms_have_the_anchors_that_findings_name(describe: Describe) -> None:
    tables = only(describe(BASE, NEW), Table)
    anchors = [anchor for table in tables for anchor in table.anchors]
    assert "percpu/root_cpuacct_cpuusage+sd_llc_id" in anchors
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
    pairs = next(table for table in tables if "gained a common line" in table.caption)
    assert pairs.caption == "per-CPU section: 2 pairs lost and 1 gained a common line"
    assert [cell.text for cell in pairs.rows[0]] == [
        "root_cpuacct_cpuusage + sd_llc_id",
        "lost",
        "20208, 20238",
        "20208, 20240",
    ]


def test_counts_say_unknown_where_no_size_is_known(describe: Describe) -> None:
    counts = next(table for table in only(describe(BASE, NEW), Table) if table.limit)
    titles = [column.title for column in counts.columns]
    cells = dict(zip(titles, (cell.text for cell in counts.rows[0]), strict=True))
    assert cells["resized"] == "unknown"
    assert (cells["lost"], cells["gained"], cells["added"]) == ("2", "1", "1")


def test_moves_of_unknown_heat_are_named_and_raise_nothing(describe: Describe) -> None:
    base = {"hpet_a": 0x100, "hpet_b": 0x138, "hpet_c": 0x180}
    new = {"hpet_a": 0x100, "hpet_b": 0x140, "hpet_c": 0x180}
    blocks = describe(base, new)
    assert not only(blocks, Items)
    assert texts(blocks)[0].startswith("no alarm: no hot pair was separated or disturbed")
    assert any("of unknown heat, so no alarm: hpet_b" in text for text in texts(blocks))


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


def test_equal_layouts_say_that_the_layout_is_unchanged(describe: Describe) -> None:
    blocks = describe(BASE, BASE)
    assert texts(blocks)[0] == "layout unchanged: per-CPU section; 64-byte lines"
    assert not only(blocks, Table)
    assert not only(blocks, CacheLines)


def test_what_a_symbol_table_cannot_show_is_said_to_be_unknown_at_the_end(
    describe: Describe,
) -> None:
    said = texts(describe(BASE, NEW))
    unknown = [text for text in said if text.startswith("unknown: ")]
    assert said[-len(unknown) :] == unknown
    structs = next(text for text in unknown if "struct rq, " in text)
    assert "no structs" in structs
    # What is true of base and of new is said once.
    symbols = next(text for text in unknown if "global variables" in text)
    assert "of base and new: " in symbols


def test_the_finding_is_a_sentence_before_the_drawing(describe: Describe) -> None:
    blocks = describe(BASE, NEW)
    finding = blocks[0]
    assert isinstance(finding, Text)
    assert finding.text == (
        "root_cpuacct_cpuusage and sd_llc_id shared a 64-byte line and are separated by the "
        "boundary at 0x20240, because of sd_cluster (inserted, at most 8 bytes)"
    )
    assert [type(block) for block in blocks[1:4]] == [Text, CacheLines, Items]


def test_a_side_without_a_layout_says_why(describe: Describe) -> None:
    blocks = describe(BASE, {}, NEW)
    assert any(text.startswith("new: ") and "System.map" in text for text in texts(blocks))


@pytest.mark.parametrize(
    ("section", "line"),
    [
        (None, "not analysed"),
        (
            Section(schema="", status="absent", reason="no BTF in base", data=None),
            "no BTF in base",
        ),
    ],
)
def test_an_absent_analysis_is_one_line(section: Section | None, line: str) -> None:
    assert texts(list(layout(comparison(section)))) == [line]


def test_many_changes_say_how_many_there_are(describe: Describe) -> None:
    names = [f"v{number}" for number in range(480)]
    base = {name: 8 * place for place, name in enumerate(names)}
    new = {name: 8 * place for place, name in enumerate(sorted(names, key=lambda n: n[::-1]))}
    blocks = describe(base, new)
    assert any("the first 200 are listed" in table.caption for table in only(blocks, Table))
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
