# SPDX-License-Identifier: GPL-2.0-or-later
"""Load the PELT programs with both BPF loaders and count the same run of hackbench with each.

Run it in a guest, as root, with the system's Python: ``PYTHONPATH=collectors python3 loaders.py``.
With ``--once``, each loader loads once, for the counts alone.
Execution breakpoints count the same run, independently of BPF. The gates of both loaders open and
close one right after the other, in the same order. It prints one JSON object to stdout::

    {"kernel": "6.1.192-tip", "seconds": {"libbpf": [1.5, 1.4, 1.5], "bcc": [25.4]},
     "functions": {"update_cfs_group": {"mechanism": "fentry/fexit", "libbpf": 55787,
                                        "bcc": 55790, "breakpoint": 55821}, …},
     "contexts": {"libbpf": {"update_cfs_group": {"enqueue": 25578, …}, …}, "bcc": {…}}}

``seconds`` are those from the start of loading until all programs are attached, of each load.
``mechanism`` is null if no program can be attached to the function, or if the loaders use different
mechanisms; then the counts of the loaders are missing. ``breakpoint`` is missing for functions
without a breakpoint.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from typing import Any

from schedperf_collectors.bpf.probes import NoPrograms, Programs
from schedperf_collectors.machine.kernel_files import KernelFunctions
from schedperf_collectors.machine.system import System
from schedperf_collectors.pelt.loader import load_programs
from schedperf_collectors.pelt.programs import (
    CONTEXTS,
    FUNCTIONS,
    OPEN_RUN,
    SLOTS,
    TRACEPOINTS,
    attach_functions,
    attach_markers,
    find_pelt_functions,
    mechanism_of,
)
from schedperf_collectors.perf.breakpoints import BreakpointCounts, breakpoints_counting

# Number of measured loads by each loader; bcc takes too long to load twice.
LOADS = {"libbpf": 3, "bcc": 1}
ONCE = {"libbpf": 1, "bcc": 1}
COMMAND = ("hackbench", "-l", "50", "-g", "2")


class Attached:
    """The PELT programs, loaded and attached by one loader.

    ``seconds`` is the time that this took; ``mechanisms`` are those of the functions by name.

    :param loader: "libbpf" or "bcc"
    :raises SystemExit: the loader cannot load the programs
    """

    def __init__(self, system: System, kernel: KernelFunctions, loader: str) -> None:
        began_s = time.monotonic()
        self.programs: Programs = load_programs(system, kernel, 1, loader).programs
        if isinstance(self.programs, NoPrograms):
            sys.exit(self.programs.why.reason)
        tried = attach_functions(self.programs, kernel)
        attach_markers(self.programs, system, kernel)
        self.seconds = time.monotonic() - began_s
        self.mechanisms = {name: mechanism_of(one) for name, one in tried.items()}

    def contexts(self, name: str) -> dict[str, int]:
        """Return the calls of a function by context, on all CPUs."""
        values = self.programs.read("calls", SLOTS.index(name)).values()
        sums = [sum(counts) for counts in zip(*(value.by_context for value in values), strict=True)]
        return dict(zip(CONTEXTS, sums, strict=True))

    def close(self) -> None:
        """Detach the programs and unload them."""
        self.programs.close()


def measure_loads(system: System, kernel: KernelFunctions, loader: str, count: int) -> list[float]:
    """Load and attach several times; return the seconds of each.

    :raises SystemExit: as in :class:`Attached`
    """
    seconds = []
    for _ in range(count):
        with closing(Attached(system, kernel, loader)) as attached:
            seconds.append(attached.seconds)
    return seconds


def count_together(attached: list[Attached], kernel: KernelFunctions) -> BreakpointCounts:
    """Run COMMAND once while all programs and breakpoints count; return the breakpoints' counts.

    :raises CalledProcessError: the command fails
    """
    addresses = {name: kernel.address(name)[0] for name in FUNCTIONS}
    known = {name: address for name, address in addresses.items() if address is not None}
    # The first write finds the map, which takes bcc some milliseconds; and no other task may run
    # between the openings of two gates.
    set_gates(attached, 0)
    first = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    os.sched_setscheduler(0, first, os.sched_param(1))
    with breakpoints_counting("perf", known) as counts:
        counts.begin()
        set_gates(attached, 1)
        subprocess.run(COMMAND, stdout=subprocess.DEVNULL, check=True)
        set_gates(attached, 0)
    return counts


def set_gates(attached: list[Attached], value: int) -> None:
    """Open (1) or close (0) the gates, one right after the other."""
    for each in attached:
        each.programs.write("gates", OPEN_RUN, value)


def main() -> None:
    """Measure, and print the JSON object."""
    system = System()
    kernel = find_pelt_functions(system)
    loads = ONCE if sys.argv[1:] == ["--once"] else LOADS
    # The last load of each loader, whose programs also count, follows below.
    seconds = {name: measure_loads(system, kernel, name, n - 1) for name, n in loads.items()}
    with ExitStack() as stack:
        attached = {
            name: stack.enter_context(closing(Attached(system, kernel, name))) for name in LOADS
        }
        counts = count_together(list(attached.values()), kernel)
        contexts = {
            name: {each: one.contexts(each) for each in (*FUNCTIONS, *TRACEPOINTS)}
            for name, one in attached.items()
        }
    for name, one in attached.items():
        seconds[name].append(one.seconds)
    functions: dict[str, dict[str, Any]] = {}
    for each in (*FUNCTIONS, *TRACEPOINTS):
        mechanisms = {one.mechanisms[each] for one in attached.values()}
        functions[each] = {"mechanism": mechanisms.pop() if len(mechanisms) == 1 else None}
        if functions[each]["mechanism"] is not None:
            functions[each].update({name: sum(contexts[name][each].values()) for name in attached})
        if each in counts.calls:
            functions[each]["breakpoint"] = sum(counts.calls[each].values())
    record = {"kernel": os.uname().release, "seconds": seconds, "functions": functions}
    print(json.dumps({**record, "contexts": contexts}))


if __name__ == "__main__":
    main()
