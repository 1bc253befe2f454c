"""Bouncing cache lines of one point of a benchmark, compared."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from schedperf.evidence.c2c.record import C2cLineRow, C2cPoint, C2cTotals, Observable
from schedperf.model.comparison import BaseNew
from schedperf_reports.blocks import Block, Text
from schedperf_reports.evidence.c2c._bytes import GRADES, bytes_table
from schedperf_reports.evidence.c2c._lines import draw_point
from schedperf_reports.evidence.c2c._tables import (
    lines_table,
    per_operation,
    side_by_side,
    totals_table,
    unmatched_table,
)
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.units import MISSING

# Lines whose bytes are shown where none changed.
MOST_DRAWN = 3

Fact = TypeVar("Fact")

MEANINGS: Mapping[Observable, str] = {
    "hitm": "HITM: a load found the line modified in the cache of another CPU (Intel)",
    "ibs": (
        "HITM as AMD's instruction-based sampling reports it: a load was served by a modified "
        "line of another CPU; it is not Intel's HITM"
    ),
    "peer": (
        "peer snoop: a load that another CPU's cache answered, be the line modified or not (Arm); "
        "it is no HITM"
    ),
}


def describe_point(
    point: C2cPoint, most_lines: int | None = None, side: str = "new"
) -> Iterator[Block]:
    """Yield what the samples of a point rest on, its lines, and who touches which bytes of them.

    :param side: the role of what is compared with base
    :param most_lines: lines that are shown; None: all, of which a terminal shows the first
    """
    yield Text(text=_basis(point))
    if point.reason is not None:
        yield Text(text=f"no rates are compared: {point.reason}", tone="warning")
    yield totals_table(point)
    contended = [line for line in point.lines if _samples(line)]
    if contended:
        yield from _describe_lines(point, contended, most_lines, side)
    else:
        yield Text(text=_nothing(point))
    if point.reason is None:
        yield Text(text=_power(point), tone="muted")
    for note in merge_sides(point.notes):
        yield Text(text=note, tone="muted")


def _describe_lines(
    point: C2cPoint, contended: Sequence[C2cLineRow], most_lines: int | None, side: str
) -> Iterator[Block]:
    matched = [line for line in contended if line.unmatched is None]
    alone = [line for line in contended if line.unmatched is not None]
    limit = {"limit": None} if most_lines is not None else {}
    if matched:
        yield lines_table(point, matched[:most_lines], **limit)
    if alone:
        yield unmatched_table(point, side_by_side(alone, most_lines), **limit)
    changed = [line for line in matched if line.is_changed]
    drawn = (changed or matched[:MOST_DRAWN])[:most_lines]
    drawn = [*drawn, *side_by_side(alone, most=1)]
    yield draw_point(point, drawn, side)
    for line in drawn:
        yield bytes_table(point, line)
    yield GRADES


def _samples(counted: C2cLineRow | C2cTotals) -> int:
    return sum(filter(None, (*counted.remote.samples, *counted.local.samples)))


def _nothing(point: C2cPoint) -> str:
    if _samples(point.totals):
        return "there is no table of lines, so which ones these are cannot be seen"
    seen = count_of(sum(filter(None, point.samples)), "memory sample")
    return f"nothing seen: none of {seen} hit a line that another CPU had"


def _basis(point: C2cPoint) -> str:
    place = f"{point.workload} at {point.point}" if point.point else point.workload
    where = f"{place}: " if place else ""
    runs = point.runs
    counted = " + ".join(MISSING if count is None else str(count) for count in point.samples)
    periods = _both(point.period, lambda period: f"1 of {period}" if period else "not known")
    latencies = _both(
        point.ldlat, lambda ldlat: "all" if ldlat is None else f"of {ldlat} cycles and more"
    )
    meaning = "; ".join(dict.fromkeys(MEANINGS[observable] for observable in point.observable))
    return (
        f"{where}n = {runs.base} + {runs.new} runs, {counted} samples; loads sampled: "
        f"{periods}, {latencies}; {meaning}"
    )


def _both(values: BaseNew[Fact], describe: Callable[[Fact], str]) -> str:
    base, new = values.map(describe)
    return base if base == new else f"{base} in base and {new} in new"


def _power(point: C2cPoint) -> str:
    if point.least_ratio is None:
        return "too little was sampled to say which change could have been seen"
    varied = f"{point.model} counts of {point.replication}"
    if point.phi:
        varied += f", a rate varies by {100.0 * point.phi**0.5:.0f} % from one to the next"
    return (
        f"rates are accesses {per_operation(point)}, sampled or not; {varied}; the smallest "
        f"change that could have been seen (power 80 %), on the line known best: times "
        f"{point.least_ratio:.3g}"
    )
