# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare what the workload's tasks did with their time, and decompose the change.

Every run with a resource usage has user and system time. The time that tasks waited for a CPU or
were blocked is compared if it was measured in all runs of both sides.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from msgspec import Struct
from msgspec.structs import asdict, replace

from schedperf.evidence import Absent, section
from schedperf.evidence.account.capture import FOLDER, AccountFile, parts_of, read_account
from schedperf.evidence.account.contributions import contributions
from schedperf.evidence.account.divisor import divide_by
from schedperf.evidence.account.record import (
    ALL,
    PARTS,
    Account,
    AccountPoint,
    AccountRow,
    AccountSide,
    Kind,
    OtherLoad,
    Part,
    PartChange,
)
from schedperf.evidence.account.sampled import compare_sampled
from schedperf.evidence.account.waits import divide_waits
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.run import Captured, SideOf
from schedperf.model.units import format_measure
from schedperf.runs.captured import load_captured
from schedperf.stats.counted.rates import Measure, Measures, compare_rates

# Commands that are named for a point; the others are one row.
MOST_COMMANDS = 5
# CPU time of the messages about one task that ended, and the largest share of a run's CPU time that
# needs no remark.
EXIT_COST_S = 5e-6
LARGEST_EXIT_SHARE = 0.01
# A command sleeps if its tasks ran and waited for a CPU for a smaller share of the elapsed time.
LEAST_ACTIVE_SHARE = 0.5
_GIVE_SERVER = "record with --workload-pid, --workload-unit or --workload-cgroup"
_ONLY_COMMAND = "the account covers the started command only"
_NOT_ALL_SERVERS = (
    "the tasks of servers are left out, because they were not accounted for in all runs; "
    f"{_GIVE_SERVER} on all sides"
)


class Times(Struct, frozen=True, kw_only=True):
    """What is known of the tasks of one run.

    :param parts: thread-time in s; parts that were not measured are left out
    :param counts: number of switches, faults and tasks
    :param file: the account of the collector; None if it did not run
    """

    parts: Mapping[Part, float]
    counts: Mapping[Kind, float]
    file: AccountFile | None

    @property
    def cpu_s(self) -> float:
        """CPU time in s."""
        return self.parts["user"] + self.parts["system"]

    @property
    def active_s(self) -> float:
        """CPU time and time of waiting for a CPU in s, as far as measured."""
        return self.cpu_s + self.parts.get("waiting", 0.0)


def has_usage(side: Side) -> bool:
    """Return whether a run of a side has a resource usage, as all recorded runs have."""
    return any(map(_has_usage, side.bundle.runs))


@section(Account, applies=has_usage)
def account(sides: Sequence[Side]) -> Account:
    """Compare the thread-time of the runs of each workload and point.

    :raises Absent: a side has no run with a resource usage, or the sides have no point in common
    """
    loaded = load_captured(sides, FOLDER, _read, has=_has_usage)
    have_server = {_has_server(run.content) for side in loaded for run in side.runs}
    is_mixed = len(have_server) > 1
    if is_mixed:
        loaded = load_captured(sides, FOLDER, _read_command, has=_has_usage)
    for side, times in zip(sides, loaded, strict=True):
        if not times.runs:
            reason = next(iter(times.notes), f"no run of {side.name} has a resource usage")
            raise Absent(reason)
    base, *others = loaded
    rows = [row for new in others for row in _compare(base, new)]
    divided = divide_waits(sides)
    if not rows:
        raise Absent("base and new have no workload and point in common")
    points = [point for new in others for point in _points(base, new, rows)]
    sampled = compare_sampled(sides, points)
    return Account(
        sides=tuple(map(_describe, loaded)),
        points=tuple(points),
        rows=tuple(rows),
        sampled=sampled.rows,
        # The others of a run without its server include the server.
        others=() if is_mixed else tuple(row for new in others for row in _others(base, new)),
        notes=tuple(
            dict.fromkeys(
                [
                    *(note for times in loaded for note in (*times.notes, *_notes(times))),
                    *((_NOT_ALL_SERVERS,) if is_mixed else ()),
                    *(
                        note
                        for times in (() if is_mixed else loaded)
                        for note in _notes_on_servers(times)
                    ),
                    *sampled.notes,
                    *divided.notes,
                ]
            )
        ),
        divided=divided.points,
        divided_rows=divided.rows,
    )


def _has_usage(run: Run) -> bool:
    return run.rusage is not None and {"utime_s", "stime_s"} <= run.rusage.keys()


