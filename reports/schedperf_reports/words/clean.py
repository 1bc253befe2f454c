# SPDX-License-Identifier: GPL-2.0-or-later
"""Clean untrusted text for a report: drop control characters, limit the length.

>>> clean("\\x1b[31mswapper\\u202e/0", limit=80)
'[31mswapper/0'
>>> clean("a" * 100, limit=8)
'aaaaaaa…'
"""

from schedperf.model.text import clean as strip_controls


def clean(text: str, *, limit: int) -> str:
    """Return one line of at most ``limit`` characters, without control and invisible characters.

    Multiple blanks are kept, because drawings use them for alignment.
    """
    # Cut before and after cleaning, so that a text of megabytes is not scanned completely.
    line = strip_controls(text[: 2 * limit].replace("\n", " ").replace("\t", " "))
    is_whole = len(line) <= limit and len(text) <= 2 * limit
    return line if is_whole else line[: limit - 1] + "…"
