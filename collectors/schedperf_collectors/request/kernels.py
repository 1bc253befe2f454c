# SPDX-License-Identifier: GPL-2.0-or-later
"""Name kernels, and find out which of those that are asked for is missing."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel_files import build_id
from schedperf_collectors.machine.system import System

_BUILD_DIGITS = 12
_NO_BUILD_ID = "0" * _BUILD_DIGITS
_NAME = re.compile(rf"(?P<release>[A-Za-z0-9._+~-]+)-(?P<build>[0-9a-f]{{{_BUILD_DIGITS}}})\Z")


def running_kernel() -> str:
    """Return the name of the running kernel, its release and the begin of its build id.

    Two builds may have one release. Without a build id, its digits are 0.
    """
    try:
        build = build_id(System())[:_BUILD_DIGITS]
    except Unavailable:
        build = _NO_BUILD_ID
    release = re.sub(r"[^A-Za-z0-9._+~-]", "_", os.uname().release)
    return f"{release}-{build}"


def release_of(kernel: str) -> str | None:
    """Return the release in the name of a kernel; None for another text.

    >>> release_of("6.12.0-tip-0123456789ab"), release_of("notes")
    ('6.12.0-tip', None)
    """
    match = _NAME.match(kernel)
    return None if match is None else match["release"]


def fill_slots(patterns: Sequence[str], kernels: Sequence[str]) -> list[str | None]:
    """Return for each pattern of releases the kernel that was recorded for it; None if missing.

    Each kernel counts once; as many patterns as possible get one, and earlier kernels come first.

    >>> fill_slots(["*", "6.12*"], ["6.12.0-0123456789ab", "6.11.0-0123456789ab"])
    ['6.11.0-0123456789ab', '6.12.0-0123456789ab']

    :param kernels: their names
    """
    slots: list[str | None] = [None] * len(patterns)
    for kernel in dict.fromkeys(kernels):
        _place(kernel, patterns, slots, set())
    return slots


def _place(kernel: str, patterns: Sequence[str], slots: list[str | None], tried: set[int]) -> bool:
    release = release_of(kernel) or ""
    fitting = [i for i, pattern in enumerate(patterns) if fnmatchcase(release, pattern)]
    free = [i for i in fitting if slots[i] is None]
    # An augmenting path: without a free slot, a kernel may push another one to a free slot.
    for i in free or [i for i in fitting if i not in tried]:
        tried.add(i)
        other = slots[i]
        if other is None or _place(other, patterns, slots, tried):
            slots[i] = kernel
            return True
    return False
