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
# A fault on the way to the wait says more than the lock or the I/O that it waits for.
FAULT = "page fault"


def cause_of(kernel: Stack | None) -> str:
    """Return what a task waited for; "unknown" without a stack."""
    names = [frame.function for frame in kernel or () if frame.function]
    if not names:
        return UNKNOWN
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
