# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples are divided: the workload, interrupts and softirqs, other load."""

from typing import Any

import numpy as np
import pytest

from schedperf.evidence.profile.attribution import attribute
from schedperf.inputs.kernel.kallsyms import parse_kernel_symbols
from schedperf.inputs.perf_data import Keep, read_perf_data
from schedperf.inputs.perf_data.recording import NO_CHAIN
from schedperf.inputs.symbols.places import Placed, Symbols, place_samples
from schedperf.model.place import KERNEL, OTHER_LOAD, Place, in_interrupts
from schedperf_generators.events import PLAIN, Event, SampleType
from schedperf_generators.kernel import KernelImage, lay_out
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.records import Comm, Fork
from schedperf_generators.samples import MODE_KERNEL, MODE_USER, Sample

FUNCTIONS = (
    "startup_64", "vfs_write", "update_curr", "asm_sysvec_apic_timer_interrupt",
    "sysvec_apic_timer_interrupt",
    "handle_softirqs", "irqentry_exit", "preempt_schedule_irq", "finish_task_switch",
    "__local_bh_enable_ip", "pv_native_safe_halt",
)  # fmt: skip
KERNEL_MARK, USER_MARK = (1 << 64) - 128, (1 << 64) - 512
USER_IP = 0x4000

# The recorder, 5, starts hackbench, 7; python3, 3, was there before.
TASKS = (
    Comm(pid=3, comm="python3"),
    Fork(pid=7, parent_pid=5, time=10),
    Comm(pid=7, comm="hackbench", execed=True, time=20),
    Fork(pid=14, parent_pid=2),
    Comm(pid=14, comm="ksoftirqd/0"),
)


@pytest.fixture(scope="module")
def kernel() -> KernelImage:
    return KernelImage(functions=tuple(lay_out(FUNCTIONS, size=0x100)))


def sample(kernel: KernelImage, pid: int, *functions: str, **chosen: Any) -> Sample:
    """Return a sample in the kernel, innermost function first; its task came from user code."""
    ips = tuple(kernel.address(name, 8) for name in functions)
    chain = (KERNEL_MARK, *ips, USER_MARK, USER_IP)
    return Sample(ip=ips[0], pid=pid, time=100, mode=MODE_KERNEL, chain=chain, **chosen)


def divide(kernel: KernelImage, *samples: Sample, has_names: bool = True) -> Placed:
    event = Event(sample_type=PLAIN | SampleType.CALLCHAIN)
    data = PerfData(events=(event,), records=(*kernel.mappings(), *TASKS, *samples))
    keep = frozenset((Keep.TASK, Keep.CHAIN))
    recording = read_perf_data(write_perf_data(data), "perf.data", keep=keep)
    names = parse_kernel_symbols(kernel.kallsyms(), "kallsyms") if has_names else None
    symbols = Symbols(names, lambda _: None)
    divided = attribute(recording, place_samples(recording, symbols), ("hackbench",), 5)
    assert divided is not None
    return divided


def stacks(placed: Placed) -> set[tuple[Place, ...]]:
    """Return the stack of each row, outermost first."""
    rows = np.arange(len(placed.of_row))
    return {tuple(placed.places[n] for n in frames) for frames in placed.frames(rows)}


def test_other_load_is_one_place_without_names(kernel: KernelImage) -> None:
    user = Sample(ip=USER_IP, pid=3, time=100, mode=MODE_USER, chain=(USER_MARK, USER_IP))
    placed = divide(kernel, sample(kernel, 3, "vfs_write"), user)
    assert placed.places == (OTHER_LOAD,)
    assert set(placed.stack_of_row.tolist()) == {NO_CHAIN}
    assert placed.unnamed == frozenset()


def test_the_workload_keeps_its_places(kernel: KernelImage) -> None:
    placed = divide(kernel, sample(kernel, 7, "update_curr", "vfs_write"))
    (stack,) = stacks(placed)
    assert stack[1:] == (Place("vfs_write", KERNEL), Place("update_curr", KERNEL))
    assert stack[0].dso == "[unknown]"


@pytest.mark.parametrize("pid", [3, 7])
def test_an_interrupt_is_a_part_of_its_own_in_any_task(kernel: KernelImage, pid: int) -> None:
    chain = ("update_curr", "sysvec_apic_timer_interrupt", "asm_sysvec_apic_timer_interrupt")
    placed = divide(kernel, sample(kernel, pid, *chain, "vfs_write"))
    expected = tuple(in_interrupts(Place(name, KERNEL)) for name in reversed(chain))
    assert stacks(placed) == {expected}


def test_a_softirq_at_the_end_of_a_locked_section_begins_with_its_handler(
    kernel: KernelImage,
) -> None:
    chain = ("update_curr", "handle_softirqs", "__local_bh_enable_ip", "vfs_write")
    placed = divide(kernel, sample(kernel, 7, *chain))
    expected = tuple(in_interrupts(Place(name, KERNEL)) for name in reversed(chain[:2]))
    assert stacks(placed) == {expected}


def test_a_dso_without_names_stays_one_if_all_its_samples_are_in_interrupts(
    kernel: KernelImage,
) -> None:
    placed = divide(kernel, sample(kernel, 14, "update_curr"), has_names=False)
    alone = placed.without_stacks()
    assert alone.places == (in_interrupts(Place("[kernel] unresolved", KERNEL)),)
    assert (placed.unnamed, alone.unnamed) == (frozenset({KERNEL}), frozenset({KERNEL}))


def test_a_thread_that_runs_softirqs_is_one(kernel: KernelImage) -> None:
    placed = divide(kernel, sample(kernel, 14, "update_curr"))
    assert in_interrupts(Place("update_curr", KERNEL)) in placed.places
    assert OTHER_LOAD not in placed.places


@pytest.mark.parametrize(
    ("pid", "leaf"), [(7, Place("finish_task_switch", KERNEL)), (3, OTHER_LOAD)]
)
def test_a_task_that_an_interrupt_preempts_runs_its_own_code(
    kernel: KernelImage, pid: int, leaf: Place
) -> None:
    chain = ("finish_task_switch", "preempt_schedule_irq", "irqentry_exit")
    interrupt = ("sysvec_apic_timer_interrupt", "asm_sysvec_apic_timer_interrupt", "vfs_write")
    placed = divide(kernel, sample(kernel, pid, *chain, *interrupt))
    assert placed.places[placed.of_row[0]] == leaf


def test_idle_time_stays_idle_time(kernel: KernelImage) -> None:
    placed = divide(
        kernel, sample(kernel, 0, "pv_native_safe_halt"), sample(kernel, 7, "vfs_write")
    )
    assert Place("pv_native_safe_halt", KERNEL) in placed.places
