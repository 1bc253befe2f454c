"""Tables of the PELT updates: calls, calls by context, durations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from schedperf_reports._units import (
    MISSING,
    format_change,
    format_interval,
    format_number,
    scale_for,
)
from schedperf_reports.blocks import REFERENCE_PRIORITY, Cell, Column, Table, Tone

Row = Mapping[str, Any]

# A terminal shows so many; the page has all of them.
MOST_ROWS = 12
# Best first; places are shown for the best that is known.
PER = ("wakeup", "operation", "second")
DURATIONS = {"mean": "mean", "p50": "median", "p99": "99 %"}
# A share below it needs more digits than two behind the point.
SMALLEST_SHARE = 0.001

_COMPARED = (
    Column(title="base", align="right"),
    Column(title="new", align="right"),
    Column(title="change", align="right"),
    Column(title="95 % CI", align="right", priority=1),
)
_RUNS = Column(title="n", align="right", priority=REFERENCE_PRIORITY)
_FUNCTION = Column(title="function", code=True)


def calls_table(rows: Sequence[Row], caption: str) -> Table:
    """Return the calls of each function on all CPUs."""
    return _table(
        caption,
        (_FUNCTION, Column(title="per"), *_COMPARED, _RUNS),
        [row for row in rows if row["what"] == "calls" and not _place(row)],
        lambda row: (row["function"], _per(row), *_changes(row), _runs(row)),
    )


def places_table(rows: Sequence[Row], caption: str) -> Table | None:
    """Return the calls of each function by node and by context; None where neither is known."""
    found = [row for row in rows if row["what"] == "calls" and _place(row)]
    best = next((per for per in PER if any(row["per"] == per for row in found)), None)
    chosen = [row for row in found if row["per"] == best]
    if not chosen:
        return None
    return _table(
        f"{caption}, calls per {_per(chosen[0])} by node and by context",
        (_FUNCTION, Column(title="where"), *_COMPARED, _RUNS),
        sorted(chosen, key=lambda row: not row["changed"]),
        lambda row: (row["function"], _place(row), *_changes(row), _runs(row)),
    )


def _place(row: Row) -> str:
    return str(row["context"]) if row["node"] is None else f"node {row['node']}"


def durations_table(rows: Sequence[Row], caption: str) -> Table | None:
    """Return what a call takes; None where no call was timed."""
    timed = [row for row in rows if row["what"] in DURATIONS and row["node"] is None]
    if not timed:
        return None
    return _table(
        caption,
        (
            _FUNCTION,
            Column(title="call"),
            *_COMPARED,
            Column(title="as read", align="right", priority=2),
            Column(title="resolution", align="right", priority=3),
            _RUNS,
        ),
        timed,
        lambda row: (
            row["function"],
            DURATIONS[row["what"]],
            *_changes(row),
            _as_read(row),
            _resolution(row),
            _runs(row),
        ),
    )


def shares_table(rows: Sequence[Row], caption: str) -> Table:
    """Return which part of the CPUs' time went into each function, with the nodes' extremes."""
    shares = [row for row in rows if row["what"] == "share"]
    has_nodes = any(row["node"] is not None for row in shares)
    # Where there are nodes, what they have is the point, and a narrow page has room for that only.
    base, new, change, interval = _COMPARED
    nodes = (
        Column(title="base by node", align="right"),
        Column(title="new by node", align="right"),
    )
    compared = (replace(base, priority=2), replace(new, priority=2), change, interval)
    return _table(
        caption,
        (_FUNCTION, *compared, *nodes, _RUNS) if has_nodes else (_FUNCTION, *_COMPARED, _RUNS),
        [row for row in shares if row["node"] is None],
        lambda row: (
            row["function"],
            *_changes(row),
            *(_ranges(row, shares) if has_nodes else ()),
            _runs(row),
        ),
    )


def _table(
    caption: str,
    columns: tuple[Column, ...],
    rows: Sequence[Row],
    describe: Callable[[Row], tuple[str, ...]],
) -> Table:
    # What is said of several rows is said below the first one only.
    told: set[str] = set()
    cells: list[tuple[Cell, ...]] = []
    anchors: list[str] = []
    for row in rows:
        tone: Tone = "strong" if row["changed"] else "plain"
        cells.append(tuple(Cell(text=text, tone=tone) for text in describe(row)))
        anchors.append(row["row"])
        for note in _notes(row):
            if note not in told:
                told.add(note)
                cells.append(
                    (Cell(text=note, tone="warning"), *[Cell(text="")] * (len(columns) - 1))
                )
                anchors.append("")
    return Table(
        caption=caption,
        columns=columns,
        rows=tuple(cells),
        limit=MOST_ROWS,
        anchors=tuple(anchors),
    )


def _notes(row: Row) -> Iterator[str]:
    if row["status"] == "invalid":
        yield f"{row['function']}: invalid, not compared: {row['reason']}"
    yield from row["remarks"]


def _per(row: Row) -> str:
    unit = str(row["unit"]).partition("/")[2]
    return {"s": "second"}.get(unit, unit)


def _write(row: Row, value: float | None) -> str:
    if value is None:
        return MISSING
    if row["what"] == "share":
        return f"{_percent(value)} %"
    if row["what"] == "calls":
        return format_number(value)
    scale = scale_for("s", row["base"], row["new"])
    return f"{scale.format(value)} {scale.unit}"


def _percent(share: float) -> str:
    percent = 100.0 * share
    return f"{percent:.2f}" if abs(share) >= SMALLEST_SHARE else f"{percent:.2g}"


def _changes(row: Row) -> tuple[str, ...]:
    return (
        _write(row, row["base"]),
        _write(row, row["new"]),
        format_change(row["ratio"]),
        format_interval(row["ci_low"], row["ci_high"]),
    )


def _ranges(row: Row, shares: Sequence[Row]) -> tuple[str, ...]:
    # The least and the largest of a node, as "12.68 - 20.22 %".
    nodes = [
        one for one in shares if one["node"] is not None and one["function"] == row["function"]
    ]
    found = []
    for side in ("base", "new"):
        values = [one[side] for one in nodes if one[side] is not None]
        ends = f"{_percent(min(values))} - {_percent(max(values))} %" if values else MISSING
        found.append(ends)
    return tuple(found)


def _as_read(row: Row) -> str:
    if row["read_base"] is None and row["read_new"] is None:
        return MISSING
    return f"{_write(row, row['read_base'])}, {_write(row, row['read_new'])}"


def _resolution(row: Row) -> str:
    widths = [row[f"resolution_{side}"] for side in ("base", "new")]
    known = [width for width in widths if width is not None]
    if not known:
        return MISSING
    scale = scale_for("s", max(known))
    return f"{scale.format(max(known))} {scale.unit}"


def _runs(row: Row) -> str:
    return f"{row['n_base']} + {row['n_new']}"
