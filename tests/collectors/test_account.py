# SPDX-License-Identifier: GPL-2.0-or-later
"""The workload's tasks, all of them and no others, are counted with what they used."""

import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from schedperf.evidence.account.capture import MOST_OTHERS
from schedperf_collectors import account as module
from schedperf_collectors.account import account, capture_account, list_others
from schedperf_collectors.machine.orphans import Moment, adopt_orphans, end_orphans
from schedperf_collectors.machine.processes import TICKS_PER_S, read_process
from schedperf_collectors.machine.server_tasks import Server, to_options
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, InvalidRun, Skipped
from tests.collectors.fake_processes import stat_of

pytestmark = pytest.mark.system

WaitFor = Callable[[Callable[[], object]], None]
Account = dict[str, Any]

ONCE = ("-n", "1", "--warmup", "0", "--with", "account")
TICK_S = 0.01
# The number of exit(2), which ends one thread.
EXIT = {"x86_64": 60, "aarch64": 93}

# Tasks: this process, 5 threads, 3 children with 2 each, a shell with 2 programs, and a daemon with
# the process that starts it. A pipe tells when the daemon has ended.
MANY = """
import os, subprocess, threading

for _ in range(5):
    thread = threading.Thread(target=sum, args=(range(1000),))
    thread.start()
    thread.join()
for _ in range(3):
    child = os.fork()
    if not child:
        for _ in range(2):
            grandchild = os.fork()
            if not grandchild:
                os._exit(0)
            os.waitpid(grandchild, 0)
        os._exit(0)
    os.waitpid(child, 0)
subprocess.run(["sh", "-c", "/bin/true; /bin/true; :"], check=True)
ours, theirs = os.pipe()
child = os.fork()
if not child:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.close(ours)
    sum(range(100_000))
    os._exit(0)
os.close(theirs)
os.waitpid(child, 0)
os.read(ours, 1)
"""
MANY_TASKS = 1 + 5 + 9 + 3 + 2

# It runs beside the workload: it uses CPU time, and so do its children, one after another.
BESIDE = """
import os, time
from pathlib import Path

def busy(name, used_s):
    Path("/proc/self/comm").write_text(name)
    began_s = time.process_time()
    while time.process_time() < began_s + used_s:
        pass

for n in range(1_000_000):
    busy("beside-loop", 0.02)
    child = os.fork()
    if not child:
        busy("beside-child", 0.05)
        os._exit(0)
    os.waitpid(child, 0)
    Path("children").write_text(str(n + 1))
"""

# It ends after some children of that.
UNTIL_CHILDREN = """
import time
from pathlib import Path

def children():
    path = Path({!r})
    return int(path.read_text() or 0) if path.exists() else 0

first = children()
while children() < first + 4:
    time.sleep(0.02)
"""

BUSY = "import time\nwhile time.process_time() < {}: pass\n"

# Its child starts a daemon, which uses CPU time that nobody waits for.
ORPHAN = """
import os, time
ours, theirs = os.pipe()
child = os.fork()
if not child:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.close(ours)
    while time.process_time() < 0.5:
        pass
    os._exit(0)
os.close(theirs)
os.waitpid(child, 0)
os.read(ours, 1)
"""


@pytest.fixture(scope="module")
def _needs_taskstats(tmp_path_factory: pytest.TempPathFactory) -> None:
    running = account(Capture(tmp_path_factory.mktemp("tried"), os.getpid(), {}))
    try:
        next(running)
    except Skipped as skipped:
        pytest.skip(skipped.reason)
    finally:
        running.close()  # type: ignore[attr-defined] # a generator


@pytest.fixture
def _adopt() -> Iterator[None]:
    """This process is the recorder, so orphans are its children."""
    began = Moment.now()
    adopt_orphans()
    yield
    adopt_orphans(adopts=False)
    end_orphans(began)


