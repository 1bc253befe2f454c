# SPDX-License-Identifier: GPL-2.0-or-later
"""Count and time PELT updates with BPF programs.

Calls and durations of ``update_cfs_group``, ``__update_load_avg_se``, ``__update_load_avg_cfs_rq``
and ``update_load_avg``, and hits of the tracepoints ``pelt_cfs_tp`` and ``pelt_se_tp``, per CPU and
by the calling part of the scheduler. Each function is probed by the first mechanism that works: a
pair of programs at its entry and exit (fentry/fexit, then kprobe/kretprobe), or an execution
breakpoint, which counts calls but does not time them. ``pelt.json`` records the mechanism, and why
the others failed. Programs are loaded through libbpf, or else compiled by bcc. If both loaders
fail, only breakpoints count::

    {"schema": "schedperf/bpf_pelt/1", "seconds": 1.2, "sampling": 1,
     "loader": {"used": "libbpf", "asked": "auto", "tried": {"libbpf": null},
                "no_types": null, "seconds": 0.4},
     "functions": {"update_cfs_group": {"mechanism": "fentry/fexit",
                                        "tried": {"fentry/fexit": null},
                                        "calls": {"0": 3765, "1": 5111}, …}, …}, …}

Calls that the compiler inlined are not counted: all numbers are of calls to the out-of-line
function in the kernel's symbols.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from schedperf_collectors.bpf.probes import PAIRS, RAW_TRACEPOINT, NoPrograms, Programs, as_root
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.cpu import online_cpus
from schedperf_collectors.machine.kernel_files import KernelFunctions
from schedperf_collectors.machine.system import System, attempt, to_integer
from schedperf_collectors.pelt.loader import AUTO, LOADERS, load_programs
from schedperf_collectors.pelt.programs import (
    CONTEXTS,
    FUNCTIONS,
    LINEAR_STEP_NS,
    OPEN_RUN,
    OTHER,
    SLOTS,
    Marked,
    Tried,
    attach_functions,
    attach_markers,
    find_pelt_functions,
    mechanism_of,
)
from schedperf_collectors.pelt.trial import Trial, measure_cost, still_counts
from schedperf_collectors.perf.breakpoints import (
    BREAKPOINT,
    BreakpointCounts,
    breakpoints_counting,
    try_breakpoints,
)
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped, collector

SCHEMA = "schedperf/bpf_pelt/1"
# A busy CPU makes some 100,000 calls per second, so it still times one call in ten seconds.
MOST_SAMPLING = 1_000_000
# NTP slews the wall clock by at most 0.5 ms per second (500 ppm, MAXFREQ in include/linux/timex.h);
# a larger change that also exceeds CLOCK_STEP_S is a step.
SLEW_SHARE = 0.0005
CLOCK_STEP_S = 0.1
# When the gate opens, a CPU may be inside a few marked functions, whose exits are then unpaired.
MARKS_LOST_A_CPU = 8


@dataclass(frozen=True)
class Wanted:
    """The collector's options.

    :param sampling: time one in this many calls
    :param cross_check: also count by breakpoints the calls that programs count
    :param perf: the perf program
    :param loader: AUTO or one of LOADERS
    """

    sampling: int
    cross_check: bool
    perf: str
    loader: str


@dataclass
class Watch:
    """The attached probes, and the mechanisms tried.

    :param tried: by function and tracepoint, the mechanisms tried and why they failed
    :param marked: the attached markers of calling contexts
    :param trial: the measured overhead of a probe; None if it was not measured
    :param breakpoints: addresses of the functions that breakpoints count, by name
    :param notes: lines for pelt.json about what limits the counts
    :param attached_s: time in s on the monotonic clock when functions and markers were attached
    """

    programs: Programs
    tried: dict[str, Tried]
    marked: Marked
    trial: Trial | None
    breakpoints: dict[str, int]
    notes: list[str] = field(default_factory=list)
    attached_s: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class Window:
    """The time window in which calls were counted.

    :param online: CPUs online at its start
    :param began_s: start in s on the monotonic clock
    :param ahead_s: wall clock minus monotonic clock at the start, in s
    """

    online: frozenset[int]
    began_s: float
    ahead_s: float


@collector(
    scope="run",
    intrusive=True,
    default=False,
    cost="0.5 s to load (under emulation 1 to 6 s, with bcc 18 to 180 s); 1.5 us per timed call "
    "under emulation (0.6 us for an empty probe); execution breakpoints (cross_check=1, or "
    "without BPF) slow down hackbench under emulation from 3 s to 34 s, on hardware only slightly",
    options=("sampling", "cross_check", "perf", "loader"),
)
def bpf_pelt(capture: Capture) -> Generator[str, None, str]:
    """Count and time PELT updates."""
    request = read_wanted(capture.options)
    system = System()
    kernel = _find_functions(system)
    began_s = time.monotonic()
    loaded = load_programs(system, kernel, request.sampling, request.loader)
    programs = loaded.programs
    with closing(programs):
        watch = attach(programs, system, kernel, request)
        loader = {**loaded.describe(), "seconds": round(watch.attached_s - began_s, 3)}
        watch.notes += loaded.notes()
        online = frozenset(online_cpus(system))
        with breakpoints_counting(request.perf, watch.breakpoints) as counts:
            yield PREPARED
            # No other work here, so that breakpoints and programs count for the same time.
            counts.begin()
            window = Window(online, time.monotonic(), time.time() - time.monotonic())
            programs.write("gates", OPEN_RUN, 1)
            yield BEGUN
            programs.write("gates", OPEN_RUN, 0)
            seconds = time.monotonic() - window.began_s
        still_online = frozenset(online_cpus(system))
        watch.notes += incidents(watch, window, still_online)
        facts = {
            "schema": SCHEMA,
            "seconds": seconds,
            "sampling": request.sampling,
            "loader": loader,
            **describe(watch, window, counts, request),
            "lost_cpus": sorted(window.online - still_online),
            "notes": watch.notes,
        }
        (capture.folder / "pelt.json").write_text(json.dumps(facts) + "\n")
    return _hint(programs)


def read_wanted(options: Mapping[str, str]) -> Wanted:
    """Read the collector's options.

    :raises Skipped: an option is invalid
    """
    numbers = {"sampling": 1, "cross_check": 0}
    limits = {"sampling": (1, MOST_SAMPLING), "cross_check": (0, 1)}
    for name in options.keys() & numbers.keys():
        least, most = limits[name]
        value, reason = attempt(to_integer, options[name], name)
        if value is None or not least <= value <= most:
            reason = reason or f"{name}: {value} is out of range (expected {least} to {most})"
            raise Skipped(reason, f"use e.g. --set bpf_pelt.{name}={least}")
        numbers[name] = value
    loader = options.get("loader", AUTO)
    if loader not in (AUTO, *LOADERS):
        raise Skipped(
            f"unknown loader {loader!r} (expected {AUTO}, {' or '.join(LOADERS)})",
            f"use --pelt-loader {AUTO}",
        )
    return Wanted(
        sampling=numbers["sampling"],
        cross_check=bool(numbers["cross_check"]),
        perf=options.get("perf", "perf"),
        loader=loader,
    )


def attach(programs: Programs, system: System, kernel: KernelFunctions, request: Wanted) -> Watch:
    """Attach each function by the first mechanism that works; the probes do not count yet.

    :raises Skipped: no probe works
    """
    tried = attach_functions(programs, kernel)
    marked = attach_markers(programs, system, kernel)
    watch = Watch(programs, tried, marked, None, {})
    _choose_breakpoints(watch, kernel, request)
    if not any(map(mechanism_of, tried.values())):
        raise _nothing_works(watch)
    mechanisms = [mechanism_of(mechanisms_tried) for mechanisms_tried in tried.values()]
    pair = next((pair for pair in PAIRS if pair in mechanisms), None)
    if pair is not None:
        try:
            watch.trial = measure_cost(programs, kernel, pair)
        except Unavailable as error:
            watch.notes.append(f"probe overhead not measured: {error.reason}")
    return watch


def _nothing_works(watch: Watch) -> Skipped:
    reasons = [
        (mechanism == BREAKPOINT, reason)
        for tried in watch.tried.values()
        for mechanism, reason in tried.items()
        if reason is not None
    ]
    # Programs capture more than breakpoints, so their remedy is the better one.
    programs, breakpoints = (
        "; ".join(
            dict.fromkeys(
                reason for from_breakpoint, reason in reasons if from_breakpoint == is_breakpoint
            )
        )
        for is_breakpoint in (False, True)
    )
    if isinstance(watch.programs, NoPrograms):
        why = watch.programs.why
        return Skipped(f"{why.reason}; breakpoints cannot be used ({breakpoints})", why.remedy)
    return Skipped(
        f"BPF programs cannot be attached ({programs}), nor can breakpoints ({breakpoints})",
        as_root(),
    )


def _choose_breakpoints(watch: Watch, kernel: KernelFunctions, request: Wanted) -> None:
    """Try breakpoints on functions without programs, and with ``cross_check`` on all functions."""
    unseen_yet = [name for name in FUNCTIONS if mechanism_of(watch.tried[name]) is None]
    addresses: dict[str, int] = {}
    for name in FUNCTIONS if request.cross_check else unseen_yet:
        address, reason = kernel.address(name)
        if address is not None:
            addresses[name] = address
        elif name in unseen_yet:
            watch.tried[name][BREAKPOINT] = reason
    if not addresses:
        return
    try:
        try_breakpoints(request.perf, addresses)
    except Unavailable as error:
        if request.cross_check:
            # The CPU may have enough breakpoints for the functions without programs.
            watch.notes.append(f"no cross-check with breakpoints: {error.reason}")
            _choose_breakpoints(watch, kernel, replace(request, cross_check=False))
        else:
            for name in addresses:
                watch.tried[name][BREAKPOINT] = error.reason
        return
    watch.breakpoints = addresses
    for name in addresses.keys() & set(unseen_yet):
        watch.tried[name][BREAKPOINT] = None


def describe(
    watch: Watch, window: Window, counts: BreakpointCounts, request: Wanted
) -> dict[str, object]:
    """Return the counts, as in pelt.json; add what is missing to ``watch.notes``.

    If the breakpoints failed during the run, the reason is also added to ``watch.tried``.
    """
    functions: dict[str, object] = {}
    if counts.reason:
        watch.notes.append(f"breakpoint counts are not available: {counts.reason}")
    silent = {cpu for calls in counts.calls.values() for cpu in window.online - calls.keys()}
    watch.notes += [f"CPU {cpu} has no breakpoint counts" for cpu in sorted(silent)]
    for name, tried in watch.tried.items():
        if counts.reason and tried.get(BREAKPOINT, "") is None:
            tried[BREAKPOINT] = counts.reason
        mechanism = mechanism_of(tried)
        if mechanism is None:
            functions[name] = _unseen(tried)
        elif mechanism == BREAKPOINT:
            functions[name] = _counted_only(tried, counts.calls[name])
        else:
            functions[name] = _seen_by_programs(
                watch.programs, name, tried, watch.marked, window.online
            )
    checked = {name: sum(calls.values()) for name, calls in counts.calls.items()}
    return {
        "functions": functions,
        "contexts": {
            "mechanism": watch.marked.mechanism,
            "markers": watch.marked.markers,
            "missing": watch.marked.missing,
        },
        "empty_probe": watch.trial.found if watch.trial else None,
        "breakpoints": {"functions": checked} if request.cross_check and checked else None,
    }


def _find_functions(system: System) -> KernelFunctions:
    try:
        return find_pelt_functions(system)
    except Unavailable as error:
        raise Skipped(error.reason, "rebuild the kernel with CONFIG_KALLSYMS=y") from error


def _hint(programs: Programs) -> str:
    """Return what cannot be captured without BPF programs, and the fix; "" with programs."""
    if not isinstance(programs, NoPrograms):
        return ""
    parts = (
        f"calls are counted with breakpoints and not timed, because {programs.why.reason}",
        programs.why.remedy,
    )
    return "; ".join(filter(None, parts))


def incidents(watch: Watch, window: Window, now: frozenset[int]) -> list[str]:
    """Return events that affected the counts, one line each.

    This makes test calls to find out whether the programs still count.

    :param now: CPUs online at the end
    """
    notes = [f"CPU {cpu} went offline during the run" for cpu in sorted(window.online - now)]
    notes += [f"CPU {cpu} came online during the run" for cpu in sorted(now - window.online)]
    stepped_s = time.time() - time.monotonic() - window.ahead_s
    if abs(stepped_s) > CLOCK_STEP_S + SLEW_SHARE * (time.monotonic() - window.began_s):
        notes.append(
            f"the wall clock was stepped by {stepped_s:+.1f} s; durations are not affected "
            "(monotonic clock)"
        )
    if watch.trial is not None and not still_counts(watch.programs):
        notes.append(
            "the probes stopped counting during the run: test calls of "
            f"{watch.trial.function}() after the run were not counted"
        )
    lost = sum(value.lost for value in watch.programs.read("marks", 0).values())
    if lost > MARKS_LOST_A_CPU * len(window.online):
        notes.append(
            f"{lost} changes of calling context were not recorded; some calls are attributed to "
            "the wrong context"
        )
    return notes


def _unseen(tried: Tried) -> dict[str, object]:
    """Return the record of a function without a probe."""
    return {
        "mechanism": None,
        "tried": tried,
        "calls": None,
        "contexts": None,
        "durations": None,
        "lost": {"unpaired": 0, "nested": 0},
    }


def _counted_only(tried: Tried, calls: Mapping[int, int]) -> dict[str, object]:
    """Return the record of a function whose calls are counted but not timed."""
    return {**_unseen(tried), "mechanism": mechanism_of(tried), "calls": _by_cpu(calls)}


def _seen_by_programs(
    programs: Programs, name: str, tried: Tried, marked: Marked, online: Collection[int]
) -> dict[str, object]:
    """Return the record of a function or tracepoint counted by BPF programs.

    :param online: CPUs that have a count even if it is 0
    """
    values = {
        cpu: value
        for cpu, value in programs.read("calls", SLOTS.index(name)).items()
        if cpu in online or any(value.by_context)
    }
    mechanism = mechanism_of(tried)
    lost = {
        "unpaired": sum(value.unpaired for value in values.values()),
        "nested": sum(value.nested for value in values.values()),
    }
    return {
        "mechanism": mechanism,
        "tried": tried,
        "calls": _by_cpu({cpu: sum(value.by_context) for cpu, value in values.items()}),
        "contexts": None if marked.mechanism is None else _contexts(values, marked),
        "durations": None if mechanism == RAW_TRACEPOINT else _durations(values),
        "lost": lost,
    }


def _contexts(values: Mapping[int, Any], marked: Marked) -> dict[str, object]:
    seen = [name for name in CONTEXTS if name in marked.markers or name == OTHER]
    return {
        name: _by_cpu(
            {cpu: value.by_context[CONTEXTS.index(name)] for cpu, value in values.items()}
        )
        for name in seen
    }


def _durations(values: Mapping[int, Any]) -> dict[str, object]:
    return {
        "timed": _by_cpu({cpu: value.timed for cpu, value in values.items()}),
        "sum_ns": _by_cpu({cpu: value.sum_ns for cpu, value in values.items()}),
        "log2_ns": {str(cpu): list(value.log2_ns) for cpu, value in values.items()},
        "linear_ns": {str(cpu): list(value.linear_ns) for cpu, value in values.items()},
        "linear_step_ns": LINEAR_STEP_NS,
    }


def _by_cpu(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(cpu): counts[cpu] for cpu in sorted(counts)}
