# SPDX-License-Identifier: GPL-2.0-or-later
"""Why the workload's tasks waited and were blocked, counted in the kernel that runs here."""

import contextlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from schedperf.evidence.account.waits import WaitsFile, parse_waits
from schedperf_collectors import bpf_account as module
from schedperf_collectors.bpf.libbpf import BpfMap
from schedperf_collectors.bpf_account import Programs, bpf_account
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel import cgroup_folder, cpu_cgroup
from schedperf_collectors.machine.orphans import Moment, adopt_orphans, end_orphans
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped
from tests.collectors.test_account import MANY, MANY_TASKS, running_beside

pytestmark = pytest.mark.system

WaitFor = Callable[[Callable[[], object]], None]

ONCE = ("-n", "1", "--warmup", "0", "--instrumented", "1", "--with", "bpf_account")
ARCHITECTURES_WITH_YIELD = ("x86_64", "aarch64")

# Two processes on one CPU, each until its own body ends; they print how long they waited.
TWO = """
import os, sys, time
os.sched_setaffinity(0, {{{cpu}}})
child = os.fork()
{body}
os.write(1, (open("/proc/self/schedstat").read().split()[1] + "\\n").encode())
if not child:
    os._exit(0)
os.waitpid(child, 0)
"""
LOOP = "while time.process_time() < 0.4: pass"
YIELDS = 20_000
YIELD = f"for _ in range({YIELDS}): os.sched_yield()"

# It reads from a pipe until the test has seen that its group was throttled.
THROTTLED = """
import os, sys, threading
from pathlib import Path
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
def burn():
    while True:
        pass
threading.Thread(target=burn, daemon=True).start()
while not os.path.exists(sys.argv[2]):
    pass
os._exit(0)
"""

# Reads that the page cache does not serve.
DIRECT = """
import mmap, os, sys
buffer = mmap.mmap(-1, 1 << 16)
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
for number in range(50):
    os.pwrite(file, buffer, number << 16)
"""

EXEC_IN_THREAD = """
import os, threading
threading.Thread(target=os.execv, args=("/bin/sleep", ["sleep", "0.2"])).start()
threading.Event().wait()
"""


@pytest.fixture(scope="module")
def _needs_bpf() -> None:
    try:
        Programs(os.getpid()).close()
    except Unavailable as unavailable:
        pytest.skip(unavailable.reason)


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

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        running = bpf_account(self.capture)
        assert [next(running), next(running)] == [PREPARED, BEGUN]
        yield
        assert list(running) == []

    def __call__(self, *command: str) -> tuple[WaitsFile, str]:
        """Return what was recorded, and the command's output."""
        with self.around():
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        return self.found(), done.stdout

    def found(self) -> WaitsFile:
        content = (self.capture.folder / "waits.json").read_bytes()
        document = json.loads(content)
        assert all(program["reason"] is None for program in document["programs"].values())
        found = parse_waits(content, "waits.json")
        assert found.left_out == 0
        return found


@pytest.fixture
def run(capture: Capture, _needs_bpf: None, _adopt: None) -> Run:
    return Run(capture)


def two_on_one_cpu(run: Run, body: str) -> tuple[WaitsFile, float]:
    """Return what was recorded, and how long the two processes say that they waited, in s."""
    cpu = min(os.sched_getaffinity(0))
    found, output = run(sys.executable, "-c", TWO.format(cpu=cpu, body=body))
    assert (found.tasks, found.unfinished) == (2, 0)
    return found, sum(map(int, output.split())) / 1e9


def waited_s(found: WaitsFile) -> float:
    return sum(found.times[part] for part in found.times if part not in ("io", "other"))


def test_each_task_that_the_workload_starts_is_followed(run: Run) -> None:
    found, _ = run(sys.executable, "-c", MANY)
    assert (found.tasks, found.unfinished) == (MANY_TASKS, 0)
    assert found.parts.woken is not None
    # Each one runs once after its start.
    assert found.parts.woken.count >= MANY_TASKS - found.missed
    assert found.seconds > 0


def test_tasks_that_share_a_cpu_are_preempted(run: Run) -> None:
    found, waited = two_on_one_cpu(run, LOOP)
    preempted = found.parts.preempted
    assert preempted is not None
    # What they say is before their end, and so is a part of it.
    assert waited_s(found) >= waited
    assert found.parts.woken is not None
    assert preempted.count > 0
    assert preempted.seconds >= waited - found.parts.woken.seconds
    assert found.parts.yielded is None or found.parts.yielded.count == 0


@pytest.mark.skipif(
    platform.machine() not in ARCHITECTURES_WITH_YIELD,
    reason="the registers of a system call are not known here",
)
def test_tasks_that_yield_are_not_preempted(run: Run) -> None:
    found, waited = two_on_one_cpu(run, YIELD)
    assert found.parts.yielded is not None
    assert found.parts.yielded.count > 0
    assert waited_s(found) >= waited
    # A task may be preempted while it is in sched_yield(2), but it is there most of the time.
    assert found.parts.preempted is not None
    assert found.parts.yielded.count > found.parts.preempted.count


