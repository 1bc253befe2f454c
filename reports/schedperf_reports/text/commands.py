# SPDX-License-Identifier: GPL-2.0-or-later
r"""Wrap shell commands to a width so that a copied command still works.

>>> for line in wrap_command("schedperf record -o new.tar -- sh -c 'echo  a; echo b'", 30):
...     print(line)
schedperf record -o new.tar \
  -- sh -c 'echo  a; echo b'
"""

import re
from collections.abc import Iterator

from rich.cells import cell_len

INDENT = "  "
MARK = " \\"

# A word with its quoted parts, in which lines do not break at blanks.
_WORD = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|\S)+""")


def wrap_command(command: str, width: int) -> Iterator[str]:
    """Yield the lines of a command, broken at blanks outside of quotes.

    All lines except the last end with a backslash. A line with a single word may be longer than
    ``width``, because a word is not broken.
    """
    line = ""
    for word in _WORD.findall(command):
        if not line:
            line = word
        elif cell_len(line) + 1 + cell_len(word) + len(MARK) <= width:
            line += f" {word}"
        else:
            yield line + MARK
            line = INDENT + word
    if line:
        yield line
