"""The report of where tasks went: what was not seen, tables by subject, lines over time."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from schedperf.model import Comparison, Section
from schedperf_reports.blocks import Figure, Items, Table, Text
from schedperf_reports.formats import Options
from schedperf_reports.formats.html import html
from schedperf_reports.formats.text import text as draw_text
from schedperf_reports.graphics.matrix import Matrix
from schedperf_reports.graphics.mirror import Mirror
from schedperf_reports.sections import all_report_sections
from schedperf_reports.sections._placement_time import draw_blocks
from schedperf_reports.sections.placement import placement

Describe = Callable[..., Any]

ROW: dict[str, Any] = {
    "row": "new-0",
    "side": "new",
    "workload": "hackbench",
    "point": "groups=4",
    "name": "forks: between nodes",
    "part": "fork",
    "field": "crossing",
    "cause": "",
    "level": "",
    "idle": "",
    "nodes": [],
    "groups": [],
    "basis": "share",
    "meaning": "share between nodes",
    "function": "sched_balance_find_dst_group()",
    "status": "ok",
    "reason": None,
    "events_base": 1000.0,
    "events_new": 1000.0,
    "unit": "",
    "n_base": 5,
    "n_new": 5,
    "base": 0.011,
    "new": 0.12,
    "ratio": 10.9,
    "ci_low": 9.0,
    "ci_high": 13.0,
    "p": 1e-6,
    "q": 1e-5,
    "changed": True,
    "replication": "runs",
}
PLACE = {"workload": "hackbench", "point": "groups=4"}
SERIES = {**PLACE, "event": "migration"}
TIMER = {
    **PLACE, "groups": ["/a", "/b"], "period_s": 0.1, "resolution_s": 0.0015625, "runs": 5,
}  # fmt: skip
CAPTION = "hackbench at groups=4, base against new"


@pytest.fixture
def compared(make_comparison: Callable[..., Comparison]) -> Callable[..., Comparison]:
    """Build the record of a section's data."""

    def make(*rows: dict[str, Any], **data: Any) -> Comparison:
        side = {"side": "base", "runs": 5, "mechanisms": ["bpf"], "nodes": 2, "seconds": 9.0}
        values: dict[str, Any] = {
            "sides": [side, {**side, "side": "new"}],
            "rows": list(rows),
            **{name: [] for name in ("programs", "not_compared", "series", "depths", "timers")},
            **{name: [] for name in ("moves", "waits", "phases")},
            "zeros": [],
            "notes": [],
        }
        section = Section(
            schema="schedperf/section/placement/1", status="ok", reason=None, data=values | data
        )
        return make_comparison(sections={"placement": section})

    return make


@pytest.fixture
def describe(compared: Callable[..., Comparison], to_blocks: Callable[..., Any]) -> Describe:
    """Return the blocks for a section's data."""
    return lambda *rows, **data: to_blocks(placement(compared(*rows, **data)))


def items_of(blocks: Any) -> list[str]:
    found = [block for block in blocks if isinstance(block, Items)]
    return [item.text for block in found for item in block.items]


def test_it_stands_behind_the_scheduler_statistics() -> None:
    orders = {section.name: section.order for section in all_report_sections()}
    assert orders["schedstat"] < orders["placement"] < orders["counters"]


def test_a_row_has_values_change_and_interval(describe: Describe, cells: Any) -> None:
    blocks = describe(ROW)
    [table] = blocks.tables()
    assert table.caption == "changed beyond noise"
    assert cells(table) == [
        ["forks: between nodes", "share", "1.1 %", "12.0 %", "+990.0 %", "+800.0..+1200",
         "1000 -> 1000", "5 + 5", "sched_balance_find_dst_group()"],
    ]  # fmt: skip
    assert table.anchors == ("new-0",)
    assert table.rows[0][0].tone == "strong"
    assert blocks.texts()[:2] == [
        (
            "1 of 1 row changed beyond noise; most of all forks: between nodes: +990.0 %, 1.1 % -> "
            "12.0 % (5 + 5 runs, 95 % interval +800.0..+1200 %)"
        ),
        "base: 5 runs seen by bpf on 2 nodes; new: 5 runs seen by bpf on 2 nodes",
    ]


def numbered(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**row, "row": f"new-{number}"} for number, row in enumerate(rows)]


