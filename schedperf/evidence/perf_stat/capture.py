# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the CSV of ``perf stat -a --per-node -x,``, and of ``perf stat -p PID -x,``.

One line per event and NUMA node; the first two fields exist only with
``--per-node``::

    N0,2,2562,,context-switches,123426161,100.00,20.758,K/sec
    N0,2,123.42,msec,cpu-clock,123422175,100.00,1.993,CPUs utilized
    N0,1,<not supported>,,cycles,0,100.00,,

The fields are node, CPUs, value, unit, event, time counted (ns), share of the
time that the event was on the hardware (percent), and a metric that perf
derived, which is ignored.

    >>> [counter] = parse_perf_stat(["N0,2,123.42,msec,cpu-clock,123422175,100.00,,"], "csv")
    >>> counter.event, counter.unit, round(counter.value, 5), counter.node
    ('cpu-clock', 's', 0.12342, 0)
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from msgspec import Struct

from schedperf.evidence.needs import WAKEUPS
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.errors import BadLine, InputError

FOLDER = "perf_stat"
CSV, FACTS = "perf_stat.csv", "perf_stat.json"
WORKLOAD_CSV = "workload.csv"
# Limit on the file size: perf stat writes a hundred bytes per event and node, so 64 nodes and 100
# events need 0.6 MB.
LARGEST_CSV_BYTES = 4 << 20
MOST_LINES = 20_000
WAKEUP_EVENT = "sched:sched_wakeup"

# By perf's unit: the base unit and the factor to it; an event without a unit is a count.
UNITS = {"": ("count", 1.0), "msec": ("s", 1e-3), "ns": ("s", 1e-9), "Joules": ("J", 1.0)}
# perf extrapolates the count of an event that was on the hardware for a smaller share of the time.
COUNTED_ALL_THE_TIME = 99.99
NO_VALUE = ("<not counted>", "<not supported>")
# Counters are 64 bits wide.
LARGEST_VALUE = 2.0**64
MOST_LABEL_CHARACTERS = 40

_NODE = re.compile(r"N(\d{1,5})")


class Counter(Struct, frozen=True, kw_only=True):
    """Count of one event in one run.

    :param node: NUMA node; None for the whole machine
    :param unit: base unit: "count", "s", "J", or perf's unit if unknown
    :param value: in ``unit``; None if not counted
    :param scaled: True if perf extrapolated the value because the event was multiplexed
    :param seconds: counting time per CPU, in s; None if the number of CPUs is unknown or the event
        was multiplexed
    :param missing: perf's text in place of the value: "<not counted>"; "" if it was counted
    """

    event: str
    node: int | None
    unit: str
    value: float | None
    scaled: bool
    seconds: float | None = None
    missing: str = ""


def parse_perf_stat(lines: Iterable[str], label: str) -> Iterator[Counter | BadLine]:
    """Yield the counts in one ``perf stat`` output, in file order; ``BadLine`` for invalid lines.

    :param label: name of the text in messages
    """
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            yield _parse_line(line.rstrip("\r\n").split(","), f"{label}:{number}")


def read_perf_stat(side: Side, run: Run, file: str = CSV) -> Sequence[Counter | BadLine]:
    """Return the counts of a run, and a ``BadLine`` for each invalid line; empty without a file.

    :param file: ``CSV`` for the whole machine, ``WORKLOAD_CSV`` for the workload
    :raises InputError: the file is too large or damaged
    """
    name = f"{run.folder}/{FOLDER}/{file}"
    if side.bundle.size(name) is None:
        return ()
    return side.parsed(name, LARGEST_CSV_BYTES, _parse_file)


def _parse_file(content: bytes, name: str) -> Sequence[Counter | BadLine]:
    lines = content.count(b"\n")
    if lines > MOST_LINES:
        raise InputError(
            f"{name}: {lines} lines (expected at most {MOST_LINES}); record fewer events"
        )
    return tuple(parse_perf_stat(content.decode(errors="replace").splitlines(), name))


@WAKEUPS.provide
def count_wakeups(side: Side, run: Run) -> float | None:
    """Return the wakeups of a run; None if unreadable, not counted on all nodes, or below 1."""
    try:
        counts = read_perf_stat(side, run)
    except InputError:
        # The section of these counters reports the error.
        return None
    if WAKEUP_EVENT not in counted_everywhere(counts):
        return None
    total = sum(
        counter.value or 0.0
        for counter in counts
        if isinstance(counter, Counter) and counter.event == WAKEUP_EVENT
    )
    # 0 cannot be a divisor, and a fraction below 1 is not a count.
    return total if total >= 1.0 else None


def counted_everywhere(read: Sequence[Counter | BadLine]) -> frozenset[str]:
    """Return the events that were counted on all nodes.

    A damaged line may belong to any event, so the result is empty if there is one.
    """
    counters = [line for line in read if isinstance(line, Counter)]
    if len(counters) < len(read):
        return frozenset()
    missing = {counter.event for counter in counters if counter.value is None}
    return frozenset(counter.event for counter in counters) - missing


def counting_seconds(read: Iterable[Counter | BadLine]) -> float | None:
    """Return perf's counting time in s, the median over the events; None if unknown."""
    seconds = [
        line.seconds for line in read if isinstance(line, Counter) and line.seconds is not None
    ]
    return median(seconds) if seconds else None


def _parse_line(fields: list[str], where: str) -> Counter | BadLine:
    node = _NODE.fullmatch(fields[0])
    try:
        value, unit, event, counted_ns, percent = _join_event(fields[2:] if node else fields)[:5]
    except ValueError:
        return BadLine(
            problem=f"{where}: {len(fields)} fields (expected at least 5, or 7 with --per-node); "
            "record again"
        )
    base_unit, factor = UNITS.get(unit, (unit, 1.0))
    if not event:
        return BadLine(
            problem=f"{where}: empty event name (expected a name, e.g. context-switches); "
            "record again"
        )
    try:
        count = None if value in NO_VALUE else _number(value) * factor
        share = _number(percent)
        counted_s = _number(counted_ns) * 1e-9
        cpus = _number(fields[1]) if node else 0.0
    except ValueError as error:
        return BadLine(problem=f"{where}: {error}; record again")
    return Counter(
        event=event,
        node=int(node.group(1)) if node else None,
        unit=base_unit,
        value=count,
        scaled=share < COUNTED_ALL_THE_TIME,
        seconds=counted_s / cpus if cpus and share >= COUNTED_ALL_THE_TIME else None,
        missing="" if count is not None else value,
    )


def _join_event(fields: list[str]) -> list[str]:
    """Return value, unit, event and the rest; an event like cpu/event=0x3c,umask=0x0/ has commas.

    >>> _join_event("7,,cpu_core/event=0x3c,umask=0x0/,1,100.00".split(","))
    ['7', '', 'cpu_core/event=0x3c,umask=0x0/', '1', '100.00']
    """
    value_and_unit, rest, last = fields[:2], fields[2:], 0
    while rest[last:] and ",".join(rest[: last + 1]).count("/") % 2:
        last += 1
    return [*value_and_unit, ",".join(rest[: last + 1]), *rest[last + 1 :]]


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 <= number <= LARGEST_VALUE:
        raise ValueError(f"invalid number {text[:MOST_LABEL_CHARACTERS]!r} (expected 0 to 2^64)")
    return number
