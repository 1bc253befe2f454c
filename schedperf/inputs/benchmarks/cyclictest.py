# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse cyclictest: the latency of timers, as a summary, histogram (``-h``) or JSON (``--json``).

>>> text = '''\\
... # /dev/cpu_dma_latency set to 0us
... T: 0 (23125) P:80 I:1000 C:   1000 Min:      2 Act:   68 Avg:    4 Max:      26
... T: 1 (23126) P:80 I:1500 C:    500 Min:      3 Act:   93 Avg:    7 Max:      75
... '''
>>> for item in parse_cyclictest(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:g}", item.metric.unit, item.metric.family)
cyclictest latency max 7.5e-05 s primary

The values are those of all threads together: the maximum is the largest one, and percentiles are
those of the summed histograms. Averages are not read, because rare long latencies hardly change
them. Without ``-q`` cyclictest prints the summary repeatedly; the last one is read.

A percentile above the largest bin is unknown. ``--json`` states the unit (``-N`` selects
nanoseconds), and so do the widths of the fields in a summary. The histogram of ``-N -h`` states
none, so the unit is taken from the command of the run; without a command it is microseconds. If
only the summary of a histogram is left, its maxima are read.

If cyclictest is ended early, it prints its results and exits as usual, but its maximum covers less
time than the other side's. The command states the number of cycles (``-l``), the duration (``-D``)
and the number of threads (``-t``); a run that has fewer, or took less time, has no result.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from msgspec import Struct

from schedperf.inputs.benchmarks import (
    MICROSECOND_S,
    UNKNOWN,
    BadLine,
    Execution,
    Failure,
    Item,
    Latencies,
    Measurement,
    Metric,
    Where,
    measure,
    parser,
)
from schedperf.inputs.benchmarks._histograms import (
    measure_maximum,
    measure_percentiles,
    only_latencies,
    without_latencies,
)
from schedperf.inputs.benchmarks._json_text import Document, Path, Scalar, read_documents
from schedperf.inputs.benchmarks._options import arguments_of, read_options
from schedperf.model.rows import Family
from schedperf.model.units import NANOSECOND_S

THREAD = re.compile(
    r"T: *(\d{1,6}) \( *(\d{1,9})\) P: *\d{1,3} I: *\d{1,12} C: *(\d{1,18}) "
    r"Min: *\S+ Act:( *\S+) Avg:( *\S+) Max: *(\S+)\s*$",
    re.ASCII,
)
HISTOGRAM = "# Histogram"
ROW = re.compile(r"\d{6,9}[ \t]+\d{6,18}(?:[ \t]+\d{6,18})*\s*", re.ASCII)
BEGINS = re.compile(r"# /dev/cpu_dma_latency set to |# Histogram\s*$|\{")
SUMMARY = re.compile(
    r"# (Total|Min Latencies|Avg Latencies|Max Latencies|Histogram Overflows): *([\d ]*)$",
    re.ASCII,
)
JSON_NAME = re.compile(r'^[ \t]*"cmdline:?"[ \t]*:[ \t]*"[^"\n]{0,200}cyclictest', re.MULTILINE)
CLAIMED = re.compile(
    r"^(?:T: *\d{1,6} \( *\d{1,9}\) P:|# (?:Max Latencies|Histogram)(?::|$))", re.MULTILINE
)

MOST_DIGITS = 18

# printf() pads "Act" to five characters in microseconds and to eight in nanoseconds, and "Avg" to
# five and eight.
NANOSECOND_WIDTH = 8

MAXIMUM = (
    "Maximum latency of a timer in a run, from its expiry until the thread runs, over all threads."
)
PERCENTILE = (
    "{percent}th percentile of the latency of a timer, from its expiry until the thread runs, over "
    "all threads."
)


class _Thread(Struct, frozen=True, kw_only=True):
    """The printed values of one thread.

    :param tid: 0 before it runs
    :param longest: its maximum latency, as printed
    :param scale: printed unit of the latencies, in s
    """

    tid: int
    cycles: int
    longest: str
    scale: float
    where: Where


