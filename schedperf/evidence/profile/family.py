# SPDX-License-Identifier: GPL-2.0-or-later
"""What of a profile is tested, and what of it then counts as changed: one rule for all tables.

The comparison of whole bundles, the rows of ``schedperf profile`` and the frames of a flame graph
choose by it, so that the same function of the same samples has one q everywhere.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schedperf.stats.verdicts import FALSE_DISCOVERY_RATE
from schedperf.symbols.functions import is_idle_routine
from schedperf.symbols.place import Place

if TYPE_CHECKING:
    from schedperf.stats import Columns

# Percentage points of all CPUs: five times the binomial standard error (0.02 pp) of a function
# that has 0.1% of 25,000 samples, which is one run of 5 s on 5 CPUs at 1 kHz.
SMALLEST_CHANGE_PP = 0.1

# Places that are no kernel code in spite of their brackets: what the kernel maps into processes,
# and other machines' code.
_NO_KERNEL = frozenset(
    ("[vdso]", "[vsyscall]", "[unknown]", "[hypervisor]", "[guest]", "[guest kernel]", "[heap]",
     "[stack]", "[anon]")
)  # fmt: skip

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def is_kernel_code(place: Place) -> bool:
    """Say whether this is code of the kernel, its modules or its BPF programs."""
    return place.dso.startswith("[") and place.dso not in _NO_KERNEL


def is_idle_time(place: Place) -> bool:
    """Say whether the idle task waits for work here, or a task that injects idle time."""
    return place.dso.startswith("[") and is_idle_routine(place)


def is_hot(base: Floats, new: Floats) -> Flags:
    """Return which columns are hot enough to change by the smallest amount, shape (columns,).

    The sum of both sides' means does not depend on the change, so it may choose (Bourgon,
    Gentleman and Huber, PNAS 107, 2010).

    :param base: mean shares in per cent, shape (columns,)
    :param new: the same of the other side
    """
    return np.asarray(base + new >= SMALLEST_CHANGE_PP)


def is_silent(is_idle: Flags, is_kernel: Flags, *, sees_kernel: bool) -> Flags:
    """Return which columns nothing is decided about, however hot they are, shape (columns,).

    Idle time is the rest of all others. An event that cannot see code that runs with interrupts
    off charges its time to other code of the kernel, so that no kernel function's number is its
    own; where it is not known what the event sees, that may be so.
    """
    return is_idle if sees_kernel else is_idle | is_kernel


def is_changed(share: "Columns") -> Flags:
    """Return which shares changed significantly, and by more than any would count as nothing."""
    is_large = np.abs(share.difference) >= SMALLEST_CHANGE_PP
    return np.asarray((share.q < FALSE_DISCOVERY_RATE) & is_large)
