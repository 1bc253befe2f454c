# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw differential flame graphs, which a script makes searchable and zoomable.

Without a script, the page shows the largest frames at the same positions and in the same colours.
Tables list the frames that changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from typing import NamedTuple
from urllib.parse import quote

from msgspec import Struct, field

from schedperf.evidence.profile.flame_record import (
    SPEEDSCOPE_SCHEMA,
    FlameChanges,
    FlameLists,
    FlameTree,
)
from schedperf.model.schema import to_plain
from schedperf_reports.blocks import Block, Cell, Column, Graphic, Spot, Table, Text
from schedperf_reports.words.quantities import MISSING, format_percent, format_points
from schedperf_reports.words.rows import count_of, side_place

# As a share of the width: a narrower frame is too small for a letter on any screen, and zooming
# needs a script.
LEAST_PCT = 0.5
# As a share of the width: four letters of a line of 1100 pixels; narrower frames show their text as
# a tooltip.
_LEAST_LABEL_PCT = 2.5
# As a share of the width: levels below the last one with a frame this wide, or with a changed one,
# are left out because they are slivers that would take most of the height.
_LEAST_DEEPEST_PCT = 1.5
_ROW_PIXELS = 20
# Colour intensity of the smallest and the largest change, in percent; with more intensity, letters
# would have less than 4.5:1 contrast in dark mode (WCAG 2, 1.4.3).
_FAINTEST, _STRONGEST = 20.0, 48.0

_ROOT, _REMAINDER = -1, -2
# Callers of a frame that a table lists.
_MOST_CALLERS = 3
# Rows of a list that a terminal shows.
_MOST_ROWS = 10

_FRAME = Column(title="frame", code=True)
_CALLERS = Column(title="called from", code=True, priority=2)
_OBJECT = Column(title="object", code=True, priority=3)


class StillFrame(Struct, frozen=True, kw_only=True):
    """One frame.

    :param label: text on it; only the mark of a change if it is too narrow for its name
    :param title: its name, and its numbers in words
    :param kind: classes of the style sheet
    :param left: position of its left edge, in percent of the width of the drawing
    :param width: its width, in percent of the width of the drawing
    :param top: position of its upper edge, in pixels
    :param heat: intensity of its colour, in percent
    """

    label: str
    title: str
    kind: str
    left: float
    width: float
    top: int
    heat: float


class Still(Struct, frozen=True, kw_only=True):
    """The drawing for pages without scripts.

    :param height: height of all frames, in pixels
    """

    frames: tuple[StillFrame, ...]
    height: int


class Sum(Struct, frozen=True, kw_only=True):
    """The sum over a class of functions, some of which the record lists.

    :param tree: index of the tree
    :param name: name of the class
    :param functions: the listed functions
    :param base: share of the class in base, in percent of the event's count
    :param new: the same in new
    """

    tree: int
    name: str
    functions: tuple[str, ...]
    base: float
    new: float


