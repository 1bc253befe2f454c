# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the CPU time of the commands that are not of the workload."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from msgspec.structs import replace

from schedperf.evidence.account.contributions import LEAST_S
from schedperf.evidence.account.record import ALL, OtherLoad
from schedperf.evidence.account.times import Times
from schedperf.model.run import Captured, SideOf
from schedperf.stats.counted.rates import Measure, Measures, compare_rates

# Commands that are named for a point; the others are one row.
MOST_COMMANDS = 5


def compare_others(base: SideOf[Times], new: SideOf[Times]) -> Iterator[OtherLoad]:
    """Yield all other commands together, and those whose CPU time changed most, for each point."""
    rates = compare_rates(base.having(_measures), new.having(_measures))
    changed = {(each.workload, each.point): rate.changed for each, rate in rates.items()}
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
        own_s = fmean(run.content.cpu_s for run in of_base[at])
        whole = _describe(new.name, at, ALL, before, after)
        yield replace(
            whole,
            changed=changed.get(at),
            relative=(whole.new - whole.base) / own_s if own_s >= LEAST_S else None,
        )
        for command in commands[:MOST_COMMANDS]:
            yield _describe(new.name, at, command, before, after)


def _measures(run: Captured[Times]) -> Measures[str]:
    file = run.content.file
    return {} if file is None else {(ALL, "share"): Measure(file.others_cpu_s, "s/run")}


def _describe(
    side: str,
    at: tuple[str, str],
    command: str,
    before: Mapping[str, float],
    after: Mapping[str, float],
) -> OtherLoad:
    return OtherLoad(
        side=side,
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
