"""Per-CPU layout: which variables lost or found line mates between base and new.

Offsets and addresses in the data count from the start of the per-CPU section,
which is where ``System.map`` of x86-64 up to 6.14 has address 0.
"""

from collections.abc import Iterable, Iterator, Sequence

from schedperf.percpu import (
    LayoutDiff,
    Move,
    Pair,
    PercpuMap,
    diff_layouts,
    lines_of,
    rank_pairs,
    scheduler_variables,
)
from schedperf.sections import Absent, Data, section
from schedperf.sections._layout_sources import SideLayout, load_layout
from schedperf.sections._layout_windows import draw_windows
from schedperf.sections._schema import COUNT, FLAG, TEXT, TEXTS, array, both, record
from schedperf.sides import FIRST_NEW, Side

# How many of each list the data holds; two unrelated kernels differ in thousands of pairs, and
# "counts" has the totals.
MOST_LISTED = 100
# Line mates that one moved variable lists on each side: a full 64-byte line of pointers, twice.
MOST_MATES = 16
# x86-64, most of arm64 and riscv: what is assumed when no capture says.
USUAL_LINE_BYTES = 64

_OFFSET = {**COUNT, "description": "bytes from the start of the per-CPU section"}
_SIZE = {"type": ["integer", "null"], "description": "bytes; null where unknown"}
_PAIR = record(
    row={**TEXT, "description": "id of the pair, for evidence: layout#ROW"},
    a=TEXT,
    b=TEXT,
    a_base_offset=_OFFSET,
    b_base_offset=_OFFSET,
    a_new_offset=_OFFSET,
    b_new_offset=_OFFSET,
    scheduler={**FLAG, "description": "the scheduler's own paths touch both"},
    functions={**TEXTS, "description": "who touches them, a's first; empty where not known"},
)
_MOVE = record(
    name=TEXT,
    base_offset=_OFFSET,
    new_offset=_OFFSET,
    lost=TEXTS,
    gained=TEXTS,
    scheduler=FLAG,
)
_TENANT = record(name=TEXT, offset=_OFFSET, size=_SIZE, scheduler=FLAG)
_ENTRY = record(
    kind={
        "enum": ["variable", "boundary", "gap"],
        "description": "gap: variables between that are not shown, counted in its name",
    },
    address=_OFFSET,
    type={**TEXT, "description": "nm's letter: D global, d static; A where unknown"},
    name=TEXT,
    size=_SIZE,
    mark={"enum": ["", "moved", "added", "removed"]},
)
_LINE_BYTES = record(compile_time=_SIZE, hardware=_SIZE)
_SOURCES = {**TEXTS, "description": "where names come from, then where sizes come from"}
_COUNTS = record(
    variables_base=COUNT,
    variables_new=COUNT,
    common=COUNT,
    lines_base=COUNT,
    lines_new=COUNT,
    moved=COUNT,
    separated=COUNT,
    joined=COUNT,
    added=COUNT,
    removed=COUNT,
    mates_changed=COUNT,
)
_COMPARISON = record(
    side=TEXT,
    line_bytes=record(
        used={"type": "integer", "minimum": 1},
        assumed=FLAG,
        base=_LINE_BYTES,
        new=_LINE_BYTES,
    ),
    sources=both(_SOURCES),
    counts=_COUNTS,
    moved=array(_MOVE),
    separated=array(_PAIR),
    joined=array(_PAIR),
    added=array(_TENANT),
    removed=array(_TENANT),
    slid_lines={**COUNT, "description": "base's lines that moved with all their tenants"},
    windows=array(record(base=array(_ENTRY), new=array(_ENTRY), inserted=TEXTS)),
    notes={**TEXTS, "description": "what weakens this comparison, one sentence each"},
)
SCHEMA = record(comparisons=array(_COMPARISON), missing=array(record(side=TEXT, reason=TEXT)))


@section("layout", version=1, schema=SCHEMA)
def layout(sides: Sequence[Side]) -> Data:
    """Compare the per-CPU section of each new side with base's."""
    base = load_layout(sides[0])
    comparisons, missing = [], []
    for side in sides[1:]:
        try:
            new = load_layout(side)
        except Absent as absent:
            missing.append({"side": side.name, "reason": str(absent)})
        else:
            comparisons.append(_compare(side.name, base, new))
    if not comparisons:
        raise Absent("; ".join(entry["reason"] for entry in missing) or "there is no new side")
    return {"comparisons": comparisons, "missing": missing}


