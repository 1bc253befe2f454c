# SPDX-License-Identifier: GPL-2.0-or-later
"""From both looks of a run to sums: nodes, wraps, restarts, groups that come and go, damage."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.evidence.system.capture import (
    SystemCounts,
    SystemKey,
    SystemValue,
    read_system_counters,
    read_task_counters,
)
from schedperf.evidence.system.record import Group
from schedperf.evidence.system.sys_tables import FREQUENCY_COLUMNS, IDLE_COLUMNS, POWER_COLUMNS
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.errors import InputError
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture
from schedperf_collectors.system_counters import system_counters

Read = Callable[..., SystemCounts]

FACTS: Mapping[str, object] = {
    "missing": {},
    "notes": [],
    "seconds": 2.0,
    "clock_stepped_ns": 0,
    "cpus_before": "0-3",
    "cpus_after": "0-3",
    "ticks_per_second": 100,
}


@pytest.fixture
def read(tmp_path: Path, make_bundle: Callable[..., Path]) -> Read:
    """Read a run: ``read({"stat": (before, after)}, {"during/cgroups": text}, seconds=3.0)``.

    The generated machine has the CPUs 0 and 1 on node 0, 2 and 3 on node 1.
    """

    def make(
        looks: Mapping[str, tuple[str, str]], more: Mapping[str, str] | None = None, **facts: object
    ) -> SystemCounts:
        files = {"system_counters/facts.json": json.dumps({**FACTS, **facts}), **(more or {})}
        for name, (before, after) in looks.items():
            files[f"system_counters/before/{name}"] = before
            files[f"system_counters/after/{name}"] = after
        [side] = name_sides(
            [open_bundle(make_bundle(tmp_path / "base.tar", runs=[{"files": files}]))]
        )
        return read_system_counters(side, side.bundle.runs[0])

    return make


def value(
    found: SystemCounts, group: Group, subject: str, field: str, node: int | None = None
) -> Any:
    return found.counts[SystemKey(group, subject, field, node)]


def count(number: float, unit: str = "1") -> Any:
    return SystemValue(pytest.approx(number), unit, "count")  # type: ignore[arg-type] # compares as one


def table(columns: tuple[str, ...], *rows: str) -> str:
    return "".join("\t".join(row) + "\n" for row in (columns, *(row.split() for row in rows)))


def test_what_this_machine_counts_is_read_whole(
    tmp_path: Path, make_bundle: Callable[..., Path]
) -> None:
    capture = Capture(tmp_path / "capture", 1, {})
    capture.folder.mkdir()
    running = system_counters(capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    deadline = time.monotonic() + 0.2
    while time.monotonic() < deadline:
        time.sleep(0)
    assert list(running) == []
    files = {
        f"system_counters/{path.relative_to(capture.folder)}": path.read_bytes()
        for path in capture.folder.rglob("*")
        if path.is_file()
    }
    [side] = name_sides([open_bundle(make_bundle(tmp_path / "base.tar", runs=[{"files": files}]))])
    found = read_system_counters(side, side.bundle.runs[0])
    assert found.notes == ()
    assert found.seconds is not None
    assert {"cpu", "interrupts", "softirqs"} <= {key.group for key in found.counts}
    times = [value(found, "cpu", kind, "time").value for kind in ("user", "system", "idle")]
    assert 0.1 < sum(times) < 1000
    assert value(found, "cpu", "ctxt", "count").value > 0


def test_interrupts_are_summed_by_node_and_joined_by_cpu(read: Read) -> None:
    before = "  CPU0 CPU1 CPU2 CPU3\nLOC: 10 20 30 40 Local\nERR: 5\n"
    after = "  CPU3 CPU2 CPU0 CPU1\nLOC: 44 33 11 22 Local\nERR: 7\n"
    found = read({"interrupts": (before, after)})
    assert value(found, "interrupts", "LOC", "count") == count(10)
    assert value(found, "interrupts", "LOC", "count", 0) == count(3)
    assert value(found, "interrupts", "LOC", "count", 1) == count(7)
    assert value(found, "interrupts", "ERR", "count") == count(2)


def test_a_cpu_that_went_away_is_left_out_and_said(read: Read) -> None:
    looks = ("CPU0 CPU1\nRCU: 10 20\n", "CPU0\nRCU: 11\n")
    found = read({"softirqs": looks}, cpus_before="0-1", cpus_after="0")
    assert value(found, "softirqs", "RCU", "count") == count(1)
    assert found.notes == (
        "CPUs 0-1 were online before the run and 0 after it",
        (
            "softirqs: CPUs went online or offline during the run; only CPUs in both snapshots "
            "are counted"
        ),
    )


def test_a_counter_of_32_bits_wraps_and_one_that_fell_is_unknown(read: Read) -> None:
    looks = (f"CPU0 CPU1\nLOC: {2**32 - 5} 9\nRES: 7000 1\n", "CPU0 CPU1\nLOC: 5 10\nRES: 3 3\n")
    found = read({"interrupts": looks})
    assert value(found, "interrupts", "LOC", "count") == count(11)
    assert value(found, "interrupts", "RES", "count") == count(2)
    wrapped, restarted = found.notes
    assert wrapped.startswith("interrupts: LOC of cpu0 wrapped (one wrap is assumed")
    assert restarted.startswith("interrupts: RES of cpu0 decreased, so these counters were reset")


def test_idle_states_are_summed_over_cpus_in_seconds(read: Read) -> None:
    before = table(IDLE_COLUMNS, "0 1 C1 10 1000000 1 2 -", "2 1 C1 20 2000000 3 4 -")
    after = table(IDLE_COLUMNS, "0 1 C1 15 1500000 1 3 -", "2 1 C1 21 4000000 4 4 -")
    found = read({"cpuidle": (before, after)})
    assert value(found, "idle", "C1", "time") == count(2.5, "s")
    assert value(found, "idle", "C1", "time", 1) == count(2.0, "s")
    assert value(found, "idle", "C1", "usage") == count(6)
    assert value(found, "idle", "C1", "above") == count(1)
    assert value(found, "idle", "C1", "below") == count(1)
    assert "rejected" not in {key.field for key in found.counts}


def test_pressure_is_in_seconds(read: Read) -> None:
    looks = ("some total=1000000\nfull total=0\n", "some total=1250000\nfull total=0\n")
    found = read({"pressure_cpu": looks})
    assert found.counts == {
        SystemKey("pressure", "cpu some", "total", None): count(0.25, "s"),
        SystemKey("pressure", "cpu full", "total", None): count(0.0, "s"),
    }


def test_frequencies_are_means_over_cpus_and_over_the_run(read: Read) -> None:
    before = table(
        FREQUENCY_COLUMNS, "0 1000 800 3000 5 1000:10,3000:10 0,1,2", "3 2000 800 3000 1 - 3"
    )
    after = table(
        FREQUENCY_COLUMNS, "0 3000 800 3000 9 1000:10,3000:30 0,1,2", "3 2000 800 3000 1 - 3"
    )
    found = read({"cpufreq": (before, after)})
    assert value(found, "frequency", "CPUs", "cur") == SystemValue(2e6, "Hz", "level")
    assert value(found, "frequency", "CPUs", "mean") == SystemValue(3e6, "Hz", "level")
    assert value(found, "frequency", "CPUs", "total_trans") == count(4)


def test_energy_wraps_at_its_range_and_long_runs_are_said(read: Read) -> None:
    most = 262143328850
    before = table(
        POWER_COLUMNS, f"/p/rapl:0 package-0 {most - 1000000} {most} -", "/h/p1 fan - - 2000000"
    )
    after = table(POWER_COLUMNS, f"/p/rapl:0 package-0 500000 {most} -", "/h/p1 fan - - 4000000")
    found = read({"power": (before, after)})
    assert value(found, "power", "package-0", "energy") == count(1.5, "J")
    assert value(found, "power", "fan", "power") == SystemValue(3.0, "W", "level")
    assert found.notes == ("power: package-0 wrapped at 262143 J (one wrap is assumed)",)
    [_, note] = read({"power": (before, after)}, seconds=3600.0).notes[:2]
    assert "the meter may have wrapped more often than counted" in note


def test_cpu_times_are_seconds(read: Read) -> None:
    looks = (
        "cpu 9 9\ncpu0 100 0 50\nctxt 5\nprocesses 6\n",
        "cpu 9 9\ncpu0 150 0 250\nctxt 8\nprocesses 7\n",
    )
    found = read({"stat": looks})
    assert value(found, "cpu", "user", "time") == count(0.5, "s")
    assert value(found, "cpu", "system", "time", 0) == count(2.0, "s")
    assert value(found, "cpu", "ctxt", "count") == count(3)
    assert value(found, "cpu", "processes", "count") == count(1)


def group(
    path: str,
    throttled: int,
    *,
    inode: int = 7,
    age: str = "old",
    quota: str = "25000",
    at_s: float = 0.0,
    populated: int | None = None,
) -> str:
    stat = f"nr_periods {throttled * 2}\nnr_throttled {throttled}\nthrottled_usec {throttled}000000"
    events = "" if populated is None else f"populated {populated}\n"
    seen = f"+++ {inode} {round(at_s * 1e9)} {age}"
    return f"=== {path}\n{stat}\n{events}--- {quota} 100000 0\n{seen}\n"


# The snapshots of a run of 10 s that began 5 s after the boot.
CLOCK = ("monotonic_ns 5000000000\nrealtime_ns 1\n", "monotonic_ns 15000000000\nrealtime_ns 2\n")


def test_groups_with_a_limit_have_counts_and_a_sum(read: Read) -> None:
    before = group("/a", 3) + group("/b", 1, inode=8)
    found = read({"cgroups": (before, group("/a", 5) + group("/b", 4, inode=8))})
    assert value(found, "cgroup", "/a", "nr_throttled") == count(2)
    assert value(found, "cgroup", "/a", "throttled") == count(2.0, "s")
    assert value(found, "cgroup", "all limited groups", "nr_periods") == count(10)
    assert value(found, "cgroup", "/a", "quota") == SystemValue(0.025, "s", "level")
    assert found.notes == ()


def test_groups_that_come_and_go_are_counted_as_far_as_they_were_seen(read: Read) -> None:
    during = group("/gone", 9, at_s=14.0) + group("/job", 4, inode=20, age="new", at_s=14.5)
    after = group("/job", 2, inode=30, age="new") + group("/limited-now", 8, inode=40)
    before = group("/gone", 5) + group("/never", 1, inode=9)
    looks = {"clock": CLOCK, "cgroups": (before, after)}
    found = read(looks, {"system_counters/during/cgroups": during})
    assert value(found, "cgroup", "/gone", "nr_throttled") == SystemValue(
        4.0, "1", "count", seconds=9.0, is_partial=True
    )
    # Two groups of one name, one after the other: 4 in 9.5 s and 2 in 10 s.
    assert value(found, "cgroup", "/job", "nr_throttled") == SystemValue(
        6.0,
        "1",
        "count",
        seconds=pytest.approx(6.0 / (4.0 / 9.5 + 2.0 / 10.0)),  # type: ignore[arg-type] # compares as one
        is_partial=True,
    )
    assert {key.subject for key in found.counts} == {"/gone", "/job", "all limited groups"}
    until = (
        "rates per second refer to the time until its last snapshot, and rates per "
        "operation are not computed"
    )
    assert sorted(found.notes) == [
        *(
            f"cgroup: {path} was removed during the run, at an unknown time after its last "
            f"snapshot; {until}"
            for path in ("/gone", "/job")
        ),
        "cgroup: /limited-now has no counts, because its CPU quota was set during the run",
        "cgroup: /never was removed before the second snapshot and has no counts",
    ]


def removed(read: Read, *, at_s: float, populated: int | None, throttled: int = 9) -> SystemCounts:
    """Read a run of 10 s during which /job was made, last seen after ``at_s`` and removed."""
    during = group("/job", throttled, age="new", at_s=5.0 + at_s, populated=populated)
    looks = {"clock": CLOCK, "cgroups": (group("/", 0, quota="max"), group("/", 0, quota="max"))}
    return read(looks, {"system_counters/during/cgroups": during})


def test_a_removed_group_is_measured_by_the_time_until_its_last_snapshot(read: Read) -> None:
    # Without this 9 periods seen in 6 s were 0.9 per second and counted as the whole run's.
    found = removed(read, at_s=6.0, populated=1)
    for subject in ("/job", "all limited groups"):
        counted = value(found, "cgroup", subject, "nr_throttled")
        assert (counted.value, counted.seconds, counted.is_partial) == (9.0, 6.0, True)
    [note] = found.notes
    assert note == (
        "cgroup: /job was removed during the run, at an unknown time after its last snapshot; "
        "rates per second refer to the time until its last snapshot, and rates per "
        "operation are not computed"
    )


def test_a_group_that_was_empty_at_its_last_snapshot_is_counted_whole(read: Read) -> None:
    found = removed(read, at_s=6.0, populated=0)
    counted = value(found, "cgroup", "/job", "nr_throttled")
    assert (counted.value, counted.seconds, counted.is_partial) == (9.0, 6.0, False)
    [note] = found.notes
    assert note == (
        "cgroup: /job was removed during the run, after its last task had exited; rates per second "
        "refer to the time until its last snapshot"
    )


def test_a_group_whose_last_snapshot_is_early_has_no_counts(read: Read) -> None:
    found = removed(read, at_s=4.9, populated=1)
    assert {(key.subject, key.field) for key in found.counts if key.field != "populated"} == {
        ("/", "nr_periods"), ("/", "nr_throttled"), ("/", "throttled"),
        ("/job", "quota"), ("/job", "period"),
    }  # fmt: skip
    assert (
        "cgroup: /job has no counts, because the last snapshot before its removal was taken too "
        "early in the run" in found.notes
    )


def test_without_a_clock_a_removed_group_has_no_counts(read: Read) -> None:
    looks = {"cgroups": (group("/", 0, quota="max"), group("/", 0, quota="max"))}
    during = group("/job", 9, age="new", at_s=9.0)
    found = read(looks, {"system_counters/during/cgroups": during})
    assert SystemKey("cgroup", "/job", "nr_throttled", None) not in found.counts


def test_the_sum_of_groups_that_ended_one_after_the_other_is_of_their_whole_time(
    read: Read,
) -> None:
    during = "".join(
        group(f"/job{index}", 30, inode=20 + index, age="new", at_s=5.0 + end_s, populated=0)
        for index, end_s in enumerate((3.0, 6.0, 9.0))
    )
    looks = {"clock": CLOCK, "cgroups": (group("/", 0, quota="max"), group("/", 0, quota="max"))}
    found = read(looks, {"system_counters/during/cgroups": during})
    total = value(found, "cgroup", "all limited groups", "nr_throttled")
    assert (total.value, total.seconds, total.is_partial) == (90.0, pytest.approx(9.0), False)


def test_a_limit_that_changed_is_said(read: Read) -> None:
    found = read({"cgroups": (group("/a", 3), group("/a", 5, quota="max"))})
    assert found.notes == ("cgroup: the CPU quota of /a changed during the run",)
    assert not {key for key in found.counts if key.field == "quota"}


@pytest.fixture
def read_tasks(tmp_path: Path, make_bundle: Callable[..., Path]) -> Callable[[str], SystemCounts]:
    """Read the tasks of a run from the text of a tasks.json."""

    def make(text: str) -> SystemCounts:
        runs = [{"files": {"task_sched/tasks.json": text}}]
        [side] = name_sides([open_bundle(make_bundle(tmp_path / "base.tar", runs=runs))])
        return read_task_counters(side, side.bundle.runs[0])

    return make


def test_tasks_of_the_workload_are_added_up(read_tasks: Callable[[str], SystemCounts]) -> None:
    tasks = [
        {"pid": 9, "tid": tid, "seen_ns": 5, "sched": f"nr_switches : {tid}\nwait_sum : 1.500000"}
        for tid in (9, 10)
    ]
    record = {"schema": "schedperf/task_sched/1", "looks": 3, "left_out": 1, "tasks": tasks}
    found = read_tasks(json.dumps(record))
    assert value(found, "tasks", "all tasks", "nr_switches") == count(19)
    assert value(found, "tasks", "all tasks", "wait_sum") == count(0.003, "s")
    assert found.notes == ("tasks: 2 workload tasks were read, 1 more left out",)
    with pytest.raises(InputError, match=r"tasks\.json"):
        read_tasks("{")


def test_a_clock_that_was_set_is_said_and_slewing_is_not(read: Read) -> None:
    assert read({}, clock_stepped_ns=900_000).notes == ()
    for stepped_ns in (5_000_000, -3_600_000_000_000):
        notes = read({}, clock_stepped_ns=stepped_ns).notes
        assert notes == ("the clock was set during the run, or the machine was suspended",)


def test_a_damaged_file_costs_only_itself(read: Read) -> None:
    good = ("some total=1\n", "some total=2\n")
    looks = {"pressure_io": good, "pressure_cpu": ("some total=1\n", "some tot"), "stat": ("", "")}
    found = read(looks)
    assert {key.subject for key in found.counts} == {"io some"}
    folder = "boots/0/runs/000/system_counters"
    assert [note.removeprefix(folder) for note in found.notes] == [
        "/after/pressure_cpu: truncated last line; record again",
        "/before/stat: no `cpuN` lines; pass a copy of /proc/stat",
    ]


def test_a_file_of_one_look_only_is_said(read: Read) -> None:
    found = read({}, {"system_counters/after/cpuidle": table(IDLE_COLUMNS)})
    assert found.notes == ("cpuidle is not counted, because it was read only after the run",)


def test_what_the_collector_said_is_passed_on(read: Read) -> None:
    found = read({}, missing={"power": "no meter"}, notes=["more than 256 groups"], seconds=None)
    assert (found.missing, found.seconds) == ({"power": "no meter"}, None)
    assert found.notes == ("more than 256 groups",)


@pytest.mark.parametrize(
    "facts",
    [
        {"seconds": -1}, {"seconds": "long"}, {"missing": []}, {"missing": {"a": 1}},
        {"ticks_per_second": 0}, {"ticks_per_second": 1 << 40}, {"notes": "text"},
        {"clock_stepped_ns": 0.5}, {"cpus_before": 3},
    ],
)  # fmt: skip
def test_facts_of_another_form_are_refused(read: Read, facts: dict[str, object]) -> None:
    with pytest.raises(InputError, match="facts.json"):
        read({}, **facts)


def test_a_run_without_it_says_so(tmp_path: Path, make_bundle: Callable[..., Path]) -> None:
    [side] = name_sides([open_bundle(make_bundle(tmp_path / "base.tar", runs=1))])
    with pytest.raises(
        InputError, match="facts.json is missing; record with the collector system_counters"
    ):
        read_system_counters(side, side.bundle.runs[0])
