"""The frames of a flame graph that changed, as tables that say in words what its colours say."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schedperf.evidence.profile.record import FlameLists, FlameTree, HottestFrames
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.words.rows import count_of
from schedperf_reports.words.units import MISSING, format_percent, format_points

# Callers that a table names of a frame.
MOST_CALLERS = 3
# Rows that a terminal shows of a list.
MOST_ROWS = 10

_FRAME = Column(title="frame", code=True)
_CALLERS = Column(title="called from", code=True, priority=2)
_OBJECT = Column(title="object", code=True, priority=3)


def describe_flames(trees: Sequence[FlameTree]) -> Iterator[Block]:
    """Yield, for each tree, the tables that need no scripting."""
    for tree in trees:
        if len(trees) > 1:
            yield Text(text=name_of_tree(tree), tone="strong")
        if isinstance(tree.lists, HottestFrames):
            yield _table_of_hottest(tree, tree.lists)
        else:
            yield from _describe_changes(tree, tree.lists)


def name_of_tree(tree: FlameTree) -> str:
    """Say which one of several trees this is."""
    return tree.place or tree.event


def runs_of_tree(tree: FlameTree) -> str:
    """Say what the intervals count: ``5 + 5 runs``."""
    counts = " + ".join(map(str, tree.counts))
    return f"{counts} {tree.independent if counts != '1' else tree.independent.removesuffix('s')}"


def beyond_noise(tree: FlameTree) -> str:
    """Say what the change of a coloured frame is."""
    return "changed beyond noise" if tree.took_turns else "changed beyond noise, or drifted"


def _describe_changes(tree: FlameTree, lists: FlameLists) -> Iterator[Block]:
    # Which frames changed, vanished and appeared between the sides of a tree.
    if min(tree.counts) == 1:
        yield Text(
            text=f"n = {runs_of_tree(tree)}: no interval; record several {tree.independent}",
            tone="warning",
        )
    if lists.changed:
        yield _table_of_changes(tree, lists)
    elif min(tree.counts) > 1:
        yield Text(
            text=f"{tree.event}: no frame (a function on one call path) whose own time changed "
            "beyond noise"
        )
    if lists.vanished:
        yield _table_of_vanished(tree, lists)
    if lists.appeared:
        yield _table_of_appeared(tree, lists)


def _table_of_changes(tree: FlameTree, lists: FlameLists) -> Table:
    own = tree.measures[0].self_
    return Table(
        caption=(
            f"{tree.event}: {count_of(lists.counts.changed, 'frame')} (a function on one "
            f"call path) whose own time {beyond_noise(tree)}, % of all time, change in "
            f"percentage points{_left_out(lists.counts.changed, lists.changed)}"
        ),
        columns=(
            _FRAME,
            Column(title="base %", align="right"),
            Column(title="new %", align="right"),
            Column(title="change, pp", align="right"),
            Column(title="95 % CI", align="right", priority=1),
            Column(title="q", align="right", priority=1),
            _CALLERS,
            _OBJECT,
        ),
        rows=tuple(
            (
                Cell(text=symbol_of(tree, frame), tone="strong"),
                Cell(text=format_percent(own.base[frame])),
                Cell(text=format_percent(own.new[frame])),
                Cell(text=_write(own.change(frame), "+.2f"), tone="strong"),
                Cell(text=format_points(own.low[frame], own.high[frame])),
                Cell(text=_write(own.q[frame], ".2g")),
                *_where(tree, frame),
            )
            for frame in lists.changed
        ),
        limit=MOST_ROWS,
    )


def _write(value: float | None, form: str) -> str:
    return MISSING if value is None else format(value, form)


@dataclass(frozen=True, kw_only=True, slots=True)
class _OneSided:
    # The call paths that one side has and the other has not.
    side: str
    other: str
    frames: Sequence[int]
    count: int
    sampled: Sequence[int]
    means: Sequence[float | None]
    runs: int
    other_runs: int


def _table_of_vanished(tree: FlameTree, lists: FlameLists) -> Table:
    base, new = tree.counts
    paths = _OneSided(
        side="base",
        other="new",
        frames=lists.vanished,
        count=lists.counts.vanished,
        sampled=lists.sampled.vanished,
        means=tree.measures[0].inclusive.base,
        runs=base,
        other_runs=new,
    )
    return _table_of_one_side(tree, paths)


def _table_of_appeared(tree: FlameTree, lists: FlameLists) -> Table:
    base, new = tree.counts
    paths = _OneSided(
        side="new",
        other="base",
        frames=lists.appeared,
        count=lists.counts.appeared,
        sampled=lists.sampled.appeared,
        means=tree.measures[0].inclusive.new,
        runs=new,
        other_runs=base,
    )
    return _table_of_one_side(tree, paths)


def _table_of_one_side(tree: FlameTree, paths: _OneSided) -> Table:
    several = tree.independent
    return Table(
        caption=(
            f"{tree.event}: {count_of(paths.count, 'call path')} that only {paths.side} has (in 0 "
            f"of {count_of(paths.other_runs, several.removesuffix('s'))} of {paths.other}), with "
            f"what it calls, % of all time{_left_out(paths.count, paths.frames)}"
        ),
        columns=(
            _FRAME,
            Column(title=f"{paths.side} %", align="right"),
            Column(title=f"in {several}", align="right"),
            _CALLERS,
            _OBJECT,
        ),
        rows=tuple(
            (
                Cell(text=symbol_of(tree, frame)),
                Cell(text=format_percent(paths.means[frame])),
                Cell(text=f"{sampled} of {paths.runs}"),
                *_where(tree, frame),
            )
            for frame, sampled in zip(paths.frames, paths.sampled, strict=True)
        ),
        limit=MOST_ROWS,
    )


def _table_of_hottest(tree: FlameTree, lists: HottestFrames) -> Table:
    own, inclusive = tree.measures[0].self_.base, tree.measures[0].inclusive.base
    return Table(
        caption=f"{tree.event}: frames with the most time of their own, % of all time",
        columns=(
            _FRAME,
            Column(title="self %", align="right"),
            Column(title="with callees %", align="right"),
            _CALLERS,
            _OBJECT,
        ),
        rows=tuple(
            (
                Cell(text=symbol_of(tree, frame)),
                Cell(text=format_percent(own[frame])),
                Cell(text=format_percent(inclusive[frame])),
                *_where(tree, frame),
            )
            for frame in lists.hottest
        ),
        limit=MOST_ROWS,
    )


def _left_out(count: int, listed: Sequence[int]) -> str:
    hidden = count - len(listed)
    return f"; {hidden} smaller ones are left out" if hidden else ""


def symbol_of(tree: FlameTree, frame: int) -> str:
    """Return the function of a frame."""
    # The root and remainders, whose numbers are negative, are in no list and call nothing.
    return tree.names[tree.name[frame]].symbol


def _where(tree: FlameTree, frame: int) -> tuple[Cell, Cell]:
    names: list[str] = []
    caller = tree.parent[frame]
    while caller > 0 and len(names) < MOST_CALLERS:
        names.append(symbol_of(tree, caller))
        caller = tree.parent[caller]
    more = " < …" if caller > 0 else ""
    dso = tree.names[tree.name[frame]].dso
    return Cell(text=" < ".join(names) + more), Cell(text=dso, tone="muted")
