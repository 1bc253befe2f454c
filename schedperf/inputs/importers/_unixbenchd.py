# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the log of mmtests' unixbenchd: runs of one program of UnixBench, one after the other.

mmtests writes ``./pgms/PROGRAM SECONDS [ARGUMENT]`` into ``commands.log``, and appends what each
run prints, e.g. ``COUNT|52880|1|lps``, to ``unixbenchd.log``.
"""

import re
from itertools import pairwise

LOG = "unixbenchd"
COMMANDS = "commands.log"
# Since UnixBench 6.0.0 both processes of this program print their count of the same loops.
PRINTS_TWICE = "context1"

_COMMAND = re.compile(
    r"^\S*\bpgms/([\w.-]{1,64}) (\d{1,9})(?: (\S{1,64}))?[ \t\r]*$", re.ASCII | re.MULTILINE
)
_COUNT = re.compile(rb"^COUNT\|(\d{1,18})?", re.MULTILINE)


def read_command(text: str) -> dict[str, str]:
    """Return the parameters of the command: test, duration_s and, if it has one, argument.

    {} if the text has no command, or different ones.
    """
    found = {match.groups() for match in _COMMAND.finditer(text)}
    if len(found) != 1:
        return {}
    [(program, seconds, argument)] = found
    parameters = {"test": program, "duration_s": seconds}
    return parameters | ({"argument": re.sub(r"[^\w.+-]", "_", argument)} if argument else {})


def cut_runs(content: bytes, program: str | None) -> list[bytes]:
    """Return the text of each run.

    :param program: the program of UnixBench; None if unknown
    """
    counts = [
        (match.start(), None if match[1] is None else int(match[1]))
        for match in _COUNT.finditer(content)
    ]
    step = 2 if program == PRINTS_TWICE and _is_twice([number for _, number in counts]) else 1
    # What precedes the first count, e.g. a message, belongs to the first run.
    starts = [0, *(start for start, _ in counts[step::step]), len(content)]
    return [content[a:b] for a, b in pairwise(starts)]


def _is_twice(numbers: list[int | None]) -> bool:
    pairs = list(zip(numbers[::2], numbers[1::2], strict=False))
    return bool(pairs) and all(
        a is not None and b is not None and abs(a - b) <= 1 for a, b in pairs
    )
