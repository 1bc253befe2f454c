# SPDX-License-Identifier: GPL-2.0-or-later
"""Call stacks of one event, with the same stack of several runs and both sides counted as one.

A stack is its frames, outermost first: the task's own code, then the kernel's. Frames are
places, so stacks that differ in the addresses inside of their functions are one stack. Where
several commands were sampled, the outermost frame is the command.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from schedperf.evidence.profile.samples import (
    Flags,
    Floats,
    Profiles,
    ProfileSamples,
    Runs,
    collect_runs,
)
from schedperf.perf_data.event import EventIdentity
from schedperf.perf_data.recording import NO_TASK, Integers, Recording
from schedperf.symbols.place import Place

# In place of the file of a frame that is a command.
COMMAND = "(command)"
# Of kworker/3:1-events, ksoftirqd/0 and their like: which of them it is says nothing.
_OF_A_CPU = re.compile(r"/u?[0-9].*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stacks:
    """The stacks of one event.

    :param frames: indices into ``places`` of all stacks one after the other, outermost first
    :param starts: stack i is ``frames[starts[i]:starts[i + 1]]``; shape (stacks + 1,)
    :param run: of each entry, as ``stack`` and ``weight``; a run has no entry for a stack that it
        did not sample; shape (entries,)
    :param weight: sum of periods
    """

    runs: Runs
    places: tuple[Place, ...]
    frames: Integers
    starts: Integers
    run: Integers
    stack: Integers
    weight: Floats

    def __len__(self) -> int:
        return len(self.starts) - 1

    def mean_weights(self) -> Floats:
        """Return the mean over a side's runs with samples, 0 without any; (sides, stacks)."""
        counts = np.maximum(self.runs.sampled_runs, 1)
        flat = self.runs.sides[self.run] * len(self) + self.stack
        sums = np.bincount(flat, self.weight, len(counts) * len(self))
        return np.asarray(sums.reshape(len(counts), len(self)) / counts[:, None])


@dataclass(frozen=True, kw_only=True, slots=True)
class StackedSamples:
    """The stacks of one event, and which of the samples have which.

    :param rows: of each run, which rows of its samples are of the event; shape (its rows,) each
    :param of_row: of each run, the stack of each of these rows
    """

    samples: tuple[ProfileSamples, ...]
    rows: tuple[Integers, ...]
    of_row: tuple[Integers, ...]
    stacks: Stacks

    def narrow(self, choose: Callable[[ProfileSamples], Flags]) -> Stacks:
        """Return the same stacks with the weights of some of the samples; shares stay of all.

        :param choose: says of a run which of its samples count, shape (all rows of the run,)
        """
        entries = []
        for run, rows, of_row in zip(self.samples, self.rows, self.of_row, strict=True):
            chosen = choose(run)[rows]
            entries.append(_weigh(run, rows[chosen], of_row[chosen]))
        return replace(self.stacks, **_columns(entries))


def collect_stacks(sides: Sequence[Profiles], event: EventIdentity) -> StackedSamples:
    """Bring the stacks of all runs of an event together."""
    samples = tuple(run.content for side in sides for run in side.runs)
    commands = {name for run in samples for name in _commands_of(run, event)}
    collecting = _Collecting(by_command=len(commands) > 1)
    rows = tuple(np.flatnonzero(run.rows_of(event) & run.rows) for run in samples)
    of_row = tuple(map(collecting.add, samples, rows))
    lengths = [len(frames) for frames in collecting.stacks]
    stacks = Stacks(
        runs=collect_runs(sides, event),
        places=tuple(collecting.places),
        frames=np.fromiter(
            (index for frames in collecting.stacks for index in frames), np.int64, sum(lengths)
        ),
        starts=np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))),
        **_columns(list(map(_weigh, samples, rows, of_row))),
    )
    return StackedSamples(samples=samples, rows=rows, of_row=of_row, stacks=stacks)


class _Entries(NamedTuple):
    # The stacks of one run and their weights, shape (entries of the run,).
    stack: Integers
    weight: Floats


def _weigh(run: ProfileSamples, rows: Integers, of_row: Integers) -> _Entries:
    stacks, where = np.unique(of_row, return_inverse=True)
    weights = np.bincount(where, run.recording.samples.period[rows], len(stacks))
    return _Entries(stacks, weights.astype(np.float64))


def _columns(entries: Sequence[_Entries]) -> dict[str, Any]:
    return {
        "run": np.repeat(np.arange(len(entries)), [len(entry.stack) for entry in entries]),
        "stack": np.concatenate([entry.stack for entry in entries]),
        "weight": np.concatenate([entry.weight for entry in entries]),
    }


class _Collecting:
    # Numbers for the places and stacks that were met so far.

    def __init__(self, *, by_command: bool) -> None:
        self.by_command = by_command
        self.places: dict[Place, int] = {}
        self.stacks: dict[tuple[int, ...], int] = {}

    def add(self, run: ProfileSamples, rows: Integers) -> Integers:
        """Return the stack of each of these rows of a run."""
        samples = run.recording.samples
        # Rows that differ in CPU, thread or address alone have the same frames.
        commands, command = self._commands(run, rows)
        key = (samples.chain[rows], samples.space[rows], run.placed.of_row[rows], command)
        distinct, first, group = np.unique(
            np.column_stack(key), axis=0, return_index=True, return_inverse=True
        )
        numbers = [self.places.setdefault(p, len(self.places)) for p in run.placed.places]
        own = np.array(numbers, dtype=np.int64)
        stacks = np.fromiter(
            (
                self._stack((*commands[number], *own[list(frames)].tolist()))
                for number, frames in zip(
                    command[first].tolist(), run.placed.frames(rows[first]), strict=True
                )
            ),
            np.int64,
            len(distinct),
        )
        return np.asarray(stacks[group.ravel()])

    def _commands(
        self, run: ProfileSamples, rows: Integers
    ) -> tuple[list[tuple[int, ...]], Integers]:
        # The outermost frames, and for each of the rows which it has.
        if not self.by_command:
            return [()], np.zeros(len(rows), np.int64)
        used, where = np.unique(run.recording.samples.task[rows], return_inverse=True)
        names = [command_of(run.recording, task) for task in used.tolist()]
        distinct = {name: number for number, name in enumerate(dict.fromkeys(names))}
        frames: list[tuple[int, ...]] = [
            (self.places.setdefault(Place(name, COMMAND), len(self.places)),) for name in distinct
        ]
        return frames, np.array([distinct[name] for name in names], np.int64)[where]

    def _stack(self, frames: tuple[int, ...]) -> int:
        return self.stacks.setdefault(frames, len(self.stacks))


def _commands_of(run: ProfileSamples, event: EventIdentity) -> set[str]:
    rows = run.rows_of(event) & run.rows
    tasks = np.unique(run.recording.samples.task[rows])
    return {command_of(run.recording, task) for task in tasks.tolist()}


def command_of(recording: Recording, task: int) -> str:
    """Return the name of a task's command, without the number of the CPU that it is bound to."""
    name = None if task == NO_TASK else recording.tasks[task].comm
    return _OF_A_CPU.sub("", name or "") or "unknown command"
