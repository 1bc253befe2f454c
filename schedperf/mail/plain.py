# SPDX-License-Identifier: GPL-2.0-or-later
"""Write lines of a mail: ASCII but for people's names, at most 78 columns.

>>> spell("base → new ±2%", where="line")
'base -> new +-2%'
"""

import re
import textwrap
from collections.abc import Collection, Iterable, Sequence

from schedperf.model.errors import InputError
from schedperf.model.text import ASCII, clean_line

# Prose can be quoted twice ("> > ") and stays below 79 columns.
PROSE_COLUMNS = 74
COLUMNS = 78
INDENT = "  "
_WORD = re.compile(r"[^\W\d_]+")


def spell(text: str, *, where: str, names: Collection[str] = ()) -> str:
    """Return a text on one line in ASCII; words of people's names may have other letters.

    :param where: what the text is, for the error
    :param names: people's names
    :raises InputError: it has other characters that are not ASCII
    """
    plain = clean_line(text.translate(ASCII))
    known = {word for name in names for word in _WORD.findall(name)}
    rest = _WORD.sub(lambda word: "" if word[0] in known else word[0], plain)
    other = next((letter for letter in rest if not letter.isascii()), None)
    if other is not None:
        raise InputError(
            f"{where}: character U+{ord(other):04X} (expected ASCII, or a name of a person in the "
            "commit's trailers); rename it"
        )
    return plain


def cut(text: str, longest: int) -> str:
    """Return a text of at most so many characters; what is missing is marked.

    >>> cut("sched/fair", 8)
    'sched...'
    """
    return text if len(text) <= longest else f"{text[: longest - 3].rstrip()}..."


def cut_middle(text: str, longest: int) -> str:
    """Return a text of at most so many characters, with its begin and its end.

    >>> cut_middle("hackbench -p -l 4000 -g 16", 20)
    'hackbench...00 -g 16'
    """
    if len(text) <= longest:
        return text
    end = (longest - 3) // 2
    return f"{text[: longest - 3 - end]}...{text[-end:]}"


def wrap(text: str, *, first: str = "", rest: str = "") -> list[str]:
    """Break prose into lines of at most 74 columns.

    :param first: indent of the first line
    :param rest: indent of all others
    """
    return textwrap.wrap(
        text,
        PROSE_COLUMNS,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )


def items(texts: Iterable[str]) -> list[str]:
    """Return each text as an indented item."""
    return [line for text in texts for line in wrap(text, first=INDENT, rest=INDENT * 2)]


def join_paragraphs(paragraphs: Iterable[Sequence[str]]) -> str:
    """Return the body: paragraphs with an empty line between them, empty ones left out."""
    return "\n\n".join("\n".join(lines) for lines in paragraphs if lines) + "\n"
