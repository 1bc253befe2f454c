# SPDX-License-Identifier: GPL-2.0-or-later
"""List the schedulers that the runs of each side measured, and the runs that lost theirs."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from schedperf.evidence import Absent, section
from schedperf.evidence.sched_ext.capture import (
    FILE,
    FOLDER,
    LARGEST_BYTES,
    SchedExtCapture,
    parse_sched_ext,
)
from schedperf.evidence.sched_ext.record import DiscardedRun, SchedExt, SchedulerRow
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.errors import InputError
from schedperf.runs.captured import why_nothing

# Largest number of rows.
MOST_DISCARDED = 1_000


class _Seen(Struct, frozen=True, kw_only=True):
    # One run and its capture.
    side: str
    run: Run
    capture: SchedExtCapture

    @property
    def group(self) -> "_Group":
        service = self.run.service
        return _Group(
            self.capture.before.scheduler,
            None if service is None else service.command,
            None if service is None else service.sha256,
        )


class _Group(NamedTuple):
    # Runs of one row: scheduler, command of the service, and hash of its program.
    scheduler: str | None
    command: str | None
    sha256: str | None


def has_scheduler(side: Side) -> bool:
    """Return whether a run began or ended with a loaded scheduler, or its capture is damaged."""
    notes: list[str] = []
    seen = [*_read(side, notes)]
    return bool(notes) or any(each.capture.before.scheduler or _is_lost(each) for each in seen)


@section(SchedExt, applies=has_scheduler)
def sched_ext(sides: Sequence[Side]) -> SchedExt:
    """List the schedulers of each side, in the order of their first runs.

    :raises Absent: a side has no capture, and no capture of any side is damaged
    """
    notes: list[str] = []
    seen = {side.name: [*_read(side, notes)] for side in sides}
    for side in sides:
        if not seen[side.name] and not notes:
            raise Absent(why_nothing(side, FOLDER))
    runs = [each for of_side in seen.values() for each in of_side]
    lost = [each for each in runs if each.run.discarded is not None]
    return SchedExt(
        rows=tuple(row for name, of_side in seen.items() for row in _rows(name, of_side)),
        discarded=tuple(map(_describe, lost[:MOST_DISCARDED])),
        notes=tuple(notes),
    )


def _read(side: Side, notes: list[str]) -> Iterator[_Seen]:
    bundle = side.bundle
    for run in bundle.runs:
        name = f"{run.folder}/{FOLDER}/{FILE}"
        if run.warmup or bundle.size(name) is None:
            continue
        try:
            capture = side.parsed(name, LARGEST_BYTES, parse_sched_ext)
        except InputError as error:
            notes.append(f"{side.name}: {error}")
            continue
        yield _Seen(side=side.name, run=run, capture=capture)


def _is_lost(seen: _Seen) -> bool:
    return seen.capture.before.scheduler != seen.capture.after.scheduler


def _rows(side: str, seen: Sequence[_Seen]) -> Iterator[SchedulerRow]:
    groups: dict[_Group, list[_Seen]] = {}
    for each in seen:
        groups.setdefault(each.group, []).append(each)
    for index, (group, runs) in enumerate(groups.items()):
        service = runs[0].run.service
        switched = {each.capture.before.switch_all for each in runs}
        yield SchedulerRow(
            row=f"{side}-{index}",
            side=side,
            scheduler=group.scheduler,
            runs=len(runs),
            discarded=sum(each.run.discarded is not None for each in runs),
            switch_all=None if group.scheduler is None or None in switched else "0" not in switched,
            rejected=_sum(each.capture.rejected for each in runs) if group.scheduler else None,
            command=group.command,
            program=None if service is None else service.program,
            version=None if service is None else service.version,
            sha256=group.sha256,
        )


def _sum(counts: Iterator[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _describe(seen: _Seen) -> DiscardedRun:
    return DiscardedRun(
        side=seen.side,
        run=seen.run.folder,
        kind=seen.run.kind,
        scheduler=seen.capture.before.scheduler,
        reason=seen.run.discarded or "",
    )
