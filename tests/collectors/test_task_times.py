# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of the workload's running tasks are added up, and never more than they used."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from schedperf.evidence.account.sampled import parse_samples
from schedperf_collectors import task_times as module
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped, all_collectors
from schedperf_collectors.task_times import capture_task_times, task_times
from tests.collectors.fake_processes import stat_of

MakeSystem = Callable[..., System]
Look = Callable[[], None]
WaitForLook = Callable[[ModuleType], Look]
Times = dict[str, Any]

# The recorder, its collector, and what it starts.
RECORDER, COLLECTOR, COMMAND, CHILD = 5, 6, 9, 12

# A loop and its child, until a file exists.
LOOPS = """
import os
from pathlib import Path

child = os.fork()
Path(f"began-{os.getpid()}").touch()
while not Path("over").exists():
    sum(range(10_000))
if child:
    os.waitpid(child, 0)
"""


def written(capture: Capture) -> Times:
    found: Times = json.loads((capture.folder / "task_times.json").read_text())
    assert found.pop("schema") == "schedperf/task_times/1"
    return found


class Machine:
    """A recorder and its collector; the times of their and of other tasks are files."""

    def __init__(self, make_system: MakeSystem, capture: Capture, look: Look) -> None:
        self._make = make_system
        self._folder = capture
        self.look = look
        self.system = make_system({"proc/self/schedstat": "1000 0 1\n"})
        for pid, parent in ((RECORDER, 1), (COLLECTOR, RECORDER)):
            self.use({pid: (10**9, 10**9)}, parent, command="recorder")
        self.running = capture_task_times(self.system, Capture(capture.folder, RECORDER, {}))

    def use(
        self,
        times: Mapping[int, tuple[int, int]],
        parent: int,
        *,
        command: str = "busy",
        pid: int | None = None,
    ) -> None:
        """Set CPU time and waiting time in ns of tasks.

        :param times: by thread id
        :param pid: their process; None if each one is a process
        """
        for tid, (execution, waiting) in times.items():
            process = tid if pid is None else pid
            own = f"{execution} {waiting} 7\n"
            files = {f"proc/{process}/task/{tid}/schedstat": own}
            if tid == process:
                files[f"proc/{process}/schedstat"] = own
                files[f"proc/{process}/cmdline"] = f"{command}\0"
                files[f"proc/{process}/stat"] = stat_of(process, command, parent=parent)
            # A task's files are complete when its process appears.
            self._make(files)

    def end(self, pid: int) -> None:
        shutil.rmtree(self.system.path(f"/proc/{pid}"))

    def finish(self) -> Times:
        assert list(self.running) == []
        return written(self._folder)


@pytest.fixture
def machine(make_system: MakeSystem, capture: Capture, wait_for_look: WaitForLook) -> Machine:
    return Machine(make_system, capture, wait_for_look(module))


def test_what_each_task_had_used_when_it_was_last_seen_is_added_up(machine: Machine) -> None:
    assert [next(machine.running), next(machine.running)] == [PREPARED, BEGUN]
    machine.use({COMMAND: (1_000, 2_000)}, RECORDER)
    machine.use({COMMAND + 1: (10_000, 0)}, RECORDER, pid=COMMAND)
    machine.look()
    machine.use({COMMAND: (4_000, 2_500)}, RECORDER)
    machine.use({CHILD: (0, 100_000)}, COMMAND)
    machine.look()
    machine.end(CHILD)
    machine.look()
    found = machine.finish()
    assert found.pop("looks") >= 6
    assert found == {"tasks": 3, "exec_s": 14e-6, "waiting_s": 102.5e-6}


def test_an_id_that_is_used_again_is_another_task(machine: Machine) -> None:
    assert [next(machine.running), next(machine.running)] == [PREPARED, BEGUN]
    machine.use({COMMAND: (1_000, 2_000)}, RECORDER)
    machine.look()
    # Between two looks.
    machine.use({COMMAND: (300, 5_000)}, RECORDER)
    machine.look()
    machine.end(COMMAND)
    machine.look()
    machine.use({COMMAND: (9_000, 9_000)}, RECORDER)
    machine.look()
    found = machine.finish()
    assert found.pop("looks") >= 8
    assert found == {"tasks": 3, "exec_s": 10.3e-6, "waiting_s": 16e-6}


