# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure the overhead of the probes on trivial system calls.

A loop alternates between three similar calls: one without probes, one with an empty pair of
programs, one with the timing pair. The same loops before attaching measure by how much the calls
differ without probes; this difference is subtracted. The result is the median of the rounds.

The duration that the timing pair itself measures for such a call is a median too, because
interrupts and preemption in a few readings would dominate the mean.

The timing pair stays attached while the workload runs. A known number of calls at the end verifies
that the kernel still runs the programs.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Callable

from schedperf_collectors.bpf.probes import Programs
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel_files import KernelFunctions
from schedperf_collectors.pelt.programs import (
    EMPTY_CALL,
    LINEAR_STEP_NS,
    OPEN_TRIAL,
    SLOTS,
    TIMED_CALL,
    syscall_names,
)

# 250 calls take 25 us without probes and 0.5 ms under emulation, much less than a tick, so most
# loops are not interrupted and the median is that of an uninterrupted loop.
CALLS = 250
# Of 41 rounds the 14th smallest and the 14th largest are a 97% interval of the median (order
# statistics: 1 - 2 * P(Binomial(41, 1/2) < 14)).
ROUNDS = 41
OUTSIDE = 13
# The ranks of a 95% CI of the median of n values are n / 2 -+ 0.98 * sqrt(n): the normal
# approximation of the same order statistics.
HALF_RANKS = 0.98
# Number of calls that must be counted at the end.
PROOF_CALLS = 100


@dataclass(frozen=True)
class Trial:
    """The measured overhead of the pairs of programs attached to system calls.

    :param function: function that the timing pair is attached to
    :param found: "empty_probe" of pelt.json; durations and their CIs are in ns
    """

    function: str
    found: dict[str, object]


def measure_cost(programs: Programs, kernel: KernelFunctions, mechanism: str) -> Trial:
    """Attach an empty pair and a timing pair, and measure the time that each adds to a call.

    :param mechanism: mechanism by which functions are timed, one of PAIRS
    :raises Unavailable: the calls cannot be probed, or the timing pair timed none of them
    """
    timed, empty = (kernel.first(syscall_names(call)) for call in (TIMED_CALL, EMPTY_CALL))
    if timed is None or empty is None:
        raise Unavailable("the syscall getuid() or geteuid() is not in the kernel's symbols")
    before = _on_one_cpu(_rounds)
    programs.attach_pair(mechanism, empty)
    programs.attach_pair(mechanism, timed)
    programs.write("gates", OPEN_TRIAL, 1)
    after = _on_one_cpu(_rounds)
    programs.write("gates", OPEN_TRIAL, 0)
    reads_ns, reads_ci = median_reading(_trial_calls(programs), timed)
    results: dict[str, object] = {
        "mechanism": mechanism,
        "on": timed,
        "calls": CALLS * ROUNDS,
        "reads_ns": round(reads_ns, 1),
        "reads_ci": list(reads_ci),
    }
    for name, column in (("empty", 1), ("pair", 2)):
        added = sorted(
            (late[column] - late[0]) - (early[column] - early[0])
            for early, late in zip(before, after)
        )
        results[f"{name}_ns"] = round(statistics.median(added), 1)
        results[f"{name}_ci"] = [round(added[OUTSIDE], 1), round(added[-1 - OUTSIDE], 1)]
    return Trial(timed, results)


def still_counts(programs: Programs) -> bool:
    """Make test calls; return whether the timing pair of :func:`measure_cost` counted them all."""
    seen_before = _count_seen(_trial_calls(programs))
    programs.write("gates", OPEN_TRIAL, 1)
    for _ in range(PROOF_CALLS):
        os.getuid()
    programs.write("gates", OPEN_TRIAL, 0)
    return _count_seen(_trial_calls(programs)) - seen_before >= PROOF_CALLS


def median_reading(values: Iterable[Any], function: str) -> tuple[float, tuple[float, float]]:
    """Return the median of the measured durations of the trial calls, in ns, and its 95% CI.

    The median is interpolated linearly within its bin. The interval is widened to the outer edges
    of the bins that contain its ends.

    :param values: the ``struct calls`` of each CPU
    :param function: name for the message
    :raises Unavailable: no call was timed
    """
    all_counts = list(values)
    bins = list(_bins(all_counts))
    timed = sum(count for _, _, count in bins)
    if not timed:
        seen = _count_seen(all_counts)
        raise Unavailable(
            f"the probes of {function} counted {seen} of {CALLS * ROUNDS} test calls and timed none"
        )
    reached = list(accumulate(count for _, _, count in bins))

    def place(rank: float) -> int:
        return next(number for number, upto in enumerate(reached) if upto >= rank)

    middle = place(timed / 2)
    low, high, count = bins[middle]
    part = (timed / 2 - (reached[middle] - count)) / count
    aside = HALF_RANKS * math.sqrt(timed)
    first, last = place(max(timed / 2 - aside, 1)), place(min(timed / 2 + aside, timed))
    return low + part * (high - low), (bins[first][0], bins[last][1])


def _bins(values: Sequence[Any]) -> Iterator[tuple[float, float, int]]:
    # Start, end and count of the linear bins, then of the log2 bins. The log2 bin in which the
    # linear bins end contributes the count of the open linear bin minus all later log2 bins.
    linear = [sum(counts) for counts in zip(*(value.linear_ns for value in values))]
    log2 = [sum(counts) for counts in zip(*(value.log2_ns for value in values))]
    for number, count in enumerate(linear[:-1]):
        yield number * LINEAR_STEP_NS, (number + 1) * LINEAR_STEP_NS, count
    end = (len(linear) - 1) * LINEAR_STEP_NS
    beyond = end.bit_length()
    yield end, 2.0**beyond, sum(linear[-1:]) - sum(log2[beyond:])
    for number, count in enumerate(log2[beyond:], beyond):
        yield 2.0**number, 2.0 ** (number + 1), count


def _trial_calls(programs: Programs) -> Sequence[Any]:
    return list(programs.read("calls", SLOTS.index(TIMED_CALL)).values())


def _count_seen(values: Iterable[Any]) -> int:
    return sum(sum(value.by_context) for value in values)


def _on_one_cpu(measure: Callable[[], Sequence[Sequence[float]]]) -> Sequence[Sequence[float]]:
    # A task that migrates between entry and exit would be counted on two CPUs.
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        return measure()
    finally:
        os.sched_setaffinity(0, allowed)


def _rounds() -> list[list[float]]:
    # ns per call: without probes, with the empty pair, with the timing pair.
    calls = (os.getgid, os.geteuid, os.getuid)
    return [[_ns_a_call(call) for call in calls] for _ in range(ROUNDS)]


def _ns_a_call(call: Callable[[], int]) -> float:
    began_ns = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - began_ns) / CALLS
