# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw heat maps of the CPUs: each measure of base, new and difference, in topology order."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import inf

from schedperf.model.comparison import Comparison
from schedperf.model.counted import CpuRow, Places
from schedperf.model.host import Cpu, Topology, read_host
from schedperf.model.text import list_some
from schedperf.model.units import MISSING, Scale, format_number, scale_for
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.graphics.matrix import (
    DIFFERENCE,
    Band,
    Matrix,
    MatrixCell,
    MatrixLabel,
    MatrixLine,
    Sign,
    Starts,
    largest_of,
    shade_of,
)
from schedperf_reports.graphics.mirror import NOISE_WORDS
from schedperf_reports.words.rows import count_compared, count_of

# Cells of more CPUs have no room for their numbers.
MOST_WRITTEN_CPUS = 16
# Points whose CPUs are drawn, those with the most changes first: 256 CPUs with 20 measures are
# 15000 cells.
MOST_MAPS = 3
SIGNIFICANT_DIGITS = 3
PERCENT = Scale(factor=0.01, unit="%")


def order_cpus(topology: Topology, cpus: Sequence[int]) -> list[Cpu]:
    """Return CPUs in the order of node, socket, last-level cache, cluster and core.

    SMT siblings are thus next to each other. CPUs without a recorded topology come last.
    """
    by_number = {cpu.cpu: cpu for cpu in topology.cpus}
    return sorted((by_number.get(cpu) or Cpu(cpu=cpu) for cpu in cpus), key=_by_topology)


def _by_topology(cpu: Cpu) -> tuple[float, ...]:
    numbers = (cpu.node, cpu.socket, cpu.llc, cpu.cluster, cpu.core)
    return (*(inf if number is None else number for number in numbers), cpu.cpu)


def name_cpu(cpu: Cpu) -> str:
    """Return the name of a CPU with its core, socket and node: ``CPU 5 (core 2, node 0)``."""
    numbers = {"core": cpu.core, "socket": cpu.socket, "node": cpu.node}
    position = ", ".join(
        f"{name} {number}" for name, number in numbers.items() if number is not None
    )
    return f"CPU {cpu.cpu} ({position})" if position else f"CPU {cpu.cpu}"


def cpu_maps(comparison: Comparison, entries: Sequence[CpuRow]) -> Iterator[Block]:
    """Yield a heat map for each point and new side, and the number of those that are not drawn.

    The ``MOST_MAPS`` with the most significant changes are drawn, in this order.
    """
    topologies = {side.name: read_host(side.host).topology for side in comparison.sides}
    points: dict[tuple[str, str, str], list[CpuRow]] = {}
    for entry in entries:
        points.setdefault((entry.side, entry.workload, entry.point), []).append(entry)
    ordered = sorted(points.items(), key=lambda item: -sum(map(_count_changes, item[1])))
    for (side, workload, point), entries_of_point in ordered[:MOST_MAPS]:
        what = f"{workload} at {point}: " if point else f"{workload}: "
        yield _map(
            entries_of_point,
            side,
            what if len(points) > 1 else "",
            topologies.get(side, Topology()),
        )
    if len(ordered) > MOST_MAPS:
        left = count_of(len(ordered) - MOST_MAPS, "heat map")
        text = (
            f"{left} not drawn (fewest significant changes); --json FILE writes the per-CPU values"
        )
        yield Text(text=text, tone="muted")


def _count_changes(entry: CpuRow) -> int:
    return sum(bool(changed) for changed in entry.changed)


def _map(entries: Sequence[CpuRow], side: str, what: str, topology: Topology) -> Matrix:
    cpus = sorted({cpu for entry in entries for cpu in entry.cpus})
    ordered = order_cpus(topology, cpus)
    return Matrix(
        caption=f"{what}per CPU, {_describe(entries)}",
        corner="measure",
        columns=tuple(_columns(ordered)),
        groups=tuple(_nodes(ordered)),
        bands=tuple(_band(entry, ordered, side) for entry in entries),
        written=len(cpus) <= MOST_WRITTEN_CPUS,
        words=(_table(entries, ordered, side, what),),
    )


