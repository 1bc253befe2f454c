# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse pgbench: transactions per second and transaction latency of a PostgreSQL server.

>>> text = '''\
... pgbench (15.18 (Debian 15.18-0+deb12u1))
... transaction type: <builtin: TPC-B (sort of)>
... scaling factor: 1
... number of transactions actually processed: 7454
... number of failed transactions: 0 (0.000%)
... latency average = 0.534 ms
... latency stddev = 0.148 ms
... initial connection time = 3.466 ms
... tps = 3732.922281 (without initial connection time)
... '''
>>> for item in parse_pgbench(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:g}", item.metric.unit, item.metric.family)
pgbench failed transactions 0 count informational
pgbench latency average 0.000534 s secondary
pgbench latency stddev 0.000148 s informational
pgbench connection time 0.003466 s informational
pgbench transactions 3732.92 1/s primary

Versions up to 13 print two rates. ``excluding connections establishing`` is the rate that newer
versions print; ``including connections establishing`` is secondary. With ``-C``, newer versions
print only ``including reconnection times``, which is primary.

With ``--rate`` the user sets the rate, so the latency is primary and the rate informational.
With several scripts, each has its own latency. Their rates are informational, because the scripts'
weights determine them. ``progress:`` lines are not read.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from msgspec import Struct

from schedperf.inputs.benchmarks import (
    MILLISECOND_S,
    BadLine,
    Measurement,
    Metric,
    lines_of_failure,
    measure,
    parser,
)
from schedperf.model.rows import Better, Family
from schedperf.model.text import cut

HEADER = re.compile(r"^transaction type: ", re.MULTILINE)
RATE = re.compile(
    r"tps = (\S+) \((without initial connection time|excluding connections establishing"
    r"|including connections establishing|including reconnection times)\)",
    re.ASCII,
)
# Versions before 9.6 print a colon instead of the equals sign. Lines of a script begin with a dash.
LINE = re.compile(
    r"(?: - )?(latency average|latency stddev|initial connection time|average connection time"
    r"|rate limit schedule lag|number of failed transactions|number of transactions above the)"
    r"(?: \S+ ms latency limit)?(?: = |: )(?:avg )?([^\s/]+)",
    re.ASCII,
)
SCRIPT = re.compile(r"SQL script (\d{1,4}): (.*)", re.ASCII)
SCRIPT_RATE = re.compile(r" - \S+ transactions \(\S+% of total, (tps) = ([^\s)]+)\)", re.ASCII)
BUILTIN = re.compile(r"<builtin: (.*)>")
# Longest name, since every row of the comparison contains it.
LONGEST_SCRIPT_NAME = 40


class _Kind(Struct, frozen=True, kw_only=True):
    """The metric that a line reports, and its family."""

    name: str
    family: Family
    definition: str
    unit: str = "s"
    better: Better = "lower"


TRANSACTIONS = "transactions"
LATENCY = "latency average"
THROTTLED = "rate limit schedule lag"


def _rate(name: str, family: Family, definition: str) -> _Kind:
    return _Kind(name=name, family=family, definition=definition, unit="1/s", better="higher")


def _number(name: str, definition: str) -> _Kind:
    return _Kind(name=name, family="informational", definition=definition, unit="count")


