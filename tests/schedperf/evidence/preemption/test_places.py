# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a task was preempted follows from its kernel stack and its system call."""

import pytest

from schedperf.evidence.preemption.places import kernel_function, place_of
from schedperf.runs.off_cpu import Pause
from schedperf.runs.stacks import Durations, Frame, Stack

CALL = ("do_syscall_64", "entry_SYSCALL_64_after_hwframe")
TO_USER = ("__schedule", "schedule", "exit_to_user_mode_loop")
IRQ = ("__schedule", "preempt_schedule_irq", "irqentry_exit")


def stack(*names: str) -> Stack:
    return tuple(Frame(name, None) for name in names)


def pause(kernel: Stack | None, call: int | None) -> Pause:
    return Pause(
        kernel=kernel, user=None, call=call, who="x", durations=Durations(), runnable_ns=0,
        slice_left_ns=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("names", "call", "place"),
    [
        ((*TO_USER, *CALL), 1, "after a system call"),
        ((*TO_USER, "asm_sysvec_apic_timer_interrupt"), None, "user code"),
        ((*TO_USER, "exc_page_fault", "asm_exc_page_fault"), None, "after a page fault"),
        ((*IRQ, "clear_page_erms", "handle_mm_fault"), None, "kernel: page fault"),
        ((*IRQ, "copy_page", "vfs_read", *CALL), 0, "kernel: system call"),
        ((*IRQ, "kthread"), None, "kernel: other"),
        (("__schedule", "schedule", "__do_sys_sched_yield", *CALL), 24, "yield"),
        (("el0_svc", "do_notify_resume"), 5, "after a system call"),
    ],
)
def test_the_place_follows_from_the_stack(
    names: tuple[str, ...], call: int | None, place: str
) -> None:
    assert place_of(pause(stack(*names), call)) == place


def test_without_a_stack_the_place_is_unknown() -> None:
    assert place_of(pause(None, 1)) == "unknown"
    assert place_of(pause((Frame(None, None),), 1)) == "unknown"


def test_the_preempted_kernel_function_is_not_of_the_scheduler() -> None:
    assert kernel_function(stack(*IRQ, "clear_page_erms", "handle_mm_fault")) == "clear_page_erms"
    assert kernel_function(stack("__schedule")) == ""
    assert kernel_function(None) == ""
