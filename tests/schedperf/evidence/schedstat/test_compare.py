# SPDX-License-Identifier: GPL-2.0-or-later
"""Rates, joins by name, refusals and readings on counts that are known."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.schedstat.compare import analyse_sides
from schedperf.evidence.schedstat.fields import FIELDS
from schedperf.evidence.schedstat.levels import CpuGroups, levels_of
from schedperf.evidence.schedstat.measure import SHARES, SchedCounts
from schedperf.evidence.schedstat.perf_sched import parse_sched_stats_report
from schedperf.evidence.schedstat.record import Schedstat, SchedstatRefusal, SchedstatRow
from schedperf.evidence.schedstat.rules import all_rules
from schedperf.model.counted import Basis
from schedperf.model.host import Topology
from schedperf.model.run import Captured, Operations, RunKey, SideOf
from schedperf.stats.counted.rates import LEAST_EVENTS_OF_FINDING

Counts = Mapping[str, int]
MakeSide = Callable[..., SideOf[SchedCounts]]

MESSAGES = Operations(count=100.0, unit="message", exact=True)
BUSY = {"sched_count": 1000, "pcount": 500}


@pytest.fixture
def make_side(make_report: Callable[..., str]) -> MakeSide:
    """Return a side; each run is the counts of its CPUs, 2 s and 100 messages long."""

    def make(
        name: str,
        version: int,
        *runs: Sequence[Counts],
        domain: str = "0",
        ops: Operations = MESSAGES,
        **chosen: Any,
    ) -> SideOf[SchedCounts]:
        made = []
        for number, cpus in enumerate(runs):
            machine = {cpu: {**BUSY, **counts} for cpu, counts in enumerate(cpus)}
            text = make_report(version, machine, name=domain, jiffies=500)
            change = parse_sched_stats_report(text.splitlines(), name)
            counts = SchedCounts(
                seconds=2.0,
                is_enabled=None,
                change=change,
                levels=levels_of(change.domains, CpuGroups(Topology())),
            )
            run = Captured(
                key=RunKey(
                    side=name, workload="hackbench", point="", boot=0, run=number, order=number
                ),
                ops=ops,
                content=replace(counts, **chosen),
            )
            made.append(run)
        return SideOf(name=name, kind="clean", runs=tuple(made))

    return make


def row_of(data: Schedstat, name: str, basis: Basis = "time") -> SchedstatRow:
    found = {(f"{row.level} {row.idle} {row.field}".strip(), row.basis): row for row in data.rows}
    return found[" ".join(name.split()), basis]


def test_published_counts_are_joined_by_name_and_not_by_position(make_side: MakeSide) -> None:
    # Balance attempts of 6.5 and 6.15 as perf sched stats reported them. A table that was made of
    # them by position says that idle attempts fell by 99.94%, from 15531 to 10.
    old = {"idle lb_count": 15531, "busy lb_count": 3, "newidle lb_count": 1443994}
    new = {"idle lb_count": 17399, "busy lb_count": 10, "newidle lb_count": 1488633}
    data = analyse_sides([make_side("base", 15, [old]), make_side("new", 17, [new], domain="MC")])
    changes = {
        idle: row_of(data, f"MC {idle} lb_count").ratio for idle in ("idle", "busy", "newidle")
    }
    assert changes["idle"] == pytest.approx(1.120, abs=5e-4)
    assert changes["newidle"] == pytest.approx(1.031, abs=5e-4)
    assert changes["busy"] == pytest.approx(10 / 3)
    assert data.readings == ()
    assert all(row.changed is None for row in data.rows)


def test_what_has_no_counterpart_is_refused_with_its_reason(make_side: MakeSide) -> None:
    counts = {"idle lb_imbalance": 9, "idle lb_imbalance_task": 9, "idle lb_count": 9}
    data = analyse_sides([make_side("base", 16, [counts]), make_side("new", 17, [counts])])
    refused = {(one.side, one.what): one.reason for one in data.not_compared}
    assert set(refused) == {
        ("base", "lb_imbalance"),
        ("new", "lb_imbalance_load, lb_imbalance_misfit, lb_imbalance_task, lb_imbalance_util"),
    }
    assert all(reason.startswith("up to schedstat version 16") for reason in refused.values())
    assert {row.field for row in data.rows}.isdisjoint({"lb_imbalance", "lb_imbalance_task"})


def test_equal_versions_compare_their_imbalances(make_side: MakeSide) -> None:
    sides = [make_side(name, 17, [{"idle lb_imbalance_task": 9}]) for name in ("base", "new")]
    data = analyse_sides(sides)
    row = row_of(data, "domain0 idle lb_imbalance_task")
    assert row.ratio == 1.0
    assert "one counter sums load, utilization, task and misfit imbalances" in row.split
    assert data.not_compared == ()


def test_levels_of_other_cpus_are_not_compared(make_side: MakeSide) -> None:
    counts = {"idle lb_count": 9}
    data = analyse_sides([make_side("base", 15, [counts]), make_side("new", 15, [counts, counts])])
    assert {row.level for row in data.rows} == {""}
    assert [(one.side, one.what) for one in data.not_compared] == [
        ("base", "domain0"),
        ("new", "domain0 (2)"),
    ]
    assert "no level of new has the same CPUs" in data.not_compared[0].reason


def test_a_named_level_with_other_cpus_is_compared_and_said(make_side: MakeSide) -> None:
    counts = {"idle lb_count": 9}
    sides = [
        make_side("base", 17, [counts], domain="MC"),
        make_side("new", 17, [counts, counts], domain="MC"),
    ]
    data = analyse_sides(sides)
    assert row_of(data, "MC idle lb_count").ratio == 2.0
    assert "MC spans 1 CPUs in base, 2 CPUs in new" in data.notes


def test_rates_are_sums_over_cpus_a_second_and_a_message(make_side: MakeSide) -> None:
    cpus = [{"ttwu_count": 30, "run_delay": 3 * 10**9}, {"ttwu_count": 10, "run_delay": 10**9}]
    data = analyse_sides([make_side("base", 17, cpus)])
    wakeups = row_of(data, "ttwu_count")
    assert (wakeups.base, wakeups.unit, wakeups.total_base) == (20.0, "1/s", 40.0)
    assert row_of(data, "ttwu_count", "operation").base == 0.4
    assert row_of(data, "ttwu_count", "operation").unit == "1/message"
    # 4 s of waiting in 2 s: two tasks waited at any time.
    assert (row_of(data, "run_delay").base, row_of(data, "run_delay").unit) == (2.0, "s/s")
    assert row_of(data, "wait_mean", "share").base == pytest.approx(4.0 / 1000)
    assert (wakeups.new, wakeups.ratio, wakeups.changed) == (None, None, None)


def test_some_cpus_alone_can_be_looked_at_and_all_are_kept(make_side: MakeSide) -> None:
    cpus = [{"ttwu_count": 30, "idle lb_count": 5}, {"ttwu_count": 10, "idle lb_count": 7}]
    side = make_side("base", 17, cpus)
    one = analyse_sides([side], frozenset({1}))
    assert row_of(one, "ttwu_count").total_base == 10.0
    assert row_of(one, "domain0 idle lb_count").total_base == 7.0
    every = analyse_sides([side]).cpus
    [wakeups] = [found for found in every if found.measure == "ttwu_count"]
    # In 2 s.
    assert (wakeups.cpus, wakeups.base, wakeups.unit) == ((0, 1), (15.0, 5.0), "1/s")
    assert (wakeups.new, wakeups.changed) == ((None, None), (None, None))
    assert analyse_sides([side], frozenset({9})).rows == ()


def test_shares_follow_from_the_counts(make_side: MakeSide) -> None:
    counts = {
        "newidle lb_count": 100,
        "newidle lb_balanced": 60,
        "newidle lb_failed": 20,
        "newidle lb_gained": 30,
        "sched_goidle": 250,
    }
    data = analyse_sides([make_side("base", 17, [counts])])
    assert row_of(data, "domain0 newidle success_share", "share").base == 0.2
    assert row_of(data, "domain0 newidle pulled_mean", "share").base == 1.5
    assert row_of(data, "goidle_share", "share").base == 0.25
    assert not [row for row in data.rows if row.idle == "busy"]


def pulls(make_side: MakeSide, name: str, *counts: int, **chosen: Any) -> SideOf[SchedCounts]:
    runs = [[{"newidle lb_gained": count, "newidle lb_count": 100_000}] for count in counts]
    return make_side(name, 17, *runs, domain="MC", **chosen)


def test_a_change_beyond_noise_is_read_with_its_rule_and_function(make_side: MakeSide) -> None:
    data = analyse_sides(
        [
            pulls(make_side, "base", 9000, 9100, 8900, 9050, 8950),
            pulls(make_side, "new", 810, 820, 800, 805, 815),
        ]
    )
    row = row_of(data, "MC newidle lb_gained", "operation")
    assert row.ratio == pytest.approx(0.09, rel=0.01)
    assert row.ci_low is not None
    assert row.ci_high is not None
    assert row.ci_low < 0.09 < row.ci_high < 0.1
    reading = next(one for one in data.readings if one.rule == "newidle-pulls")
    assert reading.text == "newidle pulls at MC -91% per message"
    assert reading.look_at.startswith("sched_balance_newidle()")
    assert "pull fewer tasks" in reading.meaning
    assert reading.row == row.row


def test_nothing_is_read_inside_noise(make_side: MakeSide) -> None:
    data = analyse_sides(
        [
            pulls(make_side, "base", 9000, 2000, 15000, 4000, 11000),
            pulls(make_side, "new", 3000, 14000, 7000, 9500, 2500),
        ]
    )
    assert row_of(data, "MC newidle lb_gained").changed is False
    assert data.readings == ()


def test_a_handful_of_events_is_not_read(make_side: MakeSide) -> None:
    few = int(LEAST_EVENTS_OF_FINDING) - 1
    data = analyse_sides(
        [pulls(make_side, "base", *[few] * 3, few - 1), pulls(make_side, "new", 1, 1, 1, 2)]
    )
    assert row_of(data, "MC newidle lb_gained").changed is True
    assert [one for one in data.readings if one.rule == "newidle-pulls"] == []


def test_work_decides_before_time(make_side: MakeSide) -> None:
    # Twice as many pulls of twice as many messages: a faster kernel, not another balancer.
    base = pulls(make_side, "base", 1000, 1010, 990, 1005)
    new = pulls(make_side, "new", 2000, 2020, 1980, 2010, ops=replace(MESSAGES, count=200.0))
    data = analyse_sides([base, new])
    assert row_of(data, "MC newidle lb_gained").changed is True
    assert row_of(data, "MC newidle lb_gained", "operation").changed is False
    assert "newidle-pulls" not in {one.rule for one in data.readings}


def test_other_operations_have_no_common_rate(make_side: MakeSide) -> None:
    base = pulls(make_side, "base", 1000, 1010)
    new = pulls(make_side, "new", 1000, 1010, ops=replace(MESSAGES, unit="transaction"))
    assert {row.basis for row in analyse_sides([base, new]).rows} == {"time", "share"}


def test_a_side_that_was_switched_off_has_its_times_alone(make_side: MakeSide) -> None:
    off = {"sched_count": 0, "pcount": 70, "run_delay": 9}
    data = analyse_sides(
        [make_side("base", 17, [off]), make_side("new", 17, [{"run_delay": 5, "yld_count": 3}])]
    )
    assert {row.field for row in data.rows} == {"run_delay", "pcount", "wait_mean"}
    assert data.notes[0].startswith("kernel.sched_schedstats was 0 in 1 of 1 runs of base")
    assert data.not_compared == (
        SchedstatRefusal(
            side="new",
            what="all counters except run_delay, rq_cpu_time and pcount",
            reason="kernel.sched_schedstats was 0 on base",
        ),
    )


def test_without_the_length_of_a_tick_rates_are_per_tick(make_side: MakeSide) -> None:
    sides = [make_side("base", 17, [{}]), make_side("new", 17, [{}], seconds=None)]
    data = analyse_sides(sides)
    assert (row_of(data, "sched_count").unit, row_of(data, "sched_count").base) == (
        "1/tick",
        2.0,
    )
    assert "CONFIG_HZ" in data.notes[-1]


def test_a_side_compared_with_itself_has_changed_nowhere(make_side: MakeSide) -> None:
    base = pulls(make_side, "base", 9000, 9100, 8900)
    data = analyse_sides([base, replace(base, name="new")])
    assert not any(row.changed for row in data.rows)
    assert data.readings == ()


def test_each_rule_names_a_count_and_where_to_look() -> None:
    rules = all_rules()
    assert len({(rule.field, rule.idle) for rule in rules}) == len(rules) >= 15
    for rule in rules:
        assert rule.field in FIELDS or rule.field in SHARES
        assert rule.idle in ("", "busy", "idle", "newidle")
        assert "()" in rule.look_at
        assert rule.up != rule.down


def test_levels_are_told_with_their_flags_where_these_are_known(make_side: MakeSide) -> None:
    counts = [{"idle lb_count": 5}]
    flags = {"MC": ("SD_SHARE_LLC",)}
    described = analyse_sides([make_side("base", 17, counts, domain="MC", flags=flags)]).levels
    assert [(one.level, one.flags) for one in described] == [("MC", ("SD_SHARE_LLC",))]
    unknown = analyse_sides([make_side("base", 17, counts, domain="MC")])
    assert [one.flags for one in unknown.levels] == [None]


def test_each_cpu_of_both_sides_is_compared_and_off_runs_are_not(make_side: MakeSide) -> None:
    base = make_side(
        "base", 17, *([{"ttwu_count": 30 + more}, {"ttwu_count": 10}] for more in (0, 1))
    )
    new = make_side(
        "new", 17, *([{"ttwu_count": 90 + more}, {"ttwu_count": 10}] for more in (0, 1))
    )
    found = {one.measure: one for one in analyse_sides([base, new]).cpus}
    assert found["ttwu_count"].side == "new"
    assert found["ttwu_count"].new == (45.25, 5.0)
    assert found["ttwu_count"].changed == (True, False)
    off = [make_side(name, 17, [{"ttwu_count": 30}], is_enabled=False) for name in ("base", "new")]
    assert analyse_sides(off).cpus == ()
