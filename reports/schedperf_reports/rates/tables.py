# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of compared rates: a caption that states the finding, a mark on what changed, and notes.

Rows are those of :class:`schedperf.model.counted.RateRow`. A section says what
its rows are called and what it knows besides; all else is the same in each of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from schedperf.model.counted import RateRow
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.rates.cells import (
    NO_DIRECTION,
    PER_COLUMN,
    QUIET_WORD,
    RUNS_COLUMN,
    Shown,
    change_of,
    compared_cells,
    compared_columns,
    describe_rate,
    distance,
    is_invalid,
    per_cell,
    quiet_rows,
    runs_cell,
    say_runs_once,
    tone_of,
)
from schedperf_reports.rates.details import opened
from schedperf_reports.words.rows import count_changes, count_of

Row = TypeVar("Row", bound=RateRow)

# What a caption names of what changed; the table has all of it first.
MOST_NAMED = 3
# More notes than these repeat each other.
MOST_NOTES = 5


class Rates(Struct, Generic[Row], frozen=True, kw_only=True):
    """What a section knows of its rows.

    :param first: the column that names them
    :param name: of a row
    :param about: what a row opens to, in words; "" where its name says it
    :param more: columns behind all others, with their cells
    :param kind: rows that are tested together with a row, if their basis is the same
    :param small: why a row is too small to count as a change; "" where it is not
    :param direction: which direction is better, in words
    """

    first: Column
    name: Callable[[Row], str]
    about: Callable[[Row], str]
    more: tuple[Column, ...] = ()
    more_cells: Callable[[Row], tuple[Cell, ...]] = lambda _: ()
    kind: Callable[[Row], str] = lambda _: "rows of this section"
    small: Callable[[Row], str] = lambda _: ""
    direction: str = NO_DIRECTION

    def table(
        self, subject: str, shown: Sequence[Shown[Row]], *, limit: int | None, least: int
    ) -> Table:
        """Return the table of two compared sides.

        :param subject: whose rates these are
        :param limit: rows that a terminal shows
        :param least: rows that a page shows where nothing changed
        """
        rows = [item.row for item in shown]
        table = Table(
            caption=state_changes(subject, shown, self.name),
            columns=(
                self.first,
                PER_COLUMN,
                *compared_columns(self.direction),
                RUNS_COLUMN,
                *self.more,
            ),
            rows=tuple(map(self._cells, shown)),
            limit=limit,
            anchors=tuple(row.row for row in rows),
            quiet=quiet_rows(rows, least),
            quiet_word=QUIET_WORD,
            details=tuple(map(self._details, shown)),
        )
        return say_runs_once(table)

    def _details(self, shown: Shown[Row]) -> tuple[Block, ...]:
        row = shown.row
        return opened(shown, self.about(row), kind=self.kind(row), small=self.small(row))

    def _cells(self, shown: Shown[Row]) -> tuple[Cell, ...]:
        row = shown.row
        return (
            Cell(text=self.name(row), tone=tone_of(row)),
            per_cell(shown),
            *compared_cells(shown),
            runs_cell(row),
            *self.more_cells(row),
        )


def state_changes(subject: str, rows: Iterable[Shown[Row]], name: Callable[[Row], str]) -> str:
    """Return a caption: the subject, how many rates changed significantly, and the largest changes.

    ::

        sleep 1, new vs base: 2 of 14 rows changed significantly: softirqs TIMER +17.1%, …

    :param subject: "" where the section says it
    :param rows: of one table; those of one side alone, and those that are not to be compared,
        have nothing to state
    """
    compared = [shown for shown in rows if _is_known(shown.row)]
    if not compared:
        return subject
    changed = sorted(
        (shown for shown in compared if shown.row.changed), key=lambda shown: distance(shown.row)
    )
    named = [f"{name(shown.row)} {_size_of(shown)}" for shown in changed[:MOST_NAMED]]
    if len(changed) > MOST_NAMED:
        named.append(f"{len(changed) - MOST_NAMED} more")
    parts = (subject, count_changes([shown.row for shown in compared]), ", ".join(named))
    return ": ".join(part for part in parts if part)


def _is_known(row: RateRow) -> bool:
    return bool(row.n_new) and not is_invalid(row)


def _size_of(shown: Shown[RateRow]) -> str:
    # From 0 a change in per cent is undefined.
    if shown.row.ratio:
        return change_of(shown.row)
    return " -> ".join(describe_rate(shown)[1:])


def by_point(rows: Iterable[Row]) -> dict[tuple[str, str, str], list[Row]]:
    """Return the rows of each side, workload and point, in their order."""
    points: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        points.setdefault((row.side, row.workload, row.point), []).append(row)
    return points


def by_subject(rows: Iterable[Row]) -> Iterator[tuple[tuple[str, str, str], str, list[Row]]]:
    """Yield side, workload and point, what captions of their rows begin with, and these rows.

    The beginning is "" if there is only one subject and the caption states its changes.
    """
    points = by_point(rows)
    for key, members in points.items():
        side, workload, point = key
        is_plain = len(points) == 1 and any(map(_is_known, members))
        subject = f"{name_point(workload, point)}, {side} vs base"
        yield key, "" if is_plain else subject, members


def titled(subject: str, title: str) -> str:
    """Put workload and point in front of a caption where there are several."""
    return f"{subject}: {title}" if subject else title


def name_point(workload: str, point: str) -> str:
    """Say what was run: ``hackbench -g 4 at groups=4``."""
    return f"{workload} at {point}" if point else workload


def notes_below(notes: Sequence[str]) -> Iterator[Text]:
    """Yield what the tables above cannot say, and how much more there is of it."""
    for note in notes[:MOST_NOTES]:
        yield Text(text=note, tone="warning")
    if len(notes) > MOST_NOTES:
        yield Text(text=count_of(len(notes) - MOST_NOTES, "more note"), tone="warning")
