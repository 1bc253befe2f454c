# SPDX-License-Identifier: GPL-2.0-or-later
"""What the finding rule says of changed calls, of changed durations, of what nothing saw."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from schedperf.compare.why.load_avg import name_load_avg
from schedperf.evidence.pelt.compare import EMULATED
from schedperf.evidence.pelt.findings import MOST_FINDINGS, pelt_updates
from schedperf.evidence.pelt.record import Pelt
from schedperf.model.sections import Finding, Section
from schedperf.model.sides import Difference
from tests.schedperf.evidence.pelt.conftest import stalled

Json = dict[str, Any]
Make = Callable[..., Json]
Runs = Callable[..., list[Json]]
Find = Callable[..., list[Finding]]

BASE = (1000, 1020, 990, 1010)
NEW = (3000, 3020, 2990, 3010)


@pytest.fixture
def find(analyse: Callable[..., Pelt]) -> Find:
    """Return the findings of bundles given as runs; each points at a row that is there."""

    def run(*sides: list[Json], **chosen: Any) -> list[Finding]:
        data = analyse(*sides, **chosen)
        found = list(pelt_updates(data))
        rows = {f"pelt#{row.row}" for row in data.rows}
        assert all(set(one.evidence) <= rows for one in found)
        assert len({one.id for one in found}) == len(found)
        return found

    return run


def test_more_calls_are_told_per_wakeup_with_nodes_and_contexts(
    find: Find, traced_runs: Runs
) -> None:
    (found,) = find(traced_runs(BASE), traced_runs(NEW))
    assert found.claim == (
        "whole machine: update_cfs_group: 1.507 -> 4.507 calls per wakeup (+199% [+193%, +205%]); "
        "node 0 1.005 -> 3.005, node 1 0.5025 -> 1.502; "
        "enqueue +2, dequeue +1"
    )
    assert found.value == pytest.approx(199.0, abs=0.1)
    assert found.ci is not None
    assert found.ci[0] < 199.0 < found.ci[1]
    assert (found.n, found.unit, found.better) == ((4, 4), "%", None)
    assert found.attribution == "correlated; causation not shown"


def test_without_wakeups_calls_are_told_per_operation_and_point(
    find: Find, traced_runs: Runs
) -> None:
    sides = (
        [{**run, "point": {"groups": "4"}} for run in traced_runs(calls, wakeups=None)]
        for calls in (NEW, BASE)
    )
    (found,) = find(*sides)
    assert found.claim.startswith(
        "whole machine: update_cfs_group: 0.02817 -> 0.009421 calls per message at groups=4 "
        "(-66.6% ["
    )


def test_a_slower_machine_alone_is_no_finding(find: Find, traced_runs: Runs) -> None:
    # Half as many calls a second, and as many a wakeup and a message.
    assert find(traced_runs(BASE), traced_runs(BASE, seconds=4.0)) == []


def with_ticks(runs: list[Json], ticks: int) -> list[Json]:
    """Add calls of ticks on each CPU to all runs; none is timed."""
    for run in runs:
        capture = json.loads(run["files"]["bpf_pelt/pelt.json"])
        function = capture["functions"]["update_cfs_group"]
        function["durations"] = None
        for cpu in function["calls"]:
            function["calls"][cpu] += ticks
            function["contexts"]["tick"][cpu] = ticks
        run["files"]["bpf_pelt/pelt.json"] = json.dumps(capture)
    return runs


def test_a_clock_that_ticks_longer_is_no_finding(
    analyse: Callable[..., Pelt], find: Find, traced_runs: Runs
) -> None:
    # Twice as long, with as many ticks a second and as many other calls a wakeup.
    base = with_ticks(traced_runs(BASE), 1000)
    longer = with_ticks(traced_runs(BASE, seconds=4.0), 2000)
    assert find(base, longer) == []
    ticks = [row for row in analyse(base, longer).rows if row.context == "tick"]
    assert {row.per for row in ticks} == {"second"}
    assert not any(row.changed for row in ticks)
    # More calls of the scheduler's own are a finding, whatever the clock does.
    more = with_ticks(traced_runs(NEW, seconds=4.0), 2000)
    (found,) = find(base, more)
    assert found.claim.startswith("whole machine: update_cfs_group: ")
    assert "tick" not in found.claim


def test_a_share_that_few_calls_carry_is_not_told(
    analyse: Callable[..., Pelt], find: Find, traced_runs: Runs
) -> None:
    base = traced_runs((10_000,) * 4, (200, 201, 199, 200))
    new = stalled(traced_runs((10_000,) * 4, (280, 281, 279, 280)), 20)
    (found,) = [one for one in find(base, new) if "trimmed" in one.claim]
    assert "of CPU time" not in found.claim
    # Nor does it show on how many nodes the time increased.
    sections = {"pelt": Section.of(analyse(base, new))}
    assert name_load_avg([found], sections, (), {}) == (found,)


def test_longer_calls_are_told_with_their_share_of_cpu_time(find: Find, traced_runs: Runs) -> None:
    base, new = (traced_runs((1000,) * 4, (ns, ns + 10, ns - 10, ns)) for ns in (20_000, 90_000))
    (found,) = find(base, new)
    assert found.claim.startswith(
        "whole machine: update_cfs_group: mean duration 19.96 us -> 89.96 us (+351% [+350%, +351%])"
    )
    # 1500 calls of 20 and 90 us in 2 s of 4 CPUs, two thirds of them on the first node's two.
    assert found.claim.endswith(
        "; 0.3742% -> 1.687% of CPU time; node 0 0.499% -> 2.249%, node 1 0.2495% -> 1.124%"
    )
    assert found.better == "lower"


def test_emulated_durations_say_so(find: Find, traced_runs: Runs) -> None:
    sides = (traced_runs((1000,) * 4, (ns, ns + 10, ns - 10, ns)) for ns in (200, 900))
    (found,) = find(*sides, host={"virtualisation": {"emulated": True}})
    assert EMULATED in found.attribution


def test_a_few_calls_and_single_runs_are_no_finding(find: Find, traced_runs: Runs) -> None:
    assert find(traced_runs((1, 1, 2, 1)), traced_runs((5, 5, 6, 5))) == []
    assert find(traced_runs((1000,)), traced_runs((3000,))) == []


def test_calls_that_there_were_none_of_before_have_no_ratio(find: Find, traced_runs: Runs) -> None:
    (found,) = [
        one
        for one in find(traced_runs((0, 0, 0, 0)), traced_runs(NEW))
        if one.metric.startswith("calls")
    ]
    assert found.claim.startswith("whole machine: update_cfs_group: 0 -> 4.508 calls per wakeup; ")
    assert (found.value, found.ci) == (None, None)


BLIND = {
    "mechanism": None, "calls": None, "contexts": None, "durations": None,
    "tried": {"fentry/fexit": "operation not permitted", "kprobe/kretprobe": "no kprobes"},
}  # fmt: skip


def test_what_no_side_could_see_is_no_finding(find: Find, traced_runs: Runs) -> None:
    assert find(*[traced_runs(BASE, of_function=BLIND)] * 2) == []


def test_other_mechanisms_are_said_once_for_all_functions(
    find: Find, traced: Make, function: Make
) -> None:
    def runs(mechanism: str) -> list[Json]:
        one = function({0: 900}, 200, mechanism=mechanism)
        return [traced({"update_cfs_group": one, "update_load_avg": one})] * 2

    (found,) = find(runs("fentry/fexit"), runs("breakpoint"))
    assert found.claim == (
        "update_cfs_group, update_load_avg not compared: base: fentry/fexit, new: breakpoint"
    )
    assert len(found.evidence) == 2


def test_findings_of_further_sides_have_names_of_their_own(find: Find, traced_runs: Runs) -> None:
    blind = traced_runs(NEW, of_function=BLIND)
    found = find(traced_runs(BASE), blind, blind)
    assert [(one.side, one.id) for one in found] == [
        ("new", "pelt_updates#unseen-0"),
        ("new2", "pelt_updates#new2/unseen-0"),
    ]


def test_the_largest_changes_come_first_and_are_few(
    find: Find, traced: Make, function: Make
) -> None:
    def runs(factor: int) -> list[Json]:
        return [
            traced(
                {
                    f"f{number}": function({0: extra + 100 * (1 + number * (factor - 1))}, None)
                    for number in range(6)
                }
            )
            for extra in (0, 2, 4, 6)
        ]

    found = find(runs(1), runs(2))
    assert len(found) == MOST_FINDINGS
    assert found[0].claim.startswith("whole machine: f5: ")
    assert found[0].value is not None
    assert found[1].value is not None
    assert found[0].value > found[1].value


def test_slower_updates_of_a_deeper_cgroup_name_the_field_that_they_access(
    analyse: Callable[..., Pelt], traced_runs: Runs
) -> None:
    data = analyse(traced_runs(BASE), traced_runs(BASE, ns=(900, 910, 890, 905)))
    deeper = Difference(
        path="cgroup.depth", side="new", base=0, new=8, severity="treatment", reason="the change"
    )
    found = list(pelt_updates(data))
    (slower,) = [one for one in found if "duration" in one.clause]
    sections = {"pelt": Section.of(data)}
    (named,) = [
        one
        for one in name_load_avg(found, sections, (deeper,), {})
        if "update_cfs_group reads tg->load_avg" in one.claim
    ]
    assert named.id == slower.id
    assert "increased with the cgroup depth (0 -> 8)" in named.details
    # More calls alone are more accesses at most.
    more = analyse(traced_runs(BASE), traced_runs(NEW))
    (calls,) = name_load_avg(list(pelt_updates(more)), {"pelt": Section.of(more)}, (deeper,), {})
    assert "tg->load_avg" not in calls.claim