def _columns(cpus: Sequence[Cpu]) -> Iterator[MatrixLabel]:
    before: Cpu | None = None
    for cpu in cpus:
        starts: Starts = "core"
        if before is None or before.node != cpu.node:
            starts = "node"
        elif cpu.core is not None and (before.socket, before.core) == (cpu.socket, cpu.core):
            starts = ""
        yield MatrixLabel(text=str(cpu.cpu), title=name_cpu(cpu), starts=starts)
        before = cpu


def _nodes(cpus: Sequence[Cpu]) -> Iterator[tuple[MatrixLabel, int]]:
    for node, members in groupby(cpus, key=lambda cpu: cpu.node):
        text = "CPU" if node is None else f"node {node}"
        yield MatrixLabel(text=text), len(list(members))


def scale_of(entry: CpuRow) -> Scale:
    """Return the unit of all numbers of a measure: "%", "k/s", "ms/s", "us"."""
    if not entry.unit:
        return PERCENT
    counted, slash, per = entry.unit.partition("/")
    largest = largest_of(entry.base, entry.new)
    scale = scale_for("count" if counted == "1" else counted, largest)
    return Scale(factor=scale.factor, unit=f"{scale.unit}{slash}{per}")


def _band(entry: CpuRow, ordered: Sequence[Cpu], side: str) -> Band:
    scale = scale_of(entry)
    index = {cpu: i for i, cpu in enumerate(entry.cpus)}
    titles = [_title(entry, index.get(cpu.cpu), scale, name_cpu(cpu)) for cpu in ordered]
    columns = [index.get(cpu.cpu) for cpu in ordered]
    lines = [_values(entry, name, columns, titles, scale) for name in ("base", "new")]
    lines.append(_differences(entry, columns, titles, scale))
    apart = "new - base, pp" if scale is PERCENT else "new - base"
    names = (("base", "base"), (side, side), (DIFFERENCE, apart))
    return Band(
        label=f"{entry.measure}, {scale.unit}",
        title=entry.meaning,
        lines=tuple(
            MatrixLine(label=MatrixLabel(text=text, side=name), cells=cells)
            for (name, text), cells in zip(names, lines, strict=True)
        ),
    )


def _values(
    entry: CpuRow,
    name: str,
    columns: Sequence[int | None],
    titles: Sequence[str],
    scale: Scale,
) -> tuple[MatrixCell, ...]:
    largest = largest_of(entry.base, entry.new)
    of_side = entry.base if name == "base" else entry.new
    values = [None if index is None else of_side[index] for index in columns]
    return tuple(
        MatrixCell(text=shorten(value, scale), title=title, shade=shade_of(value, largest))
        for value, title in zip(values, titles, strict=True)
    )


def _differences(
    entry: CpuRow, columns: Sequence[int | None], titles: Sequence[str], scale: Scale
) -> tuple[MatrixCell, ...]:
    differences = [
        None if base is None or new is None else new - base
        for base, new in zip(entry.base, entry.new, strict=True)
    ]
    marked = [
        difference if changed else None
        for difference, changed in zip(differences, entry.changed, strict=True)
    ]
    largest = largest_of(marked)
    return tuple(
        difference_cell(
            None if index is None else differences[index],
            title,
            scale,
            None if index is None else marked[index],
            largest,
        )
        for index, title in zip(columns, titles, strict=True)
    )


def difference_cell(
    difference: float | None, title: str, scale: Scale, marked: float | None, largest: float
) -> MatrixCell:
    """Return the cell of a difference, shaded only if it is significant.

    :param marked: the difference if it is significant, else None
    :param largest: the largest significant difference of the same measure
    """
    sign: Sign = "" if not marked else "more" if marked > 0.0 else "less"
    text = shorten(difference, scale)
    signed = f"+{text}" if difference and difference > 0.0 else text
    return MatrixCell(text=signed, title=title, shade=shade_of(marked, largest), sign=sign)


