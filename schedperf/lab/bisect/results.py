# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the results of boots that a user or a CI system made: one line per boot, in their order.

::

    commit,boot,value
    v6.18,1,2117400.22
    v6.18,2,2143333.58
    729288bc6856,1,1936829.47

``commit`` is anything that git resolves, ``boot`` numbers the boots of a commit, and ``value`` is
the result. The file is untrusted: its size is limited, and an invalid line is an error that names
it.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from schedperf.inputs.bundle.files import read_regular
from schedperf.model.errors import InputError
from schedperf.model.numbers import read_number
from schedperf.model.text import clean_line, cut

COLUMNS = ("commit", "boot", "value")
# A search ends after 140 boots; a file of several searches has a few hundred lines.
MOST_BYTES = 1 << 20
_BOOT = re.compile(r"[0-9]{1,9}", re.ASCII)
_LONGEST_SHOWN = 40


class Result(Struct, frozen=True, kw_only=True):
    """The result of one boot.

    :param where: file and line, for messages
    :param commit: hash, or the user's name for it
    :param value: positive
    """

    where: str
    commit: str
    boot: int
    value: float


def read_results(path: Path) -> Iterator[Result]:
    """Yield the boots of a CSV file; none if it has only the names of the columns.

    :raises InputError: it is not a CSV file of at most 1 MiB, lacks a column, or a line has an
        invalid number
    """
    content = read_regular(path, MOST_BYTES, "a CSV file of boots", "keep the lines of one search")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8"
        ) from None
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
        if missing:
            raise InputError(
                f"{path}:1: no column {', '.join(missing)} (expected {','.join(COLUMNS)}); write "
                "the names of the columns into the first line"
            )
        for row in rows:
            yield _parse(f"{path}:{rows.line_num}", row)
    except csv.Error as error:
        raise InputError(
            f"{path}:{rows.reader.line_num}: {error}; write one boot per line"
        ) from None


def _parse(where: str, row: Mapping[str, str | None]) -> Result:
    commit, boot, value = ((row[name] or "").strip() for name in COLUMNS)
    number = read_number(value)
    if number is None or number <= 0.0:
        raise InputError(
            f"{where}: invalid value {_show(value)} (expected a number above 0, e.g. 2117400.2); "
            "correct it, or remove the line of a failed boot"
        )
    if not _BOOT.fullmatch(boot):
        raise InputError(
            f"{where}: invalid boot {_show(boot)} (expected a whole number, e.g. 1); number the "
            "boots of each commit"
        )
    return Result(where=where, commit=commit, boot=int(boot), value=number)


def resolve_results(
    results: Iterable[Result], resolve: Callable[[str], str]
) -> list[tuple[str, float]]:
    """Return the hash of the commit and the value of each boot, in the order of the results.

    :param resolve: function that returns the hash of a commit, or raises InputError
    :raises InputError: a commit is unknown, or the boots of one have a number twice or are not in
        the order of their numbers
    """
    resolve = cache(resolve)
    last: dict[str, Result] = {}
    resolved = []
    for result in results:
        try:
            commit = resolve(result.commit)
        except InputError as error:
            raise InputError(f"{result.where}: {error}") from None
        earlier = last.get(commit)
        if earlier is not None and result.boot <= earlier.boot:
            raise InputError(
                f"{result.where}: boot {result.boot} of {_show(result.commit)} after its boot "
                f"{earlier.boot} in line {earlier.where.rpartition(':')[2]} (expected each boot "
                "once, in the order of time); sort the lines, or remove one"
            )
        last[commit] = result
        resolved.append((commit, result.value))
    return resolved


def _show(text: str) -> str:
    return repr(cut(clean_line(text), _LONGEST_SHOWN))