@dataclass(frozen=True)
class Run:
    """A run of the collector in this process."""

    capture: Capture

    def __call__(self, *command: str, meanwhile: Callable[[], None] = lambda: None) -> Account:
        return self.and_usage(*command, meanwhile=meanwhile)[0]

    def and_usage(
        self,
        *command: str,
        meanwhile: Callable[[], None] = lambda: None,
        server: int | None = None,
    ) -> tuple[Account, float]:
        """Return what was recorded, and the CPU time by wait4(2).

        :param server: pid of the server of the workload
        """
        options: Mapping[str, str] = {}
        if server is not None:
            options = to_options(Server({server: read_process(server).began_ticks}, ()))
        running = account(replace(self.capture, options=options))
        assert [next(running), next(running)] == [PREPARED, BEGUN]
        workload = subprocess.Popen(command, start_new_session=True)
        _, status, usage = os.wait4(workload.pid, 0)
        workload.returncode = os.waitstatus_to_exitcode(status)
        assert workload.returncode == 0
        meanwhile()
        assert list(running) == []
        found = json.loads((self.capture.folder / "account.json").read_text())
        assert (found["schema"], found["left_out"]) == ("schedperf/account/1", 0)
        assert found["lost"] in (0, None)
        return found, usage.ru_utime + usage.ru_stime


@pytest.fixture
def run(capture: Capture, _needs_taskstats: None, _adopt: None) -> Run:
    return Run(capture)


def cpu_s(pid: int) -> float:
    used = read_process(pid).used
    return used.user_s + used.system_s


def wait_for_use(pid: int, used_s: float, wait_for: WaitFor) -> None:
    first_s = cpu_s(pid)
    wait_for(lambda: cpu_s(pid) > first_s + used_s)


