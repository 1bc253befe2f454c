# SPDX-License-Identifier: GPL-2.0-or-later
"""Select the tested rows of a profile, and decide which of them changed.

The comparison of bundles, the rows of ``schedperf profile`` and the frames of a flame graph use the
same rules, so that a function has the same q in all of them.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schedperf.evidence.profile.record import SMALLEST_CHANGE_PP
from schedperf.inputs.symbols.functions import class_of, function_name, is_idle_routine
from schedperf.model.place import OTHER_LOAD, Place, is_in_interrupts, is_kernel_dso
from schedperf.model.verdict import FALSE_DISCOVERY_RATE

if TYPE_CHECKING:
    from schedperf.stats import Columns

# Class name of functions without a class.
OTHER_KERNEL, USER = "other kernel code", "user code"
# Class name of the functions to which an event attributes time with interrupts off.
HIDDEN = "interrupts off"
# These functions contain the instruction that re-enables interrupts: in kernel/sched/core.c, the
# kernel's locks, and the entry code, which finishes an interrupt or a system call.
CHARGED_FUNCTIONS = (
    "finish_task_switch",
    "_raw_spin_unlock_irqrestore",
    "_raw_spin_unlock_irq",
    "raw_spin_rq_unlock_irq",
)
# Largest number of functions that are named per class.
MOST_FUNCTIONS = 4
# Number of places with a row, in addition to changed places and functions of the scheduler.
MOST_PLACES = 40

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def is_kernel_code(location: Place) -> bool:
    """Return whether a place is code of the kernel, its modules or its BPF programs."""
    return is_kernel_dso(location.dso)


def is_idle_time(location: Place) -> bool:
    """Return whether a place is an idle routine of the idle task or of idle injection."""
    is_task = is_kernel_dso(location.dso) and not is_in_interrupts(location.dso)
    return is_task and is_idle_routine(location)


def is_charged(location: Place) -> bool:
    """Return whether a timer attributes time with interrupts off to the function of a place."""
    return is_kernel_code(location) and function_name(location.symbol) in CHARGED_FUNCTIONS


def class_name(location: Place, *, sees_kernel: bool = True) -> str:
    """Return the function class of a place that is not idle time.

    :param sees_kernel: whether the event samples code that runs with interrupts off
    """
    if location == OTHER_LOAD:
        return OTHER_LOAD.symbol
    if not is_kernel_code(location):
        return USER
    if not sees_kernel and is_charged(location):
        return HIDDEN
    return class_of(location) or OTHER_KERNEL


def interest_of(base: Floats, new: Floats) -> Floats:
    """Return the priority of each share for a row: higher if hot or changed; shape (columns,)."""
    return np.asarray(np.maximum(base, new) + np.abs(new - base))


def is_hot(base: Floats, new: Floats) -> Flags:
    """Return which columns are hot enough for the smallest reported change, shape (columns,).

    The sum of both sides' means is independent of the change, so it may select rows (Bourgon,
    Gentleman and Huber, PNAS 107, 2010).

    :param base: mean shares in percent, shape (columns,)
    :param new: the same of the other side
    """
    return np.asarray(base + new >= SMALLEST_CHANGE_PP)


def is_silent(is_idle: Flags, is_hidden: Flags, *, sees_kernel: bool) -> Flags:
    """Return which columns are never tested, independent of their share, shape (columns,).

    Idle time is the complement of all other time. If an event cannot sample code that runs with
    interrupts off, or if this is unknown, the time of such code is attributed to other functions
    (``is_hidden``). All other code is sampled as by any event.
    """
    return is_idle if sees_kernel else is_idle | is_hidden


def is_changed(share: "Columns") -> Flags:
    """Return which shares changed significantly, by at least ``SMALLEST_CHANGE_PP``.

    :param share: the comparison of shares in percent
    :return: shape (columns,)
    """
    is_large = np.abs(share.difference) >= SMALLEST_CHANGE_PP
    return np.asarray((share.q < FALSE_DISCOVERY_RATE) & is_large)
