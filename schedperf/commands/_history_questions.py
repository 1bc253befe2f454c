# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf history list``, ``show``, ``diff``, ``noise``, ``why``, ``sql`` and ``export``."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from schedperf.commands._history_options import JSON, STORE
from schedperf.commands._outputs import dump_json, limit_option

if TYPE_CHECKING:
    from schedperf.history.questions.history import History
    from schedperf.history.questions.sql import Answer

Found = TypeVar("Found")

# Characters of a cell of a table.
_WIDEST = 60


@click.command(name="list")
@STORE
@JSON
@limit_option(40, "series")
def list_(*, store: str, as_json: bool, limit: int) -> None:
    """List the series, with their change now and their noise.

    The change is that of new / reference, mean of the last seven nights. The smallest step is
    detected with a power of 80%: in one night, and in the mean of seven.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.history.questions.listing import list_series  # noqa: PLC0415

    _answer(store, list_series, lambda text, found: text.draw_list(found, limit), as_json=as_json)


@click.command()
@STORE
@JSON
@click.option("--since", metavar="DATE", help="Show only nights from this date.")
@limit_option(60, "nights")
@click.argument("series", metavar="SERIES")
def show(*, store: str, as_json: bool, since: str | None, limit: int, series: str) -> None:
    """Show a series over time, with its noise and steps.

    SERIES is a key of `list`, its beginning, or a part of a name that only one series has.
    """
    from schedperf.history.questions.timeline import timeline_of  # noqa: PLC0415 # as above

    _answer(
        store,
        lambda history: timeline_of(history, history.find(series), since),
        lambda text, found: text.draw_timeline(found, limit),
        as_json=as_json,
    )


@click.command()
@STORE
@JSON
@click.option("--nights", metavar="N", type=click.IntRange(min=2), default=7, show_default=True,
              help="Compare the last N nights up to each date.")  # fmt: skip
@limit_option(40, "series")
@click.argument("before", metavar="DATE")
@click.argument("after", metavar="DATE")
def diff(*, store: str, as_json: bool, nights: int, limit: int, before: str, after: str) -> None:
    """Compare two dates: changes of new / reference with 95% CI.

    A series without references shows the change of its values, which the drift of the machine may
    cause.
    """
    from schedperf.history.questions.change import compare_times  # noqa: PLC0415 # as above

    _answer(
        store,
        lambda history: compare_times(history, before, after, nights),
        lambda text, found: text.draw_changes(found, f"{before} to {after}", limit),
        as_json=as_json,
    )


@click.command()
@STORE
@JSON
@limit_option(40, "series")
def noise(*, store: str, as_json: bool, limit: int) -> None:
    """Rank the series by the smallest step that they show."""
    from schedperf.history.questions.noise import rank_noise  # noqa: PLC0415 # as above

    _answer(store, rank_noise, lambda text, found: text.draw_noise(found, limit), as_json=as_json)


@click.command()
@STORE
@JSON
@click.argument("step", metavar="STEP")
def why(*, store: str, as_json: bool, step: str) -> None:
    """Show every decision about a step, with its numbers."""
    _answer(
        store,
        lambda history: history.step_changes(step),
        lambda text, found: text.draw_step_changes(step, found),
        as_json=as_json,
    )


@click.command()
@STORE
@click.option("--format", "format_name", type=click.Choice(["table", "csv", "json"]),
              default="table", show_default=True, help="Choose the format.")  # fmt: skip
@click.argument("statement", metavar="SELECT")
def sql(*, store: str, format_name: str, statement: str) -> None:
    """Answer a query in SQL, which can only read.

    The view `runs` has a row per run and result; docs/history.md describes it and the tables.
    """
    from schedperf.history.questions.history import open_history  # noqa: PLC0415 # as above
    from schedperf.history.questions.sql import query  # noqa: PLC0415

    with open_history(store) as history:
        for text in _FORMATS[format_name](query(history.database, statement)):
            click.echo(text, nl=False)


@click.command()
@STORE
@click.option("--parquet", "target", metavar="DIR|URL", required=True,
              help="Write Parquet files to this directory, e.g. history-parquet or "
                   "s3://bucket/history.")  # fmt: skip
def export(*, store: str, target: str) -> None:
    """Write all tables as Parquet files, e.g. for DuckDB."""
    from schedperf.history.questions.export import export_parquet  # noqa: PLC0415 # as above
    from schedperf.history.questions.history import open_history  # noqa: PLC0415
    from schedperf.inputs.many.urls import is_url, redact  # noqa: PLC0415

    with open_history(store) as history:
        number = export_parquet(history, target)
    click.echo(f"{redact(target) if is_url(target) else target}: {number} files")


def _answer(
    store: str,
    ask: "Callable[[History], Found]",
    draw: Callable[[Any, Found], str],
    *,
    as_json: bool,
) -> None:
    """Print what a history answers.

    :param draw: is given the module that draws texts, and what was found
    """
    from schedperf.commands import _history_text  # noqa: PLC0415 # as above
    from schedperf.history.questions.history import open_history  # noqa: PLC0415

    with open_history(store) as history:
        found = ask(history)
    click.echo(dump_json(found) if as_json else draw(_history_text, found), nl=False)


def _write_csv(answer: "Answer") -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(answer.columns)
    for row in answer.rows:
        writer.writerow(row)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def _write_json(answer: "Answer") -> Iterator[str]:
    yield "["
    separator = "\n"
    for row in answer.rows:
        yield separator + json.dumps(dict(zip(answer.columns, row, strict=True)))
        separator = ",\n"
    yield "\n]\n"


def _write_table(answer: "Answer") -> Iterator[str]:
    from schedperf.model.text import clean_line, cut  # noqa: PLC0415 # as above

    rows = [
        [cut(clean_line("" if cell is None else str(cell)), _WIDEST) for cell in row]
        for row in (answer.columns, *answer.rows)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip() + "\n"


_FORMATS = {"table": _write_table, "csv": _write_csv, "json": _write_json}
COMMANDS = {
    "diff": diff,
    "export": export,
    "list": list_,
    "noise": noise,
    "show": show,
    "sql": sql,
    "why": why,
}
