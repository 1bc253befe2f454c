"""The report's layout section: one verdict line, one table of pairs, aligned drawings."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.bundle import open_bundle
from schedperf.model import SCHEMA, Comparability, Comparison, Overall, Section
from schedperf.sections.layout import layout as analyse
from schedperf.sides import name_sides
from schedperf_reports.blocks import Block, Drawing, Table, Text
from schedperf_reports.sections import all_report_sections
from schedperf_reports.sections.layout import HALF_COLUMNS, layout

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


def test_it_stands_between_the_scheduler_and_the_profile() -> None:
    (section,) = (one for one in all_report_sections() if one.name == "layout")
    assert (section.title, section.order) == ("Per-CPU layout", 40)


def test_the_verdict_names_the_first_pair(describe: Describe) -> None:
    first = describe(BASE, NEW)[0]
    assert isinstance(first, Text)
    assert first.tone == "warning"
    assert first.text == (
        "root_cpuacct_cpuusage and sd_llc_id no longer share a 64-byte line, nor do 1 more "
        "(source System.map)"
    )


def test_the_table_lists_separated_and_joined_pairs_with_anchors(describe: Describe) -> None:
    (table,) = (block for block in describe(BASE, NEW) if isinstance(block, Table))
    assert table.caption.startswith("2 pairs lost and 1 gained a common 64-byte line")
    assert [cell.text for cell in table.rows[0]] == [
        "root_cpuacct_cpuusage + sd_llc_id",
        "lost",
        "20208, 20238",
        "20208, 20240",
        "cpuacct_charge, cpus_share_cache",
    ]
    assert [row[1].text for row in table.rows] == ["lost", "lost", "gained"]
    assert table.anchors[0] == "root_cpuacct_cpuusage+sd_llc_id"
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_the_drawing_puts_equal_names_beside_each_other(describe: Describe) -> None:
    (drawing,) = (block for block in describe(BASE, NEW) if isinstance(block, Drawing))
    rule = "------------- 64 B cacheline boundary"
    halves = zip(drawing.left, drawing.right, strict=True)
    assert [(left.text, right.text) for left, right in halves] == [
        ("20208 D root_cpuacct_cpuusage", "20208 D root_cpuacct_cpuusage"),
        ("20230 D sd_llc_shared", "20230 D sd_llc_shared"),
        ("", "20238 D sd_cluster  <- added"),
        ("", rule),
        ("20238 D sd_llc_id", "20240 D sd_llc_id  <- moved"),
        (rule, ""),
        ("20240 D sd_llc", "20248 D sd_llc"),
    ]
    assert len(rule) == HALF_COLUMNS
    assert drawing.titles == ("base", "new")
    assert drawing.caption.endswith("inserted here: sd_cluster")


def test_swapped_sides_say_what_now_shares_a_line_and_what_is_gone(describe: Describe) -> None:
    blocks = describe(NEW, {name: 0x20000 + 8 * i for i, name in enumerate(BASE)})
    assert "removed: sd_cluster" in texts(blocks)
    drawn = [line.text for block in blocks if isinstance(block, Drawing) for line in block.left]
    assert "20238 D sd_cluster  <- removed" in drawn


def test_equal_layouts_are_one_line(describe: Describe) -> None:
    blocks = describe(BASE, BASE)
    assert texts(blocks)[0] == (
        "no two per-CPU variables lost or gained a common 64-byte line "
        "(5 variables compared, source System.map)"
    )
    assert not any(isinstance(block, Table | Drawing) for block in blocks)
    assert "64 bytes are assumed" in texts(blocks)[1]


def test_a_side_without_a_layout_says_why(describe: Describe) -> None:
    assert "new: no System.map, kallsyms or BTF in new" in texts(describe(BASE, {}, NEW))


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
    (table,) = (block for block in blocks if isinstance(block, Table))
    assert "the first 200 are listed" in table.caption
    for drawing in blocks:
        if isinstance(drawing, Drawing):
            assert len(drawing.left) == len(drawing.right)
