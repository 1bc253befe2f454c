# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse the client of iperf3, text or JSON (``-J``, ``--json-stream``).

>>> text = '''\
... Connecting to host 127.0.0.1, port 5201
... [  5] local 127.0.0.1 port 41674 connected to 127.0.0.1 port 5201
... [ ID] Interval           Transfer     Bitrate         Retr  Cwnd
... [  5]   0.00-1.01   sec   388 MBytes  3.23 Gbits/sec    4   1023 KBytes
... - - - - - - - - - - - - - - - - - - - - - - - - -
... [ ID] Interval           Transfer     Bitrate         Retr
... [  5]   0.00-1.01   sec   388 MBytes  3.23 Gbits/sec    4             sender
... [  5]   0.00-1.01   sec   387 MBytes  3.22 Gbits/sec                  receiver
...
... iperf Done.
... '''
>>> for item in parse_iperf3(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:.4g}", item.metric.unit, item.metric.family)
iperf3 retransmits 4 count informational
iperf3 throughput 4.025e+08 B/s primary

The throughput is what the receiver counted, summed over the streams. iperf3 prints this sum if
there are several streams. With ``--bidir`` each direction is a metric; ``reverse`` is from the
server to the client. Datagrams (``-u``) have metrics of their own. Versions before 3.7 print no
receiver for datagrams: their text is not read, and in their JSON the throughput is what the client
sent, without the share that was lost.

An interrupted client still prints a report, in which the receiver has received nothing; it has no
result.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from schedperf.inputs.benchmarks import (
    MILLISECOND_S,
    BadLine,
    Item,
    Measurement,
    Metric,
    Where,
    lines_of_failure,
    measure,
    parser,
)
from schedperf.inputs.benchmarks._json_text import Document, Path, read_documents
from schedperf.model.numbers import read_number
from schedperf.model.rows import Better, Family

BEGIN = re.compile(r"^Connecting to host \S+, port \d+\s*$", re.MULTILINE | re.ASCII)
JSON_NAME = re.compile(
    r'^[ \t]*(?:\{"event":"start",.{0,4000})?"version"[ \t]*:[ \t]*"iperf 3', re.MULTILINE
)
BEGINS = re.compile(r"Connecting to host |\{")
END = ("iperf Done.", "Server output:")
CONNECTED = re.compile(r"\[ *\d{1,9}\] local \S+ port \d+ connected to ", re.ASCII)
HEADER = re.compile(r"\[ ID\](?:\[Role\])? Interval ")
# [SUM][RX-C]   0.00-1.01   sec   767 MBytes  6.39 Gbits/sec  0.006 ms  0/20 (0%)  receiver
RESULT = re.compile(
    r"\[ *(\d{1,9}|SUM)\](?:\[([TR])X-[CS]\])? +\S+ +sec +\S+ [KMGT]?Bytes +"
    r"(\S+) ([KMGT]?)(bits|Bytes)/sec +"
    r"(?:(\S+) ms +\S+ \(([^)%]+)%\) +|(\d\S*) +)?(sender|receiver)\s*$",
    re.ASCII,
)
# Bits are counted in decimal, bytes in binary units.
PREFIXES = ("", "K", "M", "G", "T")
BITS = 8
SUM = "SUM"


class _Kind(Struct, frozen=True, kw_only=True):
    """A metric, for either direction of the data."""

    name: str
    unit: str
    better: Better
    family: Family
    definition: str


THROUGHPUT = _Kind(
    name="throughput",
    unit="B/s",
    better="higher",
    family="primary",
    definition="Bytes received in all streams, divided by the time.",
)
RETRANSMITS = _Kind(
    name="retransmits",
    unit="count",
    better="lower",
    family="informational",
    definition="TCP segments that were sent again, in all streams.",
)
DATAGRAMS = _Kind(
    name="UDP receive throughput",
    unit="B/s",
    better="higher",
    family="primary",
    definition="Bytes of the datagrams received in all streams, divided by the time.",
)
LOST = _Kind(
    name="UDP lost datagrams",
    unit="%",
    better="lower",
    family="secondary",
    definition="Datagrams that were not received, as a percentage of those sent.",
)
JITTER = _Kind(
    name="UDP jitter",
    unit="s",
    better="lower",
    family="secondary",
    definition="Smoothed difference of the transit times of consecutive datagrams, mean over the "
    "streams.",
)