def _compare(side: str, base: SideLayout, new: SideLayout) -> Data:
    line_bytes, assumed = _choose_line_bytes(base, new)
    diff = diff_layouts(base.percpu, new.percpu, line_bytes)
    separated = rank_pairs(diff.separated)[:MOST_LISTED]
    joined = rank_pairs(diff.joined)[:MOST_LISTED]
    return {
        "side": side,
        "line_bytes": {
            "used": line_bytes,
            "assumed": assumed,
            "base": _line_bytes_data(base),
            "new": _line_bytes_data(new),
        },
        "sources": {"base": list(base.percpu.sources), "new": list(new.percpu.sources)},
        "counts": _counts(base.percpu, new.percpu, diff, line_bytes),
        "moved": [_move_data(move) for move in _rank_moves(diff.moved)[:MOST_LISTED]],
        "separated": list(_pairs_data(side, separated, base.percpu, new.percpu)),
        "joined": list(_pairs_data(side, joined, base.percpu, new.percpu)),
        "added": list(_tenants_data(diff.added[:MOST_LISTED], new.percpu)),
        "removed": list(_tenants_data(diff.removed[:MOST_LISTED], base.percpu)),
        "slid_lines": diff.slid_lines,
        "windows": draw_windows(base.percpu, new.percpu, diff, line_bytes, [*separated, *joined]),
        "notes": [*base.notes, *new.notes, *_notes(base, new, diff, line_bytes)],
    }


def _choose_line_bytes(base: SideLayout, new: SideLayout) -> tuple[int, bool]:
    # What the kernel was compiled for comes first: its alignments are made for that.
    known = (
        base.line_bytes.compile_time,
        new.line_bytes.compile_time,
        base.line_bytes.hardware,
        new.line_bytes.hardware,
    )
    return next(((size, False) for size in known if size is not None), (USUAL_LINE_BYTES, True))


def _line_bytes_data(side: SideLayout) -> Data:
    return {"compile_time": side.line_bytes.compile_time, "hardware": side.line_bytes.hardware}


def _notes(base: SideLayout, new: SideLayout, diff: LayoutDiff, line_bytes: int) -> Iterator[str]:
    known = {
        f"{what} {size} on {name}"
        for name, side in (("base", base), ("new", new))
        for what, size in (
            ("compiled for", side.line_bytes.compile_time),
            ("hardware has", side.line_bytes.hardware),
        )
        if size not in {None, line_bytes}
    }
    if known:
        yield f"compared by {line_bytes}-byte lines, but {', '.join(sorted(known))}"
    if _choose_line_bytes(base, new)[1]:
        yield f"no capture says how long a cache line is; {line_bytes} bytes are assumed"
    sources = base.percpu.sources[0], new.percpu.sources[0]
    if sources.count("BTF") == 1:
        yield (
            f"base's names come from {sources[0]} and new's from {sources[1]}, so only the "
            f"{diff.common} names that both have are compared, and none is added or removed"
        )
    counters = base.percpu.allocation_counters, new.percpu.allocation_counters
    if any(counters):
        yield (
            f"allocation counters are left out: {counters[0]} in base, {counters[1]} in new; "
            "they fill lines and shift what follows them"
        )


def _counts(base: PercpuMap, new: PercpuMap, diff: LayoutDiff, line_bytes: int) -> Data:
    return {
        "variables_base": len(base.variables),
        "variables_new": len(new.variables),
        "common": diff.common,
        "lines_base": _occupied_lines(base, line_bytes),
        "lines_new": _occupied_lines(new, line_bytes),
        "moved": len(diff.moved),
        "separated": len(diff.separated),
        "joined": len(diff.joined),
        "added": len(diff.added),
        "removed": len(diff.removed),
        "mates_changed": diff.mates_changed,
    }


def _occupied_lines(percpu: PercpuMap, line_bytes: int) -> int:
    # Spans come in order and overlap at their ends only.
    lines, end = 0, -1
    for first, last in lines_of(percpu, line_bytes).values():
        lines += last - max(first, end + 1) + 1
        end = last
    return lines


def _rank_moves(moves: Iterable[Move]) -> list[Move]:
    table = scheduler_variables()
    return sorted(moves, key=lambda move: move.name not in table)


def _move_data(move: Move) -> Data:
    return {
        "name": move.name,
        "base_offset": move.base_offset,
        "new_offset": move.new_offset,
        "lost": list(move.lost[:MOST_MATES]),
        "gained": list(move.gained[:MOST_MATES]),
        "scheduler": move.name in scheduler_variables(),
    }


def _pairs_data(
    side: str, pairs: Iterable[Pair], base: PercpuMap, new: PercpuMap
) -> Iterator[Data]:
    # One pair can change on several sides; the first new side's rows have the plain names.
    prefix = "" if side == FIRST_NEW else f"{side}/"
    table = scheduler_variables()
    in_base = {variable.name: variable.offset for variable in base.variables}
    in_new = {variable.name: variable.offset for variable in new.variables}
    for a, b in pairs:
        functions = [use for name in (a, b) if name in table for use in table[name].functions]
        yield {
            "row": f"{prefix}{a}+{b}",
            "a": a,
            "b": b,
            "a_base_offset": in_base[a],
            "b_base_offset": in_base[b],
            "a_new_offset": in_new[a],
            "b_new_offset": in_new[b],
            "scheduler": a in table and b in table,
            "functions": list(dict.fromkeys(functions)),
        }


def _tenants_data(names: Iterable[str], percpu: PercpuMap) -> Iterator[Data]:
    by_name = {variable.name: variable for variable in percpu.variables}
    for name in names:
        variable = by_name[name]
        yield {
            "name": name,
            "offset": variable.offset,
            "size": variable.size,
            "scheduler": name in scheduler_variables(),
        }
