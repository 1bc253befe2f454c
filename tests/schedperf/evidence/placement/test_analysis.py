# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows of two sides whose counts are known."""

import time
from collections.abc import Callable, Sequence
from statistics import geometric_mean
from typing import Any

import pytest

from schedperf.evidence.placement.record import Placement, PlacementProgram

Make = Callable[..., Any]
Analyse = Callable[..., Placement]

JITTER = (0, 3, -2, 1, -1)


@pytest.fixture
def forking(make_placement: Make, make_move: Make) -> Make:
    """Return runs in which so many of 1000 forks go to node 1, give or take a few."""

    def runs(remote: int, **chosen: Any) -> list[Any]:
        return [
            make_placement(
                moves=[
                    make_move("fork", 1000 - remote - more),
                    make_move("fork", remote + more, (0, 1)),
                ],
                **chosen,
            )
            for more in JITTER
        ]

    return runs


@pytest.fixture
def timed(make_placement: Make, make_timer: Make) -> Make:
    """Return runs whose timers /a and /b expire so many bins apart."""
    return lambda *apart: [
        make_placement(timers=[make_timer("/a", 3), make_timer("/b", 3 + bins)]) for bins in apart
    ]


def row_of(data: Placement, name: str, basis: str = "time") -> Any:
    [found] = [row for row in data.rows if (row.name, row.basis) == (name, basis)]
    return found


def names_of(data: Placement) -> set[str]:
    return {row.name for row in data.rows}


def test_counts_are_divided_by_time_and_by_operations(analyse_runs: Analyse, forking: Make) -> None:
    data = analyse_runs(forking(11))
    remote = geometric_mean([11 + more for more in JITTER])
    assert row_of(data, "forks").base == pytest.approx(500.0)
    assert row_of(data, "forks", "operation").base == pytest.approx(1.0)
    assert row_of(data, "forks", "operation").unit == "1/message"
    assert row_of(data, "forks at NUMA").base == pytest.approx(remote / 2)
    assert row_of(data, "forks 0 -> 1", "share").base == pytest.approx(remote / 1000)
    assert row_of(data, "forks: between nodes", "share").events_base == 1000.0


def test_forks_that_go_to_another_node_more_often_are_found(
    analyse_runs: Analyse, forking: Make
) -> None:
    data = analyse_runs(forking(120), forking(11))
    row = row_of(data, "forks 0 -> 1", "share")
    assert (row.status, row.changed) == ("ok", True)
    assert row.ratio == pytest.approx(11.2 / 120.2, rel=0.02)
    assert row.function == "sched_balance_find_dst_group()"
    assert row.meaning == "share of all moves from the source node"
    assert row_of(data, "forks").changed is not True


def test_a_side_compared_with_itself_changed_nothing(analyse_runs: Analyse, forking: Make) -> None:
    data = analyse_runs(forking(50), forking(50))
    assert not any(row.changed for row in data.rows)


def test_answers_of_the_balancer_become_shares(analyse_runs: Analyse, make_placement: Make) -> None:
    data = analyse_runs([make_placement()])
    shares = {row.name: row.base for row in data.rows if row.basis == "share"}
    expected = {
        "fork destinations at NUMA: sent to another node": 0.1,
        "fork destinations at NUMA from node 0: sent to another node": 0.1,
        "busiest groups at MC newidle: found": 0.2,
        "load balancing attempts at MC newidle: tasks pulled": 0.15,
        "load balancing attempts at MC newidle: some pinned": 0.1,
        "load balancing attempts at MC newidle: all pinned": 0.025,
        "tasks considered at MC newidle: refused": 0.75,
        "tasks considered at MC newidle: some pinned": 25 / 120,
        "imbalance of groups at MC": 0.05,
        "migrations by load balance: between nodes": 1.0,
        "depth of task groups: mean": 1.5,
    }
    assert {name: shares[name] for name in expected} == pytest.approx(expected)


def test_pinned_tasks_are_unknown_where_nobody_saw_which_tasks_may_move(
    analyse_runs: Analyse, make_placement: Make
) -> None:
    run = make_placement()
    run["balance"]["migratable"] = None
    names = names_of(analyse_runs([run]))
    assert "load balancing attempts at MC newidle: tasks pulled" in names
    assert not any("pinned" in name for name in names)


def test_searches_that_see_an_imbalance_are_a_share_where_that_was_looked_at(
    analyse_runs: Analyse, make_placement: Make
) -> None:
    name = "fork destinations at NUMA: imbalance seen"
    run = make_placement()
    assert name not in names_of(analyse_runs([run]))
    run["balance"]["destination"][0]["imbalanced"] = 50
    assert row_of(analyse_runs([run]), name, "share").base == pytest.approx(0.05)