class Flames(Graphic, frozen=True, kw_only=True):
    """The drawing of one or more trees, of which the reader chooses one.

    The tables of its section list the changes.

    :param trees: at least one
    :param sides: names of the compared sides, "base", "new2"; one side if nothing is compared
    :param limits: what the samples cannot show, one text each
    :param basis: name of the section with the full text of the limits; "" for none
    :param rows: by row that evidence names, the index of a tree and functions to search for; with
        (), the whole drawing
    :param sums: sums of the classes of functions
    :param whole: the command that exports frames of any size; "" if there is none
    """

    trees: Sequence[FlameTree]
    sides: tuple[str, ...]
    limits: tuple[str, ...] = ()
    basis: str = ""
    rows: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    sums: Sequence[Sum] = ()
    whole: str = "schedperf profile --export"

    @property
    def has_new(self) -> bool:
        """Return whether there are two sides."""
        return len(self.sides) > 1

    @property
    def least(self) -> str:
        """Format the smallest share of the total time that a frame of its own has, in percent."""
        return f"{100.0 * self.trees[0].least_share:g}"

    @property
    def others(self) -> str:
        """Return the commands other than the workload, which are not coloured; "" for none."""
        names = [_symbol_of(tree, frame) for tree in self.trees for frame in tree.others]
        return ", ".join(dict.fromkeys(names))

    @property
    def still(self) -> Still:
        """Return the drawing for browsers without JavaScript: the first tree.

        It has all levels down to the last one with a wide or changed frame.
        """
        frames = place_frames(self.trees[0])
        height = max((frame.top for frame in frames), default=0) + _ROW_PIXELS
        return Still(frames=frames, height=height)

    def shows_change(self) -> bool:
        """Return whether a frame of any tree is coloured as a change."""
        return any(tree.measures[0].changed for tree in self.trees)

    def spots(self) -> Mapping[str, Spot]:
        """Return, by row, the state of ``flames_state.js`` that searches for its functions."""
        return {
            row: Spot(state=_write_state(tree, functions), shows=_label_of(functions))
            for row, (tree, functions) in self.rows.items()
        }

    def data(self) -> object:
        """Return the data for the script: trees, sides, sums, and the URL of a file's schema.

        The script offers the stacks as a file for speedscope, which names this schema.
        """
        sides = [{"name": side, "place": side_place(side)} for side in self.sides]
        sums = [
            {
                "event": each.tree,
                "find": _write_find(each.functions),
                "name": each.name,
                "base": each.base,
                "new": each.new,
            }
            for each in self.sums
        ]
        return {
            "events": to_plain(self.trees),
            "sides": sides,
            "speedscope": SPEEDSCOPE_SCHEMA,
            "whole": self.whole,
            "sums": sums,
        }


def _write_find(functions: Sequence[str]) -> str:
    # Whole names, see FlameTree.findEach of ``flames_tree.js``. The field has several lines if
    # spaces let it wrap.
    return " | ".join(f"={function}" for function in functions)


def _write_state(tree: int, functions: Sequence[str]) -> str:
    # A * separates the fields of the state; z shows only the paths to the found frames.
    event = [f"e{tree}"] if tree else []
    found = [f"q{quote(_write_find(functions), safe='')}", "z"] if functions else []
    return "*".join([*event, *found])


def _label_of(functions: Sequence[str]) -> str:
    named = f": {', '.join(functions)}" if functions else ""
    return f"flame graph{named}"


def caption_of(tree: FlameTree) -> str:
    """Return the caption: the sides, the number of runs, and which frames are coloured."""
    if len(tree.labels) == 1:
        runs = _runs_of_tree(tree)
        return f"{tree.labels[0]}, {runs if tree.counts == (1,) else f'mean of {runs}'}"
    base, new = tree.labels
    sides = f"{new} vs {base}, n = {_runs_of_tree(tree)}"
    if min(tree.counts) == 1:
        return f"{sides}; one run per side: significance unknown, frames are not coloured"
    coloured = " (coloured)" if tree.measures[0].changed else ""
    return f"{sides}; {count_changed(tree)} {_significance(tree)}{coloured}"


def caption_of_trees(trees: Sequence[FlameTree]) -> str:
    """Return the caption of the first tree, which is drawn, and the changes of the others."""
    more = "; ".join(f"{tree.place}: {count_changed(tree)}" for tree in trees[1:])
    return f"{caption_of(trees[0])}{f'; {more}' if more else ''}"


def count_changed(tree: FlameTree) -> str:
    """Count the changed frames, as the graph colours them and the table lists them."""
    changed = len(tree.measures[0].changed)
    return count_of(changed, "frame") if changed else "no frame"


def place_frames(tree: FlameTree) -> tuple[StillFrame, ...]:
    """Return the frames of a tree that are wide enough or changed, each after its caller.

    With two sides, the width is the mean of base and new, so that frames on one side only have a
    width.
    """
    frames = tuple(_walk(_Drawn.of(tree)))
    telling = [
        frame.top for frame in frames if frame.width >= _LEAST_DEEPEST_PCT or _is_coloured(frame)
    ]
    return tuple(frame for frame in frames if frame.top <= max(telling, default=0))


def _is_coloured(frame: StillFrame) -> bool:
    return not {"more", "less"}.isdisjoint(frame.kind.split())


