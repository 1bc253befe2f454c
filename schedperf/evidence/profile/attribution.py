# SPDX-License-Identifier: GPL-2.0-or-later
"""Divide the samples of a recording: the workload, interrupts and softirqs, other load, idle time.

Samples of the workload's tasks and of the idle task keep their places. Code in an interrupt or
softirq has a place of its own, whatever task it interrupted, without the frames of that task. All
samples of other tasks are one place, ``OTHER_LOAD``, without callers.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from schedperf.evidence.profile.family import is_idle_time, is_kernel_code
from schedperf.evidence.profile.workload import FOREIGN_PID, Family, Owner
from schedperf.inputs.perf_data.recording import MODE_USER, NO_CHAIN, NO_TASK, Integers, Recording
from schedperf.inputs.symbols.functions import function_name
from schedperf.inputs.symbols.places import KERNEL, Placed
from schedperf.model.place import OTHER_LOAD, Place, in_interrupts

ALL_TASKS = (
    "samples are of all tasks of the machine: the recordings do not tell which tasks are the "
    "workload's"
)

Flags = NDArray[np.bool_]

# Places whose kind is remembered.
_MOST_PLACES = 1 << 16
# Functions that handle interrupts and softirqs: x86, arm64, and those of all architectures.
_HANDLER = re.compile(
    r"(?:asm_|__|instr_)?sysvec_\w+|(?:asm_|__)?common_interrupt|(?:asm_|__)?spurious_interrupt"
    r"|(?:smp_)?(?:apic_timer|reschedule|call_function(?:_single)?|irq_work)_interrupt|do_IRQ"
    r"|asm_call_irq_on_stack|asm_exc_nmi|exc_nmi|el[01][ht]?(?:_64|_32)?_(?:irq|fiq)(?:_handler)?"
    r"|el[01]_interrupt|gic_handle_irq|do_interrupt_handler|call_on_irq_stack|handle_irq_event\w*"
    r"|(?:generic_)?handle_domain_irq|__handle_domain_irq|__irq_exit_rcu|irq_exit(?:_rcu)?"
    r"|irq_enter(?:_rcu)?|hrtimer_interrupt|__do_softirq|handle_softirqs|do_softirq\w*|run_ksoftirqd"
)
# Functions in which an interrupted task goes on: it may be preempted before the interrupt returns.
_RETURN = re.compile(
    r"irqentry_exit\w*|(?:raw_)?irqentry_exit_cond_resched|exit_to_user_mode\w*"
    r"|prepare_exit_to_usermode|preempt_schedule_irq|arm64_preempt_schedule_irq|do_notify_resume"
    r"|el1_preempt|retint_\w+"
)


def attribute(
    recording: Recording, placed: Placed, command: Sequence[str], recorder: int | None
) -> Placed | None:
    """Divide the samples of a recording.

    :param command: command line of the workload
    :param recorder: pid of the recorder; None if unknown
    :return: None if the recording does not tell which tasks are the workload's
    """
    is_idle = _flags(placed.places, is_idle_time)[placed.of_row]
    owner = _owner_of_rows(recording, placed, Family(recording, command, recorder))
    if owner is None:
        return None
    in_interrupt, divided = _separate_interrupts(placed, owner == Owner.SOFTIRQ, is_idle)
    is_other = (owner == Owner.OTHER) & ~in_interrupt & ~is_idle
    return _merge_others(divided, is_other)


def _owner_of_rows(recording: Recording, placed: Placed, family: Family) -> Integers | None:
    samples = recording.samples
    is_told = family.is_known and not np.any(samples.task == NO_TASK)
    if is_told and not (family.is_in_namespace and _hides_idle_time(recording, placed)):
        return family.owners()[samples.task]
    if recording.events and all(event.is_of_tasks for event in recording.events):
        # perf recorded the workload's tasks only.
        return np.full(len(samples), int(Owner.WORKLOAD))
    return None


def _hides_idle_time(recording: Recording, placed: Placed) -> bool:
    # In a pid namespace, only the names of its routines distinguish the idle task.
    samples = recording.samples
    is_foreign = np.array([task.pid == FOREIGN_PID for task in recording.tasks], dtype=np.bool_)
    in_kernel = is_foreign[samples.task] & (samples.mode != MODE_USER)
    return KERNEL in placed.unnamed and bool(in_kernel.any())


def _separate_interrupts(placed: Placed, whole: Flags, is_idle: Flags) -> tuple[Flags, Placed]:
    """Give code in interrupts its own places, and end its stacks where the interrupt begins.

    :param whole: rows of threads that run softirqs, shape (rows,)
    :param is_idle: rows in idle time, shape (rows,)
    :return: which rows are in an interrupt, shape (rows,), and the places
    """
    is_handler = _flags(placed.places, _is_handler)
    counts = _interrupt_frames(placed, is_handler)
    has_stack = placed.stack_of_row != NO_CHAIN
    count = np.where(has_stack, np.append(counts, 0)[placed.stack_of_row], 0)
    in_interrupt = (whole | (count > 0) | is_handler[placed.of_row]) & ~is_idle
    # Kernel code has a second place; a stack of an interrupt has no user code.
    kernel = np.flatnonzero(_flags(placed.places, is_kernel_code))
    second = np.arange(len(placed.places), dtype=np.int32)
    second[kernel] = len(placed.places) + np.arange(len(kernel))
    places = (*placed.places, *(in_interrupts(placed.places[n]) for n in kernel.tolist()))
    lengths = np.diff(placed.stack_starts)
    is_kept = ~_mark(placed.stack_starts[:-1] + counts, placed.stack_starts[1:], counts > 0)
    of_interrupt = np.repeat(counts > 0, lengths)[is_kept]
    frames = placed.stack_places[is_kept]
    kept = np.where(counts > 0, counts, lengths)
    return in_interrupt, replace(
        placed,
        places=places,
        of_row=np.where(in_interrupt, second[placed.of_row], placed.of_row),
        stack_places=np.where(of_interrupt, second[frames], frames),
        stack_starts=np.concatenate((np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64))),
    )


def _mark(first: Integers, end: Integers, chosen: Flags) -> Flags:
    """Return a mask of the positions from ``first`` to before ``end`` of the chosen ranges.

    :param first: starts of ranges that do not overlap, shape (ranges,)
    :param end: their ends, shape (ranges,); the last one is the length of the mask
    """
    steps = np.zeros((int(end[-1]) if len(end) else 0) + 1, np.int8)
    np.add.at(steps, first[chosen], 1)
    np.add.at(steps, end[chosen], -1)
    return np.cumsum(steps[:-1], dtype=np.int8) > 0


def _interrupt_frames(placed: Placed, is_handler: Flags) -> Integers:
    """Return the number of innermost frames of each stack in an interrupt, shape (stacks,).

    These are the frames up to the outermost handler; 0 if the interrupted task has gone on.
    """
    is_return = _flags(placed.places, _is_return)
    stacks = len(placed.stack_starts) - 1
    frames = placed.stack_places
    # Positions of the first return (innermost first), and of the last handler before it.
    first_return = np.full(stacks, np.iinfo(np.int64).max)
    of_return = np.flatnonzero(is_return[frames])
    stack = np.searchsorted(placed.stack_starts, of_return, side="right") - 1
    np.minimum.at(first_return, stack, of_return)
    last = np.full(stacks, -1, np.int64)
    of_handler = np.flatnonzero(is_handler[frames])
    stack = np.searchsorted(placed.stack_starts, of_handler, side="right") - 1
    is_before = of_handler < first_return[stack]
    np.maximum.at(last, stack[is_before], of_handler[is_before])
    return np.where(last >= 0, last - placed.stack_starts[:-1] + 1, 0)


def _merge_others(placed: Placed, is_other: Flags) -> Placed:
    return replace(
        placed,
        places=(*placed.places, OTHER_LOAD),
        of_row=np.where(is_other, len(placed.places), placed.of_row),
        stack_of_row=np.where(is_other, NO_CHAIN, placed.stack_of_row),
    ).without_unused()


# Runs of one kernel have the same places.
@lru_cache(maxsize=_MOST_PLACES)
def _is_handler(place: Place) -> bool:
    return _matches(_HANDLER, place)


@lru_cache(maxsize=_MOST_PLACES)
def _is_return(place: Place) -> bool:
    return _matches(_RETURN, place)


def _matches(pattern: re.Pattern[str], place: Place) -> bool:
    return is_kernel_code(place) and bool(pattern.fullmatch(function_name(place.symbol)))


def _flags(places: Sequence[Place], is_one: Callable[[Place], bool]) -> Flags:
    return np.array([is_one(place) for place in places], dtype=np.bool_)
