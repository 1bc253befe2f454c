"""Which changes of the system's counters become findings."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from schedperf.findings.system_changes import MOST_FINDINGS, system_changes
from schedperf.model import Finding, Section

Find = Callable[..., list[Finding]]

THROTTLED: Mapping[str, Any] = {
    "side": "new",
    "workload": "stress-ng",
    "point": "",
    "group": "cgroup",
    "subject": "/2cg/a",
    "field": "throttled_share",
    "node": None,
    "basis": "share",
    "unit": "",
    "meaning": "share of the group's periods in which it used up its quota",
    "function": "sched_cfs_period_timer()",
    "total_base": None,
    "total_new": None,
    "n_base": 5,
    "n_new": 4,
    "base": 0.41,
    "new": 0.84,
    "ratio": 0.84 / 0.41,
    "ci_low": 1.9,
    "ci_high": 2.2,
    "changed": True,
    "replication": "runs",
}
IDLE = {
    **THROTTLED,
    "group": "idle",
    "subject": "C6",
    "field": "usage",
    "basis": "operation",
    "unit": "1/message",
    "function": "cpuidle_enter_state()",
    "total_base": 1000.0,
    "total_new": 3100.0,
    "base": 0.1,
    "new": 0.31,
    "ratio": 3.1,
}
INTERRUPT = {**IDLE, "group": "interrupts", "subject": "RES", "field": "count"}
POWER = {
    **IDLE,
    "group": "power",
    "subject": "package-0",
    "field": "energy",
    "basis": "time",
    "unit": "W",
    "function": "",
    "base": 90.0,
    "new": 104.0,
    "ratio": 104 / 90,
}


@pytest.fixture
def find() -> Find:
    """Return the findings of rows, which are named after their places."""

    def run(*rows: Mapping[str, Any]) -> list[Finding]:
        named = [{"row": f"new-{number}", **row} for number, row in enumerate(rows)]
        section = Section(
            schema="schedperf/section/system_counters/1",
            status="ok",
            reason=None,
            data={"rows": named},
        )
        return list(system_changes({"system_counters": section}))

    return run


def test_a_cgroup_that_is_throttled_more_names_both_shares_and_the_timer(find: Find) -> None:
    [found] = find(THROTTLED)
    assert found.claim == (
        "cgroup /2cg/a: throttled in 84.0 % of its periods instead of 41.0 % "
        "(95 % interval +90..+120 %): share of the group's periods in which it used up its quota; "
        "look at sched_cfs_period_timer()"
    )
    assert (found.id, found.evidence) == ("system_changes#new-0", ("system_counters#new-0",))
    assert found.value == pytest.approx(104.878, abs=0.001)
    assert found.ci == pytest.approx((90.0, 120.0))
    assert (found.n, found.better, found.unit) == ((5, 4), None, "%")


def test_states_interrupts_and_watts_have_sentences_of_their_own(find: Find) -> None:
    claims = [one.claim.partition(" (")[0] for one in find(IDLE, INTERRUPT, POWER)]
    assert claims == [
        "package-0 takes 104 W instead of 90 W",
        "C6 is entered 3.1 times as often per message",
        "interrupts RES come 3.1 times as often per message",
    ]


def test_stalls_and_shares_of_idle_time_are_told_in_per_cent_of_the_time(find: Find) -> None:
    stall = {**THROTTLED, "group": "pressure", "subject": "cpu some", "field": "total"}
    share = {**THROTTLED, "group": "idle", "subject": "C1", "field": "share"}
    claims = [one.claim.partition(" (")[0] for one in find(share, stall)]
    assert claims == [
        "pressure cpu some: 84.0 % of the time instead of 41.0 %",
        "CPUs are in C1 for 84.0 % of the time instead of 41.0 %",
    ]


@pytest.mark.parametrize(
    "row",
    [
        {**THROTTLED, "changed": False},
        {**THROTTLED, "changed": None},
        {**INTERRUPT, "node": 1},
        {**IDLE, "field": "above"},
    ],
)
def test_noise_and_parts_are_not_told(row: Mapping[str, Any], find: Find) -> None:
    assert find(row) == []


def test_a_rate_an_operation_decides_before_a_rate_a_second(find: Find) -> None:
    second = {**IDLE, "basis": "time", "unit": "1/s"}
    assert find({**IDLE, "changed": False}, second) == []
    [found] = find(second)
    assert "per second" in found.claim


def test_a_count_that_was_zero_is_told_with_both_values(find: Find) -> None:
    [found] = find(
        {**IDLE, "base": 0.0, "new": 3.0, "ratio": None, "ci_low": None, "ci_high": None}
    )
    assert found.claim.startswith("C6 is entered 3 times instead of 0 per message: ")
    assert (found.value, found.ci) == (None, None)


def test_a_few_changes_of_a_side_and_fewer_of_a_group_are_told(find: Find) -> None:
    many = [{**INTERRUPT, "subject": f"IRQ {number}", "ratio": 2.0 + number} for number in range(9)]
    assert [one.metric for one in find(*many)] == [
        "interrupts IRQ 8 count",
        "interrupts IRQ 7 count",
    ]
    groups = [{**THROTTLED, "subject": "/b"}, THROTTLED, POWER, IDLE, *many]
    found = find(*groups, {**THROTTLED, "side": "new2", "row": "new2-0"})
    assert [sum(one.side == side for one in found) for side in ("new", "new2")] == [
        MOST_FINDINGS,
        1,
    ]


def test_the_sum_over_cgroups_is_told_where_no_cgroup_is(find: Find) -> None:
    whole = {**THROTTLED, "subject": "all limited groups", "ratio": 9.0}
    [found] = find(whole, THROTTLED)
    assert found.claim.startswith("cgroup /2cg/a: throttled in")
    [found] = find(whole, {**THROTTLED, "changed": False})
    assert found.claim.startswith("cgroup all limited groups: throttled in")
    assert [one.side for one in find(whole, {**THROTTLED, "side": "new2"})] == ["new", "new2"]


def test_a_subject_is_told_once_where_it_changed_most(find: Find) -> None:
    points = [
        {**THROTTLED, "point": f"groups={groups}", "ratio": ratio}
        for groups, ratio in ((1, 1.5), (4, 3.0))
    ]
    seconds = {**THROTTLED, "field": "throttled", "basis": "time", "unit": "s/s"}
    [found] = find(*points, seconds)
    assert found.claim.startswith("groups=4: cgroup /2cg/a: throttled in")