class _Drawn(Struct, frozen=True, kw_only=True):
    # One measure of one tree; each list has one value per frame.
    tree: FlameTree
    values: FlameChanges
    widths: Sequence[float]
    changes: Sequence[float | None]
    shown: Sequence[float | None]
    children: Sequence[Sequence[int]]

    @classmethod
    def of(cls, tree: FlameTree) -> "_Drawn":
        values = tree.measures[0].inclusive
        widths = [value or 0.0 for value in values.base]
        changes: list[float | None] = [None] * len(widths)
        if values.new:
            changes = [values.change(frame) for frame in range(len(widths))]
            widths = [
                (old + (new or 0.0)) / 2.0 for old, new in zip(widths, values.new, strict=True)
            ]
        children: list[list[int]] = [[] for _ in widths]
        for frame, parent in enumerate(tree.parent):
            if parent >= 0:
                children[parent].append(frame)
        for some in children:
            some.sort(key=lambda frame: (tree.name[frame] == _REMAINDER, -widths[frame]))
        return cls(
            tree=tree,
            values=values,
            widths=widths,
            changes=changes,
            shown=_shown_changes(tree, changes),
            children=children,
        )


def _shown_changes(tree: FlameTree, changes: Sequence[float | None]) -> list[float | None]:
    # The change that determines a frame's colour: its change including callees; or its own part, if
    # its function changed on all paths together.
    shown: list[float | None] = [None] * len(changes)
    for frame in tree.measures[0].changed:
        shown[frame] = _times_of(tree, frame).change(frame)
    return shown


def _times_of(tree: FlameTree, frame: int) -> FlameChanges:
    """Return the times whose change is significant for a frame: with callees, else its self time.

    :param frame: index of a changed frame
    """
    measure = tree.measures[0]
    return measure.inclusive if frame in measure.inclusive.changed else measure.self_


def _walk(drawn: _Drawn) -> Iterator[StillFrame]:
    whole = drawn.widths[0]
    largest = max((abs(change) for change in drawn.shown if change is not None), default=0.0)
    changed = _with_callers(drawn)
    pending = [(0, 0, 0.0)]
    while pending and whole > 0.0:
        frame, level, left = pending.pop()
        yield _draw(drawn, frame, level, left, largest or 1.0)
        for child in drawn.children[frame]:
            width = 100.0 * drawn.widths[child] / whole
            if width >= LEAST_PCT or child in changed:
                pending.append((child, level + 1, left))
            left += width


def _with_callers(drawn: _Drawn) -> set[int]:
    # The changed frames, and the frames that lead to them.
    paths: set[int] = set()
    for changed, shown in enumerate(drawn.shown):
        frame = changed if shown else -1
        while frame >= 0 and frame not in paths:
            paths.add(frame)
            frame = drawn.tree.parent[frame]
    return paths


def _draw(drawn: _Drawn, frame: int, level: int, left: float, largest: float) -> StillFrame:
    width = 100.0 * drawn.widths[frame] / drawn.widths[0]
    change = drawn.shown[frame]
    tone = "" if not change else "more" if change > 0.0 else "less"
    name = _name(drawn.tree, frame)
    mark = {"more": "\u25b2 ", "less": "\u25bc ", "": ""}[tone]
    return StillFrame(
        label=mark + name if width >= _LEAST_LABEL_PCT else mark.strip(),
        title=f"{name}: {_say(drawn, frame)}",
        kind=" ".join(part for part in (tone, _origin(drawn.tree, frame)) if part),
        left=left,
        width=width,
        top=level * _ROW_PIXELS,
        heat=_FAINTEST + (_STRONGEST - _FAINTEST) * sqrt(min(1.0, abs(change or 0.0) / largest)),
    )


def _name(tree: FlameTree, frame: int) -> str:
    index = tree.name[frame]
    if index == _ROOT:
        return tree.event
    if index == _REMAINDER:
        return f"({tree.hidden[frame]} smaller frames)"
    return tree.names[index].symbol


def _origin(tree: FlameTree, frame: int) -> str:
    index = tree.name[frame]
    if index == _REMAINDER:
        return "rest"
    return "kernel" if index >= 0 and tree.names[index].kernel else ""


