# SPDX-License-Identifier: GPL-2.0-or-later
"""Contended cache lines at one point of a benchmark: comparison as text and drawing to scale."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from schedperf.evidence.c2c.record import (
    C2cAccess,
    C2cLineRow,
    C2cPoint,
    C2cSeen,
    C2cTotals,
    Observable,
    Sharing,
    say_name,
)
from schedperf.model.comparison import BaseNew
from schedperf_reports.blocks import Block, Text
from schedperf_reports.evidence.c2c._bytes import (
    GRADES,
    bytes_table,
    rate_of,
    say_bytes,
    say_symbols,
    share_of,
    who_touches,
)
from schedperf_reports.evidence.c2c._tables import (
    called,
    format_interval,
    format_rate,
    lines_table,
    measures_of,
    per_operation,
    side_by_side,
    totals_table,
    unmatched_table,
    word_of,
)
from schedperf_reports.graphics.cache_lines import (
    Badge,
    CacheLines,
    LineGroup,
    LineRow,
    Occupant,
)
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.units import MISSING, format_share

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
        "HITM: a load hit a modified line in another CPU's cache; Intel and AMD count them "
        "differently, and the events are not recorded"
    ),
}
# Lines per drawing; the tables list further lines.
_MOST_LINES = 6
# Largest access of kernel code in bytes. Samples record only the first byte.
_LARGEST_ACCESS = 8
# Functions listed for each byte range, and functions and commands listed below its line.
_MOST_SYMBOLS, _MOST_BELOW = 4, 2

_SHARING: Mapping[Sharing | None, str] = {
    "true": "true sharing",
    "false": "false sharing",
    "mixed": "true and false sharing",
    None: "one CPU only",
}


def describe_point(
    point: C2cPoint, most_lines: int | None = None, side: str = "new"
) -> Iterator[Block]:
    """Yield the sample counts of a point, its contended lines, and their readers and writers.

    :param side: the role of what is compared with base
    :param most_lines: lines shown; None: all (a terminal shows only the first)
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
    yield _draw_point(point, drawn, side)
    for line in drawn:
        yield bytes_table(point, line)
    yield GRADES


def _samples(counted: C2cLineRow | C2cTotals) -> int:
    return sum(filter(None, (*counted.remote.samples, *counted.local.samples)))


def _nothing(point: C2cPoint) -> str:
    if _samples(point.totals):
        return "contended lines unknown: the input contains no complete table of cache lines"
    if None in (*point.samples, *point.totals.remote.samples, *point.totals.local.samples):
        return "contended lines unknown: the input does not contain the number of contended loads"
    seen = count_of(sum(filter(None, point.samples)), "memory sample")
    return f"no contended lines: 0 of {seen} hit a line cached by another CPU"