def test_waits_have_means_and_tails_by_node(analyse_runs: Analyse, make_placement: Make) -> None:
    data = analyse_runs([make_placement()])
    assert row_of(data, "wait on node 0: mean", "share").base == pytest.approx(1.5e-6)
    assert row_of(data, "wait on node 0: max", "share").base == pytest.approx(2e-6)
    assert row_of(data, "wait: mean", "share").base == pytest.approx(3.75e-6)
    assert 2**12 <= 1e9 * row_of(data, "wait: p99", "share").base <= 8000.0
    assert row_of(data, "wait on node 1: p50", "share").base == pytest.approx(
        1e-9 * (2**12 * 8000) ** 0.5
    )


def test_what_happened_in_some_runs_only_counts_as_none_in_the_others(
    analyse_runs: Analyse, make_placement: Make, make_move: Make
) -> None:
    without = make_placement(moves=[make_move("fork", 10)])
    exec_too = make_placement(moves=[make_move("fork", 10), make_move("exec", 6)])
    row = row_of(analyse_runs([without, exec_too], [without, without]), "execs")
    assert (row.base, row.new, row.n_base) == (1.5, 0.0, 2)


def test_what_is_seen_in_other_ways_is_shown_and_not_compared(
    analyse_runs: Analyse, make_placement: Make, make_program: Make
) -> None:
    programs = make_placement()["programs"]
    programs["load_balance_exit"] = make_program("kretprobe", "load_balance")
    data = analyse_runs([make_placement()] * 3, [make_placement(programs=programs)] * 3)
    row = row_of(data, "load balancing attempts at MC newidle")
    assert (row.status, row.changed, row.ratio) == ("invalid", None, None)
    assert (row.base, row.new, row.n_base, row.n_new) == (100.0, 100.0, 3, 3)
    assert "record both sides" in row.reason
    assert {one.what for one in data.not_compared} == {
        "attempts",
        "pinned",
        "group_imbalance",
    }
    assert row_of(data, "forks").status == "ok"


def test_moves_are_not_compared_by_level_where_the_levels_are_named_differently(
    analyse_runs: Analyse, make_placement: Make
) -> None:
    data = analyse_runs(
        [make_placement(levels_from="domains")] * 3, [make_placement(levels_from="topology")] * 3
    )
    row = row_of(data, "forks at MC")
    assert (row.status, row.ratio, row.n_new) == ("invalid", None, 3)
    assert row.reason in data.notes
    assert "base: scheduling domains, new: the topology in /sys" in row.reason
    # These are the same whatever names them, and the balancer's are the kernel's own.
    for name in ("forks", "forks at NUMA", "forks: between nodes", "busiest groups at MC newidle"):
        assert row_of(data, name).status == "ok"
    alike = analyse_runs(*[[make_placement(levels_from="domains")] * 3] * 2)
    assert row_of(alike, "forks at MC").status == "ok"


def test_the_balancers_attempts_are_added_up_for_the_whole_machine(
    analyse_runs: Analyse, make_placement: Make
) -> None:
    content = make_placement()
    [attempts] = content["balance"]["attempts"]
    content["balance"]["attempts"].append(attempts | {"level": "NUMA", "idle": "idle"})
    data = analyse_runs([content])
    assert row_of(data, "load balancing attempts", "time").base == 200.0
    assert row_of(data, "load balancing attempts: tasks pulled", "time").base == 30.0
    assert row_of(data, "load balancing attempts: some pinned", "share").base == 0.1
    assert row_of(data, "imbalance of groups", "share").base == 10 / 400


def test_what_one_side_did_not_see_is_shown_of_the_other(
    analyse_runs: Analyse, make_placement: Make
) -> None:
    programs = {
        name: one for name, one in make_placement()["programs"].items() if one["function"][0] == "s"
    }
    blind = make_placement(programs=programs, balance=None, timers=[])
    data = analyse_runs([make_placement()], [blind])
    row = row_of(data, "busiest groups at MC newidle")
    assert (row.base, row.new, row.n_new) == (100.0, None, 0)
    seen = {one.part: one for one in data.programs if one.side == "new"}
    assert seen["fork"].mechanism == "tracepoint"
    assert seen["source"] == PlacementProgram(
        side="new",
        part="source",
        mechanism=None,
        function=None,
        reason="no BPF program was attached",
    )


def test_timers_that_expire_together_are_told_from_those_that_do_not(
    analyse_runs: Analyse, timed: Make
) -> None:
    data = analyse_runs(timed(0, 0, 1, 0, 0), timed(20, 25, 30, 22, 28))
    row = row_of(data, "timers of /a and /b: phase distance", "share")
    assert row.changed is True
    assert row.new == pytest.approx(25 / 64 * 0.1)
    together, apart = data.timers
    assert (together.side, together.word) == ("base", "together")
    assert (apart.side, apart.word, apart.runs) == ("new", "apart", 5)
    assert apart.resolution_s == pytest.approx(0.1 / 64)
    assert row_of(data, "timers: alignment", "share").base > 0.99


