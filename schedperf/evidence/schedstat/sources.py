"""From a bundle to what its runs counted: both snapshots of each, their levels and operations."""

from collections.abc import Sequence
from dataclasses import dataclass

from schedperf.bundle.json import decode
from schedperf.bundle.open import Bundle, Run
from schedperf.evidence.schedstat.capture import Snapshot, parse_schedstat
from schedperf.evidence.schedstat.change import Change, change_between
from schedperf.evidence.schedstat.domain_names import (
    Flags,
    Names,
    name_domains,
    read_domain_flags,
    read_domain_names,
)
from schedperf.evidence.schedstat.levels import CpuGroups, levels_of
from schedperf.evidence.schedstat.totals import SideRuns, StatRun
from schedperf.model.errors import InputError
from schedperf.runs.captured import CapturedRun, CapturedSide, load_captured
from schedperf.runs.side import Side

FOLDER = "schedstat"
# 8192 CPUs with four levels have 85 MB, half of it masks of CPUs.
LARGEST_BYTES = 128 << 20
LARGEST_JSON_BYTES = 1 << 20
# A shorter interval is better known by the wall time of the run: a tick is more than 1 % of it.
FEWEST_JIFFIES = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class _Counted:
    change: Change
    is_enabled: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Boot:
    # :param hz: ticks a second; None: not known
    hz: int | None
    groups: CpuGroups
    names: Names


def load_sides(sides: Sequence[Side]) -> list[SideRuns]:
    """Read the runs of all sides: the clean ones where all sides have them, else instrumented."""
    return [_load_side(captured) for captured in load_captured(sides, FOLDER, _read_run)]


def _load_side(captured: CapturedSide[_Counted]) -> SideRuns:
    bundle, name = captured.side.bundle, captured.side.name
    boots: dict[int, _Boot] = {}
    notes = list(captured.notes)
    flags: Flags = {}
    for boot in bundle.boots:
        names: Names = {}
        try:
            names = read_domain_names(bundle, boot)
            flags = {**read_domain_flags(bundle, boot), **flags}
        except InputError as error:
            notes.append(f"{name}: {error}")
        boots[boot.number] = _Boot(
            hz=boot.host.sched.hz, groups=CpuGroups(boot.host.topology), names=names
        )
    runs = tuple(_stat_run(one, boots[one.run.boot]) for one in captured.runs)
    return SideRuns(name=name, runs=runs, notes=tuple(notes), flags=flags)


def _stat_run(captured: CapturedRun[_Counted], boot: _Boot) -> StatRun:
    run, operations, change = captured.run, captured.operations, captured.content.change
    return StatRun(
        workload=run.workload,
        point=run.point_key,
        boot=run.boot,
        run=run.run,
        order=captured.moment.order,
        round=captured.moment.round,
        seconds=_seconds(change, boot.hz, run.wall_s),
        operations=None if operations is None else operations.count,
        operation=None if operations is None else operations.unit,
        is_enabled=captured.content.is_enabled,
        change=change,
        levels=levels_of(name_domains(change.domains, boot.names), boot.groups),
    )


def _read_run(bundle: Bundle, run: Run) -> _Counted:
    return _Counted(change=_read_change(bundle, run), is_enabled=_is_enabled(bundle, run))


def _read_change(bundle: Bundle, run: Run) -> Change:
    folder = f"{run.folder}/{FOLDER}"
    before, after = (_read_snapshot(bundle, f"{folder}/{name}") for name in ("before", "after"))
    return change_between(before, after, folder)


def _read_snapshot(bundle: Bundle, name: str) -> Snapshot:
    text = bundle.read_text(name, LARGEST_BYTES)
    return parse_schedstat(text.splitlines(keepends=True), name)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Facts:
    """What schedstat.json says of kernel.sched_schedstats; None: unknown.

    :param enabled: when the run ended
    :param enabled_before: when it began; older recorders did not look
    """

    enabled: bool | None = None
    enabled_before: bool | None = None


def _is_enabled(bundle: Bundle, run: Run) -> bool | None:
    name = f"{run.folder}/{FOLDER}/schedstat.json"
    if bundle.size(name) is None:
        return None
    facts = decode(bundle.read(name, LARGEST_JSON_BYTES), _Facts, name)
    if None not in (facts.enabled, facts.enabled_before) and facts.enabled != facts.enabled_before:
        raise InputError(
            f"{name}: kernel.sched_schedstats was switched during the run, so that a part of "
            "it was counted; leave it alone while recording"
        )
    return facts.enabled


def _seconds(change: Change, hz: int | None, wall_s: float | None) -> float | None:
    if hz is None or change.jiffies is None or change.jiffies < FEWEST_JIFFIES:
        return wall_s
    return change.jiffies / hz
