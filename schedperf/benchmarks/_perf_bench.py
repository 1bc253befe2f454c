# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the common output of ``perf bench``: a header, then ``number unit`` lines.

``perf bench sched pipe`` prints ``# Running 'sched/pipe' benchmark:`` and ``perf bench sched
all`` prints ``# Running sched/pipe benchmark...``.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

# A number alone, which "perf bench --format=simple" prints without a header.
SIMPLE = re.compile(r"\d{1,9}\.\d{3}\s*", re.ASCII)
FORMAT = re.compile(r"perf bench (?:-\S+ )*(?:-f ?|--format[= ])simple(?: -\S+)* (\w+ [\w-]+)")
HEADER = re.compile(r"^# Running '?([\w/-]+)'? benchmark(?::|\.\.\.)\s*$", re.MULTILINE | re.ASCII)


def is_printed(name: str, text: str) -> bool:
    """Return whether the text contains output of the benchmark, e.g. ``sched/pipe``."""
    return any(header.group(1) == name for header in HEADER.finditer(text))


def lines_of(name: str, lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines that the benchmark printed and their numbers (from 1)."""
    is_inside = False
    for line_number, line in enumerate(lines, start=1):
        header = HEADER.match(line)
        if header is not None:
            is_inside = header.group(1) == name
        elif is_inside:
            yield line_number, line


def is_simple(name: str) -> Callable[[Sequence[str]], bool]:
    """Return a function that returns whether a command runs a benchmark with ``--format=simple``.

    >>> is_simple("sched/pipe")(["perf", "bench", "-f", "simple", "sched", "pipe", "-l", "9"])
    True
    """

    def claims(command: Sequence[str]) -> bool:
        runs = FORMAT.findall(" ".join(command))
        return len(runs) == 1 and runs[0].replace(" ", "/") == name

    return claims


def simple_times(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the time in seconds that a benchmark printed with ``--format=simple``, and its line.

    Yields nothing if any line has a header or several lines could be the time.
    """
    texts = list(lines)
    times = [(number, line) for number, line in enumerate(texts, 1) if SIMPLE.fullmatch(line)]
    if len(times) == 1 and not any(map(HEADER.match, texts)):
        yield from times
