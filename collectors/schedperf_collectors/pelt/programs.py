# SPDX-License-Identifier: GPL-2.0-or-later
"""Attach the BPF programs of one PELT capture.

Each function is attached by the first mechanism that works for it, regardless of the kernel's
version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedperf_collectors.bpf.probes import PAIRS, RAW_TRACEPOINT, Programs
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel_files import KernelFunctions, find_functions
from schedperf_collectors.machine.system import System

FUNCTIONS = (
    "update_cfs_group",
    "__update_load_avg_se",
    "__update_load_avg_cfs_rq",
    "update_load_avg",
)
TRACEPOINTS = ("pelt_cfs_tp", "pelt_se_tp")
OTHER = "other"
# A new task is enqueued within this one (since Linux 6.1 it joins its cfs_rq there only). It does
# not stay on one CPU, so it has programs of its own.
NEW_TASK = "wake_up_new_task"
# In which part of the scheduler a call happens. All others run on one CPU from entry to exit. Of
# each tuple the first name that the kernel has is marked; names that changed:
# newidle_balance -> sched_balance_newidle and run_rebalance_domains -> sched_balance_softirq,
# Linux 6.10, "sched/balancing: Rename ...".
MARKERS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "enqueue": (("enqueue_task_fair",),),
    "dequeue": (("dequeue_task_fair",),),
    "tick": (("task_tick_fair",),),
    "newidle": (("sched_balance_newidle", "newidle_balance"),),
    "fork": ((NEW_TASK,), ("task_fork_fair",), ("post_init_entity_util_avg",)),
    "migration": (("migrate_task_rq_fair",),),
    "balance": (("sched_balance_softirq", "run_rebalance_domains"),),
    "switch": (("pick_next_task_fair",), ("put_prev_task_fair",), ("set_next_task_fair",)),
}
CONTEXTS = (OTHER, *MARKERS)
# With this the softirq of the balancer can be preempted, and move to another CPU.
REALTIME = "/sys/kernel/realtime"

# System calls that return a number out of the caller's credentials: next to nothing, and all alike.
# By what SYSCALL_DEFINE0 makes of them: the name that x86 has in its BTF, then other wrappers.
TIMED_CALL, EMPTY_CALL = "getuid", "geteuid"
SYSCALL_NAMES = ("__do_sys_{}", "__arm64_sys_{}", "__s390x_sys_{}", "__riscv_sys_{}", "sys_{}")

# What follows is as pelt.h has it.
LINEAR_STEP_NS = 50
# Elements of the array of gates.
OPEN_RUN, OPEN_TRIAL = 0, 1
# Elements of the array of calls. The trial calls are counted in an element of their own.
SLOTS = (*FUNCTIONS, *TRACEPOINTS, TIMED_CALL)

# What was tried, in this order, and why it does not work; None: it does.
Tried = dict[str, "str | None"]


@dataclass(frozen=True)
class Marked:
    """The context markers that are attached.

    :param mechanism: one for all; None where none could be attached
    :param markers: the marked functions of each context
    :param missing: why a context, or a function of it, has none
    """

    mechanism: str | None
    markers: Mapping[str, list[str]]
    missing: Mapping[str, str]


def find_pelt_functions(system: System) -> KernelFunctions:
    """Look for all functions that may be probed.

    :raises Unavailable: no symbols found
    """
    marked = [name for groups in MARKERS.values() for names in groups for name in names]
    called = [name for call in (TIMED_CALL, EMPTY_CALL) for name in syscall_names(call)]
    return find_functions(system, [*FUNCTIONS, *marked, *called])


def syscall_names(call: str) -> list[str]:
    """Return what the function of a system call may be called."""
    return [name.format(call) for name in SYSCALL_NAMES]


def probed_functions(kernel: KernelFunctions) -> list[str]:
    """Return the functions of this kernel that get a pair of programs."""
    marked = [kernel.first(names) for groups in MARKERS.values() for names in groups]
    calls = [kernel.first(syscall_names(call)) for call in (TIMED_CALL, EMPTY_CALL)]
    # The cost of a pair is measured on both of the calls or not at all.
    names = [*FUNCTIONS, *marked, *(calls if all(calls) else [])]
    return [name for name in names if name is not None and name in kernel.addresses]


def role_of(function: str) -> str:
    """Return what a function is for: the newest of its names, or its system call."""
    for groups in MARKERS.values():
        for names in groups:
            if function in names:
                return names[0]
    calls = (call for call in (TIMED_CALL, EMPTY_CALL) if function in syscall_names(call))
    return next(calls, function)


def attach_functions(programs: Programs, kernel: KernelFunctions) -> dict[str, Tried]:
    """Attach each function by the first mechanism that works, and the tracepoints."""
    tried: dict[str, Tried] = {name: _attach_function(programs, kernel, name) for name in FUNCTIONS}
    for name in TRACEPOINTS:
        tried[name] = {RAW_TRACEPOINT: None}
        try:
            programs.attach_raw_tracepoint(name)
        except Unavailable as error:
            tried[name][RAW_TRACEPOINT] = error.reason
    return tried


def _attach_function(programs: Programs, kernel: KernelFunctions, name: str) -> Tried:
    tried: Tried = {}
    for mechanism in PAIRS:
        tried[mechanism] = _attach(programs, kernel, mechanism, name)
        if tried[mechanism] is None:
            break
    return tried


def mechanism_of(tried: Tried) -> str | None:
    """Return the mechanism that works; None: none does."""
    return next((mechanism for mechanism, reason in tried.items() if reason is None), None)


def attach_markers(programs: Programs, system: System, kernel: KernelFunctions) -> Marked:
    """Mark every context by one mechanism, the first that can mark any."""
    first: Marked | None = None
    for mechanism in PAIRS:
        marked = _mark_all(programs, system, kernel, mechanism)
        if marked.mechanism is not None:
            return marked
        first = first or marked
    assert first is not None
    return first


def _mark_all(
    programs: Programs, system: System, kernel: KernelFunctions, mechanism: str
) -> Marked:
    markers: dict[str, list[str]] = {}
    missing: dict[str, str] = {}
    for context, groups in MARKERS.items():
        if context == "balance" and system.exists(REALTIME):
            missing[context] = "softirqs are preemptible in this kernel"
            continue
        for names in groups:
            name = kernel.first(names) or names[0]
            reason = _attach(programs, kernel, mechanism, name)
            if reason is None:
                markers.setdefault(context, []).append(name)
            elif context not in markers:
                missing[context] = f"{name}: {reason}"
    missing = {context: reason for context, reason in missing.items() if context not in markers}
    return Marked(mechanism if markers else None, markers, missing)


def _attach(programs: Programs, kernel: KernelFunctions, mechanism: str, name: str) -> str | None:
    if name not in kernel.addresses:
        return kernel.why_missing(name)
    try:
        programs.attach_pair(mechanism, name)
    except Unavailable as error:
        return error.reason
    return None