def _basis(point: C2cPoint) -> str:
    title = f"{point.workload} at {point.point}" if point.point else point.workload
    where = f"{title}: " if title else ""
    runs = point.runs
    counted = " + ".join(MISSING if count is None else str(count) for count in point.samples)
    periods = _both(point.period, lambda period: f"1 of {period}" if period else "period unknown")
    latencies = _both(
        point.ldlat,
        lambda ldlat: "any latency" if ldlat is None else f"latency of {ldlat} cycles or more",
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
        return "too few samples to estimate the smallest detectable change"
    varied = f"{point.model} model of sample counts per {point.replication.removesuffix('s')}"
    if point.phi:
        varied += f" (CV {100.0 * point.phi**0.5:.0f}%)"
    return (
        f"rates: scaled up from the samples to all accesses {per_operation(point)}; {varied}; "
        f"smallest detectable ratio (80% power) on the most sampled line: {point.least_ratio:.3g}"
    )


def _draw_point(point: C2cPoint, lines: Sequence[C2cLineRow], side: str) -> CacheLines:
    """Return the bytes of some lines of a point, base above the other side.

    :param lines: lines that changed come first
    :param side: the role of what is compared with base
    """
    shown = lines[:_MOST_LINES]
    return CacheLines(
        caption=_caption(shown, len(lines) - len(shown), word_of(point.observable)),
        line_bytes=max(point.line_bytes),
        sides=(Badge(name="base", label="base"), Badge(name=side, label=side)),
        groups=tuple(LineGroup(title=called(line), rows=_rows(point, line)) for line in shown),
        has_counts=True,
    )


def _caption(lines: Sequence[C2cLineRow], left: int, word: str) -> str:
    changes = {
        called(line): [
            _times(change.ratio, f"{name} {word}")
            for name, change in measures_of(line)
            if change.changed
        ]
        for line in lines
    }
    changed = [f"{name}: {' and '.join(said)}" for name, said in changes.items() if said]
    more = f"; {count_of(left, 'more line')} in the tables" if left else ""
    said = "; ".join(changed) or f"no significant change in {word} on the drawn lines"
    return f"readers and writers by byte; {said}{more}"


def _times(ratio: float | None, what: str) -> str:
    return f"{what}, 0 in base" if ratio is None else f"{what} at {ratio:.3g} times the base rate"


def _rows(point: C2cPoint, line: C2cLineRow) -> tuple[LineRow, ...]:
    return tuple(
        LineRow(offset="", note=line.unmatched or "no sample of this line on this side")
        if seen is None
        else LineRow(
            offset=seen.key.rpartition("+")[2],
            note="; ".join([_sharing(seen), *_rates(point, line, side)]),
            occupants=tuple(_occupants(point, line, side, seen)),
            who=tuple(_who(point, access, seen) for access in seen.accesses),
        )
        for side, seen in line.sides.items()
    )


def _who(point: C2cPoint, access: C2cAccess, seen: C2cSeen) -> str:
    word = word_of(point.observable)
    name = say_name(access.name or "name unknown")
    commands = [command.command for command in access.commands or ()]
    more = len(commands) - _MOST_BELOW
    tail = f" and {more} more" if more > 0 else ""
    nodes = [str(counts.node) for counts in access.nodes or () if counts.node >= 0]
    share = format_share(share_of(access, seen.contended))
    parts = [
        f"{_counts(access)}, {share} of {word} on the line",
        ", ".join(say_symbols(access, _MOST_BELOW)) or "functions unknown",
        f"{', '.join(commands[:_MOST_BELOW])}{tail}" if commands else "commands unknown",
        f"node{'s' * (len(nodes) > 1)} {', '.join(nodes)}" if nodes else "nodes unknown",
    ]
    return f"{say_bytes(access)} {name}: {'; '.join(parts)}"


def _sharing(seen: C2cSeen) -> str:
    is_mixed = seen.sharing == "mixed" and seen.false_share is not None
    part = f", {100.0 * (seen.false_share or 0.0):.0f}% false" if is_mixed else ""
    copies = seen.copies
    spread = (
        f"; sum of {copies} contended per-CPU copies" if copies is not None and copies > 1 else ""
    )
    return f"{_SHARING[seen.sharing]}{part}{spread}"


def _rates(point: C2cPoint, line: C2cLineRow, side: str) -> Iterator[str]:
    if line.unmatched is not None or point.reason is not None:
        return
    for name, change in measures_of(line):
        if any(change.samples):
            rate = f"{format_rate(change.rates.of(side))} {word_of(point.observable)}"
            ratio = (
                f", {format_rate(change.ratio)} times the base rate {format_interval(change)}"
                if side == "new" and change.ratio is not None
                else ""
            )
            yield f"{name} {rate} {per_operation(point)}{ratio}"


def _occupants(point: C2cPoint, line: C2cLineRow, side: str, seen: C2cSeen) -> Iterator[Occupant]:
    accesses = sorted(seen.accesses, key=lambda sampled: sampled.offset)
    ends = [*(following.offset for following in accesses[1:]), point.line_bytes.of(side)]
    before = {earlier.name: earlier.offset for earlier in (line.base.accesses if line.base else ())}
    for access, end in zip(accesses, ends, strict=True):
        name, start = access.name, access.offset
        has_moved = side == "new" and name is not None and before.get(name, start) != start
        yield Occupant(
            name=say_name(name or f"byte {start}"),
            start=start,
            size=max(min(end - start, access.size or _LARGEST_ACCESS), 0),
            is_sized=access.size is not None,
            word="moved" if has_moved else "",
            reads=access.reads,
            writes=access.writes,
            heat=share_of(access, seen.contended),
            facts=tuple(_facts(point, access, seen, rate_of(line, side, access))),
        )


def _facts(point: C2cPoint, access: C2cAccess, seen: C2cSeen, rate: float | None) -> Iterator[str]:
    word = word_of(point.observable)
    grade = f"grade {access.grade}, " if access.grade else "name unknown, "
    size = "" if access.size else ", field size unknown"
    yield f"{grade}bytes {say_bytes(access)} of the line{size}"
    share = format_share(share_of(access, seen.contended))
    yield (
        f"samples: {_counts(access)}, {access.remote} remote + {access.local} local {word} "
        f"({share} of all {word} on the line)"
    )
    if rate is not None and point.reason is None:
        yield f"{format_rate(rate)} {word} {per_operation(point)}"
    names = ", ".join(say_symbols(access, _MOST_SYMBOLS))
    if names:
        yield f"accessed by {names}"
    who = who_touches(access, word)
    if who:
        yield who


def _counts(access: C2cAccess) -> str:
    reads = "reads unknown" if access.reads is None else count_of(access.reads, "read")
    return f"{reads}, {count_of(access.writes, 'write')}"
