"""Tables of compared rates: a caption that states the finding, a mark on what changed, and notes.

Rows are those that :data:`schedperf.runs.captured.RATE_FIELDS` describes. A section says what
its rows are called and what it knows besides; all else is the same in each of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.rates.cells import (
    COMPARED,
    PER_COLUMN,
    QUIET_WORD,
    RUNS_COLUMN,
    change_of,
    compared_cells,
    describe_rate,
    distance,
    per_cell,
    quiet_rows,
    runs_cell,
    say_runs_once,
    tone_of,
)
from schedperf_reports.rates.details import opened
from schedperf_reports.words.rows import count_changes, count_of

Row = Mapping[str, Any]
# A row, and those that say the same per something else.
Pair = tuple[Row, tuple[Row, ...]]

# What a caption names of what changed; the table has all of it first.
MOST_NAMED = 3
# More notes than these repeat each other.
MOST_NOTES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """What a section knows of its rows.

    :param first: the column that names them
    :param name: of a row
    :param about: what a row opens to, in words; "" where its name says it
    :param more: columns behind all others, with their cells
    :param kind: rows that are tested together with a row, if their basis is the same
    :param small: why a row is no change however sure it is; "" where it may be one
    """

    first: Column
    name: Callable[[Row], str]
    about: Callable[[Row], str]
    more: tuple[Column, ...] = ()
    more_cells: Callable[[Row], tuple[Cell, ...]] = lambda _: ()
    kind: Callable[[Row], str] = lambda _: "rows of this section"
    small: Callable[[Row], str] = lambda _: ""

    def table(self, subject: str, pairs: Sequence[Pair], *, limit: int | None, least: int) -> Table:
        """Return the table of two compared sides.

        :param subject: whose rates these are
        :param limit: rows that a terminal shows
        :param least: rows that a page shows where nothing changed
        """
        rows = [row for row, _ in pairs]
        table = Table(
            caption=state_changes(subject, rows, self.name),
            columns=(self.first, PER_COLUMN, *COMPARED, RUNS_COLUMN, *self.more),
            rows=tuple(map(self._cells, rows)),
            limit=limit,
            anchors=tuple(row["row"] for row in rows),
            quiet=quiet_rows(rows, least),
            quiet_word=QUIET_WORD,
            details=tuple(self._details(row, twins) for row, twins in pairs),
        )
        return say_runs_once(table)

    def _details(self, row: Row, twins: Sequence[Row]) -> tuple[Block, ...]:
        return opened(row, twins, self.about(row), kind=self.kind(row), small=self.small(row))

    def _cells(self, row: Row) -> tuple[Cell, ...]:
        return (
            Cell(text=self.name(row), tone=tone_of(row)),
            per_cell(row),
            *compared_cells(row),
            runs_cell(row),
            *self.more_cells(row),
        )


def state_changes(subject: str, rows: Iterable[Row], name: Callable[[Row], str]) -> str:
    """Return a caption: whose rates, how many of them changed beyond noise, and the largest ones.

    ::

        sleep 1, base against new: 2 of 14 rows changed beyond noise: softirqs TIMER +17.1 %, …

    :param subject: "" where the section says it
    :param rows: of one table; those of one side alone, and those that are not to be compared,
        have nothing to state
    """
    known = list(filter(_is_known, rows))
    if not known:
        return subject
    changed = sorted((row for row in known if row["changed"]), key=distance)
    named = [f"{name(row)} {_size_of(row)}" for row in changed[:MOST_NAMED]]
    if len(changed) > MOST_NAMED:
        named.append(f"{len(changed) - MOST_NAMED} more")
    parts = (subject, count_changes(known), ", ".join(named))
    return ": ".join(part for part in parts if part)


def _is_known(row: Row) -> bool:
    return bool(row["n_new"]) and row.get("status") != "invalid"


def _size_of(row: Row) -> str:
    # From nothing there is no change in per cent.
    return change_of(row) if row["ratio"] else " -> ".join(describe_rate(row)[1:])


def by_place(rows: Iterable[Row]) -> dict[tuple[str, str, str], list[Row]]:
    """Return the rows of each side, workload and point, in their order."""
    places: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        places.setdefault((row["side"], row["workload"], row["point"]), []).append(row)
    return places


def by_subject(rows: Iterable[Row]) -> Iterator[tuple[tuple[str, str, str], str, list[Row]]]:
    """Yield side, workload and point, what captions of their rows begin with, and these rows.

    Captions begin with "" where there is nothing to tell apart and they have a finding to state.
    """
    places = by_place(rows)
    for place, found in places.items():
        side, workload, point = place
        is_plain = len(places) == 1 and any(map(_is_known, found))
        subject = f"{name_place(workload, point)}, base against {side}"
        yield place, "" if is_plain else subject, found


def titled(subject: str, title: str) -> str:
    """Put workload and point in front of a caption where there are several."""
    return f"{subject}: {title}" if subject else title


def name_place(workload: str, point: str) -> str:
    """Say what was run: ``hackbench -g 4 at groups=4``."""
    return f"{workload} at {point}" if point else workload


def notes_below(notes: Sequence[str]) -> Iterator[Text]:
    """Yield what the tables above cannot say, and how much more there is of it."""
    for note in notes[:MOST_NOTES]:
        yield Text(text=note, tone="warning")
    if len(notes) > MOST_NOTES:
        yield Text(text=count_of(len(notes) - MOST_NOTES, "more note"), tone="warning")