def _say(drawn: _Drawn, frame: int) -> str:
    values, unit = drawn.values, _Unit.of(drawn.tree)
    base = values.base[frame]
    if not values.new:
        return f"{unit.number(base or 0.0)}{unit.percent or unit.change}"
    new, change = values.new[frame], drawn.changes[frame]
    if base is None or new is None or change is None:
        return "not recorded on at least one side"
    low, high = (values.low[frame], values.high[frame]) if values.low else (None, None)
    interval = "(no CI)"
    if low is not None and high is not None:
        interval = f"[{unit.number(low, '+')}, {unit.number(high, '+')}]"
    sides = f"base {unit.number(base)}{unit.percent}, new {unit.number(new)}{unit.percent}"
    return f"{sides}; change {unit.number(change, '+')} {unit.change} {interval}"


class _Unit(NamedTuple):
    # Of the first measure: what follows each value, what follows a change, and the format.
    percent: str
    change: str
    digits: str

    @classmethod
    def of(cls, tree: FlameTree) -> "_Unit":
        measure = tree.measures[0]
        if measure.measure == "share":
            return cls("%", "pp", ".2f")
        return cls("", f"{tree.unit} per {measure.operation}", ".4g")

    def number(self, value: float, sign: str = "") -> str:
        return format(value, f"{sign}{self.digits}")


def describe_flames(trees: Sequence[FlameTree]) -> Iterator[Block]:
    """Yield the tables of each tree: changed, vanished and new frames; of one side, the hottest."""
    for tree in trees:
        if len(trees) > 1:
            yield Text(text=_name_of_tree(tree), tone="strong")
        if tree.lists is None:
            yield _table_of_hottest(tree)
        else:
            yield from _describe_changes(tree, tree.lists)


def _name_of_tree(tree: FlameTree) -> str:
    """Return the name that distinguishes a tree: event, workload and point, or the event only."""
    return tree.place or tree.event


def _runs_of_tree(tree: FlameTree) -> str:
    """Return the sample size: ``5 + 5 runs``."""
    counts = " + ".join(map(str, tree.counts))
    return f"{counts} {tree.independent if counts != '1' else tree.independent.removesuffix('s')}"


def _significance(tree: FlameTree) -> str:
    """Return the predicate of changed frames, with a remark if drift is not excluded."""
    if tree.took_turns:
        return "changed significantly"
    return "changed significantly (drift not excluded)"


def _describe_changes(tree: FlameTree, lists: FlameLists) -> Iterator[Block]:
    # Which frames changed, vanished and appeared between the sides of a tree.
    if min(tree.counts) == 1:
        yield Text(
            text=f"no CI with n = {_runs_of_tree(tree)}; record several {tree.independent}",
            tone="warning",
        )
    if lists.changed:
        yield _table_of_changes(tree, lists)
    elif min(tree.counts) > 1:
        yield Text(
            text=f"{tree.event}: no frame changed significantly (a frame is a function on one call "
            "path)"
        )
    if lists.vanished:
        yield _table_of_vanished(tree, lists)
    if lists.appeared:
        yield _table_of_appeared(tree, lists)


def _table_of_changes(tree: FlameTree, lists: FlameLists) -> Table:
    return Table(
        caption=(
            f"{tree.event}: {count_of(lists.counts.changed, 'frame')} {_significance(tree)}, "
            f"in % of the event's count{_left_out(lists.counts.changed, lists.changed)}; a frame "
            "is a function on one call path, and q is that of the frame alone"
        ),
        columns=(
            _FRAME,
            Column(
                title="time",
                priority=1,
                explains="with callees: the time of the frame and its callees changed "
                "significantly; self: the self time of the function, summed over all call paths, "
                "changed significantly, and the self time of this frame in the same direction",
            ),
            Column(title="base %", align="right"),
            Column(title="new %", align="right"),
            Column(title="change, pp", align="right"),
            Column(title="95% CI", align="right", priority=1),
            Column(title="q", align="right", priority=1),
            _CALLERS,
            _OBJECT,
        ),
        rows=tuple(_row_of_change(tree, frame) for frame in lists.changed),
        limit=_MOST_ROWS,
    )


def _row_of_change(tree: FlameTree, frame: int) -> tuple[Cell, ...]:
    times = _times_of(tree, frame)
    return (
        Cell(text=_symbol_of(tree, frame), tone="strong"),
        Cell(text="with callees" if times is tree.measures[0].inclusive else "self"),
        Cell(text=format_percent(times.base[frame])),
        Cell(text=format_percent(times.new[frame])),
        Cell(text=_write(times.change(frame), "+.2f"), tone="strong"),
        Cell(text=format_points(times.low[frame], times.high[frame])),
        Cell(text=_write(times.q[frame], ".2g")),
        *_where(tree, frame),
    )


