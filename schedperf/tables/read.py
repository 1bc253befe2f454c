"""Tables of numbers as input: CSV files of runs, or of the means that somebody published.

One line is one run, or one published mean; the first line that is no comment names
the columns, and docs/tables.md says what each may hold::

    # tbench on a machine with 8 nodes
    workload,point,metric,unit,better,value
    tbench,clients=8,throughput,MB/s,higher,2232.73
    tbench,clients=8,throughput,MB/s,higher,2228.71

A file is input of strangers: it is bounded, and what is not understood is refused
with its line rather than guessed or left out.
"""

import codecs
import csv
import difflib
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from schedperf.bundle.files import read_regular
from schedperf.model.comparison import Source
from schedperf.model.errors import InputError
from schedperf.model.text import cut_line
from schedperf.tables.columns import COLUMNS, df_rows, shown

SUFFIXES = (".csv", ".tsv")

# A row of a comparison is drawn, printed and kept in memory with all of its runs.
LARGEST_BYTES = 64 << 20
MOST_ROWS = 200_000
LONGEST_FIELD = 1000
# Each side is compared with base, row by row, and is a column of the report.
MOST_SIDES = 100

REQUIRED = ("workload", "metric", "unit", "better")
DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """One table as it was read.

    :param digest: SHA-256 of the file; equal digests are equal data
    :param sides: the names in its column ``side``, in their order; empty where it has none
    :param runs: as :func:`read_table` describes it
    :param sources: where each of the rows of ``runs`` stands in the file
    """

    path: Path
    digest: str
    sides: tuple[str, ...]
    runs: pd.DataFrame
    sources: tuple[Source, ...]


def is_table(path: Path) -> bool:
    """Say whether a name is that of a table; everything else is taken for a bundle."""
    return path.suffix.lower() in SUFFIXES


def read_table(path: Path) -> pd.DataFrame:
    """Read a table as :func:`schedperf.stats.compare_runs` takes it.

    One row a line, in the order of the file: ``workload, point, metric, unit, better``
    and ``status`` (text, point canonical, status "ok" unless said), and, where the file
    has them, ``side, family, claimed, claimed_mean`` (text; None is missing) and ``value,
    mean, cv, n, order, round, boot, run, resolution`` (float; NaN is missing; ``cv`` is
    a fraction). Without a column ``side`` the file is one side.

    :raises InputError: with the line and the column, and what to do
    """
    return open_table(path).runs


def open_table(path: Path) -> Table:
    """Read a table with what is known of its file.

    :raises InputError: as :func:`read_table`
    """
    content = read_regular(path, LARGEST_BYTES, "give a table of numbers, a large one in parts")
    text = _decode(content, path)
    runs, places = _Reader(str(path)).read(text)
    lines = text.split("\n")
    sides = tuple(runs["side"].unique()) if "side" in runs else ()
    if len(sides) > MOST_SIDES:
        raise InputError(f"{path}: holds {len(sides)} sides, more than {MOST_SIDES}; split it")
    return Table(
        path=path,
        digest=hashlib.sha256(content).hexdigest(),
        sides=sides,
        runs=runs,
        sources=tuple(
            Source(member=str(path), line=place, text=cut_line(lines[place - 1].strip()))
            for place in places
        ),
    )


def _decode(content: bytes, path: Path) -> str:
    # Spreadsheets write a byte order mark, and UTF-16 where they call it "Unicode text".
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if is_wide else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: is no text in UTF-8; save the table as UTF-8") from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}:{line}: holds a NUL byte, which no table does; save it as text")
    return text


