"""From a bundle to what its runs counted: both snapshots of each, their levels and operations."""

from collections.abc import Mapping, Sequence

from schedperf._json import parse_object
from schedperf._timeline import Moment, place_in_time
from schedperf.bundle import Bundle, Run
from schedperf.captures.schedstat import Snapshot, parse_schedstat
from schedperf.captures.schedstat_change import Change, change_between
from schedperf.errors import InputError
from schedperf.operations import operations_of
from schedperf.schedstat.levels import Topology, levels_of
from schedperf.schedstat.totals import SideRuns, StatRun
from schedperf.sides import Side

FOLDER = "schedstat"
# 8192 CPUs with four levels have 85 MB, half of it masks of CPUs.
LARGEST_BYTES = 128 << 20
LARGEST_JSON_BYTES = 1 << 20
# A shorter interval is better known by the wall time of the run: a tick is more than 1 % of it.
FEWEST_JIFFIES = 100
# CONFIG_HZ is 100 to 1000, of old machines 24 to 1200.
LARGEST_HZ = 10_000


def load_sides(sides: Sequence[Side]) -> list[SideRuns]:
    """Read the runs of all sides: the clean ones, else the instrumented ones.

    A run whose snapshots cannot be read is left out, and its side has a note.
    """
    moments = place_in_time(sides)
    return [_load_side(side, moments) for side in sides]


def why_nothing(side: Side) -> str:
    """Say why a bundle has no run that was counted."""
    for entry in side.bundle.captures:
        if entry.collector == FOLDER and entry.reason:
            return f"schedstat of {side.name}: {entry.reason}"
    return f"no run of {side.name} was recorded with schedstat"


def _load_side(side: Side, moments: Mapping[tuple[str, str], Moment]) -> SideRuns:
    bundle = side.bundle
    topologies = {boot.number: Topology(boot.host) for boot in bundle.boots}
    ticks = {boot.number: _hz(boot.host) for boot in bundle.boots}
    runs: list[StatRun] = []
    notes: list[str] = []
    for run in _counted_runs(bundle):
        try:
            change = _read_change(bundle, run)
            operations = operations_of(bundle, run)
            is_enabled = _is_enabled(bundle, run)
        except InputError as error:
            notes.append(f"{side.name}: {error}")
            continue
        moment = moments[side.name, run.folder]
        runs.append(
            StatRun(
                workload=run.workload,
                point=run.point_key,
                boot=run.boot,
                run=run.run,
                order=moment.order,
                round=moment.round,
                seconds=_seconds(change, ticks[run.boot], run.wall_s),
                operations=None if operations is None else operations.count,
                operation=None if operations is None else operations.unit,
                is_enabled=is_enabled,
                change=change,
                levels=levels_of(change.domains, topologies[run.boot]),
            )
        )
    return SideRuns(name=side.name, runs=tuple(runs), notes=tuple(notes))


def _counted_runs(bundle: Bundle) -> list[Run]:
    # Instruments disturb what is counted, so clean runs are preferred; they are never mixed.
    found = [
        run
        for run in bundle.runs
        if not run.warmup and run.succeeded and bundle.names(f"{run.folder}/{FOLDER}/")
    ]
    return [run for run in found if run.kind == "clean"] or found


def _read_change(bundle: Bundle, run: Run) -> Change:
    folder = f"{run.folder}/{FOLDER}"
    before, after = (_read_snapshot(bundle, f"{folder}/{name}") for name in ("before", "after"))
    return change_between(before, after, folder)


def _read_snapshot(bundle: Bundle, name: str) -> Snapshot:
    text = bundle.read_text(name, LARGEST_BYTES)
    return parse_schedstat(text.splitlines(keepends=True), name)


def _is_enabled(bundle: Bundle, run: Run) -> bool | None:
    name = f"{run.folder}/{FOLDER}/schedstat.json"
    if bundle.size(name) is None:
        return None
    facts = parse_object(bundle.read(name, LARGEST_JSON_BYTES), name)
    return facts.optional(facts.flag, "enabled")


def _hz(host: Mapping[str, object]) -> int | None:
    group = host.get("sched")
    hz = group.get("hz") if isinstance(group, Mapping) else None
    return hz if type(hz) is int and 0 < hz <= LARGEST_HZ else None


def _seconds(change: Change, hz: int | None, wall_s: float | None) -> float | None:
    if hz is None or change.jiffies is None or change.jiffies < FEWEST_JIFFIES:
        return wall_s
    return change.jiffies / hz
