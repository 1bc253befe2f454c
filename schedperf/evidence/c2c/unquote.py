# SPDX-License-Identifier: GPL-2.0-or-later
"""Undo changes that mail programs and editors make to a pasted report.

Each part of a report begins with a line of ``=`` in the first column. What stands in front of it is
an indentation or a quotation (``> > ``), and also in front of the lines that follow::

    >>> list(unquoted_lines("On Monday:\\n> ====================\\n>   Title\\n>\\n> x"))
    ['On Monday:', '====================', '  Title', '', 'x']
"""

import re
from collections.abc import Iterator

BANNER = r"={20,}"
_QUOTED_BANNER = re.compile(rf"([ \t>|]*){BANNER}\s*")
# Some reports were saved with numbers in front of the lines, as by `cat -n`.
_NUMBER = r"(?m)^((?:[ \t]*[>|])*)[ \t]*\d{1,9}"
_NUMBERED = re.compile(rf"{_NUMBER}(?:\t|$)")
_NUMBERED_BANNER = re.compile(rf"{_NUMBER}\t{BANNER}")


def unquoted_lines(text: str) -> Iterator[str]:
    """Yield the lines of a report as perf printed them, and other lines as they are."""
    if _NUMBERED_BANNER.search(text):
        text = _NUMBERED.sub(r"\1", text)
    prefix = ""
    for line in text.splitlines():
        if match := _QUOTED_BANNER.fullmatch(line):
            prefix = match[1]
        # Programs that remove blanks at the end of a line leave less of it.
        yield "" if line == prefix.rstrip() else line.removeprefix(prefix)
