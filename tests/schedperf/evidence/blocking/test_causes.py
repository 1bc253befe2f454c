# SPDX-License-Identifier: GPL-2.0-or-later
"""What a task waited for follows from the functions of its kernel stack."""

import pytest

from schedperf.evidence.blocking.causes import cause_of
from schedperf.runs.stacks import Frame


@pytest.mark.parametrize(
    ("names", "cause"),
    [
        ("__schedule schedule futex_do_wait __futex_wait do_syscall_64", "futex"),
        ("__schedule schedule anon_pipe_read vfs_read", "pipe"),
        ("__schedule schedule schedule_timeout unix_stream_read_generic", "socket"),
        ("__schedule schedule_preempt_disabled __mutex_lock fdget_pos ksys_read", "mutex"),
        ("__schedule schedule rwsem_down_write_slowpath down_write vm_mmap_pgoff", "rwsem"),
        ("__schedule schedule io_schedule folio_wait_bit_common filemap_read", "I/O"),
        (
            "__schedule schedule io_schedule folio_wait_bit_common handle_mm_fault",
            "page fault: I/O",
        ),
        ("__schedule schedule rwsem_down_read_slowpath exc_page_fault", "page fault: rwsem"),
        ("__schedule schedule do_nanosleep hrtimer_nanosleep", "sleep"),
        ("__schedule schedule do_wait kernel_wait4", "children"),
        ("__schedule schedule do_epoll_wait", "poll"),
        ("__schedule schedule something_new", "other"),
    ],
)
def test_the_innermost_known_function_decides(names: str, cause: str) -> None:
    assert cause_of(tuple(Frame(name, None) for name in names.split())) == cause


def test_without_a_stack_the_cause_is_unknown() -> None:
    assert cause_of(None) == "unknown"
    assert cause_of((Frame(None, None),)) == "unknown"


def test_without_a_stack_the_state_of_the_task_is_the_cause() -> None:
    assert cause_of(None, "D") == "uninterruptible sleep (D)"
    assert cause_of(None, "X") == "state X"
    assert cause_of((Frame("futex_do_wait", None),), "S") == "futex"
