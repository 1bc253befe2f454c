"""The forms in which netperf prints results: tables, comma-separated values, NAME=VALUE lines.

Columns are found by the words of the header, because ``-c``, ``-C``, ``-f``, ``-v`` and the kind of
test add and move them.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from schedperf.model.numbers import read_number

# netperf's names of the values that are read, by what stands above their column.
HEADINGS: Mapping[str, str] = {
    "Throughput": "THROUGHPUT",
    "Throughput Units": "THROUGHPUT_UNITS",
    "Local Send Throughput": "LOCAL_SEND_THROUGHPUT",
    "Mean Latency Microseconds": "MEAN_LATENCY",
    "50th Percentile Latency Microseconds": "P50_LATENCY",
    "90th Percentile Latency Microseconds": "P90_LATENCY",
    "99th Percentile Latency Microseconds": "P99_LATENCY",
    "Maximum Latency Microseconds": "MAX_LATENCY",
}
PAIR_STARTS = tuple(f"{name}=" for name in HEADINGS.values())

# A header has two to four lines.
HEADER_LINES = 4

# The receiver's row leaves out the size of a message and the errors, which stand further left.
RECEIVER_LACKS = 2


class Printed(NamedTuple):
    """One result: its values as text by netperf's names, and the last of its lines."""

    values: Mapping[str, str]
    line_number: int
    line: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Where the header of a table says that the result is.

    :param column: index of the field, from 0
    :param is_datagram: the sender's row is followed by the receiver's
    """

    column: int
    unit: str
    is_datagram: bool


@dataclass(slots=True)
class FormReader:
    """Reads what follows one test's title, whatever its form."""

    header: deque[str] = field(default_factory=lambda: deque(maxlen=HEADER_LINES))
    table: Table | None = None
    sent: str | None = None
    titles: Sequence[str] = ()
    pairs: dict[str, str] = field(default_factory=dict)
    last_pair: tuple[int, str] = (0, "")

    def read(self, line_number: int, line: str) -> Iterator[Printed]:
        """Yield the results that this line, neither empty nor a title, completes."""
        fields = line.rstrip().split(",")
        if "Throughput" in fields:
            self.titles = fields
        elif self.titles and len(fields) == len(self.titles):
            yield Printed(_known(zip(self.titles, fields, strict=True)), line_number, line)
        elif line.startswith(PAIR_STARTS):
            yield from self._read_pair(line_number, line)
        elif read_number(line.split(maxsplit=1)[0]) is None:
            self.header.append(line)
            self.table = self.sent = None
        else:
            yield from self._read_row(line_number, line)

    def finish(self) -> Iterator[Printed]:
        """Yield the result of the NAME=VALUE lines so far."""
        if self.pairs:
            yield Printed(self.pairs, *self.last_pair)
        self.pairs = {}

    def _read_pair(self, line_number: int, line: str) -> Iterator[Printed]:
        key, _, value = line.partition("=")
        if key in self.pairs:
            yield from self.finish()
        self.pairs[key] = value.strip()
        self.last_pair = (line_number, line)

    def _read_row(self, line_number: int, line: str) -> Iterator[Printed]:
        if self.table is None:
            self.table = _find_table(self.header)
        if self.table is None:
            values = _by_position(self.header, line)
            self.header.clear()
            if "THROUGHPUT" in values:
                yield Printed(values, line_number, line)
            return
        fields = line.split()
        column = self.table.column - (RECEIVER_LACKS if self.sent is not None else 0)
        if len(fields) <= column:  # the second row of a request/response test: only buffer sizes
            return
        values = {"THROUGHPUT": fields[column], "THROUGHPUT_UNITS": self.table.unit}
        if self.sent is not None:
            yield Printed({**values, "LOCAL_SEND_THROUGHPUT": self.sent}, line_number, line)
            self.sent = None
        elif self.table.is_datagram:
            self.sent = fields[column]
        else:
            yield Printed(values, line_number, line)


def _find_table(header: Sequence[str]) -> Table | None:
    # In the last but one line of the header each word is one column, and the units are below.
    if len(header) < 2:  # noqa: PLR2004 # as the sentence above says
        return None
    words, units = header[-2].split(), header[-1].split()
    for column, (before, word) in enumerate(pairwise(words), start=1):
        if before in ("Time", "Errors") and column < len(units):
            if word == "Rate":
                return Table(column=column, unit="Trans/s", is_datagram=False)
            if word == "Throughput":
                return Table(column=column, unit=units[column], is_datagram=before == "Errors")
    return None


def _by_position(header: Sequence[str], line: str) -> dict[str, str]:
    # The omni tests' own tables: several lines above one column are its name, and each value
    # begins where its column begins.
    if not any("Throughput" in text for text in header):
        return {}
    starts = [at for at in range(len(line)) if line[at] != " " and line[at - 1 : at] in ("", " ")]
    columns = [slice(start, end) for start, end in pairwise([*starts, None])]
    titles = [" ".join(" ".join(text[column] for text in header).split()) for column in columns]
    return _known(zip(titles, (line[column].strip() for column in columns), strict=True))


def _known(values: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {HEADINGS[title]: value.strip() for title, value in values if title in HEADINGS}
