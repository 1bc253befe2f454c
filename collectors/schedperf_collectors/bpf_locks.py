# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure how long the workload's tasks wait for locks of the kernel, by lock and stack.

``locks.json`` contains the waits between the tracepoints contention_begin and contention_end::

    {"schema": "schedperf/bpf_locks/1", "seconds": 1.2, "programs": {…},
     "frames": [["rwsem_down_write_slowpath", null], …], "stacks": [[0, 3, 7], …],
     "rows": [{"lock": "mmap_lock", "flags": 4, "node": 0, "stack": 0,
               "owner": "hackbench", "owner_stack": 4, "count": 17, "ns": 185000,
               "max_ns": 97310, "bins": [[40, 17]]}, …],
     "lost": {}, "notes": []}

Only waits that began and ended during the run count. ``lock`` is "mmap_lock" or "siglock" for those
of the waiting task, the symbol of a static lock, and otherwise null: then the stack says which
function wanted it. Flags are those of the tracepoint (include/trace/events/lock.h); a mutex that
spins first has one wait, with the flags of its beginning. ``owner`` is the command of the task that
released the lock and so woke the waiting one, the last time, with its stack; null for spinlocks,
and for waits in which the task did not sleep. Stacks are indexes of frames (function, and file,
null for the kernel), innermost first. Bins are 64 ns wide up to 512 ns, then 8 in each power of
two.
"""

from __future__ import annotations

import contextlib
import json
import struct
from bisect import bisect_right
from collections.abc import Generator
from typing import Any

from schedperf_collectors.bpf.stacks import Stacks, symbol_addresses
from schedperf_collectors.bpf.workload import (
    CONSTANTS,
    Row,
    WorkloadPrograms,
    capture_workload,
    describe_durations,
    lost_of,
    merge_rows,
)
from schedperf_collectors.machine.system import System
from schedperf_collectors.perf_header import text_until_nul
from schedperf_collectors.plugin import Capture, collector

SCHEMA = "schedperf/bpf_locks/1"
FILE_NAME = "locks.json"
TRACEPOINTS = ("contention_begin", "contention_end", "sched_waking")
# struct lock_key and enum known of locks.bpf.c.
KEY = struct.Struct("=QIIiIiI16s")
KNOWN = {1: "mmap_lock", 2: "siglock"}
STATIC = 3
FACTS = ("nested", "full", "no_stack")
LOST = {
    "nested": "waits for a spinlock in an interrupt of another such wait",
    "full": "waits for which the maps had no room",
    "no_stack": "stacks that were not stored",
}
# The first and the last symbol of the kernel's image.
IMAGE = ("_text", "_end")


@collector(
    scope="run",
    intrusive=True,
    default=False,
    cost="2 to 9 us per wait for a lock, most of it during the wait, and 0.1 to 0.5 us per wakeup "
    "of any task; 0.3 to 3 s to load; 27 MiB of kernel memory",
)
def bpf_locks(capture: Capture) -> Generator[str, None, None]:
    """Measure how long the workload's tasks wait for locks of the kernel."""
    symbols = Symbols()
    document = yield from capture_workload(
        capture,
        lambda system, recorder: _load(system, recorder, symbols),
        lambda programs, stacks: _describe(programs, stacks, symbols),
    )
    (capture.folder / FILE_NAME).write_text(json.dumps({"schema": SCHEMA, **document}) + "\n")


class Symbols:
    """The names of static locks: the data symbols of the kernel's image.

    They are known if the kernel lists them (CONFIG_KALLSYMS_ALL).
    """

    def __init__(self) -> None:
        self.low = self.high = 0
        self._symbols: list[tuple[int, str]] = []

    def read(self, text: str) -> None:
        """Read /proc/kallsyms."""
        image = symbol_addresses(text, IMAGE)
        if len(image) < len(IMAGE):
            return
        self.low, self.high = (image[name] for name in IMAGE)
        for line in text.splitlines():
            address, kind, name = line.split()[:3]
            if kind in "bBdDrR":
                self._symbols.append((int(address, 16), name))
        self._symbols.sort()

    def name(self, address: int) -> str | None:
        """Return the variable that contains an address; None if unknown."""
        index = bisect_right(self._symbols, (address, "\U0010ffff")) - 1
        return self._symbols[index][1] if index >= 0 else None


def _load(system: System, recorder: int, symbols: Symbols) -> WorkloadPrograms:
    # Without symbols, static locks are named as others are.
    with contextlib.suppress(OSError):
        symbols.read(system.path("/proc/kallsyms").read_text(errors="replace"))
    constants = CONSTANTS.pack(recorder, 0, 0, symbols.low, symbols.high)
    return WorkloadPrograms("locks", TRACEPOINTS, constants)


def _describe(programs: WorkloadPrograms, stacks: Stacks, symbols: Symbols) -> dict[str, Any]:
    rows: list[Row] = []
    for key, content in programs.map("locks").items():
        address, known, flags, stack, node, owner_stack, is_released, owner = KEY.unpack(key)
        rows.append(
            {
                "lock": symbols.name(address) if known == STATIC else KNOWN.get(known),
                "flags": flags,
                "node": node,
                "stack": stacks.kernel(stack),
                "owner": text_until_nul(owner) if is_released else None,
                "owner_stack": stacks.kernel(owner_stack),
                **describe_durations(content),
            }
        )
    facts = programs.facts(FACTS)
    return {
        "rows": merge_rows(rows, ()),
        "lost": {**lost_of(facts, LOST), **programs.misses()},
    }
