# SPDX-License-Identifier: GPL-2.0-or-later
"""Read tables of numbers: CSV files of runs, or of published means.

Each line is one run or one published mean; the first line that is not a comment names the columns
(see docs/tables.md)::

    # tbench on a machine with 8 nodes
    workload,point,metric,unit,better,value
    tbench,clients=8,throughput,MB/s,higher,2232.73
    tbench,clients=8,throughput,MB/s,higher,2228.71

Without a column ``workload``, the file name is the workload; ``better`` is needed only if the unit
does not determine it.

Files are untrusted: their size is limited, and an invalid row is an error that names its line.
"""

import codecs
import csv
import difflib
import hashlib
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from msgspec import Struct

from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.tables.consistency import parse_change, parse_mean
from schedperf.inputs.tables.direction import direction_of
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.errors import InputError
from schedperf.model.frame import Frame, floats, objects
from schedperf.model.numbers import printed_step
from schedperf.model.rows import Family, Source
from schedperf.model.text import cut_line, list_some
from schedperf_collectors.contract import point_key

if TYPE_CHECKING:
    import pandas as pd

# Limits on rows, which are kept in memory, printed and drawn with all runs.
LARGEST_BYTES = 64 << 20
MOST_ROWS = 200_000
LONGEST_FIELD = 1000
# Limit on sides, since each is compared with base and is a column of the report.
MOST_SIDES = 100

# Values of the column `better`.
DIRECTIONS = ("higher", "lower")
# Rows that agree in these columns belong to one result. The direction is a column or follows from
# the unit.
_QUESTION = ("side", "workload", "metric", "unit", "better", "point")
REQUIRED = ("metric", "unit")
DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon"}
# Longest quote in an error message, in characters, and the number of columns that it lists.
_LONGEST_SHOWN = 40
_MOST_SHOWN = 5

# Refuses "1.", which may be a truncated 1.25.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
# Programs that store whole numbers as floats write 3.0.
_WHOLE = re.compile(r"[0-9]{1,15}(?:\.0+)?")
_NAME = re.compile(r"[^\s=,]+")
# The notation after a mean in papers: ±1.75%, +/-1.75%.
_SPREAD = re.compile(rf"(?:±|\+/-)?\s*(?P<number>{_NUMBER.pattern})\s*(?P<percent>%)?")


class Table(Struct, frozen=True, kw_only=True):
    """The contents of one table.

    :param digest: SHA-256 of the file; equal digests are equal data
    :param sides: the names in its column ``side``, in order; empty without the column
    :param runs: the rows, with the columns of :func:`read_table`
    :param sources: file, line number and text of each row of ``runs``
    :param caveats: signs that the file was truncated
    """

    path: Path
    digest: str
    sides: tuple[str, ...]
    runs: Frame
    sources: tuple[Source, ...]
    caveats: tuple[Caveat, ...]


def read_table(path: Path) -> "pd.DataFrame":
    """Read a table in the form that :func:`schedperf.stats.compare_runs` takes.

    One row per line, in the order of the file. All tables have the columns ``workload, point,
    metric, unit, better`` and ``status`` (text, point canonical, status "ok" by default), and
    ``resolution`` (float; from the file, or else the last decimal of the metric's longest number;
    NaN for counts). If the file has them, there are also ``side, family, claimed, claimed_mean``
    (text; None is a missing claim) and ``value, mean, cv, n, order, round, boot, run`` (float; NaN
    is missing; ``cv`` is a fraction). Without a column ``side`` the file is one side.

    :raises InputError: the file cannot be read or is too large, or its header or a row is invalid;
        the message says where, and what to do
    """
    return open_table(path).runs.data_frame()


def open_table(path: Path, workload: str | None = None, *, is_only: bool = False) -> Table:
    """Read a table together with its file's properties.

    :param workload: workload of a table without that column; None for the name of the file
    :param is_only: whether all sides of a comparison are in this table; errors about the header
        then mention a missing column ``side``
    :raises InputError: as :func:`read_table`
    """
    content = read_regular(path, LARGEST_BYTES, "a CSV file of results", "split the file")
    text = _decode(content, path)
    runs, places = _TableReader(str(path), workload or path.stem, is_only=is_only).read(text)
    lines = text.split("\n")
    sides = tuple(dict.fromkeys(runs["side"].tolist())) if "side" in runs else ()
    if len(sides) > MOST_SIDES:
        raise InputError(
            f"{path}: {len(sides)} sides (expected at most {MOST_SIDES}); split the table"
        )
    return Table(
        path=path,
        digest=hashlib.sha256(content).hexdigest(),
        sides=sides,
        runs=runs,
        sources=tuple(
            Source(member=str(path), line=number, text=cut_line(lines[number - 1].strip()))
            for number in places
        ),
        caveats=tuple(_caveats(path, lines)),
    )


