# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse the logs of rt-app: wakeup latency, slack, run time and period of each thread.

>>> text = '''\
... ==> rt-app-audio-0.log <==
... # Policy : SCHED_OTHER priority : 0
... #idx     perf      run   period           start             end          rel_st      slack c_duration   c_period     wu_lat
...    0     2500       90     4927     73930690848     73930695775             742       4762        500       5000         74
...    0     2500       92     4995     73930695780     73930700775            5674       4828        500       5000         78
... '''
>>> for item in parse_rt_app(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:g}", item.metric.better, item.metric.family)
rt-app rt-app-audio-0 wakeup latency average 7.6e-05 lower secondary
rt-app rt-app-audio-0 wakeup latency p50 7.4e-05 lower secondary
rt-app rt-app-audio-0 wakeup latency max 7.8e-05 lower primary
rt-app rt-app-audio-0 slack average 0.004795 higher secondary
rt-app rt-app-audio-0 run average 9.1e-05 lower informational
rt-app rt-app-audio-0 period average 0.004961 lower informational

rt-app writes one log per thread; print them after the run (``tail -v -n +1 *.log``, or ``find -name
'*.log' -print -exec cat {} ';'``). The thread is named by its file if the name is printed before
the log, and by its number otherwise.

Threads without timer events have neither wakeup latency nor slack: rt-app prints 0.
"""  # noqa: E501 # real output is this wide

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from schedperf.inputs.benchmarks import (
    MICROSECOND_S,
    BadLine,
    Item,
    Measurement,
    Metric,
    Where,
    measure,
    parser,
)
from schedperf.inputs.benchmarks._histograms import percentiles
from schedperf.model.rows import Better, Family
from schedperf.model.text import cut

HEADER = re.compile(r"^#idx\s{1,20}perf\s{1,20}run\s{1,20}period\s", re.MULTILINE)
# "==> rt-app-audio-0.log <==" of head and tail, "./rt-app-audio-0.log" of find.
FILE = re.compile(r"(?:==> )?(\S{1,300})\.log(?: <==)?\s*$")
NUMBER = re.compile(r"-?\d{1,15}", re.ASCII)
# Longest name, since every row of the comparison contains it.
LONGEST_THREAD_NAME = 40


class _Column(Struct, frozen=True, kw_only=True):
    """A column of the log in microseconds.

    :param is_of_timers: the column is 0 in all lines if the thread has no timer events
    """

    name: str
    better: Better
    family: Family
    definition: str
    is_of_timers: bool


COLUMNS = {
    "wu_lat": _Column(
        name="wakeup latency",
        better="lower",
        family="secondary",
        definition="the time from the expiry of the thread's timer until it runs",
        is_of_timers=True,
    ),
    "slack": _Column(
        name="slack",
        better="higher",
        family="secondary",
        definition="the time from the end of the thread's work until the expiry of its timer",
        is_of_timers=True,
    ),
    "run": _Column(
        name="run",
        better="lower",
        family="informational",
        definition="the time that the run events of a loop took",
        is_of_timers=False,
    ),
    "period": _Column(
        name="period",
        better="lower",
        family="informational",
        definition="the time that a loop took",
        is_of_timers=False,
    ),
}
WAKEUP = "wu_lat"
START = "start"


@dataclass(kw_only=True, slots=True)
class _Log:
    """The log of one thread."""

    where: Where
    columns: Sequence[str]
    name: str | None
    rows: list[tuple[list[str], Where]] = field(default_factory=list)
    problem: BadLine | None = None


@parser(
    "rt-app", class_="micro", begins=HEADER, claims=lambda text: HEADER.search(text) is not None
)
def parse_rt_app(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the log of each thread."""
    log: _Log | None = None
    name: str | None = None
    for line_number, line in enumerate(lines, start=1):
        where = (label, line_number, line)
        if HEADER.match(line):
            if log is not None:
                yield from _read_log(log)
            columns = line.removeprefix("#").split()
            log, name = _Log(where=where, columns=columns, name=name), None
        elif (match := FILE.match(line)) is not None:
            name = cut(match[1].rpartition("/")[2], LONGEST_THREAD_NAME)
        elif log is not None and line[:1].isspace() and line.strip():
            _add_row(log, where)
    if log is not None:
        yield from _read_log(log)


def _add_row(log: _Log, where: Where) -> None:
    texts = where[2].split()
    if len(texts) == len(log.columns) and all(map(NUMBER.fullmatch, texts)):
        if START in log.columns and log.rows and log.problem is None:
            start = log.columns.index(START)
            if int(texts[start]) < int(log.rows[-1][0][start]):
                log.problem = _bad(
                    where, "a loop starts before the loop above it (expected one log)"
                )
        log.rows.append((texts, where))
    elif log.problem is None:
        log.problem = _bad(where, f"invalid line of a log (expected {len(log.columns)} integers)")


def _bad(where: Where, problem: str) -> BadLine:
    return BadLine(problem=f"{where[0]}:{where[1]}: rt-app: {problem}; record again")


def _read_log(log: _Log) -> Iterator[Item]:
    if log.problem is not None:
        # The log is incomplete and may lack the line with the longest latency.
        yield log.problem
        return
    for key, column in COLUMNS.items():
        if key not in log.columns or not log.rows:
            continue
        index = log.columns.index(key)
        values = [(int(texts[index]), where) for texts, where in log.rows]
        if any(value for value, _ in values) or not column.is_of_timers:
            thread = log.name or f"thread {log.rows[0][0][0]}"
            yield _average(column, thread, values)
            if key == WAKEUP:
                yield from _distribution(column, thread, values)


def _average(column: _Column, thread: str, values: Sequence[tuple[int, Where]]) -> Item:
    mean = sum(value for value, _ in values) / len(values)
    item = _measure(column, thread, "average", "0", values[-1][1])
    if isinstance(item, BadLine):
        return item
    return replace(item, value=mean * MICROSECOND_S, resolution=MICROSECOND_S / len(values))


def _distribution(
    column: _Column, thread: str, values: Sequence[tuple[int, Where]]
) -> Iterator[Item]:
    lines = dict(values)
    counts = Counter(value for value, _ in values)
    for percent, value in percentiles(counts, above=0):
        if value is not None:
            yield _measure(column, thread, f"p{percent}", str(value), lines[value])
    largest = max(lines)
    yield _measure(column, thread, "max", str(largest), lines[largest])


def _measure(column: _Column, thread: str, statistic: str, text: str, where: Where) -> Item:
    start = {"average": "Mean", "max": "Maximum"}.get(
        statistic, f"{statistic.removeprefix('p')}th percentile"
    )
    metric = Metric(
        name=f"rt-app {thread} {column.name} {statistic}",
        unit="s",
        better=column.better,
        family="primary" if statistic == "max" else column.family,
        definition=f"{start} of {column.definition}.",
    )
    return measure(metric, text, where=where, scale=MICROSECOND_S)