def _metric(kind: _Kind, *, is_reverse: bool) -> Metric:
    return Metric(
        name=f"iperf3 reverse {kind.name}" if is_reverse else f"iperf3 {kind.name}",
        unit=kind.unit,
        better=kind.better,
        family=kind.family,
        definition=kind.definition,
    )


@dataclass(kw_only=True, slots=True)
class _Report:
    """The lines of one client that end in "sender" or "receiver".

    :param connections: number of streams in both directions
    """

    where: Where
    connections: int = 0
    results: list[tuple[re.Match[str], Where]] = field(default_factory=list)


INTERRUPTED = "iperf3 was interrupted or failed, so the receiver counted nothing; record again"
# A client that failed to connect: a script may try again, and other clients may have results.
REFUSED = r"(?:error - )?(?:unable to connect to server|the server is busy)"
FAILURES = {
    rf"^iperf3: (?:interrupt|error) - (?!{REFUSED})": INTERRUPTED,
    rf'^[ \t]{{0,40}}"error":[ \t]{{0,40}}"(?!{REFUSED})': INTERRUPTED,
    r'^\{"event":"error"': INTERRUPTED,
    r"^\[ *(?:\d{1,9}|SUM)\][^\n]{0,200} 0\.00 Bytes +0\.00 bits/sec +"
    r"(?:\S+ ms +0/0 \(\S+\) +)?receiver": INTERRUPTED,
}


def _claims(text: str) -> bool:
    return BEGIN.search(text) is not None or JSON_NAME.search(text) is not None


