# SPDX-License-Identifier: GPL-2.0-or-later
r"""pgbench: transactions per second of a PostgreSQL server, and how long one takes.

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
>>> for found in parse_pgbench(text.splitlines(), "stdout"):
...     print(found.metric.name, f"{found.value:g}", found.metric.unit, found.metric.family)
pgbench failed transactions 0 count informational
pgbench latency average 0.000534 s secondary
pgbench latency stddev 0.000148 s informational
pgbench connection time 0.003466 s informational
pgbench transactions 3732.92 1/s primary

Until version 13 there were two rates, ``excluding`` and ``including connections
establishing``: the first is the same as today's, the second is secondary. With ``-C``
there is only one today, ``including reconnection times``, and it is the result.

Under ``--rate`` the rate is the user's, so the latency is primary and the rate informational.
Each of several scripts has a latency of its own. Their rates only explain: the weights
share the whole out among them. ``progress:`` lines are no results.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from schedperf.benchmarks import MILLISECOND_S, BadLine, Measurement, Metric, measure, parser
from schedperf.model.comparison import Better, Family

HEADER = re.compile(r"^transaction type: ", re.MULTILINE)
RATE = re.compile(
    r"tps = (\S+) \((without initial connection time|excluding connections establishing"
    r"|including connections establishing|including reconnection times)\)",
    re.ASCII,
)
# Before 9.6 a colon stood where the equals sign is. Lines of one script begin with a dash.
LINE = re.compile(
    r"(?: - )?(latency average|latency stddev|initial connection time|average connection time"
    r"|rate limit schedule lag|number of failed transactions|number of transactions above the)"
    r"(?: \S+ ms latency limit)?(?: = |: )(?:avg )?([^\s/]+)",
    re.ASCII,
)
SCRIPT = re.compile(r"SQL script (\d{1,4}): (.*)", re.ASCII)
SCRIPT_RATE = re.compile(r" - \S+ transactions \(\S+% of total, (tps) = ([^\s)]+)\)", re.ASCII)
BUILTIN = re.compile(r"<builtin: (.*)>")
# The name stands in every row of the comparison.
LONGEST_SCRIPT_NAME = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kind:
    # What a line measures, and how it counts.
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
    "Transactions of all clients divided by the time of the run, the initial connecting left out.",
)
KINDS = {
    "without initial connection time": WITHOUT_CONNECTING,
    "excluding connections establishing": WITHOUT_CONNECTING,
    "including reconnection times": _rate(
        "transactions with reconnections",
        "primary",
        "Transactions of all clients, each with a connection of its own, divided by the time of "
        "the run.",
    ),
    "including connections establishing": _rate(
        "transactions with connections",
        "secondary",
        "Transactions of all clients divided by the time of the run, connecting included.",
    ),
    "tps": _rate(
        TRANSACTIONS,
        "informational",
        "Transactions of this one of several scripts, of all clients, divided by the time of the "
        "run; the weights of the scripts set its share.",
    ),
    LATENCY: _Kind(
        name=LATENCY,
        family="secondary",
        definition="Mean time from the start of a transaction, under --rate from the time that "
        "it was scheduled for, to its end.",
    ),
    "latency stddev": _Kind(
        name="latency stddev",
        family="informational",
        definition="Standard deviation of the times of the transactions of a run.",
    ),
    "initial connection time": _Kind(
        name="connection time",
        family="informational",
        definition="Time until all clients were connected.",
    ),
    "average connection time": _Kind(
        name="connection time",
        family="informational",
        definition="Mean time to make the connection of a transaction.",
    ),
    THROTTLED: _Kind(
        name="schedule lag",
        family="informational",
        definition="Mean time by which a transaction began later than --rate had scheduled it.",
    ),
    "number of failed transactions": _number(
        "failed transactions",
        "Transactions of a run that ended with a serialization or a deadlock error.",
    ),
    "number of transactions above the": _number(
        "late transactions", "Transactions of a run that took longer than --latency-limit."
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Value:
    # What a line says. ``script`` names the one of several that it is about.
    key: str
    text: str
    script: str | None
    where: tuple[str, int, str]


@dataclass(kw_only=True, slots=True)
class _Report:
    # What one pgbench printed.
    values: list[_Value] = field(default_factory=list)
    script: str | None = None


@parser("pgbench", claims=lambda text: HEADER.search(text) is not None)
def parse_pgbench(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Read the report of each pgbench that ran; one without a rate did not come to its end."""
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
    if (found := SCRIPT.match(line)) is not None:
        report.script = _script_name(found[1], found[2])
    elif (found := LINE.match(line) or SCRIPT_RATE.match(line)) is not None:
        value = _Value(key=found[1], text=found[2], script=report.script, where=where)
        report.values.append(value)
    elif (found := RATE.match(line)) is not None:
        report.values.append(_Value(key=found[2], text=found[1], script=None, where=where))


def _script_name(number: str, printed: str) -> str:
    # A file may lie elsewhere on the other side, so its folder is not part of the name.
    builtin = BUILTIN.fullmatch(printed.strip())
    name = builtin[1] if builtin is not None else PurePosixPath(printed.strip()).name
    return f"script {number} ({name[:LONGEST_SCRIPT_NAME]})"


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
