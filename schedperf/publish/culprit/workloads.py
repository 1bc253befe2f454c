# SPDX-License-Identifier: GPL-2.0-or-later
"""Name what a result was measured with: the command at its point, without placeholders."""

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache

from msgspec import Struct

from schedperf.model.rows import Row
from schedperf.model.text import clean_line
from schedperf.publish.culprit.figures import name_benchmark
from schedperf_collectors.contract import PLACEHOLDER


class Command(Struct, frozen=True, kw_only=True):
    """The command of a result.

    :param words: of the command, with the values of its placeholders
    :param rest: parameters that the command does not contain: ("groups=16",)
    """

    words: tuple[str, ...]
    rest: tuple[str, ...]

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the words of a caption: those of the command, then the other parameters."""
        return (*map(_show, self.words), *self.rest)

    @property
    def line(self) -> str:
        """Return the command for a shell; "" if it has no word."""
        return shlex.join(self.words)

    @property
    def template(self) -> str:
        """Return the command for ``schedperf ab``, which takes words in braces as placeholders."""
        return shlex.join(PLACEHOLDER.sub(r"{\g<0>}", word) for word in self.words)


def command_of(row: Row) -> Command:
    """Return the command of a result at its point; it has no words if none is recorded."""
    return command_at(row.workload, row.point)


@cache
def command_at(workload: str, where: str) -> Command:
    """Return the command of a workload at a point: ``groups=16``."""
    point = _parse_point(where)
    # Controls are not printed, and no program is called by them.
    text = clean_line(workload).strip()
    try:
        template = shlex.split(text)
    except ValueError:
        template = text.split()
    used = {match["name"] for word in template for match in PLACEHOLDER.finditer(word)}
    rest: tuple[str, ...] = (clean_line(where),) if where.strip() else ()
    if point is not None:
        rest = tuple(f"{name}={value}" for name, value in point.items() if name not in used)
    words = tuple(_fill(word, point or {}) for word in template)
    return Command(words=words, rest=rest)


def is_alike(one: Row, other: Row) -> bool:
    """Return whether two results are of one command, or of one that differs in its parameters."""
    is_one = name_benchmark(one.workload) == name_benchmark(other.workload)
    return is_one and vary([command_of(one).shown, command_of(other).shown]) is not None


def vary(rows: Sequence[Sequence[str]]) -> list[int] | None:
    """Return the indexes of the words in which commands differ.

    :param rows: the words of each command
    :return: None if the commands differ in their number of words, or in an option
    """
    first = rows[0]
    if any(len(words) != len(first) for words in rows):
        return None
    places = [index for index in range(len(first)) if len({words[index] for words in rows}) > 1]
    is_option = any(words[index].startswith("-") for words in rows for index in places)
    return None if 0 in places or is_option else places


def _parse_point(text: str) -> Mapping[str, str] | None:
    """Return the values of a point by name; None if it is not ``name=value,name=value``."""
    parts = [part.partition("=") for part in clean_line(text).split(",") if part.strip()]
    if not all(name and equals for name, equals, _ in parts):
        return None
    return {name: value for name, _, value in parts}


def _fill(word: str, point: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match["literal"]:
            return "{" + match["literal"] + "}"
        return point.get(match["name"], match[0])

    return PLACEHOLDER.sub(value, word)


def _show(word: str) -> str:
    return word if word and word.isprintable() and " " not in word else shlex.quote(word)
