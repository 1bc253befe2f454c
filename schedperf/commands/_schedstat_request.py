# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the sources of ``schedperf schedstat`` and build its record.

A source is a bundle; a file of ``perf sched stats record`` or the text of its report; a directory
with the copies ``before`` and ``after`` of /proc/schedstat; two such copies as ``BEFORE,AFTER``; or
a directory of such sources, one per run.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from schedperf.commands._examples import lacks
from schedperf.evidence.schedstat.capture import (
    MOST_CPUS,
    Change,
    Snapshot,
    change_between,
    is_schedstat,
    parse_schedstat,
)
from schedperf.evidence.schedstat.compare import analyse_sides
from schedperf.evidence.schedstat.levels import CpuGroups, levels_of
from schedperf.evidence.schedstat.measure import SchedCounts
from schedperf.evidence.schedstat.perf_sched import (
    is_perf_data,
    is_sched_stats_report,
    parse_sched_stats_report,
    read_sched_stats,
)
from schedperf.evidence.schedstat.record import Schedstat
from schedperf.evidence.schedstat.section import (
    FOLDER,
    LARGEST_BYTES,
    load_sides,
    spell_functions,
)
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import Side, side_name
from schedperf.inputs.symbols.function_names import FunctionNames, KernelNames, read_kernel_names
from schedperf.model.errors import InputError
from schedperf.model.host import Topology
from schedperf.model.run import Captured, RunKey, SideOf
from schedperf.model.text import join_names
from schedperf.runs.captured import why_nothing

HEAD_BYTES = 64
MOMENTS = ("before", "after")
# Largest number of entries in a directory of runs; each run is a file or a directory.
MOST_RUNS = 1000
# A report of 8192 CPUs with five levels is 180 MB; larger files are refused.
LARGEST_REPORT_BYTES = 256 << 20
KINDS = (
    "a bundle, a directory with the files before and after, two files as BEFORE,AFTER, or a "
    "recording or report of perf sched stats"
)


class Wanted(Struct, frozen=True, kw_only=True):
    """Which counts to show.

    :param cpus: count only these CPUs; None for all
    :param hz: CONFIG_HZ of the kernels, which files do not record; None if unknown
    :param point: parameters of a bundle's runs: "groups=4"; None for all
    """

    cpus: Collection[int] | None
    hz: int | None
    point: str | None


def describe(sources: Sequence[str], options: Wanted) -> Schedstat:
    """Read the sources, one per side, and return the record.

    :raises InputError: a source cannot be read, has no counts or lacks the point; or the sides have
        no counter in common
    """
    sides, kernels = _load(sources, options)
    data = analyse_sides(sides, options.cpus)
    if not data.rows:
        raise InputError(f"{join_names(sources)}: {_why_nothing(data, sides, options)}")
    base = kernels[sides[0].name]
    return spell_functions(
        data, {name: FunctionNames(base, kernel) for name, kernel in kernels.items()}
    )


def label_sources(sources: Sequence[str]) -> Sequence[str]:
    """Return labels: file names, or the sources as given if names are equal."""
    labels = [Path(source).name for source in sources]
    return sources if len(set(labels)) < len(labels) else labels


def _why_nothing(data: Schedstat, sides: Sequence[SideOf[SchedCounts]], options: Wanted) -> str:
    cpus = {cpu for side in sides for run in side.runs for cpu in run.content.change.cpus}
    if options.cpus is not None and not cpus & set(options.cpus):
        return "--cpu: the input has no data for these CPUs; choose other CPUs"
    if not any(
        run.content.change.jiffies or run.content.seconds for side in sides for run in side.runs
    ):
        return (
            "both snapshots have the same timestamp (expected one from before and one from after "
            "the "
            "workload); record both again"
        )
    if data.zeros:
        return (
            "all counts are 0; set kernel.sched_schedstats to 1 and record while the workload runs"
        )
    return "the sides have no counter in common; compare runs with the same workload and parameters"


def parse_cpus(text: str) -> frozenset[int]:
    """Return the CPUs of a list as the kernel writes it: ``0-3,8``.

    :raises InputError: the text is not such a list, or has a CPU number above the limit
    """
    cpus: set[int] = set()
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        ends = [end for end in (low, high or low) if end.isascii() and end.isdigit()]
        if len(ends) != len(MOMENTS) or not int(ends[0]) <= int(ends[1]) < MOST_CPUS:
            raise InputError(
                f"--cpu: invalid list {text[:40]!r} (expected CPUs and ranges, e.g. 0-3,8); "
                "correct the list"
            )
        cpus.update(range(int(ends[0]), int(ends[1]) + 1))
    return frozenset(cpus)


