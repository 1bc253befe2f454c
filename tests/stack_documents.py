# SPDX-License-Identifier: GPL-2.0-or-later
"""Documents of the collectors that record by stack: locks.json, preemption.json, blocking.json."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from schedperf.model.run import Captured, Operations, RunKey, SideOf
from schedperf.runs.stacks import STEPS, UNIT_NS

Json = dict[str, Any]
Content = TypeVar("Content")

US = 1000
LIBC, POSTGRES = "/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/postgres"
# Flags of contention_begin for a mutex that spins first.
MUTEX = 33
KERNEL_END = ("do_syscall_64", "entry_SYSCALL_64_after_hwframe")


def bin_of(ns: int) -> int:
    """Return the bin of a duration, as the BPF program does."""
    units = ns // UNIT_NS
    power = max(0, units.bit_length() - STEPS.bit_length())
    return power * STEPS + (units >> power)


def durations(count: int, each_ns: int) -> Json:
    """Return the fields of equal durations."""
    return {
        "count": count,
        "ns": count * each_ns,
        "max_ns": each_ns,
        "bins": [[bin_of(each_ns), count]],
    }


class Stacks:
    """Frames and stacks of a document, and the rows that refer to them."""

    def __init__(self) -> None:
        self.frames: list[list[str | None]] = []
        self.stacks: list[list[int]] = []

    def add(self, *frames: str | tuple[str | None, str | None]) -> int:
        """Return the index of a stack: kernel functions, or pairs of user function and file."""
        stack = []
        for frame in frames:
            pair = [frame, None] if isinstance(frame, str) else list(frame)
            if pair not in self.frames:
                self.frames.append(pair)
            stack.append(self.frames.index(pair))
        if stack not in self.stacks:
            self.stacks.append(stack)
        return self.stacks.index(stack)

    def document(self, schema: str, rows: Sequence[Json], **changed: Any) -> Json:
        """Return the document with these rows."""
        return {
            "schema": schema,
            "seconds": 2.0,
            "programs": {
                "sched_switch": {
                    "mechanism": "tp_btf",
                    "function": "sched_switch",
                    "reason": None,
                }
            },
            "frames": self.frames,
            "stacks": self.stacks,
            "rows": list(rows),
            "costs": {"sched_switch": {"calls": 5000, "ns": 6_000_000}},
            "lost": {},
            "notes": [],
            **changed,
        }


def locks_document(mutex_us: int, step: int = 0, **changed: Any) -> Json:
    """Return waits for a mutex of a file's position, a run queue, mmap_lock and a static lock.

    :param mutex_us: duration of each of the 100 waits for the mutex
    :param step: noise of the run
    """
    stacks = Stacks()
    released = ("try_to_wake_up", "wake_up_q", "__mutex_unlock_slowpath", "mutex_unlock")
    rows = [
        {
            "lock": lock,
            "flags": flags,
            "node": node,
            "stack": stacks.add(*functions, *KERNEL_END),
            "owner": "reader" if flags == MUTEX else None,
            "owner_stack": stacks.add(*released, "ksys_read", *KERNEL_END)
            if flags == MUTEX
            else None,
            **durations(count, each_ns),
        }
        for lock, flags, node, functions, count, each_ns in (
            (None, MUTEX, 0, ("__mutex_lock.constprop.0", "fdget_pos", "ksys_read"), 100 + step,
             mutex_us * US + 100 * step),
            (None, 1, 0, ("_raw_spin_lock", "__schedule", "schedule", "do_nanosleep"), 50, 700),
            ("mmap_lock", 4, 1, ("rwsem_down_write_slowpath", "down_write_killable",
                                 "vm_mmap_pgoff"), 20 - step, 9 * US),
            ("tasklist_lock", 3, 0, ("queued_read_lock_slowpath", "do_wait"), 30, 2 * US),
        )
    ]  # fmt: skip
    return stacks.document("schedperf/bpf_locks/1", rows, **changed)


def preemption_document(held_us: int, step: int = 0, **changed: Any) -> Json:
    """Return preemptions in a spinlock of a program, at a fault in it, and after a system call.

    :param held_us: wait after each of the 40 preemptions at the fault
    """
    stacks = Stacks()
    own = (("main", POSTGRES),)
    rows = [
        {
            "kernel": stacks.add("__schedule", *kernel),
            "user": user if user is None else stacks.add(*user, *own),
            "call": call,
            "who": who,
            **durations(count, each_ns),
            "runnable_ns": 0,
            "slice_left_ns": count * 500 * US,
        }
        for kernel, user, call, who, count, each_ns in (
            (("preempt_schedule_irq", "irqentry_exit", "clear_page_erms", "handle_mm_fault",
              "exc_page_fault", "asm_exc_page_fault"), (("LWLockAcquire", POSTGRES),), None,
             "postgres", 40 + step, held_us * US + 900 * step),
            (("schedule", "exit_to_user_mode_loop", "irqentry_exit_to_user_mode",
              "asm_sysvec_apic_timer_interrupt"), (("s_lock", POSTGRES),), None,
             "postgres", 25 - step, 90 * US),
            (("schedule", "exit_to_user_mode_loop", *KERNEL_END),
             (("write", LIBC), ("pq_flush", POSTGRES)), 1, "kworker/0:1", 10, 40 * US),
            (("schedule", "do_sched_yield", "__x64_sys_sched_yield", *KERNEL_END),
             None, 24, "postgres", 5, 10 * US),
        )
    ]  # fmt: skip
    document = stacks.document("schedperf/bpf_preemption/1", rows, model="full")
    return {**document, "least_ns": 0, "shorter": {"count": 0, "ns": 0}, **changed}


def blocking_document(pipe_us: int, step: int = 0, **changed: Any) -> Json:
    """Return blocked times on a pipe, a futex and a fault.

    :param pipe_us: duration of each of the 60 waits for the pipe; 10 us of it are runnable
    """
    stacks = Stacks()
    rows = [
        {
            "kernel": stacks.add("__schedule", "schedule", *kernel),
            "user": stacks.add(*user),
            "call": call,
            "who": who,
            **durations(count, each_ns),
            "runnable_ns": count * 10 * US,
            "slice_left_ns": None,
        }
        for kernel, user, call, who, count, each_ns in (
            (("anon_pipe_read", "vfs_read", *KERNEL_END),
             (("read", LIBC), ("read_all", POSTGRES), ("main", POSTGRES)), 0, "writer",
             60 + step, pipe_us * US + 800 * step),
            (("futex_do_wait", "__futex_wait", *KERNEL_END),
             (("__futex_abstimed_wait_common", LIBC),), 202, "postgres", 30 - step, 50 * US),
            (("io_schedule", "folio_wait_bit_common", "filemap_fault", "handle_mm_fault",
              "asm_exc_page_fault"), ((None, POSTGRES),), None, None, 4, 300 * US),
        )
    ]  # fmt: skip
    document = stacks.document("schedperf/bpf_blocking/1", rows)
    return {**document, "least_ns": 1000, "shorter": {"count": 7, "ns": 4000}, **changed}


def side_of(
    name: str, documents: Sequence[Json], parse: Callable[[bytes, str], Content], ops: float = 1e3
) -> SideOf[Content]:
    """Return the runs of a side, one per document."""
    runs = [
        Captured(
            key=RunKey(side=name, workload="hackbench", point="", boot=0, run=run),
            ops=Operations(count=ops, unit="message", exact=True),
            content=parse(json.dumps(document).encode(), f"{name}/{run}"),
        )
        for run, document in enumerate(documents)
    ]
    return SideOf(name=name, kind="instrumented", runs=tuple(runs))
