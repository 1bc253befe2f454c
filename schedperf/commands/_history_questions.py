# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf history list``, ``show``, ``diff``, ``noise``, ``why``, ``sql`` and ``export``."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
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
@click.option("--open", "is_open", is_flag=True,
              help="List the steps about which something is left to be done.")  # fmt: skip
@click.option("--direction", type=click.Choice(["worse", "better", "higher", "lower"]),
              help="With --open: list only steps in this direction.")  # fmt: skip
def list_(*, store: str, as_json: bool, limit: int, is_open: bool, direction: str | None) -> None:
    """List the series, with their change now and their noise.

    The change is that of new / reference, mean of the last seven nights. The smallest step is
    detected with a power of 80%: in one night, and in the mean of seven.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.history.questions.listing import list_open, list_series  # noqa: PLC0415

    if direction is not None and not is_open:
        raise click.UsageError("--direction: only with --open; add it")
    if is_open:
        _answer(
            store,
            lambda history: list_open(history, direction),
            lambda text, found: text.draw_steps(found, limit),
            as_json=as_json,
        )
        return
    _answer(store, list_series, lambda text, found: text.draw_list(found, limit), as_json=as_json)


@click.command()
@STORE
@JSON
@click.option("--since", metavar="DATE", help="Show only nights from this date, e.g. 30d.")
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
@click.option("--nights", metavar="N", type=click.IntRange(min=1),
              help="Compare the last N nights up to each date.  "
                   "[default: 7, or the days between the dates if fewer]")  # fmt: skip
@click.option("--reference", "of_reference", is_flag=True,
              help="Compare the reference kernel with itself, which shows drift.")  # fmt: skip
@click.option("--repo", metavar="DIR", type=click.Path(path_type=Path),
              help="List the commits between the new kernels, from this repository.")  # fmt: skip
@limit_option(40, "series, or commits,")
@click.argument("before", metavar="DATE")
@click.argument("after", metavar="[DATE]", required=False)
def diff(
    *,
    store: str,
    as_json: bool,
    nights: int | None,
    of_reference: bool,
    repo: Path | None,
    limit: int,
    before: str,
    after: str | None,
) -> None:
    """Compare two dates: changes of new / reference with 95% CI.

    DATE is 2026-10-30, yesterday, or 30d for 30 days before the last night. The second one is the
    last night if it is not given. A series without references shows the change of its values,
    which the drift of the machine may cause.
    """
    from schedperf.history.questions.change import compare_times  # noqa: PLC0415 # as above

    _answer(
        store,
        lambda history: compare_times(
            history, before, after, nights, of_reference=of_reference, repository=repo
        ),
        lambda text, found: text.draw_times(found, limit),
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
@limit_option(40, "rows of each table")
@click.argument("step", metavar="STEP")
def why(*, store: str, as_json: bool, limit: int, step: str) -> None:
    """Show the decisions about a step, and what else moved with it."""
    from schedperf.history.questions.explain import explain_step  # noqa: PLC0415 # as above

    _answer(
        store,
        lambda history: explain_step(history, step),
        lambda text, found: text.draw_explained(found, limit),
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