def test_timers_that_differ_from_run_to_run_are_neither(analyse_runs: Analyse, timed: Make) -> None:
    [found] = analyse_runs(timed(0, 20)).timers
    assert found.word == "mixed"


def test_timers_of_other_periods_or_without_a_steady_phase_have_no_distance(
    analyse_runs: Analyse, make_placement: Make, make_timer: Make
) -> None:
    other = make_placement(timers=[make_timer("/a", 3), make_timer("/b", 3, period_ns=50_000_000)])
    wandering = make_placement(timers=[make_timer("/a", 3), make_timer("/b", *range(64))])
    for run in (other, wandering):
        data = analyse_runs([run])
        assert data.timers == ()
        assert not any(row.field in ("distance", "alignment") for row in data.rows)
    row = row_of(analyse_runs([wandering]), "timers of /a: concentration", "share")
    assert row.base == pytest.approx(1.0)


def test_one_node_has_no_moves_between_nodes(analyse_runs: Analyse, make_placement: Make) -> None:
    run = make_placement(nodes={"0": 0, "1": 0}, moves=make_placement()["moves"][:1])
    data = analyse_runs([run])
    assert names_of(data) & {"forks", "forks at MC"} == {"forks", "forks at MC"}
    assert not any("between nodes" in name or "->" in name for name in names_of(data))
    assert data.series == ()
    assert data.notes[-1] == (
        "base: the machine has one NUMA node, so there are no moves between nodes"
    )


def test_moves_between_nodes_are_shown_over_the_time_of_the_runs(
    analyse_runs: Analyse, make_placement: Make
) -> None:
    [found] = analyse_runs([make_placement()] * 2).series
    assert found.event == "migration"
    assert found.rates == pytest.approx((150.0,) * 20)
    assert (found.n, found.replication) == (2, "runs")
    assert [found.mean, found.ci_low, found.ci_high] == pytest.approx([150.0] * 3)
    assert found.rates_low == pytest.approx((150.0,) * 20)


def test_depths_are_shares_of_switches(analyse_runs: Analyse, make_placement: Make) -> None:
    found = analyse_runs([make_placement()]).depths
    assert [(one.depth, one.share) for one in found] == [(0, 0.25), (2, 0.75)]
    assert {(one.n, one.ci_low) for one in found} == {(1, None)}


def test_what_never_happened_is_listed_and_has_no_row(
    analyse_runs: Analyse, make_placement: Make, make_move: Make
) -> None:
    data = analyse_runs([make_placement(moves=[make_move("fork", 5)])])
    assert "forks: between nodes" in data.zeros
    assert "forks: between nodes" not in names_of(data)


def test_losses_and_what_is_invisible_are_said_once(
    analyse_runs: Analyse, make_placement: Make
) -> None:
    runs = [make_placement(lost={"moves": 2}, notes=["CPU 3 went offline"])] * 3
    notes = analyse_runs(runs).notes
    assert "base: CPU 3 went offline (3 runs)" in notes
    assert "base: find_idlest_cpu not measured: inlined (3 runs)" in notes
    assert "base: events lost: 6 (moves)" in notes


def test_further_sides_are_each_compared_with_base(analyse_runs: Analyse, forking: Make) -> None:
    data = analyse_runs(forking(11), forking(11), forking(120))
    changed = {row.side for row in data.rows if row.changed}
    assert changed == {"new2"}
    assert len({row.row for row in data.rows}) == len(data.rows)


def flood(make: Make, make_move: Make, make_timer: Make, runs: int) -> Sequence[Any]:
    pairs = [(one, other) for one in range(60) for other in range(60)]
    return [
        make(
            moves=[make_move("wakeup", 1 + sum(pair), pair) for pair in pairs],
            timers=[make_timer(f"/{one}", one % 64) for one in range(1000)],
        )
        for _ in range(runs)
    ]


def test_a_flood_of_nodes_and_cgroups_is_cut_and_said(
    analyse_runs: Analyse, make_placement: Make, make_move: Make, make_timer: Make
) -> None:
    runs = flood(make_placement, make_move, make_timer, 2)
    started = time.process_time()
    data = analyse_runs(runs, runs)
    assert time.process_time() - started < 60.0
    assert len(data.rows) < 2000
    assert any(
        "lowest per-node or per-cgroup counts are left out (at most 128 per part of the section"
        in note
        for note in data.notes
    )
