"""Chooses the cache lines worth drawing, base's beside new's.

A window holds the lines of each side that one group of changes touches, so a
pair that was on one line in base is seen there, and on its two lines in new.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from schedperf.percpu import (
    LayoutDiff,
    Pair,
    PercpuMap,
    Variable,
    lines_of,
    tenants_by_line,
)

# More drawings than a reader looks at hide the first ones; the counts tell the whole.
MOST_WINDOWS = 6
# Lines of one side in one window: some 40 rows of text where eight variables share a line.
MOST_WINDOW_LINES = 6
# Added or removed variables that may start a window of their own, on each side.
MOST_NEIGHBOURHOODS = 100

Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Window:
    # Line numbers of each side.
    base: frozenset[int]
    new: frozenset[int]

    def touches(self, other: "_Window") -> bool:
        return bool(self.base & other.base or self.new & other.new)

    def joined_with(self, others: Iterable["_Window"]) -> "_Window":
        others = tuple(others)
        return _Window(
            base=self.base.union(*(other.base for other in others)),
            new=self.new.union(*(other.new for other in others)),
        )

    @property
    def is_readable(self) -> bool:
        return max(len(self.base), len(self.new)) <= MOST_WINDOW_LINES


def draw_windows(
    base: PercpuMap, new: PercpuMap, diff: LayoutDiff, line_bytes: int, ranked: Sequence[Pair]
) -> list[dict[str, object]]:
    """Return the windows as data, the highest ranked change first.

    :param ranked: changed pairs, the most important first
    """
    base_lines, new_lines = lines_of(base, line_bytes), lines_of(new, line_bytes)
    changes = (
        *(
            _Window(base=_closest(pair, base_lines), new=_closest(pair, new_lines))
            for pair in ranked
        ),
        *_around(diff.added, new_lines, base_lines),
        *(
            _Window(base=window.new, new=window.base)
            for window in _around(diff.removed, base_lines, new_lines)
        ),
    )
    base_marks = dict.fromkeys(diff.removed, "removed")
    new_marks = {move.name: "moved" for move in diff.moved} | dict.fromkeys(diff.added, "added")
    windows: list[dict[str, object]] = []
    for window in _group(changes):
        shown_base = _entries(base, base_lines, window.base, line_bytes, base_marks)
        shown_new = list(_entries(new, new_lines, window.new, line_bytes, new_marks))
        inserted = [entry["name"] for entry in shown_new if entry["mark"] == "added"]
        windows.append({"base": list(shown_base), "new": shown_new, "inserted": inserted})
    return windows


def _closest(pair: Pair, lines: Mapping[str, Span]) -> frozenset[int]:
    # The common line of a pair, or the two lines where it comes closest.
    one, other = (lines[name] for name in pair)
    nearest: Span = min(product(one, other), key=lambda edges: abs(edges[0] - edges[1]))
    return frozenset(nearest)


def _around(
    names: Sequence[str], lines: Mapping[str, Span], other_lines: Mapping[str, Span]
) -> Iterator[_Window]:
    # Lines (as "new") of variables that only this side has, and where their mates are on the other
    # side. Without mates nobody's line changed, and there is nothing to draw.
    tenants = tenants_by_line(lines)
    for name in names[:MOST_NEIGHBOURHOODS]:
        touched = frozenset(lines[name])
        mates = {mate for line in touched for mate in tenants[line] if mate in other_lines}
        if mates:
            there = frozenset(other_lines[mate][0] for mate in mates)
            yield _Window(base=there, new=touched)


def _group(changes: Iterable[_Window]) -> list[_Window]:
    # Changes that touch a line in common are one window, as long as it stays readable.
    windows: list[_Window] = []
    for change in changes:
        touching = [window for window in windows if window.touches(change)]
        joined = change.joined_with(touching)
        if joined.is_readable and touching:
            place = windows.index(touching[0])
            windows = [window for window in windows if window not in touching]
            windows.insert(place, joined)
        elif change.is_readable and len(windows) < MOST_WINDOWS:
            windows.append(change)
    return windows


def _entries(
    percpu: PercpuMap,
    lines: Mapping[str, Span],
    shown: frozenset[int],
    line_bytes: int,
    marks: Mapping[str, str],
) -> Iterator[dict[str, object]]:
    # The variables on these lines in order, with a rule wherever a line ends between two.
    before: int | None = None
    for index, variable in enumerate(percpu.variables):
        first, last = lines[variable.name]
        if first not in shown and last not in shown:
            continue
        line = variable.offset // line_bytes
        if before is not None and index - before > 1:
            yield _entry("gap", variable.offset, f"{index - before - 1} more")
        if before is not None and line > percpu.variables[before].offset // line_bytes:
            yield _entry("boundary", line * line_bytes, "")
        yield _variable_entry(variable, marks.get(variable.name, ""))
        before = index


def _variable_entry(variable: Variable, mark: str) -> dict[str, object]:
    return {
        "kind": "variable",
        "address": variable.offset,
        "type": variable.letter,
        "name": variable.name,
        "size": variable.size,
        "mark": mark,
    }


def _entry(kind: str, address: int, name: str) -> dict[str, object]:
    return {"kind": kind, "address": address, "type": "", "name": name, "size": None, "mark": ""}
