# SPDX-License-Identifier: GPL-2.0-or-later
"""Name the workload's own commands, whether or not the names of its tasks were recorded."""

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

# TASK_COMM_LEN of include/linux/sched.h without the NUL.
_COMM_BYTES = 15
# Words of a command line beyond these are not names of programs.
MOST_WORDS = 1_000

_BETWEEN_WORDS = re.compile(r"[\s;&|()<>\"'`$={}]+")


def own_commands(tasks: Sequence[str] | None, command: Sequence[str]) -> frozenset[str]:
    """Return the names of the workload's commands, each up to its first slash.

    :param tasks: names of its tasks; None if they were not recorded
    :param command: the command line that was recorded. If ``tasks`` is None, each word that may
        name a program is used, since the command may be a shell or a wrapper

    >>> sorted(own_commands(None, ["sh", "-c", "exec /usr/bin/hackbench -g 2"]))
    ['2', 'exec', 'hackbench', 'sh']
    >>> sorted(own_commands(["hackbench", "kworker/0:1-eve"], ["make"]))
    ['hackbench', 'kworker']
    """
    names = _words(command) if tasks is None else tasks
    return frozenset(filter(None, (name.partition("/")[0] for name in names)))


def comm_of(program: str) -> str:
    """Return the name that the kernel gives to a task of a program.

    >>> comm_of("/usr/bin/postgresql-checkpointer")
    'postgresql-chec'
    """
    return PurePosixPath(program).name.encode()[:_COMM_BYTES].decode(errors="replace")


def _words(command: Sequence[str]) -> Iterable[str]:
    words = [word for argument in command for word in _BETWEEN_WORDS.split(argument)]
    for word in words[:MOST_WORDS]:
        if not word.startswith("-"):
            yield comm_of(word)
