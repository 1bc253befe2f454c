# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse benchmark output: each public module has the parser of one output format.

::

    TIME = Metric(
        name="hackbench time",
        unit="s",
        better="lower",
        family="primary",
        definition="Time until all messages are received.",
    )

    @parser("hackbench", class_="micro", claims=lambda text: "\\nTime: " in text)
    def parse_hackbench(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
        ...

A parser is a generator over lines; ``label`` is only for messages. It yields a ``BadLine`` for an
invalid line and raises no exception. Every metric states its unit and direction; they are not
guessed from its name. The record contains the metric's ``definition`` and the printed line of each
measurement, so that readers can check both.

Put the output of a real run into ``tests/data/benchmarks/NAME.txt``; docs/extending.md has a
complete parser.
"""

import functools
import inspect
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from msgspec import Struct

from schedperf.inputs.benchmarks._outside import guard_parser
from schedperf.model.errors import BadLine
from schedperf.model.numbers import LARGEST_NUMBER, LONGEST_NUMBER, printed_step, read_number
from schedperf.model.rows import BenchmarkClass, Better, Family
from schedperf.model.text import cut
from schedperf_collectors.registry import Registry

__all__ = [
    "MICROSECOND_S",
    "MILLISECOND_S",
    "BadLine",
    "BenchmarkParser",
    "Execution",
    "Failure",
    "Item",
    "Latencies",
    "Measurement",
    "Metric",
    "Where",
    "all_parsers",
    "lines_of_failure",
    "measure",
    "parser",
]

# Suffix of the names of maxima, e.g. "cyclictest latency max".
MAXIMUM_END = " max"

# Factors from printed times to seconds.
MILLISECOND_S = 1e-3
MICROSECOND_S = 1e-6


def is_maximum(name: str) -> bool:
    """Return whether a metric is the maximum of a run: ``cyclictest latency max``."""
    return name.endswith(MAXIMUM_END)


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric of a benchmark: name, unit and direction.

    :param unit: base unit, e.g. "s", "B/s", "1/s" or "count"
    :param better: "higher", "lower", or "unknown" for imported values
    :param definition: one sentence for readers who do not know the benchmark: what the number
        counts or times, and whether it is a sum, mean or percentile; None if the output does not
        state it. Not part of the metric's identity
    :param class_: class of the benchmark; parsers leave it None, and readers of runs copy it from
        the :class:`BenchmarkParser`
    """

    name: str
    unit: str
    better: Better
    family: Family
    definition: str | None = field(default=None, compare=False)
    class_: BenchmarkClass | None = field(default=None, compare=False)

    @property
    def is_maximum(self) -> bool:
        """Whether the metric is the maximum of a run, according to its name.

        Several values in one run are reduced to the largest, not the mean, and runs are compared by
        ranks.
        """
        return is_maximum(self.name)


class Measurement(Struct, frozen=True, kw_only=True):
    """One number that a benchmark printed.

    :param value: in the metric's unit
    :param resolution: step of the printed number, in the metric's unit; None if unknown, and for
        counts, which are exact
    :param line_number: counted from 1 in the captured text
    :param line: the printed line, without surrounding blanks
    """

    metric: Metric
    value: float
    resolution: float | None
    line_number: int
    line: str


class Latencies(Struct, frozen=True, kw_only=True):
    """The printed latencies of one execution of a benchmark.

    Rare long latencies decide whether a system meets real-time requirements, so they are counted.

    :param name: what was measured; the name of the metric of its maximum without " max"
    :param samples: number of all samples
    :param unit_s: unit of the bins, in s
    :param counts: number of samples by the smallest value of each bin, in ``unit_s``; None without
        a histogram
    :param width: width of a bin, in ``unit_s``; None if it is unknown, because empty bins are not
        printed
    :param above: number of samples above the last bin
    """

    name: str
    samples: int
    maximum_s: float
    unit_s: float
    counts: Mapping[int, int] | None = None
    width: int | None = None
    above: int = 0


# An item that a parser yields, and its position: label, line number from 1, and the line itself.
Item = Measurement | BadLine
Where = tuple[str, int, str]


def measure(metric: Metric, text: str, *, where: Where, scale: float = 1.0) -> Item:
    """Return the measurement of a printed number, or a ``BadLine`` if it is invalid or too large.

    :param text: the printed number
    :param where: label, line number from 1, and the line itself
    :param scale: factor from the printed unit to the metric's
    """
    label, line_number, line = where
    value = read_number(text)
    if value is None or abs(value * scale) > LARGEST_NUMBER:
        shown = cut(text, LONGEST_NUMBER)
        return BadLine(problem=f"{label}:{line_number}: {metric.name}: invalid number {shown!r}")
    step = printed_step(text) * scale
    return Measurement(
        metric=metric,
        value=value * scale,
        resolution=step if math.isfinite(step) and metric.unit != "count" else None,
        line_number=line_number,
        line=line.strip(),
    )


class Execution(Struct, frozen=True, kw_only=True):
    """How a run was executed.

    :param command: its words; a script is one word: ``("sh", "-c", "hackbench | tee log")``; () if
        unknown
    :param wall_s: time from fork to exit, in s; None if unknown
    """

    command: tuple[str, ...] = ()
    wall_s: float | None = None


UNKNOWN = Execution()


class Failure(Struct, frozen=True):
    """A line that shows that the program failed, and why there is no result.

    :param line_number: counted from 1
    :param problem: e.g. "hackbench was ended by a signal before all messages were passed"
    """

    line_number: int
    problem: str


FindFailure = Callable[[str, Execution], Failure | None]


def lines_of_failure(problems: Mapping[str, str]) -> FindFailure:
    """Return a function that finds the first line that reports a failure, or returns None.

    :param problems: why the run has no result, by the regular expression of the line (``^`` matches
        at the start of each line)
    """
    patterns = [
        (re.compile(line, re.MULTILINE | re.ASCII), problem) for line, problem in problems.items()
    ]

    def find(text: str, _execution: Execution) -> Failure | None:
        found = [
            (match.start(), problem)
            for pattern, problem in patterns
            if (match := pattern.search(text)) is not None
        ]
        if not found:
            return None
        position, problem = min(found)
        return Failure(text.count("\n", 0, position) + 1, problem)

    return find


Claims = Callable[[str], bool]
ClaimsCommand = Callable[[Sequence[str]], bool]
# The functions of a parser take lines, a label and, if the meaning of the lines depends on it, how
# the run was executed.
Yields_co = TypeVar("Yields_co", Item, Latencies, covariant=True)


class Reader(Protocol[Yields_co]):
    """A generator function that takes lines and yields the numbers or latencies in them."""

    def __call__(
        self, lines: Iterable[str], label: str, execution: Execution = UNKNOWN, /
    ) -> Iterator[Yields_co]: ...


Parse = Reader[Item]
ReadLatencies = Reader[Latencies]
Registered = TypeVar("Registered", bound=Callable[..., Iterator[Item]])


class BenchmarkParser(Struct, frozen=True, kw_only=True):
    """One registered parser.

    :param claims: returns whether the captured text is output of this benchmark
    :param parse: yields the measurements and invalid lines
    :param programs: other programs that print the same text; if the command of a run names one, the
        names of its metrics begin with that program
    :param claims_command: returns whether the command of a run prints output of this benchmark that
        cannot be recognized by its text; None if all output can
    :param class_: "micro" exercises one mechanism of the kernel, "semi" a synthetic mix or one
        subsystem, "application" is work that users wait for; None if unknown
    :param is_fallback: it reads only runs whose output no other parser claims and which have no
        ``--metric`` rule
    :param latencies: reads the latencies whose maximum the benchmark prints; None if it prints none
    :param begins: matches the first line of every report, at its start; None if a text is one
        report. In one report each metric is printed once, except maxima; otherwise the text has no
        result. A text has several reports if several programs ran, or one in several parts
    :param find_failure: returns the line of stdout or stderr that shows that the run has no valid
        result, or None without such a line; None if the benchmark never prints one
    """

    name: str
    claims: Claims
    parse: Parse
    programs: tuple[str, ...] = ()
    claims_command: ClaimsCommand | None = None
    class_: BenchmarkClass | None = None
    is_fallback: bool = False
    latencies: ReadLatencies | None = None
    begins: re.Pattern[str] | None = None
    find_failure: FindFailure | None = None

    def read(
        self, lines: Sequence[str], label: str, execution: Execution = UNKNOWN
    ) -> Iterator[Item]:
        """Yield the items of a text; only ``BadLine`` items if a report has a metric twice.

        Maxima may be repeated.
        """
        items = list(self.parse(lines, label, execution))
        starts = [
            number
            for number, line in enumerate(lines if len(items) > 1 else (), start=1)
            if self.begins is not None and self.begins.match(line)
        ]
        printed: set[tuple[int, Metric]] = set()
        for item in items:
            # Several maxima are reduced to the largest.
            if isinstance(item, BadLine) or item.metric.is_maximum:
                continue
            key = bisect_right(starts, item.line_number), item.metric
            if key in printed:
                yield BadLine(
                    problem=f"{label}:{item.line_number}: {item.metric.name} is repeated in one "
                    "report; record the output of the program unchanged"
                )
                yield from (item for item in items if isinstance(item, BadLine))
                return
            printed.add(key)
        yield from items


registry: Registry[BenchmarkParser] = Registry(
    "schedperf.inputs.benchmarks", kind="benchmark parser", guard=guard_parser
)


def parser(
    name: str,
    *,
    claims: Claims,
    programs: tuple[str, ...] = (),
    claims_command: ClaimsCommand | None = None,
    class_: BenchmarkClass | None = None,
    is_fallback: bool = False,
    latencies: Callable[..., Iterator[Latencies]] | None = None,
    begins: re.Pattern[str] | None = None,
    find_failure: FindFailure | None = None,
) -> Callable[[Registered], Registered]:
    """Return a decorator that registers a generator as the parser of a benchmark.

    The generator takes lines and a label, and an :class:`Execution` if it has three parameters. The
    parameters of this function are the fields of :class:`BenchmarkParser`.
    """

    def register(parse: Registered) -> Registered:
        entry = BenchmarkParser(
            name=name,
            claims=claims,
            parse=_with_execution(parse),
            programs=programs,
            claims_command=claims_command,
            class_=class_,
            is_fallback=is_fallback,
            latencies=None if latencies is None else _with_execution(latencies),
            begins=begins,
            find_failure=find_failure,
        )
        registry.add(name, entry)
        return parse

    return register


def _with_execution(read: Callable[..., Iterator[Yields_co]]) -> Reader[Yields_co]:
    if len(inspect.signature(read).parameters) > 2:  # noqa: PLR2004 # lines and label
        return read

    @functools.wraps(read)
    def read_lines(
        lines: Iterable[str], label: str, _execution: Execution = UNKNOWN, /
    ) -> Iterator[Yields_co]:
        return read(lines, label)

    return read_lines


def all_parsers() -> Mapping[str, BenchmarkParser]:
    """Return every benchmark parser by name, including those of other installed packages.

    :raises PluginError: a parser of another package cannot be used
    """
    return registry.all()
