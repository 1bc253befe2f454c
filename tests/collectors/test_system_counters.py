# SPDX-License-Identifier: GPL-2.0-or-later
"""Both looks are complete, what is not there has its reason, and groups are followed as they go."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from schedperf.evidence.system.cgroup_cpu import CpuGroup, parse_cgroup_cpu
from schedperf.evidence.system.sys_tables import parse_cpufreq, parse_cpuidle
from schedperf_collectors import system_counters as module
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.sampling import repeated
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.throttled_groups import (
    MOST_GROUPS,
    TOO_MANY,
    Hierarchy,
    ThrottledGroups,
    find_hierarchy,
)
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture
from schedperf_collectors.system_counters import (
    capture_system_counters,
    frequency_table,
    idle_table,
    system_counters,
)

MakeSystem = Callable[..., System]

# Only a limit: a machine that is busy with other things takes its time.
LONGEST_WAIT_S = 60

CPUS = "sys/devices/system/cpu"
MOUNTS = "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
STAT = "usage_usec {0}\nnr_periods {0}\nnr_throttled {0}\nthrottled_usec {0}\n"


def looks_of(capture: Capture) -> tuple[set[str], set[str], Any]:
    before, after = (
        {path.name for path in (capture.folder / look).iterdir()} for look in ("before", "after")
    )
    return before, after, json.loads((capture.folder / "facts.json").read_text())


def test_this_machine_is_read_twice(capture: Capture) -> None:
    running = system_counters(capture)
    used = [time.process_time()]
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    used.append(time.process_time())
    time.sleep(0.2)
    used.append(time.process_time())
    assert list(running) == []
    used.append(time.process_time())
    before, after, facts = looks_of(capture)
    assert before == after
    assert {"clock", "stat", "interrupts", "softirqs"} <= before
    names = {"cgroups", "cpuidle", "cpufreq"}
    names |= {f"pressure_{one}" for one in ("cpu", "memory", "io", "irq")}
    assert names - before == {*facts["missing"]}
    assert 0.2 <= facts["seconds"] < 30
    assert abs(facts["clock_stepped_ns"]) < 1e9
    assert facts["cpus_before"] == facts["cpus_after"]
    # An instrument that is always on must not take a tenth of a second of a small machine.
    # How long it waits for a CPU is the machine's affair.
    most_s = 0.1 * (os.cpu_count() or 1)
    assert used[1] - used[0] < most_s
    assert used[3] - used[2] < most_s
    assert all(0 < seconds < 30 for seconds in facts["look_s"].values())


def test_a_machine_that_shows_nothing_says_so_of_each_file(
    make_system: MakeSystem, capture: Capture
) -> None:
    assert list(capture_system_counters(make_system({}), capture)) == [PREPARED, BEGUN]
    before, after, facts = looks_of(capture)
    assert before == after == {"clock"}
    assert facts["missing"].keys() == {
        "cgroups", "cpuidle", "cpufreq", "stat", "interrupts", "softirqs",
        "pressure_cpu", "pressure_memory", "pressure_io", "pressure_irq",
    }  # fmt: skip
    assert facts["missing"]["stat"] == "/proc/stat: no such file or directory"
    assert facts["cpus_before"] is None
    assert facts["settings"] == {"sched": {}}


def test_what_was_written_during_the_run_is_read_after_it(
    make_system: MakeSystem, capture: Capture
) -> None:
    files = {
        "proc/sys/kernel/sched_autogroup_enabled": "1\n",
        "sys/kernel/debug/sched/features": "PLACE_LAG\n",
        "sys/kernel/debug/sched/base_slice_ns": "2800000\n",
    }
    system = make_system(files)
    running = capture_system_counters(system, capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    system.path("/sys/kernel/debug/sched/features").write_text("NO_PLACE_LAG\n")
    assert list(running) == []
    assert looks_of(capture)[2]["settings"] == {
        "sched": {"autogroup": 1, "features": "NO_PLACE_LAG", "base_slice_ns": 2800000}
    }


def test_each_idle_state_of_each_cpu_that_is_online_is_a_row(make_system: MakeSystem) -> None:
    files = {f"{CPUS}/online": "0,2\n"}
    for cpu in (0, 1, 2):
        for state, name in ((0, "POLL"), (10, "C10 deep")):
            folder = f"{CPUS}/cpu{cpu}/cpuidle/state{state}"
            files |= {f"{folder}/name": f"{name}\n", f"{folder}/usage": f"{cpu}{state}\n"}
            files |= {f"{folder}/time": "7\n", f"{folder}/above": "\n"}
    states = parse_cpuidle(idle_table(make_system(files)).decode().splitlines(), "cpuidle")
    assert [(one.cpu, one.state, one.name, one.usage) for one in states] == [
        (0, 0, "POLL", 0), (0, 10, "C10 deep", 10), (2, 0, "POLL", 20), (2, 10, "C10 deep", 210),
    ]  # fmt: skip
    assert {(one.time_us, one.above, one.rejected) for one in states} == {(7, None, None)}


def test_a_policy_is_a_row_with_its_cpus_and_times(make_system: MakeSystem) -> None:
    policy = f"{CPUS}/cpufreq/policy2"
    system = make_system(
        {
            f"{policy}/affected_cpus": "2 3\n",
            f"{policy}/scaling_cur_freq": "2100000\n",
            f"{policy}/scaling_max_freq": "3500000\n",
            f"{policy}/stats/time_in_state": "800000 90\n3500000 7\n",
        }
    )
    [row] = parse_cpufreq(frequency_table(system).decode().splitlines(), "cpufreq")
    assert (row.cpus, row.cur_khz, row.min_khz, row.max_khz) == ((2, 3), 2100000, None, 3500000)
    assert row.ticks == {800000: 90, 3500000: 7}
    with pytest.raises(Unavailable, match="no policies"):
        frequency_table(System(system.root / "elsewhere"))


class Groups:
    """A hierarchy of version 2 on a plain file system."""

    def __init__(self, make_system: MakeSystem, own: str = "/") -> None:
        self.system = make_system(
            {
                "proc/self/mountinfo": MOUNTS,
                "proc/7/cgroup": f"0::{own}\n",
                "sys/fs/cgroup/cpu.stat": STAT.format(1),
            }
        )

    def write(self, path: str, count: int, limit: str = "25000 100000") -> None:
        folder = self.system.path(f"/sys/fs/cgroup{path}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.stat").write_text(STAT.format(count))
        (folder / "cpu.max").write_text(f"{limit}\n")

    def remove(self, path: str) -> None:
        folder = self.system.path(f"/sys/fs/cgroup{path}")
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()

    def follow(self) -> ThrottledGroups:
        return ThrottledGroups(self.system, find_hierarchy(self.system, 7))


@pytest.fixture
def groups(make_system: MakeSystem) -> Groups:
    return Groups(make_system)


def read(text: bytes) -> dict[str, CpuGroup]:
    found = parse_cgroup_cpu(text.decode().split("\n"), "cgroups")
    return {group.path: group for group in found}


def test_limited_groups_and_the_workloads_own_are_followed(make_system: MakeSystem) -> None:
    groups = Groups(make_system, own="/bench")
    for path in ("/bench", "/bench/below", "/other"):
        groups.write(path, 3, "max 100000")
    groups.write("/other/deep", 4)
    found = read(groups.follow().first_look())
    assert found.keys() == {"/bench", "/bench/below", "/other/deep"}
    assert found["/bench"].quota_s is None
    assert (found["/other/deep"].quota_s, found["/other/deep"].period_s) == (0.025, 0.1)
    assert found["/other/deep"].counts["nr_throttled"].value == 4


def test_a_group_that_lives_only_during_the_run_is_seen(groups: Groups) -> None:
    following = groups.follow()
    assert read(following.first_look()).keys() == {"/"}
    groups.write("/job", 0, "max 100000")
    following.look()
    assert read(following.last_seen()).keys() == {"/"}
    groups.write("/job", 5)
    following.look()
    groups.write("/job", 9)
    following.look()
    groups.remove("/job")
    following.look()
    assert read(following.last_look()).keys() == {"/"}
    job = read(following.last_seen())["/job"]
    assert (job.is_new, job.counts["nr_throttled"].value) == (True, 9)


def test_a_group_is_read_when_the_kernel_says_that_its_last_task_exited(groups: Groups) -> None:
    following = groups.follow()
    following.first_look()
    assert following.watch_changes()
    with contextlib.closing(following):
        groups.write("/job", 5)
        events = groups.system.path("/sys/fs/cgroup/job/cgroup.events")
        events.write_text("populated 1\nfrozen 0\n")
        following.handle()
        groups.write("/job", 9)
        events.write_text("populated 0\nfrozen 0\n")
        following.handle()
        groups.remove("/job")
        following.handle()
    job = read(following.last_seen())["/job"]
    assert (job.is_new, job.is_empty, job.counts["nr_throttled"].value) == (True, True, 9)


CGROUPS = next(
    (
        line.split()[1]
        for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
        if line.split()[2] == "cgroup2"
    ),
    None,
)


@pytest.mark.skipif(
    CGROUPS is None or not os.access(CGROUPS, os.W_OK), reason="no writable cgroup2 hierarchy"
)
def test_a_real_group_that_is_removed_at_once_is_counted_to_its_end() -> None:
    assert CGROUPS is not None
    own = Path(CGROUPS, f"schedperf-test-{os.getpid()}")
    own.mkdir()
    try:
        hierarchy = Hierarchy(2, CGROUPS, f"/{own.name}")
        following = ThrottledGroups(System(), hierarchy)
        following.first_look()
        assert following.watch_changes()
        burn = "import time\nwhile time.process_time() < 0.2: pass"
        job = f"{own}/job"
        join = f"mkdir {job} && echo $$ > {job}/cgroup.procs && exec {sys.executable} -c '{burn}'"
        with contextlib.closing(following), repeated(following.look, 1e-6, following):
            subprocess.run(["sh", "-c", join], check=True)
            # Without events the next look would come after minutes.
            end_s = time.monotonic() + LONGEST_WAIT_S
            while b"populated 0" not in following.last_seen() and time.monotonic() < end_s:
                time.sleep(0.001)
            (own / "job").rmdir()
        found = read(following.last_seen())[f"/{own.name}/job"]
        assert found.is_new
        assert found.is_empty
        assert found.counts["usage"].value >= 190_000
    finally:
        own.rmdir()


def test_a_group_that_is_made_again_is_another_one(groups: Groups) -> None:
    groups.write("/job", 5)
    following = groups.follow()
    first = read(following.first_look())["/job"]
    groups.remove("/job")
    # Keeps the number of the directory from being given away again.
    groups.write("/keeper", 0, "max 100000")
    groups.write("/job", 1)
    following.look()
    again = read(following.last_look())["/job"]
    assert (first.is_new, again.is_new) == (False, True)
    assert first.inode != again.inode


def test_more_groups_than_are_followed_are_said(groups: Groups) -> None:
    for number in range(MOST_GROUPS + 5):
        groups.write(f"/job{number}", 1)
    following = groups.follow()
    assert len(read(following.first_look())) == MOST_GROUPS
    following.look()
    assert len(read(following.last_seen())) == MOST_GROUPS
    assert following.notes == {TOO_MANY}


def test_names_of_groups_may_be_any_bytes(groups: Groups) -> None:
    folder = os.fsencode(groups.system.path("/sys/fs/cgroup")) + b"/j\xff\xe2\x80\xa8=== x"
    odd = Path(os.fsdecode(folder))
    odd.mkdir()
    (odd / "cpu.stat").write_text(STAT.format(1))
    (odd / "cpu.max").write_text("1000 100000\n")
    text = groups.follow().first_look()
    found = parse_cgroup_cpu(text.decode(errors="replace").split("\n"), "cgroups")
    assert [group.path for group in found] == ["/", "/j\ufffd\u2028=== x"]


def test_the_sampling_thread_sees_a_group_come_and_go(
    groups: Groups,
    capture: Capture,
    wait_for_look: Callable[[ModuleType], Callable[[], None]],
) -> None:
    look = wait_for_look(module)
    own = Capture(capture.folder, 7, {})
    running = capture_system_counters(groups.system, own)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    groups.write("/job", 6)
    look()
    groups.remove("/job")
    assert list(running) == []
    found = read((capture.folder / "during" / "cgroups").read_bytes())
    assert found["/job"].counts["nr_periods"].value == 6
    assert "/job" not in read((capture.folder / "after" / "cgroups").read_bytes())


@pytest.fixture
def throttled_folder() -> Iterator[tuple[Hierarchy, Path]]:
    """A real cgroup of this machine that may use a tenth of a CPU."""
    try:
        hierarchy = find_hierarchy(System(), os.getpid())
    except Unavailable as error:
        pytest.skip(f"no cgroups here: {error.reason}")
    folder = Path(hierarchy.folder, f"schedperf-test-{os.getpid()}")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        if hierarchy.version == 1:
            (folder / "cpu.cfs_quota_us").write_text("10000")
        else:
            (folder / "cpu.max").write_text("10000 100000")
        yield hierarchy, folder
    except OSError as error:
        pytest.skip(f"cgroup throttling is not for new groups here: {error}")
    finally:
        folder.rmdir()


def throttled_s(folder: Path) -> float:
    fields = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
    if "throttled_usec" in fields:
        return int(fields["throttled_usec"]) / 1e6
    return int(fields["throttled_time"]) / 1e9


@pytest.mark.system
def test_a_real_group_is_throttled_and_seen(
    throttled_folder: tuple[Hierarchy, Path],
    capture: Capture,
    wait_for: Callable[[Callable[[], bool]], None],
) -> None:
    _, folder = throttled_folder
    running = system_counters(capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    loop = f"echo 0 > {folder}/cgroup.procs; while :; do :; done"
    with subprocess.Popen(["sh", "-c", loop]) as busy:
        try:
            # On a busy machine a group may get less than its quota for a while.
            wait_for(lambda: throttled_s(folder) >= 0.5)
        finally:
            busy.kill()
    assert list(running) == []
    looks = [read((capture.folder / name / "cgroups").read_bytes()) for name in ("before", "after")]
    before, after = (look[f"/{folder.name}"] for look in looks)
    throttled = after.counts["throttled"].value * after.counts["throttled"].scale
    assert after.counts["nr_throttled"].value - before.counts["nr_throttled"].value >= 3
    assert 0.3 < throttled < 5
    assert after.quota_s == 0.01
