# SPDX-License-Identifier: GPL-2.0-or-later
"""Where tasks went as drawings: matrices, mirrored times, lines over time, timers."""

import re
from collections.abc import Callable
from itertools import product
from typing import Any

from msgspec.structs import replace

from schedperf.evidence.placement.record import PhasesRow, PlacementRow
from schedperf.model.comparison import Comparison
from schedperf.model.counted import Bins, BinsRow
from schedperf_reports.blocks import Table
from schedperf_reports.evidence.placement._moves import draw_blocks
from schedperf_reports.formats import Options
from schedperf_reports.formats.html import html
from schedperf_reports.formats.text import text as draw_text
from schedperf_reports.graphics.chart import Chart
from schedperf_reports.graphics.matrix import Matrix
from schedperf_reports.graphics.mirror import Mirror
from tests.placement_records import (
    depth_row,
    moves_row,
    placement_side,
    series_row,
    timers_row,
)

Describe = Callable[..., Any]
Numbered = Callable[..., list[PlacementRow]]


def test_moves_from_node_to_node_are_a_matrix_and_what_changed_a_row(
    describe: Describe, cells: Any, forks: PlacementRow, numbered: Numbered
) -> None:
    pair = replace(forks, field="count", basis="operation", unit="1/message", base=2.0)
    rows = numbered(
        replace(pair, nodes=(0, 0), new=2.0, changed=False),
        replace(pair, nodes=(0, 1), new=4.0),
        replace(pair, nodes=(0, 1), basis="time", unit="1/s", changed=False),
    )
    cause = moves_row(event="migration", cause="numa", changed=(False,) * 4)
    blocks = describe(*rows, moves=[moves_row(), cause])
    [table] = blocks.tables()
    assert table.anchors == ("new-1",)
    [matrix] = [block for block in blocks if isinstance(block, Matrix)]
    assert matrix.caption == (
        "moves from node to node, per 1000 messages, 1 of 8 rates changed significantly (5+5 "
        "runs): fork"
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
        "difference +2000 [+1500, +2500] per 1000 messages, significant"
    )
    [plain] = matrix.plain()
    assert isinstance(plain, Table)
    assert cells(plain)[0] == ["fork", "node 0", "2000 -> 2000", "2000 -> 4000"]
    assert plain.limit is None
    [still] = [one for one in describe(forks, moves=[cause]) if isinstance(one, Matrix)]
    assert [one.limit for one in still.plain() if isinstance(one, Table)] == [0]


def test_moves_of_one_side_are_a_matrix_of_its_own(describe: Describe, forks: PlacementRow) -> None:
    nothing: dict[str, Any] = {name: [None] * 4 for name in ("new", "ci_low", "ci_high", "changed")}
    alone = moves_row(**nothing, side="base", n_new=0, unit="1/s")
    row = replace(forks, side="base", new=None, n_new=0, changed=None)
    [matrix] = [
        one
        for one in describe(row, moves=[alone], sides=[placement_side()])
        if isinstance(one, Matrix)
    ]
    assert [label.text for label, _ in matrix.groups] == ["base"]
    assert matrix.caption == "moves from node to node, per second, 5 runs"


def test_a_machine_of_many_nodes_has_narrow_cells_and_no_text(
    describe: Describe, forks: PlacementRow
) -> None:
    wide = moves_row(
        pairs=tuple(product(range(20), repeat=2)), base=(1.0,) * 400, new=(1.0,) * 400,
        ci_low=(0.0,) * 400, ci_high=(0.0,) * 400, changed=(False,) * 400,
    )  # fmt: skip
    [matrix] = [one for one in describe(forks, moves=[wide]) if isinstance(one, Matrix)]
    assert (matrix.size, matrix.plain()) == ("small", ())


def test_waits_and_phases_are_mirrored(describe: Describe, forks: PlacementRow) -> None:
    bins = Bins(
        low=(0.0, 0.5), high=(0.5, None), events_base=10, events_new=20, replication="runs",
        n_base=5, n_new=5, base=(0.75, 0.25), new=(0.25, 0.75), ci_low=(-0.6, 0.4),
        ci_high=(-0.4, 0.6), changed=(True, True),
    )  # fmt: skip
    where = {"side": "new", "workload": "hackbench", "point": "groups=4", **bins.as_fields()}
    waits = BinsRow(**where)
    phases = [PhasesRow(**where, group=name, period_s=0.1) for name in ("/a", "/b")]
    blocks = describe(forks, waits=[waits], phases=phases)
    found = [one for one in blocks if isinstance(one, Mirror)]
    assert found[0].caption == (
        "waits of runnable tasks: 2 of 2 bins changed significantly (5+5 runs); the largest "
        "change is in the bin from 0 ns, 75.0% -> 25.0% of the waits"
    )
    assert found[0].bins[0].difference == "-50 pp [-60, -40]"
    assert [one.label for one in found[2].bins] == ["-50%", "0%"]
    assert found[2].caption.startswith("bandwidth timer of /b: ")
    assert found[2].caption.endswith("; 0%: mean phase of the timer of /a")


