# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the output of each run of a side: benchmark results, and the work done.

Every benchmark parser that claims a run's stdout or stderr reads it, and so do the user's
``--metric`` rules. A text is read once, whoever asks::

    printed_by(side, run).ops
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from msgspec import Struct, structs

from schedperf.benchmarks import (
    BadLine,
    BenchmarkParser,
    Latencies,
    Measurement,
    Metric,
    all_parsers,
)
from schedperf.bundle.open import Run
from schedperf.model.comparison import Source
from schedperf.model.run import Operations
from schedperf.model.text import cut_line
from schedperf.runs.metric_rules import Allowance, parse_rules
from schedperf.runs.ops import count_measured, count_printed
from schedperf.runs.output import HEAD_BYTES, LARGEST_TEXT_BYTES, STREAMS, TAIL_BYTES
from schedperf.runs.side import Side


class Value(Struct, frozen=True, kw_only=True):
    """The value of one metric in one run, in the metric's unit.

    :param value: mean of what was printed, or the largest of maxima
    :param resolution: None: unknown
    """

    value: float
    resolution: float | None
    source: Source | None


class Printed(Struct, frozen=True, kw_only=True):
    """What one run printed.

    :param numbers: by metric, in the order in which they were printed
    :param problems: lines that have no number, one sentence each
    :param ops: what its benchmark did; None where that is unknown
    :param latencies: what its benchmark printed of its latencies
    """

    numbers: Mapping[Metric, Value]
    problems: tuple[str, ...]
    ops: Operations | None
    latencies: tuple[Latencies, ...] = ()


def printed_by(side: Side, run: Run, folder: str | None = None) -> Printed:
    """Return what a run of this side printed.

    :param folder: directory of the stdout and stderr of another command that ran during the run;
        ``run`` then has the words of this command. None: those of the workload
    :raises BundleError: a text does not match its checksum
    """
    return side.once(_Texts).read(run, run.folder if folder is None else folder)


class _Texts:
    # The texts of one bundle; of each run what was found, and no text, is kept.

    def __init__(self, side: Side) -> None:
        self._bundle = side.bundle
        self._parsers = tuple(all_parsers().values())
        # What the expressions of a bundle may take together, however many of its runs are read.
        self._allowance = Allowance()
        self._printed: dict[str, Printed] = {}

    def read(self, run: Run, folder: str) -> Printed:
        if folder not in self._printed:
            self._printed[folder] = self._parse(run, folder)
        return self._printed[folder]

    def _parse(self, run: Run, folder: str) -> Printed:
        texts: dict[str, str] = {}
        for stream in STREAMS:
            name = f"{folder}/{stream}"
            size = self._bundle.size(name)
            if size is not None and size > LARGEST_TEXT_BYTES:
                texts[name] = self._bundle.read_ends(name, HEAD_BYTES, TAIL_BYTES)
            elif size is not None:
                texts[name] = self._bundle.read_text(name)
        claiming = {
            name: [parser for parser in self._parsers if _claims(parser, run, text)]
            for name, text in texts.items()
        }
        parsed = list(self._parsed(run, texts, claiming))
        measured = [(name, item) for name, item in parsed if isinstance(item, Measurement)]
        counts = (count_printed(text) for text in texts.values())
        counted = next((count for count in counts if count is not None), None)
        return Printed(
            numbers=_values_of(measured),
            problems=tuple(
                bad_line.problem for _, bad_line in parsed if isinstance(bad_line, BadLine)
            ),
            ops=counted or count_measured([item for _, item in measured], run.wall_s),
            latencies=tuple(
                latencies
                for name, parsers in claiming.items()
                for parser in parsers
                if parser.latencies is not None
                for latencies in parser.latencies(texts[name].splitlines(), name)
            ),
        )

    def _parsed(
        self,
        run: Run,
        texts: Mapping[str, str],
        claiming: Mapping[str, Sequence[BenchmarkParser]],
    ) -> Iterator[tuple[str, Measurement | BadLine]]:
        # Programs differ in where they print: stress-ng's table is on stderr in some versions.
        # A rule has precedence over a parser's metric of the same name.
        ruled = {rule.name for rule in run.metric_rules}
        found_by_rules: set[str] = set()
        is_known = bool(ruled) or not all(
            parser.is_fallback for parsers in claiming.values() for parser in parsers
        )
        for name, text in texts.items():
            label = run.source or name
            for parser in claiming[name]:
                if parser.is_fallback and is_known:
                    continue
                for item in _rename(parser, run, parser.parse(text.splitlines(), label)):
                    if isinstance(item, BadLine) or item.metric.name not in ruled:
                        yield name, item
            rules = [rule for rule in run.metric_rules if rule.name not in found_by_rules]
            for item in parse_rules(rules, text, name, self._allowance):
                if isinstance(item, Measurement):
                    found_by_rules.add(item.metric.name)
                yield name, item


def _claims(parser: BenchmarkParser, run: Run, text: str) -> bool:
    if parser.claims(text):
        return True
    return parser.claims_command is not None and parser.claims_command(run.command)


def _rename(
    parser: BenchmarkParser, run: Run, items: Iterable[Measurement | BadLine]
) -> Iterator[Measurement | BadLine]:
    # A command may be a script: ("sh", "-c", "tbench -t 10 4").
    # mmtests calls a version of the program "tbench4".
    words = {
        word.rpartition("/")[2].rstrip("0123456789") if run.imported else word.rpartition("/")[2]
        for part in run.command
        for word in part.split()
    }
    program = next((name for name in parser.programs if name in words), None)
    complete: dict[Metric, Metric] = {}
    for item in items:
        if isinstance(item, BadLine):
            yield item
            continue
        metric = complete.get(item.metric)
        if metric is None:
            metric = complete[item.metric] = _complete(item.metric, parser, program)
        yield structs.replace(item, metric=metric)


def _complete(metric: Metric, parser: BenchmarkParser, program: str | None) -> Metric:
    """Return a metric with the class of its parser and the name of the program that ran."""
    name = metric.name
    if program is not None:
        name = program + name.removeprefix(parser.name)
    return dataclasses.replace(metric, name=name, class_=parser.class_)


def _values_of(numbers: Iterable[tuple[str, Measurement]]) -> dict[Metric, Value]:
    by_metric: dict[Metric, list[tuple[str, Measurement]]] = {}
    for member, item in numbers:
        by_metric.setdefault(item.metric, []).append((member, item))
    return {metric: _value_of(metric, items) for metric, items in by_metric.items()}


def _value_of(metric: Metric, items: Sequence[tuple[str, Measurement]]) -> Value:
    """Return the mean with the source of the last value, or the largest value of a maximum."""
    values = [item.value for _, item in items]
    largest = max(items, key=lambda pair: pair[1].value)
    member, item = largest if metric.is_maximum else items[-1]
    steps = (each.resolution for _, each in items if each.resolution is not None)
    return Value(
        value=item.value if metric.is_maximum else fmean(values),
        resolution=max(steps, default=None),
        source=Source(member=member, line=item.line_number, text=cut_line(item.line)),
    )
