# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the output of each run of a side: benchmark results, and the work done.

Every benchmark parser that recognizes a run's stdout or stderr parses it, and so do the user's
``--metric`` rules. Each text is parsed once; results are cached::

    printed_by(side, run).ops
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from msgspec import Struct, structs

from schedperf.inputs.benchmarks import (
    BadLine,
    BenchmarkParser,
    Execution,
    Latencies,
    Measurement,
    Metric,
    all_parsers,
)
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.rows import Source
from schedperf.model.run import Operations
from schedperf.model.text import cut_line
from schedperf.runs import output
from schedperf.runs.metric_rules import Allowance, parse_rules
from schedperf.runs.ops import count_measured, count_printed
from schedperf.runs.output import LARGEST_TEXT_BYTES, STREAMS


class Value(Struct, frozen=True, kw_only=True):
    """The value of one metric in one run, in the metric's unit.

    :param value: mean of the printed values; for a maximum, the largest of them
    :param resolution: step of the printed number, the largest if they differ; None if unknown
    :param source: the line of the last value, for a maximum of the largest; None for an elapsed
        time
    """

    value: float
    resolution: float | None
    source: Source | None


class Printed(Struct, frozen=True, kw_only=True):
    """What one run printed.

    :param numbers: by metric: those of parsers first, then those of --metric rules
    :param problems: lines without a valid number and rules that fail, one sentence each
    :param failure: why a benchmark failed to do its work and has no numbers; None if none failed
    :param ops: number of operations of its benchmark; None if unknown, or if a benchmark failed
    :param latencies: the latencies that its benchmark printed
    """

    numbers: Mapping[Metric, Value]
    problems: tuple[str, ...]
    failure: str | None
    ops: Operations | None
    latencies: tuple[Latencies, ...] = ()


def printed_by(side: Side, run: Run, folder: str | None = None) -> Printed:
    """Return what a run of this side printed.

    :param folder: directory of the stdout and stderr of another command that ran during the run,
        with ``run`` holding the words of that command; None for the workload itself
    :raises BundleError: a text does not match its checksum, is larger than 16 MiB, or would take
        too long to parse together with the texts before it
    """
    return side.once(_Texts).read(run, run.folder if folder is None else folder)


class _Texts:
    # The texts of one bundle. Only the parsed results are kept, not the texts.

    def __init__(self, side: Side) -> None:
        self._bundle = side.bundle
        self._parsers = tuple(all_parsers().values())
        # One time limit for the expressions of a bundle, independent of the number of runs.
        self._allowance = Allowance()
        self._text_allowance = output.Allowance(self._bundle)
        self._printed: dict[str, Printed] = {}

    def read(self, run: Run, folder: str) -> Printed:
        if folder not in self._printed:
            self._printed[folder] = self._parse(run, folder)
        return self._printed[folder]

    def _parse(self, run: Run, folder: str) -> Printed:
        texts: dict[str, str] = {}
        for name in (f"{folder}/{stream}" for stream in STREAMS):
            if self._bundle.size(name) is not None:
                texts[name] = self._bundle.read_text(name, LARGEST_TEXT_BYTES)
        return self.read_texts(run, texts)

    def read_texts(self, run: Run, texts: Mapping[str, str]) -> Printed:
        """Parse the texts of a run; the caller caches the result.

        :param texts: stdout and stderr, by name of the member of the bundle
        :raises BundleError: parsing would take too long
        """
        execution = Execution(command=run.command, wall_s=run.wall_s)
        for name, text in texts.items():
            self._text_allowance.search(name, text)
        claiming = self._claiming(run, texts)
        lines = {name: text.splitlines() for name, text in texts.items()}
        for name, parsers in claiming.items():
            self._text_allowance.read(name, len(lines[name]), readers=len(parsers))
        failures = dict(_failures(run, execution, texts, claiming))
        claiming = {
            name: [parser for parser in parsers if parser.name not in failures]
            for name, parsers in claiming.items()
        }
        parsed = list(self._parsed(run, execution, lines, claiming))
        if not failures:
            parsed += self._found_by_rules(run, texts)
        measured = [(name, item) for name, item in parsed if isinstance(item, Measurement)]
        ops = None
        if not failures:
            counts = (count_printed(text) for text in texts.values())
            counted = next((count for count in counts if count is not None), None)
            ops = counted or count_measured([item for _, item in measured], run.wall_s)
        return Printed(
            numbers=values_of(measured),
            problems=tuple(
                bad_line.problem for _, bad_line in parsed if isinstance(bad_line, BadLine)
            ),
            failure=next(iter(failures.values()), None),
            ops=ops,
            latencies=tuple(
                latencies
                for name, parsers in claiming.items()
                for parser in parsers
                if parser.latencies is not None
                for latencies in parser.latencies(lines[name], name, execution)
            ),
        )

    def _claiming(self, run: Run, texts: Mapping[str, str]) -> dict[str, list[BenchmarkParser]]:
        """Return the parsers that read each text.

        Fallback parsers read only if no other parser does and the user gave no --metric rule.
        """
        claiming = {
            name: [parser for parser in self._parsers if _claims(parser, run, text)]
            for name, text in texts.items()
        }
        is_known = bool(run.metric_rules) or not all(
            parser.is_fallback for parsers in claiming.values() for parser in parsers
        )
        return {
            name: [parser for parser in parsers if not (parser.is_fallback and is_known)]
            for name, parsers in claiming.items()
        }

    @staticmethod
    def _parsed(
        run: Run,
        execution: Execution,
        lines: Mapping[str, Sequence[str]],
        claiming: Mapping[str, Sequence[BenchmarkParser]],
    ) -> Iterator[tuple[str, Measurement | BadLine]]:
        # The stream depends on the program: some versions of stress-ng print the table on stderr. A
        # rule has precedence over a parser's metric of the same name.
        ruled = {rule.name for rule in run.metric_rules}
        for name, parsers in claiming.items():
            label = run.source or name
            for parser in parsers:
                items = parser.read(lines[name], label, execution)
                for item in _rename(parser, run, items):
                    if isinstance(item, BadLine) or item.metric.name not in ruled:
                        yield name, item

    def _found_by_rules(
        self, run: Run, texts: Mapping[str, str]
    ) -> Iterator[tuple[str, Measurement | BadLine]]:
        found: set[str] = set()
        for name, text in texts.items():
            rules = [rule for rule in run.metric_rules if rule.name not in found]
            for item in parse_rules(rules, text, name, self._allowance):
                if isinstance(item, Measurement):
                    found.add(item.metric.name)
                yield name, item


