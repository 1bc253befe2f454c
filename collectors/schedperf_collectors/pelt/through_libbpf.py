"""PELT's programs compiled ahead (CO-RE) and loaded through libbpf; needs no compiler, no headers.

Loading an object is all or nothing, so the object is opened once for each mechanism, and the maps
of the first are those of all. Where the kernel refuses a mechanism for one function already when
it is loaded, each pair is loaded by itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from schedperf_collectors.bpf.libbpf import BpfObject, Candidate, raise_memlock_limit
from schedperf_collectors.bpf.objects import read_object
from schedperf_collectors.bpf.probes import Programs
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.cpu import possible_cpus
from schedperf_collectors.machine.kernel_functions import KernelFunctions
from schedperf_collectors.machine.system import System
from schedperf_collectors.pelt.programs import CONTEXTS, TRACEPOINTS, probed_functions, role_of

OBJECT = "pelt"
# Of pelt.h.
DEEPEST_CALL, DEEPEST_MARK, LOG2_BINS, LINEAR_BINS = 4, 8, 32, 64


class Calls(ctypes.Structure):
    """``struct calls`` of pelt.h."""

    _fields_ = (
        ("depth", ctypes.c_uint64),
        ("start_ns", ctypes.c_uint64 * DEEPEST_CALL),
        ("by_context", ctypes.c_uint64 * len(CONTEXTS)),
        ("timed", ctypes.c_uint64),
        ("sum_ns", ctypes.c_uint64),
        ("log2_ns", ctypes.c_uint64 * LOG2_BINS),
        ("linear_ns", ctypes.c_uint64 * LINEAR_BINS),
        ("unpaired", ctypes.c_uint64),
        ("nested", ctypes.c_uint64),
    )


class Marks(ctypes.Structure):
    """``struct marks`` of pelt.h."""

    _fields_ = (
        ("depth", ctypes.c_uint64),
        ("owner", ctypes.c_uint64 * DEEPEST_MARK),
        ("context", ctypes.c_uint64 * DEEPEST_MARK),
        ("lost", ctypes.c_uint64),
        ("forking", ctypes.c_uint64),
    )


# The maps that all objects share; of per-CPU maps the struct that each CPU has.
MAPS: dict[str, type[ctypes.Structure] | None] = {"gates": None, "calls": Calls, "marks": Marks}


def load_pelt(system: System, kernel: KernelFunctions, sampling: int) -> Programs:
    """Load the programs for all functions that the kernel has.

    :param sampling: the duration of one in so many calls is taken
    :raises Unavailable: no libbpf, no object, or the kernel takes no program of it
    """
    cpus = possible_cpus(system)
    return LibbpfPrograms(read_object(OBJECT), probed_functions(kernel), sampling, cpus)


class LibbpfPrograms(Programs):
    """The object of one capture, opened as often as there are mechanisms in use.

    :param data: the object
    :param functions: those that may be attached
    :param cpus: those that the kernel may have, in ascending order
    :raises Unavailable: no libbpf, or the kernel takes no program of the object
    """

    def __init__(
        self, data: bytes, functions: Sequence[str], sampling: int, cpus: Sequence[int]
    ) -> None:
        self._data, self._sampling, self._cpus = data, sampling, cpus
        self._functions = functions
        self._objects = contextlib.ExitStack()
        # By mechanism, the object with the programs of all functions; None: refused.
        self._loaded: dict[str, BpfObject | None] = {}
        self._first: BpfObject | None = None
        raise_memlock_limit()
        # Every kernel that has BPF takes these two: where it does not, it takes no others.
        self._tracepoints = self._load([_at_tracepoint(name) for name in TRACEPOINTS])

    def attach_pair(self, mechanism: str, name: str) -> None:
        pair = _pair(mechanism, name)
        loaded = self._object_of(mechanism) or self._load(pair)
        entry, end = pair
        loaded.attach(entry)
        try:
            loaded.attach(end)
        except Unavailable:
            loaded.detach(entry)
            raise

    def attach_raw_tracepoint(self, name: str) -> None:
        self._tracepoints.attach(_at_tracepoint(name))

    def write(self, table: str, index: int, value: int) -> None:
        self._tracepoints.map(table).write(struct.pack("=I", index), struct.pack("=Q", value))

    def read(self, table: str, index: int) -> dict[int, Any]:
        data = self._tracepoints.map(table).read(struct.pack("=I", index)) or b""
        layout = MAPS[table]
        assert layout is not None
        # The kernel hands over one value for each possible CPU in ascending order, without gaps.
        size = ctypes.sizeof(layout)
        return {
            cpu: layout.from_buffer_copy(data, size * at)
            for at, cpu in enumerate(self._cpus[: len(data) // size])
        }

    def close(self) -> None:
        self._objects.close()

    def _object_of(self, mechanism: str) -> BpfObject | None:
        if mechanism not in self._loaded:
            self._loaded[mechanism] = None
            with contextlib.suppress(Unavailable):
                pairs = (_pair(mechanism, name) for name in self._functions)
                self._loaded[mechanism] = self._load([each for pair in pairs for each in pair])
        return self._loaded[mechanism]

    def _load(self, candidates: Sequence[Candidate]) -> BpfObject:
        with contextlib.ExitStack() as stack:
            loading = stack.enter_context(BpfObject(self._data, OBJECT))
            loading.set_constants(struct.pack("=I", self._sampling))
            if self._first is not None:
                for name in MAPS:
                    loading.share(name, self._first.map(name))
            loading.load(candidates)
            self._objects.enter_context(stack.pop_all())
        self._first = self._first or loading
        return loading


def _pair(mechanism: str, name: str) -> tuple[Candidate, Candidate]:
    entry, end = (
        Candidate(name, f"{role_of(name)}_{each}", each, name) for each in mechanism.split("/")
    )
    return entry, end


def _at_tracepoint(name: str) -> Candidate:
    return Candidate(name, f"{name}_raw_tp", "raw_tp", name)
