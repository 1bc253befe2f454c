# SPDX-License-Identifier: GPL-2.0-or-later
"""Which samples are of other load: tasks that are not the workload's."""

from typing import Any

from schedperf.evidence.profile.attribution import attribute
from schedperf.evidence.profile.others import Bystanders, find_bystanders
from schedperf.evidence.profile.workload import StartedProcess, add_started
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
    recorder: int | None = None,
    started: tuple[StartedProcess, ...] = (),
) -> Bystanders | None:
    data = PerfData(events=(Event(sample_type=PLAIN),), records=records)
    recording = read_perf_data(write_perf_data(data), "perf.data", keep=frozenset(keep))
    recording = add_started(recording, started)
    placed = place_samples(recording, Symbols(kernel, lambda _: None))
    divided = attribute(recording, placed, command, recorder)
    return None if divided is None else find_bystanders(recording, divided, 0)


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


def test_a_kernel_thread_is_other_load_unless_it_runs_softirqs() -> None:
    kworker = (Fork(pid=15, parent_pid=2), Comm(pid=15, comm="kworker/0:1"))
    samples = (sample(8, 60), sample(14, 20), sample(15, 10), sample(3, 10))
    found = find(*STARTED, *kworker, *samples)
    assert found == Bystanders(busy=100.0, commands={"kworker": 10.0, "bash": 10.0})


def test_only_the_recorders_child_is_the_workload() -> None:
    # Somebody else's make, 21, with a child, 22.
    others = (
        Fork(pid=21, parent_pid=3, time=10),
        Comm(pid=21, comm="make", execed=True, time=11),
        Fork(pid=22, parent_pid=21, time=12),
    )
    samples = sample(7, 40), sample(8, 20), sample(21, 30), sample(22, 10)
    assert find(*STARTED, *others, *samples, recorder=5) == Bystanders(
        busy=100.0, commands={"make": 40.0}
    )
    assert find(*STARTED, *others, *samples) == Bystanders(busy=100.0, commands={})


def test_a_shell_that_executes_the_program_last_was_the_set_up() -> None:
    # The set-up's sh starts a load, 9, and becomes the workload, another sh.
    records = (
        Fork(pid=7, parent_pid=5, time=10),
        Comm(pid=7, comm="sh", execed=True, time=11),
        Fork(pid=9, parent_pid=7, time=12),
        Comm(pid=7, comm="sh", execed=True, time=20),
        Fork(pid=8, parent_pid=7, time=30),
    )
    samples = sample(9, 30), sample(7, 40), sample(8, 30)
    found = find(*records, *samples, command=("sh", "-c", "x"), recorder=5)
    assert found == Bystanders(busy=100.0, commands={"sh": 30.0})


def test_a_pid_that_is_used_again_is_another_process() -> None:
    # Pid 8 was cc1, a child of make; later it is a child of bash.
    again = (Fork(pid=8, parent_pid=3, time=200), Comm(pid=8, comm="cc1", execed=True, time=201))
    late = Sample(ip=0x2000, pid=8, time=300, mode=MODE_USER, period=30)
    found = find(*STARTED, *again, sample(8, 70), late)
    assert found == Bystanders(busy=100.0, commands={"cc1": 30.0})


def test_what_perf_did_not_record_of_the_set_up_has_a_name_and_a_parent() -> None:
    records = (Comm(pid=7, comm="make", execed=True, time=20),)
    namesake = (Fork(pid=21, parent_pid=3, time=10), Comm(pid=21, comm="make", execed=True))
    started = (
        StartedProcess(pid=7, parent=5, command="sh"),
        StartedProcess(pid=9, parent=7, command="python3"),
    )
    samples = sample(7, 70), sample(9, 20), sample(21, 10)
    found = find(*records, *namesake, *samples, recorder=5, started=started)
    assert found == Bystanders(busy=100.0, commands={"python3": 20.0, "make": 10.0})


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


def test_processes_that_are_each_others_parents_come_to_an_end() -> None:
    circle = (Fork(pid=20, parent_pid=21), Fork(pid=21, parent_pid=20))
    found = find(*STARTED, *circle, Comm(pid=20, comm="odd"), sample(7, 10), sample(20, 30))
    assert found == Bystanders(busy=40.0, commands={"odd": 30.0})
