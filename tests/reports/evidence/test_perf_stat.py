# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's counters: one table a workload and point, no verdict, and what is missing."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.perf_stat.record import (
    CounterRow,
    Counters,
    CounterSide,
    NotCounted,
    Scope,
)
from schedperf.model.comparison import Comparison
from schedperf.model.perf_event import parse_event
from schedperf.model.sections import MissingSide, Section
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.evidence.perf_stat import counters

Describe = Callable[..., list[Block]]


_ROW = CounterRow(
    row="new-0", side="new", workload="hackbench -g {groups}", point="groups=4",
    event="sched:sched_switch", perf_event=parse_event("sched:sched_switch"), node=None,
    scope="machine",
    basis="time", unit="1/s", scaled=False, n_base=5, n_new=5, replication="runs",
    base=61240.0, new=91860.0, ratio=1.5, ci_low=1.4, ci_high=1.6,
    p=0.001, q=0.002, changed=True, total_base=122480.0, total_new=183720.0, values_base=(),
    values_new=(),
)  # fmt: skip
_DATA = Counters(
    sides=tuple(
        CounterSide(
            side=side, runs=5, kind="instrumented", workload_runs=0,
            no_workload="recorded by an earlier version",
        )
        for side in ("base", "new")
    ),
    rows=(), zeros=(), workload_zeros=(), not_counted=(), missing=(), notes=(),
)  # fmt: skip


def row(**changes: Any) -> CounterRow:
    return replace(_ROW, **changes)


@pytest.fixture
def describe(make_comparison: Callable[..., Comparison]) -> Describe:
    """Return the blocks for a section's data."""

    def run(*rows: CounterRow, **changes: Any) -> list[Block]:
        data = replace(_DATA, rows=rows, **changes)
        section = Section.of(data)
        return list(counters(make_comparison(sections={"counters": section})))

    return run


def test_events_of_user_space_are_said_not_to_count_the_kernel(describe: Describe) -> None:
    def said(*events: str) -> list[str]:
        rows = [row(event=event, perf_event=parse_event(event)) for event in events]
        texts = [block.text for block in describe(*rows) if isinstance(block, Text)]
        return [text for text in texts if "kernel" in text]

    assert said("cycles:u", "cycles") == ["cycles:u does not count the kernel"]
    assert said("cycles:u", "cpu_core/instructions/u") == [
        "cycles:u and cpu_core/instructions/u do not count the kernel"
    ]
    assert said("cycles", "cycles:k", "cycles:uk", "sched:sched_switch") == []


def table_of(blocks: list[Block]) -> Table:
    [table] = [block for block in blocks if isinstance(block, Table)]
    return table


def texts(blocks: list[Block]) -> list[list[str]]:
    return [[cell.text for cell in cells] for cells in table_of(blocks).rows]


def said(blocks: list[Block]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text)]


def test_a_row_shows_the_rates_the_change_and_its_interval_and_the_totals(
    describe: Describe,
) -> None:
    assert texts(describe(row())) == [
        ["sched:sched_switch", "second", "61240", "91860", "* +50.0%", "[+40.0%, +60.0%]",
         "5+5 runs", "122480", "183720"],
    ]  # fmt: skip


def test_a_share_has_the_count_of_its_event_beside_it(describe: Describe) -> None:
    share = row(
        event="cpu_core/cycles/", perf_event=parse_event("cpu_core/cycles/"), basis="share",
        unit="", base=0.8, new=0.4, ratio=0.5, total_base=8e8, total_new=4e8,
    )  # fmt: skip
    (cells,) = texts(describe(share))
    assert cells[0] == "cpu_core/cycles/, share of all core types"
    assert (cells[2], cells[3], *cells[-2:]) == ("80.0%", "40.0%", "8e+08", "4e+08")


def test_times_have_their_unit(describe: Describe) -> None:
    clock = row(
        event="cpu-clock", unit="s/message", basis="operation", base=0.00061, new=0.00084,
        total_base=0.61, total_new=0.84, n_base=3, n_new=3, replication="rounds",
    )  # fmt: skip
    [cells] = texts(describe(clock))
    assert cells[:4] == ["cpu-clock", "message", "610 us", "840 us"]
    assert cells[6:] == ["3 pairs", "610 ms", "840 ms"]


def test_what_changed_stands_out_and_nothing_is_called_better_or_worse(describe: Describe) -> None:
    rows = table_of(describe(row(changed=None), row(event="faults"))).rows
    assert [{cell.tone for cell in cells} for cells in rows] == [{"strong"}, {"plain"}]


def test_operations_come_before_seconds_and_the_machine_before_its_nodes(
    describe: Describe,
) -> None:
    message: dict[str, Any] = {"basis": "operation", "unit": "1/message"}
    blocks = describe(
        row(row="a", node=1), row(row="b"), row(row="c", event="c", node=1, **message),
        row(row="d", event="d", changed=False, **message), row(row="e", event="e", **message),
    )  # fmt: skip
    assert table_of(blocks).anchors == ("e", "d", "c", "b", "a")


