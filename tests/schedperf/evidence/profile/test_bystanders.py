# SPDX-License-Identifier: GPL-2.0-or-later
"""Which samples are of other commands than the workload."""

from typing import Any

from schedperf.evidence.profile.others import Bystanders, find_bystanders
from schedperf.inputs.kernel.kallsyms import KernelSymbols, parse_kernel_symbols
from schedperf.inputs.perf_data import Keep, read_perf_data
from schedperf.inputs.symbols.places import Symbols, place_samples
from schedperf_generators.events import PLAIN, Event
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.profiles import profiled_kernel
from schedperf_generators.records import Comm, Fork
from schedperf_generators.samples import MODE_KERNEL, MODE_USER, Sample

PROFILED = profiled_kernel()

# The recorder, 5, starts make, 7; bash, 3, was there before; 2 is the parent of kernel threads.
STARTED = (
    Comm(pid=3, comm="bash"),
    Comm(pid=5, comm="python3"),
    Fork(pid=14, parent_pid=2),
    Comm(pid=14, comm="ksoftirqd/0"),
    Fork(pid=7, parent_pid=5, time=10),
    Comm(pid=7, comm="make", execed=True, time=20),
    Fork(pid=8, parent_pid=7, time=30),
    Comm(pid=8, comm="cc1", execed=True, time=40),
)


def sample(pid: int, period: int, mode: int = MODE_USER) -> Sample:
    return Sample(ip=0x1000 + pid, pid=pid, time=100, mode=mode, period=period)


def find(
    *records: Any,
    command: tuple[str, ...] = ("/usr/bin/make", "-j"),
    keep: Any = (Keep.TASK,),
    kernel: KernelSymbols | None = None,
) -> Bystanders | None:
    data = PerfData(events=(Event(sample_type=PLAIN),), records=records)
    recording = read_perf_data(write_perf_data(data), "perf.data", keep=frozenset(keep))
    placed = place_samples(recording, Symbols(kernel, lambda _: None))
    return find_bystanders(recording, placed, 0, command)


def test_what_the_workload_starts_is_the_workload_under_any_name() -> None:
    found = find(*STARTED, sample(7, 10), sample(8, 50), sample(5, 10), sample(3, 30))
    assert found == Bystanders(busy=100.0, commands={"python3": 10.0, "bash": 30.0})
    assert found.shares == {"python3": 10.0, "bash": 30.0}


def test_what_ran_before_the_workload_began_is_of_its_set_up() -> None:
    # The set-up's shell, 7, runs mkdir as its child, and then becomes make itself.
    records = (
        Comm(pid=5, comm="python3"),
        Fork(pid=7, parent_pid=5, time=10),
        Comm(pid=7, comm="sh", execed=True, time=11),
        Fork(pid=9, parent_pid=7, time=12),
        Comm(pid=9, comm="mkdir", execed=True, time=13),
        Fork(pid=10, parent_pid=9, time=14),
        Comm(pid=7, comm="make", execed=True, time=20),
        Fork(pid=8, parent_pid=7, time=30),
        Comm(pid=8, comm="cc1", execed=True, time=40),
    )
    early = Sample(ip=0x1007, pid=7, time=15, mode=MODE_USER, period=20)
    found = find(*records, early, sample(9, 9), sample(10, 1), sample(7, 30), sample(8, 40))
    assert found == Bystanders(busy=100.0, commands={"sh": 20.0, "mkdir": 10.0})


def test_what_a_tool_starts_before_it_starts_the_program_again_is_the_workload() -> None:
    # A shell of make's, 8, starts sed, 9, and becomes make itself.
    again = (
        Fork(pid=9, parent_pid=8, time=50),
        Comm(pid=9, comm="sed", execed=True, time=51),
        Comm(pid=8, comm="make", execed=True, time=60),
    )
    found = find(*STARTED, *again, sample(9, 10), sample(3, 10))
    assert found == Bystanders(busy=20.0, commands={"bash": 10.0})


def test_kernel_threads_are_nobody_and_idle_time_is_no_time() -> None:
    idle = sample(0, 1000, mode=MODE_KERNEL)
    found = find(*STARTED, idle, sample(8, 60), sample(14, 30), sample(3, 10))
    assert found == Bystanders(busy=100.0, commands={"bash": 10.0})


