# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the schedstat counters of base and new.

Wakeups, switches and waits of the CPUs, and load balancing at each level of the topology: rates per
second and per operation, with intervals over runs. More is neither better nor worse, so they get no
verdict.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence import Absent, section
from schedperf.evidence.schedstat.capture import Change, Snapshot, change_between, parse_schedstat
from schedperf.evidence.schedstat.compare import analyse_sides
from schedperf.evidence.schedstat.levels import (
    CpuGroups,
    Flags,
    Names,
    domain_flags,
    domain_names,
    levels_of,
    name_domains,
)
from schedperf.evidence.schedstat.measure import SchedCounts
from schedperf.evidence.schedstat.perf_sched import parse_sched_stats
from schedperf.evidence.schedstat.record import Schedstat
from schedperf.inputs.bundle.json import decode
from schedperf.inputs.bundle.lines import stream_lines
from schedperf.inputs.bundle.open import Bundle, Run
from schedperf.inputs.side import Side
from schedperf.inputs.symbols.function_names import FunctionNames, function_names
from schedperf.model.errors import InputError
from schedperf.model.host import Topology
from schedperf.model.run import Captured, SideOf
from schedperf.runs.captured import load_captured, why_nothing
from schedperf.runs.cpus_of_types import cpus_by_type
from schedperf.runs.sched_debug import read_sched_debug

FOLDER = "schedstat"
# An imported recording or report of `perf sched stats`, used instead of the two snapshots.
PERF_FILE = "perf_sched_stats"
# Limit on the file size: 8192 CPUs with four levels need 85 MB, half of it CPU masks.
LARGEST_BYTES = 128 << 20
_LARGEST_JSON_BYTES = 1 << 20
# For shorter intervals the wall time is more precise: a tick is more than 1% of the interval.
_FEWEST_JIFFIES = 100


@section(Schedstat)
def schedstat(sides: Sequence[Side]) -> Schedstat:
    """Compare each counter between the sides, for each workload and point.

    :raises Absent: a side has no run with a readable capture, or the sides have no counter in
        common
    """
    loaded = load_sides(sides)
    for side, captured in zip(sides, loaded, strict=True):
        if not captured.runs:
            raise Absent(captured.notes[0] if captured.notes else why_nothing(side, FOLDER))
    data = analyse_sides(loaded)
    if not data.rows:
        raise Absent("base and new have no counter in common")
    return spell_functions(data, function_names(sides))


def spell_functions(data: Schedstat, names: Mapping[str, FunctionNames]) -> Schedstat:
    """Return the record with the names that functions have in the sides' kernels.

    :param names: function names by side; it needs every side that has rows
    """
    return replace(
        data,
        rows=tuple(
            replace(row, function=names[row.side].in_text(row.function)) for row in data.rows
        ),
        readings=tuple(
            replace(
                reading,
                text=names[reading.side].in_text(reading.text),
                look_at=names[reading.side].in_text(reading.look_at),
            )
            for reading in data.readings
        ),
    )


class _Counted(Struct, frozen=True, kw_only=True):
    change: Change
    is_enabled: bool | None


class _Boot(Struct, frozen=True, kw_only=True):
    # :param hz: ticks per second; None if unknown
    hz: int | None
    groups: CpuGroups
    names: Names
    flags: Flags
    topology: Topology


def load_sides(sides: Sequence[Side], hz: int | None = None) -> list[SideOf[SchedCounts]]:
    """Read the runs of all sides: clean runs if all sides have them, otherwise instrumented.

    :param hz: CONFIG_HZ of boots that do not record it; None if unknown
    """
    loaded = load_captured(sides, FOLDER, _read_run)
    return [_add_levels(side, captured, hz) for side, captured in zip(sides, loaded, strict=True)]


def _add_levels(
    side: Side, captured: SideOf[_Counted], default_hz: int | None
) -> SideOf[SchedCounts]:
    boots: dict[int, _Boot] = {}
    notes = list(captured.notes)
    for boot in side.bundle.boots:
        debug = None
        try:
            debug = read_sched_debug(side, boot)
        except InputError as error:
            notes.append(f"{side.name}: {error}")
        names = {} if debug is None else domain_names(debug)
        flags = {} if debug is None else domain_flags(debug)
        topology = boot.host.topology
        boots[boot.number] = _Boot(
            hz=boot.host.sched.hz or default_hz,
            groups=CpuGroups(topology),
            names=names,
            flags=flags,
            topology=topology,
        )
    runs = tuple(run.having(_sched_counts(run, boots[run.key.boot])) for run in captured.runs)
    return SideOf(name=side.name, kind=captured.kind, runs=runs, notes=tuple(notes))


def _sched_counts(run: Captured[_Counted], boot: _Boot) -> SchedCounts:
    change = run.content.change
    return SchedCounts(
        seconds=_seconds(change, boot.hz, run.wall_s),
        is_enabled=run.content.is_enabled,
        change=change,
        levels=levels_of(name_domains(change.domains, boot.names), boot.groups),
        flags=boot.flags,
        cpus_of_types=_cpus_of_types(boot.topology, change),
    )


def _cpus_of_types(topology: Topology, change: Change) -> Mapping[str, frozenset[int]]:
    # A type whose CPUs were not counted has an empty set of CPUs.
    counted = {
        name: cpus.intersection(change.cpus) for name, cpus in cpus_by_type(topology.types).items()
    }
    return counted if any(counted.values()) else {}


def _read_run(side: Side, run: Run) -> _Counted:
    bundle = side.bundle
    return _Counted(change=_read_change(bundle, run), is_enabled=_is_enabled(bundle, run))


def _read_change(bundle: Bundle, run: Run) -> Change:
    folder = f"{run.folder}/{FOLDER}"
    perf_file = f"{folder}/{PERF_FILE}"
    if bundle.size(perf_file) is not None:
        return parse_sched_stats(bundle.read_captured(perf_file, LARGEST_BYTES), perf_file)
    before, after = (_read_snapshot(bundle, f"{folder}/{name}") for name in ("before", "after"))
    return change_between(before, after, folder)


def _read_snapshot(bundle: Bundle, name: str) -> Snapshot:
    return parse_schedstat(stream_lines(bundle.read_captured(name, LARGEST_BYTES)), name)


class _Facts(Struct, frozen=True, kw_only=True):
    """State of kernel.sched_schedstats in schedstat.json; None if unknown.

    :param enabled: at the end of the run
    :param enabled_before: at the start of the run; older recorders did not record it
    """

    enabled: bool | None = None
    enabled_before: bool | None = None


def _is_enabled(bundle: Bundle, run: Run) -> bool | None:
    name = f"{run.folder}/{FOLDER}/schedstat.json"
    if bundle.size(name) is None:
        return None
    facts = decode(bundle.read(name, _LARGEST_JSON_BYTES), _Facts, name)
    if None not in (facts.enabled, facts.enabled_before) and facts.enabled != facts.enabled_before:
        raise InputError(
            f"{name}: kernel.sched_schedstats changed during the run, so counts are incomplete; "
            "record "
            "again without changing this setting"
        )
    return facts.enabled


def _seconds(change: Change, hz: int | None, wall_s: float | None) -> float | None:
    if hz is None or change.jiffies is None:
        return wall_s
    if change.jiffies < _FEWEST_JIFFIES and wall_s is not None:
        return wall_s
    return change.jiffies / hz
