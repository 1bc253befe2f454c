# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse waits in output of ``perf sched timehist``, ``perf sched latency`` and rtla.

``perf sched timehist`` prints a line each time a task ran, with the preceding delay in ms::

    >>> text = b'''\
    ...            time    cpu  task name                       wait time  sch delay   run time
    ...                         [tid/pid]                          (msec)     (msec)     (msec)
    ... --------------- ------  ------------------------------  ---------  ---------  ---------
    ...    13231.084200 [0000]  migration/0[18]                     0.000      0.004      0.013
    ...    13231.084421 [0001]  python[5463/5460]                   0.095      0.007      0.026
    ... '''
    >>> [(one.command, one.cpu, one.max_ns) for one in parse_timehist(text, "timehist.txt").waits]
    [('migration', 0, 4000), ('python', 1, 7000)]

The delay is the time from the wakeup (from sched_waking, if recorded) until the task runs. It is
0.000 both after a preemption and after a wakeup that took less than 1 us, so zeros are not counted.

``perf sched latency`` prints the maximum and the average of each command over wakeups and
preemptions, which is not comparable with a maximum over wakeups alone. rtla prints histograms.
"""

import re
from collections.abc import Iterator
from typing import Literal

from schedperf.evidence.wakeup_latency.capture import (
    LONGEST_COMMAND,
    MOST_CPUS,
    MOST_ROWS,
    Waits,
    WakeupCapture,
)
from schedperf.evidence.wakeup_latency.histogram import bin_of
from schedperf.evidence.wakeup_latency.record import Event
from schedperf.inputs.benchmarks import BadLine
from schedperf.inputs.benchmarks.rtla import (
    LAST,
    columns_of,
    context_of,
    read_histograms,
    to_count,
)
from schedperf.inputs.benchmarks.rtla import (
    Histogram as Printed,
)
from schedperf.inputs.bundle.lines import stream_lines
from schedperf.model.errors import InputError
from schedperf.model.units import NANOSECOND_S

Kind = Literal["timehist", "latency", "rtla"]

US_NS, MS_NS = 1_000, 1_000_000
# Number of bytes that are searched to recognise a text; perf prints warnings first.
HEAD_BYTES = 1 << 14

_TIMEHIST_TITLE = re.compile(r"^ *time +cpu .*\bsch delay\b", re.MULTILINE)
_LATENCY_TITLE = re.compile(r"^ *Task +\| +Runtime ms +\|", re.MULTILINE)
_RTLA_TITLE = re.compile(r"^# RTLA (?:timerlat|osnoise) histogram", re.MULTILINE)
_MS = r"\d{1,9}\.\d{3}"
# The options -V, --state and -n add text between and after these columns.
_RAN = re.compile(
    r" *\d{1,12}\.\d{6} \[(\d{1,6})\] +(?:[-is]+ +)?(\S.{0,60}?)\[\d{1,8}(?:/\d{1,8})?\] +"
    rf"{_MS} +({_MS}) +{_MS}(?:\s.*)?",
    re.ASCII,
)
# Wide numbers leave no space in their columns: "max:1232.087 ms".
_DELAYED = re.compile(
    r" *(\S.{0,60}?):(?:\(\d{1,8}\)|\d{1,8}) *\| *[\d.]{1,20} ms \| *(\d{1,12}) \| avg: *"
    rf"[\d.]{{1,20}} ms \| max: *({_MS}) ms \|.*",
    re.ASCII,
)
_LOST = re.compile(r" *INFO: [\d.]{1,9}% lost events \((\d{1,15}) out of .*", re.ASCII)
_EVENTS: dict[str, Event] = {
    "IRQ": "timer IRQ",
    "Thr": "timer thread",
    "Usr": "timer user",
    "CPU": "noise",
}


def recognise(content: bytes) -> Kind | None:
    """Return what printed a text: "timehist" or "latency" of perf sched, or "rtla"; else None."""
    head = content[:HEAD_BYTES].decode(errors="replace")
    titles: dict[Kind, re.Pattern[str]] = {
        "timehist": _TIMEHIST_TITLE,
        "latency": _LATENCY_TITLE,
        "rtla": _RTLA_TITLE,
    }
    return next((kind for kind, title in titles.items() if title.search(head)), None)


def parse_timehist(content: bytes, label: str) -> WakeupCapture:
    """Parse the output of ``perf sched timehist``.

    :param label: bundle and member, for messages
    :raises InputError: the text has no line of a task that waited, or too many commands
    """
    bins: dict[tuple[str, int], dict[int, int]] = {}
    longest: dict[tuple[str, int], int] = {}
    zeros, lost = 0, 0
    for line in _lines(content):
        lost += _lost(line)
        match = _RAN.fullmatch(line)
        if match is None or int(match[1]) >= MOST_CPUS:
            continue
        ns = _to_ns(match[3])
        if not ns:
            zeros += 1
            continue
        key = _command(match[2]), int(match[1])
        if key not in bins and len(bins) >= MOST_ROWS:
            raise InputError(f"{label}: more than {MOST_ROWS} pairs of command and CPU")
        counts = bins.setdefault(key, {})
        counts[bin_of(ns)] = counts.get(bin_of(ns), 0) + 1
        longest[key] = max(longest.get(key, 0), ns)
    if not bins:
        raise InputError(
            f"{label}: no delay of a task (expected lines such as '13231.084200 [0000]  "
            "migration/0[18]  0.000  0.004  0.013'); record with `perf sched record`"
        )
    return WakeupCapture(
        source="perf sched timehist",
        waits=tuple(
            Waits(
                event="wakeup",
                command=key[0],
                cpu=key[1],
                bins=counts,
                max_ns=longest[key],
                count=sum(counts.values()),
            )
            for key, counts in bins.items()
        ),
        resolution_ns=US_NS,
        lost={"perf events": lost} if lost else {},
        zeros=zeros,
    )


def parse_latency(content: bytes, label: str) -> WakeupCapture:
    """Parse the output of ``perf sched latency``: the maximum of each command.

    :param label: bundle and member, for messages
    :raises InputError: the text has no line of a task
    """
    longest: dict[str, int] = {}
    switches: dict[str, int] = {}
    lost = 0
    for line in _lines(content):
        lost += _lost(line)
        match = _DELAYED.fullmatch(line)
        if match is not None:
            command = _command(match[1])
            longest[command] = max(longest.get(command, 0), _to_ns(match[3]))
            switches[command] = switches.get(command, 0) + int(match[2])
    if not longest:
        raise InputError(
            f"{label}: no task (expected lines such as 'hackbench:(81) | 0.000 ms | 3685 | avg: "
            "3.857 ms | max: 160.876 ms |'); record with `perf sched record`"
        )
    return WakeupCapture(
        source="perf sched latency",
        waits=tuple(
            Waits(
                event="runnable",
                command=command,
                cpu=None,
                bins=None,
                max_ns=max_ns,
                count=switches[command],
            )
            for command, max_ns in longest.items()
        ),
        resolution_ns=US_NS,
        lost={"perf events": lost} if lost else {},
        notes=("perf sched latency prints maxima, but no percentiles",),
    )


def parse_rtla(content: bytes, label: str) -> WakeupCapture:
    """Parse the histograms of ``rtla timerlat hist`` or ``rtla osnoise hist``.

    :param label: bundle and member, for messages
    :raises InputError: the text has no histogram, several, or a damaged one
    """
    histograms = [*read_histograms(_lines(content), label)]
    if len(histograms) != 1:
        raise InputError(
            f"{label}: {len(histograms)} histograms of rtla (expected 1); record each run into a "
            "file of its own"
        )
    [printed] = histograms
    if isinstance(printed, BadLine):
        raise InputError(printed.problem)
    waits = [
        _rtla_column(printed, position)
        for context in dict.fromkeys(map(context_of, printed.columns))
        for position in columns_of(printed, context)
    ]
    return WakeupCapture(
        source="rtla timerlat" if printed.tool == "timerlat" else "rtla osnoise",
        waits=tuple(one for one in waits if one.count),
        resolution_ns=round(printed.scale / NANOSECOND_S),
    )


def _rtla_column(printed: Printed, position: int) -> Waits:
    # A bin counts waits from its number to the next number; longer waits than the last bin are
    # counted as "over".
    unit_ns = round(printed.scale / NANOSECOND_S)
    rows = ((number, where[2].split()[1 + position]) for number, where in printed.rows.items())
    counts = {number: int(text) for number, text in rows if int(text)}
    name = printed.columns[position]
    over, longest = (to_count(printed.summary[key][0][position]) for key in ("over", LAST))
    bins: dict[int, int] = {}
    for number, count in counts.items():
        index = bin_of(number * unit_ns)
        bins[index] = bins.get(index, 0) + count
    cpu = int(name.partition("-")[2])
    # Durations are truncated to the unit.
    max_ns = max(longest * unit_ns, unit_ns * max(counts, default=0))
    return Waits(
        event=_EVENTS[context_of(name)],
        command=printed.tool,
        cpu=cpu if cpu < MOST_CPUS else None,
        bins=bins,
        above=over,
        max_ns=max_ns,
        count=sum(bins.values()) + over,
    )


def _lines(content: bytes) -> Iterator[str]:
    return (line.rstrip("\r\n") for line in stream_lines(content))


def _lost(line: str) -> int:
    match = _LOST.fullmatch(line)
    return int(match[1]) if match else 0


def _to_ns(ms: str) -> int:
    whole, _, part = ms.partition(".")
    return int(whole) * MS_NS + int(part) * US_NS


def _command(name: str) -> str:
    # Shortened as by the collector: "kworker/0:1-events" becomes "kworker".
    return name.strip().partition("/")[0][:LONGEST_COMMAND] or name.strip()[:LONGEST_COMMAND]
