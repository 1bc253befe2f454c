# SPDX-License-Identifier: GPL-2.0-or-later
"""Which changes of the system's counters become findings."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.account.record import Account
from schedperf.evidence.system.findings import MOST_FINDINGS, system_changes
from schedperf.evidence.system.record import Group, SystemCounters, SystemRow
from schedperf.model.sections import Finding, Section
from tests.account_records import account_of
from tests.schedperf.evidence.system.records import system_counters_of, system_row

Find = Callable[..., list[Finding]]
Turn = Callable[[SystemRow], SystemRow]

THROTTLED = system_row(workload="stress-ng")
IDLE = replace(
    THROTTLED,
    group="idle",
    subject="C6",
    field="usage",
    basis="operation",
    unit="1/message",
    function="cpuidle_enter_state()",
    total_base=1000.0,
    total_new=3100.0,
    base=0.1,
    new=0.31,
    ratio=3.1,
)
INTERRUPT = replace(IDLE, group="interrupts", subject="RES", field="count")
POWER = replace(
    IDLE,
    group="power",
    subject="package-0",
    field="energy",
    basis="time",
    unit="W",
    function="",
    base=90.0,
    new=104.0,
    ratio=104 / 90,
)


@pytest.fixture
def find() -> Find:
    """Return the findings of rows, which are named after their places."""

    def run(*rows: SystemRow) -> list[Finding]:
        named = [replace(row, row=f"new-{index}") for index, row in enumerate(rows)]
        sections = {"system_counters": Section.of(system_counters_of(*named))}
        return list(system_changes(sections, ()))

    return run


def test_a_cgroup_that_is_throttled_more_names_both_shares_and_the_timer(find: Find) -> None:
    [found] = find(THROTTLED)
    assert found.claim == (
        "cgroup /2cg/a was throttled in 41.0% -> 84.0% of its quota periods, "
        "+105% (95% CI [+90%, +120%]): share of quota periods in which the cgroup was "
        "throttled; look at sched_cfs_period_timer()"
    )
    assert (found.id, found.evidence) == ("system_changes#new-0", ("system_counters#new-0",))
    assert found.value == pytest.approx(104.878, abs=0.001)
    assert found.ci == pytest.approx((90.0, 120.0))
    assert (found.n, found.better, found.unit) == ((5, 4), None, "%")


def test_states_interrupts_and_watts_have_sentences_of_their_own(find: Find) -> None:
    found = find(IDLE, INTERRUPT, POWER)
    claims = [f"{one.clause}{one.change}".partition(" (")[0] for one in found]
    assert claims == [
        "package-0 power 90 W -> 104 W, +15.6%",
        "whole machine: entries into C6 per message 0.1 -> 0.31, +210%",
        "whole machine: interrupts RES per message 0.1 -> 0.31, +210%",
    ]


def test_stalls_and_shares_of_idle_time_are_told_in_per_cent_of_the_time(find: Find) -> None:
    stall = replace(THROTTLED, group="pressure", subject="cpu some", field="total")
    share = replace(THROTTLED, group="idle", subject="C1", field="share")
    found = find(share, stall)
    claims = [f"{one.clause}{one.change}".partition(" (")[0] for one in found]
    assert claims == [
        "whole machine: pressure cpu some: 41.0% -> 84.0% of the time, +105%",
        "whole machine: share of CPU time in C1: 41.0% -> 84.0%, +105%",
    ]


@pytest.mark.parametrize(
    "row",
    [
        replace(THROTTLED, changed=False),
        replace(THROTTLED, changed=None),
        replace(INTERRUPT, node=1),
        replace(IDLE, field="above"),
    ],
)
def test_noise_and_parts_are_not_told(row: SystemRow, find: Find) -> None:
    assert find(row) == []


def test_a_rate_an_operation_decides_before_a_rate_a_second(find: Find) -> None:
    second = replace(IDLE, basis="time", unit="1/s")
    assert find(replace(IDLE, changed=False), second) == []
    [found] = find(second)
    assert "per second" in found.claim


def test_a_count_that_was_zero_is_told_with_both_values(find: Find) -> None:
    [found] = find(replace(IDLE, base=0.0, new=3.0, ratio=None, ci_low=None, ci_high=None))
    assert found.claim.startswith("whole machine: entries into C6 per message 0 -> 3: ")
    assert (found.value, found.ci) == (None, None)


def test_a_few_changes_of_a_side_and_fewer_of_a_group_are_told(find: Find) -> None:
    many = [replace(INTERRUPT, subject=f"IRQ {number}", ratio=2.0 + number) for number in range(9)]
    assert [one.metric for one in find(*many)] == [
        "interrupts IRQ 8 count",
        "interrupts IRQ 7 count",
    ]
    groups = [replace(THROTTLED, subject="/b"), THROTTLED, POWER, IDLE, *many]
    found = find(*groups, replace(THROTTLED, side="new2", row="new2-0"))
    assert [sum(one.side == side for one in found) for side in ("new", "new2")] == [
        MOST_FINDINGS,
        1,
    ]


def test_the_sum_over_cgroups_is_told_where_no_cgroup_is(find: Find) -> None:
    whole = replace(THROTTLED, subject="all limited groups", ratio=9.0)
    [found] = find(whole, THROTTLED)
    assert found.claim.startswith("cgroup /2cg/a was throttled in")
    [found] = find(whole, replace(THROTTLED, changed=False))
    assert found.claim.startswith("cgroup all limited groups was throttled in")
    assert [one.side for one in find(whole, replace(THROTTLED, side="new2"))] == ["new", "new2"]


def test_a_subject_is_told_once_where_it_changed_most(find: Find) -> None:
    points = [
        replace(THROTTLED, point=f"groups={groups}", ratio=ratio)
        for groups, ratio in ((1, 1.5), (4, 3.0))
    ]
    seconds = replace(THROTTLED, field="throttled", basis="time", unit="s/s")
    [found] = find(*points, seconds)
    assert found.claim.startswith("groups=4: cgroup /2cg/a was throttled in")


PER_SECOND = replace(INTERRUPT, basis="time", unit="1/s", base=50.0, new=130.0)
# What a run counts that is 1.25 times as long, and nothing else.
TICKS = replace(INTERRUPT, subject="LOC", ratio=1.25, new=0.125, ci_low=1.2, ci_high=1.3)
TICKS_PER_SECOND = replace(TICKS, basis="time", unit="1/s", base=500.0, new=501.0)


def swap(row: SystemRow) -> SystemRow:
    """Return the row as it is where the other side is base."""
    ratio, low, high = (
        None if one is None else 1.0 / one for one in (row.ratio, row.ci_high, row.ci_low)
    )
    return replace(row, base=row.new, new=row.base, ratio=ratio, ci_low=low, ci_high=high)


@pytest.mark.parametrize("turn", [replace, swap])
@pytest.mark.parametrize(
    "rate",
    [
        {"ratio": 1.002, "changed": False},
        {"ratio": 1.05, "new": 525.0, "changed": False},
        {"ratio": 1.05, "new": 525.0, "changed": None},
        {"ratio": 0.9, "new": 450.0, "changed": True},
    ],
)
def test_what_comes_with_time_is_no_reason_for_a_longer_run(
    rate: dict[str, Any], turn: Turn, find: Find
) -> None:
    assert find(turn(TICKS), turn(replace(TICKS_PER_SECOND, **rate))) == []


def test_what_comes_more_often_per_second_too_says_both_rates(find: Find) -> None:
    rate = replace(PER_SECOND, ratio=2.6, ci_low=2.5, ci_high=2.7)
    [found] = find(INTERRUPT, rate)
    assert found.claim.startswith(
        "whole machine: interrupts RES per message 0.1 -> 0.31, +210% "
        "(95% CI [+90%, +120%], per second +160% [+150%, +170%]): "
    )
    [back] = find(swap(INTERRUPT), swap(rate))
    assert back.claim.startswith("whole machine: interrupts RES per message 0.31 -> 0.1, -67.7%")
    assert "per second -62% [-63%, -60%]" in back.claim


def test_where_an_operation_takes_as_long_as_before_the_rate_a_second_need_not_be_sure(
    find: Find,
) -> None:
    rate = replace(TICKS_PER_SECOND, ratio=1.245, new=620.0, changed=False)
    assert len(find(TICKS, rate)) == 1
    assert find(TICKS, replace(rate, ratio=1.23)) == []


def test_of_a_count_that_was_zero_the_rate_a_second_has_both_values(find: Find) -> None:
    none: dict[str, Any] = {"base": 0.0, "ratio": None, "ci_low": None, "ci_high": None}
    rate = replace(PER_SECOND, **none)
    [found] = find(replace(INTERRUPT, **none), rate)
    assert "per message 0 -> 0.31 (per second 0 -> 130): " in found.claim
    assert find(replace(INTERRUPT, **none), replace(rate, changed=False)) == []


def test_a_rate_of_one_node_says_nothing_of_the_machine(find: Find) -> None:
    assert len(find(TICKS, replace(TICKS_PER_SECOND, node=0, ratio=1.0, changed=False))) == 1


COST = replace(
    IDLE,
    group="cpu",
    subject="system",
    field="time",
    unit="s/message",
    meaning="time of CPUs",
    function="account_process_tick()",
    base=1.0e-6,
    new=1.25e-6,
    ratio=1.25,
    ci_low=1.2,
    ci_high=1.3,
    values_base=(1.0e-6,) * 5,
    values_new=(1.25e-6,) * 5,
)
USER_COST = replace(
    COST,
    subject="user",
    changed=False,
    base=1.0e-7,
    new=1.01e-7,
    ratio=1.01,
    ci_low=0.9,
    ci_high=1.1,
)
SHARE = replace(COST, field="share", basis="share", unit="", base=0.90, new=0.92)
USER_SHARE = replace(SHARE, subject="user", base=0.1, new=0.08, ratio=0.8)


@pytest.mark.parametrize(("turn", "verb"), [(replace, "increase"), (swap, "decrease")])
def test_cpu_time_is_told_per_operation_and_no_share_of_it(
    turn: Turn, verb: str, find: Find
) -> None:
    # The user's share falls, and not its time: the same time in a longer run.
    rows = (COST, USER_COST, replace(SHARE, ratio=1.02), USER_SHARE)
    [found] = find(*map(turn, rows))
    # 0.203 us at least, beside 0.010 us of the user's at most.
    part = f"at least 95% of the {verb} in busy time per message"
    assert part in found.claim
    assert (found.metric, found.better) == ("cpu system time", "lower")


@pytest.mark.parametrize("rate", [SHARE, replace(COST, basis="time", unit="s/s")])
def test_cpus_that_work_all_the_time_before_and_after_still_work_longer(
    rate: SystemRow, find: Find
) -> None:
    [found] = find(COST, replace(rate, new=rate.base, ratio=1.0, changed=False))
    assert (found.metric, "per second" in found.claim) == ("cpu system time", False)


def test_cpus_of_an_unknown_number_that_do_nothing_for_longer_have_their_rate(find: Find) -> None:
    idle = replace(COST, subject="idle")
    rate = replace(idle, basis="time", unit="s/s", ratio=1.0, changed=False)
    assert find(idle, rate) == []
    assert len(find(idle, replace(rate, ratio=1.1, changed=True))) == 1


def test_cpu_time_that_there_was_none_of_has_no_change_in_per_cent(find: Find) -> None:
    none: dict[str, Any] = {"base": 0.0, "ratio": None, "ci_low": None, "ci_high": None}
    [found] = find(replace(COST, **none, subject="steal"))
    assert found.claim == "whole machine: steal time per message 0 us -> 1.25 us: time of CPUs"


def test_a_kind_that_may_be_less_than_half_of_the_growth_says_nothing_of_its_part(
    find: Find,
) -> None:
    wide = replace(USER_COST, base=1.0e-6, new=1.01e-6, ci_high=1.4)
    [found] = find(COST, wide)
    assert "busy time" not in found.claim
    others = [replace(wide, subject=subject) for subject in ("idle", "guest")]
    for other in (*others, replace(wide, point="elsewhere")):
        [found] = find(COST, other)
        assert "at least 100%" in found.claim


def test_a_kind_that_some_runs_have_not_may_have_grown_by_all_that_there_was(find: Find) -> None:
    zeros = replace(
        USER_COST,
        ratio=None,
        ci_low=None,
        ci_high=None,
        values_base=(0.0, 1.0e-8),
        values_new=(0.0, 2.0e-8),
    )
    [found] = find(COST, zeros)
    # 0.203 us beside 0.02.
    assert "at least 91% of the increase" in found.claim


def test_cpu_time_that_may_be_noise_is_not_told_by_its_share(find: Find) -> None:
    assert find(replace(COST, changed=False), SHARE, USER_COST, USER_SHARE) == []


def test_shares_of_cpu_time_are_told_where_no_operations_are_known(find: Find) -> None:
    [found] = find(USER_SHARE)
    assert found.claim.startswith("whole machine: share of CPU time in user: 10.0% -> 8.0%")
    assert found.better is None


@pytest.mark.parametrize("turn", [replace, swap])
@pytest.mark.parametrize(("group", "subject"), [("cpu", "idle"), ("cpu", "iowait"), ("idle", "C6")])
def test_cpus_that_do_nothing_for_longer_in_a_longer_run_are_no_reason(
    group: Group, subject: str, turn: Turn, find: Find
) -> None:
    time, share = (replace(one, group=group, subject=subject) for one in (COST, SHARE))
    assert find(turn(time), turn(replace(share, ratio=1.0, changed=False))) == []
    assert find(turn(time), turn(replace(share, base=0.92, new=0.90, ratio=0.98))) == []
    [found] = find(turn(time), turn(replace(share, ratio=1.02)))
    assert found.metric == f"{group} {subject} time"
    assert found.better is None
    assert "per second" in found.claim


def test_the_same_changes_are_chosen_whichever_side_is_base(find: Find) -> None:
    rows = [
        replace(INTERRUPT, subject=f"IRQ {number}", ratio=ratio, base=1.0, new=ratio)
        for number, ratio in enumerate((1.5, 0.5, 1.8, 0.6))
    ]
    there, back = find(*rows), find(*map(swap, rows))
    assert [one.metric for one in there] == [one.metric for one in back]
    assert [one.metric for one in there] == ["interrupts IRQ 1 count", "interrupts IRQ 2 count"]


def test_cpu_times_of_the_machine_are_left_out_if_those_of_the_tasks_are_known() -> None:
    rows = [
        replace(row, row=f"new-{number}")
        for number, row in enumerate((COST, IDLE, INTERRUPT, THROTTLED, POWER))
    ]
    counters = {"system_counters": Section.of(system_counters_of(*rows))}
    account = Section.of(account_of())
    of_tasks = list(system_changes({**counters, "account": account}, ()))
    assert len(of_tasks) == MOST_FINDINGS
    assert "system_counters#new-0" not in {one.evidence[0] for one in of_tasks}
    absent = Section.without(Account, "absent", "no run of new has a resource usage")
    for sections in (counters, {**counters, "account": absent}):
        found = list(system_changes(sections, ()))
        assert "system_counters#new-0" in {one.evidence[0] for one in found}
        # It takes the place of another one.
        assert len(found) == MOST_FINDINGS


def test_without_counters_there_is_no_finding() -> None:
    assert [*system_changes({}, ())] == []
    absent = Section.without(SystemCounters, "absent", "no run was recorded with system_counters")
    assert [*system_changes({"system_counters": absent}, ())] == []
