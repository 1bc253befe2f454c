# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse kernel counters: numbers, tab-separated tables, increases of counters."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from schedperf.model.errors import InputError

# Placeholder for a missing value in a table.
ABSENT = "-"
# Largest number of rows: 4096 CPUs with 16 idle states.
MOST_ROWS = 1 << 16
LONGEST_LINE = 1 << 16
LARGEST_COUNT = 2**64 - 1
MOST_CPUS = 8192
SHOWN = 40

_COUNT = re.compile(r"[0-9]{1,20}", re.ASCII)

Row = Mapping[str, "str | None"]


def parse_count(text: str, where: str) -> int:
    """Return the value of a counter.

    :param where: file and line, for messages
    :raises InputError: invalid, or larger than 64 bits
    """
    if not _COUNT.fullmatch(text) or int(text) > LARGEST_COUNT:
        raise InputError(
            f"{where}: invalid count {text[:SHOWN]!r} (expected an unsigned 64-bit integer); "
            "record again"
        )
    return int(text)


def parse_cpu(text: str | None, where: str) -> int:
    """Return the number of a CPU.

    :raises InputError: invalid, or out of range
    """
    cpu = parse_count(text or "", where)
    if cpu >= MOST_CPUS:
        raise InputError(
            f"{where}: cpu{cpu} is out of range (expected at most cpu{MOST_CPUS - 1}); record again"
        )
    return cpu


def optional_count(row: Row, column: str, where: str) -> int | None:
    """Return the count in a column of a row; None if missing.

    :raises InputError: invalid, or larger than 64 bits
    """
    text = row[column]
    return None if text is None else parse_count(text, where)


def read_table(
    lines: Iterable[str], columns: Sequence[str], label: str
) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a tab-separated table; its first line has the names of the columns.

    :param columns: required columns; others are ignored
    :return: for each row, file and line for messages, and its values by column; None for ``-``
    :raises InputError: the table is empty, a column is missing, a row is damaged, a line is too
        long, or there are too many rows
    """
    header: list[str] | None = None
    for number, line in enumerate(lines, 1):
        where = f"{label}:{number}"
        if number > MOST_ROWS or len(line) > LONGEST_LINE:
            limit = f"expected at most {MOST_ROWS} lines of up to {LONGEST_LINE} characters"
            raise InputError(f"{where}: table is too large ({limit}); record again")
        cells = line.rstrip("\r\n").split("\t")
        if header is None:
            header = cells
            if missing := set(columns) - set(header):
                raise InputError(f"{where}: missing column {min(missing)!r}; record again")
        elif len(cells) != len(header):
            problem = f"line of {len(cells)} values (expected {len(header)}, as in the header)"
            raise InputError(f"{where}: {problem}; record again")
        else:
            row = dict(zip(header, cells, strict=True))
            yield where, {name: None if row[name] == ABSENT else row[name] for name in columns}
    if header is None:
        raise InputError(f"{label}: empty file (expected a table with a header); record again")


def growth(before: int, after: int, modulus: int | None = None) -> tuple[int | None, bool]:
    """Return the increase of a counter, and whether it wrapped.

    If a wrap would mean an increase of more than half of its range, the counter is assumed to be
    reset, e.g. because a CPU went offline and online: its increase is unknown, None.

    :param modulus: number of values of the counter; None if it is too wide to wrap
    """
    if after >= before:
        return after - before, False
    if modulus is not None and before < modulus and after + modulus - before < modulus // 2:
        return after + modulus - before, True
    return None, False
