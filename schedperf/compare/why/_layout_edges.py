"""Which change of the layout goes with a line that bounces more, or less, than before."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from schedperf.evidence.c2c.entries import entries_of
from schedperf.evidence.c2c.record import C2cLineRow
from schedperf.evidence.layout.heat import heat_table
from schedperf.evidence.layout.record import LayoutAlarm, LayoutComparison, LayoutUnit


class LayoutEdge(NamedTuple):
    """What a name on the line gained or lost.

    :param entry: as the layout calls it: ``struct task_group.load_avg``
    :param mates: line mates that other CPUs write, gained where contention rose, else lost
    :param rows: pairs and alarms of the layout section that say so
    """

    entry: str
    mates: tuple[str, ...]
    rows: tuple[str, ...]


def layout_edges(
    compared: LayoutComparison, line: C2cLineRow, *, rises: bool
) -> Iterator[LayoutEdge]:
    """Yield what explains that a line bounces more, or less.

    :param compared: the layout section's comparison of a side
    :param line: of the section about cache lines
    """
    units = {unit.unit: unit for unit in compared.units}
    written = _written(line)
    for key in _keys(line):
        for name in line.names:
            for unit_name, entry in entries_of(key, name):
                unit = units.get(unit_name)
                edge = None if unit is None else _edge(unit, entry, written, rises=rises)
                if edge is not None:
                    alarms = _alarms(compared.alarms, unit_name, entry, edge.mates)
                    yield edge._replace(rows=(*alarms, *edge.rows))


def is_layout_known(compared: LayoutComparison, line: C2cLineRow) -> bool:
    """Say whether the layout of something on the line was compared."""
    units = {unit.unit for unit in compared.units}
    return any(
        unit in units for key in _keys(line) for name in line.names
        for unit, _ in entries_of(key, name)
    )  # fmt: skip


def _keys(line: C2cLineRow) -> list[str]:
    return list(dict.fromkeys(seen.key for seen in line.seen))


def _written(line: C2cLineRow) -> set[tuple[str, str]]:
    # Entries that were seen to be written while others contended for the line.
    return {
        entry
        for seen in line.seen
        for access in seen.accesses
        if access.writes and access.name is not None
        for entry in entries_of(seen.key, access.name)
    }


def _edge(
    unit: LayoutUnit, entry: str, written: set[tuple[str, str]], *, rises: bool
) -> LayoutEdge | None:
    changed = next((one for one in unit.entries if one.name == entry), None)
    if changed is None:
        return None
    mates = tuple(
        mate
        for mate in (changed.gained if rises else changed.lost)
        if (unit.unit, mate) in written or _is_written_by_others(unit.unit, mate)
    )
    if not mates:
        return None
    pairs = unit.joined if rises else unit.separated
    rows = tuple(pair.row for pair in pairs if _is_of(pair.a, pair.b, entry, mates))
    return LayoutEdge(entry=f"{unit.unit}: {entry}", mates=mates, rows=rows)


def _is_written_by_others(unit: str, entry: str) -> bool:
    use = heat_table().find(unit, entry)
    return use is not None and use.written == "remote"


def _is_of(one: str, other: str, entry: str, mates: Sequence[str]) -> bool:
    return (one == entry and other in mates) or (other == entry and one in mates)


def _alarms(
    alarms: Sequence[LayoutAlarm], unit: str, entry: str, mates: Sequence[str]
) -> Iterator[str]:
    for alarm in alarms:
        pairs = alarm.pairs if alarm.unit == unit else ()
        if any(_is_of(one, other, entry, mates) for one, other in pairs):
            yield alarm.row
