"""The report's counters: one table a workload and point, no verdict, and what is missing."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from schedperf.model import Comparison, Section
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.sections import all_report_sections
from schedperf_reports.sections.counters import counters

Describe = Callable[..., list[Block]]

CHANGE = {
    "base": 61240.0, "new": 91860.0, "difference": 30620.0, "ci_low": 24496.0, "ci_high": 36744.0,
    "p": 0.001, "ratio": 1.5,
}  # fmt: skip
NOTHING = dict.fromkeys(CHANGE)


def row(**changes: object) -> dict[str, object]:
    return {
        "side": "new",
        "workload": "hackbench -g {groups}",
        "point": "groups=4",
        "event": "sched:sched_switch",
        "node": None,
        "unit": "count",
        "n_base": 5,
        "n_new": 5,
        "scaled": False,
        "total": CHANGE,
        "per_second": CHANGE,
        **changes,
    }


@pytest.fixture
def describe(make_comparison: Callable[..., Comparison]) -> Describe:
    """Return the blocks for a section's data."""

    def run(*rows: Mapping[str, object], **data: Any) -> list[Block]:
        values = {"rows": list(rows), "not_counted": [], "notes": []} | data
        section = Section(
            schema="schedperf/section/counters/1", status="ok", reason=None, data=values
        )
        return list(counters(make_comparison(sections={"counters": section})))

    return run


def texts(table: Block) -> list[list[str]]:
    assert isinstance(table, Table)
    return [[cell.text for cell in cells] for cells in table.rows]


def test_it_stands_between_benchmarks_and_layout() -> None:
    orders = {section.name: section.order for section in all_report_sections()}
    assert orders["counters"] == 30


def test_a_row_shows_both_sides_the_change_and_its_interval(describe: Describe) -> None:
    table, *_ = describe(row())
    assert texts(table) == [
        ["sched:sched_switch", "61.24 k", "91.86 k", "+50.0 %", "+40.0..+60.0", "+50.0 %", "5 + 5"]
    ]


def test_nothing_is_called_better_or_worse(describe: Describe) -> None:
    table, *_ = describe(row())
    assert isinstance(table, Table)
    assert {cell.tone for cells in table.rows for cell in cells} == {"plain"}


def test_each_workload_point_and_side_has_its_table(describe: Describe) -> None:
    rows = [row(), row(point="groups=16"), row(side="new2"), row(workload="sleep 1", point="")]
    captions = [block.caption for block in describe(*rows) if isinstance(block, Table)]
    assert captions == [
        "hackbench -g {groups} at groups=4: events in a run, base against new",
        "hackbench -g {groups} at groups=16: events in a run, base against new",
        "hackbench -g {groups} at groups=4: events in a run, base against new2",
        "sleep 1: events in a run, base against new",
    ]


def test_missing_counts_are_dashes(describe: Describe) -> None:
    table, *_ = describe(row(total=NOTHING, per_second=NOTHING, n_base=0, n_new=0))
    assert texts(table) == [["sched:sched_switch", "-", "-", "-", "-", "-", "0 + 0"]]


def test_nodes_and_estimates_are_named(describe: Describe) -> None:
    table, *_ = describe(row(node=1, scaled=True))
    assert texts(table)[0][0] == "sched:sched_switch (node 1) (estimated)"


def test_events_that_could_not_be_counted_share_one_sentence_a_reason(describe: Describe) -> None:
    entries = [
        {"side": "base", "event": event, "reason": "perf says: not supported"}
        for event in ("cycles", "instructions")
    ]
    said = [block.text for block in describe(row(), not_counted=entries) if isinstance(block, Text)]
    assert "not counted in base (perf says: not supported): cycles, instructions" in said


def test_notes_are_warnings_and_few(describe: Describe) -> None:
    blocks = describe(row(), notes=[f"note {number}" for number in range(100)])
    warnings = [block for block in blocks if isinstance(block, Text) and block.tone == "warning"]
    assert len(warnings) == 6
    assert warnings[-1].text == "95 more notes"


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({}, "not analysed"),
        (
            {"counters": Section(schema="s", status="absent", reason="no perf_stat", data=None)},
            "no perf_stat",
        ),
    ],
)
def test_an_absent_analysis_is_one_line(
    make_comparison: Callable[..., Comparison], sections: dict[str, Section], said: str
) -> None:
    comparison = dataclasses.replace(make_comparison(), sections=sections)
    [block] = counters(comparison)
    assert isinstance(block, Text)
    assert block.text == said


def test_zero_is_zero_without_a_unit(describe: Describe) -> None:
    zeros = CHANGE | {"base": 0.0, "new": 0.0, "ratio": None}
    table, *_ = describe(row(total=zeros))
    assert texts(table)[0][1:5] == ["0", "0", "-", "-"]
