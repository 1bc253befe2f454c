# SPDX-License-Identifier: GPL-2.0-or-later
"""Bouncing cache lines: rates, what has no counterpart, and what was not seen."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.c2c.record import C2c, C2cComparison, C2cTotals
from schedperf.model.base_new import BaseNew
from schedperf.model.comparison import Comparison
from schedperf.model.sections import MissingSide, Section
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.evidence.c2c.section import c2c
from schedperf_reports.formats import Options
from schedperf_reports.formats.text import text as draw_text
from tests.schedperf.evidence.c2c.records import (
    CHANGE,
    DATA,
    LINE,
    NOTHING,
    POINT,
    unmatched,
    with_point,
)

Describe = Callable[[C2c], Any]
ToBlocks = Callable[[Iterable[Block]], Any]
Cells = Callable[[Table], list[list[str]]]


def test_a_line_has_its_rates_ratio_interval_and_what_could_have_been_seen(
    describe: Describe, cells: Cells
) -> None:
    totals, lines, _ = describe(DATA).tables()
    numbers = ["3.1", "0.4", "0.129", "[0.067, 0.23]", "2e-09", "1.45", "93+12"]
    assert cells(totals)[0] == ["remote HITM", *numbers]
    assert cells(lines) == [
        ["task_group.load_avg", "remote", *numbers, "true -> false", "1",
         "task_group+0x100 -> task_group+0x140"],
    ]  # fmt: skip
    assert lines.anchors == ("task_group.load_avg",)
    assert "HITM per 1000 messages" in lines.caption
    assert lines.caption.endswith("; 4 lines with less contention omitted")


def test_a_line_of_both_kinds_has_two_rows_and_one_anchor(describe: Describe, cells: Cells) -> None:
    _, lines, *_ = describe(with_point(lines=(replace(LINE, local=CHANGE),))).tables()
    assert [row[:2] for row in cells(lines)] == [["task_group.load_avg", "remote"], ["", "local"]]
    assert lines.anchors == ("task_group.load_avg", "")


def test_a_line_that_is_compared_with_nothing_is_no_zero(describe: Describe, cells: Cells) -> None:
    both = (unmatched("base", 1), unmatched("new", 2))
    counted = BaseNew(base=1, new=1)
    _, table, *_ = describe(with_point(lines=both, seen_unmatched=counted)).tables()
    assert cells(table) == [
        ["0xffff888000000100", "7+7", "-", "not compared", "true", "1"],
        ["0xffff888000000200", "-", "7+7", "not compared", "false", "1"],
    ]
    assert "without a match on the other side (addresses differ between boots)" in table.caption
    assert table.anchors == ("0xffff888000000100", "0xffff888000000200")


def test_unmatched_lines_of_both_sides_are_cut_alike(describe: Describe, cells: Cells) -> None:
    lines = [unmatched("base", number) for number in range(20)]
    lines += [unmatched("new", 32 + number) for number in range(20)]
    counted = BaseNew(base=20, new=20)
    _, table, *_ = describe(with_point(lines=tuple(lines), seen_unmatched=counted)).tables()
    shown = [row[1] == "-" for row in cells(table)[: table.limit]]
    assert shown.count(True) == shown.count(False) == 5


def test_a_line_that_one_side_alone_has_is_shown_for_that_side(
    describe: Describe, cells: Cells
) -> None:
    gone = replace(LINE, new=None, name=None, row="0xffff888000000100")
    _, lines, table = describe(with_point(lines=(gone,))).tables()
    assert cells(lines)[0][0] == "0xffff888000000100"
    assert [row[0] for row in cells(table) if row[0].startswith(("base", "new"))] == [
        "base, task_group+0x100"
    ]


def test_an_open_end_of_an_interval_is_no_number(describe: Describe, cells: Cells) -> None:
    change = replace(CHANGE, ratio=None, ratio_high=None)
    totals = describe(with_point(totals=replace(POINT.totals, remote=change))).tables()[0]
    assert cells(totals)[0][3:5] == ["-", "[0.067, -]"]


def test_nothing_seen_is_not_could_not_see(
    describe: Describe, make_comparison: Callable[..., Comparison], to_blocks: ToBlocks
) -> None:
    none = C2cTotals(remote=NOTHING, local=NOTHING, stores=NOTHING)
    nothing = describe(with_point(lines=(), totals=none)).texts()
    assert "no contended lines: 0 of 3000 memory samples are contended loads" in nothing
    without_table = describe(with_point(lines=())).texts()
    assert (
        "contended lines are unknown, because the input contains no complete table of cache lines"
        in (without_table)
    )
    absent = Section(schema="", status="absent", reason="base: no PEBS here", data=None)
    blocks = to_blocks(c2c(make_comparison(sections={"c2c": absent})))
    assert blocks.texts() == ["not measured: base: no PEBS here"]
    assert to_blocks(c2c(make_comparison(sections={}))).texts() == ["not analysed"]


def test_why_rates_are_not_compared_is_a_warning(describe: Describe, cells: Cells) -> None:
    found = describe(
        with_point(reason="periods differ", unit=None, model=None, phi=None, least_ratio=None)
    )
    (warning,) = [block for block in found if isinstance(block, Text) and block.tone == "warning"]
    assert warning.text == "rates not compared: periods differ"
    totals, lines, _ = found.tables()
    assert cells(totals)[0] == ["remote HITM", "93", "12"]
    assert cells(lines)[0][:4] == ["task_group.load_avg", "remote", "93", "12"]
    assert "HITM samples" in lines.caption
    assert cells(found.tables()[2])[1][-1] == "-"


def test_too_few_samples_to_see_a_change_are_said(describe: Describe) -> None:
    found = describe(with_point(least_ratio=None)).texts()
    assert "too few samples to estimate the smallest detectable change" in found


def test_what_could_have_been_seen_and_how_counts_scatter_is_said(describe: Describe) -> None:
    said = describe(DATA).texts()
    assert (
        "rates per 1000 messages are extrapolated from the samples to all accesses; negative "
        "binomial model of sample counts per run (CV 20%); the smallest detectable ratio (80% "
        "power) for the line with the most samples is 1.45"
    ) in said
    assert "base and new: who wrote a line cannot be seen" in said
    steady = describe(with_point(phi=0.0, model="Poisson")).texts()
    assert any("Poisson model of sample counts per run; the smallest" in text for text in steady)


@pytest.mark.parametrize(
    ("observable", "words"),
    [("ibs", "not comparable with Intel's HITM"), ("peer", "not comparable with HITM")],
)
def test_each_observable_is_called_what_it_is(
    describe: Describe, observable: str, words: str
) -> None:
    both = BaseNew(base=observable, new=observable)
    blocks = describe(with_point(observable=both, ldlat=BaseNew(base=None, new=30)))
    assert words in blocks.texts()[0]
    assert "any latency in base and latency of 30 cycles or more in new" in blocks.texts()[0]


def test_a_missing_side_and_a_side_without_common_points_are_said(describe: Describe) -> None:
    data = C2c(
        comparisons=(C2cComparison(side="new", points=(), notes=("sampled on base only",)),),
        missing=(MissingSide(side="new2", reason="new2: no PEBS"),),
    )
    assert describe(data).texts() == [
        "no workload was sampled with the same parameters in base and new",
        "sampled on base only",
        "not measured: new2: no PEBS",
    ]


def test_a_run_is_an_operation_by_itself(describe: Describe) -> None:
    totals = describe(with_point(unit="run", per=1)).tables()[0]
    assert totals.caption == "totals over all addresses, per run"


def test_a_terminal_of_80_columns_holds_it(report: Callable[..., Comparison]) -> None:
    text = draw_text(report(DATA), Options(width=80, colour=False, everything=True))
    part = text[text.index("Bouncing cache lines") :]
    assert "task_group.load_avg" in part
    assert max(map(len, part.splitlines())) <= 80
