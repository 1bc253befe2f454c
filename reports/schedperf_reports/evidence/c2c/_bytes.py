# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of one cache line: readers and writers by byte of it."""

from collections.abc import Iterator

from schedperf.evidence.c2c.record import (
    C2cAccess,
    C2cLineRow,
    C2cPoint,
    C2cSampledLine,
    C2cSource,
    say_name,
)
from schedperf_reports.blocks import Cell, Column, Table, Text
from schedperf_reports.evidence.c2c._tables import (
    called,
    format_count,
    format_rate,
    per_operation,
    word_of,
)
from schedperf_reports.words.units import MISSING, format_share

# Rows that a terminal shows; each stretch of bytes has two.
MOST_STRETCHES = 24
# Functions that a row names.
MOST_SYMBOLS = 2

# What stands behind a name and behind the bytes.
GRADES = Text(
    text="after a name: [A] its address and a function known to access it agree, [B] the address "
    "or the functions alone; bytes are those of the named field from the sampled one on, "
    "8-? where its size is not known: perf does not sample the size of an access; "
    "by: r reads it, W writes it",
    tone="muted",
)


def bytes_table(point: C2cPoint, line: C2cLineRow) -> Table:
    """Return readers and writers by byte of a line, base then new."""
    rows: list[tuple[Cell, ...]] = []
    word = word_of(point.observable)
    rate = Column(title=per_operation(point), align="right", priority=2)
    columns = (*_access_columns(word), rate)
    for side, seen in line.sides.items():
        if seen is None:
            continue
        heading = Cell(text=f"{side}, {seen.key}", tone="strong")
        rows.append((heading, *[Cell(text="")] * (len(columns) - 1)))
        for access in seen.accesses:
            rates = None if point.reason is not None else rate_of(line, side, access)
            rows += _access(access, word, seen.contended, format_rate(rates))
    return Table(
        caption=(
            f"readers and writers by byte of {called(line)}{_split(line)}; samples of all "
            f"runs, {word} remote + local"
        ),
        columns=columns,
        rows=tuple(rows),
        # The headings of both sides are rows, too.
        limit=MOST_STRETCHES + 1,
    )


def seen_bytes_table(source: C2cSource, line: C2cSampledLine) -> Table:
    """Return readers and writers by byte of a line of one side alone."""
    word = word_of((source.observable,))
    rows: list[tuple[Cell, ...]] = []
    for access in line.accesses:
        latency = format_rate(access.mean_weight)
        rows += _access(access, word, line.contended, latency)
    return Table(
        caption=(
            f"readers and writers by byte of {line.name or line.key}; samples, {word} "
            "remote + local"
        ),
        columns=(*_access_columns(word), Column(title="latency", align="right", priority=5)),
        rows=tuple(rows),
        limit=MOST_STRETCHES,
    )


def _access_columns(word: str) -> tuple[Column, ...]:
    return (
        Column(title="bytes", align="right"),
        Column(title="name", code=True),
        Column(title="reads", align="right"),
        Column(title="writes", align="right"),
        Column(title=word, align="right"),
        Column(title="share", align="right", priority=3),
        Column(title="by", priority=1),
    )


def _split(line: C2cLineRow) -> str:
    parts = {
        side: f"{100.0 * seen.false_share:.0f}% false sharing"
        for side, seen in line.sides.items()
        if seen is not None and seen.false_share is not None
    }
    if len(parts) > 1 and len(set(parts.values())) == 1:
        return f" ({next(iter(parts.values()))} in base and new)"
    return f" ({', '.join(f'{part} in {side}' for side, part in parts.items())})" if parts else ""


def share_of(access: C2cAccess, contended: int) -> float:
    """Return which part of a line's contended samples some bytes have, 0 to 1."""
    return access.contended / contended if contended else 0.0


def rate_of(line: C2cLineRow, side: str, access: C2cAccess) -> float | None:
    """Return the rate of some bytes' contended samples; None where the line's is not known.

    A line's rate is of all its samples alike, so each of them stands for as much of it.
    """
    total = 0.0
    for count, change in ((access.remote, line.remote), (access.local, line.local)):
        rate, samples = change.rates.of(side), change.samples.of(side)
        if count and (rate is None or not samples):
            return None
        total += count * rate / samples if rate and samples else 0.0
    return total


def say_bytes(access: C2cAccess) -> str:
    """Return which bytes of the line they are: ``4-7``; ``4-?`` where no size is known."""
    first, size = access.offset, access.size
    if size is None:
        return f"{first}-?"
    return f"{first}-{first + size - 1}" if size > 1 else str(first)


def say_symbols(access: C2cAccess, most: int) -> Iterator[str]:
    """Yield which functions read (r) and wrote (W) some bytes, most samples first."""
    for one in access.symbols[:most]:
        reads = one.samples - one.writes
        marks = [mark for mark, count in (("r", reads), ("W", one.writes)) if count > 0]
        yield f"{'+'.join(marks)} {one.symbol}"


def _access(access: C2cAccess, word: str, contended: int, last: str) -> list[tuple[Cell, ...]]:
    # What was done to some bytes, and below it by whom where that is known.
    name = "name unknown"
    if access.name is not None:
        name = f"{say_name(access.name)} [{access.grade}]"
    symbols = ", ".join(say_symbols(access, MOST_SYMBOLS))
    row = (
        Cell(text=say_bytes(access)),
        Cell(text=name, tone="plain" if access.name else "muted"),
        Cell(text=format_count(access.reads)),
        Cell(text=str(access.writes), tone="warning" if access.writes else "plain"),
        Cell(text=f"{access.remote}+{access.local}"),
        Cell(text=format_share(share_of(access, contended)) if contended else MISSING),
        Cell(text=symbols or MISSING),
        Cell(text=last),
    )
    who = who_touches(access, word)
    if not who:
        return [row]
    return [row, (Cell(text=f"{'':6}{who}", tone="muted"), *[Cell(text="")] * (len(row) - 1))]


def who_touches(access: C2cAccess, word: str) -> str:
    """Return which commands, CPUs and nodes read and wrote some bytes; "" where nothing is said."""
    parts = [say_commands(access)]
    cpus = (("read by", access.readers), ("written by", access.writers))
    parts.append(", ".join(f"{verb} CPUs {listed}" for verb, listed in cpus if listed))
    for one in access.nodes or ():
        done = (("reads", one.reads), ("writes", one.writes))
        said = [f"{count} {what}" for what, count in done if count]
        if one.remote or one.local:
            said.append(f"{one.remote}+{one.local} {word}")
        node = f"node {one.node}" if one.node >= 0 else "no node"
        parts.append(f"{node}: {', '.join(said) or 'neither'}")
    return "; ".join(filter(None, parts))


def say_commands(access: C2cAccess) -> str:
    """Return the samples of each command, ``commands hackbench 93``; "" where no source says it."""
    said = ", ".join(f"{one.command} {one.samples}" for one in access.commands or ())
    return f"commands {said}" if said else ""