COUNT = {
    **ROW, "name": "forks", "field": "count", "basis": "operation", "unit": "1/message",
    "base": 0.004, "new": 0.005, "ratio": 1.25, "ci_low": 0.9, "ci_high": 1.7, "changed": False,
    "events_base": 400.0, "events_new": 500.0,
}  # fmt: skip


def test_what_changed_most_comes_first(describe: Describe, cells: Any) -> None:
    rows = numbered(
        {**ROW, "name": "invalid", "status": "invalid", "changed": None, "ratio": None},
        {**ROW, "name": "noise", "changed": False, "ratio": 99.0},
        {**ROW, "name": "small", "ratio": 1.1},
        {**ROW, "name": "large", "ratio": 0.1},
        {**ROW, "name": "new only", "ratio": None},
    )
    changed, rest = describe(*rows).tables()
    assert [row[0] for row in cells(changed)] == ["new only", "large", "small"]
    assert [row[0] for row in cells(rest)] == ["invalid", "noise"]
    assert cells(rest)[0][4] == "invalid"


def test_the_whole_machine_is_one_table_of_events_a_run(describe: Describe, cells: Any) -> None:
    crossing = {**COUNT, "name": "forks: between nodes", "field": "crossing"}
    rows = numbered(
        COUNT,
        {**COUNT, "basis": "time", "unit": "1/s"},
        crossing,
        {**crossing, "basis": "share", "unit": "", "base": 0.25, "new": 0.5},
        {**COUNT, "name": "forks at NUMA", "level": "NUMA"},
        {**COUNT, "name": "forks at MC", "level": "MC"},
        {**COUNT, "part": "migration", "name": "migrations", "ratio": None},
        {**COUNT, "part": "cause", "cause": "wakeup", "name": "migrations by wakeup",
         "ci_low": 1e-9, "ci_high": 1e9},
        {**COUNT, "part": "latency", "field": "p99", "name": "wait: p99", "basis": "share",
         "unit": "s", "base": 1e-4, "new": 2e-4},
        {**COUNT, "part": "attempts", "name": "balance attempts"},
        {**COUNT, "part": "pinned", "field": "some_pinned", "name": "balance attempts: some pinned",
         "basis": "share", "unit": "", "base": 0.5, "new": 0.25},
    )  # fmt: skip
    blocks = describe(*rows)
    overview, moves = blocks.tables()
    assert overview.caption == (
        "the whole machine: events a run, changes of their rate per message; n = 5 + 5"
    )
    assert overview.limit is None
    none = ["sched_balance_find_dst_group()", ""]
    assert cells(overview) == [
        ["forks", "400", "500", "+25.0 %", "-10.0..+70.0", none[0], "25.0 -> 50.0 %"],
        ["migrations", "400", "500", "-", "-10.0..+70.0", *none],
        [" by wakeup", "400", "500", "+25.0 %", "too wide", *none],
        ["wait: p99", "100 us", "200 us", "+25.0 %", "-10.0..+70.0", *none],
        ["balance attempts", "400", "500", "+25.0 %", "-10.0..+70.0", *none],
        [" some pinned", "50.0 %", "25.0 %", "+25.0 %", "-10.0..+70.0", *none],
    ]
    # NUMA is between nodes, and the whole machine stands before levels.
    assert moves.limit == 0
    assert moves.caption == "moves by level and node, 3 more rows; n = 5 + 5"
    assert [row[:4] for row in cells(moves)] == [
        ["forks: between nodes", "1000 messages", "4", "5"],
        ["forks: between nodes", "share", "25.0 %", "50.0 %"],
        ["forks at MC", "1000 messages", "4", "5"],
    ]
    texts = blocks.texts()
    assert "no change where a run or a boot has 0: there is nothing to divide by" in texts
    assert any(text.startswith("too wide: an interval whose ends") for text in texts)


def test_a_terminal_is_short_and_the_page_has_all(compared: Callable[..., Comparison]) -> None:
    levels = [{**COUNT, "name": f"forks at L{one}", "level": f"L{one}"} for one in range(300)]
    comparison = compared(*numbered(COUNT, *levels))
    text = draw_text(comparison, Options(width=78, colour=False, see="--html", everything=True))
    assert "forks at L" not in text
    assert "300 more rows" in text
    assert "forks at L299" in html(comparison, Options(width=78, colour=False, see="--html"))