# Seen from inside a pid namespace whose init, 1, started the recorder and, as 2, a shell; what is
# outside has the number 0 and the last name of all that was executed there.
NESTED = (
    *PROFILED.mappings(),
    Comm(pid=1, comm="init"),
    Fork(pid=2, parent_pid=1),
    Comm(pid=2, comm="bash"),
    Fork(pid=7, parent_pid=1, time=10),
    Comm(pid=7, comm="make", execed=True, time=20),
    Comm(pid=0, comm="make", execed=True, time=25),
)


def in_kernel(function: str, period: int) -> Sample:
    ip = PROFILED.address(function, 8)
    return Sample(ip=ip, pid=0, time=100, mode=MODE_KERNEL, period=period)


def test_a_pid_namespace_has_one_number_for_the_idle_task_and_for_all_that_is_outside() -> None:
    idle, outside = in_kernel("pv_native_safe_halt", 1000), in_kernel("pipe_write", 15)
    samples = (idle, outside, sample(0, 25), sample(7, 50), sample(2, 10))
    kernel = parse_kernel_symbols(PROFILED.kallsyms(), "kallsyms")
    expected = Bystanders(busy=100.0, commands={"other pid namespaces": 40.0, "bash": 10.0})
    assert find(*NESTED, *samples, kernel=kernel) == expected
    # A machine that is never idle.
    assert find(*NESTED, *samples[1:], kernel=kernel) == expected
    # The idle task has no samples in user space, and it executes no program: each tells it alone.
    assert find(*NESTED[:-1], *samples, kernel=kernel) == expected
    assert find(*NESTED, *samples[:2], *samples[3:], kernel=kernel) == Bystanders(
        busy=75.0, commands={"other pid namespaces": 15.0, "bash": 10.0}
    )
    # Without names the idle task's samples look like those of what is outside.
    assert find(*NESTED, *samples) is None
    assert find(*NESTED, sample(0, 25), sample(7, 75)) == Bystanders(
        busy=100.0, commands={"other pid namespaces": 25.0}
    )


def test_a_program_that_only_other_pid_namespaces_ran_is_not_the_workload() -> None:
    assert find(*NESTED[:-3], NESTED[-1], sample(2, 10), sample(0, 10)) is None


def test_a_namesake_that_was_there_before_is_somebody_else() -> None:
    older = Comm(pid=4, comm="make")
    found = find(older, *STARTED, sample(7, 50), sample(4, 50))
    assert found == Bystanders(busy=100.0, commands={"make": 50.0})


def test_where_no_start_was_seen_names_have_to_do() -> None:
    found = find(Comm(pid=4, comm="make"), Comm(pid=3, comm="bash"), sample(4, 75), sample(3, 25))
    assert found == Bystanders(busy=100.0, commands={"bash": 25.0})


def test_names_are_as_long_as_the_kernel_keeps_them() -> None:
    command = ("./a-benchmark-of-mine", "1")
    records = (Comm(pid=7, comm="a-benchmark-of-", execed=True), Comm(pid=3, comm="bash"))
    found = find(*records, sample(7, 75), sample(3, 25), command=command)
    assert found == Bystanders(busy=100.0, commands={"bash": 25.0})


def test_where_the_workload_cannot_be_told_nothing_is_said() -> None:
    assert find(*STARTED, sample(3, 30), command=("hackbench",)) is None
    assert find(*STARTED, sample(3, 30), command=()) is None
    assert find(*STARTED, sample(7, 30), keep=()) is None
    assert find(*STARTED, sample(7, 0), sample(0, 10, mode=MODE_KERNEL)) is None


def test_processes_that_are_each_others_parents_come_to_an_end() -> None:
    circle = (Fork(pid=20, parent_pid=21), Fork(pid=21, parent_pid=20))
    found = find(*STARTED, *circle, Comm(pid=20, comm="odd"), sample(7, 10), sample(20, 30))
    assert found == Bystanders(busy=40.0, commands={"odd": 30.0})
