# SPDX-License-Identifier: GPL-2.0-or-later
"""What a server's tasks used during a run: of those that stay, end, begin, or do both."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from schedperf_collectors.machine.processes import Process, all_processes, read_process
from schedperf_collectors.machine.server_tasks import (
    RunningTask,
    Server,
    read_server,
    read_tasks,
    server_use,
    to_options,
)
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.taskstats import Exit
from schedperf_collectors.machine.value_files import ValueFiles

FILES = ValueFiles(System())
WaitFor = Callable[[Callable[[], object]], None]
# Since boot.
FIRST_US, SECOND_US = 5_000_000_000, 5_003_000_000


def running(began_us: int, seen_us: int, *, exec_ns: int = 0, waiting_ns: int = 0) -> RunningTask:
    used = {
        "lifetime_us": seen_us - began_us, "exec_ns": exec_ns, "waiting_ns": waiting_ns,
        "user_us": exec_ns // 2000, "system_us": 0, "minor_faults": 3, "major_faults": 0,
    }  # fmt: skip
    return RunningTask(began_us, seen_us, used)


def ended(tid: int, lifetime_us: int, exec_ns: int, waiting_ns: int = 0) -> Exit:
    since_boot_us = round((time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()) * 1e6)
    seen_us = SECOND_US - since_boot_us
    return Exit(tid, tid, 1, seen_us, lifetime_us, exec_ns, waiting_ns, 0, 0, 5, 0, 0)


def use(
    before: Mapping[int, RunningTask], after: Mapping[int, RunningTask], exits: Sequence[Exit]
) -> Counter[str]:
    return server_use(before, after, exits, since_us=FIRST_US)


def test_a_task_that_stays_used_the_difference() -> None:
    before = {7: running(1_000_000, FIRST_US, exec_ns=500, waiting_ns=90)}
    after = {7: running(1_000_000, SECOND_US, exec_ns=800, waiting_ns=100)}
    used = use(before, after, [])
    assert (used["tasks"], used["exec_ns"], used["waiting_ns"]) == (1, 300, 10)
    assert (used["lifetime_us"], used["minor_faults"]) == (SECOND_US - FIRST_US, 0)


def test_a_task_that_ended_used_what_its_message_says_less_what_it_had_used() -> None:
    before = {7: running(FIRST_US - 2_000_000, FIRST_US, exec_ns=500, waiting_ns=90)}
    used = use(before, {}, [ended(7, 2_500_000, exec_ns=900, waiting_ns=95)])
    assert (used["tasks"], used["exec_ns"], used["waiting_ns"]) == (1, 400, 5)
    assert (used["lifetime_us"], used["minor_faults"]) == (500_000, 2)


def test_ticks_are_scaled_before_those_of_a_running_task_are_subtracted() -> None:
    # 60 ms ran, as /proc has it; 90 ms by ticks, a third of them in the kernel.
    begun = running(FIRST_US - 2_000_000, FIRST_US, exec_ns=50_000_000)
    exit_ = ended(7, 2_500_000, exec_ns=60_000_000)._replace(user_us=60_000, system_us=30_000)
    used = use({7: begun}, {}, [exit_])
    assert (used["user_us"], used["system_us"]) == (40_000 - 25_000, 20_000)
    # One that began later is as its message says.
    used = use({}, {}, [exit_._replace(lifetime_us=2_000_000)])
    assert (used["user_us"], used["system_us"]) == (60_000, 30_000)


def test_a_tid_that_is_used_again_is_two_tasks() -> None:
    before = {7: running(FIRST_US - 2_000_000, FIRST_US, exec_ns=500)}
    exits = [ended(7, 2_500_000, exec_ns=900), ended(7, 1_000_000, exec_ns=50)]
    after = {7: running(SECOND_US - 200_000, SECOND_US, exec_ns=9)}
    used = use(before, after, exits)
    assert (used["tasks"], used["exec_ns"]) == (3, 400 + 50 + 9)
    assert used["lifetime_us"] == 500_000 + 1_000_000 + 200_000


def test_a_tid_is_used_again_by_a_task_that_ended_although_the_message_of_the_first_is_lost() -> (
    None
):
    before = {7: running(FIRST_US - 60_000_000, FIRST_US, exec_ns=500)}
    used = use(before, {}, [ended(7, 1_000_000, exec_ns=50)])
    assert (used["tasks"], used["exec_ns"], used["lifetime_us"]) == (1, 50, 1_000_000)


def test_a_task_that_ended_right_after_the_second_reading_is_counted_once() -> None:
    before = {7: running(SECOND_US - 9_000_000, FIRST_US + 0, exec_ns=500)}
    after = {7: running(SECOND_US - 9_000_000, SECOND_US - 1000, exec_ns=800)}
    used = use(before, after, [ended(7, 9_000_000, exec_ns=850)])
    assert (used["tasks"], used["exec_ns"]) == (1, 350)


def test_a_task_that_was_there_before_but_joined_later_is_left_out() -> None:
    before = {7: running(1_000_000, FIRST_US)}
    after = {8: running(2_000_000, SECOND_US, exec_ns=800)}
    assert not use(before, after, [])


def test_a_task_that_joined_later_and_ended_is_left_out() -> None:
    before = {7: running(1_000_000, FIRST_US)}
    lifetime_us = SECOND_US - FIRST_US + 60_000_000
    assert not use(before, {}, [ended(8, lifetime_us, exec_ns=800)])
    # It may also have ended after the second reading.
    after = {8: running(SECOND_US - lifetime_us, SECOND_US, exec_ns=700)}
    assert not use(before, after, [ended(8, lifetime_us, exec_ns=800)])


def test_a_task_that_began_between_the_listing_and_the_first_reading_is_not_left_out() -> None:
    before = {7: running(1_000_000, FIRST_US + 900_000)}
    after = {8: running(FIRST_US + 300_000, SECOND_US, exec_ns=800)}
    exits = [ended(9, SECOND_US - FIRST_US - 400_000, exec_ns=50)]
    used = use(before, after, exits)
    assert (used["tasks"], used["exec_ns"]) == (2, 850)


def test_values_never_become_negative() -> None:
    before = {7: running(1_000_000, FIRST_US, exec_ns=500, waiting_ns=90)}
    after = {7: running(1_000_000, FIRST_US - 1, exec_ns=400, waiting_ns=80)}
    used = use(before, after, [])
    assert (used["exec_ns"], used["waiting_ns"], used["lifetime_us"]) == (0, 0, 0)


def processes(parents: Mapping[int, int]) -> dict[int, Process]:
    own = read_process(os.getpid())
    return {pid: replace(own, pid=pid, parent=parent) for pid, parent in parents.items()}


def test_descendants_belong_to_a_server() -> None:
    tree = processes({10: 1, 11: 10, 12: 11, 20: 1, 21: 20})
    began = tree[10].began_ticks
    assert Server({10: began}, ()).processes(FILES, tree) == {10, 11, 12}
    assert Server({10: began + 1, 99: 1}, ()).processes(FILES, tree) == frozenset()
    assert Server({10: began}, ()).processes(FILES, tree, [20]) == {10, 11, 12, 20, 21}
    circle = processes({10: 11, 11: 10})
    assert Server({10: began}, ()).processes(FILES, circle) == {10, 11}


def test_processes_of_a_cgroup_and_of_those_below_belong(tmp_path: Path) -> None:
    (tmp_path / "below" / "more").mkdir(parents=True)
    (tmp_path / "cgroup.procs").write_text("10\n11\n")
    (tmp_path / "below" / "more" / "cgroup.procs").write_text("20\n77\n")
    (tmp_path / "below" / "cgroup.procs").write_text("")
    tree = processes({10: 1, 11: 1, 12: 11, 20: 1, 30: 1})
    assert Server({}, (str(tmp_path),)).processes(FILES, tree) == {10, 11, 12, 20}
    assert Server({}, (str(tmp_path / "gone"),)).processes(FILES, tree) == frozenset()


def test_cgroups_are_those_of_the_system(make_system: Callable[..., System]) -> None:
    system = make_system({"sys/fs/cgroup/a/cgroup.procs": "10\n", "sys/fs/cgroup/a/b/x": "11\n"})
    tree = processes({10: 1, 11: 1})
    assert Server({}, ("/sys/fs/cgroup/a",)).processes(ValueFiles(system), tree) == {10}


def test_settings_keep_a_server() -> None:
    server = Server({10: 5, 11: 7}, ("/sys/fs/cgroup/a b", "/c:d"))
    assert read_server(to_options(server)) == server
    assert read_server(to_options(Server({}, ("/a",)))) == Server({}, ("/a",))
    assert read_server({}) is None


@pytest.mark.system
def test_all_threads_of_a_process_are_read(wait_for: WaitFor) -> None:
    source = (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n"
        "while True: pass\n"
    )
    process = subprocess.Popen([sys.executable, "-c", source])
    try:
        wait_for(lambda: len(FILES.names(f"/proc/{process.pid}/task")) == 2)
        before = read_tasks(FILES, [process.pid])
        wait_for(
            lambda: (
                read_tasks(FILES, [process.pid])[process.pid].used["exec_ns"]
                > before[process.pid].used["exec_ns"] + 50_000_000
            )
        )
        after = read_tasks(FILES, [process.pid])
    finally:
        process.kill()
        process.wait()
    assert before.keys() == after.keys()
    used = server_use(before, after, [], since_us=before[process.pid].seen_us)
    assert used["tasks"] == 2
    assert used["exec_ns"] > 50_000_000
    assert used["lifetime_us"] * 1000 > used["exec_ns"] + used["waiting_ns"]
    assert read_tasks(FILES, [process.pid]) == {}
    assert process.pid not in {each.pid for each in all_processes()}
