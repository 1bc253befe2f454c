# SPDX-License-Identifier: GPL-2.0-or-later
"""Plan the boots of an ``ab --kernel`` recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedperf_collectors.recorder.plan import orders

# A boot that failed or lost power is repeated; this many extra boots of each kernel are allowed.
SPARE_BOOTS = 2
# A kernel that failed this often is not booted again.
MOST_FAILURES = 2


@dataclass(frozen=True)
class PlannedBoot:
    """One planned boot.

    :param kernel: index of the kernel
    :param round: index of the round, which boots each kernel once
    """

    kernel: int
    round: int


def plan_boots(kernels: int, boots: int) -> Sequence[PlannedBoot]:
    """Plan ``boots`` boots of each kernel, in a balanced order.

    >>> "".join("AB"[boot.kernel] for boot in plan_boots(2, 4))
    'ABBAABBA'
    """
    return [
        PlannedBoot(kernel, number)
        for number, order in enumerate(orders(kernels, boots))
        for kernel in order
    ]


def most_boots(kernels: int, boots: int) -> int:
    """Return the maximum number of boots of a recording, including repeated ones.

    :param kernels: number of kernels
    :param boots: planned boots of each kernel
    """
    return kernels * (boots + SPARE_BOOTS)
