# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the sources of ``schedperf c2c`` and build its record."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from schedperf.commands._examples import lacks
from schedperf.commands._sources import Source, is_perf_data, source_of_file, tell_apart
from schedperf.evidence.c2c.analysis import analyse_memory
from schedperf.evidence.c2c.merge import MemorySamples, SeenLine, see_lines
from schedperf.evidence.c2c.namer import COLLECTOR, file_namer
from schedperf.evidence.c2c.perf_text import (
    LARGEST_BYTES,
    is_c2c_text,
    parse_c2c_text,
    profile_of_text,
)
from schedperf.evidence.c2c.point import describe_pairs, describe_point, describe_timed_access
from schedperf.evidence.c2c.record import (
    C2cDocument,
    C2cLineRow,
    C2cPoint,
    C2cSampledLine,
    C2cSource,
    Role,
    SortKey,
    SourceKind,
    without_counter,
)
from schedperf.evidence.c2c.sources import load_memory, store_period
from schedperf.evidence.layout.compare import USUAL_LINE_BYTES
from schedperf.inputs.bundle.files import read_head, read_regular
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.perf_data import Keep, read_perf_data
from schedperf.inputs.side import Side, side_name
from schedperf.inputs.symbols.local_symbols import symbols_for_file
from schedperf.inputs.symbols.recorded_kernel import refuse_for_two_kernels
from schedperf.model.errors import InputError
from schedperf.model.run import Captured
from schedperf.model.text import join_names
from schedperf_collectors import __version__

_ROLES: tuple[Role, Role] = ("base", "new")
# The number of bytes that distinguish a tar file or perf.data from text.
HEAD_BYTES = 4096
# A tar file, packed or not, has some of these among its first bytes; text has none.
_CONTROL = frozenset({*range(0x09), *range(0x0E, 0x1B), *range(0x1C, 0x20)})

_ORDERS: Mapping[SortKey, Callable[[SeenLine], int]] = {
    "rmt": lambda line: sum(line.remote.values()),
    "lcl": lambda line: sum(line.local.values()),
    "tot": lambda line: line.contended,
    "peer": lambda line: line.contended,
    "records": lambda line: line.records,
}
# With two sides, the usual order puts changes first, then the most contended lines; these sort keys
# override it.
_COMPARED_ORDERS: Mapping[SortKey, Callable[[C2cLineRow], int]] = {
    "rmt": lambda line: sum(filter(None, line.remote.samples)),
    "lcl": lambda line: sum(filter(None, line.local.samples)),
    "records": lambda line: sum(seen.records for seen in line.seen),
}


class Wanted(Struct, frozen=True, kw_only=True):
    """What to show, and the symbols that resolve addresses.

    :param sort: the sort key
    :param point: point of a bundle's workload; None for the one with the most samples
    :param symbols: symbols of the kernel that recorded perf.data; None for this machine's symbols,
        if they match
    :param layout: directory or file with System.map and BTF of that kernel; None if not given
    :param units: percpu.json of that kernel's boot; None if not given
    :param line_bytes: cache-line size; None for the size that the recording reports, or 64
    """

    sort: SortKey
    point: str | None
    symbols: Path | None
    layout: Path | None
    units: Path | None
    line_bytes: int | None


Memory = Source[MemorySamples]


def describe(paths: Sequence[Path], options: Wanted) -> C2cDocument:
    """Read one or two sources and return the record.

    :raises InputError: a source cannot be read, has no memory samples, or lacks the point; the
        sources are of different points; or an option does not fit them
    """
    loaded = tell_apart([_load(path, number, options) for number, path in enumerate(paths)])
    _refuse_unused(options, {source.kind for source in loaded})
    _refuse_for_two_kernels(options, loaded)
    if len({source.point for source in loaded if source.point}) > 1:
        points = join_names(source.point for source in loaded)
        raise InputError(
            f"{points}: different workloads or parameters (expected the same on both sides); "
            "choose the parameters with --point"
        )
    is_compared = len(loaded) > 1
    return C2cDocument(
        tool_version=__version__,
        sort=options.sort,
        sides=tuple(
            _describe_source(source, role if is_compared else None, options.sort)
            for role, source in zip(_ROLES, loaded, strict=False)
        ),
        comparison=_compare(loaded[0], loaded[1], options.sort) if is_compared else None,
    )


def _refuse_unused(given: Wanted, kinds: Collection[SourceKind]) -> None:
    options: Mapping[str, tuple[object, SourceKind]] = {
        "--point": (given.point, "a bundle"),
        "--symbols": (given.symbols, "perf.data"),
        "--layout": (given.layout, "perf.data"),
        "--units": (given.units, "perf.data"),
        "--cacheline": (given.line_bytes, "perf.data"),
    }
    for option, (value, kind) in options.items():
        if value is not None and kind not in kinds:
            given_kinds = join_names(sorted(kinds))
            raise InputError(
                f"{option}: requires {kind}, but the input is {given_kinds}; leave this option out"
            )


def _refuse_for_two_kernels(given: Wanted, loaded: Sequence[Memory]) -> None:
    # A file whose kernel is unknown has its path in place of the build id.
    kernels = [
        run.content.kernel
        for source in loaded
        if source.kind == "perf.data"
        for run in source.side.runs
        if run.content.kernel != str(source.path)
    ]
    for option, value in (
        ("--symbols", given.symbols),
        ("--layout", given.layout),
        ("--units", given.units),
    ):
        if value is not None:
            refuse_for_two_kernels(option, kernels)


