# SPDX-License-Identifier: GPL-2.0-or-later
"""Write lines of a mail: ASCII except for people's names, at most 78 columns.

>>> spell("base → new ±2%", where="line")
'base -> new +-2%'
"""

import re
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Sequence

from schedperf.model.errors import InputError
from schedperf.model.text import ASCII, clean_line

# Prose can be quoted twice ("> > ") and stay below 79 columns.
PROSE_COLUMNS = 74
COLUMNS = 78
INDENT = "  "
_SHOWN = 60
_LONGEST_LEFT_OUT = 20
_WORD = re.compile(r"[^\W\d_]+")
_WORDS = re.compile(f"({_WORD.pattern})")


def spell(text: str, *, where: str, names: Collection[str] = ()) -> str:
    """Return a text as one line of ASCII, except for letters in people's names.

    :param where: name of the text, for the error
    :param names: people's names
    :raises InputError: it contains other characters that are not ASCII
    """
    plain = clean_line(text.translate(ASCII))
    known = _words_of(names)
    rest = _WORD.sub(lambda word: "" if word[0] in known else word[0], plain)
    other = next((letter for letter in rest if not letter.isascii()), None)
    if other is not None:
        allowed = "ASCII, or a name of a person in the commit's trailers" if names else "ASCII"
        raise InputError(
            f"{where}: character U+{ord(other):04X} in {cut(plain, _SHOWN)!r} (expected "
            f"{allowed}); rename it"
        )
    return plain


def quote(text: str, names: Collection[str] = ()) -> str:
    """Return another person's text, such as a commit's subject, as one line of ASCII.

    Letters lose their accents, and other characters that are not ASCII become question marks. Words
    of people's names stay as they are.

    >>> quote("naïve → 你好")
    'naive -> ??'
    """
    plain = clean_line(text.translate(ASCII))
    known = _words_of(names)
    return "".join(
        part if part in known else _without_accents(part) for part in _WORDS.split(plain)
    )


def _words_of(names: Collection[str]) -> set[str]:
    return {word for name in names for word in _WORD.findall(name)}


def _without_accents(text: str) -> str:
    return "".join(
        letter if letter.isascii() else "?"
        for letter in unicodedata.normalize("NFKD", text)
        if not unicodedata.combining(letter)
    )


def cut(text: str, longest: int) -> str:
    """Shorten a text to at most this many characters, and mark the omission.

    The text is cut after a word if that omits at most 20 characters more.

    >>> cut("sched/fair", 8), cut("boost, idle states, preemption mode", 30)
    ('sched...', 'boost, idle states...')
    """
    if len(text) <= longest:
        return text
    room = longest - len("...")
    words = text[: room + 1].rpartition(" ")[0].rstrip(" ,;:")
    is_near = bool(words) and len(words) >= room - _LONGEST_LEFT_OUT
    shown = words if is_near else text[:room].rstrip()
    return f"{shown}..."


def wrap(text: str, *, first: str = "", rest: str = "") -> list[str]:
    """Wrap prose into lines of at most 74 columns.

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
    """Return the lines of a list, in which each text is an indented, wrapped item."""
    return [line for text in texts for line in wrap(text, first=INDENT, rest=INDENT * 2)]


def join_paragraphs(paragraphs: Iterable[Sequence[str]]) -> str:
    """Return the body: paragraphs separated by an empty line, without empty paragraphs."""
    return "\n\n".join("\n".join(lines) for lines in paragraphs if lines) + "\n"
