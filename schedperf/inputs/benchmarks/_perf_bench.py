# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the common output of ``perf bench``: a header, then ``number unit`` lines.

``perf bench sched pipe`` prints ``# Running 'sched/pipe' benchmark:`` and ``perf bench sched
all`` prints ``# Running sched/pipe benchmark...``.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

# "perf bench --format=simple" prints only a number, without a header.
SIMPLE = re.compile(r"\d{1,9}\.\d{3}\s*", re.ASCII)
FORMAT = re.compile(r"perf bench (?:-\S+ )*(?:-f ?|--format[= ])simple(?: -\S+)* (\w+ [\w-]+)")
HEADER = re.compile(r"^# Running '?([\w/-]+)'? benchmark(?::|\.\.\.)\s*$", re.MULTILINE | re.ASCII)


def is_printed(names: Container[str], text: str) -> bool:
    """Return whether the text contains output of one of the benchmarks, e.g. ``sched/pipe``."""
    return any(header.group(1) in names for header in HEADER.finditer(text))


def lines_of(names: Container[str], lines: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """Yield the lines that the benchmarks printed: name, number (from 1) and line."""
    name = ""
    for line_number, line in enumerate(lines, start=1):
        # Fast path: most lines are not headers, and many texts have none.
        header = HEADER.match(line) if line.startswith("#") else None
        if header is not None:
            name = header.group(1)
        elif name in names:
            yield name, line_number, line


def is_simple(name: str) -> Callable[[Sequence[str]], bool]:
    """Return a function that returns whether a command runs a benchmark with ``--format=simple``.

    It returns False if the command runs ``perf bench`` with this option several times.

    >>> is_simple("sched/pipe")(["perf", "bench", "-f", "simple", "sched", "pipe", "-l", "9"])
    True
    """

    def claims(command: Sequence[str]) -> bool:
        runs = FORMAT.findall(" ".join(command))
        return len(runs) == 1 and runs[0].replace(" ", "/") == name

    return claims


def simple_times(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield number (from 1) and text of the line that ``perf bench --format=simple`` prints.

    The line is a time in seconds. Yield nothing if a line is a header of ``perf bench``, or unless
    exactly one line can be the time.
    """
    texts = list(lines)
    times = [(number, line) for number, line in enumerate(texts, 1) if SIMPLE.fullmatch(line)]
    if len(times) == 1 and not any(map(HEADER.match, texts)):
        yield from times
