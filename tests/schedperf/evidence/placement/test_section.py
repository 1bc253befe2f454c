# SPDX-License-Identifier: GPL-2.0-or-later
"""The section on bundles: what the recorder kept, by the operations of each run."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.placement.record import Placement, PlacementSide
from schedperf.evidence.placement.section import placement

Make = Callable[..., Any]
Analyse = Callable[..., Placement]


@pytest.fixture
def analyse(analyse_with: Callable[..., Analyse]) -> Analyse:
    return analyse_with(placement)


@pytest.fixture
def placed_runs(make_placement: Make) -> Make:
    """Return runs of a bundle, instrumented, each with this placement.json."""

    def runs(number: int = 3, **chosen: Any) -> list[dict[str, Any]]:
        content = json.dumps(make_placement(**chosen))
        run = {"kind": "instrumented", "files": {"bpf_placement/placement.json": content}}
        return [run] * number

    return runs


def test_bundles_are_compared_by_what_hackbench_did(analyse: Analyse, placed_runs: Make) -> None:
    data = analyse(placed_runs(), placed_runs(seconds=4.0))
    by_basis = {row.basis: row for row in data.rows if row.name == "forks"}
    # 4 groups of 20 senders and receivers pass 100 messages each.
    assert by_basis["operation"].base == pytest.approx(1000 / 160_000)
    assert by_basis["operation"].unit == "1/message"
    assert by_basis["time"].base == pytest.approx(500.0)
    assert by_basis["time"].new == pytest.approx(250.0)
    assert data.sides[0] == PlacementSide(
        side="base", runs=3, mechanisms=("bpf",), nodes=2, seconds=6.0
    )


def test_one_bundle_alone_has_its_rates(analyse: Analyse, placed_runs: Make) -> None:
    data = analyse(placed_runs(1))
    assert {row.side for row in data.rows} == {"base"}
    assert all(row.changed is None and row.n_new == 0 for row in data.rows)


def test_a_run_that_cannot_be_read_is_left_out_and_said(
    analyse: Analyse, placed_runs: Make
) -> None:
    data = analyse([*placed_runs(), *placed_runs(1, seconds=-1)], placed_runs())
    assert data.sides[0].runs == 3
    assert data.notes[0].startswith(
        "base: boots/0/runs/003/bpf_placement/placement.json: $.seconds is -1 (expected float"
    )


def test_other_instruments_of_the_other_side_are_said(analyse: Analyse, placed_runs: Make) -> None:
    more = [dict(run) for run in placed_runs(2)]
    more[0]["files"] = {**more[0]["files"], "bpf_pelt/pelt.json": "{}"}
    expected = (
        "new: bpf_pelt was recorded in 0 of 3 runs, but in 1 of 2 runs of base, "
        "so collector overhead differs"
    )
    assert expected in analyse(more, placed_runs(3)).notes
    assert not any("collector overhead" in note for note in analyse(more, more * 2).notes)


def test_a_folder_without_its_file_is_said(analyse: Analyse, placed_runs: Make) -> None:
    empty = {"kind": "instrumented", "files": {"bpf_placement/traceback.txt": "x"}}
    data = analyse([*placed_runs(), empty], placed_runs())
    assert "placement.json" in data.notes[0]


def test_bundles_without_placement_say_why(analyse: Analyse, placed_runs: Make) -> None:
    with pytest.raises(Absent, match="no run of base was recorded with bpf_placement"):
        analyse([{}], placed_runs())
    skipped = {
        "collector": "bpf_placement",
        "path": "boots/0/runs/000/bpf_placement",
        "status": "skipped",
        "reason": "BPF: EPERM; perf is not on PATH",
    }
    with pytest.raises(Absent, match="bpf_placement of base: BPF: EPERM; perf is not on"):
        analyse([{}], [{}], captures=[skipped])
    with pytest.raises(Absent, match="base: .*/placement.json: .*series is null"):
        analyse(placed_runs(1, series=None), placed_runs(1, series=None))
