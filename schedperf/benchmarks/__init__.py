# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse benchmark output: each public module parses the output of one benchmark.

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

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from schedperf.benchmarks._outside import guard_parser
from schedperf.model.comparison import BenchmarkClass, Better, Family
from schedperf.model.errors import BadLine
from schedperf.model.numbers import LARGEST_NUMBER, LONGEST_NUMBER, printed_step, read_number
from schedperf.model.outside_plugins import all_with_outside
from schedperf_collectors.registry import Registry

__all__ = [
    "MICROSECOND_S",
    "MILLISECOND_S",
    "BadLine",
    "BenchmarkParser",
    "Item",
    "Latencies",
    "Measurement",
    "Metric",
    "Where",
    "all_parsers",
    "measure",
    "parser",
]

# End of the names of maxima: "cyclictest latency max".
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

    :param unit: base unit: "s", "B", "1/s", "count"
    :param definition: one sentence for readers who do not know the benchmark: what the number
        counts or times, and whether it is a sum, mean or percentile; None if the output does not
        state it. Not part of the metric's identity
    :param class_: that of its parser, which sets it; None if unknown
    """

    name: str
    unit: str
    better: Better
    family: Family
    definition: str | None = field(default=None, compare=False)
    class_: BenchmarkClass | None = field(default=None, compare=False)

    @property
    def is_maximum(self) -> bool:
        """Whether it is the maximum of a run, as its name says.

        Of several values in one run the largest counts, not their mean, and runs are compared by
        ranks.
        """
        return is_maximum(self.name)


class Measurement(Struct, frozen=True, kw_only=True):
    """One number that a benchmark printed.

    :param value: in the metric's unit
    :param resolution: step of the printed number, in the metric's unit; None if unknown
    :param line_number: counted from 1 in the captured text
    """

    metric: Metric
    value: float
    resolution: float | None
    line_number: int
    line: str


class Latencies(Struct, frozen=True, kw_only=True):
    """The latencies that a benchmark measured in one run of it, as far as it printed them.

    Rare long ones decide whether a system is a real-time system, so that they are counted.

    :param name: what was measured; the name of the metric of its maximum without " max"
    :param samples: number of all samples
    :param unit_s: of the bins
    :param counts: number of samples by the smallest value of each bin, in ``unit_s``; None without
        a histogram
    :param width: of a bin, in ``unit_s``; None if it is unknown, because empty bins are not printed
    :param above: samples above the last bin
    """

    name: str
    samples: int
    maximum_s: float
    unit_s: float
    counts: Mapping[int, int] | None = None
    width: int | None = None
    above: int = 0


# What a parser yields, and where it stands: label, line number from 1, and the line itself.
Item = Measurement | BadLine
Where = tuple[str, int, str]


def measure(metric: Metric, text: str, *, where: Where, scale: float = 1.0) -> Item:
    """Return the measurement of a printed number, or a ``BadLine`` if the number is invalid.

    :param where: label, line number from 1, and the line itself
    :param scale: factor from the printed unit to the metric's
    """
    label, line_number, line = where
    value = read_number(text)
    if value is None or abs(value * scale) > LARGEST_NUMBER:
        shown = text if len(text) <= LONGEST_NUMBER else f"{text[:LONGEST_NUMBER]}…"
        return BadLine(problem=f"{label}:{line_number}: {metric.name}: invalid number {shown!r}")
    step = printed_step(text) * scale
    return Measurement(
        metric=metric,
        value=value * scale,
        resolution=step if math.isfinite(step) and metric.unit != "count" else None,
        line_number=line_number,
        line=line.strip(),
    )


Claims = Callable[[str], bool]
ClaimsCommand = Callable[[Sequence[str]], bool]
Parse = Callable[[Iterable[str], str], Iterator[Measurement | BadLine]]
ReadLatencies = Callable[[Iterable[str], str], Iterator[Latencies]]


class BenchmarkParser(Struct, frozen=True, kw_only=True):
    """One registered parser.

    :param claims: returns whether the captured text is output of this benchmark
    :param programs: other programs that print the same text; if the command of a run names one, the
        names of its metrics begin with that program
    :param claims_command: returns whether the command of a run prints output of this benchmark that
        cannot be recognized by its text; None if all output can
    :param class_: "micro" exercises one mechanism of the kernel, "semi" a synthetic mix or one
        subsystem, "application" is work that users wait for; None: unknown
    :param is_fallback: it reads only runs of which no other parser claims any output and which have
        no ``--metric`` rule
    :param latencies: reads the latencies of which the benchmark prints the maximum; None if it
        prints none
    """

    name: str
    claims: Claims
    parse: Parse
    programs: tuple[str, ...] = ()
    claims_command: ClaimsCommand | None = None
    class_: BenchmarkClass | None = None
    is_fallback: bool = False
    latencies: ReadLatencies | None = None


registry: Registry[BenchmarkParser] = Registry("schedperf.benchmarks", kind="benchmark parser")


def parser(
    name: str,
    *,
    claims: Claims,
    programs: tuple[str, ...] = (),
    claims_command: ClaimsCommand | None = None,
    class_: BenchmarkClass | None = None,
    is_fallback: bool = False,
    latencies: ReadLatencies | None = None,
) -> Callable[[Parse], Parse]:
    """Return a decorator that registers a generator as the parser of a benchmark."""

    def register(parse: Parse) -> Parse:
        entry = BenchmarkParser(
            name=name,
            claims=claims,
            parse=parse,
            programs=programs,
            claims_command=claims_command,
            class_=class_,
            is_fallback=is_fallback,
            latencies=latencies,
        )
        registry.add(name, entry)
        return parse

    return register


def all_parsers() -> Mapping[str, BenchmarkParser]:
    """Return every benchmark parser, by name, those of other installed packages too.

    :raises PluginError: a parser of another package cannot be used
    """
    return all_with_outside(registry, guard_parser)
