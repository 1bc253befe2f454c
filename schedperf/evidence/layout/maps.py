# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe one kernel's layout: the cache lines of hot entries, structs, unknown units.

::

    layout = map_kernel(load_kernel(path), whole=["task_group"])
    layout.maps[0].rows
"""

from collections.abc import Collection, Iterable, Sequence

from schedperf.evidence.layout.advice import advise
from schedperf.evidence.layout.compare import (
    KINDS,
    choose_line_bytes,
    describe_kernel,
    describe_lines,
    note_lines,
)
from schedperf.evidence.layout.cotenancy import spans_of
from schedperf.evidence.layout.heat import Use, describe_use, heat_table
from schedperf.evidence.layout.model import Kernel, Unit
from schedperf.evidence.layout.record import (
    LayoutGroup,
    LayoutMap,
    LayoutMapCounts,
    LayoutMissingUnit,
    LayoutUnitMap,
    UnitKind,
)
from schedperf.evidence.layout.sheets import Sheet
from schedperf.evidence.layout.structs import holes, padding
from schedperf.model.base_new import BASE
from schedperf.model.errors import InputError


def map_kernel(
    kernel: Kernel,
    *,
    line_bytes: int | None = None,
    kinds: Collection[UnitKind] = KINDS,
    whole: Collection[str] = (),
    hot: Sequence[str] = (),
) -> LayoutMap:
    """Describe the layout of one kernel.

    :param line_bytes: cache line size; None to use :func:`choose_line_bytes`
    :param kinds: kinds of units to describe
    :param whole: names of structs that are drawn completely, e.g. "rq"; others are only counted
    :param hot: entries to draw with all others on their lines, and to advise on: variables, and
        fields like "rq.nr_running"; empty for the per-CPU and global variables in the table of hot
        variables
    :raises InputError: the kernel has none of the requested units, a name in ``hot`` is unknown,
        there are too many of them, the line size is invalid, or a unit exceeds the limits
    """
    used, origin = choose_line_bytes([kernel], line_bytes)
    unit_names = _wanted(kernel, kinds)
    units = [kernel.units[name] for name in unit_names if name in kernel.units]
    missing = tuple(
        LayoutMissingUnit(unit=name, reason=kernel.unknown.get(name, "was not read"))
        for name in unit_names
        if name not in kernel.units
    )
    if not units:
        reasons = "; ".join(dict.fromkeys(absent.reason for absent in missing))
        raise InputError(
            f"{kernel.label} contains none of the requested sections and structs ({reasons}); "
            "request others, or give a file that contains them"
        )
    named = _find_hot(units, hot)
    lines = describe_lines([kernel], used, origin, [BASE])
    return LayoutMap(
        line_bytes=lines,
        kernels=(describe_kernel(BASE, kernel),),
        maps=tuple(
            _map_unit(unit, used, named.get(unit.name), is_whole=_is_named(unit, whole))
            for unit in units
        ),
        missing=missing,
        notes=tuple(note_lines(lines)),
    )


def _wanted(kernel: Kernel, kinds: Collection[UnitKind]) -> list[str]:
    # Names of units, per-CPU section first, globals last.
    unit_names = dict.fromkeys((*kernel.units, *kernel.unknown))
    structs = [name for name in unit_names if name not in {"percpu", "globals"}]
    names = {"percpu": ["percpu"], "struct": structs, "globals": ["globals"]}
    return [name for kind in KINDS if kind in kinds for name in names[kind]]


def _is_named(unit: Unit, names: Collection[str]) -> bool:
    return unit.name in names or unit.name.rpartition(" ")[2] in names


def _find_hot(units: Sequence[Unit], hot: Sequence[str]) -> dict[str, tuple[str, ...]]:
    # The named hot set, by unit.
    by_unit: dict[str, list[str]] = {}
    for name in hot:
        unit, entry = _find_entry(units, name)
        by_unit.setdefault(unit.name, []).append(entry)
    return {unit: tuple(dict.fromkeys(names)) for unit, names in by_unit.items()}


def _find_entry(units: Iterable[Unit], name: str) -> tuple[Unit, str]:
    for unit in units:
        prefix = f"{unit.name.rpartition(' ')[2]}." if unit.kind == "struct" else ""
        entry = name.removeprefix(prefix)
        is_meant = not prefix or entry != name
        if is_meant and any(candidate.name == entry for candidate in unit.entries):
            return unit, entry
    raise InputError(
        f"hot set: unknown variable or field {name[:60]!r} "
        "(expected a variable or STRUCT.FIELD, e.g. runqueues or rq.nr_running)"
    )


def _map_unit(
    unit: Unit, line_bytes: int, named: tuple[str, ...] | None, *, is_whole: bool
) -> LayoutUnitMap:
    uses = _uses(unit)
    hot = named or tuple(uses)
    sheet = Sheet(unit, line_bytes)
    lines = sheet.starts([entry.name for entry in unit.entries] if is_whole else hot)
    is_drawn = is_whole or named is not None or unit.kind != "struct"
    return LayoutUnitMap(
        unit=unit.name,
        kind=unit.kind,
        sources=unit.sources,
        bytes=unit.size,
        alignment=unit.alignment,
        is_alignment_inferred=unit.is_alignment_inferred,
        counts=_counts(sheet, line_bytes, hot),
        hot=tuple(describe_use(name, uses.get(name)) for name in hot),
        is_named=named is not None,
        groups=tuple(
            LayoutGroup(name=name, first=first, last=last)
            for name, (first, last) in unit.groups.items()
        ),
        rows=sheet.rows(lines, hot=hot, most=None) if is_drawn else (),
        advice=(advise(unit, named, line_bytes),) if named else (),
        notes=unit.notes,
    )


def _uses(unit: Unit) -> dict[str, Use]:
    table = heat_table()
    uses = ((entry.name, table.find(unit.name, entry.name)) for entry in unit.entries)
    return {name: use for name, use in uses if use is not None and use.is_hot}


def _counts(sheet: Sheet, line_bytes: int, hot: Sequence[str]) -> LayoutMapCounts:
    unit = sheet.unit
    is_struct = unit.kind == "struct"
    is_sized = all(entry.size is not None for entry in unit.entries)
    hole_sizes = [size for _, size in holes(unit)] if is_struct and is_sized else None
    return LayoutMapCounts(
        entries=len(unit.entries),
        lines=count_lines(unit, line_bytes),
        hot=len(hot),
        hot_lines=len(sheet.starts(hot)),
        holes=None if hole_sizes is None else len(hole_sizes),
        hole_bytes=None if hole_sizes is None else sum(hole_sizes),
        padding=padding(unit) if is_struct else None,
    )


def count_lines(unit: Unit, line_bytes: int) -> int:
    """Return the number of lines that a unit occupies.

    For a struct of known size, all bytes count, including holes and padding, as in pahole; for a
    section, only lines with entries.
    """
    if unit.kind == "struct" and unit.size is not None:
        return -(-unit.size // line_bytes)
    spans = spans_of(unit.entries, unit.kind, unit.size).values()
    return _covered(span.lines(line_bytes) for span in spans if not span.is_empty)


def _covered(ends: Iterable[tuple[int, int]]) -> int:
    # Lines with entries; a large entry such as a cpumask may occupy several.
    count, behind = 0, 0
    for first, last in sorted(ends):
        count += max(last + 1 - max(first, behind), 0)
        behind = max(behind, last + 1)
    return count