@dataclass(kw_only=True, slots=True)
class _Histogram:
    """The histogram of one run: its rows by bin, and the columns of its summary."""

    where: Where
    rows: dict[int, Where] = field(default_factory=dict)
    summary: dict[str, tuple[list[str], Where]] = field(default_factory=dict)


def _claims(text: str) -> bool:
    return CLAIMED.search(text) is not None or JSON_NAME.search(text) is not None


# Options of rt-tests that require a value, and those with an optional value.
WITH_VALUE = "bcdDFhHilop"
OPTIONAL_VALUE = "aAt"
DURATION = re.compile(r"(\d{1,9})([smhd]?)", re.ASCII)
DURATION_S = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
BREAK = re.compile(r"^# Break value: ", re.MULTILINE)


_Read = Item | Latencies | Failure


class _Plan(Struct, frozen=True, kw_only=True):
    """The length of a run that its command plans; None if unknown.

    :param is_ns: whether the command selects nanoseconds (``-N``)
    """

    cycles: int | None = None
    duration_s: int | None = None
    threads: int | None = None
    is_ns: bool = False


def _plan(command: Sequence[str]) -> _Plan:
    arguments = arguments_of("cyclictest", command)
    if arguments is None:
        return _Plan()
    options = read_options(arguments, with_value=WITH_VALUE, optional_value=OPTIONAL_VALUE)
    names = (("l", "loops"), ("D", "duration"), ("t", "threads"))
    loops, duration, threads = (
        options.get(short) or options.get(name, "") for short, name in names
    )
    match = DURATION.fullmatch(duration)
    return _Plan(
        cycles=_count(loops) or None,
        duration_s=int(match[1]) * DURATION_S[match[2]] if match else None,
        threads=_count(threads) or None,
        is_ns="N" in options or "nsecs" in options,
    )


def find_failure(text: str, execution: Execution) -> Failure | None:
    """Return the line that shows that cyclictest ended before its planned end, or None."""
    if not _claims(text):
        return None
    stopped = BREAK.search(text)
    if stopped is not None:
        line_number = text.count("\n", 0, stopped.start()) + 1
        return _failure(("", line_number, ""), "stopped at a latency above -b")
    items = _read(text.splitlines(), "", execution)
    return next((item for item in items if isinstance(item, Failure)), None)


def _failure(where: Where, problem: str) -> Failure:
    return Failure(
        where[1], f"cyclictest {problem}, so its maximum is that of less time; record again"
    )


def _early_end(
    plan: _Plan, cycles: Sequence[int], took_s: float | None, where: Where
) -> Iterator[Failure]:
    """Yield why a report covers less than the command planned; nothing if it covers the plan.

    :param cycles: number of cycles of each thread
    :param took_s: duration of the run, in s; None if unknown
    """
    most = max(cycles)
    if plan.cycles is not None and most < plan.cycles:
        yield _failure(where, f"ended after {most} of {plan.cycles} cycles (-l)")
    elif plan.duration_s is not None and took_s is not None and took_s < plan.duration_s:
        yield _failure(where, f"ended after {took_s:.3g} of {plan.duration_s} s (-D)")


def _seconds(values: Mapping[Path, Scalar]) -> float | None:
    """Return an upper bound of a run's duration in s, from the start and end times in the JSON.

    Return None if a time is missing or invalid.
    """
    times = [values.get((name,)) for name in ("start_time", "end_time")]
    start, end = (None if time is None else _timestamp(time.text) for time in times)
    return None if start is None or end is None else end - start + 1.0


