# SPDX-License-Identifier: GPL-2.0-or-later
"""Split symbol tables into lines, with limits on their number and length."""

from typing import AnyStr

from schedperf.model.errors import InputError

# KSYM_NAME_LEN of include/linux/kallsyms.h.
LONGEST_NAME = 512
# A distribution's kernel with its modules has 200,000, one with all drivers built in 500,000.
MOST_LINES = 2_000_000


def check_lines(text: AnyStr, end: AnyStr, label: str) -> int:
    """Return the number of lines of a table.

    :param end: line terminator
    :param label: name of the source in messages
    :raises InputError: the table has more than ``MOST_LINES`` lines
    """
    count = text.count(end) + (not text.endswith(end) if text else 0)
    if count > MOST_LINES:
        raise InputError(
            f"{label}: {count} lines (expected at most {MOST_LINES}); "
            "use the symbol table of a real kernel"
        )
    return count


def split_lines(text: AnyStr, end: AnyStr, label: str) -> list[AnyStr]:
    """Return the lines of a table; parameters and errors as in :func:`check_lines`."""
    check_lines(text, end, label)
    return text.removesuffix(end).split(end) if text else []
