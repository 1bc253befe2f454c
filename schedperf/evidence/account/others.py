# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the CPU time of the commands that are not of the workload.

It is per second of a run, because a run that takes longer has more of it at the same load.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from schedperf.evidence.account.contributions import contributions
from schedperf.evidence.account.record import OtherLoad, OtherLoadRow
from schedperf.evidence.account.times import Times
from schedperf.model.run import Captured, SideOf
from schedperf.stats.counted.rates import Measure, Measures, compare_rates

# A shorter run is damaged, and its CPU time per second could be too large for a float.
LEAST_WALL_S = 1e-6
# Commands that are named for a point; the others are one row.
MOST_COMMANDS = 5


def compare_other_load(base: SideOf[Times], new: SideOf[Times]) -> Iterator[OtherLoadRow]:
    """Yield the CPU time of all other commands together, for each point."""
    of_base, of_new = base.by_point(), new.by_point()
    rates = compare_rates(base.having(_measures), new.having(_measures))
    for index, (question, rate) in enumerate(rates.items()):
        row = OtherLoadRow(
            row=f"{new.name}-others-{index}",
            side=new.name,
            workload=question.workload,
            point=question.point,
            basis=question.basis,
            of_busy=None,
            **rate.as_fields(),
        )
        at = row.workload, row.point
        runs = [[run for run in side[at] if _measures(run)] for side in (of_base, of_new)]
        changes = contributions(row, runs, _times_per_second)
        yield row if changes is None else replace(row, of_busy=changes[0])


def compare_commands(base: SideOf[Times], new: SideOf[Times]) -> Iterator[OtherLoad]:
    """Yield the commands whose CPU time changed most, for each point."""
    of_base, of_new = base.by_point(), new.by_point()
    for at in (at for at in of_base if at in of_new):
        before, after = (used_by_others(runs[at]) for runs in (of_base, of_new))
        if before is None or after is None:
            continue
        commands = sorted(
            {*before, *after},
            key=lambda name: (-abs(after.get(name, 0.0) - before.get(name, 0.0)), name),
        )
        for command in commands[:MOST_COMMANDS]:
            yield OtherLoad(
                side=new.name,
                workload=at[0],
                point=at[1],
                command=command,
                base=before.get(command, 0.0),
                new=after.get(command, 0.0),
            )


def _times_per_second(run: Captured[Times]) -> list[float]:
    """Return the CPU time of other commands and of the workload, in s per second of the run."""
    file = run.content.file
    others_s = None if file is None else file.others_cpu_s
    return [per_second(run, others_s or 0.0), per_second(run, run.content.cpu_s)]


def _measures(run: Captured[Times]) -> Measures[str]:
    file = run.content.file
    if file is None or file.others_cpu_s is None or not run.seconds:
        return {}
    return {("others", "time"): Measure(per_second(run, file.others_cpu_s), "s/s")}


def used_by_others(runs: Sequence[Captured[Times]]) -> Mapping[str, float] | None:
    """Return the mean CPU time of each command in s per second of the run.

    A process without a name is left out.

    :return: None if a run has no account, or if its duration is unknown
    """
    sums: dict[str, float] = {}
    for run in runs:
        file = run.content.file
        if file is None or file.others_cpu_s is None or not run.seconds:
            return None
        for other in (other for other in file.others if other.command):
            used_s = per_second(run, other.cpu_s)
            sums[other.command] = sums.get(other.command, 0.0) + used_s
    return {command: used_s / len(runs) for command, used_s in sums.items()}


def per_second(run: Captured[Times], used_s: float) -> float:
    """Return CPU time per second of a run; 0 for a run without a duration."""
    return used_s / max(run.seconds, LEAST_WALL_S) if run.seconds else 0.0
