# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the table of pairs that are compared.

::

    name,base,new
    hackbench,night/base.tar,night/new.tar
    ,s3://bucket/6.18/tbench.tar,s3://bucket/6.19/tbench.tar

``base`` and ``new`` are files, ``FORMAT:PATH`` or URLs; other columns are ignored.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from schedperf.inputs.bundle.files import read_regular
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, cut

LARGEST_BYTES = 64 << 20
MOST_PAIRS = 100_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,99}")
_COLUMNS = ("base", "new")
_SHOWN = 40


class Pair(Struct, frozen=True, kw_only=True):
    """Two bundles.

    :param name: unique in the table; the number of the pair if the table states none
    """

    name: str
    base: str
    new: str


def read_pairs(path: Path) -> tuple[Pair, ...]:
    """Read a table of pairs.

    :raises InputError: the file cannot be read, lacks a column, or has an invalid line
    """
    content = read_regular(path, LARGEST_BYTES, "a table of pairs")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: invalid UTF-8 (expected a CSV file); convert the file") from None
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        _check_columns(path, rows.fieldnames or ())
        pairs: dict[str, Pair] = {}
        for pair in _pairs(path, rows):
            if pair.name in pairs:
                raise InputError(
                    f"{path}:{rows.line_num}: name {pair.name} occurs twice; rename it"
                )
            pairs[pair.name] = pair
    except csv.Error as error:
        raise InputError(f"{path}:{rows.line_num}: {error} (expected CSV); correct it") from None
    if not pairs:
        raise InputError(f"{path}: no pairs (expected a line for each); add some")
    return tuple(pairs.values())


def _check_columns(path: Path, names: Sequence[str]) -> None:
    missing = [each for each in _COLUMNS if each not in names]
    if missing:
        raise InputError(
            f"{path}: no column {missing[0]} (expected base, new and, if wanted, name; found "
            f"{cut(clean_line(', '.join(names)), _SHOWN)}); correct the first line"
        )


def _pairs(path: Path, rows: "csv.DictReader[str]") -> Iterator[Pair]:
    for number, row in enumerate(rows, start=1):
        where = f"{path}:{rows.line_num}"
        if number > MOST_PAIRS:
            raise InputError(f"{where}: more than {MOST_PAIRS} pairs; split the file")
        yield _pair(where, number, row)


def _pair(where: str, number: int, row: Mapping[str, str | None]) -> Pair:
    files = {column: row[column] for column in _COLUMNS}
    for column, value in files.items():
        if not value or "\0" in value:
            raise InputError(f"{where}: no {column} (expected a file or a URL); add it")
    name = row.get("name") or str(number)
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{where}: invalid name {cut(clean_line(name), _SHOWN)!r} (expected at most 100 "
            "letters, digits and . _ + @ -); rename it"
        )
    return Pair(name=name, base=files["base"] or "", new=files["new"] or "")
