# SPDX-License-Identifier: GPL-2.0-or-later
"""Clean untrusted text for a terminal, and open the two consoles of the command.

Everything captured is untrusted: a task may call itself ``"\\x1b]0;pwned\\x07"``
and a host name may hold U+202E, which turns the rest of the line around::

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

# Piped output is as wide as a mail, whatever the terminal behind the pipe is, unless COLUMNS is
# exported: a shell keeps that variable to itself.
PIPED_COLUMNS = 78

# Of a line that a benchmark printed, in characters: a table of all columns of netperf has 4000.
LONGEST_SOURCE = 200

# How a mail spells the characters of reports that are not ASCII.
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


def clean(text: str) -> str:
    """Strip control, bidi and invisible characters; newlines and tabs stay."""
    return _UNSAFE.sub("", text)


def clean_line(text: str) -> str:
    """Make one line of a text, without control, bidi and invisible characters."""
    return clean(" ".join(text.split()))


def list_some(names: Sequence[str], most: int) -> str:
    """List the first names and count the others.

    >>> list_some(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left} more" if left > 0 else "")


def join_names(names: Iterable[str]) -> str:
    """List all names.

    >>> join_names(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = [*names] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def cut_line(line: str) -> str:
    """Return a printed line as :class:`schedperf.model.comparison.Source` keeps it."""
    return line if len(line) <= LONGEST_SOURCE else f"{line[: LONGEST_SOURCE - 1]}…"


def make_console(*, stderr: bool = False) -> "Console":
    """Return the console for results (stdout) or for messages (stderr).

    It is as wide as ``COLUMNS`` says or the terminal is, or 78 columns where there is neither.
    ``--color`` is obeyed before ``NO_COLOR``. Markup is off: captured text may hold ``[bold]``.
    """
    # Imported here: rich costs 30 ms that --help must not pay, and click is for the command only.
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