def test_times_of_the_setup_do_not_count(machine: Machine) -> None:
    assert next(machine.running) == PREPARED
    # It becomes the command, and has left an orphan.
    machine.use({COMMAND: (1_000, 2_000)}, RECORDER, command="setup")
    machine.use({CHILD: (500, 500)}, COMMAND)
    assert next(machine.running) == BEGUN
    machine.use({COMMAND: (1_700, 2_900)}, RECORDER)
    machine.use({CHILD: (800, 800)}, COMMAND)
    machine.look()
    found = machine.finish()
    assert (found["tasks"], found["exec_s"], found["waiting_s"]) == (1, 700e-9, 900e-9)


def test_a_run_without_looks_has_no_tasks(machine: Machine) -> None:
    assert [next(machine.running), next(machine.running)] == [PREPARED, BEGUN]
    machine.look()
    found = machine.finish()
    assert (found["tasks"], found["exec_s"], found["waiting_s"]) == (0, 0.0, 0.0)


@pytest.mark.parametrize("files", [{}, {"proc/self/schedstat": "0 0 0\n"}])
def test_a_kernel_that_does_not_count_is_no_time_of_0(
    make_system: MakeSystem, capture: Capture, files: dict[str, str]
) -> None:
    with pytest.raises(Skipped, match="no times in /proc/PID/schedstat") as caught:
        next(capture_task_times(make_system(files), capture))
    assert caught.value.remedy == "boot a kernel with CONFIG_TASK_DELAY_ACCT=y"


@pytest.mark.system
def test_real_tasks_used_at_least_what_is_sampled(
    capture: Capture,
    tmp_path: Path,
    wait_for: Callable[[Callable[[], object]], None],
    wait_for_look: WaitForLook,
) -> None:
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel has no /proc/PID/schedstat")
    look = wait_for_look(module)
    running = task_times(capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    began_s = time.monotonic()
    command = [sys.executable, "-c", LOOPS]
    workload = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    wait_for(lambda: len(list(tmp_path.glob("began-*"))) == 2)
    pids = [int(path.name.partition("-")[2]) for path in tmp_path.glob("began-*")]
    least = [used_by(pid) for pid in pids]
    look()
    (tmp_path / "over").touch()
    _, status, usage = os.wait4(workload.pid, 0)
    workload.returncode = os.waitstatus_to_exitcode(status)
    assert workload.returncode == 0
    assert list(running) == []
    elapsed_s = time.monotonic() - began_s
    found = written(capture)
    assert found["tasks"] == 2
    # The resource usage has whole microseconds.
    used_s = usage.ru_utime + usage.ru_stime + 1e-5
    assert sum(each[0] for each in least) / 1e9 <= found["exec_s"] <= used_s
    assert sum(each[1] for each in least) / 1e9 <= found["waiting_s"] <= 2 * elapsed_s


def used_by(pid: int) -> tuple[int, int]:
    execution, waiting, _ = map(int, Path(f"/proc/{pid}/schedstat").read_text().split())
    return execution, waiting


@pytest.mark.system
def test_a_user_without_rights_can_sample(run_as_nobody: Callable[[str], str]) -> None:
    assert run_as_nobody("task_times") == ""


@pytest.mark.system
def test_only_instrumented_runs_of_a_user_without_rights_are_sampled(
    nobody: Any, read_bundle: Any
) -> None:
    how = ("-o", "out/a.tar", "-n", "1", "--warmup", "0", "--", "sleep", "0.2")
    said = nobody("-m", "schedperf_collectors", "record", *how)
    refused = "account skipped: taskstats: operation not permitted; run as root, or with"
    assert refused in said
    bundle = read_bundle(nobody.folder / "a.tar")
    sampled = {
        run["kind"]: any(entry["collector"] == "task_times" for entry in run["captures"])
        for run in bundle.runs
    }
    assert sampled == {"clean": False, "instrumented": True}
    [name] = [name for name in bundle.members if name.endswith("/task_times.json")]
    times = parse_samples(bundle.members[name], name)
    # On a busy machine there may be no look in that time.
    assert times.tasks <= times.looks


def test_it_stands_in_for_the_account() -> None:
    collector = all_collectors()["task_times"]
    assert (collector.instead_of, collector.intrusive) == ("account", True)
    assert collector.default
    assert not all_collectors()["account"].intrusive
