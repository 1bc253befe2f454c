"""Per-CPU layout: who lost or found a common cache line, drawn as kernel developers draw it.

::

    20230 D sd_llc_shared                   20230 D sd_llc_shared
                                            20238 D sd_cluster  <- added
                                            ------------- 64 B cacheline boundary
    20238 D sd_llc_id                       20244 D sd_llc_id  <- moved

Addresses are offsets in the per-CPU section, in hexadecimal without the zeros
in front, so that base and new fit beside each other on 78 columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from schedperf.model import Comparison
from schedperf_reports._words import merge_sides
from schedperf_reports.blocks import Block, Cell, Column, Drawing, DrawingLine, Table, Text, Tone
from schedperf_reports.sections import report_section

# Two halves, two borders and a gap of two make the 78 columns of piped text.
HALF_COLUMNS = 37
# With base and one new side, a sentence need not say which new side it means.
MOST_UNNAMED_SIDES = 2
# Rows that a terminal shows of the pairs.
MOST_ROWS = 12
# Names that a sentence lists before it only counts.
MOST_NAMES = 4

_COLUMNS = (
    Column(title="pair", code=True),
    Column(title="common line"),
    Column(title="base offsets", priority=1, code=True),
    Column(title="new offsets", priority=1, code=True),
    Column(title="touched by", priority=2, code=True),
)
_NOTHING = DrawingLine(text="")

Entry = Mapping[str, Any]


@report_section("layout", title="Per-CPU layout", order=40)
def layout(comparison: Comparison) -> Iterator[Block]:
    """Yield a verdict, a table and drawings for each new side."""
    section = comparison.sections.get("layout")
    if section is None or section.status != "ok":
        reason = None if section is None else section.reason
        yield Text(text=reason or "not analysed", tone="muted")
        return
    # The section's own JSON Schema vouches for the shape.
    data: Any = section.data
    for compared in data["comparisons"]:
        if len(comparison.sides) > MOST_UNNAMED_SIDES:
            yield Text(text=f"{compared['side']} against base", tone="strong")
        yield from _describe(compared, _titles(comparison, compared["side"]))
    for missing in data["missing"]:
        yield Text(text=f"{missing['side']}: {missing['reason']}", tone="muted")


def _titles(comparison: Comparison, side: str) -> tuple[str, str]:
    labels = {summary.name: summary.label for summary in comparison.sides}
    base, new = (f"{name}: {labels[name]}" if name in labels else name for name in ("base", side))
    return base, new


def _describe(compared: Entry, titles: tuple[str, str]) -> Iterator[Block]:
    counts = compared["counts"]
    changed = counts["separated"] + counts["joined"] > 0
    yield Text(text=_verdict(compared), tone="warning" if changed else "plain")
    if counts["added"] or counts["removed"]:
        yield Text(text=_came_and_went(compared))
    if changed:
        yield _pairs_table(compared)
    for window in compared["windows"]:
        yield _draw(window, compared["line_bytes"]["used"], titles)
    if compared["slid_lines"]:
        slid = (
            f"lines that slid to another place with all their variables: {compared['slid_lines']}"
        )
        yield Text(text=slid, tone="muted")
    for note in merge_sides(compared["notes"]):
        yield Text(text=note, tone="muted")


def _verdict(compared: Entry) -> str:
    counts, line_bytes = compared["counts"], compared["line_bytes"]["used"]
    if compared["separated"]:
        first, others, too = compared["separated"][0], counts["separated"] - 1, "nor do"
        text = f"{first['a']} and {first['b']} no longer share a {line_bytes}-byte line"
    elif compared["joined"]:
        first, others, too = compared["joined"][0], counts["joined"] - 1, "and so do"
        text = f"{first['a']} and {first['b']} now share a {line_bytes}-byte line"
    else:
        return (
            f"no two per-CPU variables lost or gained a common {line_bytes}-byte line "
            f"({counts['common']} variables compared, {_sources(compared)})"
        )
    more = f", {too} {others} more" if others else ""
    return f"{text}{more} ({_sources(compared)})"


def _sources(compared: Entry) -> str:
    base, new = (", sizes from ".join(compared["sources"][side]) for side in ("base", "new"))
    return f"source {base}" if base == new else f"base's source {base}; new's {new}"


def _came_and_went(compared: Entry) -> str:
    counts = compared["counts"]
    parts = [
        f"{what}: {_list_names([one['name'] for one in compared[what]], counts[what])}"
        for what in ("added", "removed")
        if counts[what]
    ]
    return "; ".join(parts)


def _list_names(names: Sequence[str], total: int) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {total - MOST_NAMES} more" if total > MOST_NAMES else shown


def _pairs_table(compared: Entry) -> Table:
    counts, line_bytes = compared["counts"], compared["line_bytes"]["used"]
    changes = [("lost", pair) for pair in compared["separated"]]
    changes += [("gained", pair) for pair in compared["joined"]]
    total = counts["separated"] + counts["joined"]
    listed = "" if len(changes) == total else f"; the first {len(changes)} are listed"
    return Table(
        caption=(
            f"{counts['separated']} pairs lost and {counts['joined']} gained a common "
            f"{line_bytes}-byte line; pairs of scheduler variables first{listed}"
        ),
        columns=_COLUMNS,
        rows=tuple(_pair_row(change, pair) for change, pair in changes),
        limit=MOST_ROWS,
        anchors=tuple(pair["row"] for _, pair in changes),
    )


def _pair_row(change: str, pair: Entry) -> tuple[Cell, ...]:
    base, new = (
        f"{pair[f'a_{side}_offset']:x}, {pair[f'b_{side}_offset']:x}" for side in ("base", "new")
    )
    return (
        Cell(text=f"{pair['a']} + {pair['b']}", tone="strong" if pair["scheduler"] else "plain"),
        Cell(text=change, tone="warning"),
        Cell(text=base),
        Cell(text=new),
        Cell(text=", ".join(pair["functions"])),
    )


def _draw(window: Entry, line_bytes: int, titles: tuple[str, str]) -> Drawing:
    left, right = _align(window["base"], window["new"])
    first = min(entry["address"] for entry in (*window["base"], *window["new"]))
    inserted = window["inserted"]
    came = f"; inserted here: {_list_names(inserted, len(inserted))}" if inserted else ""
    return Drawing(
        caption=f"per-CPU section from offset {first:x}{came}",
        titles=titles,
        left=tuple(_line(entry, line_bytes) for entry in left),
        right=tuple(_line(entry, line_bytes) for entry in right),
    )


def _align(
    base: Sequence[Entry], new: Sequence[Entry]
) -> tuple[list[Entry | None], list[Entry | None]]:
    # Put what both sides have on one row, in the order of each side; None is an empty row.
    left: list[Entry | None] = []
    right: list[Entry | None] = []
    matcher = SequenceMatcher(None, _keys(base), _keys(new), autojunk=False)
    for _, base_from, base_to, new_from, new_to in matcher.get_opcodes():
        rows = zip_longest(base[base_from:base_to], new[new_from:new_to])
        for one, other in rows:
            left.append(one)
            right.append(other)
    return left, right


def _keys(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    # A boundary belongs to the variable that it stands in front of.
    following = [entry["name"] for entry in entries[1:]] + [""]
    return [
        (entry["kind"], entry["name"] or after)
        for entry, after in zip(entries, following, strict=True)
    ]


def _line(entry: Entry | None, line_bytes: int) -> DrawingLine:
    if entry is None:
        return _NOTHING
    if entry["kind"] == "boundary":
        rule = f" {line_bytes} B cacheline boundary".rjust(HALF_COLUMNS, "-")
        return DrawingLine(text=rule, tone="muted")
    if entry["kind"] == "gap":
        return DrawingLine(text=f"      … {entry['name']}", tone="muted")
    mark = f"  <- {entry['mark']}" if entry["mark"] else ""
    tone: Tone = "warning" if mark else "plain"
    return DrawingLine(
        text=f"{entry['address']:x} {entry['type']} {entry['name']}{mark}", tone=tone
    )
