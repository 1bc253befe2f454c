# SPDX-License-Identifier: GPL-2.0-or-later
"""Say where a task was preempted: from its kernel stack and its system call."""

import re
from collections.abc import Collection, Sequence

from schedperf.evidence.preemption.record import Place
from schedperf.runs.off_cpu import Pause
from schedperf.runs.stacks import Stack

_YIELD = re.compile(r"do_sched_yield|__(x64|arm64|se|do)_sys_sched_yield|sys_sched_yield")
_TO_USER = re.compile(
    r"exit_to_user_mode|irqentry_exit_to_user_mode|syscall_exit_to_user_mode|do_notify_resume"
    r"|prepare_exit_to_usermode|arm64_exit_to_user_mode|interrupt_exit_user_prepare"
)
_FAULT = re.compile(
    r"(asm_)?exc_page_fault|do_user_addr_fault|handle_mm_fault|do_page_fault|do_mem_abort"
)
# Functions that implement preemption: the preempted function called them.
_OF_SCHEDULER = re.compile(
    r"_*schedule|preempt_schedule|__cond_resched|_?cond_resched|dynamic_cond_resched"
    r"|irqentry_exit|raw_irqentry|asm_sysvec|sysvec|asm_common_interrupt|common_interrupt"
    r"|dynamic_preempt|dynamic_irqentry|preempt_count_sub|el1_interrupt|arm64_preempt"
)


def place_of(pause: Pause) -> Place:
    """Return where the task left its CPU.

    A yield is a call of sched_yield(2). A task that returns to user mode was preempted there, or at
    the end of its system call or fault.
    """
    names = _names(pause.kernel)
    if not names:
        return "unknown"
    if _has(names, _YIELD):
        return "yield"
    is_fault = _has(names, _FAULT)
    if _has(names, _TO_USER):
        if is_fault:
            return "after a page fault"
        return "after a system call" if pause.call is not None else "user code"
    if is_fault:
        return "kernel: page fault"
    return "kernel: system call" if pause.call is not None else "kernel: other"


def kernel_function(stack: Stack | None) -> str:
    """Return the preempted kernel function: the innermost one outside of the scheduler."""
    return next((name for name in _names(stack) if not _OF_SCHEDULER.match(name)), "")


def _names(stack: Stack | None) -> Sequence[str]:
    return [frame.function for frame in stack or () if frame.function]


def _has(names: Collection[str], pattern: re.Pattern[str]) -> bool:
    return any(pattern.match(name) for name in names)
