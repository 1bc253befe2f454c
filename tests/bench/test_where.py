# SPDX-License-Identifier: GPL-2.0-or-later
"""Pauses are added up from the scheduler's events of perf, and differences are found."""

from bench.account.events import find_processes
from bench.where.__main__ import Pauses, add_up_pauses, add_up_rows, judge


def switch(at_ns: int, leaving: int, state: str, coming: int, name: str = "a") -> str:
    return (
        f"  1.{at_ns:09}: sched:sched_switch: prev_comm={name} prev_pid={leaving} prev_prio=120 "
        f"prev_state={state} ==> next_comm={name} next_pid={coming} next_prio=120"
    )


def fork(at_ns: int, parent: int, child: int) -> str:
    return (
        f"  1.{at_ns:09}: sched:sched_process_fork: comm=a pid={parent} child_comm=a "
        f"child_pid={child}"
    )


SCRIPT = "\n".join(
    (
        switch(0, 0, "R", 10, "time"), fork(10, 10, 11), switch(20, 10, "S", 11, "time"),
        # The child is preempted by another task for 100 ns, and its parent blocked for 200 ns.
        switch(100, 11, "R+", 99), switch(200, 99, "S", 11), switch(220, 11, "X", 10),
        # A pause that does not end is not one.
        switch(300, 10, "S", 0),
    )
)  # fmt: skip


def test_pauses_are_those_of_a_process_and_its_descendants_that_end() -> None:
    assert add_up_pauses(SCRIPT, 10, preempted=True) == Pauses(1, 100e-9)
    assert add_up_pauses(SCRIPT, 10, preempted=False) == Pauses(1, 200e-9)


def test_a_pause_whose_end_perf_does_not_have_is_counted_without_a_length() -> None:
    script = f"{SCRIPT}\n{switch(900, 10, 'R', 0)}"
    assert add_up_pauses(script, 10, preempted=False) == Pauses(2, 200e-9, 1)


def test_a_child_with_its_parents_name_is_no_process_of_that_name() -> None:
    assert find_processes(SCRIPT, "time") == [10]


def test_rows_and_shorter_pauses_are_added() -> None:
    row = {"count": 2, "ns": 3_000_000_000}
    assert add_up_rows({"rows": [row, row], "shorter": {"count": 1, "ns": 500_000_000}}) == Pauses(
        5, 6.5
    )


def test_a_difference_of_more_than_one_percent_is_found() -> None:
    theirs = Pauses(10_000, 10.0)
    assert not [*judge(Pauses(10_090, 10.1), theirs), *judge(Pauses(9_910, 9.9), theirs)]
    assert list(judge(Pauses(10_270, 10.0), theirs)) == [
        "10270 times, and 10000 by the events of perf"
    ]
    assert list(judge(Pauses(10_000, 9.4), theirs)) == [
        "9.4000 s, and 10.0000 s by the events of perf"
    ]
    assert not list(judge(Pauses(10_000, 9.4), theirs._replace(endless=11)))
    # Short pauses: the clocks are read one after the other.
    assert not list(judge(Pauses(10_000, 0.054), Pauses(10_000, 0.05)))
