# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the JSON documents among the lines that a benchmark printed, with the line of each value.

>>> lines = ["starting", "{", '  "jobs": [{"iops": 12.50}]', "}", "done"]
>>> [document] = read_documents(lines, "stdout", keep=lambda path: path[0] == "jobs")
>>> document.values
{('jobs', '0', 'iops'): Scalar(text='12.50', where=('stdout', 3, '  "jobs": [{"iops": 12.50}]'))}
>>> document.problem is None
True

Documents begin at the start of a line. Values keep their printed digits, which state their
resolution.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from schedperf.inputs.benchmarks import BadLine
from schedperf.model.text import cut_line

Where = tuple[str, int, str]
Path = tuple[str, ...]

# fio and iperf3 nest seven levels.
MOST_LEVELS = 32
# Largest number of values that parsers keep; fio prints 40 per job.
MOST_VALUES = 200_000

_TOKEN = re.compile(r'\s*(?:([{}\[\],:])|"((?:[^"\\]|\\.)*)"|([^\s{}\[\],:"]+)|$)')
# Numbers; fio prints "nan" for missing ones.
_BARE = re.compile(r"-?(?:\d[\d.eE+-]*|nan|inf)|true|false|null", re.ASCII)
_CLOSING = {"}": "{", "]": "["}


class Scalar(Struct, frozen=True):
    """A string, number, true, false or null.

    :param text: as printed; escapes in strings are not decoded
    :param where: its line
    """

    text: str
    where: Where


class Document(Struct, frozen=True, kw_only=True):
    """The values of one document.

    :param values: values by path, which consists of keys and of indices of arrays: "0", "1", …
    :param where: first line of the document
    :param problem: why the document is incomplete; None if it is complete
    """

    values: dict[Path, Scalar]
    where: Where
    problem: BadLine | None


class _Broken(Exception):
    """A document is not JSON, or too large; the argument is the reason."""


@dataclass(kw_only=True, slots=True)
class _JsonReader:
    # ``names`` has the current key or index of each open object or array, and ``is_complete``
    # whether the value there has been read.
    where: Where
    keep: Callable[[Path], bool]
    kinds: list[str] = field(default_factory=list)
    names: list[str | int | None] = field(default_factory=list)
    values: dict[Path, Scalar] = field(default_factory=dict)
    is_complete: bool = False

    def expects_value(self) -> bool:
        """Return whether the next token may be a value.

        A "{" at the start of a line is then a nested object without indentation, not a document.
        """
        return not self.is_complete and (self.kinds[-1] == "[" or self.names[-1] is not None)

    def read(self, where: Where) -> bool:
        """Read a line, and return whether the document ends in it.

        :raises _Broken: the line is not JSON, or the document is too large
        """
        position, line = 0, where[2]
        while (token := _TOKEN.match(line, position)) is not None:
            if token.lastindex is None:
                return False
            position = token.end()
            if token[1] is None:
                if token[3] is not None and not _BARE.fullmatch(token[3]):
                    break
                self._add(token[2] if token[3] is None else token[3], where)
            elif self._punctuate(token[1]):
                return True
        text = line[position:] if token is None else token[0].strip()
        raise _Broken(f"unexpected text {cut_line(text)[:40]!r}")

    def _add(self, text: str, where: Where) -> None:
        if self.kinds[-1] == "{" and self.names[-1] is None:
            self.names[-1], self.is_complete = text, False
            return
        if self.is_complete:
            raise _Broken(f"unexpected text {cut_line(text)[:40]!r}")
        self.is_complete = True
        path = tuple(map(str, self.names))
        if self.keep(path):
            if path in self.values:
                raise _Broken(f"{path[-1][:40]!r} is repeated")
            self.values[path] = Scalar(text=text, where=where)
            if len(self.values) > MOST_VALUES:
                raise _Broken(f"too many values (expected at most {MOST_VALUES})")

    def _punctuate(self, mark: str) -> bool:
        self.is_complete = mark in _CLOSING
        if mark in _CLOSING.values():
            if len(self.kinds) == MOST_LEVELS:
                raise _Broken(f"nested too deeply (expected at most {MOST_LEVELS} levels)")
            self.kinds.append(mark)
            self.names.append(None if mark == "{" else 0)
        elif mark == ",":
            name = self.names[-1]
            self.names[-1] = name + 1 if isinstance(name, int) else None
        elif mark in _CLOSING:
            self.names.pop()
            if self.kinds.pop() != _CLOSING[mark]:
                raise _Broken(f"unexpected {mark!r}")
        return not self.kinds


def read_documents(
    lines: Iterable[str], label: str, *, keep: Callable[[Path], bool]
) -> Iterator[Document]:
    """Yield each document; one that is damaged has the values up to the damage.

    :param label: for messages
    :param keep: returns whether the value at a path is needed; others are left out
    """
    reader: _JsonReader | None = None
    for line_number, line in enumerate(lines, start=1):
        where = (label, line_number, line)
        is_start = line.startswith("{") and not (reader is not None and reader.expects_value())
        if is_start and reader is not None:
            yield _broken(reader, where, "ends early")
        if is_start:
            reader = _JsonReader(where=where, keep=keep)
        if reader is None:
            continue
        try:
            is_end = reader.read(where)
        except _Broken as error:
            yield _broken(reader, where, str(error))
            reader = None
        else:
            if is_end:
                yield Document(values=reader.values, where=reader.where, problem=None)
                reader = None
    if reader is not None:
        yield _broken(reader, reader.where, "ends early")


def _broken(reader: _JsonReader, where: Where, why: str) -> Document:
    problem = f"{where[0]}:{where[1]}: invalid JSON: {why}; record again"
    return Document(values=reader.values, where=reader.where, problem=BadLine(problem=problem))
