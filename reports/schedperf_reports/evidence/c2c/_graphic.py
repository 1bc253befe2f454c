# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the contended cache lines of a point to scale: readers and writers by byte."""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.evidence.c2c.record import (
    C2cAccess,
    C2cLineRow,
    C2cPoint,
    C2cSeen,
    Sharing,
    without_counter,
)
from schedperf.model.text import join_names
from schedperf_reports.evidence.c2c._bytes import (
    format_range,
    format_symbols,
    rate_of,
    share_of,
    who_touches,
)
from schedperf_reports.evidence.c2c._tables import (
    called,
    format_interval,
    format_rate,
    measures_of,
    per_operation,
    word_of,
)
from schedperf_reports.graphics.cache_lines import (
    Badge,
    CacheLines,
    LineGroup,
    LineRow,
    Occupant,
)
from schedperf_reports.words.quantities import format_share
from schedperf_reports.words.rows import count_of

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


def draw_lines(point: C2cPoint, lines: Sequence[C2cLineRow], side: str) -> CacheLines:
    """Return a drawing of the bytes of some lines of a point, base above the other side.

    :param lines: the lines, changed ones first; at most the first ``_MOST_LINES`` are drawn
    :param side: the role of the side that is compared with base
    """
    shown = lines[:_MOST_LINES]
    return CacheLines(
        caption=_caption(shown, len(lines) - len(shown), word_of(point.observable)),
        line_bytes=max(point.line_bytes),
        sides=(Badge(name="base", label="base"), Badge(name=side, label=side)),
        groups=tuple(LineGroup(title=called(line), rows=_rows(point, line)) for line in shown),
        has_counts=True,
        drawn={line.row: number for number, line in enumerate(shown)},
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
    changed = [f"{name}: {join_names(said)}" for name, said in changes.items() if said]
    more = f"; {count_of(left, 'more line')} in the tables" if left else ""
    said = "; ".join(changed) or f"no significant change in {word} on the drawn lines"
    return f"reads and writes of each byte range; {said}{more}"


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
    name = without_counter(access.name or "name unknown")
    commands = [command.command for command in access.commands or ()]
    more = len(commands) - _MOST_BELOW
    tail = f" and {more} more" if more > 0 else ""
    nodes = [str(counts.node) for counts in access.nodes or () if counts.node >= 0]
    share = format_share(share_of(access, seen.contended))
    parts = [
        f"{_counts(access)}, {share} of {word} on the line",
        ", ".join(format_symbols(access, _MOST_BELOW)) or "functions unknown",
        f"{', '.join(commands[:_MOST_BELOW])}{tail}" if commands else "commands unknown",
        f"node{'s' * (len(nodes) > 1)} {', '.join(nodes)}" if nodes else "nodes unknown",
    ]
    return f"{format_range(access)} {name}: {'; '.join(parts)}"


def _sharing(seen: C2cSeen) -> str:
    is_mixed = seen.sharing == "mixed" and seen.false_share is not None
    part = f", {100.0 * (seen.false_share or 0.0):.0f}% false" if is_mixed else ""
    copies = seen.copies
    spread = (
        f"; counts summed over {copies} contended per-CPU copies"
        if copies is not None and copies > 1
        else ""
    )
    # The text of perf c2c report does not list CPUs.
    has_cpus = any(access.readers is not None for access in seen.accesses)
    kind = _SHARING[seen.sharing] if seen.sharing or has_cpus else "sharing unknown"
    return f"{kind}{part}{spread}"


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
    # Each range ends at the next one. A text of perf may have lines without offsets.
    starts = [access.offset for access in accesses]
    ends = [*starts[1:], point.line_bytes.of(side)][: len(starts)]
    before = {earlier.name: earlier.offset for earlier in (line.base.accesses if line.base else ())}
    for access, end in zip(accesses, ends, strict=True):
        name, start = access.name, access.offset
        has_moved = side == "new" and name is not None and before.get(name, start) != start
        yield Occupant(
            name=without_counter(name or f"byte {start}"),
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
    yield f"{grade}bytes {format_range(access)} of the line{size}"
    share = format_share(share_of(access, seen.contended))
    yield (
        f"samples: {_counts(access)}, {access.remote} remote + {access.local} local {word} "
        f"({share} of all {word} on the line)"
    )
    if rate is not None and point.reason is None:
        yield f"{format_rate(rate)} {word} {per_operation(point)}"
    names = ", ".join(format_symbols(access, _MOST_SYMBOLS))
    if names:
        yield f"accessed by {names}"
    who = who_touches(access, word)
    if who:
        yield who


def _counts(access: C2cAccess) -> str:
    reads = "reads unknown" if access.reads is None else count_of(access.reads, "read")
    return f"{reads}, {count_of(access.writes, 'write')}"