def test_waits_are_quantiles_means_and_the_longest(describe: Describe, cells: Any) -> None:
    wait = {**ROW, "part": "latency", "unit": "s", "base": 1e-4, "new": 4e-4}
    rows = numbered(
        *({**wait, "name": one, "field": one} for one in ("p50", "p99.9", "mean", "max"))
    )
    [table] = describe(*rows).tables()
    assert [row[:2] for row in cells(table)] == [
        ["p50", "quantile"],
        ["p99.9", "quantile"],
        ["mean", "mean"],
        ["max", "longest"],
    ]


def test_subjects_have_tables_of_their_own(describe: Describe) -> None:
    parts = ("latency", "attempts", "timers", "fork")
    rows = numbered(*({**ROW, "part": part, "changed": False} for part in parts))
    assert [(table.caption, table.limit) for table in describe(*rows).tables()] == [
        ("moves by level and node, 1 more row", 0),
        ("waits for a CPU, and depth of task groups, 1 more row", 0),
        ("answers of the balancer, by level, 1 more row", 0),
        ("bandwidth timers, 1 more row", 0),
    ]


def test_several_workloads_are_named_in_the_captions(describe: Describe) -> None:
    captions = [table.caption for table in describe(ROW, {**ROW, "point": ""}).tables()]
    assert captions == [
        f"{CAPTION}: changed beyond noise",
        "hackbench, base against new: changed beyond noise",
    ]


MOVES: dict[str, Any] = {
    **PLACE, "side": "new", "event": "fork", "cause": "", "unit": "1/message",
    "pairs": [[0, 0], [0, 1], [1, 0], [1, 1]], "replication": "runs", "n_base": 5, "n_new": 5,
    "base": [2.0, 2.0, 0.0, 1.0], "new": [2.0, 4.0, 0.0, 1.0], "ci_low": [-0.1, 1.5, 0.0, -0.1],
    "ci_high": [0.1, 2.5, 0.0, 0.1], "changed": [False, True, False, False],
}  # fmt: skip


def test_moves_from_node_to_node_are_a_matrix_and_what_changed_a_row(
    describe: Describe, cells: Any
) -> None:
    pair = {**ROW, "field": "count", "basis": "operation", "unit": "1/message", "base": 2.0}
    rows = numbered(
        {**pair, "nodes": [0, 0], "new": 2.0, "changed": False},
        {**pair, "nodes": [0, 1], "new": 4.0},
        {**pair, "nodes": [0, 1], "basis": "time", "unit": "1/s", "changed": False},
    )
    cause = {**MOVES, "event": "migration", "cause": "numa", "changed": [False] * 4}
    blocks = describe(*rows, moves=[MOVES, cause])
    [table] = blocks.tables()
    assert table.anchors == ("new-1",)
    [matrix] = [block for block in blocks if isinstance(block, Matrix)]
    assert matrix.caption == (
        "moves per 1000 messages from node to node, 1 of 8 numbers changed beyond noise (5 + 5 "
        "runs), that of fork"
    )
    assert [band.label for band in matrix.bands] == ["fork", "migration by numa"]
    assert [(label.text, span) for label, span in matrix.groups] == [
        ("base", 2), ("new", 2), ("new - base", 2),
    ]  # fmt: skip
    first = matrix.bands[0].lines[0]
    assert [cell.text for cell in first.cells] == ["2000", "2000", "2000", "4000", "0", "+2000"]
    assert [cell.sign for cell in first.cells] == ["", "", "", "", "", "more"]
    assert first.cells[5].title == (
        "fork, from node 0 to node 1: base 2000 per 1000 messages, new 4000 per 1000 messages, "
        "difference +2000 (+1500..+2500) per 1000 messages, beyond noise"
    )
    [plain] = matrix.plain()
    assert isinstance(plain, Table)
    assert cells(plain)[0] == ["fork", "node 0", "2000 -> 2000", "2000 -> 4000"]
    assert plain.limit is None
    [still] = [one for one in describe(ROW, moves=[cause]) if isinstance(one, Matrix)]
    assert [one.limit for one in still.plain() if isinstance(one, Table)] == [0]


