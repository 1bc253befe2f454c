# SPDX-License-Identifier: GPL-2.0-or-later
"""Read tables of foreign histories: one line per series and time, or order.

::

    series,order,time,revision,value,ref,unit,better
    arena-allocator.libc,0,1589534938,d3ebd4286507,0.729799,0.963458,ms,lower

``series`` and ``value`` are required, and ``time`` or ``order``; other columns are ignored. ``ref``
is the value of a reference that was measured in the same job. An empty ``value`` or, in a series
with references, an empty ``ref`` is a lost night. Times are ISO 8601, or seconds since 1970; a
smaller number than :data:`EARLIEST` counts builds.
"""

import csv
import hashlib
import io
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from schedperf.inputs.bundle.files import read_regular
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, cut

LARGEST_BYTES = 256 << 20
MOST_ROWS = 2_000_000
MOST_SERIES = 50_000
LONGEST_NAME = 200
# 1973-03-03; no benchmark history is older, and no project has as many builds.
EARLIEST = 100_000_000
# 3000-01-01.
LATEST = 32_503_680_000
_INTEGER = re.compile("-?[0-9]{1,15}", re.ASCII)
_DIRECTIONS = {"higher", "lower", "", "unknown"}
_COLUMNS = ("series", "order", "time", "revision", "value", "ref", "unit", "better")
_SHOWN = 40


class Point(Struct, frozen=True, kw_only=True):
    """One line.

    :param position: order within the series
    :param night: date, or the order as text if no time is known
    :param value: in ``unit``; None for a lost night
    :param ref: value of the reference; None if it was not measured
    """

    series: str
    position: int
    night: str
    revision: str
    value: float | None
    ref: float | None


class ForeignSeries(Struct, frozen=True, kw_only=True):
    """The constants of a series.

    :param better: "higher", "lower" or "unknown"
    """

    name: str
    unit: str
    better: str


class ForeignTable(Struct, frozen=True, kw_only=True):
    """A table.

    :param digest: SHA-256 of the file
    :param label: name of the file without suffix; the workload of its series
    """

    digest: str
    label: str
    series: tuple[ForeignSeries, ...]
    points: tuple[Point, ...]


def read_foreign(path: Path, label: str | None = None) -> ForeignTable:
    """Read a table.

    :param label: see :class:`ForeignTable`; None for the name of the file
    :raises InputError: the file cannot be read, or a line is invalid
    """
    content = read_regular(path, LARGEST_BYTES, "a table with the columns series, time and value")
    return parse_foreign(content, path, label)


def parse_foreign(content: bytes, path: Path, label: str | None = None) -> ForeignTable:
    """Parse a table; see :func:`read_foreign`.

    :raises InputError: a line is invalid
    """
    reader = _Reader(path)
    points = tuple(reader.read(_text(content, path)))
    if not points:
        raise InputError(f"{path}: no values; add lines below the names of the columns")
    return ForeignTable(
        digest=hashlib.sha256(content).hexdigest(),
        label=label or path.stem,
        series=tuple(reader.series.values()),
        points=points,
    )


def is_foreign(head: bytes) -> bool:
    """Return whether a file begins with the names of the required columns."""
    line = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].decode(errors="replace")
    names = {name.strip() for name in line.split(",")}
    return {"series", "value"} <= names and bool(names & {"time", "order"})


def _text(content: bytes, path: Path) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; convert it, e.g. by iconv") from None


