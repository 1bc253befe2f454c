# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse netperf: stream throughput and request/response transaction rates.

>>> text = '''\\
... MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 127.0.0.1 () port 0 AF_INET
... Socket  Message  Elapsed      Messages
... Size    Size     Time         Okay Errors   Throughput
... bytes   bytes    secs            #      #   10^6bits/sec
...
... 212992   65507   1.00        76600      0    40139.64
... 212992           1.00        74380           38976.32
...
... '''
>>> for item in parse_netperf(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:.0f}", item.metric.unit, item.metric.family)
netperf UDP_STREAM receive throughput 4872040000 B/s primary
netperf UDP_STREAM send throughput 5017455000 B/s informational

The parser reads all TCP, UDP, SCTP, SDP and Unix socket tests and omni, as tables and with ``-o``
or ``-k``. The result of a datagram test is the receive rate, not the send rate.

**Rates are summed over the clients.** A run often starts many netperf clients, and their output
does not show whether they ran concurrently. All rates of a test are therefore summed, so record
each message size as a separate point. A script that repeats a test prints a line ``Iteration: 2``
in between; the rates of each iteration are then summed, and the value of the run is the mean of
these sums. If a client failed or its result is invalid, a ``BadLine`` takes the place of the sum,
which would be too low; if there are iterations, it takes the place of all values of the run.

Latencies are not summed: the parser yields those of each client. The value of the run is their
mean; that of ``latency max`` is the largest.

``Interim result:`` lines are not read. If ``-I`` does not reach the requested confidence interval,
the interval that netperf prints is informational, because it covers repeats within a run. Output of
``-v 0`` has no unit and is not read. Output of ``-P 0`` has no header and is read only after a
table of the same test with a header.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from schedperf.inputs.benchmarks import MICROSECOND_S, BadLine, Measurement, Metric, measure, parser
from schedperf.model.numbers import LARGEST_NUMBER, read_number
from schedperf.model.rows import Better, Family

TITLE = re.compile(
    r"^(?:MIGRATED )?(OMNI|(?:TCP|UDP|SDP|STREAM|DG|SCTP)(?: IPV6)?)( 1-TO-MANY)?"
    r" (STREAM|MAERTS|SENDFILE|UNIDIRECTIONAL SEND|REQUEST/RESPONSE|Connect/Request/Response"
    r"|Connect/Close|Send|Receive|Send\|Recv) TEST(?: from | to |\s*$)",
    re.MULTILINE | re.ASCII,
)
# Names of tests for the option -t, if they differ from the title.
SHORT = {
    "UNIDIRECTIONAL SEND": "STREAM",
    "REQUEST/RESPONSE": "RR",
    "Connect/Request/Response": "CRR",
    "Connect/Close": "CC",
    "Send|Recv": "RR",
}
DATAGRAM_TESTS = ("UDP_STREAM", "DG_STREAM")

NOT_CONNECTED = "establish_control could not establish"
ITERATION = re.compile(r"Iterations?\b", re.ASCII)
INTERIM = "Interim result:"
INTERVAL = re.compile(r"!!! Confidence intervals: Throughput +: +(\S+)%\s*", re.ASCII)
NOTE = "!!!"

# format_units() and calc_thruput() of netlib.c: bits in powers of ten, bytes in powers of two.
UNITS: Mapping[str, tuple[str, float]] = {
    **{f"10^{power}bits": ("B/s", 10.0**power / 8.0) for power in (0, 3, 6, 9)},
    **{f"{prefix}Bytes": ("B/s", 1024.0**power) for power, prefix in enumerate(("", *"KMG"))},
    "Trans": ("1/s", 1.0),
}

# All 200 columns of the omni tests together are about 4000 characters wide.
LONGEST_LINE = 10_000

LATENCIES: Mapping[str, tuple[str, Family]] = {
    "MEAN_LATENCY": ("average", "secondary"),
    "P50_LATENCY": ("p50", "secondary"),
    "P90_LATENCY": ("p90", "secondary"),
    "P99_LATENCY": ("p99", "secondary"),
    "MAX_LATENCY": ("max", "informational"),
}