def _failures(
    run: Run,
    execution: Execution,
    texts: Mapping[str, str],
    claiming: Mapping[str, Sequence[BenchmarkParser]],
) -> Iterator[tuple[str, str]]:
    """Yield the name of each parser whose benchmark failed, and where and why: "STREAM:LINE: …".

    A program prints its results on stdout and what went wrong on stderr.
    """
    parsers = {parser.name: parser for parsers in claiming.values() for parser in parsers}
    for parser in parsers.values():
        for name, text in texts.items():
            failure = None if parser.find_failure is None else parser.find_failure(text, execution)
            if failure is not None:
                where = f"{run.source or name}:{failure.line_number}"
                yield parser.name, f"{where}: {failure.problem}"
                break


def _claims(parser: BenchmarkParser, run: Run, text: str) -> bool:
    if parser.claims(text):
        return True
    return parser.claims_command is not None and parser.claims_command(run.command)


def _rename(
    parser: BenchmarkParser, run: Run, items: Iterable[Measurement | BadLine]
) -> Iterator[Measurement | BadLine]:
    # A command may be a script: ("sh", "-c", "tbench -t 10 4"). mmtests names one version of the
    # program "tbench4".
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
    """Return a metric with its parser's class and the name of the program that ran."""
    name = metric.name
    if program is not None:
        name = program + name.removeprefix(parser.name)
    return dataclasses.replace(metric, name=name, class_=parser.class_)


def values_of(numbers: Iterable[tuple[str, Measurement]]) -> dict[Metric, Value]:
    """Return the value of each metric that one run printed.

    :param numbers: each measurement with the bundle member that contains it
    """
    by_metric: dict[Metric, list[tuple[str, Measurement]]] = {}
    for member, item in numbers:
        by_metric.setdefault(item.metric, []).append((member, item))
    return {metric: _value_of(metric, items) for metric, items in by_metric.items()}


def _value_of(metric: Metric, items: Sequence[tuple[str, Measurement]]) -> Value:
    """Return the mean and the last source; for a maximum, the largest value and its source."""
    values = [item.value for _, item in items]
    largest = max(items, key=lambda pair: pair[1].value)
    member, item = largest if metric.is_maximum else items[-1]
    steps = (each.resolution for _, each in items if each.resolution is not None)
    return Value(
        value=item.value if metric.is_maximum else fmean(values),
        resolution=max(steps, default=None),
        source=Source(member=member, line=item.line_number, text=cut_line(item.line)),
    )
