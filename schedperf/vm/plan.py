"""Which kernel is booted when.

In every round each kernel is booted once. Every other round goes backwards (two kernels: ABBA),
so that whatever drifts on this machine hits all kernels alike. A round is what the comparison
pairs: its kernels were booted one right after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedBoot:
    """One boot that is to be made.

    :param kernel: its place among the kernels, from 0
    :param round: in which each kernel is booted once, from 0
    """

    kernel: int
    round: int


def plan_boots(kernels: int, boots: int) -> Sequence[PlannedBoot]:
    """Plan the boots of some kernels, each of which is booted ``boots`` times.

    >>> "".join("AB"[boot.kernel] for boot in plan_boots(2, 4))
    'ABBAABBA'
    >>> "".join("ABC"[boot.kernel] for boot in plan_boots(3, 2))
    'ABCCBA'
    """
    return [
        PlannedBoot(kernel=kernel, round=number)
        for number in range(boots)
        for kernel in (range(kernels) if number % 2 == 0 else reversed(range(kernels)))
    ]
