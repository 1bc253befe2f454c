# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the CPU time of the commands that are not of the workload."""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.evidence.account.record import ALL, OtherLoad
from schedperf.evidence.account.times import Times
from schedperf.model.run import Captured, SideOf

# Commands that are named for a point; the others are one row.
MOST_COMMANDS = 5


def compare_others(base: SideOf[Times], new: SideOf[Times]) -> Iterator[OtherLoad]:
    """Yield all other commands together, and those whose CPU time changed most, for each point."""
    of_base, of_new = base.by_point(), new.by_point()
    for at in (at for at in of_base if at in of_new):
        used = [used_by_others(runs[at]) for runs in (of_base, of_new)]
        if not all(used):
            continue
        before, after = used
        commands = sorted(
            {*before, *after} - {ALL},
            key=lambda name: (-abs(after.get(name, 0.0) - before.get(name, 0.0)), name),
        )
        for command in (ALL, *commands[:MOST_COMMANDS]):
            yield OtherLoad(
                side=new.name,
                workload=at[0],
                point=at[1],
                command=command,
                base=before.get(command, 0.0),
                new=after.get(command, 0.0),
            )


def used_by_others(runs: Sequence[Captured[Times]]) -> Mapping[str, float]:
    """Return the mean CPU time per run of each command, in s; {} if a run has no account."""
    files = [run.content.file for run in runs]
    if None in files:
        return {}
    sums: dict[str, float] = {ALL: 0.0}
    for file in files:
        assert file is not None
        sums[ALL] += file.others_cpu_s
        # A process may have an empty name, which is that of all commands here.
        for other in (other for other in file.others if other.command != ALL):
            sums[other.command] = sums.get(other.command, 0.0) + other.cpu_s
    return {command: used_s / len(files) for command, used_s in sums.items()}
