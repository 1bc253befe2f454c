# SPDX-License-Identifier: GPL-2.0-or-later
"""Clean untrusted text for a terminal, and open the two consoles of the command.

Everything captured is untrusted: the name of a task may be ``"\\x1b]0;pwned\\x07"`` and a host name
may contain U+202E, which reverses the rest of the line::

    >>> clean("ok\\x1b[31mred\\u202edesrever")
    'ok[31mreddesrever'
    >>> clean_line("two\\nlines")
    'two lines'
"""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

# Piped output is as wide as a mail, whatever the terminal, unless COLUMNS is exported: shells do
# not export it by default.
PIPED_COLUMNS = 78

# Maximum length of a line that a benchmark printed, in characters: a table of all columns of
# netperf has 4000.
LONGEST_SOURCE = 200

# Marks the end of a shortened text. Publishing also removes the word before it, because a shortened
# private name is not recognised.
CUT = "…"

# How a mail spells characters of reports that are not ASCII.
ASCII = str.maketrans(
    {
        "→": "->",
        "←": "<-",
        "±": "+-",
        "≥": ">=",
        "≤": "<=",
        "≈": "~",
        "·": "*",
        "\N{MICRO SIGN}": "u",
        "\N{GREEK SMALL LETTER MU}": "u",
        "\N{MULTIPLICATION SIGN}": "x",
        "\N{EN DASH}": "-",
        "\N{EM DASH}": "-",
        "\N{MINUS SIGN}": "-",
        "\N{LEFT SINGLE QUOTATION MARK}": "'",
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
        "“": '"',
        "”": '"',
        "…": "...",
        "\N{NO-BREAK SPACE}": " ",
        "\N{NARROW NO-BREAK SPACE}": " ",
    }
)

# C0, DEL and C1 controls drive a terminal (newline and tab are layout). Bidi controls (UAX #9),
# invisible format characters and tags show one text and mean another. A lone surrogate cannot
# be written at all.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)

# CI systems obey commands in what a step prints: ##[add-mask], ##vso[…] and ##teamcity[…] anywhere
# in a line, and ::add-mask:: at its beginning.
_COMMAND = re.compile(r"(?<!#)#+(?=#\w*\[)")
_COMMAND_LINE = re.compile(r"^([^\S\n]*):+(?=:)", re.MULTILINE)


def clean(text: str) -> str:
    """Strip control, bidi and invisible characters and lone surrogates; newlines and tabs stay.

    A command of a CI system such as ``##[add-mask]`` keeps only one ``#``, which disables it.
    :func:`clean_beginnings` disables commands such as ``::add-mask::``.
    """
    return _COMMAND.sub("", _UNSAFE.sub("", text))


def clean_beginnings(text: str) -> str:
    """Disable commands of CI systems at the beginning of lines: reduce leading colons to one.

    The parts of the text must have been cleaned by :func:`clean`; only the whole text shows where
    lines begin.

    >>> clean_beginnings("a\\n  ::add-mask::b")
    'a\\n  :add-mask::b'
    """
    return _COMMAND_LINE.sub(r"\1", text)


def clean_line(text: str) -> str:
    """Convert a text to one line without control, bidi and invisible characters."""
    return clean(" ".join(text.split()))


def list_some(names: Sequence[str], most: int) -> str:
    """List the first names and count the others.

    >>> list_some(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left} more" if left > 0 else "")


def join_names(names: Iterable[str]) -> str:
    """List all names; return "" if there are none.

    >>> join_names(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = [*names] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def cut(text: str, most: int) -> str:
    """Shorten a text to ``most`` characters, the last of which is then "…".

    >>> cut("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}{CUT}"


def cut_line(line: str) -> str:
    """Cut a printed line to 200 characters, for :class:`schedperf.model.rows.Source`."""
    return cut(line, LONGEST_SOURCE)


def make_console(*, stderr: bool = False) -> "Console":
    """Return the console for results (stdout) or for messages (stderr).

    Its width is ``COLUMNS``, else the width of the terminal, else 78 columns. ``--color`` takes
    precedence over ``NO_COLOR``. Markup is disabled, because captured text may contain ``[bold]``.
    """
    # Imported here: rich takes 30 ms, which would slow down --help, and only the command needs
    # click.
    import click  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    context = click.get_current_context(silent=True)
    colour = None if context is None else context.color
    stream = sys.stderr if stderr else sys.stdout
    columns = os.environ.get("COLUMNS", "")
    has_width = stream.isatty() or (columns.isdecimal() and int(columns) > 0)
    return Console(
        stderr=stderr,
        force_terminal=colour,
        no_color=None if colour is None else not colour,
        width=None if has_width else PIPED_COLUMNS,
        markup=False,
        emoji=False,
        highlight=False,
    )
