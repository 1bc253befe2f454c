# SPDX-License-Identifier: GPL-2.0-or-later
"""Shorten the lists of a layout comparison for the record of ``schedperf compare``."""

from msgspec.structs import replace

from schedperf.evidence.layout.record import (
    MOST_LISTED,
    Layout,
    LayoutAdjacent,
    LayoutAlarm,
    LayoutCause,
    LayoutComparison,
    LayoutEdit,
    LayoutEntryChange,
    LayoutUnit,
)

# Largest number of listed entries on the lines of an entry, per side: two full 64-byte lines of
# pointers.
MOST_MATES = 16


def shorten(layout: Layout) -> Layout:
    """Return a layout with at most :data:`MOST_LISTED` changes in each list.

    The entries that an entry lost or gained as neighbours on its lines are limited to
    :data:`MOST_MATES`. Counts stay. Windows, advice, hot sets and notes are not shortened.
    """
    return replace(layout, comparisons=tuple(map(_shorten_comparison, layout.comparisons)))


def _shorten_comparison(compared: LayoutComparison) -> LayoutComparison:
    return replace(
        compared,
        alarms=tuple(map(_shorten_alarm, compared.alarms[:MOST_LISTED])),
        units=tuple(map(_shorten_unit, compared.units)),
    )


def _shorten_unit(unit: LayoutUnit) -> LayoutUnit:
    return replace(
        unit,
        separated=unit.separated[:MOST_LISTED],
        joined=unit.joined[:MOST_LISTED],
        entries=tuple(map(_shorten_entry, unit.entries[:MOST_LISTED])),
        added=unit.added[:MOST_LISTED],
        removed=unit.removed[:MOST_LISTED],
        renamed=unit.renamed[:MOST_LISTED],
        resized=unit.resized[:MOST_LISTED],
        only_read=unit.only_read[:MOST_LISTED],
        causes=tuple(map(_shorten_cause, unit.causes[:MOST_LISTED])),
        unknown_heat=unit.unknown_heat[:MOST_LISTED],
        quiet=unit.quiet[:MOST_LISTED],
        adjacent=None if unit.adjacent is None else _shorten_adjacent(unit.adjacent),
    )


def _shorten_entry(entry: LayoutEntryChange) -> LayoutEntryChange:
    return replace(entry, lost=entry.lost[:MOST_MATES], gained=entry.gained[:MOST_MATES])


def _shorten_adjacent(adjacent: LayoutAdjacent) -> LayoutAdjacent:
    return replace(
        adjacent,
        still_together=adjacent.still_together[:MOST_LISTED],
        parted=adjacent.parted[:MOST_LISTED],
    )


def _shorten_alarm(alarm: LayoutAlarm) -> LayoutAlarm:
    return replace(
        alarm,
        pairs=alarm.pairs[:MOST_LISTED],
        entries=alarm.entries[:MOST_LISTED],
        cause=None if alarm.cause is None else _shorten_cause(alarm.cause),
    )


def _shorten_cause(cause: LayoutCause) -> LayoutCause:
    return replace(
        cause,
        edits=tuple(map(_shorten_edit, cause.edits[:MOST_LISTED])),
        together_with=cause.together_with[:MOST_LISTED],
        alternatives=cause.alternatives[:MOST_LISTED],
        separated=cause.separated[:MOST_LISTED],
        joined=cause.joined[:MOST_LISTED],
        by_entry_alone=cause.by_entry_alone[:MOST_LISTED],
    )


def _shorten_edit(edit: LayoutEdit) -> LayoutEdit:
    return replace(edit, entries=edit.entries[:MOST_LISTED])