# By the part of the metric's name after the test.
DEFINITIONS: Mapping[str, str] = {
    "throughput": "Data transferred per second, summed over all clients of the run.",
    "transactions": "Requests answered per second, summed over all clients of the run.",
    "receive throughput": "Data received per second, summed over all clients of the run.",
    "send throughput": "Data sent per second, whether received or not, summed over all clients of "
    "the run.",
    "confidence interval": "Width of the confidence interval, in percent of the throughput, if it "
    "is wider than requested with -I.",
    "latency average": "Mean request latency of a client, averaged over the clients.",
    **{
        f"latency p{percent}": f"{percent}th percentile of the request latency of a client, "
        "averaged over the clients."
        for percent in (50, 90, 99)
    },
    "latency max": "Maximum request latency, over all clients.",
}

Item = Measurement | BadLine
# netperf's names of the values, by the heading of their column.
_HEADINGS: Mapping[str, str] = {
    "Throughput": "THROUGHPUT",
    "Throughput Units": "THROUGHPUT_UNITS",
    "Local Send Throughput": "LOCAL_SEND_THROUGHPUT",
    "Mean Latency Microseconds": "MEAN_LATENCY",
    "50th Percentile Latency Microseconds": "P50_LATENCY",
    "90th Percentile Latency Microseconds": "P90_LATENCY",
    "99th Percentile Latency Microseconds": "P99_LATENCY",
    "Maximum Latency Microseconds": "MAX_LATENCY",
}
_PAIR_STARTS = tuple(f"{name}=" for name in _HEADINGS.values())

# A header has two to four lines.
_HEADER_LINES = 4

# The receiver's row lacks the columns message size and errors, left of the throughput.
_RECEIVER_LACKS = 2


class _Printed(NamedTuple):
    """One result: its values as text, by netperf's names, and its last line."""

    values: Mapping[str, str]
    line_number: int
    line: str


class _Table(Struct, frozen=True, kw_only=True):
    """Position and unit of the result in a table, from its header.

    :param column: index of the field, from 0
    :param is_datagram: the sender's row is followed by the receiver's
    """

    column: int
    unit: str
    is_datagram: bool


@dataclass(slots=True)
class _FormReader:
    """Parses the output after a test's title: a table, comma-separated values or NAME=VALUE lines.

    The words of the header identify the columns, because ``-c``, ``-C``, ``-f``, ``-v`` and the
    kind of test add and move columns.
    """

    header: deque[str] = field(default_factory=lambda: deque(maxlen=_HEADER_LINES))
    table: _Table | None = None
    sent: str | None = None
    titles: Sequence[str] = ()
    pairs: dict[str, str] = field(default_factory=dict)
    last_pair: tuple[int, str] = (0, "")

    def read(self, line_number: int, line: str) -> Iterator[_Printed]:
        """Yield the results that end with this line.

        :param line: not empty, and not a title
        """
        fields = line.rstrip().split(",")
        if "Throughput" in fields:
            self.titles = fields
        elif self.titles and len(fields) == len(self.titles):
            yield _Printed(_known(zip(self.titles, fields, strict=True)), line_number, line)
        elif line.startswith(_PAIR_STARTS):
            yield from self._read_pair(line_number, line)
        elif read_number(line.split(maxsplit=1)[0]) is None:
            self.header.append(line)
            self.table = self.sent = None
        else:
            yield from self._read_row(line_number, line)

    def finish(self) -> Iterator[_Printed]:
        """Yield the result of the NAME=VALUE lines so far."""
        if self.pairs:
            yield _Printed(self.pairs, *self.last_pair)
        self.pairs = {}

    def _read_pair(self, line_number: int, line: str) -> Iterator[_Printed]:
        key, _, value = line.partition("=")
        if key in self.pairs:
            yield from self.finish()
        self.pairs[key] = value.strip()
        self.last_pair = (line_number, line)

    def _read_row(self, line_number: int, line: str) -> Iterator[_Printed]:
        if self.table is None:
            self.table = _find_table(self.header)
        if self.table is None:
            values = _by_position(self.header, line)
            self.header.clear()
            if "THROUGHPUT" in values:
                yield _Printed(values, line_number, line)
            return
        fields = line.split()
        column = self.table.column - (_RECEIVER_LACKS if self.sent is not None else 0)
        if len(fields) <= column:  # the second row of a request/response test: only buffer sizes
            return
        values = {"THROUGHPUT": fields[column], "THROUGHPUT_UNITS": self.table.unit}
        if self.sent is not None:
            yield _Printed({**values, "LOCAL_SEND_THROUGHPUT": self.sent}, line_number, line)
            self.sent = None
        elif self.table.is_datagram:
            self.sent = fields[column]
        else:
            yield _Printed(values, line_number, line)


