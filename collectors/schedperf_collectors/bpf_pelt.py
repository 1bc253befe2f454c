# SPDX-License-Identifier: GPL-2.0-or-later
"""Count and time PELT updates with BPF programs.

Calls and durations of ``update_cfs_group``, ``__update_load_avg_se``, ``__update_load_avg_cfs_rq``
and ``update_load_avg``, and what the tracepoints ``pelt_cfs_tp`` and ``pelt_se_tp`` count, per CPU
and by the part of the scheduler that calls. Each function is seen by the first mechanism that
works here, a pair of programs at its entry and exit (fentry/fexit, else kprobe/kretprobe), else an
execution breakpoint, which counts but takes no time. ``pelt.json`` says which, and why not the
others. Programs are loaded through libbpf, else compiled by bcc; where neither can load them,
breakpoints count alone::

    {"schema": "schedperf/bpf_pelt/1", "seconds": 1.2, "sampling": 1,
     "loader": {"used": "libbpf", "asked": "auto", "tried": {"libbpf": null},
                "no_types": null, "seconds": 0.4},
     "functions": {"update_cfs_group": {"mechanism": "fentry/fexit",
                                        "tried": {"fentry/fexit": null},
                                        "calls": {"0": 3765, "1": 5111}, …}, …}, …}

A function that the compiler put into some of its callers is not seen there: all numbers are of
calls of the function that the kernel's symbols name.
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
# A busy CPU makes some 100,000 calls a second, so that it still times one in ten seconds.
MOST_SAMPLING = 1_000_000
# NTP slews the wall clock by at most 0.5 ms a second (500 ppm, MAXFREQ in include/linux/timex.h);
# what moves it by more, and by more than this, has stepped it.
SLEW_SHARE = 0.0005
CLOCK_STEP_S = 0.1
# When the gate opens a CPU may be inside a few marked functions, whose exits then have no partner.
MARKS_LOST_A_CPU = 8


@dataclass(frozen=True)
class Wanted:
    """What the user asks for.

    :param sampling: the duration of one in so many calls is taken
    :param cross_check: count by breakpoints as well what programs count
    :param perf: the program
    :param loader: AUTO or one of LOADERS
    """

    sampling: int
    cross_check: bool
    perf: str
    loader: str


@dataclass
class Watch:
    """What is attached, and what it took to attach it.

    :param tried: of each function and tracepoint
    :param breakpoints: addresses of the functions that breakpoints count
    :param attached_s: when the last program was attached, on the monotonic clock
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
    """The time in which was counted.

    :param online: CPUs at its beginning
    :param began_s: on the monotonic clock
    :param ahead_s: of the wall clock before the monotonic clock
    """

    online: frozenset[int]
    began_s: float
    ahead_s: float


@collector(
    scope="run",
    intrusive=True,
    default=False,
    cost="loads in 0.5 s, under emulation in 1 to 6 s (bcc: 18 to 180 s); there 1.5 us for each "
    "call that is timed, 0.6 us of it for an empty probe; execution breakpoints (cross_check=1, or "
    "no programs) cost little on real hardware, and most of all under emulation: hackbench takes "
    "34 s instead of 3",
)
def bpf_pelt(capture: Capture) -> Generator[str, None, str]:
    """Count and time PELT updates; options: sampling, cross_check, perf, loader."""
    wanted = read_wanted(capture.options)
    system = System()
    kernel = _find_functions(system)
    began_s = time.monotonic()
    loaded = load_programs(system, kernel, wanted.sampling, wanted.loader)
    programs = loaded.programs
    with closing(programs):
        watch = attach(programs, system, kernel, wanted)
        loader = {**loaded.describe(), "seconds": round(watch.attached_s - began_s, 3)}
        watch.notes += loaded.notes()
        online = frozenset(online_cpus(system))
        with breakpoints_counting(wanted.perf, watch.breakpoints) as counts:
            yield PREPARED
            # Nothing else stands here, so that breakpoints and programs count for the same time.
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
            "sampling": wanted.sampling,
            "loader": loader,
            **describe(watch, window, counts, wanted),
            "lost_cpus": sorted(window.online - still_online),
            "notes": watch.notes,
        }
        (capture.folder / "pelt.json").write_text(json.dumps(facts) + "\n")
    return _what_would_see_more(programs)


def read_wanted(options: Mapping[str, str]) -> Wanted:
    """Read the collector's options.

    :raises Skipped: one is not what it should be
    """
    numbers = {"sampling": 1, "cross_check": 0}
    limits = {"sampling": (1, MOST_SAMPLING), "cross_check": (0, 1)}
    for name in options.keys() & numbers.keys():
        least, most = limits[name]
        value, reason = attempt(to_integer, options[name], name)
        if value is None or not least <= value <= most:
            reason = reason or f"{name}: not from {least} to {most}: {value}"
            raise Skipped(reason, f"--set bpf_pelt.{name}={least}")
        numbers[name] = value
    loader = options.get("loader", AUTO)
    if loader not in (AUTO, *LOADERS):
        raise Skipped(
            f"loader: unknown loader {loader!r} (expected {AUTO}, {' or '.join(LOADERS)})",
            f"--pelt-loader {AUTO}",
        )
    return Wanted(
        sampling=numbers["sampling"],
        cross_check=bool(numbers["cross_check"]),
        perf=options.get("perf", "perf"),
        loader=loader,
    )


