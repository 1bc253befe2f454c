# SPDX-License-Identifier: GPL-2.0-or-later
"""Where tasks went as tables: rows by subject, what changed first, what was not seen."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.placement.record import (
    NotComparedPart,
    Part,
    PlacementProgram,
    PlacementRow,
)
from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Items
from schedperf_reports.formats import Options
from schedperf_reports.formats.html import html
from schedperf_reports.formats.text import text as draw_text
from tests.placement_records import placement_side

Describe = Callable[..., Any]
Numbered = Callable[..., list[PlacementRow]]


INVALID: dict[str, Any] = {"status": "invalid", "reason": "seen otherwise", "changed": None}
UNSEEN: dict[Part, str | None] = {"source": None, "attempts": "load_balance"}


def items_of(blocks: Any) -> list[str]:
    found = [block for block in blocks if isinstance(block, Items)]
    return [item.text for block in found for item in block.items]


def test_a_changed_row_is_strong_and_has_the_anchor_of_its_finding(
    describe: Describe, forks: PlacementRow
) -> None:
    [table] = describe(forks).tables()
    assert table.anchors == ("new-0",)
    assert table.rows[0][0].tone == "strong"


@pytest.fixture
def count(forks: PlacementRow) -> PlacementRow:
    """Return the row of how many forks an operation has."""
    return replace(
        forks, name="forks", field="count", basis="operation", unit="1/message", base=0.004,
        new=0.005, ratio=1.25, ci_low=0.9, ci_high=1.7, changed=False, events_base=400.0,
        events_new=500.0,
    )  # fmt: skip


def test_what_changed_most_comes_first(
    describe: Describe, cells: Any, forks: PlacementRow, numbered: Numbered
) -> None:
    rows = numbered(
        replace(forks, name="invalid", **INVALID, ratio=None),
        replace(forks, name="noise", changed=False, ratio=99.0),
        replace(forks, name="small", ratio=1.1),
        replace(forks, name="large", ratio=0.1),
        replace(forks, name="new only", ratio=None),
    )
    changed, rest = describe(*rows).tables()
    assert [row[0] for row in cells(changed)] == ["new only", "large", "small"]
    assert [row[0] for row in cells(rest)] == ["invalid", "noise"]
    assert cells(rest)[0][4] == "invalid"


def test_the_whole_machine_is_one_table_of_events_a_run(
    describe: Describe, cells: Any, numbered: Numbered, count: PlacementRow
) -> None:
    crossing = replace(count, name="forks: between nodes", field="crossing")
    rows = numbered(
        count,
        replace(count, basis="time", unit="1/s"),
        crossing,
        replace(crossing, basis="share", unit="", base=0.25, new=0.5),
        replace(count, name="forks at NUMA", level="NUMA"),
        replace(count, name="forks at MC", level="MC"),
        replace(count, part="migration", name="migrations", ratio=None),
        replace(count, part="cause", cause="wakeup", name="migrations by wakeup",
         ci_low=1e-9, ci_high=1e9),
        replace(count, part="latency", field="p99", name="wait: p99", basis="share",
         unit="s", base=1e-4, new=2e-4),
        replace(count, part="attempts", name="load balancing attempts"),
        replace(count, part="pinned", field="some_pinned",
         name="load balancing attempts: some pinned", basis="share", unit="", base=0.5, new=0.25),
    )  # fmt: skip
    overview, moves = describe(*rows).tables()
    assert overview.limit is None
    none = ["sched_balance_find_dst_group()", ""]
    assert cells(overview) == [
        ["forks", "400", "500", "+25.0%", "[-10.0%, +70.0%]", none[0], "25.0% -> 50.0%"],
        ["migrations", "400", "500", "-", "[-10.0%, +70.0%]", *none],
        [" by wakeup", "400", "500", "+25.0%", "too wide", *none],
        ["wait: p99", "100 us", "200 us", "+25.0%", "[-10.0%, +70.0%]", *none],
        ["load balancing attempts", "400", "500", "+25.0%", "[-10.0%, +70.0%]", *none],
        [" some pinned", "50.0%", "25.0%", "+25.0%", "[-10.0%, +70.0%]", *none],
    ]
    # NUMA is between nodes, and the whole machine stands before levels.
    assert moves.limit == 0
    assert [row[:4] for row in cells(moves)] == [
        ["forks: between nodes", "1000 messages", "4", "5"],
        ["forks: between nodes", "share", "25.0%", "50.0%"],
        ["forks at MC", "1000 messages", "4", "5"],
    ]


def test_a_terminal_is_short_and_the_page_has_all(
    compared: Callable[..., Comparison], numbered: Numbered, count: PlacementRow
) -> None:
    levels = [replace(count, name=f"forks at L{one}", level=f"L{one}") for one in range(300)]
    comparison = compared(*numbered(count, *levels))
    text = draw_text(comparison, Options(width=78, colour=False, see="--html", everything=True))
    assert "forks at L" not in text
    assert (
        "other moves by level and node: 0 of 300 rows changed significantly; "
        "n = 5+5 runs (see --html)" in " ".join(text.split())
    )
    assert "forks at L299" in html(comparison, Options(width=78, colour=False, see="--html"))


def test_waits_are_quantiles_means_and_the_longest(
    describe: Describe, cells: Any, forks: PlacementRow, numbered: Numbered
) -> None:
    wait = replace(forks, part="latency", unit="s", base=1e-4, new=4e-4)
    rows = numbered(
        *(replace(wait, name=one, field=one) for one in ("p50", "p99.9", "mean", "max"))
    )
    [table] = describe(*rows).tables()
    assert [row[:2] for row in cells(table)] == [
        ["p50", "quantile"],
        ["p99.9", "quantile"],
        ["mean", "mean"],
        ["max", "longest"],
    ]


def test_times_and_means_have_their_own_units(
    describe: Describe, cells: Any, forks: PlacementRow
) -> None:
    wait = replace(forks, part="latency", name="wait", unit="s", base=1e-4, new=4e-4)
    depth = replace(forks, part="depth", name="depth", unit="level", base=1.5, new=2.0)
    [table] = describe(wait, depth).tables()
    assert [row[1:4] for row in cells(table)] == [
        ["mean", "100 us", "400 us"],
        ["mean", "1.5", "2"],
    ]


def test_one_side_alone_is_a_table_of_its_values(
    describe: Describe, cells: Any, forks: PlacementRow
) -> None:
    alone = replace(forks, side="base", new=None, n_new=0, changed=None)
    blocks = describe(alone, sides=(placement_side(),))
    [table] = blocks.tables()
    assert cells(table) == [["forks: between nodes", "share", "1.1%", "share between nodes"]]
    assert not any("noise" in text for text in blocks.texts())


def test_too_few_runs_and_drift_are_said(describe: Describe, forks: PlacementRow) -> None:
    few = replace(forks, changed=None, p=None)
    assert describe(few).texts()[0].startswith("too few runs per side: significance unknown")
    drifted = describe(replace(forks, changed=None)).texts()[0]
    assert "1 more differs, but may be drift" in drifted


def test_what_must_not_be_compared_is_not_counted_as_unchanged(
    describe: Describe, forks: PlacementRow
) -> None:
    invalid = replace(forks, **INVALID, p=None)
    blocks = describe(forks, replace(invalid, name="execs"))
    assert blocks.texts()[0].startswith("1 of 1 row changed significantly; ")
    told = describe(invalid).texts()
    assert not any("significant:" in text for text in told)
    assert told[1].startswith("counts on all CPUs")


def test_what_was_not_seen_is_said_once_for_all_sides(
    describe: Describe, forks: PlacementRow
) -> None:
    programs = [
        PlacementProgram(
            side=side, part=part, mechanism=None, function=function, reason="fentry: EPERM"
        )
        for part, function in UNSEEN.items()
        for side in ("base", "new")
    ]
    seen = PlacementProgram(
        side="new", part="fork", mechanism="tracepoint", function=None, reason=None
    )
    refused = NotComparedPart(
        side="new", what="cause", reason="observed by different mechanisms: base by a, new by b"
    )
    assert items_of(describe(forks, programs=(*programs, seen), not_compared=(refused,))) == [
        "not measured on base and new: source, attempts (load_balance): fentry: EPERM",
        "not compared with new: cause: observed by different mechanisms: base by a, new by b",
    ]
