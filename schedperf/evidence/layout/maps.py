"""One kernel's layout as data: the cache lines of what is hot, whole structs, what is unknown.

::

    data = map_kernel(load_kernel(path), whole=["task_group"])
    data["maps"][0]["rows"]

Rows are those of :mod:`schedperf.evidence.layout.windows`.
"""

from collections.abc import Collection, Iterable, Sequence

from schedperf.evidence.layout._advised import OWN_SET, advice_plain
from schedperf.evidence.layout._plain import Plain, use_plain
from schedperf.evidence.layout.advice import advise
from schedperf.evidence.layout.analysis import KINDS, choose_line_bytes, kernels_plain
from schedperf.evidence.layout.cotenancy import spans_of
from schedperf.evidence.layout.heat import Use, heat_table
from schedperf.evidence.layout.model import Kernel, Unit, UnitKind
from schedperf.evidence.layout.structs import holes, padding
from schedperf.evidence.layout.windows import draw_lines, lines_of
from schedperf.model.errors import InputError

# Rows of one drawing: task_struct with all that is in it has some 1,000 fields.
MOST_ROWS = 2000
# Hot entries that are listed of one unit.
MOST_HOT = 100


def map_kernel(
    kernel: Kernel,
    *,
    line_bytes: int | None = None,
    kinds: Collection[UnitKind] = KINDS,
    whole: Collection[str] = (),
    hot: Sequence[str] = (),
) -> Plain:
    """Describe the layout of one kernel.

    :param line_bytes: length of a cache line; None: as :func:`choose_line_bytes` says
    :param kinds: of units to describe
    :param whole: names of structs that are drawn whole: "rq"; the others are counted
    :param hot: what is drawn with its line mates, and advised on: variables, and fields as
        "rq.nr_running"; empty: what the table of hot variables knows of the per-CPU section and
        the global variables
    :return: ``{line_bytes, kernels, maps, missing, notes}``
    :raises InputError: nothing that was asked for is there, or a line that no cache has
    """
    used, origin = choose_line_bytes([kernel], line_bytes)
    wanted = _wanted(kernel, kinds)
    units = [kernel.units[name] for name in wanted if name in kernel.units]
    missing = [
        {"unit": name, "reason": kernel.unknown.get(name, "was not read")}
        for name in wanted
        if name not in kernel.units
    ]
    if not units:
        reasons = "; ".join(dict.fromkeys(one["reason"] for one in missing))
        raise InputError(f"{kernel.label}: nothing of what was asked for; {reasons}")
    named = _find_hot(units, hot)
    maps = [
        _map_plain(unit, used, named.get(unit.name), is_whole=_is_named(unit, whole))
        for unit in units
    ]
    return {**kernels_plain([kernel], used, origin), "maps": maps, "missing": missing}


def _wanted(kernel: Kernel, kinds: Collection[UnitKind]) -> list[str]:
    # Names of units, per-CPU section first, globals last.
    known = dict.fromkeys((*kernel.units, *kernel.unknown))
    structs = [name for name in known if name not in {"percpu", "globals"}]
    names = {"percpu": ["percpu"], "struct": structs, "globals": ["globals"]}
    return [name for kind in KINDS if kind in kinds for name in names[kind]]


def _is_named(unit: Unit, names: Collection[str]) -> bool:
    return unit.name in names or unit.name.rpartition(" ")[2] in names


def _find_hot(units: Sequence[Unit], hot: Sequence[str]) -> dict[str, tuple[str, ...]]:
    # The named hot set, by unit.
    found: dict[str, list[str]] = {}
    for name in hot:
        unit, entry = _find_entry(units, name)
        found.setdefault(unit.name, []).append(entry)
    return {unit: tuple(dict.fromkeys(names)) for unit, names in found.items()}


def _find_entry(units: Iterable[Unit], name: str) -> tuple[Unit, str]:
    for unit in units:
        prefix = f"{unit.name.rpartition(' ')[2]}." if unit.kind == "struct" else ""
        entry = name.removeprefix(prefix)
        is_meant = not prefix or entry != name
        if is_meant and any(one.name == entry for one in unit.entries):
            return unit, entry
    raise InputError(
        f"hot set: nothing is called {name[:60]!r}; name variables, and fields as rq.nr_running"
    )


def _map_plain(
    unit: Unit, line_bytes: int, named: tuple[str, ...] | None, *, is_whole: bool
) -> Plain:
    uses = _uses(unit)
    hot = list(named) if named else list(uses)
    is_drawn = is_whole or named is not None or unit.kind != "struct"
    entries = [entry.name for entry in unit.entries]
    lines = lines_of(unit, entries, line_bytes) if is_whole else lines_of(unit, hot, line_bytes)
    rows = draw_lines(unit, lines, line_bytes, hot=hot, most=MOST_ROWS) if is_drawn else []
    return {
        "unit": unit.name,
        "kind": unit.kind,
        "sources": list(unit.sources),
        "bytes": unit.size,
        "alignment": unit.alignment,
        "is_alignment_inferred": unit.is_alignment_inferred,
        "counts": _counts(unit, line_bytes, hot),
        "hot": [use_plain(name, uses.get(name)) for name in hot[:MOST_HOT]],
        "is_named": named is not None,
        "groups": [
            {"name": name, "first": first, "last": last}
            for name, (first, last) in unit.groups.items()
        ],
        "rows": rows,
        "advice": []
        if not named
        else [advice_plain(OWN_SET, advise(unit, named, line_bytes), unit, named)],
        "notes": list(unit.notes),
    }


def _uses(unit: Unit) -> dict[str, Use]:
    table = heat_table()
    found = ((entry.name, table.find(unit.name, entry.name)) for entry in unit.entries)
    return {name: use for name, use in found if use is not None and use.is_hot}


def _counts(unit: Unit, line_bytes: int, hot: Sequence[str]) -> Plain:
    ends = [
        span.lines(line_bytes) for span in spans_of(unit.entries, unit.kind, unit.size).values()
    ]
    found = holes(unit) if unit.kind == "struct" else ()
    is_sized = all(entry.size is not None for entry in unit.entries)
    return {
        "entries": len(unit.entries),
        "lines": _covered(ends),
        "hot": len(hot),
        "hot_lines": len(lines_of(unit, hot, line_bytes)),
        "holes": len(found) if is_sized and unit.kind == "struct" else None,
        "hole_bytes": sum(size for _, size in found)
        if is_sized and unit.kind == "struct"
        else None,
        "padding": padding(unit) if unit.kind == "struct" else None,
    }


def _covered(ends: Iterable[tuple[int, int]]) -> int:
    # Lines that somebody is on; a cpumask of a section may be on several.
    count, behind = 0, 0
    for first, last in sorted(ends):
        count += max(last + 1 - max(first, behind), 0)
        behind = max(behind, last + 1)
    return count
