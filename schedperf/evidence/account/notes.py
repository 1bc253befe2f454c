# SPDX-License-Identifier: GPL-2.0-or-later
"""State what the account of a side lacks, what it cost, and whether it includes a server."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from schedperf.evidence.account.others import per_second, used_by_others
from schedperf.evidence.account.record import AccountSide
from schedperf.evidence.account.times import Times
from schedperf.model.run import SideOf
from schedperf.model.units import format_measure

# CPU time of the messages about one task that ended, and the largest share of a run's CPU time that
# needs no remark.
EXIT_COST_S = 5e-6
LARGEST_EXIT_SHARE = 0.01
# A command sleeps if its tasks ran and waited for a CPU for a smaller share of the elapsed time.
LEAST_ACTIVE_SHARE = 0.5
_GIVE_SERVER = "record with --workload-pid, --workload-unit or --workload-cgroup"
_ONLY_COMMAND = "the account covers the started command only"
NOT_ALL_SERVERS = (
    "the tasks of servers are left out, because they were not accounted for in all runs; "
    f"{_GIVE_SERVER} on all sides"
)


def describe_side(times: SideOf[Times]) -> AccountSide:
    """Return how many runs were accounted, and how many tasks are missing."""
    files = [run.content.file for run in times.runs if run.content.file is not None]
    return AccountSide(
        side=times.name,
        runs=len(times.runs),
        kind=times.kind,
        measured=len(files),
        lost=_sum([file.lost for file in files]),
        left_out=_sum([file.left_out for file in files]),
        unresolved=_sum([file.unresolved for file in files]),
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    """Return the sum; None without counts, or if one is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if counts and len(known) == len(counts) else None


def notes_of(times: SideOf[Times]) -> Iterator[str]:
    """Yield what is missing on a side, and what the account cost."""
    side = describe_side(times)
    if side.measured and side.measured < side.runs:
        yield f"{side.side}: tasks were accounted in {side.measured} of {side.runs} runs only"
    if side.measured and side.lost is None:
        yield f"{side.side}: unknown whether the kernel dropped messages about tasks that ended"
    for count, what in [
        (side.lost, "not reported, because the kernel dropped messages"),
        (side.left_out, "left out, because there were too many"),
        (side.unresolved, "left out, because no parent is known"),
    ]:
        if count:
            tasks = "1 task" if count == 1 else f"{count} tasks"
            yield f"{side.side}: of the tasks that ended, {tasks} {what}"
    yield from _notes_on_cost(times)


def _notes_on_cost(times: SideOf[Times]) -> Iterator[str]:
    shares = [
        EXIT_COST_S * run.content.file.exits / run.content.cpu_s
        for run in times.runs
        if run.content.file is not None and run.content.file.exits and run.content.cpu_s > 0.0
    ]
    largest = max(shares, default=0.0)
    if largest > LARGEST_EXIT_SHARE:
        yield (
            f"{times.name}: messages about tasks that ended on the machine took an estimated "
            f"{100.0 * largest:.1f}% of a run's CPU time (5 us each); to avoid this, record with "
            "--without account"
        )


def notes_on_servers(times: SideOf[Times]) -> Iterator[str]:
    """Yield whether the account includes a server, or may lack one."""
    # Tracers do not record servers as such, and the importer says whose tasks these are.
    runs = [run for run in times.runs if run.content.file is not None and run.period_s is None]
    servers = [run.content.file.server for run in runs if run.content.file is not None]
    if not runs:
        return
    known = [server for server in servers if server is not None]
    if known:
        cpu_s = format_measure(fmean(server.exec_s for server in known), "s")
        tasks = fmean(server.tasks for server in known)
        yield (
            f"{times.name}: the account includes a server of the workload: {tasks:.3g} tasks and "
            f"{cpu_s} of CPU time per run"
        )
        return
    active_s = fmean(run.content.active_s for run in runs)
    if all(run.wall_s for run in runs) and active_s < LEAST_ACTIVE_SHARE * fmean(
        run.wall_s or 0.0 for run in runs
    ):
        yield (
            f"{times.name}: {_ONLY_COMMAND}, which slept most of the time; for a server that it "
            f"uses, {_GIVE_SERVER}"
        )
    most_s = max((used_by_others(runs) or {}).values(), default=0.0)
    if most_s > fmean(per_second(run, run.content.cpu_s) for run in runs):
        yield (
            f"{times.name}: {_ONLY_COMMAND}, and another command used more CPU time; if it is a "
            f"server of the workload, {_GIVE_SERVER}"
        )
