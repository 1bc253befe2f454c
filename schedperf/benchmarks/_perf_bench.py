# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the common output of ``perf bench``: a header, then ``number unit`` lines.

``perf bench sched pipe`` prints ``# Running 'sched/pipe' benchmark:`` and ``perf bench sched
all`` prints ``# Running sched/pipe benchmark...``.
"""

import re
from collections.abc import Iterable, Iterator

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
