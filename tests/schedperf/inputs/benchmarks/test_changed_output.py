# SPDX-License-Identifier: GPL-2.0-or-later
"""Every parser against real output that is repeated, cut, or beside an error: never a blend.

The samples are those of the parsers' docstrings and the recorded ones, and the block of results is
found by the lines that a parser reads, so that a new parser is tested here without a word. A text
may give the right value, the value of the repeated block, or none; it may not give a number of
both, such as their mean or sum.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from schedperf.inputs.benchmarks import (
    BenchmarkParser,
    Execution,
    Measurement,
    Metric,
    all_parsers,
)
from schedperf.runs.printed import values_of
from tests.schedperf.inputs.benchmarks.samples import RECORDED, Sample, command_of, samples

Values = Mapping[Metric, float]

# Repeated results of these programs are those of one more client, whose rate is added.
SUMMED = {"netperf": "every result is that of another client, with -P 0 without a title"}
# Output whose cut is not visible: where, and why.
CUT_UNSEEN = {
    "rt-app": "a log ends with any line",
    "netperf-forms.txt": "results of -P 0 have no title that says how many clients there were",
    "unixbench-programs.txt": "fstime prints the same line of writing, reading and copying",
}
# The docstrings' samples whose command says more than the text.
COMMANDS = {"cyclictest": ("cyclictest", "-q", "-t2")}

NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
# The columns of a table are measured by the first and the last numbers of its lines.
MOST_NUMBERS = 12

HEADINGS = ("", "Another distribution (not corrected)", "{heading} (not corrected)")
ERRORS = (
    "{program}: error: cannot read the clock",
    "Killed",
    "Segmentation fault (core dumped)",
    "ERROR: 3 of 4 requests failed",
)

# Lines that the programs print when they do not do their work, as printed by them.
FAILURES: Mapping[str, Sequence[str]] = {
    "cyclictest": ("# Break value: 1172",),
    "fio": (
        "fio: terminating on signal 2",
        "w: (groupid=0, jobs=1): err=28 (file:io_u.c:1889, func=io_u error, error=No): pid=7:",
        "fio: pid=3116, err=28/file:filesetup.c:240, func=write, error=No space left on device",
        '      "error" : 28,',
    ),
    "hackbench": (
        "signaling 40 worker threads to terminate",
        "Signal 2 caught, longjmp'ing out!",
        "SENDER: write (error: Broken pipe)",
    ),
    "iperf3": (
        "iperf3: interrupt - the client has terminated",
        "iperf3: error - control socket has closed unexpectedly",
        '\t"error":\t"interrupt - the client has terminated"',
        '{"event":"error","data":"interrupt - the client has terminated"}',
        "[  4]   0.00-11.59  sec  0.00 Bytes  0.00 bits/sec                  receiver",
        "[SUM]   0.00-2.29   sec  0.00 Bytes  0.00 bits/sec  0.000 ms  0/0 (0%)  receiver",
    ),
    "perf bench sched messaging": ("perf: SENDER: write: Broken pipe",),
    "pgbench": ("pgbench: error: Run was aborted; the above results are incomplete.",),
    "stress-ng": ("stress-ng: info:  [79] unsuccessful run completed in 1.00s",),
    "sysbench": ("FATAL: `thread_run' function failed: error: query execution failed",),
    "time": (
        "Command exited with non-zero status 2",
        "Command terminated by signal 9",
        "\tExit status: 2",
        "make[1]: *** [Makefile:7: all] Error 2",
    ),
}


def samples_with_results(parser: BenchmarkParser) -> Iterator[Sample]:
    for sample in samples(parser):
        execution = sample.execution
        if not execution.command:
            execution = Execution(command=COMMANDS.get(parser.name, ()))
        if measurements(parser, sample.text.splitlines(), execution):
            yield replace(sample, execution=execution)


def measurements(
    parser: BenchmarkParser, lines: Iterable[str], execution: Execution
) -> list[Measurement]:
    """Return what the parser reads, which is nothing if the text shows a failure."""
    lines = list(lines)
    if parser.find_failure is not None and parser.find_failure("\n".join(lines), execution):
        return []
    items = parser.read(lines, "stdout", execution)
    return [item for item in items if isinstance(item, Measurement)]


def settle(items: Iterable[Measurement]) -> Values:
    """Return the values of a run, as a comparison does."""
    values = values_of([("stdout", item) for item in items])
    return {metric: value.value for metric, value in values.items()}


SAMPLES = [
    pytest.param(parser, sample, id=f"{name}-{sample.name}")
    for name, parser in all_parsers().items()
    for sample in samples_with_results(parser)
]
every_sample = pytest.mark.parametrize(("parser", "sample"), SAMPLES)
every_failure = pytest.mark.parametrize(
    ("name", "line"), [(name, line) for name, lines in FAILURES.items() for line in lines]
)


class _Block:
    """The last block of results: lines between which no metric is repeated."""

    def __init__(self, parser: BenchmarkParser, sample: Sample) -> None:
        self.parser = parser
        self.execution = sample.execution
        self.lines = sample.text.splitlines()
        items = measurements(parser, self.lines, sample.execution)
        self.values = settle(items)
        self.has_several = len(items) > len(self.values)
        metrics: set[Metric] = set()
        numbers: list[int] = []
        for item in sorted(items, key=lambda item: item.line_number, reverse=True):
            if item.metric in metrics:
                break
            metrics.add(item.metric)
            # The maximum of several clones may be far above the rest.
            if not item.metric.is_maximum:
                numbers.append(item.line_number)
        numbers = numbers or [item.line_number for item in items]
        self.measured = sorted({number - 1 for number in numbers})
        self.start, self.end = self.measured[0], self.measured[-1] + 1
        self.other = self._alter()

    def read(self, lines: Iterable[str]) -> Values:
        return settle(measurements(self.parser, lines, self.execution))

    def texts(self) -> tuple[list[str], list[str], list[str]]:
        return self.lines[: self.start], self.lines[self.start : self.end], self.lines[self.end :]

    def of_both(self, other: Sequence[str]) -> Values:
        """Return the values if the last block of another text is one of another run or client."""
        first, second = (
            measurements(self.parser, lines, self.execution) for lines in (self.lines, other)
        )
        inside = [item for item in second if self.start < item.line_number <= self.end]
        if self.parser.name not in SUMMED:
            return settle([*first, *inside])
        sums = dict(settle(first))
        for metric, value in settle(inside).items():
            if metric.unit in {"1/s", "B/s"}:
                sums[metric] += value
        return sums

    def _alter(self) -> list[str]:
        """Return all lines, with a change of each number in the last block that is a result."""
        lines = list(self.lines)
        for index in self.measured:
            matches = list(NUMBER.finditer(lines[index]))
            for match in reversed(
                [*matches[:MOST_NUMBERS], *matches[MOST_NUMBERS:][-MOST_NUMBERS:]]
            ):
                line = lines[index]
                digit = "1" if line[match.end() - 1] in "089" else "8"
                changed = line[: match.end() - 1] + digit + line[match.end() :]
                values = self.read([*lines[:index], changed, *lines[index + 1 :]])
                if values.keys() == self.values.keys() and values != self.read(lines):
                    lines[index] = changed
        return lines


def is_of(values: Values, right: Values) -> bool:
    """Return whether all values, of which there may be none, are these."""
    return all(
        metric in right and value == pytest.approx(right[metric])
        for metric, value in values.items()
    )


def repeated(block: _Block) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield the text with a second block behind the first, under several headings.

    Each has a name, and the text with the second block only.
    """
    before, within, after = block.texts()
    items = measurements(block.parser, block.lines, block.execution)
    results = {item.line_number - 1 for item in items}
    heading = next(
        (
            line
            for index, line in reversed([*enumerate(before)])
            if line.strip() and index not in results
        ),
        "",
    )
    for name, text in (("same values", block.lines), ("other values", block.other)):
        other = text[block.start : block.end]
        for template in HEADINGS:
            added = template.format(heading=heading)
            lines = [*before, *within, *([added] if added else []), *other, *after]
            yield f"{name}, heading {added!r}", text, lines


