# SPDX-License-Identifier: GPL-2.0-or-later
"""Say what a blocked task waited for: from the functions of its kernel stack (``causes.toml``).

>>> from schedperf.runs.stacks import Frame
>>> cause_of(tuple(Frame(name, None) for name in ("__schedule", "anon_pipe_read", "vfs_read")))
'pipe'
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from schedperf.runs.stacks import Stack

OTHER, UNKNOWN = "other", "unknown"
# The states of the kernel in which tasks sleep, by the letter that ps and traces print.
STATES: Mapping[str, str] = {
    "S": "interruptible sleep (S)",
    "D": "uninterruptible sleep (D)",
    "I": "idle kernel thread (I)",
    "T": "stopped (T)",
    "P": "parked (P)",
}
# A fault on the way to the wait says more than the lock or the I/O that it waits for.
FAULT = "page fault"


def cause_of(kernel: Stack | None, state: str | None = None) -> str:
    """Return what a task waited for; without a stack the state in which it slept, if known.

    :param state: the letter of its state: "S", "D" …; None if unknown
    """
    names = [frame.function for frame in kernel or () if frame.function]
    if not names:
        return UNKNOWN if state is None else STATES.get(state, f"state {state}")
    prefixes = _prefixes()
    found = (
        cause for name in names for cause, starts in prefixes.items() if name.startswith(starts)
    )
    first = next(found, OTHER)
    is_fault = any(name.startswith(prefixes[FAULT]) for name in names)
    return f"{FAULT}: {first}" if is_fault and first != FAULT else first


@cache
def _prefixes() -> Mapping[str, tuple[str, ...]]:
    text = files(__package__).joinpath("causes.toml").read_text(encoding="utf-8")
    return {cause: tuple(starts) for cause, starts in tomllib.loads(text)["prefixes"].items()}