WITHOUT_CONNECTING = _rate(
    TRANSACTIONS,
    "primary",
    "Transactions of all clients divided by the run time, excluding initial connection time.",
)
KINDS = {
    "without initial connection time": WITHOUT_CONNECTING,
    "excluding connections establishing": WITHOUT_CONNECTING,
    "including reconnection times": _rate(
        "transactions with reconnections",
        "primary",
        "Transactions of all clients divided by the run time; each transaction opens a new "
        "connection.",
    ),
    "including connections establishing": _rate(
        "transactions with connections",
        "secondary",
        "Transactions of all clients divided by the run time, including connection time.",
    ),
    "tps": _rate(
        TRANSACTIONS,
        "informational",
        "Transactions of this script by all clients, divided by the run time; depends on the "
        "weight of the script.",
    ),
    LATENCY: _Kind(
        name=LATENCY,
        family="secondary",
        definition="Mean latency of a transaction; with --rate, measured from its scheduled start.",
    ),
    "latency stddev": _Kind(
        name="latency stddev",
        family="informational",
        definition="Standard deviation of transaction latency within a run.",
    ),
    "initial connection time": _Kind(
        name="connection time",
        family="informational",
        definition="Time until all clients were connected.",
    ),
    "average connection time": _Kind(
        name="connection time",
        family="informational",
        definition="Mean time to open a connection (one per transaction).",
    ),
    THROTTLED: _Kind(
        name="schedule lag",
        family="informational",
        definition="Mean delay from the scheduled to the actual start of a transaction (--rate).",
    ),
    "number of failed transactions": _number(
        "failed transactions",
        "Number of transactions per run that failed with a serialization or deadlock error.",
    ),
    "number of transactions above the": _number(
        "late transactions", "Number of transactions per run that took longer than --latency-limit."
    ),
}


class _Value(Struct, frozen=True, kw_only=True):
    """One printed value; ``script`` is the script that it belongs to, None for all scripts."""

    key: str
    text: str
    script: str | None
    where: tuple[str, int, str]


@dataclass(kw_only=True, slots=True)
class _Report:
    """The values that one pgbench printed."""

    values: list[_Value] = field(default_factory=list)
    script: str | None = None


FAILURES = {
    r"^(?:pgbench: (?:error: |fatal: )?)?Run was aborted; the above results are incomplete": (
        "clients of pgbench were aborted, so its results are incomplete; record again"
    )
}


@parser(
    "pgbench",
    class_="application",
    claims=lambda text: HEADER.search(text) is not None,
    begins=HEADER,
    find_failure=lines_of_failure(FAILURES),
)
def parse_pgbench(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the report of each pgbench; skip reports without a rate, which are incomplete."""
    report: _Report | None = None
    for line_number, line in enumerate(lines, start=1):
        if HEADER.match(line):
            if report is not None:
                yield from _read_report(report)
            report = _Report()
        elif report is not None:
            _add_line(report, (label, line_number, line))
    if report is not None:
        yield from _read_report(report)


def _add_line(report: _Report, where: tuple[str, int, str]) -> None:
    line = where[2]
    if (match := SCRIPT.match(line)) is not None:
        report.script = _script_name(match[1], match[2])
    elif (match := LINE.match(line) or SCRIPT_RATE.match(line)) is not None:
        value = _Value(key=match[1], text=match[2], script=report.script, where=where)
        report.values.append(value)
    elif (match := RATE.match(line)) is not None:
        report.values.append(_Value(key=match[2], text=match[1], script=None, where=where))


def _script_name(number: str, printed: str) -> str:
    # The script may be in another directory on the other side, so the name omits the directory.
    builtin = BUILTIN.fullmatch(printed.strip())
    name = builtin[1] if builtin is not None else PurePosixPath(printed.strip()).name
    return f"script {number} ({cut(name, LONGEST_SCRIPT_NAME)})"


def _read_report(report: _Report) -> Iterator[Measurement | BadLine]:
    whole = {value.key for value in report.values if value.script is None}
    if not any(KINDS[key].family == "primary" for key in whole):
        return
    for value in report.values:
        kind = KINDS[value.key]
        metric = Metric(
            name=" ".join(filter(None, ("pgbench", value.script, kind.name))),
            unit=kind.unit,
            better=kind.better,
            family=_family(kind, value, is_throttled=THROTTLED in whole),
            definition=kind.definition,
        )
        scale = MILLISECOND_S if kind.unit == "s" else 1.0
        yield measure(metric, value.text, where=value.where, scale=scale)


def _family(kind: _Kind, value: _Value, *, is_throttled: bool) -> Family:
    if is_throttled and value.script is None and kind.name == LATENCY:
        return "primary"
    return "informational" if is_throttled and kind.unit == "1/s" else kind.family
