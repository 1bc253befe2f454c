# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare what the workload's tasks did with their time, and decompose the change.

Every run with a resource usage has user and system time. The time that tasks waited for a CPU or
were blocked is compared if it was measured in all runs of both sides.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec.structs import asdict

from schedperf.evidence import Absent, section
from schedperf.evidence.account.capture import FOLDER
from schedperf.evidence.account.contributions import contributions
from schedperf.evidence.account.divisor import divide_by, per_operation
from schedperf.evidence.account.main_reason import with_main_reasons
from schedperf.evidence.account.notes import (
    NOT_ALL_SERVERS,
    describe_side,
    notes_of,
    notes_on_servers,
)
from schedperf.evidence.account.others import compare_commands, compare_other_load
from schedperf.evidence.account.record import (
    ALL_PARTS,
    MEASURED,
    Account,
    AccountPoint,
    AccountRow,
    Kind,
    PartChange,
)
from schedperf.evidence.account.sampled import compare_sampled
from schedperf.evidence.account.times import (
    Times,
    divide_alike,
    has_server,
    has_usage,
    read_command_times,
    read_times,
)
from schedperf.evidence.account.waits import divide_waits
from schedperf.inputs.side import Side
from schedperf.model.run import Captured, SideOf
from schedperf.runs.captured import load_captured
from schedperf.stats.counted.rates import Measure, Measures, compare_rates


def has_any_usage(side: Side) -> bool:
    """Return whether a run of a side has a resource usage."""
    return any(map(has_usage, side.bundle.runs))


@section(Account, applies=has_any_usage)
def account(sides: Sequence[Side]) -> Account:
    """Compare the thread-time of the runs of each workload and point.

    :raises Absent: a side has no run with a resource usage, or the sides have no point in common
    """
    loaded = load_captured(sides, FOLDER, read_times, has=has_usage)
    have_server = {has_server(run.content) for side in loaded for run in side.runs}
    is_mixed = len(have_server) > 1
    if is_mixed:
        loaded = load_captured(sides, FOLDER, read_command_times, has=has_usage)
    for side, times in zip(sides, loaded, strict=True):
        if not times.runs:
            reason = next(iter(times.notes), f"no run of {side.name} has a resource usage")
            raise Absent(reason)
    base, *others = loaded = divide_alike(loaded)
    rows = [row for new in others for row in _compare(base, new)]
    divided = divide_waits(sides)
    if not rows:
        raise Absent("base and new have no workload and point in common")
    points = [point for new in others for point in _points(base, new, rows)]
    sampled = compare_sampled(sides, points)
    return Account(
        sides=tuple(map(describe_side, loaded)),
        # The reasons are those of the command's tasks only.
        points=tuple(points if True in have_server else with_main_reasons(points, divided)),
        rows=tuple(rows),
        sampled=sampled.rows,
        # The others of a run without its server include the server.
        others=()
        if is_mixed
        else tuple(row for new in others for row in compare_commands(base, new)),
        other_load=()
        if is_mixed
        else tuple(row for new in others for row in compare_other_load(base, new)),
        notes=tuple(
            dict.fromkeys(
                [
                    *(note for times in loaded for note in (*times.notes, *notes_of(times))),
                    *([NOT_ALL_SERVERS] if is_mixed else chain(*map(notes_on_servers, loaded))),
                    *sampled.notes,
                    *divided.notes,
                ]
            )
        ),
        divided=divided.points,
        divided_rows=divided.rows,
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
        part
        for part in ALL_PARTS
        if all(part in run.content.parts for side in runs for run in side)
    ]
    changes = contributions(
        row, runs, lambda run: per_operation(run, (run.content.parts[part] for part in parts))
    )
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
        missing=tuple(part for part in MEASURED if part not in parts),
    )
