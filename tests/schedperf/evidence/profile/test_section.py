# SPDX-License-Identifier: GPL-2.0-or-later
"""The profile section on bundles whose samples are known: shares, costs, points and sides."""

from typing import Any

import pytest

from schedperf.evidence.profile.family import MOST_PLACES
from schedperf.evidence.profile.record import CpuShares
from schedperf.model.base_new import BaseNew


def test_shares_and_ranges_over_nodes_are_those_of_the_samples(profiled: Any) -> None:
    base = {
        0: {"update_cfs_group": 10, "vfs_write": 40, "default_idle": 50},
        2: {"update_cfs_group": 40, "vfs_write": 60},
    }
    new = {0: {"update_cfs_group": 50, "vfs_write": 50}, 2: {"update_cfs_group": 100}}
    sides = ([profiled.run(profiled.perf_data(nodes))] for nodes in (base, new))
    data = profiled.compare(*sides)
    row = profiled.row(data)
    share = row.share
    assert (share.base, share.new, share.change) == (25.0, 75.0, 50.0)
    assert row.base_nodes == {0: 20.0, 1: 40.0}
    assert row.new_nodes == {0: 50.0, 1: 100.0}
    assert (row.base_range, row.new_range) == ((20.0, 40.0), (50.0, 100.0))
    assert (share.ci_low, share.ci_high, share.p, share.q) == (None,) * 4
    assert not row.changed
    assert row.base_cpus == CpuShares(least=20.0, largest=40.0, cpus=2)
    busy = profiled.points(data)[0].busy
    assert (busy.base, busy.new, busy.ci_low) == (75.0, 100.0, None)
    idle = profiled.row(data, "default_idle")
    assert (idle.idle, idle.base_range) == (True, (0.0, 0.0))


def test_shares_are_averaged_over_runs_and_the_change_has_an_interval(profiled: Any) -> None:
    data = profiled.compare(profiled.runs(10, 20, 30), profiled.runs(110, 120, 130))
    row = profiled.row(data)
    assert profiled.points(data)[0].runs == BaseNew(base=3, new=3)
    share = row.share
    assert (share.base, share.new, share.change) == pytest.approx((2.0, 12.0, 10.0))
    # Welch with 4 degrees of freedom: 2.776 times sqrt(1/3 + 1/3).
    ends = (share.ci_low, share.ci_high)
    assert ends == pytest.approx((10 - 2.2669, 10 + 2.2669), abs=1e-3)
    assert row.changed
    assert row in profiled.points(data)[0].rows[:2]


def test_only_runs_of_one_point_are_compared_and_the_heaviest_comes_first(profiled: Any) -> None:
    heavy = profiled.run(
        profiled.perf_data({cpu: {"vfs_write": 5, "default_idle": 1} for cpu in range(4)}),
        point={"groups": "8"},
    )
    base = [
        *profiled.runs(10, point={"groups": "1"}),
        heavy,
        *profiled.runs(10, point={"groups": "2"}),
    ]
    data = profiled.compare(base, [*profiled.runs(20, point={"groups": "1"}), heavy])
    assert [point.point for point in profiled.points(data)] == ["groups=8", "groups=1"]
    assert [point.rows[0].row for point in profiled.points(data)] == [
        "vfs_write",
        "hackbench -l 100 -g {groups}/groups=1/vfs_write",
    ]
    assert list(data.comparisons[0].notes) == [
        (
            "hackbench -l 100 -g {groups} at groups=2 was profiled with cycles on base only, "
            "so it is not compared"
        )
    ]


def test_every_new_side_is_compared_and_row_ids_are_unique(profiled: Any) -> None:
    data = profiled.compare(profiled.runs(10), profiled.runs(20), profiled.runs(30))
    sides = [(one.side, one.events[0].points[0].rows) for one in data.comparisons]
    assert [side for side, _ in sides] == ["new", "new2"]
    names = [row.row for _, rows in sides for row in rows]
    assert len(names) == len(set(names)) == 4


def test_cold_symbols_are_left_out_but_not_those_of_the_scheduler(profiled: Any) -> None:
    names = [*(f"cold_{number:03d}" for number in range(60)), "pick_eevdf"]
    runs = profiled.weighted(names, [*(1000 - number for number in range(60)), 1])
    found = profiled.compare(runs, runs, names=names)
    point = profiled.points(found)[0]
    symbols = [row.symbol for row in point.rows]
    assert point.symbols == 61
    assert len(symbols) == MOST_PLACES + 1
    assert symbols[-1] == "pick_eevdf"


def test_different_operations_cannot_be_divided_by_each_other(profiled: Any) -> None:
    other = "# Running 'sched/pipe' benchmark:\n# Executed 1000 pipe operations between two\n"
    data = profiled.compare(profiled.runs(10, 20, 30), profiled.runs(10, 20, 30, stdout=other))
    point = profiled.points(data)[0]
    assert point.cost_unit is None
    assert (
        point.cost_reason
        == "the runs report operations in different units: message, pipe operation"
    )
    assert profiled.row(data).cost is None
    silent = profiled.points(
        profiled.compare(profiled.runs(10), profiled.runs(20, stdout="hello"))
    )[0]
    assert (
        silent.cost_reason
        == "a run printed no operation count, so the cost per operation is unknown"
    )


def test_costs_are_weights_by_the_messages_of_the_run(profiled: Any) -> None:
    data = profiled.compare(profiled.runs(10, 20, 30), profiled.runs(110, 120, 130))
    point = profiled.points(data)[0]
    messages = point.operations.base
    assert (point.cost_unit, point.operations.exact) == ("cycles per message", True)
    assert profiled.row(data).cost.base == pytest.approx(20.0 / messages)
    assert point.busy_cost.base == pytest.approx(1000.0 / messages)
