# SPDX-License-Identifier: GPL-2.0-or-later
"""Running tasks are those of the workload or not, also when parents end and pids are used again."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from schedperf_collectors.machine.running_tasks import RunningTasks
from schedperf_collectors.machine.system import System
from tests.collectors.fake_processes import stat_of

RECORDER = 100
COLLECTOR = 101


class Machine:
    """A machine whose processes begin and end."""

    def __init__(self, make_system: Callable[..., System]) -> None:
        self._make = make_system
        self.system = make_system({})
        self.begin({1: 0, 50: 1, RECORDER: 50, COLLECTOR: RECORDER})
        self.tasks = RunningTasks(self.system, RECORDER, {1, 50, RECORDER, COLLECTOR})

    def begin(self, parents: Mapping[int, int], threads: int = 1) -> None:
        """Begin processes, or give running ones other parents.

        :param parents: by pid
        """
        for pid, parent in parents.items():
            stat = stat_of(pid, "a) R 1", parent=parent)
            names = [f"proc/{pid}/task/{pid + number}/schedstat" for number in range(threads)]
            self._make({f"proc/{pid}/stat": stat, **dict.fromkeys(names, "1 1 1\n")})

    def end(self, *pids: int) -> None:
        for pid in pids:
            shutil.rmtree(self.system.path(f"/proc/{pid}"))

    def look(self) -> list[int]:
        return sorted(tid for _, tid in self.tasks.look())


@pytest.fixture
def machine(make_system: Callable[..., System]) -> Machine:
    return Machine(make_system)


def test_threads_of_the_command_and_of_its_descendants_are_listed(machine: Machine) -> None:
    assert machine.look() == []
    machine.begin({200: RECORDER}, threads=3)
    machine.begin({300: 200, 400: 300})
    assert machine.look() == [200, 201, 202, 300, 400]
    assert sorted(machine.tasks.look())[:2] == [(200, 200), (200, 201)]


def test_programs_of_collectors_and_other_processes_are_not(machine: Machine) -> None:
    machine.begin({200: RECORDER, 300: COLLECTOR, 400: 300, 500: 50, 600: 1, 700: 0})
    assert machine.look() == [200]


def test_orphans_stay_what_they_were(machine: Machine) -> None:
    machine.begin({200: RECORDER, 300: 200, 400: COLLECTOR, 500: 400})
    assert machine.look() == [200, 300]
    machine.end(200, 400)
    # The recorder is the new parent of both.
    machine.begin({300: RECORDER, 500: RECORDER})
    assert machine.look() == [300]


def test_of_a_process_whose_parent_has_just_ended_the_next_look_knows(machine: Machine) -> None:
    machine.begin({300: 200})
    assert machine.look() == []
    machine.begin({300: RECORDER})
    assert machine.look() == [300]


def test_a_pid_that_is_used_again_is_examined_again(machine: Machine) -> None:
    machine.begin({200: RECORDER, 300: 200})
    assert machine.look() == [200, 300]
    machine.end(50, 300)
    assert machine.look() == [200]
    machine.begin({50: 200, 300: COLLECTOR})
    assert machine.look() == [50, 200]


def test_a_circle_of_parents_belongs_to_nobody(machine: Machine) -> None:
    machine.begin({200: 300, 300: 200})
    assert machine.look() == []


def test_in_another_pid_namespace_the_recorder_may_be_the_first(
    make_system: Callable[..., System], tmp_path: Path
) -> None:
    system = make_system(
        {
            f"proc/{pid}/{name}": content
            for pid, parent in ((1, 0), (2, 1), (3, 2))
            for name, content in (
                ("stat", stat_of(pid, "a", parent=parent)),
                (f"task/{pid}/schedstat", "1 1 1\n"),
            )
        }
    )
    assert system.root.is_relative_to(tmp_path)
    assert list(RunningTasks(system, 1, {1}).look()) == [(2, 2), (3, 3)]
