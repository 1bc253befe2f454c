# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of where tasks went, with values that a test can replace."""

from typing import Any

from msgspec.structs import replace

from schedperf.evidence.placement.record import (
    DepthRow,
    MovesRow,
    Placement,
    PlacementRow,
    PlacementSide,
    SeriesRow,
    TimersRow,
)

_ROW = PlacementRow(
    row="new-0", side="new", workload="hackbench", point="groups=4", basis="share",
    name="forks: between nodes", part="fork", field="crossing", cause="", level="", idle="",
    nodes=(), groups=(), meaning="share between nodes", function="sched_balance_find_dst_group()",
    status="ok", reason=None, events_base=1000.0, events_new=1000.0, unit="", n_base=5, n_new=5,
    base=0.011, new=0.12, ratio=10.9, ci_low=9.0, ci_high=13.0, p=1e-6, q=1e-5, changed=True,
    replication="runs", values_base=(), values_new=(),
)  # fmt: skip
_SIDE = PlacementSide(side="base", runs=5, mechanisms=("bpf",), nodes=2, seconds=9.0)
_TIMERS = TimersRow(
    side="new", workload="hackbench", point="groups=4", groups=("/a", "/b"), period_s=0.1,
    distance_s=0.0, resolution_s=0.0015625, runs=5, word="apart",
)  # fmt: skip
_MOVES = MovesRow(
    side="new", workload="hackbench", point="groups=4", event="fork", cause="", unit="1/message",
    pairs=((0, 0), (0, 1), (1, 0), (1, 1)), replication="runs", n_base=5, n_new=5,
    base=(2.0, 2.0, 0.0, 1.0), new=(2.0, 4.0, 0.0, 1.0), ci_low=(-0.1, 1.5, 0.0, -0.1),
    ci_high=(0.1, 2.5, 0.0, 0.1), changed=(False, True, False, False),
)  # fmt: skip
_DEPTH = DepthRow(
    side="base", workload="hackbench", point="groups=4", replication="runs", n=5, ci_low=1.0,
    ci_high=1.0, depth=0, share=1.0,
)  # fmt: skip


def placement_row(**changes: Any) -> PlacementRow:
    """Return the share of forks that go to another node, which rose."""
    return replace(_ROW, **changes)


def placement_side(**changes: Any) -> PlacementSide:
    """Return base, which BPF programs watched."""
    return replace(_SIDE, **changes)


def timers_row(**changes: Any) -> TimersRow:
    """Return the timers of two cgroups in new."""
    return replace(_TIMERS, **changes)


def moves_row(**changes: Any) -> MovesRow:
    """Return forks between two nodes, of which more leave the first."""
    return replace(_MOVES, **changes)


def depth_row(**changes: Any) -> DepthRow:
    """Return base, all of whose tasks are in the root group."""
    return replace(_DEPTH, **changes)


def series_row(side: str, rates: tuple[float, ...], **changes: Any) -> SeriesRow:
    """Return migrations over the time of the runs, one rate a part of it."""
    row = SeriesRow(
        side=side, workload="hackbench", point="groups=4", event="migration", replication="runs",
        n=5, mean=sum(rates) / len(rates), ci_low=1.5, ci_high=6.5, rates=rates,
        rates_low=tuple(max(0.0, rate - 1.0) for rate in rates),
        rates_high=tuple(rate + 2.0 for rate in rates),
    )  # fmt: skip
    return replace(row, **changes)


def make_placement(*rows: PlacementRow, **parts: Any) -> Placement:
    """Return the record of two sides with these rows, and nothing else but what is given."""
    empty = dict.fromkeys(
        ("zeros", "programs", "not_compared", "series", "depths", "timers", "moves", "waits",
         "phases", "notes"), (),
    )  # fmt: skip
    sides = (_SIDE, placement_side(side="new"))
    return Placement(**{"sides": sides, "rows": rows, **empty, **parts})
