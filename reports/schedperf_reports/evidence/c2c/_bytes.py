# SPDX-License-Identifier: GPL-2.0-or-later
"""Build tables of the readers and writers of one cache line, by byte."""

from collections.abc import Iterator

from schedperf.evidence.c2c.record import (
    C2cAccess,
    C2cLineRow,
    C2cPoint,
    C2cSampledLine,
    C2cSource,
    without_counter,
)
from schedperf_reports.blocks import Cell, Column, Table, Text
from schedperf_reports.evidence.c2c._tables import (
    called,
    format_count,
    format_rate,
    per_operation,
    word_of,
)
from schedperf_reports.words.quantities import MISSING, format_share

# Rows that a terminal shows; each byte range has two.
MOST_STRETCHES = 24
# Number of functions that a row lists.
MOST_SYMBOLS = 2

# The legend of grades and byte ranges.
GRADES = Text(
    text="[A]: field identified by the sampled address and confirmed by a function known to access "
    "it; [B]: field identified by the address or the functions only; bytes: from the sampled byte "
    "to the end of the field (8-?: size unknown), because perf does not record access sizes; "
    "by: functions that read (r) or write (W) the field",
    tone="muted",
)


def bytes_table(point: C2cPoint, line: C2cLineRow) -> Table:
    """Return the readers and writers of a line by byte, base then new."""
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
            f"{called(line)}: reads and writes of each byte range{_split(line)}; samples of all "
            f"runs, {word} as remote + local"
        ),
        columns=columns,
        rows=tuple(rows),
        # The headings of both sides are rows as well.
        limit=MOST_STRETCHES + 1,
    )


def seen_bytes_table(source: C2cSource, line: C2cSampledLine) -> Table:
    """Return the readers and writers of a line by byte, for a source that is not compared."""
    word = word_of((source.observable,))
    rows: list[tuple[Cell, ...]] = []
    for access in line.accesses:
        latency = format_rate(access.mean_weight)
        rows += _access(access, word, line.contended, latency)
    return Table(
        caption=(
            f"{line.name or line.key}: reads and writes of each byte range, in samples; {word} as "
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
    """Return the share of a line's contended samples that hit some bytes, 0 to 1.

    :param contended: number of contended samples of the line; if it is 0, the share is 0
    """
    return access.contended / contended if contended else 0.0


def rate_of(line: C2cLineRow, side: str, access: C2cAccess) -> float | None:
    """Return the rate of contended loads of some bytes, in the unit of the line's rates.

    The line's rates of remote and of local loads are divided among the bytes in proportion to their
    samples. Return None if the bytes have samples of a kind whose rate is unknown.
    """
    total = 0.0
    for count, change in ((access.remote, line.remote), (access.local, line.local)):
        rate, samples = change.rates.of(side), change.samples.of(side)
        if count and (rate is None or not samples):
            return None
        total += count * rate / samples if rate and samples else 0.0
    return total


def format_range(access: C2cAccess) -> str:
    """Format the byte range of an access: ``4-7``; ``4-?`` if the size is unknown."""
    first, size = access.offset, access.size
    if size is None:
        return f"{first}-?"
    return f"{first}-{first + size - 1}" if size > 1 else str(first)


def format_symbols(access: C2cAccess, most: int) -> Iterator[str]:
    """Yield the functions that read (r) or wrote (W) some bytes, most samples first.

    :param most: maximum number of functions
    """
    for symbol in access.symbols[:most]:
        reads = symbol.samples - symbol.writes
        marks = [mark for mark, count in (("r", reads), ("W", symbol.writes)) if count > 0]
        yield f"{'+'.join(marks)} {symbol.symbol}"


def _access(access: C2cAccess, word: str, contended: int, last: str) -> list[tuple[Cell, ...]]:
    # A row of counts and, if known, a row of the commands, CPUs and nodes that accessed the bytes.
    name = "name unknown"
    if access.name is not None:
        name = f"{without_counter(access.name)} [{access.grade}]"
    symbols = ", ".join(format_symbols(access, MOST_SYMBOLS))
    row = (
        Cell(text=format_range(access)),
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
    """Return the commands, CPUs and nodes that read and wrote some bytes; "" if unknown."""
    parts = [samples_by_command(access)]
    cpus = (("read by", access.readers), ("written by", access.writers))
    parts.append(", ".join(f"{verb} CPUs {listed}" for verb, listed in cpus if listed))
    for node_counts in access.nodes or ():
        done = (("reads", node_counts.reads), ("writes", node_counts.writes))
        said = [f"{count} {what}" for what, count in done if count]
        if node_counts.remote or node_counts.local:
            said.append(f"{node_counts.remote} remote + {node_counts.local} local {word}")
        node = f"node {node_counts.node}" if node_counts.node >= 0 else "node unknown"
        parts.append(f"{node}: {', '.join(said) or 'no reads or writes'}")
    return "; ".join(filter(None, parts))


def samples_by_command(access: C2cAccess) -> str:
    """Format the samples of each command: ``samples by command: hackbench 93``; "" if unknown."""
    said = ", ".join(f"{command.command} {command.samples}" for command in access.commands or ())
    return f"samples by command: {said}" if said else ""