def test_moves_of_one_side_are_a_matrix_of_its_own(describe: Describe) -> None:
    nothing: dict[str, Any] = {name: [None] * 4 for name in ("new", "ci_low", "ci_high", "changed")}
    alone = {**MOVES, **nothing, "side": "base", "n_new": 0, "unit": "1/s"}
    row = {**ROW, "side": "base", "new": None, "n_new": 0, "changed": None}
    [matrix] = [
        one
        for one in describe(row, moves=[alone], sides=[
            {"side": "base", "runs": 5, "mechanisms": ["bpf"], "nodes": 2, "seconds": 9.0}
        ])
        if isinstance(one, Matrix)
    ]  # fmt: skip
    assert [label.text for label, _ in matrix.groups] == ["base"]
    assert matrix.caption == "moves per second from node to node, 5 runs"


def test_a_machine_of_many_nodes_has_narrow_cells_and_no_text(describe: Describe) -> None:
    pairs = [[start, to] for start in range(20) for to in range(20)]
    wide = {
        **MOVES, "pairs": pairs, **{name: [1.0] * 400 for name in ("base", "new")},
        **{name: [0.0] * 400 for name in ("ci_low", "ci_high")}, "changed": [False] * 400,
    }  # fmt: skip
    [matrix] = [one for one in describe(ROW, moves=[wide]) if isinstance(one, Matrix)]
    assert (matrix.size, matrix.plain()) == ("small", ())


def test_waits_and_phases_are_mirrored(describe: Describe) -> None:
    bins = {
        **PLACE, "side": "new", "low": [0.0, 0.5], "high": [0.5, None], "events_base": 10,
        "events_new": 20, "replication": "runs", "n_base": 5, "n_new": 5, "base": [0.75, 0.25],
        "new": [0.25, 0.75], "ci_low": [-0.6, 0.4], "ci_high": [-0.4, 0.6], "changed": [True, True],
    }  # fmt: skip
    phases = [{**bins, "group": name, "period_s": 0.1} for name in ("/a", "/b")]
    found = [one for one in describe(ROW, waits=[bins], phases=phases) if isinstance(one, Mirror)]
    assert found[0].caption == (
        "waits of runnable tasks: 2 of 2 bins changed beyond noise (5 + 5 runs), most of all waits "
        "from 0 ns on: 75.0 % -> 25.0 %"
    )
    assert found[0].bins[0].difference == "-50 pp (-60..-40)"
    assert [one.label for one in found[2].bins] == ["-50 %", "0 %"]
    assert found[2].caption.startswith("bandwidth timer of /b: ")
    assert found[2].caption.endswith("; 0 % is when that of /a expires in the mean")


def test_times_and_means_have_their_own_units(describe: Describe, cells: Any) -> None:
    wait = {**ROW, "part": "latency", "name": "wait", "unit": "s", "base": 1e-4, "new": 4e-4}
    depth = {**ROW, "part": "depth", "name": "depth", "unit": "level", "base": 1.5, "new": 2.0}
    [table] = describe(wait, depth).tables()
    assert [row[1:4] for row in cells(table)] == [
        ["mean", "100 us", "400 us"],
        ["mean", "1.5", "2"],
    ]


def test_one_side_alone_is_a_table_of_its_values(describe: Describe, cells: Any) -> None:
    side = {"side": "base", "runs": 5, "mechanisms": ["bpf"], "nodes": 2, "seconds": 9.0}
    alone = {**ROW, "side": "base", "new": None, "n_new": 0, "changed": None}
    blocks = describe(alone, sides=[side])
    [table] = blocks.tables()
    assert cells(table) == [["forks: between nodes", "share", "1.1 %", "share between nodes"]]
    assert not any("noise" in text for text in blocks.texts())


def test_too_few_runs_and_drift_are_said(describe: Describe) -> None:
    single = describe({**ROW, "changed": None, "p": None}).texts()[0]
    assert single.startswith("one run a side cannot tell a change from noise")
    drifted = describe({**ROW, "changed": None}).texts()[0]
    assert "1 more differ, but may have drifted" in drifted


def test_what_must_not_be_compared_is_not_counted_as_unchanged(describe: Describe) -> None:
    invalid = {**ROW, "status": "invalid", "changed": None, "p": None}
    blocks = describe(ROW, {**invalid, "name": "execs"})
    assert blocks.texts()[0].startswith("1 of 1 row changed beyond noise; ")
    assert not any("beyond noise" in text for text in describe(invalid).texts())


