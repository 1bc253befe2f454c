# SPDX-License-Identifier: GPL-2.0-or-later
"""Build tables of contended cache lines: two sides compared, or one side only."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from msgspec.structs import replace

from schedperf.evidence.c2c.record import (
    C2cChange,
    C2cLineRow,
    C2cPoint,
    C2cSampledLine,
    C2cSeen,
    C2cSource,
    Observable,
)
from schedperf.model.text import join_names
from schedperf_reports.blocks import REFERENCE_PRIORITY, Cell, Column, Table, Tone
from schedperf_reports.words.quantities import MISSING, format_number, format_p, format_share
from schedperf_reports.words.rows import count_of

# Rows that a terminal shows of the lines of a point: an even number, so that base and new have
# equally many.
MOST_ROWS = 10

_WORDS: Mapping[Observable, str] = {
    "hitm": "HITM",
    "ibs": "HITM",
    "peer": "peer snoop",
    "unknown": "HITM",
}
_RATE_COLUMNS = (
    Column(title="base", align="right"),
    Column(title="new", align="right"),
    Column(title="ratio", align="right"),
    Column(title="95% CI", align="right"),
    Column(title="q", align="right", priority=2),
    Column(title="detectable", align="right", priority=1),
    Column(title="samples", align="right", priority=REFERENCE_PRIORITY),
)
_COUNT_COLUMNS = (Column(title="base", align="right"), Column(title="new", align="right"))


def word_of(observables: Iterable[Observable]) -> str:
    """Return the term for a contended load; a generic one if the sides use different events."""
    seen = set(observables)
    return _WORDS[seen.pop()] if len(seen) == 1 else "contended load"


def per_operation(point: C2cPoint) -> str:
    """Return the denominator of the rates: ``per 1000 messages``, ``per run``.

    Return "per operation" if the unit of an operation is unknown.
    """
    if point.unit is None:
        return "per operation"
    return f"per {point.unit}" if point.per == 1 else f"per {point.per} {point.unit}s"


def totals_table(point: C2cPoint) -> Table:
    """Return the rates over all addresses; sample counts if rates are not compared."""
    word, totals = word_of(point.observable), point.totals
    return Table(
        caption=f"totals over all addresses, {measured(point)}",
        columns=(Column(title=""), *change_columns(point)),
        rows=(
            (Cell(text=f"remote {word}"), *change_cells(point, totals.remote)),
            (Cell(text=f"local {word}"), *change_cells(point, totals.local)),
            (Cell(text="stores"), *change_cells(point, totals.stores)),
        ),
    )


def measured(point: C2cPoint) -> str:
    """Return the unit of compared loads: the denominator of the rates, or "samples"."""
    return per_operation(point) if point.reason is None else "samples"


def change_columns(point: C2cPoint) -> tuple[Column, ...]:
    """Return the columns of a change; of sample counts only if rates are not compared."""
    return _RATE_COLUMNS if point.reason is None else _COUNT_COLUMNS


def lines_table(
    point: C2cPoint, lines: Sequence[C2cLineRow], limit: int | None = MOST_ROWS
) -> Table:
    """Return the table of lines: a row for the remote and one for the local loads of each line.

    Loads without samples have no row; a line without any samples has its row of remote loads.

    :param limit: rows that a terminal shows; None for all
    """
    rows, anchors = [], []
    for line in lines:
        for index, (name, change) in enumerate(_counted(line)):
            first = Cell(text=called(line), tone=_tone(line)) if not index else Cell(text="")
            facts = (_sharing(line), _copies(line), _place(line)) if not index else ("", "", "")
            rows.append(
                (first, Cell(text=name), *change_cells(point, change),
                 *(Cell(text=fact) for fact in facts))
            )  # fmt: skip
            anchors.append(line.row if not index else "")
    table = Table(
        caption=_lines_caption(point, lines),
        columns=(
            Column(title="line", code=True),
            Column(title="from"),
            *change_columns(point),
            Column(title="sharing", priority=3),
            Column(title="copies", align="right", priority=4),
            Column(title="address", priority=REFERENCE_PRIORITY, code=True),
        ),
        rows=tuple(rows),
        limit=limit,
        anchors=tuple(anchors),
    )
    return _without_blank(table)


def _lines_caption(point: C2cPoint, lines: Sequence[C2cLineRow]) -> str:
    word = word_of(point.observable)
    hidden = point.seen - sum(point.seen_unmatched) - len(lines)
    more = f"; {count_of(hidden, 'line')} with less contention omitted" if hidden > 0 else ""
    power = "; detectable: smallest detectable ratio with this number of runs (80% power)"
    return (
        f"{count_of(len(lines), 'contended line')}, {word} {measured(point)}"
        f"{power if point.reason is None else ''}{more}"
    )


def measures_of(line: C2cLineRow) -> tuple[tuple[str, C2cChange], ...]:
    """Return the changes of a line with their names: those of remote loads, then of local loads."""
    return ("remote", line.remote), ("local", line.local)


def _counted(line: C2cLineRow) -> Sequence[tuple[str, C2cChange]]:
    measures = measures_of(line)
    return [(name, change) for name, change in measures if any(change.samples)] or measures[:1]


def called(line: C2cLineRow) -> str:
    """Return the name of a line; its row id if the name is unknown."""
    return line.name or line.row


def _tone(line: C2cLineRow) -> Tone:
    changed = [change for _, change in measures_of(line) if change.changed]
    if not changed:
        return "plain"
    return "bad" if sum(change.difference or 0.0 for change in changed) > 0.0 else "good"


def side_by_side(lines: Sequence[C2cLineRow], most: int | None = None) -> list[C2cLineRow]:
    """Return lines that are not compared, alternating between base and new.

    :param most: maximum number of lines of each side; None for all
    """
    of_base = [line for line in lines if line.base is not None][:most]
    of_new = [line for line in lines if line.base is None][:most]
    pairs = zip_longest(of_base, of_new)
    return [line for pair in pairs for line in pair if line is not None]


def unmatched_table(
    point: C2cPoint, lines: Sequence[C2cLineRow], limit: int | None = MOST_ROWS
) -> Table:
    """Return the table of lines that are not compared.

    The other side may have them under another name, so their counts there are unknown.

    :param lines: lines in the order of :func:`side_by_side`
    :param limit: rows that a terminal shows; None for all
    """
    word = word_of(point.observable)
    hidden = sum(point.seen_unmatched) - len(lines)
    more = f"; {count_of(hidden, 'line')} with less contention omitted" if hidden > 0 else ""
    why = join_names(dict.fromkeys(line.unmatched for line in lines if line.unmatched))
    table = Table(
        caption=(
            f"{count_of(len(lines), 'contended line')} without a match on the other side ({why}); "
            f"cells: remote + local {word} samples{more}"
        ),
        columns=(
            Column(title="line", code=True),
            Column(title="base", align="right"),
            Column(title="new", align="right"),
            Column(title="change"),
            Column(title="sharing", priority=3),
            Column(title="copies", align="right", priority=4),
            Column(title="address", priority=REFERENCE_PRIORITY, code=True),
        ),
        rows=tuple(
            tuple(
                Cell(text=text)
                for text in (
                    called(line),
                    _alone(line.remote.samples.base, line.local.samples.base),
                    _alone(line.remote.samples.new, line.local.samples.new),
                    "not compared",
                    _sharing(line),
                    _copies(line),
                    _place(line),
                )
            )
            for line in lines
        ),
        limit=limit,
        anchors=tuple(line.row for line in lines),
    )
    return _without_blank(table)


def _alone(remote: int | None, local: int | None) -> str:
    return MISSING if remote is None or local is None else f"{remote}+{local}"


def _place(line: C2cLineRow) -> str:
    # A line without a name is called by its address.
    if line.name is None:
        return ""
    return " -> ".join(dict.fromkeys(seen.key for seen in line.seen))


def _sharing(line: C2cLineRow) -> str:
    return " -> ".join(dict.fromkeys(seen.sharing or MISSING for seen in line.seen))


def _copies(line: C2cLineRow) -> str:
    copies = [seen.copies for seen in line.seen if seen.copies is not None]
    return str(max(copies)) if len(copies) == len(line.seen) else MISSING


def change_cells(point: C2cPoint, change: C2cChange) -> tuple[Cell, ...]:
    """Return the cells of a change, in the order of :func:`change_columns`."""
    counts = change.samples
    if point.reason is not None:
        return tuple(Cell(text=format_count(count)) for count in counts)
    tone: Tone = "plain"
    if change.changed:
        tone = "bad" if (change.difference or 0.0) > 0.0 else "good"
    return (
        Cell(text=format_rate(change.base)),
        Cell(text=format_rate(change.new)),
        Cell(text=_ratio(change.ratio), tone=tone),
        Cell(text=format_interval(change)),
        Cell(text=format_p(change.q)),
        Cell(text=_ratio(change.least_ratio)),
        Cell(text=f"{counts.base}+{counts.new}"),
    )


def format_rate(value: float | None) -> str:
    """Format a number with three significant digits; "-" for None."""
    return MISSING if value is None else format_number(float(f"{value:.3g}"))


def _ratio(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}"


def format_interval(change: C2cChange) -> str:
    """Format the 95% CI of a ratio; "-" if there is none."""
    if change.ratio_low is None:
        return MISSING
    return f"[{_ratio(change.ratio_low)}, {_ratio(change.ratio_high)}]"


def seen_table(source: C2cSource, lines: Sequence[C2cSampledLine]) -> Table:
    """Return the table of some lines of one source, which is not compared."""
    hidden = len(source.lines) - len(lines)
    more = f"; {count_of(hidden, 'more line')} with --limit or --json" if hidden > 0 else ""
    table = Table(
        caption=f"{count_of(len(lines), 'line')}, samples{_twice(lines)}{more}",
        columns=(
            Column(title="line", code=True),
            Column(title="remote", align="right"),
            Column(title="local", align="right"),
            Column(title="stores", align="right", priority=1),
            Column(title="records", align="right", priority=1),
            Column(title="twice", align="right", priority=1),
            Column(title="sharing"),
            Column(title="copies", align="right", priority=2),
            Column(title="address", priority=3, code=True),
        ),
        rows=tuple(
            (
                Cell(text=line.name or line.key),
                Cell(text=str(line.remote)),
                Cell(text=str(line.local)),
                Cell(text=str(line.stores)),
                Cell(text=str(line.records)),
                Cell(text=format_count(line.double_counted)),
                Cell(text=_sharing_alone(line)),
                Cell(text=format_count(line.copies)),
                Cell(text=line.key if line.name else ""),
            )
            for line in lines
        ),
    )
    return _without_blank(table)


def _twice(lines: Sequence[C2cSeen]) -> str:
    if not any(line.double_counted for line in lines):
        return ""
    return "; records: as in perf c2c; twice: number of records that perf c2c counts twice"


def format_count(value: int | None) -> str:
    """Format a count; "-" if the source does not record it."""
    return MISSING if value is None else str(value)


def _sharing_alone(line: C2cSeen) -> str:
    if line.sharing is None:
        return "unknown"
    if line.sharing == "mixed":
        return f"mixed, {format_share(line.false_share)} false"
    return line.sharing


def _without_blank(table: Table) -> Table:
    # Drop empty columns, such as the addresses of lines that are called by their address.
    kept = [
        index for index in range(len(table.columns)) if any(row[index].text for row in table.rows)
    ]
    return replace(
        table,
        columns=tuple(table.columns[index] for index in kept),
        rows=tuple(tuple(row[index] for index in kept) for row in table.rows),
    )