def test_moves_over_time_are_a_line_of_blocks_and_a_figure(
    describe: Describe, cells: Any, forks: PlacementRow
) -> None:
    series = [
        series_row("base", (0.0, 4.0, 8.0)),
        series_row("new", (16.0, 16.0, 16.0), ci_low=15.0, ci_high=17.0),
        series_row("new2", (1.0, 1.0, 1.0)),
    ]
    blocks = describe(forks, series=series)
    table = blocks.tables()[-1]
    means = "4 [1.5, 6.5] -> 16 [15, 17] per second (95% CI; n = 5 + 5 runs)"
    assert table.caption.endswith(f"most frequent: migration, {means}")
    assert cells(table) == [
        ["migration", "base", "4", "[1.5, 6.5]", "8", "5 runs", "·▂▄"],
        ["migration", "new", "16", "[15, 17]", "16", "5 runs", "███"],
    ]
    [figure] = [block for block in blocks if isinstance(block, Chart)]
    [panel] = figure.panels
    assert [(one.side, [point.y for point in one.points]) for one in panel.series] == [
        ("base", [0.0, 4.0, 8.0]),
        ("new", [16.0, 16.0, 16.0]),
    ]
    assert means in figure.caption
    ends = [(point.low, point.high) for point in panel.series[0].points]
    assert ends == [(0.0, 2.0), (3.0, 6.0), (7.0, 10.0)]
    # Each rate holds over its part of the run.
    path = panel.line(panel.series[1])
    assert re.sub(r"[\d.]+", "#", path) == "M# #H#V#H#V#H#"
    assert path.startswith("M0 ")
    assert path.endswith("H100")


def test_moves_over_the_time_of_one_run_have_no_interval(
    describe: Describe, cells: Any, forks: PlacementRow
) -> None:
    unknown = {"ci_low": None, "ci_high": None, "rates_low": (None,), "rates_high": (None,)}
    series = [
        series_row("base", (4.0,), n=1, **unknown),
        series_row("new", (8.0,), n=2, replication="boots"),
    ]
    blocks = describe(forks, series=series)
    table = blocks.tables()[-1]
    assert table.caption.endswith("4 -> 8 [1.5, 6.5] per second (95% CI; n = 1 run + 2 boots)")
    assert [row[3] for row in cells(table)] == ["-", "[1.5, 6.5]"]
    [figure] = [block for block in blocks if isinstance(block, Chart)]
    [panel] = figure.panels
    assert panel.intervals(panel.series[0]) == ""


def test_the_least_that_moves_is_more_than_nothing() -> None:
    assert draw_blocks([0.0, 1e-9, 1.0], 1.0) == "·▁█"


def test_timers_say_when_they_expire(describe: Describe, cells: Any, forks: PlacementRow) -> None:
    timers = [
        timers_row(side="base", distance_s=0.0, word="together"),
        timers_row(side="new", distance_s=0.041, word="apart"),
    ]
    assert cells(describe(forks, timers=timers).tables()[-1]) == [
        ["base", "/a and /b", "together", "0 ms", "100 ms", "1.562 ms", "5"],
        ["new", "/a and /b", "apart", "41 ms", "100 ms", "1.562 ms", "5"],
    ]


def test_depths_zeros_and_notes_are_sentences(describe: Describe, forks: PlacementRow) -> None:
    depths = [
        depth_row(),
        depth_row(side="new", replication="boots", n=2, share=0.25, ci_low=0.0, ci_high=0.6),
        depth_row(
            side="new", replication="boots", n=2, depth=8, share=0.75, ci_low=0.4, ci_high=1.1
        ),
    ]
    notes = [f"{side}: note {number}" for number in range(7) for side in ("base", "new")]
    blocks = describe(forks, depths=depths, zeros=["execs"], notes=notes)
    assert blocks.tables()[-1].rows[0][0].text == "execs"
    texts = blocks.texts()
    assert (
        "task-group depth of the workload's tasks (share of context switches with 95% CI): "
        "base 0 (100.0%), n = 5 runs; "
        "new 0 (25.0% [0.0%, 60.0%]), 8 (75.0% [40.0%, 100.0%]), n = 2 boots"
    ) in texts
    assert not any("depth" in text for text in describe(forks, depths=depths[:2]).texts())
    assert "base and new: note 0" in texts
    assert "2 more notes" in texts


def test_names_of_strangers_are_no_markup(
    compared: Callable[..., Comparison], forks: PlacementRow
) -> None:
    bad = "</script><b onload=alert(1)>\x1b[31m"
    comparison = compared(
        replace(forks, name=bad, workload=bad),
        timers=[timers_row(workload=bad, groups=(bad, bad))],
        series=[series_row("new", (1.0, 2.0), workload=bad)],
        notes=[bad],
    )  # fmt: skip
    options = Options(width=100, colour=False, see="--html", everything=True)
    assert "<b onload" not in html(comparison, options)
    assert "\x1b" not in draw_text(comparison, options)