def _has_server(times: Times) -> bool:
    return times.file is not None and times.file.server is not None


def _read_command(side: Side, run: Run) -> Times:
    """Read a run without the tasks of its server."""
    return _read(side, run, with_server=False)


def _read(side: Side, run: Run, *, with_server: bool = True) -> Times:
    usage = run.rusage or {}
    file = read_account(side, run)
    if file is not None and not with_server:
        file = replace(file, server=None)
    hosts = (boot.host for boot in side.bundle.boots if boot.number == run.boot)
    ticks_per_s = next((host.sched.hz for host in hosts), None)
    return Times(parts=parts_of(usage, file, ticks_per_s), counts=_counts(usage, file), file=file)


def _counts(usage: Mapping[str, float], file: AccountFile | None) -> dict[Kind, float]:
    """Return what is counted; switches and ended tasks of a server are not."""
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


def _describe(times: SideOf[Times]) -> AccountSide:
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


def _notes(times: SideOf[Times]) -> Iterator[str]:
    side = _describe(times)
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
            f"{times.name}: messages about tasks that ended on the machine took up to "
            f"{100.0 * largest:.1f}% of a run's CPU time (5 us each); record with --without "
            "account to end this"
        )


def _notes_on_servers(times: SideOf[Times]) -> Iterator[str]:
    runs = [run for run in times.runs if run.content.file is not None]
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
    others = _used_by_others(runs)
    most_s = max((used_s for command, used_s in others.items() if command != ALL), default=0.0)
    if most_s > fmean(run.content.cpu_s for run in runs):
        yield (
            f"{times.name}: {_ONLY_COMMAND}, and another command used more CPU time; if it is a "
            f"server of the workload, {_GIVE_SERVER}"
        )


def _compare(base: SideOf[Times], new: SideOf[Times]) -> Iterator[AccountRow]:
    rates = compare_rates(base.having(_measures), new.having(_measures))
    for index, (question, rate) in enumerate(rates.items()):
        yield AccountRow(
            row=f"{new.name}-{index}",
            side=new.name,
            workload=question.workload,
            point=question.point,
            basis=question.basis,
            kind=question.key,
            **rate.as_fields(),
        )


def _measures(run: Captured[Times]) -> Measures[Kind]:
    basis, count, per = divide_by(run)
    parts = run.content.parts
    seconds: dict[Kind, float] = {"cpu": run.content.cpu_s}
    seconds |= {part: parts[part] for part in parts}
    times = {(kind, basis): Measure(value / count, f"s/{per}") for kind, value in seconds.items()}
    counts = {
        (kind, basis): Measure(value / count, f"1/{per}")
        for kind, value in run.content.counts.items()
    }
    return {**times, **counts}


def _points(
    base: SideOf[Times], new: SideOf[Times], rows: Sequence[AccountRow]
) -> Iterator[AccountPoint]:
    # The total CPU time of each point has a row.
    whole = [row for row in rows if row.side == new.name and row.kind == "cpu"]
    of_base, of_new = base.by_point(), new.by_point()
    for row in whole:
        at = row.workload, row.point
        runs = [
            [run for run in runs if divide_by(run)[0] == row.basis]
            for runs in (of_base[at], of_new[at])
        ]
        point = _decompose(row, runs)
        if point is not None:
            yield point


def _decompose(row: AccountRow, runs: Sequence[Sequence[Captured[Times]]]) -> AccountPoint | None:
    parts = [
        part for part in PARTS if all(part in run.content.parts for side in runs for run in side)
    ]
    changes = contributions(row, runs, lambda times: [times.parts[part] for part in parts])
    if changes is None:
        return None
    *of_parts, whole = changes
    return AccountPoint(
        side=row.side,
        workload=row.workload,
        point=row.point,
        basis=row.basis,
        unit=row.unit,
        n_base=row.n_base,
        n_new=row.n_new,
        replication=row.replication,
        all=PartChange(part=None, **asdict(whole)),
        parts=tuple(
            PartChange(part=part, **asdict(change))
            for part, change in zip(parts, of_parts, strict=True)
        ),
        missing=tuple(part for part in PARTS if part not in parts),
    )


def _others(base: SideOf[Times], new: SideOf[Times]) -> Iterator[OtherLoad]:
    of_base, of_new = base.by_point(), new.by_point()
    for at in (at for at in of_base if at in of_new):
        used = [_used_by_others(runs[at]) for runs in (of_base, of_new)]
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


def _used_by_others(runs: Sequence[Captured[Times]]) -> Mapping[str, float]:
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
