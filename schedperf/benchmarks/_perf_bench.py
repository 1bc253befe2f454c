# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse what all benchmarks of ``perf bench`` print: a header, then ``number unit`` lines.

``perf bench sched pipe`` prints ``# Running 'sched/pipe' benchmark:`` and ``perf bench sched
all`` prints ``# Running sched/pipe benchmark...``.
"""

import re
from collections.abc import Iterable, Iterator

HEADER = re.compile(r"^# Running '?([\w/-]+)'? benchmark(?::|\.\.\.)\s*$", re.MULTILINE | re.ASCII)


def is_printed(name: str, text: str) -> bool:
    """Say whether the text holds a part of the benchmark ``sched/NAME``."""
    return any(found.group(1) == name for found in HEADER.finditer(text))


def lines_of(name: str, lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield line number (from 1) and line of the parts that the benchmark printed."""
    is_inside = False
    for line_number, line in enumerate(lines, start=1):
        header = HEADER.match(line)
        if header is not None:
            is_inside = header.group(1) == name
        elif is_inside:
            yield line_number, line
