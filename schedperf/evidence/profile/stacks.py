# SPDX-License-Identifier: GPL-2.0-or-later
"""Merge equal call stacks of one event over all runs and both sides.

A stack is a sequence of frames, outermost first: user code, then kernel code. Frames are places, so
stacks that differ only in the addresses within functions are merged. If several commands were
sampled, the outermost frame is the command; interrupts and softirqs, and other load, are frames
beside the commands.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from schedperf.evidence.profile.samples import (
    Flags,
    Floats,
    Profiles,
    ProfileSamples,
    Runs,
    collect_runs,
)
from schedperf.evidence.profile.stack_hash import StackHasher, Words, chunks_of
from schedperf.inputs.perf_data.event import EventIdentity
from schedperf.inputs.perf_data.recording import NO_CHAIN, NO_TASK, Integers, Recording
from schedperf.inputs.symbols.functions import INTERRUPTS
from schedperf.inputs.symbols.places import Numbers, Placed
from schedperf.model.place import OTHER_LOAD, Place, is_in_interrupts

_NO_FRAME = -1
# Pseudo file name of a frame that is a command.
COMMAND = "(command)"
# Suffixes of per-CPU kernel threads (kworker/3:1-events, ksoftirqd/0), which are merged.
_OF_A_CPU = re.compile(r"/u?[0-9].*")


class Stacks(Struct, frozen=True, kw_only=True):
    """The stacks of one event.

    :param frames: indices into ``places`` of all stacks, concatenated, outermost first
    :param starts: stack i is ``frames[starts[i]:starts[i + 1]]``; shape (stacks + 1,)
    :param run: run of each entry, shape (entries,); an entry is a stack that a run sampled
    :param stack: index of the stack of each entry, shape (entries,)
    :param weight: sum of periods of each entry, shape (entries,)
    """

    runs: Runs
    places: tuple[Place, ...]
    frames: NDArray[np.integer]
    starts: Integers
    run: Integers
    stack: Integers
    weight: Floats

    def __len__(self) -> int:
        return len(self.starts) - 1

    def mean_weights(self) -> Floats:
        """Return the mean weight of each stack on each side, shape (sides, stacks).

        The mean is over the side's runs with samples of the event; 0 if there are none.
        """
        counts = np.maximum(self.runs.sampled_runs, 1)
        flat = self.runs.sides[self.run] * len(self) + self.stack
        sums = np.bincount(flat, self.weight, len(counts) * len(self))
        return np.asarray(sums.reshape(len(counts), len(self)) / counts[:, None])


class StackedSamples(Struct, frozen=True, kw_only=True):
    """The stacks of one event, and the stack of each sample.

    :param rows: for each run, the indices of its selected rows of the event
    :param of_row: for each run, the index of the stack of each of these rows
    """

    samples: tuple[ProfileSamples, ...]
    rows: tuple[Integers, ...]
    of_row: tuple[Integers, ...]
    stacks: Stacks

    def narrow(self, choose: Callable[[ProfileSamples], Flags]) -> Stacks:
        """Return the same stacks with the weights of a subset of the samples; totals are unchanged.

        :param choose: returns a mask of the selected samples of a run, shape (rows of the run,)
        """
        entries = []
        for run, rows, of_row in zip(self.samples, self.rows, self.of_row, strict=True):
            chosen = choose(run)[rows]
            entries.append(_weigh(run, rows[chosen], of_row[chosen]))
        return replace(self.stacks, **_columns(entries))


def collect_stacks(sides: Sequence[Profiles], event: EventIdentity) -> StackedSamples:
    """Merge equal stacks of the selected samples of an event, over all runs of all sides."""
    samples = tuple(run.content for side in sides for run in side.runs)
    commands = {name for run in samples for name in _commands_of(run, event)}
    collecting = _Collecting(by_command=len(commands) > 1)
    rows = tuple(np.flatnonzero(run.rows_of(event) & run.rows) for run in samples)
    of_row = tuple(map(collecting.add, samples, rows))
    lengths = np.concatenate([np.zeros(1, np.int64), *collecting.lengths])
    stacks = Stacks(
        runs=collect_runs(sides, event),
        places=tuple(collecting.places),
        frames=np.concatenate([np.zeros(0, np.int32), *collecting.frames]),
        starts=np.cumsum(lengths),
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


class _Sampled(Struct, frozen=True, kw_only=True):
    """The stacks of some rows of a run.

    :param places: number of each of the run's places
    :param stack: index of the stack of the placed samples, or ``NO_CHAIN``; shape (rows,)
    :param leaf: number of the sampled place
    :param has_leaf: True if the stack does not end with the sampled place; with precise sampling,
        the sampled address may differ from the last one of the chain, but is mostly in the same
        function
    :param command: number of the command's frame, ``_NO_FRAME`` if commands are not distinguished
    """

    placed: Placed
    places: Numbers
    stack: Integers
    leaf: Integers
    has_leaf: Flags
    command: Integers

    def take(self, rows: Integers) -> "_Sampled":
        columns = ("stack", "leaf", "has_leaf", "command")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})

    @property
    def ends(self) -> tuple[Integers, Integers]:
        """Start and end of each row's stack in ``placed.stack_places``."""
        index = np.maximum(self.stack, 0)
        starts = np.append(self.placed.stack_starts, 0)
        has_stack = self.stack != NO_CHAIN
        return np.where(has_stack, starts[index], 0), np.where(has_stack, starts[index + 1], 0)