@pytest.fixture
def limited_group() -> Iterator[Path]:
    """A real cgroup of this machine that may use a tenth of a CPU."""
    try:
        version, _ = cpu_cgroup(System(), os.getpid())
    except Unavailable as error:
        pytest.skip(f"no cgroups here: {error.reason}")
    folder = Path(cgroup_folder(System(), version, "/"), f"schedperf-test-{os.getpid()}-waits")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        if version == 1:
            (folder / "cpu.cfs_quota_us").write_text("10000")
        else:
            (folder / "cpu.max").write_text("10000 100000")
        yield folder
    except OSError as error:
        pytest.skip(f"cgroup throttling is not for new groups here: {error}")
    finally:
        folder.rmdir()


def times_throttled(folder: Path) -> int:
    fields = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
    return int(fields["nr_throttled"])


def test_tasks_beyond_their_quota_are_throttled(
    run: Run, limited_group: Path, tmp_path: Path, wait_for: WaitFor
) -> None:
    end = tmp_path / "end"
    command = [sys.executable, "-c", THROTTLED, str(limited_group), str(end)]
    with run.around(), subprocess.Popen(command) as workload:
        try:
            # On a busy machine a group may get less than its quota for a while.
            wait_for(lambda: times_throttled(limited_group) >= 5)
            end.touch()
            workload.wait(timeout=120)
        finally:
            workload.kill()
    throttled = run.found().parts.throttled
    if throttled is None:
        pytest.skip("this kernel does not show which tasks are throttled (Linux 6.18)")
    assert throttled.count > 0
    assert throttled.seconds > 0


def test_direct_io_is_apart_from_other_blocked_time(run: Run, tmp_path: Path) -> None:
    # Where the file system does this at all.
    command = (sys.executable, "-c", DIRECT, str(tmp_path / "file"))
    if subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("this file system has no direct I/O")
    found, _ = run(*command)
    assert found.parts.io is not None
    assert found.parts.io.count > 0
    assert found.parts.io.seconds > 0


def test_a_task_that_sleeps_is_blocked_by_other_than_io(run: Run) -> None:
    found, _ = run(sys.executable, "-c", "import time; time.sleep(0.3)")
    assert found.parts.other.seconds >= 0.3
    assert found.parts.other.count >= 1
    assert found.parts.io is not None
    assert found.parts.io.seconds < found.parts.other.seconds


def test_a_thread_that_executes_is_followed_under_its_new_pid(run: Run) -> None:
    found, _ = run(sys.executable, "-c", EXEC_IN_THREAD)
    assert (found.tasks, found.unfinished) == (2, 0)
    assert found.parts.other.seconds >= 0.2


def test_what_was_there_before_is_not_followed(run: Run, tmp_path: Path, wait_for: WaitFor) -> None:
    # A child of the recorder like the workload, which starts processes all the time.
    with running_beside(tmp_path, wait_for):
        found, _ = run(sys.executable, "-c", MANY)
    assert found.tasks == MANY_TASKS


def test_tasks_that_remain_are_counted(run: Run) -> None:
    with run.around():
        sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        found = run.found()
    finally:
        sleeper.kill()
        sleeper.wait()
    assert (found.tasks, found.unfinished) == (1, 1)


def recorded(bundle: Any) -> WaitsFile:
    [name] = [name for name in bundle.members if name.endswith("/waits.json")]
    return parse_waits(bundle.members[name], name)


@pytest.mark.usefixtures("_needs_bpf")
def test_only_the_command_is_recorded(recorder: Any, read_bundle: Any) -> None:
    # The setup's process becomes the command. Its orphan and the service go on beside it.
    setup = "sleep 0.2; setsid sh -c '(sleep 0.1; sh -c \"sleep 0.1; :\"; :) & :'"
    service = "sh -c 'while :; do sleep 0.05; done'"
    command = ("--setup", setup, "--service", service, "--", "sleep", "0.6")
    done = recorder("record", "-o", "a.tar", *ONCE, *command)
    assert done.returncode == 0, done.stderr
    found = recorded(read_bundle(recorder.folder / "a.tar"))
    assert (found.tasks, found.unfinished) == (1, 0)
    assert found.parts.other.seconds >= 0.6
    # It never forks, but the kernel shows its waits.
    assert found.parts.woken is not None
    assert found.parts.preempted is not None
    if platform.machine() in ARCHITECTURES_WITH_YIELD:
        assert found.parts.yielded is not None


@pytest.mark.usefixtures("_needs_bpf")
def test_an_empty_map_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs(os.getpid())
    try:
        monkeypatch.setattr(BpfMap, "read", lambda *_: None)
        with pytest.raises(Unavailable, match="the map sums is empty"):
            programs.read()
    finally:
        programs.close()


def test_inside_a_pid_namespace_it_is_skipped(
    capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "global_pid", lambda *_: 0)
    with pytest.raises(Skipped, match="cannot be identified inside a pid namespace"):
        next(bpf_account(capture))


def test_a_user_without_rights_is_told_to_be_root(
    capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_recorder: int) -> None:
        raise Unavailable("bpf: operation not permitted")

    monkeypatch.setattr(module, "Programs", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Skipped, match="bpf: operation not permitted") as skipped:
        next(bpf_account(capture))
    assert skipped.value.remedy == "run as root"