def test_what_was_not_seen_is_said_once_for_all_sides(describe: Describe) -> None:
    programs = [
        {
            "side": side,
            "part": part,
            "mechanism": None,
            "function": function,
            "reason": "fentry: EPERM",
        }
        for part, function in (("source", None), ("attempts", "load_balance"))
        for side in ("base", "new")
    ]
    seen = {"mechanism": "tracepoint", "function": None, "reason": None}
    programs.append({"side": "new", "part": "fork", **seen})
    refused = [
        {"side": "new", "what": "cause", "reason": "seen in different ways: base by a, new by b"},
    ]
    assert items_of(describe(ROW, programs=programs, not_compared=refused)) == [
        "not seen on base and new: source, attempts (load_balance): fentry: EPERM",
        "not compared with new: cause: seen in different ways: base by a, new by b",
    ]


def test_moves_over_time_are_a_line_of_blocks_and_a_figure(describe: Describe, cells: Any) -> None:
    series = [
        {**SERIES, "side": "base", "rates": [0.0, 4.0, 8.0]},
        {**SERIES, "side": "new", "rates": [16.0, 16.0, 16.0]},
        {**SERIES, "side": "new2", "rates": [1.0, 1.0, 1.0]},
    ]
    blocks = describe(ROW, series=series)
    assert cells(blocks.tables()[-1]) == [
        ["migration", "base", "4", "8", "·▂▄"],
        ["migration", "new", "16", "16", "███"],
    ]
    [figure] = [block for block in blocks if isinstance(block, Figure)]
    data: Any = figure.figure["data"]
    assert [(one["name"], one["y"]) for one in data] == [
        ("base", [0.0, 4.0, 8.0]),
        ("new", [16.0, 16.0, 16.0]),
    ]


def test_the_least_that_moves_is_more_than_nothing() -> None:
    assert draw_blocks([0.0, 1e-9, 1.0], 1.0) == "·▁█"


def test_timers_say_when_they_expire(describe: Describe, cells: Any) -> None:
    timers = [
        {**TIMER, "side": "base", "distance_s": 0.0, "word": "together"},
        {**TIMER, "side": "new", "distance_s": 0.041, "word": "apart"},
    ]
    assert cells(describe(ROW, timers=timers).tables()[-1]) == [
        ["base", "/a and /b", "together", "0 ms", "100 ms", "1.562 ms", "5"],
        ["new", "/a and /b", "apart", "41 ms", "100 ms", "1.562 ms", "5"],
    ]


def test_depths_zeros_and_notes_are_sentences(describe: Describe) -> None:
    depths = [
        {**PLACE, "side": "base", "depth": 0, "share": 1.0},
        {**PLACE, "side": "new", "depth": 0, "share": 0.25},
        {**PLACE, "side": "new", "depth": 8, "share": 0.75},
    ]
    notes = [f"{side}: note {number}" for number in range(7) for side in ("base", "new")]
    blocks = describe(ROW, depths=depths, zeros=["execs"], notes=notes)
    assert blocks.tables()[-1].rows[0][0].text == "execs"
    texts = blocks.texts()
    assert (
        "depth of the task groups of the workload's tasks: base 0 (100.0 %); "
        "new 0 (25.0 %), 8 (75.0 %)"
    ) in texts
    assert not any("depth" in text for text in describe(ROW, depths=depths[:2]).texts())
    assert "base and new: note 0" in texts
    assert "2 more notes" in texts


def test_names_of_strangers_are_no_markup(compared: Callable[..., Comparison]) -> None:
    bad = "</script><b onload=alert(1)>\x1b[31m"
    comparison = compared(
        {**ROW, "name": bad, "workload": bad},
        timers=[{**TIMER, "workload": bad, "groups": [bad, bad], "side": "new",
                 "distance_s": 0.0, "word": "apart"}],
        series=[{**SERIES, "workload": bad, "side": "new", "rates": [1.0, 2.0]}],
        notes=[bad],
    )  # fmt: skip
    options = Options(width=100, colour=False, see="--html", everything=True)
    assert "<b onload" not in html(comparison, options)
    assert "\x1b" not in draw_text(comparison, options)


def test_an_absent_section_says_why(make_comparison: Callable[..., Comparison]) -> None:
    section = Section(
        schema="schedperf/section/placement/1", status="absent", reason="no BPF", data=None
    )
    comparison = make_comparison(sections={"placement": section})
    assert list(placement(comparison)) == [Text(text="no BPF", tone="muted")]
    without = dataclasses.replace(comparison, sections={})
    assert list(placement(without)) == [Text(text="not analysed", tone="muted")]
