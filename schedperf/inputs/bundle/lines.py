# SPDX-License-Identifier: GPL-2.0-or-later
r"""Read the lines of a captured text one after the other, without a list of them.

A list of many short lines takes ten times the memory of their text::

    >>> list(stream_lines(b"a\n\nb"))
    ['a\n', '\n', 'b']
"""

import io
from collections.abc import Iterable


def stream_lines(content: bytes) -> Iterable[str]:
    """Return the lines of a text, with the newline that ends each.

    Bytes that are not UTF-8 become U+FFFD.
    """
    # Names of cgroups may contain other line separators.
    return io.TextIOWrapper(io.BytesIO(content), "utf-8", errors="replace", newline="\n")