def _caveats(path: Path, lines: Sequence[str]) -> Iterator[Caveat]:
    # A number without its last digits is still a number, so only a missing newline reveals
    # truncation.
    if text := cut_line(lines[-1].strip()):
        yield caveat("no-line-end", path=str(path), line=len(lines), text=text)


def _decode(content: bytes, path: Path) -> str:
    # Spreadsheets write a byte order mark, and UTF-16 in the format "Unicode text".
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if is_wide else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: invalid UTF-8; save the table as UTF-8") from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}:{line}: contains a NUL byte; save the table as text")
    return text


class _TableReader:
    """The steps of reading one table; ``label`` is only for messages."""

    def __init__(self, label: str, workload: str, *, is_only: bool) -> None:
        self.label = label
        self.workload = workload
        self.is_only = is_only

    def read(self, text: str) -> tuple[Frame, Sequence[int]]:
        """Return the rows and the line number of each, from 1.

        :raises InputError: the table is invalid
        """
        lines = text.split("\n")
        top = next(
            (i for i, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"), None
        )
        if top is None:
            raise self._error(len(lines), "empty table (expected a header with column names)")
        delimiter, columns = self._header(lines[top], top + 1)
        body = io.StringIO("\n".join(lines[top + 1 :]))
        rows: list[dict[str, object]] = []
        places: list[int] = []
        for number, fields in self._records(body, delimiter, top + 1):
            if len(rows) == MOST_ROWS:
                raise self._error(number, f"more than {MOST_ROWS} rows; split the table")
            rows.append(self._row(number, columns, fields, delimiter))
            places.append(number)
        if not rows:
            raise self._error(top + 1, "header without rows; add one row per run")
        self._refuse_two_summaries(rows, places)
        return _frame_of(rows, columns), places

    def _error(self, number: int, problem: str) -> InputError:
        return InputError(f"{self.label}:{number}: {problem}")

    def _header(self, line: str, number: int) -> tuple[str, list[str]]:
        # The delimiter is the one with which the header has known columns; data may contain other
        # delimiters.
        accepted = set(_COLUMNS)
        names = {
            delimiter: [name.strip(' "').lower() for name in line.split(delimiter)]
            for delimiter in DELIMITERS
        }
        delimiter = max(
            DELIMITERS, key=lambda candidate: len(accepted.intersection(names[candidate]))
        )
        columns = names[delimiter]
        unknown = [name for name in dict.fromkeys(columns) if name not in accepted]
        missing = [f"`{name}`" for name in REQUIRED if name not in columns]
        if not {"value", "mean"} & set(columns):
            missing.append("`value` (one row per run) or `mean` (summaries)")
        # A table with all other columns can also be compared with a second one.
        if self.is_only and "side" not in columns and (unknown or missing):
            missing.append("`side` (or give a second table)")
        problems = [
            *([self._unknown(unknown, accepted)] if unknown else []),
            *([f"missing columns {', '.join(missing)}; add these columns"] if missing else []),
        ]
        if problems:
            raise self._error(number, "; ".join(problems))
        twice = next((name for name in columns if columns.count(name) > 1), None)
        if twice is not None:
            raise self._error(number, f"column `{twice}` given twice; remove one")
        return delimiter, columns

    @staticmethod
    def _unknown(names: Sequence[str], accepted: set[str]) -> str:
        """Return what is wrong with unknown columns, with close matches or all known columns."""
        shown = list_some([_shown(name) for name in names], _MOST_SHOWN)
        likely = [difflib.get_close_matches(name, accepted, n=1) for name in names]
        meant = [f"`{match[0]}`" for match in likely if match]
        remedy = (
            f"did you mean {', '.join(meant[:_MOST_SHOWN])}?"
            if meant
            else f"expected one of {', '.join(sorted(accepted))}"
        )
        return f"unknown column{'s' * (len(names) > 1)} {shown} ({remedy})"

    def _records(
        self, body: io.StringIO, delimiter: str, above: int
    ) -> Iterator[tuple[int, list[str]]]:
        """Yield the line number and the fields of each row that is not empty.

        :param above: line number of the header, from 1
        :raises InputError: a row is not valid CSV
        """
        records = csv.reader(body, delimiter=delimiter, strict=True)
        first = above + 1
        try:
            for fields in records:
                if any(field.strip() for field in fields):
                    yield first, fields
                first = above + records.line_num + 1
        except csv.Error as error:
            raise self._error(first, f"cannot be parsed ({error}); correct the quotes") from None

    def _row(
        self, number: int, columns: Sequence[str], fields: Sequence[str], delimiter: str
    ) -> dict[str, object]:
        if fields[0].lstrip().startswith("#"):
            raise self._error(number, "comments are only allowed above the header; remove the line")
        if len(fields) != len(columns):
            raise self._error(
                number,
                f"{len(fields)} fields (expected {len(columns)}, as in the header); quote "
                f"fields that contain a {DELIMITERS[delimiter]}",
            )
        row: dict[str, object] = {"workload": self.workload, "status": "ok", "point": ""}
        for name, field in zip(columns, fields, strict=True):
            if len(field) > LONGEST_FIELD:
                raise self._error(
                    number,
                    f"`{name}` has {len(field)} characters (expected at most {LONGEST_FIELD}); "
                    "shorten the field",
                )
            try:
                row[name] = _COLUMNS[name](field.strip())
            except (InputError, ValueError) as error:
                raise self._error(number, f"{name}: {error}") from None
        row["better"] = row.get("better") or direction_of(str(row["unit"]))
        if row["better"] is None:
            raise self._error(
                number,
                f"unit {_shown(str(row['unit']))} does not determine "
                "whether higher or lower is better; "
                "add `better` (higher or lower)",
            )
        self._check_numbers(number, row)
        number_of = next((name for name in ("value", "mean") if row.get(name) is not None), None)
        row["printed"] = fields[columns.index(number_of)].strip() if number_of else ""
        return row

    def _check_numbers(self, number: int, row: Mapping[str, object]) -> None:
        value, mean = row.get("value"), row.get("mean")
        if value is not None and mean is not None:
            raise self._error(
                number,
                "both `value` and `mean` are set (expected `value` for one run, `mean` for a "
                "summary)",
            )
        if mean is None and (row.get("cv") is not None or row.get("n") is not None):
            raise self._error(
                number, "`cv` or `n` set without `mean`; add `mean`, or leave `cv` and `n` empty"
            )
        if value is None and mean is None and row["status"] == "ok":
            raise self._error(
                number,
                (
                    "no number in `value` or `mean`; add the number, or set `status` to failed "
                    "if the "
                    "run failed"
                ),
            )

    def _refuse_two_summaries(
        self, rows: Sequence[Mapping[str, object]], places: Sequence[int]
    ) -> None:
        questions = [tuple(map(row.get, _QUESTION)) for row in rows]
        of_runs = zip(questions, rows, strict=True)
        summaries = {asked for asked, row in of_runs if row.get("mean") is not None}
        seen = set()
        for asked, row, number in zip(questions, rows, places, strict=True):
            if asked in seen and asked in summaries and row["status"] == "ok":
                raise self._error(
                    number,
                    "second row for a side with a `mean` (expected one row with the mean of all "
                    "runs); remove one",
                )
            seen.add(asked)


def _shown(text: str) -> str:
    """Return a field, quoted and cut to 40 characters, for error messages."""
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")


def _name(field: str) -> str:
    if not field:
        raise ValueError("the field is empty; fill in a value")
    return field


def _point(field: str) -> str:
    parameters: dict[str, str] = {}
    for part in field.split(",") if field else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value or not _NAME.fullmatch(name):
            raise ValueError(
                f"invalid parameter {_shown(part)} (expected NAME=VALUE, e.g. clients=8)"
            )
        if name in parameters:
            raise ValueError(f"parameter {_shown(name)} given twice; give each parameter once")
        parameters[name] = value
    return point_key(parameters)


def _choice(*choices: str) -> Callable[[str], str]:
    def choose(field: str) -> str:
        if field.lower() not in choices:
            raise ValueError(f"unknown value {_shown(field)} (expected {' or '.join(choices)})")
        return field.lower()

    return choose


def _better(field: str) -> str | None:
    return _choice(*DIRECTIONS)(field) if field else None


def _family(field: str) -> str:
    # Tables written before the record /2 say "diagnostic".
    families = {"": "primary", "diagnostic": "informational"}
    return _choice(*get_args(Family))(families.get(field.lower(), field))


def _status(field: str) -> str:
    return field.lower() or "ok"


def _number(field: str) -> float | None:
    if not field:
        return None
    if not _NUMBER.fullmatch(field):
        raise ValueError(f"invalid number {_shown(field)} (expected a number, e.g. 12.5, or empty)")
    number = float(field)
    if not math.isfinite(number):
        raise ValueError(f"invalid number {_shown(field)} (expected at most 1.7e308)")
    return number


def _whole(field: str) -> float | None:
    if field and not _WHOLE.fullmatch(field):
        raise ValueError(f"invalid count {_shown(field)} (expected a whole number, e.g. 3)")
    return float(field) if field else None


def _count(field: str) -> float | None:
    number = _whole(field)
    if number == 0.0:
        raise ValueError("invalid count 0 (expected 1 or more); leave the field empty if unknown")
    return number


def _resolution(field: str) -> float | None:
    number = _number(field)
    if number is not None and number <= 0.0:
        raise ValueError(
            f"invalid resolution {_shown(field)} (expected a positive number, e.g. 0.001, or empty)"
        )
    return number


def _cv(field: str) -> float | None:
    if not field:
        return None
    match = _SPREAD.fullmatch(field)
    if match is None or (number := _number(match["number"])) is None or number < 0.0:
        raise ValueError(
            f"invalid CV {_shown(field)} (expected a percentage or fraction, e.g. 1.75% or 0.0175)"
        )
    if match["percent"]:
        return number / 100.0
    # 1.75 nearly always means percent, so it is refused instead of misread.
    if number >= 1.0:
        raise ValueError(
            f"{_shown(field)} is {number:.0%} (expected a fraction below 1, or a percentage, "
            "e.g. 1.75%)"
        )
    return number


def _claimed(field: str) -> str | None:
    if field:
        parse_change(field)
    return field or None


def _claimed_mean(field: str) -> str | None:
    if field:
        parse_mean(field)
    return field or None


# Every column that a table may have, and its parser.
_COLUMNS: Mapping[str, Callable[[str], object]] = {
    "side": _name,
    "workload": _name,
    "point": _point,
    "metric": _name,
    "unit": str,
    "better": _better,
    "value": _number,
    "mean": _number,
    "cv": _cv,
    "n": _count,
    "order": _whole,
    "round": _whole,
    "boot": _whole,
    "run": _whole,
    "resolution": _resolution,
    "family": _family,
    "status": _status,
    "claimed": _claimed,
    "claimed_mean": _claimed_mean,
    "note": str,
}
_FLOATS = {"value", "mean", "cv", "n", "order", "round", "boot", "run", "resolution"}


def _frame_of(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> Frame:
    """Build the table from its rows.

    :param rows: values by column; ``printed`` is the text of the row's ``value`` or ``mean``
    :param columns: columns of the file
    """
    # Columns for human readers only are not used by the statistics.
    always = {"workload", "point", "better", "status"}
    kept = [name for name in _COLUMNS if name in always.union(columns) - {"note", "resolution"}]
    cells = {name: [row[name] for row in rows] for name in kept}
    return Frame(
        {
            **{name: (floats if name in _FLOATS else objects)(of) for name, of in cells.items()},
            "resolution": floats(_resolutions(rows)),
        }
    )


def _resolutions(rows: Sequence[Mapping[str, object]]) -> Iterator[object]:
    # Without a resolution, a number was rounded to its last digit. Programs that write tables drop
    # trailing zeros, so a metric's longest number determines the step; counts are exact.
    finest: dict[tuple[object, ...], float] = {}
    metrics = [(row["workload"], row["metric"], row["unit"]) for row in rows]
    for metric, row in zip(metrics, rows, strict=True):
        if row["printed"]:
            step = printed_step(str(row["printed"]))
            finest[metric] = min(step, finest.get(metric, step))
    for metric, row in zip(metrics, rows, strict=True):
        given = row.get("resolution")
        rounded = None if row["unit"] == "count" else finest.get(metric)
        yield rounded if given is None else given