def test_the_same_event_a_second_is_what_its_row_opens_to(describe: Describe) -> None:
    message = row(row="m", basis="operation", unit="1/message", base=0.5, new=0.75)
    table = table_of(describe(row(row="s"), message))
    assert table.anchors == ("m",)
    [[chance, twins]] = table.details
    assert isinstance(chance, Text)
    assert chance.text == (
        "q = 0.002 (p = 0.001; q is corrected over all machine-wide rows with rates per operation)"
    )
    assert isinstance(twins, Table)
    assert twins.anchors == ("s",)
    assert twins.rows[0][0].text == "second"


def test_what_was_zero_and_sides_without_counts_are_named(describe: Describe) -> None:
    missing = (MissingSide(side="new2", reason="perf is not permitted"),)
    blocks = describe(row(), zeros=["alignment-faults", "cgroup-switches"], missing=missing)
    assert said(blocks)[3:] == [
        "events with a count of 0 in all runs: alignment-faults, cgroup-switches",
        "no counters in new2: perf is not permitted",
    ]


def test_each_workload_point_and_side_has_its_table(describe: Describe) -> None:
    rows = [row(), row(point="groups=16"), row(side="new2"), row(workload="sleep 1", point="")]
    captions = [block.caption for block in describe(*rows) if isinstance(block, Table)]
    changed = ": 1 of 1 row changed significantly: sched:sched_switch +50.0%"
    assert captions == [
        f"hackbench -g {{groups}} at groups=4, new vs base: events of the whole machine{changed}",
        f"hackbench -g {{groups}} at groups=16, new vs base: events of the whole machine{changed}",
        f"hackbench -g {{groups}} at groups=4, new2 vs base: events of the whole machine{changed}",
        f"sleep 1, new vs base: events of the whole machine{changed}",
    ]


def test_what_has_no_ratio_has_dashes_and_zero_is_zero(describe: Describe) -> None:
    zero = row(base=0.0, total_base=0.0, ratio=None, ci_low=None, ci_high=None)
    assert texts(describe(zero))[0][2:6] == ["0", "91860", "* -", "-"]


def test_nodes_and_estimates_are_named(describe: Describe) -> None:
    [cells] = texts(describe(row(node=1, scaled=True)))
    assert cells[0] == "sched:sched_switch (node 1) (estimated)"


def test_events_that_could_not_be_counted_share_one_sentence_a_reason(describe: Describe) -> None:
    entries = tuple(
        NotCounted(side="base", scope="machine", event=event, reason="perf says: not supported")
        for event in ("cycles", "instructions")
    )
    sentence = "not counted in base (perf says: not supported): cycles, instructions"
    assert sentence in said(describe(row(), not_counted=entries))


def test_notes_are_warnings_and_few(describe: Describe) -> None:
    blocks = describe(row(), notes=[f"note {number}" for number in range(100)])
    warnings = [block for block in blocks if isinstance(block, Text) and block.tone == "warning"]
    assert len(warnings) == 6
    assert warnings[-1].text == "95 more notes"


def test_events_of_the_workload_come_before_those_of_the_machine(describe: Describe) -> None:
    own = row(
        row="own", scope="workload", event="context-switches", changed=False, ratio=1.01,
        perf_event=parse_event("context-switches"),
    )  # fmt: skip
    blocks = describe(row(), own)
    tables = [block for block in blocks if isinstance(block, Table)]
    assert [table.anchors for table in tables] == [("own",), ("new-0",)]
    assert [table.caption.partition(":")[0] for table in tables] == [
        "events of the workload", "events of the whole machine",
    ]  # fmt: skip
    assert "largest: sched:sched_switch (whole machine): +50.0%" in said(blocks)[0]


def test_the_largest_change_is_that_of_the_workload(describe: Describe) -> None:
    own = row(row="own", scope="workload", ratio=1.1, ci_low=1.05, ci_high=1.15)
    assert "largest of the workload: sched:sched_switch: +10.0%" in said(describe(row(), own))[0]


def test_sides_without_events_of_the_workload_say_why(describe: Describe) -> None:
    base = CounterSide(side="base", runs=5, kind="instrumented", workload_runs=5, no_workload=None)
    sides = (
        base,
        replace(base, side="new", workload_runs=0, no_workload="perf hung"),
        replace(base, side="new2", workload_runs=3, no_workload="perf hung"),
    )
    assert said(describe(row(), sides=sides))[1] == (
        "base: 5 instrumented runs; "
        "new: 5 instrumented runs, events of the whole machine only (perf hung); "
        "new2: 5 instrumented runs, events of the workload in 3 of them only (perf hung)"
    )


def test_what_neither_counts_is_said_once(describe: Describe) -> None:
    counted: tuple[tuple[Scope, str], ...] = (
        ("machine", "cycles"), ("workload", "cycles"), ("workload", "task-clock"),
    )  # fmt: skip
    entries = tuple(
        NotCounted(side="base", scope=scope, event=event, reason="not supported")
        for scope, event in counted
    )  # fmt: skip
    texts = [text for text in said(describe(row(), not_counted=entries)) if "not counted" in text]
    assert texts == [
        "not counted for the workload in base (not supported): task-clock",
        "not counted in base (not supported): cycles",
    ]
