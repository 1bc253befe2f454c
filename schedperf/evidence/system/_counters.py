# SPDX-License-Identifier: GPL-2.0-or-later
"""What readers of kernel counters share: numbers, tables with tabs, and how counters grow."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from schedperf.model.errors import InputError

# What stands in a table where there is no value.
ABSENT = "-"
# Counters of one machine: 4096 CPUs with 16 idle states.
MOST_ROWS = 1 << 16
LONGEST_LINE = 1 << 16
LARGEST_COUNT = 2**64 - 1
MOST_CPUS = 8192
SHOWN = 40

_COUNT = re.compile(r"[0-9]{1,20}", re.ASCII)

Row = Mapping[str, "str | None"]


def parse_count(text: str, where: str) -> int:
    """Return a counter's value.

    :param where: file and line, for messages
    :raises InputError: it is none, or more than 64 bits hold
    """
    if not _COUNT.fullmatch(text) or int(text) > LARGEST_COUNT:
        raise InputError(f"{where}: not a count: {text[:SHOWN]!r}; record again")
    return int(text)


def parse_cpu(text: str | None, where: str) -> int:
    """Return the number of a CPU.

    :raises InputError: it is none, or larger than that of any machine
    """
    cpu = parse_count(text or "", where)
    if cpu >= MOST_CPUS:
        raise InputError(f"{where}: cpu{cpu} of at most {MOST_CPUS}; record again")
    return cpu


def optional_count(row: Row, column: str, where: str) -> int | None:
    """Return the count in a column of a row; None where it has none."""
    text = row[column]
    return None if text is None else parse_count(text, where)


def read_table(
    lines: Iterable[str], columns: Sequence[str], label: str
) -> Iterator[tuple[str, Row]]:
    """Read a table whose first line names the columns, with tabs between.

    :param columns: that are wanted; others may be there as well
    :return: where a row is, for messages, and its values by column, None where there is none
    :raises InputError: a column is missing, a row is damaged, or there are too many
    """
    header: list[str] | None = None
    for number, line in enumerate(lines, 1):
        where = f"{label}:{number}"
        if number > MOST_ROWS or len(line) > LONGEST_LINE:
            raise InputError(f"{where}: more than a machine can have; record again")
        cells = line.rstrip("\r\n").split("\t")
        if header is None:
            header = cells
            if missing := set(columns) - set(header):
                raise InputError(f"{where}: no column {min(missing)!r}; record again")
        elif len(cells) != len(header):
            problem = f"{len(cells)} values under {len(header)} columns"
            raise InputError(f"{where}: {problem}; record again")
        else:
            found = dict(zip(header, cells, strict=True))
            yield where, {name: None if found[name] == ABSENT else found[name] for name in columns}
    if header is None:
        raise InputError(f"{label}: empty; record again")


def growth(before: int, after: int, modulus: int | None = None) -> tuple[int | None, bool]:
    """Return by how much a counter has grown, and whether it wrapped.

    A counter that would have had to count more than half of its range to wrap is taken to have
    started again, as counters do when a CPU goes and comes: what it counted is unknown, None.

    :param modulus: the number of values of the counter; None where it is too wide to wrap
    """
    if after >= before:
        return after - before, False
    if modulus is not None and before < modulus and after + modulus - before < modulus // 2:
        return after + modulus - before, True
    return None, False