class _Reader:
    """The steps of reading one table; ``label`` is only for messages."""

    def __init__(self, label: str) -> None:
        self.label = label

    def read(self, text: str) -> tuple[pd.DataFrame, Sequence[int]]:
        """Return the rows, and the line that each of them begins at."""
        lines = text.split("\n")
        top = next(
            (i for i, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"), None
        )
        if top is None:
            raise self._error(len(lines), "holds no table; the first line names the columns")
        delimiter, columns = self._header(lines[top], top + 1)
        body = io.StringIO("\n".join(lines[top + 1 :]))
        rows: list[dict[str, object]] = []
        places: list[int] = []
        for number, fields in self._records(body, delimiter, top + 1):
            if len(rows) == MOST_ROWS:
                raise self._error(number, f"there are more than {MOST_ROWS} rows; split the table")
            rows.append(self._row(number, columns, fields, delimiter))
            places.append(number)
        if not rows:
            raise self._error(top + 1, "names columns and no row follows; add a row a run")
        runs = df_rows(rows, columns)
        self._refuse_two_summaries(runs, places)
        return runs, places

    def _error(self, number: int, problem: str) -> InputError:
        return InputError(f"{self.label}:{number}: {problem}")

    def _header(self, line: str, number: int) -> tuple[str, list[str]]:
        # The delimiter is the one that makes known columns of the header; data may hold the others.
        known = set(COLUMNS)
        names = {
            delimiter: [name.strip(' "').lower() for name in line.split(delimiter)]
            for delimiter in DELIMITERS
        }
        delimiter = max(DELIMITERS, key=lambda one: len(known.intersection(names[one])))
        columns = names[delimiter]
        for name in columns:
            if name not in known:
                raise self._error(number, self._unknown(name, known))
            if columns.count(name) > 1:
                raise self._error(number, f"there are two columns {name}; remove one")
        for name in REQUIRED:
            if name not in columns:
                raise self._error(number, f"there is no column {name}; add it")
        if not {"value", "mean"} & set(columns):
            raise self._error(number, "there is no column value; add it, or mean for summaries")
        return delimiter, columns

    @staticmethod
    def _unknown(name: str, known: set[str]) -> str:
        likely = difflib.get_close_matches(name, known, n=1)
        remedy = f"it may be {likely[0]}" if likely else f"known are {', '.join(sorted(known))}"
        return f"the column {shown(name)} is not known; {remedy}"

    def _records(
        self, body: io.StringIO, delimiter: str, above: int
    ) -> Iterator[tuple[int, list[str]]]:
        """Yield the line number and the fields of each row."""
        records = csv.reader(body, delimiter=delimiter, strict=True)
        first = above + 1
        try:
            for fields in records:
                if any(field.strip() for field in fields):
                    yield first, fields
                first = above + records.line_num + 1
        except csv.Error as error:
            raise self._error(first, f"cannot be read: {error}; mend its quotes") from None

    def _row(
        self, number: int, columns: Sequence[str], fields: Sequence[str], delimiter: str
    ) -> dict[str, object]:
        if fields[0].lstrip().startswith("#"):
            raise self._error(number, "comments stand above the header only; remove the line")
        if len(fields) != len(columns):
            raise self._error(
                number,
                f"has {len(fields)} fields where the header has {len(columns)}; "
                f"quote text that holds a {DELIMITERS[delimiter]}",
            )
        row: dict[str, object] = {"status": "ok", "point": ""}
        for name, field in zip(columns, fields, strict=True):
            if len(field) > LONGEST_FIELD:
                raise self._error(
                    number, f"{name} has {len(field)} characters, more than {LONGEST_FIELD}"
                )
            try:
                row[name] = COLUMNS[name](field.strip())
            except (InputError, ValueError) as error:
                raise self._error(number, f"{name}: {error}") from None
        self._check_numbers(number, row)
        number_of = next((name for name in ("value", "mean") if row.get(name) is not None), None)
        row["printed"] = fields[columns.index(number_of)].strip() if number_of else ""
        return row

    def _check_numbers(self, number: int, row: Mapping[str, object]) -> None:
        value, mean = row.get("value"), row.get("mean")
        if value is not None and mean is not None:
            raise self._error(number, "has a value and a mean; a row is a run or a summary")
        if mean is None and (row.get("cv") is not None or row.get("n") is not None):
            raise self._error(number, "has cv or n without a mean; they describe a mean")
        if value is None and mean is None and row["status"] == "ok":
            raise self._error(
                number, "has no number; write it, or failed in the column status for a failed run"
            )

    def _refuse_two_summaries(self, runs: pd.DataFrame, places: Sequence[int]) -> None:
        if "mean" not in runs:
            return
        question = [name for name in ("side", *REQUIRED, "point") if name in runs]
        is_summary = runs["mean"].notna()
        summaries = is_summary.groupby([runs[name] for name in question]).transform("any")
        repeated = runs.duplicated(question) & summaries & (runs["status"] == "ok")
        if repeated.any():
            raise self._error(
                places[int(repeated.to_numpy().argmax())],
                "a mean stands for all runs of its side, and there is another row of them; "
                "remove one",
            )