@every_sample
def test_a_repeated_block_is_no_part_of_the_result(parser: BenchmarkParser, sample: Sample) -> None:
    if parser.name in SUMMED:
        pytest.skip(SUMMED[parser.name])
    block = _Block(parser, sample)
    for name, other, lines in repeated(block):
        right = [block.values, block.read(other)]
        added = lines[block.end : len(lines) - len(block.lines) + block.end]
        if parser.begins is not None and any(map(parser.begins.match, added)):
            right.append(block.of_both(other))
        for metric, value in block.read(lines).items():
            assert value in [pytest.approx(each[metric]) for each in right], (name, metric.name)


@every_sample
def test_repeated_output_is_another_run_or_a_later_report(
    parser: BenchmarkParser, sample: Sample
) -> None:
    block = _Block(parser, sample)
    values = block.read([*block.lines, *block.lines])
    assert is_of(values, block.values) or is_of(values, block.of_both(block.lines))


@every_sample
def test_a_cut_block_has_the_values_before_the_cut(parser: BenchmarkParser, sample: Sample) -> None:
    for name in {parser.name, sample.name} & CUT_UNSEEN.keys():
        pytest.skip(CUT_UNSEEN[name])
    block = _Block(parser, sample)
    # If the last of several programs is missing, the mean of their results is that of the others.
    others = block.read(block.lines[: block.start]) if block.has_several else {}
    for end in range(block.start, block.end):
        for metric, value in block.read(block.lines[:end]).items():
            right = [values[metric] for values in (block.values, others) if metric in values]
            assert value in [pytest.approx(each) for each in right], (end, metric.name)


