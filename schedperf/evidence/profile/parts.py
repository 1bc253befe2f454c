"""Parts of what was sampled that a reader may ask for alone: a NUMA node, a CPU, a command.

A part has the same stacks as the whole, with the weights of its own samples. Shares stay those
of the periods of all samples, so that the nodes of a machine add up to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from schedperf.evidence.profile.record import PartKind
from schedperf.evidence.profile.sampled import Flags, RunSamples
from schedperf.evidence.profile.stacks import StackedSamples, command_of

# More than one screen of choices, each with numbers of its own, is no choice.
MOST_CPUS = 8
MOST_COMMANDS = 6
# Of all time on either side; a smaller command has too few samples for numbers of its own.
LEAST_COMMAND_SHARE = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One of them.

    :param name: number of the node or of the CPU, or the name of the command
    """

    kind: PartKind
    name: str

    def rows(self, run: RunSamples) -> Flags:
        """Return which samples of a run are in this part, shape (rows,)."""
        samples = run.recording.samples
        if self.kind == "cpu":
            return np.asarray(samples.cpu == int(self.name))
        if self.kind == "node":
            cpus = [cpu for cpu, node in run.node_of_cpu.items() if node == int(self.name)]
            return np.isin(samples.cpu, cpus)
        return np.isin(samples.task, [task for task, name in _commands(run) if name == self.name])


def find_parts(found: StackedSamples) -> tuple[Part, ...]:
    """Return the parts that are worth a choice: several nodes, a few CPUs, busy commands."""
    cpus: set[int] = set()
    nodes: set[int] = set()
    for run, rows in zip(found.samples, found.rows, strict=True):
        sampled = set(np.unique(run.recording.samples.cpu[rows]).tolist())
        cpus |= sampled
        nodes |= {node for cpu, node in run.node_of_cpu.items() if cpu in sampled}
    commands = _busy_commands(found)
    return (
        *(Part(kind="node", name=str(node)) for node in sorted(nodes) if len(nodes) > 1),
        *(Part(kind="cpu", name=str(cpu)) for cpu in sorted(cpus) if 1 < len(cpus) <= MOST_CPUS),
        *(Part(kind="comm", name=name) for name in commands if len(commands) > 1),
    )


def _busy_commands(found: StackedSamples) -> list[str]:
    # The largest share of a side's mean, by name; largest first.
    runs = found.stacks.runs
    wholes = runs.totals * runs.sampled_runs[runs.sides]
    shares: dict[str, list[float]] = {}
    for number in np.flatnonzero(runs.is_sampled).tolist():
        run, rows = found.samples[number], found.rows[number]
        samples = run.recording.samples
        names = dict(_commands(run))
        tasks, where = np.unique(samples.task[rows], return_inverse=True)
        weights = np.bincount(where, samples.period[rows], len(tasks))
        for task, weight in zip(tasks.tolist(), weights.tolist(), strict=True):
            of_side = shares.setdefault(names[task], [0.0] * len(runs.labels))
            of_side[runs.sides[number]] += weight / wholes[number]
    busy = [name for name, of_side in shares.items() if max(of_side) >= LEAST_COMMAND_SHARE]
    return sorted(busy, key=lambda name: -max(shares[name]))[:MOST_COMMANDS]


def _commands(run: RunSamples) -> Iterator[tuple[int, str]]:
    # Each task that was sampled, by its number, and the name of its command.
    for task in np.unique(run.recording.samples.task).tolist():
        yield task, command_of(run.recording, task)
