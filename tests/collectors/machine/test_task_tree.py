# SPDX-License-Identifier: GPL-2.0-or-later
"""Ended tasks are those of the workload or not, also where pids are used again."""

from collections.abc import Collection, Mapping, Sequence

import pytest

from schedperf_collectors.machine.task_tree import LATE_US, Tree
from schedperf_collectors.machine.taskstats import Exit

RECORDER = 100
OWNERS = {"workload": True, "others": False, None: None}
# The run begins; the numbers of the tests are seconds from here on.
SINCE_US = 1_000_000_000


def leader(pid: int, parent: int, began_s: float, ended_s: float) -> Exit:
    return thread(pid, pid, parent, began_s, ended_s)


def thread(tid: int, pid: int, parent: int, began_s: float, ended_s: float) -> Exit:
    seen_us, lifetime_us = SINCE_US + round(ended_s * 1e6), round((ended_s - began_s) * 1e6)
    return Exit(tid, pid, parent, seen_us, lifetime_us, 0, 0, 0, 0, 0, 0, 0)


def belong(
    exits: Sequence[Exit],
    outside: Collection[int] = (),
    parents: Mapping[int, int] | None = None,
) -> list[bool | None]:
    """Ask for each task, in both orders: the answers must not depend on it."""
    answers = []
    for order in (1, -1):
        tree = Tree(exits, RECORDER, outside, parents or {}, SINCE_US)
        found = {n: OWNERS[tree.owner(n, task)] for n, task in list(enumerate(exits))[::order]}
        answers.append([found[n] for n in range(len(exits))])
    assert answers[0] == answers[1]
    return answers[0]


def test_children_of_the_recorder_and_theirs_belong() -> None:
    exits = [
        leader(203, 202, 3, 4),
        leader(202, 201, 2, 5),
        leader(201, RECORDER, 1, 6),
    ]
    assert belong(exits) == [True, True, True]


def test_children_that_ended_later_than_their_parents_belong() -> None:
    # The message of the parent is sent before its children have a new one.
    exits = [leader(201, RECORDER, 1, 3), leader(202, 201, 2, 4)]
    assert belong(exits) == [True, True]


def test_a_child_of_init_does_not_belong() -> None:
    assert belong([leader(201, 1, 1, 2), leader(202, 201, 1, 2), leader(9, 2, -5, 2)]) == [
        False,
        False,
        False,
    ]


def test_an_orphan_of_the_recorder_belongs() -> None:
    assert belong([leader(300, RECORDER, 5, 6)]) == [True]


def test_the_recorder_and_its_threads_do_not_belong() -> None:
    exits = [thread(101, RECORDER, 1, 1, 2), leader(RECORDER, 1, -10, 3)]
    assert belong(exits) == [False, False]


@pytest.mark.parametrize("state", ["running", "ended"])
def test_collectors_and_their_children_do_not_belong(state: str) -> None:
    collector = leader(150, RECORDER, -1, 5)
    exits = [
        leader(302, 301, 2.5, 2.8),
        leader(301, 150, 2, 3),
        thread(303, 150, RECORDER, 2, 3),
        *([] if state == "running" else [collector]),
    ]
    parents = {150: RECORDER} if state == "running" else {}
    assert belong(exits, outside={150}, parents=parents) == [False] * len(exits)


def test_a_process_that_existed_before_the_command_does_not_belong() -> None:
    # Something that the setup left running; pid 201 is the setup's process, now the command.
    exits = [
        leader(401, 400, 1, 2),
        leader(400, 201, -3, 3),
        leader(201, RECORDER, -5, 4),
    ]
    assert belong(exits, outside={400}) == [False, False, True]


def test_a_pid_from_before_the_command_may_be_used_again() -> None:
    exits = [
        leader(400, 1, -3, 1),
        leader(501, 400, 8, 9),
        leader(400, 201, 7, 10),
        leader(201, RECORDER, 1, 11),
    ]
    assert belong(exits, outside={400}) == [False, True, True, True]


def test_a_process_from_before_the_command_that_is_read_late_does_not_belong() -> None:
    late_s = LATE_US / 1e6
    exits = [leader(400, RECORDER, late_s * 0.9, 2), leader(401, RECORDER, late_s * 0.9, 2)]
    assert belong(exits, outside={400}) == [False, True]


def test_the_pid_of_a_parent_is_used_again_later() -> None:
    exits = [
        leader(301, 300, 2, 3),
        leader(300, RECORDER, 1, 4),
        leader(300, 1, 6, 8),
        leader(302, 300, 7, 9),
    ]
    assert belong(exits) == [True, True, False, False]


def test_the_pid_of_a_parent_was_used_before() -> None:
    exits = [
        leader(300, 1, 1, 2),
        leader(301, 300, 5, 6),
        leader(300, RECORDER, 4, 8),
    ]
    assert belong(exits) == [False, True, True]


