# SPDX-License-Identifier: GPL-2.0-or-later
"""Select the commands that get rows: the workload's own, and others that wake up often.

A machine runs hundreds of commands. Commands that occur only in some runs are background load, and
each row makes the multiple-testing correction stricter for all others. Commands of the workload
come first, whether or not others wake up more often.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from schedperf.evidence.wakeup_latency.capture import WakeupCapture
from schedperf.evidence.wakeup_latency.measure import PooledRun, Subject
from schedperf.model.run import SideOf
from schedperf.stats.counted.rates import LEAST_EVENTS_OF_FINDING

# Largest number of commands with rows per point and event.
MOST_COMMANDS = 8

# Runs by workload and point.
Subjects = Mapping[tuple[str, str], Sequence[Subject]]
# Mean number of waits per run, by workload, point and subject.
MeanWaits = Mapping[tuple[str, str, Subject], float]
# Names of the workload's commands, by workload and point.
OwnCommands = Mapping[tuple[str, str], frozenset[str]]


def own_of_points(sides: Sequence[SideOf[WakeupCapture]]) -> OwnCommands:
    """Return the names of the workload's commands in the runs of each point."""
    own: dict[tuple[str, str], frozenset[str]] = {}
    for side in sides:
        for run in side.runs:
            own[run.key.at] = own.get(run.key.at, frozenset()) | run.content.commands
    return own


def count_waits(side: SideOf[PooledRun]) -> MeanWaits:
    """Return the mean number of waits over all runs of a point, by workload, point and subject."""
    sums: dict[tuple[str, str, Subject], int] = {}
    runs = {at: len(members) for at, members in side.by_point().items()}
    for run in side.runs:
        for subject, pooled in run.content.items():
            key = (*run.key.at, subject)
            sums[key] = sums.get(key, 0) + pooled.waits
    return {key: total / runs[key[0], key[1]] for key, total in sums.items()}


def choose_subjects(sides: Sequence[SideOf[PooledRun]], own: OwnCommands) -> tuple[Subjects, int]:
    """Return the subjects of each point in row order, and the number of commands left out.

    All commands together come first, then the workload's own, then others; among them those with
    the most waits. All nodes come before each node.

    :return: the second value counts commands that wake up too rarely or exceed the limit
    """
    points: dict[tuple[str, str], list[PooledRun]] = {}
    for side in sides:
        for run in side.runs:
            points.setdefault(run.key.at, []).append(run.content)
    chosen: dict[tuple[str, str], Sequence[Subject]] = {}
    dropped = set[str]()
    for at, runs in points.items():
        known = dict.fromkeys(subject for run in runs for subject in run)
        ranks = _rank(known, runs, own[at])
        dropped |= {
            subject.command for subject in known if subject._replace(node=None) not in ranks
        }
        chosen[at] = sorted(
            (subject for subject in known if subject._replace(node=None) in ranks),
            key=lambda subject: (
                ranks[subject._replace(node=None)],
                -1 if subject.node is None else subject.node,
            ),
        )
    return chosen, len(dropped)


def _rank(
    known: Iterable[Subject], runs: Sequence[PooledRun], own: AbstractSet[str]
) -> dict[Subject, tuple[str, int]]:
    # Rank of each command: 0 for all commands together, 1 for the workload's most frequent one;
    # without commands that have no rows.
    whole = [subject for subject in known if subject.node is None]
    waits = {one: [run[one].waits if one in run else 0 for run in runs] for one in whole}
    ranks: dict[Subject, tuple[str, int]] = {}
    for event in dict.fromkeys(subject.event for subject in whole):
        commands = sorted(
            (one for one in whole if one.event == event and one.command),
            key=lambda one: (one.command not in own, -sum(waits[one]), one.command),
        )
        frequent = [one for one in commands if min(waits[one]) >= LEAST_EVENTS_OF_FINDING]
        kept = (frequent or commands)[:MOST_COMMANDS]
        every = Subject(event, "", None)
        for number, subject in enumerate([every, *kept] if every in waits else kept):
            ranks[subject] = event, number
    return ranks
