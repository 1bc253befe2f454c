# SPDX-License-Identifier: GPL-2.0-or-later
"""The workload's tasks, and no others, are looked at while they run."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from schedperf.evidence.system.task_sched import WorkloadTasks, parse_task_sched
from schedperf_collectors import task_sched as module
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped
from schedperf_collectors.task_sched import MOST_TASKS, capture_task_sched, task_sched
from tests.collectors.fake_processes import stat_of

MakeSystem = Callable[..., System]
WaitForLook = Callable[[ModuleType], Callable[[], None]]
Run = Callable[[int], WorkloadTasks]

SCHED = "busy (9, #threads: 1)\n---\nnr_switches      :    {}\n"


def written(capture: Capture) -> WorkloadTasks:
    return parse_task_sched((capture.folder / "tasks.json").read_bytes(), "tasks.json")


@pytest.mark.system
def test_a_real_workload_and_what_it_starts_are_seen(
    capture: Capture,
    tmp_path: Path,
    wait_for: Callable[[Callable[[], bool]], None],
    wait_for_look: WaitForLook,
) -> None:
    if not Path("/proc/self/sched").exists():
        pytest.skip("this kernel has no /proc/PID/sched")
    look = wait_for_look(module)
    other = subprocess.Popen(["sleep", "3600"])
    running = task_sched(capture)
    assert next(running) == PREPARED
    # What ends before the word to begin is a setup's, and none of the workload.
    setup = subprocess.Popen(["sleep", "0.3"], start_new_session=True)
    assert setup.wait() == 0
    assert next(running) == BEGUN
    # The inner one has a session of its own, as daemons have.
    inner = "sleep 3600 & touch started; until test -e over; do sleep 0.05; done; kill $!"
    command = ["sh", "-c", 'setsid sh -c "$1" & sleep 0.01; wait', "sh", inner]
    workload = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    wait_for((tmp_path / "started").exists)
    look()
    look()
    (tmp_path / "over").touch()
    assert workload.wait() == 0
    other.kill()
    other.wait()
    assert list(running) == []
    found = written(capture)
    seen = {task.tid: task for task in found.tasks}
    assert workload.pid in seen
    assert other.pid not in seen
    assert setup.pid not in seen
    assert os.getpid() not in seen
    assert len(seen) >= 3
    assert seen[workload.pid].fields["nr_switches"].value >= 1
    assert found.looks >= 3


@pytest.fixture
def run(make_system: MakeSystem, capture: Capture, wait_for_look: WaitForLook) -> Run:
    """Watch a recorder, 5, with a collector, 6; a workload, 9, with a hostile name comes later."""
    look = wait_for_look(module)

    def watch(tasks: int) -> WorkloadTasks:
        return _watch(make_system, capture, look, tasks)

    return watch


def _watch(
    make_system: MakeSystem, capture: Capture, look: Callable[[], None], tasks: int
) -> WorkloadTasks:
    system = make_system(
        {
            "proc/self/sched": "",
            "proc/5/cmdline": "python3\0-m\0recorder\0",
            "proc/5/stat": stat_of(5, "python3", parent=1),
        }
    )
    running = capture_task_sched(system, Capture(capture.folder, 5, {}))
    assert next(running) == PREPARED
    collector = {
        "proc/6/cmdline": "python3\0-m\0recorder\0",
        "proc/6/stat": stat_of(6, "python3", parent=5),
        "proc/6/task/6/sched": SCHED.format(1),
    }
    make_system(collector)
    assert next(running) == BEGUN
    later = {f"proc/9/task/{9 + n}/sched": SCHED.format(n) for n in range(tasks)}
    later["proc/9/stat"] = stat_of(9, "a) R 1 1 1", parent=5)
    make_system(later)
    look()
    assert list(running) == []
    return written(capture)


def test_collectors_are_none_of_the_workload(run: Run) -> None:
    found = run(2)
    assert [(task.pid, task.tid) for task in found.tasks] == [(9, 9), (9, 10)]
    assert found.left_out == 0


def test_tasks_beyond_the_limit_are_counted(run: Run) -> None:
    found = run(MOST_TASKS + 7)
    assert (len(found.tasks), found.left_out) == (MOST_TASKS, 7)


def test_a_kernel_without_the_file_is_skipped_with_the_remedy(
    make_system: MakeSystem, capture: Capture
) -> None:
    with pytest.raises(Skipped, match="no /proc/PID/sched") as caught:
        next(capture_task_sched(make_system({}), capture))
    assert caught.value.remedy == "rebuild with CONFIG_SCHED_DEBUG=y"


def test_the_file_says_of_what_form_it_is(run: Run, capture: Capture) -> None:
    run(1)
    record = json.loads((capture.folder / "tasks.json").read_text())
    assert record["schema"] == "schedperf/task_sched/1"
    assert record["tasks"][0]["seen_ns"] <= record["clock_ns"]