def _compare(base: Memory, new: Memory, sort: SortKey) -> C2cPoint:
    comparison = describe_point(base.side.runs, new.side.runs, most_lines=None)
    if sort not in _COMPARED_ORDERS:
        return comparison
    lines = sorted(comparison.lines, key=_COMPARED_ORDERS[sort], reverse=True)
    return replace(comparison, lines=tuple(lines))


def _load(path: Path, number: int, options: Wanted) -> Memory:
    if is_perf_data(path):
        return _load_perf_data(path, options)
    head = read_head(path, HEAD_BYTES)
    if head and _CONTROL.isdisjoint(head):
        return _load_text(path)
    return _load_bundle(path, number, options)


def _load_text(path: Path) -> Memory:
    # The mail may have a long introduction before the report begins.
    content = read_regular(
        path,
        LARGEST_BYTES,
        "a report of `perf c2c report --stdio`",
        "pass the report of a shorter recording",
    )
    text = content.decode(errors="replace")
    if not is_c2c_text(text):
        raise InputError(
            f"{path}: unknown format (expected a bundle, perf.data with memory "
            "samples, or the complete output of `perf c2c report --stdio`)"
        )
    profile = profile_of_text(parse_c2c_text(text, str(path)))
    samples = MemorySamples(profile=profile, store_period=None, boot=str(path), kernel=str(path))
    return source_of_file(path, "text of perf c2c report", samples, ())


def _load_perf_data(path: Path, options: Wanted) -> Memory:
    keep = frozenset({Keep.MEMORY, Keep.TASK})
    recording = read_perf_data(path, str(path), keep=keep)
    notes: list[str] = []
    symbols = symbols_for_file(recording, options.symbols, notes.append)
    namer = file_namer(recording, symbols, options.layout, options.units)
    try:
        profile = analyse_memory(
            recording,
            namer=namer,
            node_of_cpu=recording.features.node_of_cpu,
            line_bytes=options.line_bytes or recording.features.line_bytes or USUAL_LINE_BYTES,
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    samples = MemorySamples(
        profile=profile,
        store_period=store_period(recording),
        boot=str(path),
        kernel=recording.features.kernel_build_id or str(path),
    )
    return source_of_file(path, "perf.data", samples, notes)


def _load_bundle(path: Path, number: int, options: Wanted) -> Memory:
    bundle = open_bundle(path)
    memory = load_memory(Side(name=side_name(number), bundle=bundle))
    if not memory.runs:
        raise lacks(path, f"no memory samples ({memory.notes[0]})", COLLECTOR)
    points = memory.by_point()
    chosen = [key for key in points if options.point in (None, key[1])]
    if not chosen:
        expected = ", ".join(sorted({point for _, point in points if point}))
        problem = f"--point {options.point}: no memory samples with these parameters in {path}"
        if not expected:
            raise InputError(f"{problem}, whose runs have no parameters; leave --point out")
        raise InputError(f"{problem} (expected one of {expected}); choose one of them")
    key = max(chosen, key=lambda point_key: sum(_samples(run) for run in points[point_key]))
    others = [] if len(chosen) == 1 else [_skipped(len(chosen) - 1)]
    return Source(
        path=path,
        kind="a bundle",
        point=f"{key[0]} at {key[1]}" if key[1] else key[0],
        side=replace(memory, runs=tuple(points[key]), notes=(*memory.notes, *others)),
    )


def _skipped(count: int) -> str:
    sets = "set" if count == 1 else "sets"
    return f"samples with {count} other {sets} of parameters are not shown; select one with --point"


def _samples(run: Captured[MemorySamples]) -> int:
    return run.content.profile.totals.get("total_records", 0)


def _describe_source(source: Memory, role: Role | None, sort: SortKey) -> C2cSource:
    profiles = [run.content.profile for run in source.side.runs]
    first = profiles[0]
    if sort == "peer" and first.observable != "peer":
        raise InputError(
            f"--sort peer: the samples of {source.path} record HITM, not peer snoops (expected "
            "rmt, lcl or tot); choose another order"
        )
    # With two sides, their comparison has the notes about what was not measured.
    notes = [note for profile in profiles for note in profile.notes] if role is None else []
    # A run without a total, as a report text may be, leaves the sum unknown.
    keys = [key for key in first.totals if all(key in profile.totals for profile in profiles)]
    seen = see_lines(source.side.runs).values()
    return C2cSource(
        side=role,
        kind=source.kind,
        label=source.side.label,
        path=str(source.path),
        point=source.point,
        runs=len(profiles),
        observable=first.observable,
        events=first.event,
        perf_events=first.perf_events,
        period=first.period,
        ldlat=first.ldlat,
        line_bytes=first.line_bytes,
        totals={key: sum(profile.totals[key] for profile in profiles) for key in keys},
        lines=tuple(map(_describe_line, sorted(seen, key=_ORDERS[sort], reverse=True))),
        damage=tuple(dict.fromkeys(each for profile in profiles for each in profile.damage)),
        notes=tuple(dict.fromkeys((*source.side.notes, *notes))),
    )


def _describe_line(line: SeenLine) -> C2cSampledLine:
    return C2cSampledLine(
        key=line.key,
        name=None if line.name is None else without_counter(line.name),
        copies=line.copies,
        remote=sum(line.remote.values()),
        local=sum(line.local.values()),
        stores=line.stores,
        records=line.records,
        loads=line.loads,
        double_counted=line.double_counted,
        sharing=line.sharing,
        false_share=line.false_share,
        accesses=tuple(map(describe_timed_access, line.accesses)),
        attributed=line.attributed,
        pairs=describe_pairs(line),
    )