def _write(value: float | None, form: str) -> str:
    return MISSING if value is None else format(value, form)


def _table_of_vanished(tree: FlameTree, lists: FlameLists) -> Table:
    return _table_of_one_side(
        tree,
        frames=lists.vanished,
        count=lists.counts.vanished,
        sampled=lists.sampled.vanished,
        means=tree.measures[0].inclusive.base,
        sides=("base", "new"),
        runs=tree.counts,
    )


def _table_of_appeared(tree: FlameTree, lists: FlameLists) -> Table:
    base, new = tree.counts
    return _table_of_one_side(
        tree,
        frames=lists.appeared,
        count=lists.counts.appeared,
        sampled=lists.sampled.appeared,
        means=tree.measures[0].inclusive.new,
        sides=("new", "base"),
        runs=(new, base),
    )


def _table_of_one_side(
    tree: FlameTree,
    *,
    frames: Sequence[int],
    count: int,
    sampled: Sequence[int],
    means: Sequence[float | None],
    sides: tuple[str, str],
    runs: Sequence[int],
) -> Table:
    """Return a table of the call paths that were sampled on one side only.

    :param frames: listed frames, the ends of such paths
    :param count: number of such paths, including those that are not in ``frames``
    :param sampled: for each listed frame, the number of runs or boots with it
    :param means: share of each frame of the tree on the side with the paths, in percent
    :param sides: the side with the paths, then the other
    :param runs: number of runs or boots of these sides, in the same order
    """
    several = tree.independent
    side, other = sides
    return Table(
        caption=(
            f"{tree.event}: {count_of(count, 'call path')} only in {side} (in 0 of "
            f"{count_of(runs[1], several.removesuffix('s'))} of {other}), with callees, in % of "
            f"the event's count{_left_out(count, frames)}"
        ),
        columns=(
            _FRAME,
            Column(title=f"{side}%", align="right"),
            Column(title=f"in {several}", align="right"),
            _CALLERS,
            _OBJECT,
        ),
        rows=tuple(
            (
                Cell(text=_symbol_of(tree, frame)),
                Cell(text=format_percent(means[frame])),
                Cell(text=f"{seen} of {runs[0]}"),
                *_where(tree, frame),
            )
            for frame, seen in zip(frames, sampled, strict=True)
        ),
        limit=_MOST_ROWS,
        # No row is tested, so a page folds it.
        quiet=tuple(False for _ in frames),
    )


def _table_of_hottest(tree: FlameTree) -> Table:
    own, inclusive = tree.measures[0].self_.base, tree.measures[0].inclusive.base
    return Table(
        caption=f"{tree.event}: frames with the largest self share, in % of the event's count",
        columns=(
            _FRAME,
            Column(title="self %", align="right"),
            Column(title="with callees %", align="right"),
            _CALLERS,
            _OBJECT,
        ),
        rows=tuple(
            (
                Cell(text=_symbol_of(tree, frame)),
                Cell(text=format_percent(own[frame])),
                Cell(text=format_percent(inclusive[frame])),
                *_where(tree, frame),
            )
            for frame in tree.hottest
        ),
        limit=_MOST_ROWS,
    )


def _left_out(count: int, listed: Sequence[int]) -> str:
    hidden = count - len(listed)
    return f"; {hidden} smaller frames not listed" if hidden else ""


def _symbol_of(tree: FlameTree, frame: int) -> str:
    """Return the function of a frame that is neither the root nor a remainder."""
    # The root and remainders, whose numbers are negative, are in no list and call nothing.
    return tree.names[tree.name[frame]].symbol


def _where(tree: FlameTree, frame: int) -> tuple[Cell, Cell]:
    names: list[str] = []
    caller = tree.parent[frame]
    while caller > 0 and len(names) < _MOST_CALLERS:
        names.append(_symbol_of(tree, caller))
        caller = tree.parent[caller]
    more = " < …" if caller > 0 else ""
    dso = tree.names[tree.name[frame]].dso
    return Cell(text=" < ".join(names) + more), Cell(text=dso, tone="muted")