def _find_table(header: Sequence[str]) -> _Table | None:
    # The last two lines of the header are one word per column, and the units.
    if len(header) < 2:  # noqa: PLR2004 # see the comment above
        return None
    words, units = header[-2].split(), header[-1].split()
    for column, (before, word) in enumerate(pairwise(words), start=1):
        if before in ("Time", "Errors") and column < len(units):
            if word == "Rate":
                return _Table(column=column, unit="Trans/s", is_datagram=False)
            if word == "Throughput":
                return _Table(column=column, unit=units[column], is_datagram=before == "Errors")
    return None


def _by_position(header: Sequence[str], line: str) -> dict[str, str]:
    # Tables of the omni tests: the name of a column spans several lines, and each value begins
    # where its column begins.
    if not any("Throughput" in text for text in header):
        return {}
    starts = [at for at in range(len(line)) if line[at] != " " and line[at - 1 : at] in ("", " ")]
    columns = [slice(start, end) for start, end in pairwise([*starts, None])]
    titles = [" ".join(" ".join(text[column] for text in header).split()) for column in columns]
    return _known(zip(titles, (line[column].strip() for column in columns), strict=True))


def _known(values: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {_HEADINGS[title]: value.strip() for title, value in values if title in _HEADINGS}


@parser("netperf", class_="semi", begins=TITLE, claims=lambda text: TITLE.search(text) is not None)
def parse_netperf(lines: Iterable[str], label: str) -> Iterator[Item]:
    """Sum the rates of the clients of each test, per iteration; yield latencies per client.

    A text without ``Iteration`` lines is one iteration. If fewer clients of a test than started
    printed a valid result, a ``BadLine`` takes the place of its sums; if a client could not
    connect, of all sums of the iteration. If a text has ``Iteration`` lines and a ``BadLine``, only
    the ``BadLine`` items are yielded.
    """
    lines = list(lines)
    items = list(_read_parts(lines, label))
    problems = [item for item in items if isinstance(item, BadLine)]
    if problems and any(map(ITERATION.match, lines)):
        # A mean over fewer iterations is not comparable.
        yield from problems
        return
    yield from items


def _read_parts(lines: Iterable[str], label: str) -> Iterator[Item]:
    part = _Part(label=label)
    for line_number, whole_line in enumerate(lines, start=1):
        line = whole_line[:LONGEST_LINE]
        if ITERATION.match(line):
            yield from part.finish()
            part = _Part(label=label)
        elif line.strip() and not line.startswith(INTERIM):
            yield from part.read(line_number, line)
    yield from part.finish()


@dataclass(slots=True)
class _Part:
    """The results of a run or of one iteration; rates are summed, latencies are not."""

    label: str
    test: str = ""
    form: _FormReader = field(default_factory=_FormReader)
    clients: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)
    sums: dict[tuple[str, Metric], "_Sum"] = field(default_factory=dict)
    not_connected: int = 0

    def read(self, line_number: int, line: str) -> Iterator[Item]:
        title = TITLE.match(line)
        if title is not None:
            yield from self._add(self.form.finish())
            self.test = _test_name(title)
            self.clients[self.test] += 1
            self.form = _FormReader()
        elif line.startswith(NOT_CONNECTED):
            self.not_connected += 1
        elif self.test and (interval := INTERVAL.fullmatch(line)) is not None:
            metric = _metric(self.test, "confidence interval", "%", "lower", "informational")
            yield measure(metric, interval[1], where=(self.label, line_number, line))
        elif self.test and not line.startswith(NOTE):
            yield from self._add(self.form.read(line_number, line))

    def finish(self) -> Iterator[Item]:
        yield from self._add(self.form.finish())
        if self.not_connected:
            yield BadLine(
                problem=f"{self.label}: {self.not_connected} netperf client(s) could not connect "
                "to "
                "netserver, so the sum over all clients would be too low; record again"
            )
            return
        for test, clients in self.clients.items():
            if self.results[test] < clients:
                yield BadLine(
                    problem=f"{self.label}: {self.results[test]} of {clients} clients of netperf "
                    f"{test} "
                    "printed a valid result, so the sum over all clients would be too low; record "
                    "again"
                )
        for (test, _), total in self.sums.items():
            if self.results[test] >= self.clients[test]:
                yield total.measurement(self.label)

    def _add(self, printed: Iterable[_Printed]) -> Iterator[Item]:
        for result in printed:
            rates = list(_read_rates(self.test, result, self.label))
            self.results[self.test] += not any(isinstance(rate, BadLine) for rate in rates)
            for rate in rates:
                if isinstance(rate, BadLine):
                    yield rate
                else:
                    self.sums.setdefault((self.test, rate.metric), _Sum()).add(rate)
            yield from _read_latencies(self.test, result, self.label)


