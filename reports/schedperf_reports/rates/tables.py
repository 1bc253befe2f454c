# SPDX-License-Identifier: GPL-2.0-or-later
"""Build tables of compared rates: a caption with the finding, marks on changes, and notes.

Rows are those of :class:`schedperf.model.counted.RateRow`. A section provides the names of its rows
and further details; everything else is shared.
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
    explain_gaps,
    is_invalid,
    move_n_to_caption,
    per_cell,
    quiet_rows,
    rank,
    runs_cell,
    tone_of,
)
from schedperf_reports.rates.details import opened
from schedperf_reports.words.rows import count_changes, count_of

Row = TypeVar("Row", bound=RateRow)

# Number of changes that a caption lists; the table starts with all of them.
MOST_NAMED = 3
# Maximum number of notes; further ones repeat these.
MOST_NOTES = 5


class Rates(Struct, Generic[Row], frozen=True, kw_only=True):
    """The properties of a section's rows.

    :param first: the column with the names of the rows
    :param name: function that returns the name of a row
    :param about: function that returns the explanation of a row; "" if the name is enough
    :param more: additional columns after all others
    :param more_cells: function that returns the cells of a row in these columns
    :param kind: function that names the rows that are tested together with a row, if their basis is
        the same
    :param small: function that returns why a row is too small to count as a change; "" if it is not
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

        :param subject: beginning of the caption, as in :func:`state_changes`
        :param limit: rows that a terminal shows; None for all
        :param least: number of first rows that a page shows even if they did not change
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
        return move_n_to_caption(table)

    def blocks(self, subject: str, rows: Sequence[Shown[Row]], most: int) -> Iterator[Block]:
        """Yield the table, and why its first rows lack an interval.

        :param most: number of rows that a terminal shows
        """
        yield self.table(subject, rows, limit=most, least=most)
        yield from explain_gaps([each.row for each in rows[:most]])

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
    """Return a caption: subject, number of significant changes, and the largest changes.

    Changes of the workload come first.

    ::

        sleep 1, new vs base: 2 of 14 rows changed significantly: softirqs TIMER +17.1%, …

    Without rows that are compared, the caption is the subject.

    :param subject: subject; "" if the section states it
    :param rows: rows of one table; rows of one side only, or that must not be compared, are ignored
    """
    compared = [shown for shown in rows if _is_known(shown.row)]
    if not compared:
        return subject
    changed = sorted(
        (shown for shown in compared if shown.row.changed), key=lambda shown: rank(shown.row)
    )
    named = [f"{name(shown.row)} {_size_of(shown)}" for shown in changed[:MOST_NAMED]]
    if len(changed) > MOST_NAMED:
        named.append(f"{len(changed) - MOST_NAMED} more")
    parts = (subject, count_changes([shown.row for shown in compared]), ", ".join(named))
    return ": ".join(part for part in parts if part)


def _is_known(row: RateRow) -> bool:
    return bool(row.n_new) and not is_invalid(row)


def _size_of(shown: Shown[RateRow]) -> str:
    # A change from 0 in percent is undefined.
    if shown.row.ratio:
        return change_of(shown.row)
    return " -> ".join(describe_rate(shown)[1:])


def by_point(rows: Iterable[Row]) -> dict[tuple[str, str, str], list[Row]]:
    """Group rows by side, workload and point, in their order."""
    points: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        points.setdefault((row.side, row.workload, row.point), []).append(row)
    return points


def by_subject(rows: Iterable[Row]) -> Iterator[tuple[tuple[str, str, str], str, list[Row]]]:
    """Yield (side, workload, point), the beginning of its captions, and its rows.

    The beginning is "" if there is only one point and side, and a row of it is compared.
    """
    points = by_point(rows)
    for key, members in points.items():
        side, workload, point = key
        is_plain = len(points) == 1 and any(map(_is_known, members))
        subject = f"{name_point(workload, point)}, {side} vs base"
        yield key, "" if is_plain else subject, members


def titled(subject: str, title: str) -> str:
    """Prefix a caption with a subject, such as workload and point; "" for no prefix."""
    return f"{subject}: {title}" if subject else title


def name_point(workload: str, point: str) -> str:
    """Format workload and point: ``hackbench -g 4 at groups=4``."""
    return f"{workload} at {point}" if point else workload


def notes_below(notes: Sequence[str]) -> Iterator[Text]:
    """Yield the first ``MOST_NOTES`` notes as warnings, and the number of further notes."""
    for note in notes[:MOST_NOTES]:
        yield Text(text=note, tone="warning")
    if len(notes) > MOST_NOTES:
        yield Text(text=count_of(len(notes) - MOST_NOTES, "more note"), tone="warning")
