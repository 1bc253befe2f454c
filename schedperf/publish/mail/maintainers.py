# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the maintainers of the files that a commit changes in the kernel's MAINTAINERS.

Nothing in the tree is executed, not even its ``scripts/get_maintainer.pl``; this module interprets
the patterns of a section as that script does::

    SCHEDULER
    M:	Ada Author <ada@kernel.example>
    L:	linux-kernel@vger.kernel.org
    S:	Maintained
    F:	kernel/sched/
    N:	sched

``F:`` names files or directories of the section, with wildcards, ``X:`` excludes them, ``N:`` is a
regular expression for file names, and ``K:`` is one for changed lines.
"""

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import regex

from schedperf.model.errors import InputError
from schedperf.model.text import clean_line
from schedperf.publish.mail.recipients import Maintainers, parse_person

FILE = "MAINTAINERS"
# The MAINTAINERS of Linux 6.18 has 0.9 MB.
MOST_BYTES = 8 << 20
# A commit that changes more files has no single maintainer.
MOST_FILES = 1000
# Time for all patterns together; those of Linux 6.1 take 0.2 s for a commit of 10 files.
LIMIT_S = 20.0
_LEAST_S = 0.001
_LONGEST_PATTERN = 1000
# Compiling unrolls counted repeats, so (a{1000}){1000} would fill the memory.
_MOST_REPEATS = 1000
_SHOWN = 40
_FIELD = re.compile(r"([A-Z]):\s*(.*)")
_MAINTAINED = ("maintained", "supported")
_CLOSED = re.compile("moderated|subscribers-only")
_GLOB = re.compile(r"[*?\[]")
# Prefix of an expression for a changed line; without parentheses, as get_maintainer.pl joins it.
_CHANGED = "^[+-].*"
# Lines of a patch that are not changed lines.
_HEADS = re.compile(r"(?:diff --git |\+\+\+ |--- |@@ )")


@dataclass(frozen=True)
class Change:
    """The changes of a commit.

    :param files: names of the changed files
    :param patch: the patch, in the form of git
    """

    files: Sequence[str]
    patch: str


@dataclass(frozen=True)
class _Pattern:
    kind: str
    text: str
    line: int


@dataclass
class _Section:
    """One section: its patterns, maintainers and lists."""

    patterns: list[_Pattern] = field(default_factory=list)
    people: list[_Pattern] = field(default_factory=list)
    lists: list[_Pattern] = field(default_factory=list)
    status: str = ""

    def add(self, line: _Pattern) -> None:
        if line.kind in "FXNK":
            self.patterns.append(line)
        elif line.kind == "M":
            self.people.append(line)
        elif line.kind == "L":
            self.lists.append(line)
        elif line.kind == "S":
            self.status = line.text.strip().lower()


def find_maintainers(text: str, change: Change, where: str) -> Maintainers:
    """Return maintainers and open lists; of each file, those of its most precise pattern first.

    Reviewers, closed lists, entries without a mail address, and the maintainers of sections whose
    status is not Maintained or Supported are left out.

    :param text: content of MAINTAINERS
    :param where: name of its tree, for messages
    :raises InputError: a pattern is invalid or takes too long, or an address could inject a header
    """
    sections = [*_read_sections(text)]
    matcher = _Matcher(where)
    ranked = _sections_of(sections, change, matcher)
    people = (
        parse_person(each.text, f"{where}:{each.line}")
        for section in ranked
        if section.status in _MAINTAINED
        for each in section.people
    )
    lists = (
        parse_person(each.text.split()[0], f"{where}:{each.line}")
        for section in ranked
        for each in section.lists
        if each.text.strip() and not _CLOSED.search(each.text)
    )
    return Maintainers(people=tuple(filter(None, people)), lists=tuple(filter(None, lists)))


def _read_sections(text: str) -> Iterator[_Section]:
    """Yield the sections; a section starts with a title, and blank lines are ignored."""
    section = _Section()
    for number, line in enumerate(text.splitlines(), 1):
        matched = _FIELD.match(line)
        if matched is not None:
            section.add(_Pattern(kind=matched[1], text=matched[2], line=number))
        elif line.strip() and not line.lstrip().startswith("#"):
            yield section
            section = _Section()
    yield section


def _sections_of(
    sections: Sequence[_Section], change: Change, matcher: "_Matcher"
) -> list[_Section]:
    """Return the sections that match, each once.

    The files come in alphabetical order, at most 1000. The sections of a file are sorted by the
    depth of their patterns, the deepest one first. Sections that match only changed lines are last.
    """
    literal, others = _by_folder(sections), _with_expressions(sections)
    ranked: dict[int, int] = {}
    for name in sorted(change.files)[:MOST_FILES]:
        depths = {
            index: depth
            for index, depth in _depths(name, literal, others, matcher)
            if not any(
                matcher.has_file(each, name)
                for each in sections[index].patterns
                if each.kind == "X"
            )
        }
        for index in sorted(depths, key=lambda index: (-depths[index], index)):
            ranked.setdefault(index, len(ranked))
    changed = "\n".join(line for line in change.patch.splitlines() if not _HEADS.match(line))
    for index, section in enumerate(sections):
        if index not in ranked and any(
            matcher.has_line(each, changed) for each in section.patterns if each.kind == "K"
        ):
            ranked[index] = len(ranked)
    return [sections[index] for index in ranked]


def _by_folder(sections: Sequence[_Section]) -> dict[str, list[tuple[int, str]]]:
    """Return the ``F:`` patterns without wildcards by their directory.

    Each has the index of its section, and its text.
    """
    found: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for index, section in enumerate(sections):
        for each in section.patterns:
            if each.kind == "F" and not _GLOB.search(each.text):
                found[each.text.rpartition("/")[0]].append((index, each.text))
    return found


def _with_expressions(sections: Sequence[_Section]) -> list[tuple[int, _Pattern]]:
    return [
        (index, each)
        for index, section in enumerate(sections)
        for each in section.patterns
        if each.kind == "N" or (each.kind == "F" and _GLOB.search(each.text))
    ]


def _depths(
    name: str,
    literal: dict[str, list[tuple[int, str]]],
    others: Iterable[tuple[int, _Pattern]],
    matcher: "_Matcher",
) -> Iterator[tuple[int, int]]:
    """Yield the section and the depth of each pattern that matches a file.

    The depth is the number of directories and file names in the pattern: 2 for ``kernel/sched/``.
    It is 0 for ``N:``, and -1 for an ``F:`` pattern that begins with ``*``.

    :param literal: the result of :func:`_by_folder`
    :param others: the result of :func:`_with_expressions`
    """
    parts = name.split("/")
    for count in range(len(parts)):
        folder = "/".join(parts[:count])
        for index, text in literal.get(folder, ()):
            is_last = count == len(parts) - 1
            # As in the script, a name without a trailing slash is a prefix of a file's name.
            if (is_last and name.startswith(text)) or f"{name}/".startswith(_as_folder(text)):
                yield index, _depth(text)
    for index, each in others:
        if each.kind == "N" and matcher.has_name(each, name):
            yield index, 0
        elif each.kind == "F" and matcher.has_file(each, name):
            yield index, _depth(each.text)


def _depth(text: str) -> int:
    if text.startswith("*"):
        return -1
    return text.count("/") + (not text.endswith("/"))


def _as_folder(text: str) -> str:
    return text if text.endswith("/") else f"{text}/"


class _Matcher:
    """Match the patterns of a file, which may be hostile, within one time limit for all of them.

    All public methods raise this error.

    :raises InputError: a pattern is invalid, or all patterns together take too long
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._left_s = LIMIT_S
        self._compiled: dict[tuple[str, str], regex.Pattern[str]] = {}

    def has_file(self, pattern: _Pattern, name: str) -> bool:
        """Return whether an ``F:`` or ``X:`` pattern matches a file."""
        text = pattern.text
        if not text.endswith("/") and text.count("/") != name.count("/"):
            return not _GLOB.search(text) and name.startswith(_as_folder(text))
        if not _GLOB.search(text):
            return name.startswith(text)
        return self._matches(pattern, _translate(text), name)

    def has_name(self, pattern: _Pattern, name: str) -> bool:
        """Return whether an ``N:`` expression matches the name of a file."""
        return self._matches(pattern, pattern.text, name)

    def has_line(self, pattern: _Pattern, changed: str) -> bool:
        """Return whether a ``K:`` expression matches a changed line."""
        return self._matches(pattern, f"{_CHANGED}{pattern.text}", changed)

    def _matches(self, pattern: _Pattern, expression: str, text: str) -> bool:
        # CPU time, like the time limit of an expression.
        began_s = time.process_time()
        try:
            compiled = self._compile(pattern.kind, expression)
            # A limit of 0 would mean no limit.
            left_s = max(self._left_s, _LEAST_S)
            return compiled.search(text, timeout=left_s) is not None
        except TimeoutError:
            raise self._refuse(pattern, f"takes more than {LIMIT_S:.0f} s") from None
        except (regex.error, OverflowError, RecursionError) as error:
            raise self._refuse(pattern, f"is invalid ({error})") from None
        finally:
            self._left_s -= time.process_time() - began_s

    def _compile(self, kind: str, expression: str) -> regex.Pattern[str]:
        found = self._compiled.get((kind, expression))
        if found is None:
            is_glob = kind in "FX"
            if len(expression) > _LONGEST_PATTERN or not (is_glob or _has_few_repeats(expression)):
                raise regex.error("too long, or too many repeats")
            flags = regex.MULTILINE | (0 if is_glob else regex.VERBOSE)
            found = self._compiled[kind, expression] = regex.compile(expression, flags)
        return found

    def _refuse(self, pattern: _Pattern, problem: str) -> InputError:
        shown = clean_line(pattern.text)[:_SHOWN]
        return InputError(
            f"{self._where}:{pattern.line}: pattern {pattern.kind}: {shown!r} "
            f"{clean_line(problem)} (expected MAINTAINERS of the kernel); name a tree that you "
            "trust with --maintainers-from"
        )


def _has_few_repeats(expression: str) -> bool:
    product = 1
    for counts in re.findall(r"\{[^{}]*\}", expression):
        for digits in re.findall(r"\d+", counts):
            product *= max(1, int(digits[:6]))
    return product <= _MOST_REPEATS


def _translate(glob: str) -> str:
    r"""Translate an ``F:`` pattern to a regular expression.

    >>> _translate("arch/*/include/asm/l?2[a-c].h")
    '\\Aarch/.*/include/asm/l.2[a-c]\\.h'
    """
    parts = re.split(r"(\*|\?|\[[^\]]*\])", glob)
    spelled = {"*": ".*", "?": "."}
    return r"\A" + "".join(
        spelled.get(part, part if part.startswith("[") else re.escape(part)) for part in parts
    )
