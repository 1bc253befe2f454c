# SPDX-License-Identifier: GPL-2.0-or-later
"""Run BPF programs that count only the tasks of the workload, by stack (``workload.h``)."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Callable

from schedperf_collectors.bpf.libbpf import BpfMap, BpfObject, Candidate, load_what_works
from schedperf_collectors.bpf.objects import read_object
from schedperf_collectors.bpf.stacks import GeneratedCode, KernelFunctions, MappedFiles, Stacks
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.before_command import children_of, find_setup
from schedperf_collectors.machine.pid_namespace import global_pid
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped

# struct constants, struct control and struct durations of workload.h.
CONSTANTS, CONTROL = struct.Struct("=IIQQQ"), struct.Struct("=IIQ")
BINS = 256
DURATIONS = struct.Struct(f"=QQQ{BINS}I")
U32 = struct.Struct("=I")

Row = dict[str, Any]
# Returns the rows and further fields of the document.
Describe = Callable[["WorkloadPrograms", Stacks], dict[str, Any]]


class WorkloadPrograms:
    """Loaded programs at BTF tracepoints, which count nothing until :meth:`open_gate`.

    :param name: name of the BPF object
    :param tracepoints: all of them are needed
    :param constants: fields of struct constants
    :ivar attached: as in waits.json of bpf_account
    :raises Unavailable: libbpf or the compiled BPF object is missing, or the kernel rejects a
        program
    """

    def __init__(self, name: str, tracepoints: Sequence[str], constants: bytes) -> None:
        self._constants = constants
        candidates = [Candidate(each, f"{each}_btf", "tp_btf", each) for each in tracepoints]
        loaded = load_what_works(read_object(name), name, candidates, self._prepare)
        self._object = loaded.object
        self.attached = loaded.programs
        for each, program in self.attached.items():
            if program["reason"] is not None:
                self.close()
                raise Unavailable(f"{each}: {program['reason']}")

    def _prepare(self, loading: BpfObject) -> None:
        loading.set_constants(self._constants)

    def open_gate(self, setup: int) -> None:
        """Start counting.

        :param setup: pid of the process that becomes the command; 0 if it does not exist yet
        :raises Unavailable: the kernel refuses
        """
        # Without the kernel's timing, the cost is unknown and the run is recorded all the same.
        with contextlib.suppress(Unavailable):
            self._object.start_timing()
        self._object.map(".bss").write(U32.pack(0), CONTROL.pack(1, setup, time.monotonic_ns()))

    def close_gate(self) -> None:
        """Stop counting.

        :raises Unavailable: the kernel refuses
        """
        self._object.map(".bss").write(U32.pack(0), CONTROL.pack(0, 0, 0))
        self._object.stop_timing()

    def close(self) -> None:
        """Detach the programs."""
        self._object.stop_timing()
        self._object.close()

    def map(self, name: str) -> BpfMap:
        """Return a map of the object."""
        return self._object.map(name)

    def facts(self, names: Sequence[str]) -> dict[str, int]:
        """Return the numbers of struct facts, summed over the CPUs.

        :raises Unavailable: the kernel refuses to read the map
        """
        per_cpu = struct.Struct(f"={len(names)}Q").iter_unpack(
            self.map("facts").read(U32.pack(0)) or b""
        )
        return dict(zip(names, map(sum, zip(*per_cpu))))

    def costs(self) -> dict[str, dict[str, int]]:
        """Return the number and the time in ns of the calls of each program, while counting."""
        return {
            program.removesuffix("_btf"): {"calls": calls, "ns": ns}
            for program, (calls, ns) in self._object.costs().items()
            if calls
        }

    def misses(self) -> dict[str, int]:
        """Return the number of events that the kernel did not report to a program."""
        return {f"calls of {name}": count for name, count in self._object.misses().items()}


def capture_workload(
    capture: Capture,
    load: Callable[[System, int], WorkloadPrograms],
    describe: Describe,
) -> Generator[str, None, dict[str, Any]]:
    """Count during a run, and return the document.

    :param load: returns the programs; called with the pid of the recorder in the initial pid
        namespace
    :raises Skipped: BPF is not available, or this is a pid namespace
    """
    system = System()
    recorder = global_pid(system, capture.workload_pid)
    if not recorder:
        raise Skipped("the workload's tasks cannot be identified inside a pid namespace")
    try:
        programs = load(system, recorder)
    except Unavailable as error:
        remedy = error.remedy or ("" if os.geteuid() == 0 else "run as root")
        raise Skipped(error.reason, remedy) from error
    files = MappedFiles(system)
    try:
        earlier = children_of(system, recorder)
        yield PREPARED
        setup = find_setup(system, recorder, earlier)
        files.start()
        programs.open_gate(0 if setup is None else setup.pid)
        began_s = time.monotonic()
        yield BEGUN
        programs.close_gate()
        seconds = time.monotonic() - began_s
        files.stop()
        functions = KernelFunctions.read(system)
        stacks = Stacks(
            programs.map("kernel_stacks"),
            programs.map("user_stacks"),
            functions,
            files,
            GeneratedCode(system, programs.map("user_stack_processes")),
        )
        notes = [] if len(functions) else ["kernel functions are unknown: /proc/kallsyms is hidden"]
        described = describe(programs, stacks)
        return {
            "seconds": seconds,
            "programs": programs.attached,
            "costs": programs.costs(),
            **stacks.describe(),
            **described,
            "notes": notes,
        }
    finally:
        files.stop()
        programs.close()


def describe_durations(content: bytes) -> Row:
    """Return the fields of struct durations: count, ns, max_ns and bins (pairs)."""
    count, ns, max_ns, *bins = DURATIONS.unpack(content)
    return {
        "count": count,
        "ns": ns,
        "max_ns": max_ns,
        "bins": [[index, number] for index, number in enumerate(bins) if number],
    }


def merge_rows(rows: Sequence[Row], sums: Sequence[str]) -> list[Row]:
    """Merge rows with equal keys: their stacks have the same names.

    :param sums: further fields that are added
    """
    added = ("count", "ns", *sums)
    merged: dict[tuple[tuple[str, Any], ...], Row] = {}
    for row in rows:
        key = tuple(
            (name, value) for name, value in row.items() if name not in (*added, "max_ns", "bins")
        )
        before = merged.get(key)
        if before is None:
            merged[key] = row
            continue
        for name in added:
            before[name] = None if row[name] is None else before[name] + row[name]
        before["max_ns"] = max(before["max_ns"], row["max_ns"])
        before["bins"] = _add_bins(before["bins"], row["bins"])
    return sorted(merged.values(), key=lambda row: -row["ns"])


def _add_bins(first: list[list[int]], second: list[list[int]]) -> list[list[int]]:
    counts: dict[int, int] = {}
    for index, number in (*first, *second):
        counts[index] = counts.get(index, 0) + number
    return [[index, counts[index]] for index in sorted(counts)]


def lost_of(facts: Mapping[str, int], names: Mapping[str, str]) -> dict[str, int]:
    """Return the facts that are losses, without zeros.

    :param names: what was lost, by fact
    """
    return {text: facts[fact] for fact, text in names.items() if facts.get(fact)}
