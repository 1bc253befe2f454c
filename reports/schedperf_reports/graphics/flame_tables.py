"""The frames of a flame graph that changed, as tables that say in words what its colours say.

They read the data of :mod:`schedperf.evidence.profile.flame_data` and nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.words.rows import count_of
from schedperf_reports.words.units import format_percent, format_points

Data = Mapping[str, Any]

# Callers that a table names of a frame.
MOST_CALLERS = 3
# Rows that a terminal shows of a list.
MOST_ROWS = 10

_FRAME = Column(title="frame", code=True)
_CALLERS = Column(title="called from", code=True, priority=2)
_OBJECT = Column(title="object", code=True, priority=3)


def describe_flames(events: Sequence[Data]) -> Iterator[Block]:
    """Yield, for each tree, the tables that need no scripting."""
    for event in events:
        if len(events) > 1:
            yield Text(text=name_of_tree(event), tone="strong")
        if len(event["labels"]) == 1:
            yield _table_of_hottest(event)
        else:
            yield from describe_changes(event)


def name_of_tree(event: Data) -> str:
    """Say which one of several trees this is."""
    return str(event["place"] or event["event"])


def runs_of_tree(event: Data) -> str:
    """Say what the intervals count: ``5 + 5 runs``."""
    counts = " + ".join(map(str, event["counts"]))
    several = event["independent"]
    return f"{counts} {several if counts != '1' else several.removesuffix('s')}"


def beyond_noise(event: Data) -> str:
    """Say what the change of a coloured frame is."""
    return "changed beyond noise" if event["took_turns"] else "changed beyond noise, or drifted"


def describe_changes(event: Data) -> Iterator[Block]:
    """Yield which frames changed, vanished and appeared between the sides of a tree."""
    if min(event["counts"]) == 1:
        several = event["independent"]
        yield Text(
            text=f"n = {runs_of_tree(event)}: no interval; record several {several}", tone="warning"
        )
    lists = event["lists"]
    if lists["changed"]:
        yield _table_of_changes(event)
    elif min(event["counts"]) > 1:
        yield Text(
            text=f"{event['event']}: no frame (a function on one call path) whose own time changed "
            "beyond noise"
        )
    for name, side, words in (
        ("vanished", "base", "only base has"),
        ("appeared", "new", "only new has"),
    ):
        if lists[name]:
            yield _table_of_one_side(event, name, side, words)


def _table_of_changes(event: Data) -> Table:
    lists, own = event["lists"], event["measures"][0]["self"]
    return Table(
        caption=(
            f"{event['event']}: {count_of(lists['counts']['changed'], 'frame')} (a function on one "
            f"call path) whose own time {beyond_noise(event)}, % of all time, change in "
            f"percentage points{_left_out(lists, 'changed')}"
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
                Cell(text=symbol_of(event, frame), tone="strong"),
                Cell(text=format_percent(own["base"][frame])),
                Cell(text=format_percent(own["new"][frame])),
                Cell(text=f"{own['new'][frame] - own['base'][frame]:+.2f}", tone="strong"),
                Cell(text=format_points(own["low"][frame], own["high"][frame])),
                Cell(text=f"{own['q'][frame]:.2g}"),
                *_where(event, frame),
            )
            for frame in lists["changed"]
        ),
        limit=MOST_ROWS,
    )


def _table_of_one_side(event: Data, name: str, side: str, words: str) -> Table:
    lists, inclusive = event["lists"], event["measures"][0]["inclusive"]
    has, has_not = event["counts"] if side == "base" else reversed(event["counts"])
    several = event["independent"]
    other = "new" if side == "base" else "base"
    return Table(
        caption=(
            f"{event['event']}: {count_of(lists['counts'][name], 'call path')} that {words} (in 0 "
            f"of {count_of(has_not, several.removesuffix('s'))} of {other}), with what it calls, "
            f"% of all time{_left_out(lists, name)}"
        ),
        columns=(
            _FRAME,
            Column(title=f"{side} %", align="right"),
            Column(title=f"in {several}", align="right"),
            _CALLERS,
            _OBJECT,
        ),
        rows=tuple(
            (
                Cell(text=symbol_of(event, frame)),
                Cell(text=format_percent(inclusive[side][frame])),
                Cell(text=f"{sampled} of {has}"),
                *_where(event, frame),
            )
            for frame, sampled in zip(lists[name], lists["sampled"][name], strict=True)
        ),
        limit=MOST_ROWS,
    )


def _table_of_hottest(event: Data) -> Table:
    own, inclusive = (event["measures"][0][extent]["base"] for extent in ("self", "inclusive"))
    return Table(
        caption=f"{event['event']}: frames with the most time of their own, % of all time",
        columns=(
            _FRAME,
            Column(title="self %", align="right"),
            Column(title="with callees %", align="right"),
            _CALLERS,
            _OBJECT,
        ),
        rows=tuple(
            (
                Cell(text=symbol_of(event, frame)),
                Cell(text=format_percent(own[frame])),
                Cell(text=format_percent(inclusive[frame])),
                *_where(event, frame),
            )
            for frame in event["lists"]["hottest"]
        ),
        limit=MOST_ROWS,
    )


def _left_out(lists: Data, name: str) -> str:
    hidden = lists["counts"][name] - len(lists[name])
    return f"; {hidden} smaller ones are left out" if hidden else ""


def symbol_of(event: Data, frame: int) -> str:
    """Return the function of a frame."""
    # The root and remainders, whose numbers are negative, are in no list and call nothing.
    return str(event["names"][event["name"][frame]]["symbol"])


def _where(event: Data, frame: int) -> tuple[Cell, Cell]:
    names: list[str] = []
    caller = event["parent"][frame]
    while caller > 0 and len(names) < MOST_CALLERS:
        names.append(symbol_of(event, caller))
        caller = event["parent"][caller]
    more = " < …" if caller > 0 else ""
    dso = event["names"][event["name"][frame]]["dso"]
    return Cell(text=" < ".join(names) + more), Cell(text=dso, tone="muted")
