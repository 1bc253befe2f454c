# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf doctor``: what can be captured on this machine, and how to fix the rest."""

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
    can = sum(one["status"] == "ok" for one in collectors)
    console.print(
        f"{can} of {len(collectors)} collectors work here (kernel {record['kernel']}, Python "
        f"{record['python']})"
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
    rows = [(one["name"], one["status"], _took(one)) for one in collectors]
    room = width - sum(max(map(len, column)) + _GAP for column in zip(*rows, strict=True))
    for one in collectors:
        facts = "\n".join(_facts(one, room))
        table.add_row(one["name"], one["status"], _took(one), facts, style=_STYLES[one["status"]])
    return table


def _took(one: Mapping[str, Any]) -> str:
    return "" if one["seconds"] is None else f"{one['seconds']:.2f}"


def _facts(one: Mapping[str, Any], room: int) -> Iterator[str]:
    from schedperf.model.text import clean_line  # noqa: PLC0415 # as above

    yield clean_line(one["summary"])
    if one["reason"]:
        yield f"why: {clean_line(one['reason'])}"
    if one["remedy"]:
        yield f"fix: {clean_line(one['remedy'])}"
    if one["hint"]:
        hint = f"limited: {clean_line(one['hint'])}"
        yield textwrap.fill(hint, max(room, _LEAST_ROOM), max_lines=HINT_LINES, placeholder=" …")
    needs = ", ".join(one["needs"]) or "nothing"
    when = "instrumented runs only" if one["intrusive"] else ""
    by_default = "" if one["default"] else "only with --with"
    limits = "; ".join(text for text in (when, by_default) if text)
    yield f"needs {needs}; costs {one['cost']}{f'; {limits}' if limits else ''}"


command = RecorderCommand("doctor", doctor)