class _Reader:
    """Reads the lines of one table.

    :ivar series: the series, by name
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.series: dict[str, ForeignSeries] = {}
        self._seen: set[tuple[str, int]] = set()
        # How many lines of a series have the same time.
        self._same: dict[tuple[str, int], int] = {}
        self._line = 1

    def read(self, text: str) -> Iterator[Point]:
        """Yield the points.

        :raises InputError: a line is invalid
        """
        rows = csv.DictReader(io.StringIO(text, newline=""))
        try:
            names = rows.fieldnames or []
            if not is_foreign(",".join(names).encode()):
                raise self._error(
                    "missing columns (expected series, value, and time or order); edit the file"
                )
            for row in rows:
                self._line = rows.line_num
                yield self._point({name: (row.get(name) or "").strip() for name in _COLUMNS})
        except csv.Error as error:
            raise self._error(f"invalid CSV: {clean_line(str(error))}; edit the file") from None

    def _point(self, row: Mapping[str, str]) -> Point:
        name = self._name(row)
        time = self._time(row["time"])
        order = self._order(row["order"])
        if order is None:
            order = self._by_time(name, time)
        if (name, order) in self._seen:
            raise self._error(
                f"second line of {cut(name, _SHOWN)} with the order {order}; remove one"
            )
        self._seen.add((name, order))
        if len(self._seen) > MOST_ROWS:
            raise self._error(f"more than {MOST_ROWS} lines; split the file")
        return Point(
            series=name,
            position=order,
            night=f"{time:%Y-%m-%d}" if time else str(order),
            revision=self._printable("revision", row["revision"]),
            value=self._number("value", row["value"]),
            ref=self._number("ref", row["ref"]),
        )

    def _name(self, row: Mapping[str, str]) -> str:
        name = self._printable("series", row["series"])
        if not name:
            raise self._error("series: empty (expected a name); edit the file")
        better = row["better"]
        if better not in _DIRECTIONS:
            raise self._error(
                f"better: invalid {better[:_SHOWN]!r} (expected higher or lower); edit the file"
            )
        unit = self._printable("unit", row["unit"])
        series = ForeignSeries(name=name, unit=unit, better=better or "unknown")
        if self.series.setdefault(name, series) != series:
            raise self._error(
                f"series {cut(name, _SHOWN)}: other unit or direction than above; edit the file"
            )
        if len(self.series) > MOST_SERIES:
            raise self._error(f"more than {MOST_SERIES} series; split the file")
        return name

    def _time(self, text: str) -> datetime | None:
        if not text:
            return None
        try:
            seconds = float(text)
        except ValueError:
            return self._date(text)
        if not 0 <= seconds < LATEST:
            raise self._error(
                f"time: invalid {text[:_SHOWN]!r} (expected seconds since 1970, e.g. 1764489600)"
            )
        return datetime.fromtimestamp(seconds, UTC) if seconds >= EARLIEST else None

    def _date(self, text: str) -> datetime:
        try:
            time = datetime.fromisoformat(text)
            return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            raise self._error(
                f"time: invalid {text[:_SHOWN]!r} (expected ISO 8601, e.g. 2026-11-30, or seconds "
                "since 1970)"
            ) from None

    def _order(self, text: str) -> int | None:
        if not text:
            return None
        if not _INTEGER.fullmatch(text):
            raise self._error(f"order: invalid {text[:_SHOWN]!r} (expected an integer, e.g. 12)")
        return int(text)

    def _by_time(self, name: str, time: datetime | None) -> int:
        """Return the order of a line that has only a time."""
        if time is None:
            raise self._error("no order and no time (expected one of them); edit the file")
        seconds = int(time.timestamp())
        number = self._same.get((name, seconds), 0)
        self._same[name, seconds] = number + 1
        # Several runs of one revision.
        return seconds * 1000 + number

    def _number(self, column: str, text: str) -> float | None:
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self._error(
                f"{column}: invalid {text[:_SHOWN]!r} (expected a number, e.g. 1.25, or nothing)"
            )
        return number

    def _printable(self, column: str, text: str) -> str:
        if not text.isprintable() or len(text) > LONGEST_NAME:
            raise self._error(
                f"{column}: invalid {text[:_SHOWN]!a} (expected at most {LONGEST_NAME} "
                "printable characters); edit the file"
            )
        return text

    def _error(self, problem: str) -> InputError:
        return InputError(f"{self.path}:{self._line}: {problem}")
