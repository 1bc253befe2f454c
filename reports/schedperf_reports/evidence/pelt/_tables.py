"""Tables of the PELT updates: calls, calls by context, durations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from schedperf_reports.blocks import Block, Cell, Column, Table
from schedperf_reports.rates.cells import (
    COMPARED,
    QUIET_WORD,
    RUNS_COLUMN,
    compared_cells,
    describe_rate,
    gather_twins,
    runs_cell,
    say_runs_once,
    tone_of,
)
from schedperf_reports.rates.details import opened
from schedperf_reports.rates.tables import Pair, state_changes, titled
from schedperf_reports.words.units import MISSING, scale_for

Row = Mapping[str, Any]

# A terminal shows so many; the page has all of them.
MOST_ROWS = 12
# Best first; places are shown for the best that is known.
PER = ("wakeup", "operation", "second")
DURATIONS = {"mean": "mean", "p50": "median", "p99": "99 %"}
# A share below it needs more digits than two behind the point.
SMALLEST_SHARE = 0.001

# Of calls, what they are divided by: "share" is of two counts of the run.
BASES = {"wakeup": "share", "operation": "operation", "second": "time", "": "share"}
# Rows of nodes and contexts that a page shows where none changed.
LEAST_SHOWN = 5

_FUNCTION = Column(title="function", code=True)


def with_basis(row: Row) -> Row:
    """Return the row as those of other sections are, so that its cells are made as theirs."""
    return {**row, "basis": BASES[row["per"]]}


def name_of(row: Row) -> str:
    """Say what a row is of: ``update_cfs_group, mean of a call``."""
    what = "calls" if row["what"] == "calls" else "share of CPU time"
    what = f"{DURATIONS[row['what']]} of a call" if row["what"] in DURATIONS else what
    place = _place(row)
    return f"{row['function']}, {what}{f', {place}' if place else ''}"


def calls_table(rows: Sequence[Row], caption: str) -> Table:
    """Return the calls of each function on all CPUs."""
    calls = [row for row in rows if row["what"] == "calls" and not _place(row)]
    return _table(
        caption,
        (_FUNCTION, Column(title="per"), *COMPARED, RUNS_COLUMN),
        gather_twins(calls),
        lambda row: (row["function"], describe_rate(row)[0], *_changes(row), runs_cell(row)),
    )


def places_table(rows: Sequence[Row], subject: str) -> Table | None:
    """Return the calls of each function by node and by context; None where neither is known.

    :param subject: what the caption begins with; ""
    """
    found = [row for row in rows if row["what"] == "calls" and _place(row)]
    best = next((per for per in PER if any(row["per"] == per for row in found)), None)
    chosen = [row for row in found if row["per"] == best]
    if not chosen:
        return None
    table = _table(
        titled(subject, f"calls per {best} by node and by context"),
        (_FUNCTION, Column(title="where"), *COMPARED, RUNS_COLUMN),
        [(row, ()) for row in sorted(chosen, key=lambda row: not row["changed"])],
        lambda row: (row["function"], _place(row), *_changes(row), runs_cell(row)),
    )
    quiet = [
        place >= LEAST_SHOWN and is_plain
        for place, is_plain in enumerate(row[0].tone != "strong" for row in table.rows)
    ]
    return replace(table, quiet=tuple(quiet), quiet_word=QUIET_WORD)


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
            *COMPARED,
            Column(title="as read", align="right", priority=2),
            Column(title="resolution", align="right", priority=3),
            RUNS_COLUMN,
        ),
        [(row, ()) for row in timed],
        lambda row: (
            row["function"],
            DURATIONS[row["what"]],
            *_changes(row),
            _as_read(row),
            _resolution(row),
            runs_cell(row),
        ),
    )


def shares_table(rows: Sequence[Row], caption: str) -> Table:
    """Return which part of the CPUs' time went into each function, with the nodes' extremes."""
    shares = [row for row in rows if row["what"] == "share"]
    has_nodes = any(row["node"] is not None for row in shares)
    # Where there are nodes, what they have is the point; a narrow page has room for that of new.
    base, new, change, interval = COMPARED
    nodes = (
        Column(title="base by node", align="right", priority=1),
        Column(title="new by node", align="right"),
    )
    compared = (replace(base, priority=2), replace(new, priority=2), change, interval)
    return _table(
        caption,
        (
            _FUNCTION,
            *(compared if has_nodes else COMPARED),
            *(nodes if has_nodes else ()),
            RUNS_COLUMN,
        ),
        [(row, ()) for row in shares if row["node"] is None],
        lambda row: (
            row["function"],
            *_changes(row),
            *(_ranges(row, shares) if has_nodes else ()),
            runs_cell(row),
        ),
    )


def _kind(row: Row) -> str:
    if row["context"]:
        return "rows of calls by context"
    return f"rows of {'calls' if row['what'] == 'calls' else 'durations'}"


def _table(
    caption: str,
    columns: tuple[Column, ...],
    pairs: Sequence[Pair],
    describe: Callable[[Row], tuple[str | Cell, ...]],
) -> Table:
    # What is said of several rows is said below the first one only.
    told: set[str] = set()
    lines: list[tuple[tuple[Cell, ...], str, tuple[Block, ...]]] = []
    for row, twins in pairs:
        cells = [
            one if isinstance(one, Cell) else Cell(text=one, tone=tone_of(row))
            for one in describe(row)
        ]
        lines.append((tuple(cells), row["row"], opened(row, twins, kind=_kind(row))))
        for note in _notes(row):
            if note not in told:
                told.add(note)
                rest = [Cell(text="")] * (len(columns) - 1)
                lines.append(((Cell(text=note, tone="warning"), *rest), "", ()))
    table = Table(
        caption=state_changes(caption, [row for row, _ in pairs], name_of),
        columns=columns,
        rows=tuple(cells for cells, _, _ in lines),
        limit=MOST_ROWS,
        anchors=tuple(anchor for _, anchor, _ in lines),
        details=tuple(details for _, _, details in lines),
    )
    return say_runs_once(table)


def _notes(row: Row) -> Iterator[str]:
    if row["status"] == "invalid":
        yield f"{row['function']}: invalid, not compared: {row['reason']}"
    yield from row["remarks"]


def _write(row: Row, value: float | None) -> str:
    # A share of the CPUs' time is small, so it needs more digits than others.
    if value is None:
        return MISSING
    if row["what"] == "share":
        return f"{_percent(value)} %"
    scale = scale_for("s", row["base"], row["new"])
    return f"{scale.format(value)} {scale.unit}"


def _percent(share: float) -> str:
    percent = 100.0 * share
    return f"{percent:.2f}" if abs(share) >= SMALLEST_SHARE else f"{percent:.2g}"


def _changes(row: Row) -> tuple[Cell, ...]:
    if row["what"] == "share":
        return compared_cells(row, (_write(row, row["base"]), _write(row, row["new"])))
    return compared_cells(row)


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
