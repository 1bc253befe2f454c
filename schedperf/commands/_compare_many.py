# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf compare --many``: compare the pairs of a table, and print one line per pair."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import asdict

from schedperf.commands._compare_request import CompareRequest
from schedperf.commands._outputs import (
    cannot_be_written,
    dump_json,
    open_outputs,
    write_output,
)
from schedperf.compare.many.judge import PairResult, Task, absolute, failed, judge_pair
from schedperf.compare.many.pairs import Pair, read_pairs
from schedperf.compare.options import CompareOptions
from schedperf.inputs.bundle.durable import explain
from schedperf.inputs.many.lost import Lost
from schedperf.inputs.many.workers import start_workers
from schedperf.model.errors import InputError
from schedperf.model.rows import Better
from schedperf.model.text import clean_line
from schedperf.model.units import signed
from schedperf.model.verdict import EXIT_STATUS, STRICT_INCONCLUSIVE_STATUS
from schedperf_reports.formats.csv import text_cell

_FORMATS = ("text", "csv", "json")
_ERROR_STATUS = 2
# The first that a pair has is the exit status, as a regression of any result decides a comparison.
_ORDER = (1, _ERROR_STATUS, 4, STRICT_INCONCLUSIVE_STATUS)
_VERDICT_COLUMNS = max(map(len, EXIT_STATUS))
_CHANGE_COLUMNS = 30


class ManyRequest(Struct, frozen=True, kw_only=True):
    """The options of ``compare --many``.

    :param pairs: table of pairs
    :param scheduler: address of a Dask scheduler; None for processes of this machine
    :param output: new directory for the JSON of each pair; None for none
    :param json: file for the JSON of all lines
    :param printed: format of stdout
    """

    pairs: Path
    scheduler: str | None
    output: Path | None
    json: str | None
    printed: str
    strict: bool
    margin: float
    allowed: tuple[str, ...]
    better: tuple[tuple[str, Better], ...]
    boot_sd: float | None

    @property
    def options(self) -> CompareOptions:
        """The options of each comparison."""
        return CompareOptions(
            margin=self.margin,
            allowed=self.allowed,
            better=dict(self.better),
            boot_sd=self.boot_sd,
        )

    def command(self, pair: Pair) -> tuple[str, ...] | None:
        """Return the command line of one comparison; None if it is not written."""
        if self.output is None:
            return None
        return CompareRequest(
            paths=(Path(pair.base), Path(pair.new)),
            history=(),
            margin=self.margin,
            allowed=self.allowed,
            base=None,
            are_tables=False,
            better=self.better,
            boot_sd=self.boot_sd,
        ).command()


def compare_many(request: ManyRequest) -> int:
    """Compare all pairs, print a line for each as soon as it is compared; return the exit status.

    :raises InputError: the table is invalid, an output cannot be written, or the scheduler cannot
        be used
    :raises click.UsageError: the format is not one of a table
    """
    if request.printed not in _FORMATS:
        raise click.UsageError(
            f"--format: {request.printed} is not available with --many (expected one of "
            f"{', '.join(_FORMATS)})"
        )
    pairs = read_pairs(request.pairs)
    if request.output is not None:
        _make_folder(request.output)
    with open_outputs({"json": request.json}, [request.pairs]) as files:
        draw = {"text": _draw_text(pairs), "csv": _draw_csv}.get(request.printed, _draw_nothing)
        results: list[PairResult] = []
        for result in _compare(request, pairs):
            click.echo((draw(result) if results else draw(None) + draw(result)), nl=False)
            results.append(result)
        dumped = dump_json(results)
        for file in files.values():
            write_output(file, [dumped])
    if request.printed == "json":
        click.echo(dumped, nl=False)
    _say_failed(results)
    return _status(results, strict=request.strict)


def _compare(request: ManyRequest, pairs: Sequence[Pair]) -> Iterator[PairResult]:
    """Yield the result of each pair, in their order; write the comparison."""
    tasks = [
        Task(
            pair=pair,
            files=(absolute(pair.base), absolute(pair.new)),
            options=request.options,
            command=request.command(pair),
        )
        for pair in pairs
    ]
    # Rows alone take a tenth of a second, a whole comparison seconds.
    is_long = request.output is not None
    with start_workers(len(tasks), request.scheduler, are_long=is_long) as workers:
        for task, answer in workers.map(judge_pair, tasks):
            if isinstance(answer, Lost):
                yield failed(task.pair, answer.problem)
                continue
            if request.output is not None and answer.comparison is not None:
                _write(request.output / f"{task.pair.name}.json", answer.comparison)
            yield answer.result


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"{folder}: not empty (expected a new directory); choose another one")
    except OSError as error:
        raise InputError(f"{folder}: {explain(error)}; choose another --output") from None


def _write(path: Path, text: str) -> None:
    try:
        # A surrogate in a captured name must not make the report fail.
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise cannot_be_written(path, error) from None


def _draw_text(pairs: Sequence[Pair]) -> Callable[[PairResult | None], str]:
    """Return what draws one line; None is the header."""
    columns = max(len("name"), *(len(pair.name) for pair in pairs))

    def draw(each: PairResult | None) -> str:
        if each is None:
            cells = ("name", "verdict", "change", "result")
        elif each.verdict is None:
            cells = (each.name, "error", "", each.error or "")
        else:
            cells = (each.name, each.verdict, _interval(each), each.result or each.reason or "")
        name, verdict, change, rest = cells
        line = f"{name:<{columns}}  {verdict:<{_VERDICT_COLUMNS}}  {change:<{_CHANGE_COLUMNS}}"
        return f"{line}  {rest}".rstrip() + "\n"

    return draw


def _interval(each: PairResult) -> str:
    if each.change is None:
        return "-"
    if each.ci_low is None or each.ci_high is None:
        return signed(each.change)
    return f"{signed(each.change)} [{signed(each.ci_low)}, {signed(each.ci_high)}]"


def _draw_csv(each: PairResult | None) -> str:
    """Return one line; None is the header."""
    written = io.StringIO()
    cells = PairResult.__struct_fields__ if each is None else map(_cell, asdict(each).values())
    csv.writer(written).writerow(cells)
    return written.getvalue()


def _cell(value: str | float | None) -> str:
    if value is None:
        return ""
    return text_cell(value) if isinstance(value, str) else repr(value)


def _draw_nothing(_each: PairResult | None) -> str:
    return ""


def _say_failed(results: Sequence[PairResult]) -> None:
    errors = [each for each in results if each.error is not None]
    if errors:
        text = (
            f"schedperf: {len(errors)} of {len(results)} pairs not compared; first: "
            f"{errors[0].name}: {errors[0].error}"
        )
        click.echo(clean_line(text), err=True)


def _status(results: Sequence[PairResult], *, strict: bool) -> int:
    found = {
        _ERROR_STATUS if each.verdict is None else EXIT_STATUS[each.verdict] for each in results
    }
    if strict and any(each.verdict == "inconclusive" for each in results):
        found.add(STRICT_INCONCLUSIVE_STATUS)
    return next((status for status in _ORDER if status in found), 0)
