# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse benchmark output: each public module reads the text of one benchmark.

::

    TIME = Metric(name="time", unit="s", better="lower", family="primary")

    @parser("hackbench", claims=lambda text: "\\nTime: " in text)
    def parse_hackbench(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
        ...

A parser takes lines and a label (only for messages), opens no file and yields.
A bad line is a value, not an exception. Every metric has a unit and a direction; nothing is guessed
from a name. Its ``definition`` and the line of each measurement are stored in the record, so that a
reader can check both.

Output of a real run goes to ``tests/data/benchmarks/NAME.txt``; docs/extending.md has a complete
parser.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from schedperf.model.comparison import Better, Family
from schedperf.model.errors import BadLine
from schedperf.model.numbers import LARGEST_NUMBER, LONGEST_NUMBER, printed_step, read_number
from schedperf_collectors.registry import Registry

__all__ = [
    "MICROSECOND_S",
    "MILLISECOND_S",
    "BadLine",
    "BenchmarkParser",
    "Measurement",
    "Metric",
    "all_parsers",
    "measure",
    "parser",
]

# What turns printed times into seconds.
MILLISECOND_S = 1e-3
MICROSECOND_S = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """What is measured.

    :param unit: base unit: "s", "B", "1/s", "count"
    :param definition: one sentence for who does not know the benchmark: what the number counts or
        times, and of what it is the sum, mean or percentile; None where the output does not say. It
        describes the metric and is not part of its identity
    """

    name: str
    unit: str
    better: Better
    family: Family
    definition: str | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """One number that a benchmark printed.

    :param value: in the metric's unit
    :param resolution: the step of the printed text, in the metric's unit; None where unknown
    :param line_number: counted from 1 in the captured text
    """

    metric: Metric
    value: float
    resolution: float | None
    line_number: int
    line: str


def measure(
    metric: Metric, text: str, *, where: tuple[str, int, str], scale: float = 1.0
) -> Measurement | BadLine:
    """Make a measurement of a printed number, or say what is wrong with it.

    :param where: label, line number from 1, and the line itself
    :param scale: what turns the printed unit into the metric's
    """
    label, line_number, line = where
    value = read_number(text)
    if value is None or abs(value * scale) > LARGEST_NUMBER:
        shown = text if len(text) <= LONGEST_NUMBER else f"{text[:LONGEST_NUMBER]}…"
        return BadLine(problem=f"{label}:{line_number}: {metric.name} is not a number: {shown!r}")
    step = printed_step(text) * scale
    return Measurement(
        metric=metric,
        value=value * scale,
        resolution=step if math.isfinite(step) and metric.unit != "count" else None,
        line_number=line_number,
        line=line.strip(),
    )


Claims = Callable[[str], bool]
Parse = Callable[[Iterable[str], str], Iterator[Measurement | BadLine]]


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchmarkParser:
    """One registered parser.

    :param claims: is this whole captured text this benchmark's?
    """

    name: str
    claims: Claims
    parse: Parse


registry: Registry[BenchmarkParser] = Registry("schedperf.benchmarks", kind="benchmark parser")


def parser(name: str, *, claims: Claims) -> Callable[[Parse], Parse]:
    """Register the decorated generator as the parser of that benchmark."""

    def register(parse: Parse) -> Parse:
        registry.add(name, BenchmarkParser(name=name, claims=claims, parse=parse))
        return parse

    return register


def all_parsers() -> Mapping[str, BenchmarkParser]:
    """Return every benchmark parser, by name."""
    return registry.all()
