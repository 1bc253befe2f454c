# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare how long tasks wait from their wakeup until they run: percentiles and distributions."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from schedperf.evidence import Absent, section
from schedperf.evidence.needs import COMMANDS, CommandsOfTasks
from schedperf.evidence.wakeup_latency.capture import WakeupCapture, parse_wakeups
from schedperf.evidence.wakeup_latency.compare import (
    PooledSide,
    compare_all_cpus,
    compare_distributions,
    compare_rows,
)
from schedperf.evidence.wakeup_latency.record import WakeupLatency, WakeupSide
from schedperf.evidence.wakeup_latency.texts import parse_latency, parse_rtla, parse_timehist
from schedperf.evidence.wakeup_latency.waits_by_core_type import compare_core_types
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.run import SideOf
from schedperf.model.units import NANOSECOND_S
from schedperf.runs.captured import load_captured, why_nothing
from schedperf.runs.commands import own_commands
from schedperf.runs.cpus_of_types import type_of_cpu

FOLDER = "wakeup_latency"
# The collector's file, and the files that importers copy.
PARSERS: Mapping[str, Callable[[bytes, str], WakeupCapture]] = {
    "wakeups.json": parse_wakeups,
    "timehist.txt": parse_timehist,
    "latency.txt": parse_latency,
    "rtla.txt": parse_rtla,
}
# Limit on the file size: 8192 CPUs with 16 commands, each in 30 bins, need 40 MB. A line of
# timehist has 100 bytes.
LARGEST_BYTES = 64 << 20


@section(WakeupLatency, needs=COMMANDS)
def wakeup_latency(sides: Sequence[Side], commands_of_tasks: CommandsOfTasks) -> WakeupLatency:
    """Compare the waits between the sides, for each workload and point.

    :param commands_of_tasks: returns the names of the workload's tasks
    :raises Absent: a side has no run with a readable capture, or the sides have no command with
        wakeups in common
    """
    loaded = load_captured(
        sides, FOLDER, lambda side, run: _read(side, run, commands_of_tasks(side, run))
    )
    for side, captured in zip(sides, loaded, strict=True):
        if not captured.runs:
            raise Absent(captured.notes[0] if captured.notes else why_nothing(side, FOLDER))
    data = analyse_sides(loaded)
    if not data.rows:
        raise Absent("base and new have no command with wakeups in common")
    return data


def _read(side: Side, run: Run, tasks: Sequence[str] | None) -> WakeupCapture:
    names = side.bundle.names(f"{run.folder}/{FOLDER}/")
    name = next(
        (name for name in names if name.rpartition("/")[2] in PARSERS),
        f"{run.folder}/{FOLDER}/wakeups.json",
    )
    parse = PARSERS[name.rpartition("/")[2]]
    capture = parse(side.bundle.read_captured(name, LARGEST_BYTES), name)
    return replace(
        capture, types=_types_of(side, run.boot), commands=own_commands(tasks, run.command)
    )


def _types_of(side: Side, boot: int) -> Mapping[int, str]:
    hosts = (each.host for each in side.bundle.boots if each.number == boot)
    return next((type_of_cpu(host.topology.types) for host in hosts), {})


def analyse_sides(sides: Sequence[SideOf[WakeupCapture]]) -> WakeupLatency:
    """Compare each side with the first; return percentiles only for a single side.

    :param sides: sides with at least one run
    """
    base, *others = [PooledSide(side) for side in sides]
    compared: Sequence[tuple[PooledSide, PooledSide | None]] = [(base, new) for new in others] or [
        (base, None)
    ]
    rows = [compare_rows(base, new) for base, new in compared]
    return WakeupLatency(
        sides=tuple(map(_describe, sides)),
        rows=tuple(row for of_side, _ in rows for row in of_side),
        distributions=tuple(
            row for base, new in compared for row in compare_distributions(base, new)
        ),
        cpus=tuple(row for base, new in compared for row in compare_all_cpus(base, new)),
        core_types=tuple(
            row
            for base, new in compared
            for row in compare_core_types(base.captured, None if new is None else new.captured)
        ),
        notes=(
            *(note for side in sides for note in _notes(side)),
            *dict.fromkeys(note for _, notes in rows for note in notes),
        ),
    )


def _describe(side: SideOf[WakeupCapture]) -> WakeupSide:
    captures = [run.content for run in side.runs]
    return WakeupSide(
        side=side.name,
        runs=len(captures),
        sources=tuple(sorted({capture.source for capture in captures})),
        waits=sum(
            waits.count for capture in captures for waits in capture.waits if waits.bins is not None
        ),
        nodes=max(len(set(capture.nodes.values())) for capture in captures),
        resolution_s=max(capture.resolution_ns for capture in captures) * NANOSECOND_S,
    )


def _notes(side: SideOf[WakeupCapture]) -> Iterator[str]:
    yield from side.notes
    notes = [note for run in side.runs for note in run.content.notes]
    lost = Counter[str]()
    for run in side.runs:
        lost.update(run.content.lost)
    notes += [f"events lost: {count} ({name})" for name, count in lost.items() if count]
    zeros = sum(run.content.zeros for run in side.runs)
    if zeros:
        notes.append(
            f"delays of 0.000 ms that are not counted: {zeros} (of preempted tasks, or shorter "
            "than 1 us)"
        )
    for note, runs in Counter(notes).items():
        yield f"{side.name}: {note}{f' ({runs} runs)' if runs > 1 else ''}"
