# SPDX-License-Identifier: GPL-2.0-or-later
"""What a counter of one run is divided by."""

import pytest

from schedperf.evidence.system.capture import SystemCounts, SystemKey, SystemValue
from schedperf.evidence.system.measure import measure
from schedperf.evidence.system.record import Group
from schedperf.model.run import Captured, Operations, RunKey


def bases(group: Group, subject: str, field: str, value: SystemValue) -> dict[str, float]:
    """Return the value of each rate of a counter in a run of 10 s with 100 messages."""
    key = SystemKey(group, subject, field, None)
    counts = SystemCounts(counts={key: value}, cpus={}, seconds=10.0, missing={}, notes=())
    run = Captured(
        key=RunKey(side="base", workload="hackbench", point="", boot=0, run=0),
        ops=Operations(count=100.0, unit="message", exact=True),
        wall_s=11.0,
        content=counts,
    )
    found = measure(run, {None: 4})
    return {basis: rate.value for (_, basis), rate in found.items()}


@pytest.mark.parametrize(
    ("group", "subject", "field"),
    [
        ("softirqs", "TIMER", "count"),
        ("softirqs", "SCHED", "count"),
        ("interrupts", "LOC", "count"),
        ("interrupts", "arch_timer", "count"),
        ("interrupts", "HVS", "count"),
        ("interrupts", "hpet2", "count"),
        ("interrupts", "timer3", "count"),
        ("cgroup", "/job", "nr_periods"),
    ],
)
def test_what_a_clock_drives_has_no_rate_per_operation(
    group: Group, subject: str, field: str
) -> None:
    assert bases(group, subject, field, SystemValue(50.0, "1", "count")) == {"time": 5.0}


@pytest.mark.parametrize(
    ("group", "subject", "field"),
    [
        ("softirqs", "NET_RX", "count"),
        ("interrupts", "RES", "count"),
        ("cgroup", "/job", "nr_throttled"),
    ],
)
def test_what_work_drives_has_both(group: Group, subject: str, field: str) -> None:
    rates = bases(group, subject, field, SystemValue(50.0, "1", "count"))
    assert rates == {"time": 5.0, "operation": 0.5}


def test_what_was_counted_for_a_part_of_the_run_is_a_rate_of_that_part() -> None:
    partial = SystemValue(50.0, "1", "count", seconds=4.0, is_partial=True)
    assert bases("cgroup", "/job", "nr_throttled", partial) == {"time": 12.5}
    complete = SystemValue(50.0, "1", "count", seconds=4.0)
    rates = bases("cgroup", "/job", "nr_throttled", complete)
    assert rates == {"time": 12.5, "operation": 0.5}