@every_sample
def test_an_error_line_changes_no_value(parser: BenchmarkParser, sample: Sample) -> None:
    block = _Block(parser, sample)
    before, within, after = block.texts()
    for template in ERRORS:
        error = template.format(program=parser.name)
        for lines in (
            [error, *block.lines],
            [*before, error, *within, *after],
            [*before, *within, error, *after],
            [*block.lines, error],
        ):
            assert is_of(block.read(lines), block.values), error


@every_failure
def test_output_beside_a_failure_has_no_result(name: str, line: str) -> None:
    parser = all_parsers()[name]
    for sample in samples_with_results(parser):
        lines = sample.text.splitlines()
        for text in ([line, *lines], [*lines, line]):
            assert parser.find_failure is not None
            failure = parser.find_failure("\n".join(text), sample.execution)
            assert failure is not None
            assert text[failure.line_number - 1] == line
            assert failure.problem.endswith("; record again")


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("iperf3", "iperf3: error - unable to connect to server: Connection refused"),
        ("iperf3", "iperf3: error - the server is busy running a test. try again later"),
        ("iperf3", '{\n\t"end":\t{\n\t},\n\t"error":\t"unable to connect to server: refused"\n}'),
        (
            "sysbench",
            'sysbench 1.0.20 (using system LuaJIT)\nFATAL: MySQL error: 1050 "already exists"',
        ),
    ],
)
def test_a_first_try_that_failed_changes_no_value(name: str, printed: str) -> None:
    parser = all_parsers()[name]
    for sample in samples_with_results(parser):
        lines = [*printed.splitlines(), *sample.text.splitlines()]
        right = measurements(parser, sample.text.splitlines(), sample.execution)
        assert settle(measurements(parser, lines, sample.execution)) == settle(right)


@pytest.mark.parametrize(
    "path", sorted((RECORDED / "failed").iterdir()), ids=lambda path: path.stem
)
def test_a_run_that_failed_has_no_result(path: Path) -> None:
    text = path.read_text()
    execution = Execution(command=command_of(f"failed/{path.name}"))
    [parser] = [parser for parser in all_parsers().values() if parser.claims(text)]
    assert any(isinstance(item, Measurement) for item in parser.read(text.splitlines(), ""))
    assert measurements(parser, text.splitlines(), execution) == []


def test_the_failures_are_of_all_parsers() -> None:
    assert set(FAILURES) == {
        name for name, parser in all_parsers().items() if parser.find_failure is not None
    }
