"""``schedperf doctor``: what can be captured on this machine, and what mends the rest."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from schedperf.commands._recorder import RecorderCommand, read_recorder

if TYPE_CHECKING:
    from rich.table import Table

# Signs that say the status without colour.
_STYLES = {"ok": "green", "skipped": "yellow", "failed": "red"}


def doctor(arguments: Sequence[str]) -> int:
    """Let the recorder try its collectors; draw what it found."""
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
    from schedperf.text import make_console  # noqa: PLC0415

    console = make_console()
    collectors = record["collectors"]
    can = sum(one["status"] == "ok" for one in collectors)
    console.print(
        f"{can} of {len(collectors)} collectors can run here"
        f" (kernel {record['kernel']}, Python {record['python']})"
    )
    with console.capture() as capture:
        console.print(_table(collectors))
    # Tables pad their last column, too.
    for line in capture.get().splitlines():
        click.echo(line.rstrip())


def _table(collectors: Sequence[Mapping[str, Any]]) -> "Table":
    from rich.table import Table  # noqa: PLC0415 # as above

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for title in ("collector", "status"):
        table.add_column(title, no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    table.add_column("what it is, needs and costs")
    for one in collectors:
        took = "" if one["seconds"] is None else f"{one['seconds']:.2f}"
        style = _STYLES[one["status"]]
        table.add_row(one["name"], one["status"], took, "\n".join(_facts(one)), style=style)
    return table


def _facts(one: Mapping[str, Any]) -> Iterator[str]:
    from schedperf.text import clean_line  # noqa: PLC0415 # as above

    yield clean_line(one["summary"])
    if one["reason"]:
        yield f"why: {clean_line(one['reason'])}"
    if one["remedy"]:
        yield f"remedy: {clean_line(one['remedy'])}"
    needs = ", ".join(one["needs"]) or "nothing"
    when = "instrumented runs only" if one["intrusive"] else ""
    by_default = "" if one["default"] else "only with --with"
    limits = "; ".join(text for text in (when, by_default) if text)
    yield f"needs {needs}; costs {one['cost']}{f'; {limits}' if limits else ''}"


command = RecorderCommand("doctor", doctor)