def _timestamp(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def read_latencies(
    lines: Iterable[str], label: str, execution: Execution = UNKNOWN
) -> Iterator[Latencies]:
    """Read the latencies of each run."""
    return only_latencies(_read(lines, label, execution))


@parser(
    "cyclictest",
    class_="micro",
    claims=_claims,
    latencies=read_latencies,
    begins=BEGINS,
    find_failure=find_failure,
)
def parse_cyclictest(
    lines: Iterable[str], label: str, execution: Execution = UNKNOWN
) -> Iterator[Measurement | BadLine]:
    """Parse the summary, histogram or JSON of each run."""
    return without_latencies(_read(lines, label, execution))


def _read(lines: Iterable[str], label: str, execution: Execution) -> Iterator[_Read]:
    lines = list(lines)
    yield from _read_text(lines, label, execution)
    if any(JSON_NAME.match(line) for line in lines):
        for document in read_documents(lines, label, keep=_is_needed):
            yield from _read_json(document)


def _read_text(lines: Iterable[str], label: str, execution: Execution) -> Iterator[_Read]:
    plan, wall_s = _plan(execution.command), execution.wall_s
    threads: dict[int, _Thread] = {}
    histogram: _Histogram | None = None
    for line_number, line in enumerate(lines, start=1):
        where = (label, line_number, line)
        if (match := THREAD.match(line)) is not None:
            thread = _thread(match, where)
            before = threads.get(int(match[1]))
            if before is not None and _is_of_another_run(before, thread):
                yield from _read_threads(threads, plan, wall_s)
                threads = {}
            threads[int(match[1])] = thread
        elif line.rstrip() == HISTOGRAM:
            # The histogram repeats the numbers of the summary before it.
            threads = {}
            histogram = _Histogram(where=where)
        elif histogram is not None and (summary := SUMMARY.match(line)) is not None:
            histogram.summary[summary[1]] = (summary[2].split(), where)
            if summary[1] == "Histogram Overflows":
                yield from _read_histogram(histogram, plan, wall_s)
                histogram = None
        elif histogram is not None and ROW.fullmatch(line):
            histogram.rows[int(line.split(maxsplit=1)[0])] = where
    if histogram is not None:
        yield _bad(histogram.where, "the histogram ends early; record the whole output")
    yield from _read_threads(threads, plan, wall_s)


def _is_of_another_run(before: _Thread, after: _Thread) -> bool:
    return after.cycles < before.cycles or before.tid not in {0, after.tid}


def _thread(match: re.Match[str], where: Where) -> _Thread:
    is_ns = min(len(match[4]), len(match[5])) >= NANOSECOND_WIDTH
    return _Thread(
        tid=int(match[2]),
        cycles=int(match[3]),
        longest=match[6],
        scale=NANOSECOND_S if is_ns else MICROSECOND_S,
        where=where,
    )


def _read_threads(
    threads: Mapping[int, _Thread], plan: _Plan, wall_s: float | None
) -> Iterator[_Read]:
    if not threads:
        return
    cycles = [thread.cycles for thread in threads.values()]
    yield from _early_end(plan, cycles, wall_s, next(iter(threads.values())).where)
    if len(threads) < (plan.threads or 0):
        where = list(threads.values())[-1].where
        yield _bad(where, f"{len(threads)} of {plan.threads} threads; record the whole output")
        return
    ran = [thread for thread in threads.values() if thread.cycles > 0]
    if not ran:
        where = next(iter(threads.values())).where
        yield _bad(where, "no timer expired; run cyclictest for longer")
        return
    maxima = (
        measure(_metric("max"), thread.longest, where=thread.where, scale=thread.scale)
        for thread in ran
    )
    samples = sum(thread.cycles for thread in ran)
    yield from measure_maximum(maxima, samples=samples, unit_s=ran[0].scale)


def _read_histogram(histogram: _Histogram, plan: _Plan, wall_s: float | None) -> Iterator[_Read]:
    scale = NANOSECOND_S if plan.is_ns else MICROSECOND_S
    averages, _ = histogram.summary.get("Avg Latencies", ([], histogram.where))
    maxima, max_line = histogram.summary.get("Max Latencies", ([], histogram.where))
    # With -H, the last column of all lines except the averages is the sum or maximum of the
    # threads.
    threads = len(averages)
    counted = _columns(histogram, "Total", threads)
    above = _columns(histogram, "Histogram Overflows", threads)
    if counted is None or above is None or not 0 < threads <= len(maxima):
        yield _bad(histogram.where, "the histogram is damaged; record again")
        return
    cycles = list(map(sum, zip(counted, above, strict=True)))
    yield from _early_end(plan, cycles, wall_s, max_line)
    counts = {
        index: sum(map(int, where[2].split()[1 : threads + 1]))
        for index, where in histogram.rows.items()
    }
    if counts and sum(counts.values()) != sum(counted):
        yield _bad(
            histogram.where,
            f"the counts of the histogram add up to {sum(counts.values())}, but its total is "
            f"{sum(counted)}; record again",
        )
        return
    yield from measure_percentiles(
        _percentile,
        counts,
        histogram.rows,
        above=sum(above) if counts else 0,
        scale=scale,
        resolution=scale,
    )
    yield from measure_maximum(
        (measure(_metric("max"), text, where=max_line, scale=scale) for text in maxima[:threads]),
        samples=sum(counted) + sum(above),
        unit_s=scale,
        counts=counts or None,
        width=1,
        above=sum(above) if counts else 0,
    )


def _columns(histogram: _Histogram, name: str, threads: int) -> list[int] | None:
    """Return the counts of the threads in a line of the summary; None if it is damaged."""
    texts, _ = histogram.summary.get(name, ([], histogram.where))
    if len(texts) < threads or any(len(text) > MOST_DIGITS for text in texts):
        return None
    return [int(text) for text in texts[:threads]]


def _is_needed(path: Path) -> bool:
    return path[0] in {
        "thread",
        "resolution_in_ns",
        "cmdline",
        "cmdline:",
        "start_time",
        "end_time",
    }


def _read_json(document: Document) -> Iterator[_Read]:
    if document.problem is not None:
        yield document.problem
        return
    values = document.values
    is_ns = values.get(("resolution_in_ns",), Scalar("0", document.where)).text == "1"
    scale = NANOSECOND_S if is_ns else MICROSECOND_S
    threads = dict.fromkeys(path[1] for path in values if path[:1] == ("thread",) and path[2:])
    fields = [[values.get(("thread", name, key)) for name in threads] for key in _KEYS]
    maxima, cycles = ([item for item in column if item is not None] for column in fields)
    weights = [_count(item.text) for item in cycles]
    if not threads or not len(maxima) == len(weights) == len(threads):
        yield _bad(document.where, "no cycles or max of a thread; record again")
        return
    command = values.get(("cmdline",)) or values.get(("cmdline:",))
    plan = _plan(command.text.split() if command is not None else ())
    yield from _early_end(plan, weights, _seconds(values), cycles[0].where)
    counts: dict[int, int] = {}
    lines: dict[int, Where] = {}
    for path, item in values.items():
        if path[2:3] == ("histogram",) and path[3:]:
            index = _count(path[3])
            counts[index] = counts.get(index, 0) + _count(item.text)
            lines[index] = item.where
    above = max(0, sum(weights) - sum(counts.values()))
    if counts:
        yield from measure_percentiles(
            _percentile, counts, lines, above=above, scale=scale, resolution=scale
        )
    yield from measure_maximum(
        (measure(_metric("max"), item.text, where=item.where, scale=scale) for item in maxima),
        samples=sum(weights),
        unit_s=scale,
        counts=counts or None,
        width=1,
        above=above if counts else 0,
    )


_KEYS = ("max", "cycles")


def _count(text: str) -> int:
    """Return a printed count; 0 if the text is not a count."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else 0


def _metric(statistic: str) -> Metric:
    family: Family = "primary" if statistic == "max" else "secondary"
    percent = statistic.removeprefix("p")
    return Metric(
        name=f"cyclictest latency {statistic}",
        unit="s",
        better="lower",
        family=family,
        definition=MAXIMUM if statistic == "max" else PERCENTILE.format(percent=percent),
    )


def _percentile(percent: str) -> Metric:
    return _metric(f"p{percent}")


def _bad(where: Where, problem: str) -> BadLine:
    return BadLine(problem=f"{where[0]}:{where[1]}: cyclictest: {problem}")
