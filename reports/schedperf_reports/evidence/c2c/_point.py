# SPDX-License-Identifier: GPL-2.0-or-later
"""Render the contended cache lines at one point of a benchmark as text and tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from schedperf.evidence.c2c.record import (
    C2cLineRow,
    C2cPoint,
    C2cTotals,
    Observable,
)
from schedperf.model.base_new import BaseNew
from schedperf_reports.blocks import Block, Text
from schedperf_reports.evidence.c2c._bytes import (
    GRADES,
    bytes_table,
)
from schedperf_reports.evidence.c2c._graphic import draw_lines
from schedperf_reports.evidence.c2c._pairs import ATTRIBUTION, pairs_table, unmatched_pairs_table
from schedperf_reports.evidence.c2c._tables import (
    lines_table,
    per_operation,
    side_by_side,
    totals_table,
    unmatched_table,
)
from schedperf_reports.words.quantities import MISSING
from schedperf_reports.words.rows import count_of, merge_sides

# Lines whose bytes are shown if no line changed.
MOST_DRAWN = 3

Fact = TypeVar("Fact")

MEANINGS: Mapping[Observable, str] = {
    "hitm": "HITM (Intel): a load hit a modified line in another CPU's cache",
    "ibs": (
        "HITM (AMD IBS): a load was served from a modified line in another CPU's cache; not "
        "comparable with Intel's HITM"
    ),
    "peer": (
        "peer snoop (Arm): a load was served from another CPU's cache, whether or not the line "
        "was modified; not comparable with HITM"
    ),
    "unknown": (
        "HITM: a load hit a modified line in another CPU's cache; Intel and AMD count "
        "HITMs differently, and the input does not record which events were sampled"
    ),
}


def describe_point(
    point: C2cPoint, most_lines: int | None = None, side: str = "new"
) -> Iterator[Block]:
    """Yield the sample counts of a point, its contended lines, and their readers and writers.

    :param side: the role of the side that is compared with base
    :param most_lines: maximum number of lines that both sides have, and of lines of each side
        alone; None for all, of which a terminal shows only the first ones
    """
    yield Text(text=_basis(point))
    if point.reason is not None:
        yield Text(text=f"rates not compared: {point.reason}", tone="warning")
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
    yield draw_lines(point, drawn, side)
    # A text of perf without the table of offsets has lines without accesses.
    tables = [
        bytes_table(point, line) for line in drawn if any(seen.accesses for seen in line.seen)
    ]
    if tables:
        yield from tables
        yield GRADES
    pairs = [pairs_table(point, line) for line in drawn if line.pairs]
    pairs += [unmatched_pairs_table(point)] if point.pairs else []
    if pairs:
        yield from pairs
        yield ATTRIBUTION


def _samples(counted: C2cLineRow | C2cTotals) -> int:
    return sum(filter(None, (*counted.remote.samples, *counted.local.samples)))


def _nothing(point: C2cPoint) -> str:
    if _samples(point.totals):
        return (
            "contended lines are unknown, because the input contains no complete table of "
            "cache lines"
        )
    if None in (*point.samples, *point.totals.remote.samples, *point.totals.local.samples):
        return (
            "contended lines are unknown, because the input does not contain the number of "
            "contended loads"
        )
    seen = count_of(sum(filter(None, point.samples)), "memory sample")
    return f"no contended lines: 0 of {seen} are contended loads"


def _basis(point: C2cPoint) -> str:
    title = f"{point.workload} at {point.point}" if point.point else point.workload
    where = f"{title}: " if title else ""
    runs = point.runs
    counted = " + ".join(MISSING if count is None else str(count) for count in point.samples)
    periods = _both(point.period, lambda period: f"1 of {period}" if period else "period unknown")
    base, new = zip(point.ldlat, point.events, strict=True)
    latencies = _both(BaseNew(base=base, new=new), lambda side: _latency(*side))
    meaning = "; ".join(dict.fromkeys(MEANINGS[observable] for observable in point.observable))
    return (
        f"{where}n = {runs.base} + {runs.new} runs, {counted} samples; sampled loads: "
        f"{periods}, {latencies}; {meaning}"
    )


def _latency(ldlat: int | None, events: Sequence[str]) -> str:
    # The minimum is part of the event's name.
    if not events:
        return "latency unknown"
    return "any latency" if ldlat is None else f"latency of {ldlat} cycles or more"


def _both(values: BaseNew[Fact], describe: Callable[[Fact], str]) -> str:
    base, new = values.map(describe)
    return base if base == new else f"{base} in base and {new} in new"


def _power(point: C2cPoint) -> str:
    if point.least_ratio is None:
        return "too few samples to estimate the smallest detectable change"
    varied = f"{point.model} model of sample counts per {point.replication.removesuffix('s')}"
    if point.phi:
        varied += f" (CV {100.0 * point.phi**0.5:.0f}%)"
    return (
        f"rates {per_operation(point)} are extrapolated from the samples to all accesses; "
        f"{varied}; the smallest detectable ratio (80% power) for the line with the most samples "
        f"is {point.least_ratio:.3g}"
    )
