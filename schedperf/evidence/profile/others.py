# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure other load: samples of tasks that do not belong to the workload.

:mod:`schedperf.evidence.profile.workload` finds the tasks of the workload. Other load includes the
recorder, perf, and kernel threads, but neither interrupts nor softirqs.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from schedperf.evidence.profile.family import is_idle_time
from schedperf.evidence.profile.record import OtherCommand, OtherCommands, Profile
from schedperf.evidence.profile.stacks import command_of
from schedperf.evidence.profile.workload import FOREIGN_PID
from schedperf.inputs.perf_data.recording import Recording
from schedperf.inputs.symbols.places import Placed
from schedperf.model.base_new import BASE, BaseNew
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.place import OTHER_LOAD
from schedperf.model.text import join_names

# Reported from this percentage of the busy time. perf and the recorder take 1% to 2% on a machine
# with two CPUs; a larger load changes the share of every function by a similar fraction.
SAID_PERCENT = 5.0
WEAKENS_PERCENT = 10.0
# Largest number of commands that are listed, and their smallest share.
MOST_COMMANDS = 5
NAMED_PERCENT = 0.5
NAMED_COMMANDS = 4

OUTSIDE = "other pid namespaces"


class Bystanders(Struct, frozen=True, kw_only=True):
    """One run's samples of one event in commands other than the workload.

    :param busy: sum of the periods of all samples without idle routines and the idle task
    :param commands: busy time of each other command, by name
    """

    busy: float
    commands: Mapping[str, float]

    @property
    def shares(self) -> Mapping[str, float]:
        """Return the share of each command, in percent of the busy time."""
        return {name: 100.0 * part / self.busy for name, part in self.commands.items()}


def find_bystanders(recording: Recording, placed: Placed, event: int) -> Bystanders | None:
    """Sum the periods of one event of other load, by command.

    :param placed: places of an attributed recording
    :param event: index into ``recording.events``
    :return: None if all samples of the event are idle
    """
    samples = recording.samples
    is_idle = np.array([is_idle_time(location) for location in placed.places], dtype=np.bool_)
    is_other = np.array([location == OTHER_LOAD for location in placed.places], dtype=np.bool_)
    rows = np.flatnonzero((samples.event == event) & ~is_idle[placed.of_row])
    period = np.maximum(samples.period[rows], 0).astype(np.float64)
    busy = float(period.sum())
    if busy <= 0.0:
        return None
    of_other = is_other[placed.of_row[rows]]
    tasks = samples.task[rows[of_other]]
    weights = np.bincount(tasks, period[of_other], len(recording.tasks))
    commands: defaultdict[str, float] = defaultdict(float)
    for task in np.flatnonzero(weights > 0.0).tolist():
        # Tasks outside of the namespace all have the name of the last such task.
        is_outside = recording.tasks[task].pid == FOREIGN_PID
        commands[OUTSIDE if is_outside else command_of(recording, task)] += float(weights[task])
    return Bystanders(busy=busy, commands=dict(commands))


def describe_others(runs: Sequence[Bystanders | None]) -> OtherCommands | None:
    """Return the share of other commands in the busy time, mean over the runs.

    :param runs: runs of one side; None for a run whose workload cannot be identified
    :return: with the ``MOST_COMMANDS`` largest commands; None if the workload of a run cannot be
        identified, or there are no runs
    """
    shares_per_run = [run.shares for run in runs if run is not None]
    if len(shares_per_run) < len(runs) or not runs:
        return None
    # In a fixed order, because the last digit of the sum depends on it.
    names = dict.fromkeys(name for shares in shares_per_run for name in shares)
    means = {
        name: sum(shares.get(name, 0.0) for shares in shares_per_run) / len(shares_per_run)
        for name in names
    }
    largest = sorted(means, key=lambda name: (-means[name], name))[:MOST_COMMANDS]
    return OtherCommands(
        share=sum(means.values()),
        commands=tuple(OtherCommand(command=name, share=means[name]) for name in largest),
    )


# The denominator is stated for the first share only.
_WHOLE = " of the event count (idle excluded)"


def caution_of(others: BaseNew[OtherCommands | None]) -> str | None:
    """Return a sentence about other commands; None if no side has a known, large share of them.

    ::

        commands other than the workload account for 13% of the event count (idle excluded) in base
        (schedperf 12%, perf 1%) and 21% in new (schedperf 20%)
    """
    said = {side: commands for side, commands in others.items() if commands is not None}
    if not any(commands.share >= SAID_PERCENT for commands in said.values()):
        return None
    parts = [
        f"{commands.share:.0f}%{'' if number else _WHOLE} in {side}"
        + (f" ({names})" if (names := _names(commands)) else "")
        for number, (side, commands) in enumerate(said.items())
    ]
    return f"commands other than the workload account for {join_names(parts)}"


def others_caveats(profile: Profile) -> Iterator[Caveat]:
    """Yield a caveat for each side with a large share of other commands."""
    worst: dict[str, OtherCommands] = {}
    for compared in profile.comparisons:
        for point in (point for event in compared.events for point in event.points):
            for role, commands in point.others.items():
                side = BASE if role == "base" else compared.side
                if commands is not None and (
                    side not in worst or commands.share > worst[side].share
                ):
                    worst[side] = commands
    for side, commands in worst.items():
        if commands.share >= WEAKENS_PERCENT:
            yield caveat(
                "other-commands", side=side, percent=commands.share, names=_names(commands)
            )


def _names(others: OtherCommands) -> str:
    named = [command for command in others.commands if command.share >= NAMED_PERCENT]
    return ", ".join(
        f"{command.command} {command.share:.0f}%" for command in named[:NAMED_COMMANDS]
    )
