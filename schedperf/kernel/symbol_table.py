"""Lines of a symbol table, within limits: System.map, ``nm vmlinux``, /proc/kallsyms."""

from typing import AnyStr

from schedperf.model.errors import InputError

# KSYM_NAME_LEN of include/linux/kallsyms.h: no kernel prints a longer name.
LONGEST_NAME = 512
# A distribution's kernel with its modules has 200,000, one with all drivers built in 500,000.
MOST_LINES = 2_000_000


def check_lines(text: AnyStr, end: AnyStr, label: str) -> int:
    """Return how many lines a table has.

    :param end: what ends a line
    :param label: names the source in messages
    :raises InputError: they are too many for the memory
    """
    count = text.count(end) + (not text.endswith(end) if text else 0)
    if count > MOST_LINES:
        raise InputError(
            f"{label}: {count} lines, more than {MOST_LINES}; use the symbol table of a real kernel"
        )
    return count


def split_lines(text: AnyStr, end: AnyStr, label: str) -> list[AnyStr]:
    """Split a table into lines; parameters and errors are those of :func:`check_lines`."""
    check_lines(text, end, label)
    return text.removesuffix(end).split(end) if text else []