def test_the_next_user_of_a_pid_began_after_the_child_so_it_is_not_its_parent() -> None:
    exits = [
        leader(300, RECORDER, 1, 2),
        leader(301, 300, 1.5, 9),
        leader(300, 1, 5, 10),
    ]
    assert belong(exits) == [True, True, False]


def test_a_parent_that_seems_to_begin_a_little_later_is_the_parent() -> None:
    late_s = LATE_US / 1e6
    exits = [leader(301, 300, 2, 3), leader(300, RECORDER, 2 + late_s * 0.9, 4)]
    assert belong(exits) == [True, True]


def test_threads_belong_to_their_process_also_if_its_leader_ended_first() -> None:
    exits = [
        thread(302, 301, RECORDER, 2, 3),
        leader(301, RECORDER, 1, 4),
        thread(303, 301, RECORDER, 2, 5),
        leader(301, 1, 8, 9),
        thread(304, 301, 1, 8.5, 8.8),
    ]
    assert belong(exits) == [True, True, True, False, False]


def test_threads_of_a_process_that_is_still_running_belong_as_it_does() -> None:
    exits = [
        thread(302, 301, RECORDER, 2, 3),
        thread(402, 401, 1, 2, 3),
        thread(502, 501, 301, 2, 3),
        thread(602, 601, 401, 2, 3),
    ]
    parents = {301: RECORDER, 401: 1, 501: 301, 601: 401}
    assert belong(exits, parents=parents) == [True, False, True, False]


def test_children_of_running_processes_belong_as_they_do() -> None:
    exits = [leader(301, 300, 2, 3), leader(401, 400, 2, 3), leader(501, 500, 2, 3)]
    parents = {300: 200, 200: RECORDER, 400: 1, 500: 150, 150: RECORDER}
    assert belong(exits, outside={150}, parents=parents) == [True, False, False]


def test_of_an_unknown_parent_nothing_is_known() -> None:
    exits = [leader(301, 300, 2, 3), leader(302, 301, 2.5, 2.6), thread(9, 8, 7, 1, 2)]
    assert belong(exits) == [None, None, None]
    assert belong(exits[:1], parents={300: 299}) == [None]


def test_what_a_server_starts_and_ends_is_its_own() -> None:
    exits = [
        # Threads of a process that was there before, and of one that the server started.
        thread(410, 400, 1, -5, 1),
        thread(411, 402, 400, 2, 3),
        leader(403, 402, 2, 3),
        leader(402, 400, 1, 4),
        leader(401, 400, -5, 5),
        # Something else that was there before, and a child of the workload.
        leader(500, 1, -5, 6),
        leader(501, 500, 1, 6),
        leader(201, RECORDER, 1, 7),
        # A pid of the server is used again.
        leader(401, 1, 8, 9),
    ]
    parents = {400: 1, 420: 400}
    tree = Tree(
        exits, RECORDER, {400, 401, 420, 500}, parents, SINCE_US, server={400, 401, 420, 430}
    )
    assert [tree.owner(number, task) for number, task in enumerate(exits)] == [
        *["server"] * 5, "others", "others", "workload", "others",
    ]  # fmt: skip


def test_a_process_that_came_to_the_cgroup_of_a_server_is_its_own() -> None:
    exits = [leader(601, 600, 2, 3), thread(602, 600, 1, 2, 3)]
    for parents in ({600: 1}, {600: RECORDER}):
        tree = Tree(exits, RECORDER, (), parents, SINCE_US, server={600})
        assert [tree.owner(number, task) for number, task in enumerate(exits)] == ["server"] * 2


def test_a_circle_of_pids_ends() -> None:
    # 300 seems to be the child of 301, and 301 that of 300.
    exits = [leader(300, 301, 1, 2), leader(301, 300, 1, 2)]
    assert belong(exits) == [None, None]
    assert belong(exits, parents={300: 301, 301: 300}) == [None, None]


def test_a_very_long_line_of_descendants_is_followed() -> None:
    count = 100_000
    first = 1000
    # Each is the child of the next one.
    exits = [leader(first + n, first + n + 1, 1, 2) for n in range(count)]
    exits.append(leader(first + count, RECORDER, 1, 3))
    assert belong(exits) == [True] * (count + 1)


def test_a_pid_that_is_used_often_is_found_each_time() -> None:
    exits = []
    for n in range(2000):
        parent = RECORDER if n % 2 else 1
        exits += [leader(301, 300, 2 * n + 0.8, 2 * n + 0.9), leader(300, parent, 2 * n, 2 * n + 1)]
    assert belong(exits) == [bool(n // 2 % 2) for n in range(4000)]
