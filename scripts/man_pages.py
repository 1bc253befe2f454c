# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the man pages of schedperf, one per command, from the text of ``--help``.

    man_pages.py FOLDER

The date is SOURCE_DATE_EPOCH [default: today].
"""

import inspect
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
# While a wheel is built, the packages are not installed yet.
sys.path[:0] = [str(ROOT / folder) for folder in ("", "collectors", "reports", "templates")]

PROGRAM = "schedperf"
EXAMPLES = "Examples:"


def escape(text: str) -> str:
    """Return text with roff's special characters escaped."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    # A dot or an apostrophe at the start of a line would be a request.
    return re.sub(r"^(?=[.'])", r"\\&", escaped, flags=re.MULTILINE)


def contexts() -> Iterator[click.Context]:
    """Yield a context of the program, then of each command."""
    from schedperf.cli import cli  # noqa: PLC0415 # found by the path above

    program = click.Context(cli, info_name=PROGRAM, **cli.context_settings)
    yield program
    for name in cli.list_commands(program):
        command = cli.get_command(program, name)
        assert command is not None
        yield click.Context(command, info_name=name, parent=program)


def page(context: click.Context, date: str, version: str) -> str:
    """Return one man page.

    :param date: as 2026-11-23
    """
    notes = [block for block in blocks(context.command.epilog) if not is_examples(block)]
    examples = [block for block in blocks(context.command.epilog) if is_examples(block)]
    parts = [
        f'.TH "{page_name(context).upper()}" "1" "{date}" "{PROGRAM} {version}"',
        ".SH NAME",
        rf"{escape(page_name(context))} \- {escape(summary(context.command))}",
        ".SH SYNOPSIS",
        *synopsis(context),
        ".SH DESCRIPTION",
        "\n.PP\n".join(map(paragraph, [*blocks(context.command.help), *notes])),
        ".SH OPTIONS",
        *options(context),
        *commands(context),
    ]
    if examples:
        parts += [".SH EXAMPLES", *(line for block in examples for line in as_typed(block[1:]))]
    return "\n".join([*parts, *see_also(context)]) + "\n"


def page_name(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def summary(command: click.Command) -> str:
    """Return the first sentence of the help, without its full stop."""
    first = " ".join(blocks(command.help)[0])
    return re.split(r"\.(?: |$)", first)[0]


def blocks(text: str | None) -> list[list[str]]:
    """Return the lines of each paragraph; a line of ``\\b`` ends one, too."""
    parts = re.split(r"\n\s*\n|\x08\n", inspect.cleandoc(text or ""))
    return [part.strip("\n").split("\n") for part in parts if part.strip()]


def is_examples(block: list[str]) -> bool:
    return block[0] == EXAMPLES


def synopsis(context: click.Context) -> Iterator[str]:
    """Yield the usage; words in capitals stand for values."""
    yield f".B {escape(context.command_path)}"
    pieces = escape(" ".join(context.command.collect_usage_pieces(context)))
    yield re.sub(r"[A-Z][A-Z0-9]+|\b[A-Z]\b", r"\\fI\g<0>\\fR", pieces)


def paragraph(block: list[str]) -> str:
    """Return a paragraph; indented lines after it are kept unchanged."""
    text = [line for line in block if not line.startswith(" ")]
    below = block[len(text) :]
    return "\n".join([*map(escape, text), *([".PP", *as_typed(below)] if below else [])])


def as_typed(lines: list[str]) -> list[str]:
    """Return lines that are printed unchanged."""
    return [".RS 4", ".EX", *(escape(line.removeprefix("  ")) for line in lines), ".EE", ".RE"]


def options(context: click.Context) -> Iterator[str]:
    """Yield the options in the order of the help."""
    for param in context.command.get_params(context):
        record = param.get_help_record(context) if isinstance(param, click.Option) else None
        if record is None:  # hidden
            continue
        names, _, value = record[0].replace(", ", ",").partition(" ")
        yield ".TP"
        bold = ", ".join(rf"\fB{escape(name)}\fR" for name in names.split(","))
        yield bold + (rf" \fI{escape(value)}\fR" if value else "")
        yield escape(record[1])


def commands(context: click.Context) -> Iterator[str]:
    """Yield the lines about the commands of the program or of a group: names and summaries.

    Yield nothing for any other command.
    """
    if context.parent is None:
        yield ".SH COMMANDS"
        for each in list(contexts())[1:]:
            name = rf"\fB{escape(page_name(each))}\fR(1)"
            yield from [".TP", name, escape(summary(each.command))]
    elif isinstance(context.command, click.Group):
        yield ".SH COMMANDS"
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            each = click.Context(command, info_name=name, parent=context)
            usage = " ".join(command.collect_usage_pieces(each))
            yield from [".TP", rf"\fB{escape(name)}\fR {escape(usage)}"]
            yield escape(summary(command))
        help_of_each = rf"\fB{PROGRAM} {context.info_name} COMMAND \-\-help\fR"
        yield from [".PP", f"{help_of_each} lists the options of a command."]


def see_also(context: click.Context) -> Iterator[str]:
    if context.parent is not None:
        yield from [".SH SEE ALSO", rf"\fB{PROGRAM}\fR(1)"]


def write(folder: Path) -> None:
    """Write all pages into a directory, which is created if it is missing."""
    from schedperf_collectors import __version__  # noqa: PLC0415 # found by the path above

    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    folder.mkdir(parents=True, exist_ok=True)
    for context in contexts():
        text = page(context, now.date().isoformat(), __version__)
        (folder / f"{page_name(context)}.1").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