def _load(
    sources: Sequence[str], options: Wanted
) -> tuple[list[SideOf[SchedCounts]], dict[str, KernelNames]]:
    # Bundles are ordered by time; files have no time, and do not record their kernel.
    kernels: dict[str, KernelNames] = {}
    opened: dict[int, Side] = {}
    sides: list[SideOf[SchedCounts] | None] = []
    for number, source in enumerate(sources):
        name = side_name(number)
        from_files = _load_files(source, name, options)
        sides.append(from_files)
        if from_files is None:
            opened[number] = Side(name=name, bundle=open_bundle(Path(source)))
            kernels[name] = read_kernel_names(opened[number])
        else:
            kernels[name] = KernelNames()
    loaded = {side.name: side for side in load_sides(list(opened.values()), options.hz)}
    for number, side in opened.items():
        runs = loaded[side.name]
        if not runs.runs:
            why = (*runs.notes, why_nothing(side, FOLDER))[0]
            raise lacks(sources[number], why, FOLDER)
        sides[number] = _at_point(runs, options.point, sources[number])
    ready = [side for side in sides if side is not None]
    if opened and len(opened) < len(ready):
        return [_without_workload(side) for side in ready], kernels
    return ready, kernels


def _at_point(side: SideOf[SchedCounts], point: str | None, source: str) -> SideOf[SchedCounts]:
    runs = tuple(run for run in side.runs if point in (None, run.key.point))
    if not runs:
        points = ", ".join(sorted({run.key.point for run in side.runs} - {""}))
        hint = (
            f"expected one of {points}"
            if points
            else "the runs have no parameters; leave --point out"
        )
        raise InputError(f"{source}: no counts with parameters {point!r} ({hint})")
    return replace(side, runs=runs)


def _without_workload(side: SideOf[SchedCounts]) -> SideOf[SchedCounts]:
    # A file does not record its workload, so a bundle beside it must have one workload, too.
    points = {run.key.at for run in side.runs}
    if len(points) > 1:
        raise InputError(
            f"{side.name}: {len(points)} combinations of workload and parameters (expected one); "
            "choose one with --point"
        )
    runs = tuple(
        replace(run, key=replace(run.key, workload="", point=""), ops=None) for run in side.runs
    )
    return replace(side, runs=runs)


def _load_files(source: str, name: str, options: Wanted) -> SideOf[SchedCounts] | None:
    # None means that it is not a file or directory of these kinds, so it must be a bundle.
    changes = _changes(source)
    if changes is None:
        return None
    runs = tuple(
        Captured(
            key=RunKey(side=name, workload="", point="", boot=0, run=number),
            content=SchedCounts(
                seconds=_seconds(change, options.hz),
                is_enabled=None,
                change=change,
                levels=levels_of(change.domains, CpuGroups(Topology())),
            ),
        )
        for number, change in enumerate(changes)
    )
    return SideOf(name=name, kind="clean", runs=runs)


def _seconds(change: Change, hz: int | None) -> float | None:
    return None if hz is None or change.jiffies is None else change.jiffies / hz


def _changes(source: str) -> list[Change] | None:
    path = Path(source)
    if not path.exists() and "," in source:
        before, _, after = source.partition(",")
        return [_between(Path(before), Path(after), source)]
    if not path.is_dir():
        # Reading a pipe without a writer would block forever.
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: not a regular file (expected {KINDS})")
        change = _of_file(path)
        return None if change is None else [change]
    if all((path / moment).is_file() for moment in MOMENTS):
        return [_of_folder(path)]
    return _of_runs(path)


def _of_folder(path: Path) -> Change:
    return _between(path / MOMENTS[0], path / MOMENTS[1], str(path))


def _of_runs(path: Path) -> list[Change]:
    entries = sorted(path.iterdir())
    if len(entries) > MOST_RUNS:
        raise InputError(
            f"{path}: {len(entries)} entries in this directory (expected at most {MOST_RUNS}); "
            f"pass {KINDS}"
        )
    changes = []
    for entry in entries:
        if all((entry / moment).is_file() for moment in MOMENTS):
            changes.append(_of_folder(entry))
        elif entry.is_file() and (change := _of_file(entry)) is not None:
            changes.append(change)
    if not changes:
        raise InputError(f"{path}: no runs in this directory (expected {KINDS})")
    return changes


def _between(before: Path, after: Path, label: str) -> Change:
    return change_between(_read_snapshot(before), _read_snapshot(after), label)


def _of_file(path: Path) -> Change | None:
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if is_perf_data(head):
        return change_between(*read_sched_stats(path, str(path)), str(path))
    text = head.decode(errors="replace")
    if is_sched_stats_report(text):
        return _read_report(path)
    if is_schedstat(text):
        raise InputError(
            f"{path}: a single snapshot of counts since boot (expected two snapshots); "
            "pass BEFORE,AFTER "
            "or a directory that contains before and after"
        )
    if not head.strip():
        raise InputError(f"{path}: empty file (expected {KINDS})")
    return None


def _read_report(path: Path) -> Change:
    if path.stat().st_size > LARGEST_REPORT_BYTES:
        raise _too_large(path, LARGEST_REPORT_BYTES)
    with path.open(encoding="utf-8", errors="replace") as lines:
        return parse_sched_stats_report(lines, str(path))


def _read_snapshot(path: Path) -> Snapshot:
    with path.open("rb") as file:
        content = file.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise _too_large(path, LARGEST_BYTES)
    lines = content.decode(errors="replace").splitlines(keepends=True)
    return parse_schedstat(lines, str(path))


def _too_large(path: Path, limit: int) -> InputError:
    return InputError(
        f"{path}: larger than {limit >> 20} MiB, the limit for this file type; pass {KINDS}"
    )