@pytest.fixture
def _list_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of others has all of them."""
    monkeypatch.setattr(module, "MOST_OTHERS", 1_000_000)
    monkeypatch.setattr(module, "LEAST_SHARE", 0.0)


def of_commands(found: Account) -> dict[str, float]:
    return {row["command"]: row["cpu_s"] for row in found["others"]}


def test_each_task_that_the_workload_starts_is_counted_once(run: Run) -> None:
    found = run(sys.executable, "-c", MANY)
    assert found["tasks"] == MANY_TASKS
    # Threads and forks have the name of their program.
    assert {*found["commands"]} == {Path(sys.executable).name[:15], "sh", "true"}
    assert found["lifetime_s"] > found["exec_s"] > 0
    assert found["minor_faults"] > 1000


def test_a_process_whose_first_thread_ends_first_is_counted(run: Run) -> None:
    number = EXIT.get(platform.machine())
    if number is None:
        pytest.skip("the number of exit(2) of this machine is not in the test")
    source = (
        "import ctypes, os, threading, time\n"
        "from pathlib import Path\n"
        "def last():\n"
        "    while 'Z' not in Path('/proc/self/stat').read_text().rpartition(')')[2][:3]:\n"
        "        time.sleep(0.01)\n"
        "    os._exit(0)\n"
        "threading.Thread(target=last).start()\n"
        f"ctypes.CDLL(None).syscall({number}, 0)\n"
    )
    assert run(sys.executable, "-c", source)["tasks"] == 2


@contextlib.contextmanager
def running_beside(folder: Path, wait_for: WaitFor, name: str = "beside") -> Iterator[int]:
    command = [sys.executable, "-c", BESIDE.replace("beside", name)]
    process = subprocess.Popen(command, cwd=folder, start_new_session=True)
    try:
        wait_for((folder / "children").exists)
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.usefixtures("_list_all")
def test_what_runs_beside_the_workload_is_among_the_others(
    run: Run, tmp_path: Path, wait_for: WaitFor
) -> None:
    seen: list[float] = []

    def children() -> int:
        # It may be empty for a moment.
        return int((tmp_path / "children").read_text() or 0)

    def wait_for_children() -> None:
        seen.append(cpu_s(beside))
        first = children()
        wait_for(lambda: children() >= first + 4)
        seen.append(cpu_s(beside))

    # A child of the recorder like the workload, but it was there before.
    with running_beside(tmp_path, wait_for) as beside:
        found = run(sys.executable, "-c", MANY, meanwhile=wait_for_children)
    assert found["tasks"] == MANY_TASKS
    others = of_commands(found)
    # User and system time are each read in whole ticks; its children have its name at first.
    assert others["beside-loop"] >= seen[1] - seen[0] - 4 / TICKS_PER_S
    # Short tasks lack up to a tick.
    assert others["beside-child"] >= 3 * (0.05 - TICK_S)
    assert found["others_cpu_s"] == pytest.approx(sum(others.values()))
    assert found["others"] == sorted(found["others"], key=lambda row: -row["cpu_s"])


def test_only_the_largest_others_are_listed(
    run: Run, tmp_path: Path, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_OTHERS", 1)
    with running_beside(tmp_path, wait_for) as beside:
        found = run("true", meanwhile=lambda: wait_for_use(beside, 0.05, wait_for))
    assert len(found["others"]) == 1
    assert found["others_cpu_s"] >= found["others"][0]["cpu_s"] > 0


def test_others_are_all_with_a_thousandth_of_their_time() -> None:
    used_s = {f"c{number}": 1.0 for number in range(60)}
    rows = list_others({"small": 0.06, "large": 10.0, "tiny": 0.03, **used_s})
    assert [row["command"] for row in rows] == ["large", *used_s]
    # 0.1% of 70.07 s.
    rows = list_others({"small": 0.0702, "large": 10.0, **used_s})
    assert rows[-1] == {"command": "small", "cpu_s": 0.0702}
    most = list_others({f"c{number}": 1.0 for number in range(200)})
    # What a report accepts.
    assert len(most) == MOST_OTHERS == 100
    assert list_others({}) == []


@pytest.mark.usefixtures("_list_all")
def test_times_of_a_server_are_those_of_the_scheduler(run: Run, wait_for: WaitFor) -> None:
    seen: list[tuple[float, float]] = []

    def read() -> None:
        execution, waiting, _ = Path(f"/proc/{server.pid}/schedstat").read_text().split()
        seen.append((int(execution) / 1e9, int(waiting) / 1e9))

    def use() -> None:
        read()
        wait_for_use(server.pid, 0.3, wait_for)
        read()

    server = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        read()
        found, _ = run.and_usage("true", meanwhile=use, server=server.pid)
        read()
    finally:
        server.kill()
        server.wait()
    used = found["server"]
    assert used["tasks"] == 1
    # The run is inside of the first and the last reading, and outside of the others.
    for name, index in (("exec_s", 0), ("waiting_s", 1)):
        first, second, third, last = (times[index] for times in seen)
        assert third - second - 1e-6 <= used[name] <= last - first + 1e-6
    assert used["exec_s"] >= 0.3 - 4 / TICKS_PER_S
    # User and system time are each read in whole ticks.
    assert abs(used["user_s"] + used["system_s"] - used["exec_s"]) <= 4 / TICKS_PER_S
    assert found["others_cpu_s"] == pytest.approx(sum(of_commands(found).values()))


@pytest.mark.usefixtures("_list_all")
def test_what_a_server_starts_is_its_own_and_not_among_the_others(
    run: Run, tmp_path: Path, wait_for: WaitFor
) -> None:

    def children() -> int:
        # It may be empty for a moment.
        return int((tmp_path / "children").read_text() or 0)

    def wait_for_children() -> None:
        first = children()
        wait_for(lambda: children() >= first + 4)

    # Another test may run programs with the usual names.
    with running_beside(tmp_path, wait_for, "served") as served:
        found, _ = run.and_usage(
            sys.executable, "-c", MANY, meanwhile=wait_for_children, server=served
        )
    assert found["tasks"] == MANY_TASKS
    assert found["exits"] >= MANY_TASKS + 3
    assert not {"served-loop", "served-child"} & of_commands(found).keys()
    server = found["server"]
    assert server["tasks"] >= 1 + 4
    # Short tasks lack up to a tick.
    assert server["exec_s"] >= 3 * (0.02 + 0.05 - 2 * TICK_S)
    assert server["lifetime_s"] > server["exec_s"]


@pytest.mark.usefixtures("_needs_taskstats")
def test_a_server_that_has_ended_makes_the_run_invalid(capture: Capture) -> None:
    gone = subprocess.Popen(["true"])
    options = to_options(Server({gone.pid: read_process(gone.pid).began_ticks}, ()))
    gone.wait()
    running = account(replace(capture, options=options))
    assert next(running) == PREPARED
    with pytest.raises(InvalidRun, match="the server has ended"):
        next(running)


def test_times_of_a_server_that_cannot_be_read_are_no_end_of_it(
    capture: Capture, make_system: Callable[..., System], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = 9
    stat = stat_of(server, "server", parent=1)
    # A kernel without schedstat.
    system = make_system({f"proc/{server}/stat": stat, f"proc/{server}/task/{server}/stat": stat})
    no_exits = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(module, "Exits", lambda _: no_exits)
    options = to_options(Server({server: 0}, ()))
    running = capture_account(system, replace(capture, options=options))
    assert next(running) == PREPARED
    with pytest.raises(Skipped, match="the server's /proc/PID/task/TID/schedstat cannot be read"):
        next(running)


def _use_cpu(ready: int) -> NoReturn:
    os.write(ready, b"\n")
    while True:
        pass


def test_collectors_are_the_recorder_and_no_others(run: Run, wait_for: WaitFor) -> None:
    ours, theirs = os.pipe()
    # Collectors are copies of the recorder, which may have threads in these tests.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        collector = os.fork()
    if not collector:
        _use_cpu(theirs)
    try:
        os.read(ours, 1)
        found = run("true", meanwhile=lambda: wait_for_use(collector, 0.3, wait_for))
        name = read_process(collector).name
    finally:
        os.kill(collector, signal.SIGKILL)
        os.waitpid(collector, 0)
        os.close(ours)
        os.close(theirs)
    assert found["tasks"] == 1
    assert found["recorder_cpu_s"] >= 0.3
    assert found["exec_s"] < 0.2
    assert name == read_process(os.getpid()).name


def test_cpu_time_is_that_of_the_kernel(run: Run) -> None:
    found, used_s = run.and_usage(sys.executable, "-c", BUSY.format(1.5))
    assert found["tasks"] == 1
    assert abs(found["exec_s"] - used_s) <= 0.01 * used_s + TICK_S
    # By ticks: each one is charged to the task that runs then. On a busy machine their sum can be
    # far from the time of the scheduler, but the task had no more ticks than its lifetime.
    assert 0 < found["user_s"] + found["system_s"] <= found["lifetime_s"] + TICK_S


def test_waiting_is_what_the_scheduler_counts(run: Run) -> None:
    # Two loops on one CPU: while one runs, the other one waits.
    cpu = str(min(os.sched_getaffinity(0)))
    source = (
        "import os, time\n"
        f"os.sched_setaffinity(0, {{{cpu}}})\n"
        "child = os.fork()\n"
        "while time.process_time() < 0.4: pass\n"
        "waited = int(open('/proc/self/schedstat').read().split()[1])\n"
        "if not child:\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "assert waited > 0\n"
    )
    found = run(sys.executable, "-c", source)
    assert found["tasks"] == 2
    # The first one waits for the second one, except for its last part.
    assert found["waiting_s"] >= 0.3
    assert found["lifetime_s"] >= found["exec_s"] + found["waiting_s"] - 0.1


def test_inside_a_pid_namespace_it_is_skipped(capture: Capture) -> None:
    if subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode:
        pytest.skip("cannot make a pid namespace here")
    code = (
        "import os, pathlib, sys\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from schedperf_collectors.plugin import Capture, Skipped\n"
        "from schedperf_collectors.account import account\n"
        "try: next(account(Capture(pathlib.Path(sys.argv[1]), os.getpid(), {})))\n"
        "except Skipped as skipped: print(skipped.reason, skipped.remedy, sep='|')\n"
    )
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
    done = subprocess.run(
        [*command, str(capture.folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "taskstats do not work inside a pid or user namespace|\n"


def test_a_user_without_rights_is_told_to_be_root(run_as_nobody: Callable[[str], str]) -> None:
    said = "Skipped taskstats: operation not permitted run as root, or with CAP_NET_ADMIN\n"
    assert run_as_nobody("account") == said


def recorded(bundle: Any, run: int = 0) -> Account:
    found: Account = bundle.json(f"boots/0/runs/{run:03}/account/account.json")
    return found


def cpu_of(bundle: Any) -> float:
    [run] = bundle.runs
    return float(run["rusage"]["utime_s"] + run["rusage"]["stime_s"])


@pytest.mark.usefixtures("_needs_taskstats")
def test_all_tasks_of_hackbench_are_recorded(recorder: Any, read_bundle: Any) -> None:
    if shutil.which("hackbench") is None:
        pytest.skip("hackbench is not installed")
    command = ("hackbench", "-l", "50", "-g", "1")
    assert recorder("record", "-o", "a.tar", *ONCE, "--", *command).returncode == 0
    bundle = read_bundle(recorder.folder / "a.tar")
    found = recorded(bundle)
    assert (found["tasks"], found["unresolved"], found["left_out"]) == (41, 0, 0)
    # What tasks do after their message is not in it.
    assert 0 < found["exec_s"] <= cpu_of(bundle) + TICK_S


@pytest.mark.usefixtures("_needs_taskstats")
def test_the_daemons_of_a_recorded_workload_are_its_tasks(recorder: Any, read_bundle: Any) -> None:
    command = ("python3", "-c", MANY)
    assert recorder("record", "-o", "a.tar", *ONCE, "--", *command).returncode == 0
    assert recorded(read_bundle(recorder.folder / "a.tar"))["tasks"] == MANY_TASKS


@pytest.mark.usefixtures("_needs_taskstats")
def test_a_setup_is_not_part_of_the_workload(recorder: Any, read_bundle: Any) -> None:
    # In its own process, and in a child. The last two end while the workload runs.
    setup = (
        f"python3 -c '{BUSY.format(0.5)}'; n=0; while test $n -lt 400000; do n=$((n+1)); done; "
        "times >&2; sh -c 'sleep 0.2; :' & setsid sh -c '(sleep 0.2; :) & :'"
    )
    done = recorder("record", "-o", "a.tar", *ONCE, "--setup", setup, "--", "sleep", "0.6")
    assert done.returncode == 0, done.stderr
    bundle = read_bundle(recorder.folder / "a.tar")
    # The shell used more than this, and the child, too.
    own, of_children = bundle.members["boots/0/runs/000/stderr"].decode().splitlines()[:2]
    assert total_s(own) > 0.2
    assert total_s(of_children) > 0.4
    assert cpu_of(bundle) < 0.15
    found = recorded(bundle)
    assert (found["tasks"], found["unresolved"]) == (1, 0)
    assert found["exec_s"] < 0.15
    assert found["user_s"] + found["system_s"] < 0.15
    # From the end of the setup, which took longer than its CPU time; its start is known in ticks.
    assert found["lifetime_s"] >= 0.6 - 2 * TICK_S
    assert found["lifetime_s"] < bundle.runs[0]["wall_s"] + total_s(own) + total_s(of_children)


def total_s(times: str) -> float:
    """Add up a line of the shell's times: 0m0.52s 0m0.01s."""
    total = 0.0
    for word in times.split():
        minutes, _, seconds = word.rstrip("s").partition("m")
        total += 60 * int(minutes) + float(seconds)
    return total


