# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the times of a run's tasks: the resource usage, divided by the account of the collector."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.account.capture import (
    AccountFile,
    has_short_tasks,
    parts_of,
    read_account,
)
from schedperf.evidence.account.record import ON_CPU, Kind, Part
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.errors import BundleError
from schedperf.model.run import Captured, SideOf


class Times(Struct, frozen=True, kw_only=True):
    """What is known of the tasks of one run.

    :param parts: thread-time in s; parts that were not measured are left out
    :param by_ticks: the same, if the ticks of all tasks divide the CPU time; None without ticks
    :param has_short_tasks: whether the tasks have few ticks each
    :param counts: number of switches, faults and tasks
    :param file: the account of the collector; None if it did not run
    """

    parts: Mapping[Part, float]
    by_ticks: Mapping[Part, float] | None
    has_short_tasks: bool
    counts: Mapping[Kind, float]
    file: AccountFile | None

    @property
    def cpu_s(self) -> float:
        """CPU time in s."""
        return sum(time_s for part, time_s in self.parts.items() if part in ON_CPU)

    @property
    def active_s(self) -> float:
        """CPU time and time of waiting for a CPU in s, as far as measured."""
        return self.cpu_s + self.parts.get("waiting", 0.0)


def has_usage(run: Run) -> bool:
    """Return whether a run has a CPU time, as all recorded runs have."""
    usage = (run.rusage or {}).keys()
    return "cpu_s" in usage or {"utime_s", "stime_s"} <= usage


def read_cpu_s(run: Run, where: str) -> float:
    """Return the CPU time of a run's resource usage in s.

    :param where: bundle and member that needs it, for messages
    :raises BundleError: the run has no resource usage
    """
    if not has_usage(run):
        raise BundleError(f"{where}: run.json has no CPU time (expected rusage); record it again")
    return sum(parts_of(run.rusage or {}, None, by_ticks=False).values())


def has_server(times: Times) -> bool:
    """Return whether the times include those of a server."""
    return times.file is not None and times.file.server is not None


def read_command_times(side: Side, run: Run) -> Times:
    """Read what is known of a run's tasks, without those of its server, as :func:`read_times`.

    :raises BundleError: the file of the account is damaged
    """
    return read_times(side, run, with_server=False)


def read_times(side: Side, run: Run, *, with_server: bool = True) -> Times:
    """Read what is known of a run's tasks.

    :param run: a run with a resource usage, see :func:`has_usage`
    :param with_server: False to leave out the tasks of a server
    :raises BundleError: the file of the account is damaged
    """
    usage = run.rusage or {}
    file = read_account(side, run)
    if file is not None and not with_server:
        file = replace(file, server=None)
    hosts = (boot.host for boot in side.bundle.boots if boot.number == run.boot)
    ticks_per_s = next((host.sched.hz for host in hosts), None)
    has_ticks = file is not None and file.ticks_s > 0.0
    return Times(
        parts=parts_of(usage, file, by_ticks=False),
        by_ticks=parts_of(usage, file, by_ticks=True) if has_ticks else None,
        has_short_tasks=(
            file is not None and has_ticks and has_short_tasks(usage, file, ticks_per_s)
        ),
        counts=_counts(usage, file),
        file=file,
    )


def divide_alike(sides: Sequence[SideOf[Times]]) -> list[SideOf[Times]]:
    """Return the sides with the CPU time of all runs of a point divided in the same way.

    If one run has short tasks, ticks divide it, unless a run has none. If one run does not tell
    user and system time apart, it is not divided.
    """
    runs: dict[tuple[str, str], list[Times]] = {}
    for run in (run for side in sides for run in side.runs):
        runs.setdefault((run.key.workload, run.key.point), []).append(run.content)
    by_ticks = {
        at
        for at, times in runs.items()
        if any(each.has_short_tasks for each in times)
        and all(each.by_ticks is not None for each in times)
    }

    undivided = {at for at, times in runs.items() if any("cpu" in each.parts for each in times)}

    def divide(run: Captured[Times]) -> Times:
        times = run.content
        if run.key.at in undivided:
            others = {part: s for part, s in times.parts.items() if part not in ON_CPU}
            return replace(times, parts={"cpu": times.cpu_s, **others})
        if times.by_ticks is None or (run.key.workload, run.key.point) not in by_ticks:
            return times
        return replace(times, parts=times.by_ticks)

    return [side.having(divide) for side in sides]


def _counts(usage: Mapping[str, float], file: AccountFile | None) -> dict[Kind, float]:
    """Return the counts of a run; with a server only faults, since its other counts are unknown."""
    counts: dict[Kind, float] = {kind: usage[key] for kind, key in _COUNTS.items() if key in usage}
    if file is None:
        return counts
    if file.server is None:
        return {**counts, "tasks": file.tasks}
    of_server: dict[Kind, int] = {
        "minor faults": file.server.minor_faults,
        "major faults": file.server.major_faults,
    }
    return {kind: counts[kind] + count for kind, count in of_server.items() if kind in counts}


_COUNTS: Mapping[Kind, str] = {
    "voluntary switches": "nvcsw",
    "involuntary switches": "nivcsw",
    "minor faults": "minflt",
    "major faults": "majflt",
}
