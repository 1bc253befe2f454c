# SPDX-License-Identifier: GPL-2.0-or-later
"""What is found of tasks that go elsewhere: claims about runs whose counts are known."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.placement.findings import MOST_FINDINGS, task_placement
from schedperf.evidence.placement.record import PlacementRow, TimersRow
from schedperf.model.sections import Finding
from tests.placement_records import make_placement, placement_row, timers_row

Find = Callable[..., list[Finding]]


def forks(**changes: Any) -> PlacementRow:
    """Return the share of forks on node 0 that go to node 1, which rose."""
    row = placement_row(
        point="",
        name="forks 0 -> 1",
        field="count",
        nodes=(0, 1),
        function="sched_balance_find_dst_group() (find_idlest_group())",
    )
    return replace(row, **changes)


@pytest.fixture
def find() -> Find:
    """Return the findings of rows, which are changes to one row."""

    def run(*changes: Mapping[str, Any], timers: Sequence[TimersRow] = ()) -> list[Finding]:
        rows = (
            forks(**{"row": f"new-{number}", **change}) for number, change in enumerate(changes)
        )
        return list(task_placement(make_placement(*rows, timers=tuple(timers))))

    return run


def test_what_may_be_noise_or_cannot_be_said_is_not_found(find: Find) -> None:
    assert find({"changed": False}, {"changed": None}) == []


def test_a_sum_over_levels_names_none_to_look_at(find: Find) -> None:
    pulled = {"part": "attempts", "field": "pulled", "nodes": (), "idle": "newidle"}
    assert find({**pulled, "level": ""}) == []
    assert find({**pulled, "level": "MC"}) != []


def test_a_depth_that_was_set_is_no_percentage(find: Find) -> None:
    depth = {"part": "depth", "field": "mean", "nodes": (), "basis": "share", "unit": "levels"}
    values = {"base": 1.0, "new": 8.0, "ratio": 8.0, "ci_low": 8.0, "ci_high": 8.0}
    [found] = find({**depth, **values})
    assert found.clause.startswith("depth of the workload's task groups: 1 -> 8")
    assert "%" not in found.clause + found.change


def test_few_events_say_nothing(find: Find) -> None:
    assert find({"events_base": 9.0, "events_new": 8.0}) == []
    assert find({"events_base": 0.0, "events_new": 10.0}) != []


def test_the_share_decides_on_forks_and_no_rate(find: Find) -> None:
    # More forks in all are more forks to each node.
    assert find({"basis": "time", "unit": "1/s"}) == []


def test_migrations_are_told_by_cause_and_not_again_as_a_sum(find: Find) -> None:
    rate: dict[str, Any] = {
        "basis": "operation", "unit": "1/message", "field": "crossing", "nodes": (),
        "base": 0.003, "new": 0.012, "ratio": 4.0, "ci_low": 3.5, "ci_high": 4.5,
    }  # fmt: skip
    by_cause = {
        **rate, "part": "cause", "cause": "load_balance", "name": "migrations by load balance",
        "function": "sched_balance_rq()", "point": "groups=4",
    }  # fmt: skip
    total = {**rate, "part": "migration", "name": "migrations", "point": "groups=4"}
    [found] = find(total, by_cause)
    assert found.claim == (
        "whole machine: migrations between nodes (load balance): 0.003 -> 0.012 per message "
        "at groups=4 "
        "(+300% [+250%, +350%], 5+5 runs): look at sched_balance_rq()"
    )
    [alone] = find(total)
    assert alone.claim.startswith("whole machine: migrations between nodes: 0.003 -> 0.012")


def test_an_operation_decides_before_a_second(find: Find) -> None:
    crossing = {"part": "wakeup", "field": "crossing", "nodes": (), "name": "wakeups"}
    unchanged = {**crossing, "basis": "operation", "unit": "1/message", "changed": False}
    slower = {**crossing, "basis": "time", "unit": "1/s"}
    assert find(slower, unchanged) == []
    [found] = find(slower)
    assert " per second " in found.claim


def test_more_balancing_in_longer_operations_is_not_found(find: Find) -> None:
    pulled: dict[str, Any] = {
        "part": "attempts", "field": "pulled", "nodes": (), "idle": "idle", "level": "MC",
        "name": "tasks pulled",
    }  # fmt: skip
    longer = {**pulled, "basis": "operation", "unit": "1/message", "base": 1.0, "new": 2.0,
              "ratio": 2.0, "ci_low": 1.9, "ci_high": 2.1}  # fmt: skip
    steady = {**pulled, "basis": "time", "unit": "1/s", "base": 50.0, "new": 50.0, "ratio": 1.0,
              "ci_low": 0.99, "ci_high": 1.01, "changed": False}  # fmt: skip
    assert find(longer, steady) == []
    [found] = find(longer, {**steady, "new": 80.0, "ratio": 1.6, "changed": True})
    assert "1 -> 2 per message" in found.claim


def test_waits_are_told_in_units_that_fit(find: Find) -> None:
    wait: dict[str, Any] = {
        "part": "latency", "field": "p99", "nodes": (1,), "unit": "s", "base": 1e-4, "new": 4e-4,
    }  # fmt: skip
    [found] = find(wait)
    assert found.claim.startswith(
        "whole machine: run-queue latency p99 on node 1: 100 us -> 400 us"
    )


def test_timers_that_expire_together_say_how_close_they_are(find: Find) -> None:
    row: dict[str, Any] = {
        "part": "timers", "field": "distance", "nodes": (), "groups": ("/a", "/b"), "unit": "s",
        "base": 0.031, "new": 0.0002, "ratio": None, "ci_low": None, "ci_high": None, "q": 0.002,
    }  # fmt: skip
    timers = [
        timers_row(side="base", point="", distance_s=0.031, word="apart"),
        timers_row(side="new", point="", distance_s=0.0002, word="together"),
    ]
    [found] = find(row, timers=timers)
    assert found.claim == (
        "bandwidth timers of /a and /b expire: apart (phase difference 31 ms of 100 ms) -> "
        "together (under 1.6 ms of 100 ms) (q = 0.002, 5+5 runs): look at "
        "init_cfs_bandwidth() and start_cfs_bandwidth()"
    )
    assert (found.value, found.ci) == (None, None)


def test_braces_in_the_name_of_a_cgroup_are_text(find: Find) -> None:
    row: dict[str, Any] = {
        "part": "timers", "field": "distance", "nodes": (), "groups": ("/{side}", "/{0.__class__}"),
        "unit": "s", "base": 0.031, "new": 0.001,
    }  # fmt: skip
    timers = [
        timers_row(groups=row["groups"], side=side, point="", distance_s=0.02)
        for side in ("base", "new")
    ]
    [found] = find(row, timers=timers)
    assert found.claim.startswith("bandwidth timers of /{side} and /{0.__class__} expire: ")


def test_the_balancer_is_told_by_level_and_idle_type(find: Find) -> None:
    chosen: dict[str, Any] = {"nodes": (), "level": "MC", "idle": "newidle"}
    [pinned] = find({**chosen, "part": "pinned", "field": "some_pinned"})
    assert pinned.claim.startswith(
        "whole machine: newidle load-balancing attempts at MC that found pinned tasks: 1.1% -> "
        "12.0%"
    )
    assert pinned.claim.endswith("look at can_migrate_task(): LBF_SOME_PINNED")


def test_forks_that_meet_an_imbalanced_group_are_told(find: Find) -> None:
    chosen: dict[str, Any] = {"nodes": (), "level": "NUMA", "cause": "fork"}
    [found] = find({**chosen, "part": "destination", "field": "imbalanced"})
    assert found.claim.startswith(
        "whole machine: searches for a destination group at NUMA (fork) while sgc->imbalance was "
        "set: 1.1% -> 12.0%"
    )
    assert found.claim.endswith("(find_idlest_group()): group_imbalanced")


def test_a_point_has_so_many_findings_and_no_more(find: Find) -> None:
    pairs = [{"nodes": (0, one), "name": f"forks 0 -> {one}"} for one in range(1, 30)]
    found = find(*pairs, *({**pair, "point": "groups=8"} for pair in pairs))
    assert len(found) == 2 * MOST_FINDINGS