@pytest.mark.usefixtures("_needs_taskstats")
def test_a_service_is_not_part_of_the_workload(
    recorder: Any, read_bundle: Any, tmp_path: Path
) -> None:
    service = tmp_path / "service.py"
    service.write_text(f"import os\nos.chdir({str(tmp_path)!r})\n{BESIDE}")
    script = tmp_path / "script.py"
    script.write_text(UNTIL_CHILDREN.format(str(tmp_path / "children")))
    command = ("--service", f"python3 {service}", "--", "python3", str(script))
    done = recorder("record", "-o", "a.tar", *ONCE, *command)
    assert done.returncode == 0, done.stderr
    found = recorded(read_bundle(recorder.folder / "a.tar"))
    assert found["tasks"] == 1
    others = of_commands(found)
    assert others["beside-loop"] >= 2 * 0.02 - TICK_S
    assert others["beside-child"] >= 2 * (0.05 - TICK_S)


def test_the_time_of_orphans_is_in_rusage(recorder: Any, read_bundle: Any) -> None:
    arguments = ("-n", "1", "--warmup", "0", "--with", "none", "--", "python3", "-c", ORPHAN)
    assert recorder("record", "-o", "a.tar", *arguments).returncode == 0
    assert cpu_of(read_bundle(recorder.folder / "a.tar")) >= 0.5