@parser(
    "iperf3", class_="semi", claims=_claims, begins=BEGINS, find_failure=lines_of_failure(FAILURES)
)
def parse_iperf3(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the final report of each client."""
    lines = list(lines)
    yield from _read_text(lines, label)
    if any(JSON_NAME.match(line) for line in lines):
        is_udp = False
        for document in read_documents(lines, label, keep=_is_needed):
            protocols = [value.text for path, value in document.values.items() if _names(path)]
            is_udp = protocols[0] == "UDP" if protocols else is_udp
            yield from _read_json(document, is_udp=is_udp)


def _read_text(lines: Iterable[str], label: str) -> Iterator[Item]:
    report: _Report | None = None
    for line_number, line in enumerate(lines, start=1):
        where = (label, line_number, line)
        if BEGIN.match(line):
            if report is not None:
                yield from _read_report(report)
            report = _Report(where=where)
        elif report is not None and line.startswith(END):
            yield from _read_report(report)
            report = None
        elif report is not None and CONNECTED.match(line):
            report.connections += 1
        elif report is not None and HEADER.match(line):
            # The last table is the report.
            report.results.clear()
        elif report is not None and (match := RESULT.match(line)) is not None:
            report.results.append((match, where))
    if report is not None:
        yield from _read_report(report)


def _read_report(report: _Report) -> Iterator[Item]:
    # With --bidir each line has a role: the client sends (T) or receives (R).
    for role in dict.fromkeys(match[2] for match, _ in report.results):
        lines = [(match, where) for match, where in report.results if match[2] == role]
        streams = dict.fromkeys(match[1] for match, _ in lines)
        ends = [(match[1], match[9]) for match, _ in lines]
        if len(set(ends)) < len(ends):
            yield _bad(lines[-1][1], "the report repeats streams; record the whole output")
            continue
        is_sum_missing = len(streams) > 1 or report.connections > (1 if role is None else 2)
        if is_sum_missing and SUM not in streams:
            yield _bad(lines[-1][1], "no sum of the streams; record the whole output")
            continue
        for match, where in lines:
            if not is_sum_missing or match[1] == SUM:
                yield from _read_line(match, where, is_reverse=role == "R")


def _read_line(match: re.Match[str], where: Where, *, is_reverse: bool) -> Iterator[Item]:
    rate, prefix, unit, jitter, lost, retransmits, end = match.groups()[2:]
    if end == "sender":
        if retransmits is not None:
            yield measure(_metric(RETRANSMITS, is_reverse=is_reverse), retransmits, where=where)
        return
    step, per_byte = (1000.0, BITS) if unit == "bits" else (1024.0, 1)
    scale = step ** PREFIXES.index(prefix) / per_byte
    kind = THROUGHPUT if jitter is None else DATAGRAMS
    yield measure(_metric(kind, is_reverse=is_reverse), rate, where=where, scale=scale)
    if jitter is not None:
        metric = _metric(JITTER, is_reverse=is_reverse)
        yield measure(metric, jitter, where=where, scale=MILLISECOND_S)
        yield _measure(LOST, lost, where, is_reverse=is_reverse)


# By key in a sum of the streams: the metric, and the factor to its unit.
SENT = {"retransmits": (RETRANSMITS, 1.0)}
RECEIVED = {"bits_per_second": (THROUGHPUT, 1.0 / BITS)}
RECEIVED_DATAGRAMS = {
    "bits_per_second": (DATAGRAMS, 1.0 / BITS),
    "jitter_ms": (JITTER, MILLISECOND_S),
    "lost_percent": (LOST, 1.0),
}
REVERSE = "_bidir_reverse"
WHOLE_PERCENT = 100.0


def _is_needed(path: Path) -> bool:
    # --json-stream prints one document per event, whose content is its "data".
    is_sum = bool(path[1:]) and path[0] in {"end", "data"} and path[1].startswith("sum")
    return is_sum or path[0] == "event" or _names(path)


def _names(path: Path) -> bool:
    return path[-2:] == ("test_start", "protocol")


def _read_json(document: Document, *, is_udp: bool) -> Iterator[Item]:
    if document.problem is not None:
        yield document.problem
        return
    event = document.values.get(("event",))
    top = "end" if event is None else "data"
    if event is not None and event.text != "end":
        return
    if is_udp and (top, "sum_received", "bits_per_second") not in document.values:
        yield from _read_datagrams(document, top)
        return
    received = RECEIVED_DATAGRAMS if is_udp else RECEIVED
    for name, keys in (("sum_sent", SENT), ("sum_received", received)):
        for is_reverse in (False, True):
            for key, (kind, scale) in keys.items():
                path = (top, name + REVERSE if is_reverse else name, key)
                if (value := document.values.get(path)) is not None:
                    yield _measure(kind, value.text, value.where, scale, is_reverse=is_reverse)


def _read_datagrams(document: Document, top: str) -> Iterator[Item]:
    """Yield the values of versions before 3.7, which print only the rate of the sender.

    The throughput is this rate without the share that was lost; it is left out if the loss is
    unknown.
    """
    values = {
        key: value
        for key in RECEIVED_DATAGRAMS
        if (value := document.values.get((top, "sum", key)))
    }
    lost = values.get("lost_percent")
    percent = None if lost is None else read_number(lost.text)
    for key, value in values.items():
        kind, scale = RECEIVED_DATAGRAMS[key]
        if kind is DATAGRAMS:
            if percent is None or not 0.0 <= percent <= WHOLE_PERCENT:
                continue
            scale *= 1.0 - percent / WHOLE_PERCENT
        yield _measure(kind, value.text, value.where, scale, is_reverse=False)


def _measure(kind: _Kind, text: str, where: Where, scale: float = 1.0, *, is_reverse: bool) -> Item:
    """Return a measurement, or a ``BadLine`` for an invalid number or a loss outside 0% to 100%."""
    item = measure(_metric(kind, is_reverse=is_reverse), text, where=where, scale=scale)
    if kind is LOST and isinstance(item, Measurement) and not 0.0 <= item.value <= WHOLE_PERCENT:
        return _bad(
            where, f"{item.value:g}% of the datagrams lost (expected 0% to 100%); record again"
        )
    return item


def _bad(where: Where, problem: str) -> BadLine:
    return BadLine(problem=f"{where[0]}:{where[1]}: iperf3: {problem}")
