# SPDX-License-Identifier: GPL-2.0-or-later
"""Blocked times, recorded in the kernel that runs here."""

import os
import platform
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from schedperf.evidence.blocking.capture import parse_blocking
from schedperf.evidence.blocking.causes import cause_of
from schedperf.runs.off_cpu import OffCpu, UserFunction, user_function
from schedperf_collectors.bpf.off_cpu import BLOCKED, TRACEPOINTS
from schedperf_collectors.bpf.workload import CONSTANTS, WorkloadPrograms
from schedperf_collectors.bpf_blocking import bpf_blocking
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped

# A child sleeps before each byte that its parent waits for.
PIPE = """
import ctypes, os, time
ends = os.pipe()
if not os.fork():
    open("/proc/self/comm", "w").write("planted-writer")
    for _ in range(10):
        time.sleep(0.005)
        os.write(ends[1], b"x")
    os._exit(0)
os.close(ends[1])
while os.read(ends[0], 1): pass
"""
SLEEPS = 10
SLEEP_NS = 5_000_000

# Machine code of x86-64 that sleeps: the argument is a struct timespec.
GENERATED = """
import ctypes, mmap, os
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b823000000 31f6 0f05 c3"))  # nanosleep(argument, 0)
start = ctypes.addressof(ctypes.c_char.from_buffer(code))
path = f"/tmp/perf-{os.getpid()}.map"
os.symlink(path, LINK)
with open(path, "w") as listed:
    listed.write(f"{start:x} 40 sleep_in_generated_code\\nno function\\n")
sleep = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(start)
pause = (ctypes.c_long * 2)(0, 1_000_000)
for _ in range(10):
    sleep(ctypes.addressof(pause))
"""
# The system call is not in the C library, which has no frame pointers.
SHORT_LIVED = """
#include <time.h>
int main(void)
{
    struct timespec pause = {0, 1000000};
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(35), "D"(&pause), "S"(0L)
                     : "rcx", "r11", "memory");
    return result != 0;
}
"""

Run = Callable[..., OffCpu]


@pytest.fixture
def run(capture: Capture) -> Run:
    """Return what is recorded of a program, with some options."""
    constants = CONSTANTS.pack(os.getpid(), BLOCKED, 0, 0, 0)
    try:
        WorkloadPrograms("off_cpu", TRACEPOINTS[BLOCKED], constants).close()
    except Unavailable as unavailable:
        pytest.skip(unavailable.reason)

    def record(program: str, **options: str) -> OffCpu:
        running = bpf_blocking(replace(capture, options=options))
        assert [next(running), next(running)] == [PREPARED, BEGUN]
        subprocess.run([sys.executable, "-c", program], check=True)
        assert list(running) == []
        return parse_blocking((capture.folder / "blocking.json").read_bytes(), "blocking.json")

    return record


@pytest.mark.system
def test_a_reader_is_blocked_on_a_pipe_until_the_writer_wakes_it(run: Run) -> None:
    found = run(PIPE)
    pipes = [pause for pause in found.pauses if cause_of(pause.kernel) == "pipe"]
    by_writer = [pause for pause in pipes if pause.who == "planted-writer"]
    assert sum(pause.durations.count for pause in by_writer) >= SLEEPS - 1
    assert sum(pause.durations.ns for pause in by_writer) >= (SLEEPS - 1) * SLEEP_NS
    # The kernel times the programs since Linux 5.8; they are called for all tasks.
    assert set(found.costs) >= {"sched_switch", "sched_waking"}
    blocked = sum(pause.durations.count for pause in found.pauses) + found.shorter
    assert found.costs["sched_switch"].calls >= 2 * blocked
    assert found.costs["sched_switch"].ns > 0
    sleeps = [pause for pause in found.pauses if cause_of(pause.kernel) == "sleep"]
    assert sum(pause.durations.count for pause in sleeps) == SLEEPS


@pytest.mark.system
def test_shorter_times_are_only_counted(run: Run) -> None:
    found = run(PIPE, least_us="1000000")
    assert found.least_ns == 10**9
    assert found.shorter >= 2 * SLEEPS - 1
    assert all(pause.durations.max_ns >= 10**9 for pause in found.pauses)


def functions_of(found: OffCpu) -> dict[UserFunction, int]:
    counts: Counter[UserFunction] = Counter()
    for pause in found.pauses:
        function = user_function(pause.user)
        if function is not None and cause_of(pause.kernel) == "sleep":
            counts[function] += pause.durations.count
    return counts


@pytest.mark.system
@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
def test_generated_code_is_named_from_the_map_of_its_process(run: Run, tmp_path: Path) -> None:
    link = tmp_path / "map"
    try:
        found = run(f"LINK = {str(link)!r}{GENERATED}")
    finally:
        link.resolve().unlink(missing_ok=True)
    assert functions_of(found) == {UserFunction("sleep_in_generated_code", "[JIT]"): 10}


@pytest.mark.system
@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
def test_a_program_that_ends_before_it_is_listed_has_names(run: Run, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc not installed; apt-get install gcc")
    source, program = tmp_path / "short.c", tmp_path / "short-lived"
    source.write_text(SHORT_LIVED)
    subprocess.run(["gcc", "-fno-omit-frame-pointer", "-o", program, source], check=True)
    found = run(f"import subprocess; subprocess.run([{str(program)!r}], check=True)")
    assert functions_of(found) == {UserFunction("main", "short-lived"): 1}


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "10000001", "\N{SUPERSCRIPT TWO}"])
def test_an_invalid_duration_is_refused(capture: Capture, text: str) -> None:
    with pytest.raises(Skipped, match="least_us: invalid duration"):
        next(iter(bpf_blocking(replace(capture, options={"least_us": text}))))