@dataclass(slots=True)
class _Sum:
    last: Measurement | None = None
    value: float = 0.0
    step: float = 0.0
    count: int = 0

    def add(self, item: Measurement) -> None:
        self.last = item
        self.value += item.value
        self.step = max(self.step, item.resolution or 0.0)
        self.count += 1

    def measurement(self, label: str) -> Item:
        assert self.last is not None
        if self.value > LARGEST_NUMBER:
            return BadLine(
                problem=f"{label}: {self.last.metric.name} is too large (expected at most "
                f"{LARGEST_NUMBER:g}); record again"
            )
        # Rounding errors are independent, so their variances add up: n steps combine to sqrt(n)
        # steps.
        return replace(self.last, value=self.value, resolution=self.step * sqrt(self.count))


def _test_name(title: "re.Match[str]") -> str:
    protocol, many, kind = title.group(1), title.group(2), title.group(3)
    words = (
        protocol.removesuffix(" IPV6"),
        SHORT.get(kind, kind.upper()),
        *(("MANY",) * bool(many)),
    )
    return "_".join(words)


def _read_rates(test: str, result: _Printed, label: str) -> Iterator[Item]:
    where = (label, result.line_number, result.line)
    values = result.values
    printed_unit = values.get("THROUGHPUT_UNITS", "").partition("/")[0]
    if "THROUGHPUT" not in values or printed_unit not in UNITS:
        yield BadLine(
            problem=f"{label}:{result.line_number}: netperf {test} printed no throughput with a "
            "known unit; add THROUGHPUT,THROUGHPUT_UNITS to -o or -k"
        )
        return
    unit, scale = UNITS[printed_unit]
    name = "transactions" if unit == "1/s" else "throughput"
    if test in DATAGRAM_TESTS:
        name = f"receive {name}"
    metric = _metric(test, name, unit, "higher", "primary")
    yield measure(metric, values["THROUGHPUT"], where=where, scale=scale)
    if "LOCAL_SEND_THROUGHPUT" in values and test in DATAGRAM_TESTS:
        metric = _metric(test, "send throughput", unit, "higher", "informational")
        yield measure(metric, values["LOCAL_SEND_THROUGHPUT"], where=where, scale=scale)


def _read_latencies(test: str, result: _Printed, label: str) -> Iterator[Item]:
    where = (label, result.line_number, result.line)
    for key, (name, family) in LATENCIES.items():
        if key in result.values:
            metric = _metric(test, f"latency {name}", "s", "lower", family)
            yield measure(metric, result.values[key], where=where, scale=MICROSECOND_S)


def _metric(test: str, name: str, unit: str, better: Better, family: Family) -> Metric:
    return Metric(
        name=f"netperf {test} {name}",
        unit=unit,
        better=better,
        family=family,
        definition=DEFINITIONS.get(name),
    )
