# SPDX-License-Identifier: GPL-2.0-or-later
"""Remove quotation and indentation that mail programs and editors add to a report.

Each part of a report begins with a line of ``=`` in the first column. Any text before it is
indentation or quotation (``> > ``), which is also removed from the following lines::

    >>> list(unquoted_lines("On Monday:\\n> ====================\\n>   Title\\n>\\n> x"))
    ['On Monday:', '====================', '  Title', '', 'x']
"""

import re
from collections.abc import Iterator

BANNER = r"={20,}"
_QUOTED_BANNER = re.compile(rf"([ \t>|]*){BANNER}\s*")
# Some reports were saved with line numbers, e.g. by `cat -n`.
_NUMBER = r"(?m)^((?:[ \t]*[>|])*)[ \t]*\d{1,9}"
_NUMBERED = re.compile(rf"{_NUMBER}(?:\t|$)")
_NUMBERED_BANNER = re.compile(rf"{_NUMBER}\t{BANNER}")


def unquoted_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, without quotation, indentation and line numbers of the report."""
    if _NUMBERED_BANNER.search(text):
        text = _NUMBERED.sub(r"\1", text)
    prefix = ""
    for line in text.splitlines():
        if match := _QUOTED_BANNER.fullmatch(line):
            prefix = match[1]
        # Programs that strip trailing spaces shorten the quotation of empty lines.
        yield "" if line == prefix.rstrip() else line.removeprefix(prefix)