def shorten(value: float | None, scale: Scale) -> str:
    """Format a number for a narrow cell: three significant digits, no unit; "-" for None."""
    if value is None:
        return MISSING
    return format_number(float(f"{value / scale.factor:.{SIGNIFICANT_DIGITS}g}"))


def _title(entry: CpuRow, index: int | None, scale: Scale, where: str) -> str:
    if index is None:
        return f"{where}, {entry.measure}: no value recorded"
    return f"{where}, {entry.measure}: {describe_place(entry, index, scale)}"


def describe_place(entry: Places, index: int, scale: Scale) -> str:
    """Format all numbers of one CPU, or of one pair of nodes, for a tooltip.

    ``base 1 /s, new 3 /s, difference +2 [+1, +3] /s, significant``

    :param index: index of the CPU or pair in the values of ``entry``
    """
    base, new, low, high = (
        values[index] for values in (entry.base, entry.new, entry.ci_low, entry.ci_high)
    )
    unit = scale.unit if scale.unit == "%" else f" {scale.unit}".rstrip()
    text = f"base {scale.format(base)}{unit}, new {scale.format(new)}{unit}"
    if base is None or new is None:
        return text
    ends = "" if low is None else f" [{scale.format_change(low)}, {scale.format_change(high)}]"
    changed = entry.changed[index]
    difference = scale.format_change(new - base)
    # The difference of two shares is in percentage points.
    apart = " pp" if scale is PERCENT else unit
    return f"{text}, difference {difference}{ends}{apart}, {NOISE_WORDS[changed]}"


def _describe(entries: Sequence[CpuRow]) -> str:
    flags = [changed for entry in entries for changed in entry.changed if changed is not None]
    first = entries[0]
    runs = count_compared(first)
    if not flags:
        return f"CPUs in topology order; significance unknown ({runs})"
    changed = sum(flags)
    if not changed:
        return f"CPUs in topology order; no significant change ({runs})"
    most = max(entries, key=_count_changes)
    cpus = [cpu for cpu, is_it in zip(most.cpus, most.changed, strict=True) if is_it]
    named = list_some([str(cpu) for cpu in cpus], MOST_WRITTEN_CPUS)
    which = "" if changed == 1 else "most often "
    return (
        f"CPUs in topology order; {changed} of {count_of(len(flags), 'value')} changed "
        "significantly "
        f"({runs}), {which}{most.measure} on CPU {named}"
    )


def _table(entries: Sequence[CpuRow], ordered: Sequence[Cpu], side: str, what: str) -> Table:
    scales = [scale_of(entry) for entry in entries]
    indices = [{cpu: at for at, cpu in enumerate(entry.cpus)} for entry in entries]
    return Table(
        caption=f"{what}per CPU, base -> {side}",
        columns=(
            Column(title="CPU", align="right"),
            *(
                Column(
                    title=f"{entry.measure}, {scale.unit}",
                    align="right",
                    explains=entry.meaning,
                )
                for entry, scale in zip(entries, scales, strict=True)
            ),
        ),
        rows=tuple(
            (
                Cell(text=str(cpu.cpu)),
                *(
                    _pair(entry, index.get(cpu.cpu), scale)
                    for entry, index, scale in zip(entries, indices, scales, strict=True)
                ),
            )
            for cpu in ordered
        ),
        limit=0,
    )


def _pair(entry: CpuRow, index: int | None, scale: Scale) -> Cell:
    if index is None:
        return Cell(text=MISSING)
    base, new = entry.base[index], entry.new[index]
    return Cell(
        text=f"{scale.format(base)} -> {scale.format(new)}",
        tone="strong" if entry.changed[index] else "plain",
        sort=new,
    )