class _Collecting:
    # Assigns numbers to places and stacks in order of appearance.

    def __init__(self, *, by_command: bool) -> None:
        self.by_command = by_command
        self.places: dict[Place, int] = {}
        self.frames: list[Numbers] = []
        self.lengths: list[Integers] = []
        self._hasher = StackHasher()
        # Stack numbers by hash.
        self._stacks: dict[int, int] = {}

    def add(self, run: ProfileSamples, rows: Integers) -> Integers:
        """Return the stack of each of these rows of a run."""
        sampled = self._sampled(run, rows)
        keys, first, group = np.unique(self._hash(sampled), return_index=True, return_inverse=True)
        # Hashes are random, so stacks are numbered in the order of the rows.
        by_row = np.argsort(first)
        begin = len(self._stacks)
        numbers = np.empty(len(keys), np.int64)
        numbers[by_row] = [
            self._stacks.setdefault(key, len(self._stacks)) for key in keys[by_row].tolist()
        ]
        added = by_row[numbers[by_row] >= begin]
        self._append(sampled.take(first[added]))
        return np.asarray(numbers[group.ravel()])

    def _sampled(self, run: ProfileSamples, rows: Integers) -> _Sampled:
        placed = run.placed
        command = self._commands(run, rows)
        numbers = [self.places.setdefault(p, len(self.places)) for p in placed.places]
        places = np.array(numbers, np.int32)
        sampled = _Sampled(
            placed=placed,
            places=places,
            stack=placed.stack_of_row[rows],
            leaf=places[placed.of_row[rows]].astype(np.int64),
            has_leaf=np.ones(len(rows), np.bool_),
            command=command,
        )
        starts, ends = sampled.ends
        (filled,) = np.nonzero(starts < ends)
        sampled.has_leaf[filled] = (
            places[placed.stack_places[starts[filled]]] != sampled.leaf[filled]
        )
        return sampled

    def _hash(self, sampled: _Sampled) -> Words:
        placed, hasher = sampled.placed, self._hasher
        of_stack = hasher.sequences(
            hasher.term(sampled.places), placed.stack_places, placed.stack_starts
        )
        # A row without a stack gets the index after the last stack, which is an empty stack.
        hashes = np.append(of_stack, np.uint64(0))[sampled.stack]
        with_leaf = hasher.append(hashes, hasher.term(sampled.leaf))
        return hasher.append(
            np.where(sampled.has_leaf, with_leaf, hashes), hasher.term(sampled.command)
        )

    def _append(self, sampled: _Sampled) -> None:
        """Append the frames of distinct stacks, outermost first."""
        begin, end = sampled.ends
        has_command = sampled.command != _NO_FRAME
        lengths = end - begin + has_command + sampled.has_leaf
        self.lengths.append(lengths)
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        for first, last in chunks_of(starts):
            chunk = slice(first, last)
            at = starts[first : last + 1] - starts[first]
            # In reverse order; positions outside of the stack are for the command or the sampled
            # place.
            outermost = end[chunk] - 1 + has_command[chunk] + at[:-1]
            source = np.repeat(outermost, lengths[chunk]) - np.arange(at[-1])
            frames = _take(sampled.places, sampled.placed.stack_places, source)
            frames[at[:-1][has_command[chunk]]] = sampled.command[chunk][has_command[chunk]]
            has_leaf = sampled.has_leaf[chunk]
            frames[at[1:][has_leaf] - 1] = sampled.leaf[chunk][has_leaf]
            self.frames.append(frames)

    def _commands(self, run: ProfileSamples, rows: Integers) -> Integers:
        # The outermost frame of each row.
        commands = np.full(len(rows), _NO_FRAME)
        if not self.by_command:
            return commands
        is_other, in_interrupt = _parts_of(run, rows)
        (chosen,) = np.nonzero(~is_other & ~in_interrupt)
        used, where = np.unique(run.recording.samples.task[rows[chosen]], return_inverse=True)
        numbers = [self._command(command_of(run.recording, task)) for task in used.tolist()]
        commands[chosen] = np.array(numbers, np.int64)[where]
        if in_interrupt.any():
            commands[in_interrupt] = self._command(INTERRUPTS)
        return commands

    def _command(self, name: str) -> int:
        return self.places.setdefault(Place(name, COMMAND), len(self.places))


def _take(places: Numbers, stack_places: Numbers, source: Integers) -> Numbers:
    # Indices outside of the stacks belong to frames that are set later.
    if not len(stack_places):
        return np.zeros(len(source), np.int32)
    return places[stack_places[np.clip(source, 0, len(stack_places) - 1)]]


def _commands_of(run: ProfileSamples, event: EventIdentity) -> set[str]:
    rows = np.flatnonzero(run.rows_of(event) & run.rows)
    is_other, in_interrupt = _parts_of(run, rows)
    tasks = np.unique(run.recording.samples.task[rows[~is_other & ~in_interrupt]])
    names = {command_of(run.recording, task) for task in tasks.tolist()}
    parts = {INTERRUPTS: in_interrupt.any(), OTHER_LOAD.symbol: is_other.any()}
    return names | {name for name, has_rows in parts.items() if has_rows}


def _parts_of(run: ProfileSamples, rows: Integers) -> tuple[Flags, Flags]:
    # Which rows are of other load, and which are in an interrupt or softirq.
    is_other = run.rows_at(lambda location: location == OTHER_LOAD)
    in_interrupt = run.rows_at(lambda location: is_in_interrupts(location.dso))
    return is_other[rows], in_interrupt[rows]


def command_of(recording: Recording, task: int) -> str:
    """Return the name of a task's command, without the CPU number of kernel threads.

    "unknown command" if the task or its name is not recorded.
    """
    name = None if task == NO_TASK else recording.tasks[task].comm
    return _OF_A_CPU.sub("", name or "") or "unknown command"