def attach(programs: Programs, system: System, kernel: KernelFunctions, wanted: Wanted) -> Watch:
    """Attach all that can be attached; nothing counts yet.

    :raises Skipped: nothing can
    """
    tried = attach_functions(programs, kernel)
    marked = attach_markers(programs, system, kernel)
    watch = Watch(programs, tried, marked, None, {})
    _choose_breakpoints(watch, kernel, wanted)
    if not any(map(mechanism_of, tried.values())):
        raise _nothing_works(watch)
    mechanisms = [mechanism_of(one) for one in tried.values()]
    pair = next((pair for pair in PAIRS if pair in mechanisms), None)
    if pair is not None:
        try:
            watch.trial = measure_cost(programs, kernel, pair)
        except Unavailable as error:
            watch.notes.append(f"the cost of the probes could not be measured: {error.reason}")
    return watch


def _nothing_works(watch: Watch) -> Skipped:
    reasons = [
        (mechanism == BREAKPOINT, reason)
        for tried in watch.tried.values()
        for mechanism, reason in tried.items()
        if reason is not None
    ]
    # Programs see more than breakpoints, so what mends them is the better remedy.
    programs, breakpoints = (
        "; ".join(dict.fromkeys(reason for found, reason in reasons if found == is_breakpoint))
        for is_breakpoint in (False, True)
    )
    if isinstance(watch.programs, NoPrograms):
        why = watch.programs.why
        return Skipped(f"{why.reason}; breakpoints: {breakpoints}", why.remedy)
    return Skipped(f"no probe can be attached: {programs}; breakpoints: {breakpoints}", as_root())


def _choose_breakpoints(watch: Watch, kernel: KernelFunctions, wanted: Wanted) -> None:
    """Try breakpoints on what no program can see; on the other functions too where asked for."""
    unseen_yet = [name for name in FUNCTIONS if mechanism_of(watch.tried[name]) is None]
    addresses: dict[str, int] = {}
    for name in FUNCTIONS if wanted.cross_check else unseen_yet:
        address, reason = kernel.address(name)
        if address is not None:
            addresses[name] = address
        elif name in unseen_yet:
            watch.tried[name][BREAKPOINT] = reason
    if not addresses:
        return
    try:
        try_breakpoints(wanted.perf, addresses)
    except Unavailable as error:
        if wanted.cross_check:
            # There may be enough of them for those that need one.
            watch.notes.append(f"no cross-check by breakpoints: {error.reason}")
            _choose_breakpoints(watch, kernel, replace(wanted, cross_check=False))
        else:
            for name in addresses:
                watch.tried[name][BREAKPOINT] = error.reason
        return
    watch.breakpoints = addresses
    for name in addresses.keys() & set(unseen_yet):
        watch.tried[name][BREAKPOINT] = None


def describe(
    watch: Watch, window: Window, counts: BreakpointCounts, wanted: Wanted
) -> dict[str, object]:
    """Return what was counted, as in pelt.json."""
    functions: dict[str, object] = {}
    if counts.reason:
        watch.notes.append(f"the count of breakpoints was lost: {counts.reason}")
    silent = {cpu for calls in counts.calls.values() for cpu in window.online - calls.keys()}
    watch.notes += [f"breakpoints of cpu {cpu} have no count" for cpu in sorted(silent)]
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
        "breakpoints": {"functions": checked} if wanted.cross_check and checked else None,
    }


def _find_functions(system: System) -> KernelFunctions:
    try:
        return find_pelt_functions(system)
    except Unavailable as error:
        raise Skipped(error.reason, "rebuild the kernel with CONFIG_KALLSYMS=y") from error


def _what_would_see_more(programs: Programs) -> str:
    if not isinstance(programs, NoPrograms):
        return ""
    parts = (f"breakpoints count, and nothing is timed: {programs.why.reason}", programs.why.remedy)
    return "; ".join(filter(None, parts))


def incidents(watch: Watch, window: Window, now: frozenset[int]) -> list[str]:
    """Say what happened while it counted, one line each.

    :param now: CPUs that are online at its end
    """
    notes = [f"cpu {cpu} went offline while it counted" for cpu in sorted(window.online - now)]
    notes += [f"cpu {cpu} came online while it counted" for cpu in sorted(now - window.online)]
    stepped_s = time.time() - time.monotonic() - window.ahead_s
    if abs(stepped_s) > CLOCK_STEP_S + SLEW_SHARE * (time.monotonic() - window.began_s):
        notes.append(f"the wall clock was stepped by {stepped_s:+.1f} s; no duration rests on it")
    if watch.trial is not None and not still_counts(watch.programs):
        notes.append(
            f"probes were lost: calls of {watch.trial.function} were no longer counted at the end"
        )
    lost = sum(value.lost for value in watch.programs.read("marks", 0).values())
    if lost > MARKS_LOST_A_CPU * len(window.online):
        notes.append(f"{lost} marks of contexts were lost: contexts of some calls are wrong")
    return notes


def _unseen(tried: Tried) -> dict[str, object]:
    """Return the record of a function that could not be probed."""
    return {
        "mechanism": None,
        "tried": tried,
        "calls": None,
        "contexts": None,
        "durations": None,
        "lost": {"unpaired": 0, "nested": 0},
    }


def _counted_only(tried: Tried, calls: Mapping[int, int]) -> dict[str, object]:
    """Return the record of a function of which only calls are counted."""
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
