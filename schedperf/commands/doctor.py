# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf doctor``: which collectors work on this machine, and how to fix the others."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from schedperf.commands._recorder import RecorderCommand, read_recorder
from schedperf_collectors.recorder.doctor import HINT_LINES

if TYPE_CHECKING:
    from rich.table import Table

# Colours beside the status words.
_STYLES = {"ok": "green", "skipped": "yellow", "failed": "red"}
# Columns between cells, and the least width of a hint on a narrow terminal.
_GAP = 2
_LEAST_ROOM = 20


def doctor(arguments: Sequence[str]) -> int:
    """Run the recorder's doctor and draw its result."""
    if "--json" in arguments:
        status, text = read_recorder(["doctor", *arguments])
        click.echo(text, nl=False)
        return status
    status, text = read_recorder(["doctor", "--json", *arguments])
    if status == 0:
        _print(json.loads(text))
    return status


def _print(record: Mapping[str, Any]) -> None:
    # Imported here so that --help of all commands stays fast.
    from schedperf.model.text import make_console  # noqa: PLC0415

    console = make_console()
    collectors = record["collectors"]
    can = sum(row["status"] == "ok" for row in collectors)
    console.print(
        f"{can} of {len(collectors)} collectors work on this machine (kernel {record['kernel']}, "
        f"Python {record['python']})"
    )
    with console.capture() as capture:
        console.print(_table(collectors, console.width))
    # Tables pad their last column, too.
    for line in capture.get().splitlines():
        click.echo(line.rstrip())


def _table(collectors: Sequence[Mapping[str, Any]], width: int) -> "Table":
    from rich.table import Table  # noqa: PLC0415 # as above

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, _GAP, 0, 0))
    for title in ("collector", "status"):
        table.add_column(title, no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    table.add_column("description, requirements and cost")
    rows = [(row["name"], row["status"], _took(row)) for row in collectors]
    room = width - sum(max(map(len, column)) + _GAP for column in zip(*rows, strict=True))
    for row in collectors:
        facts = "\n".join(_facts(row, room))
        table.add_row(row["name"], row["status"], _took(row), facts, style=_STYLES[row["status"]])
    return table


def _took(row: Mapping[str, Any]) -> str:
    return "" if row["seconds"] is None else f"{row['seconds']:.2f}"


def _facts(row: Mapping[str, Any], room: int) -> Iterator[str]:
    from schedperf.model.text import clean_line  # noqa: PLC0415 # as above

    yield clean_line(row["summary"])
    if row["reason"]:
        yield f"why: {clean_line(row['reason'])}"
    if row["remedy"]:
        yield f"fix: {clean_line(row['remedy'])}"
    if row["hint"]:
        hint = f"limited: {clean_line(row['hint'])}"
        yield textwrap.fill(hint, max(room, _LEAST_ROOM), max_lines=HINT_LINES, placeholder=" …")
    needs = ", ".join(row["needs"]) or "no programs"
    when = "instrumented runs only" if row["intrusive"] else ""
    by_default = "" if row["default"] else "only with --with"
    limits = "; ".join(text for text in (when, by_default) if text)
    yield f"needs: {needs}; cost: {row['cost']}{f'; {limits}' if limits else ''}"


command = RecorderCommand("doctor", doctor)
