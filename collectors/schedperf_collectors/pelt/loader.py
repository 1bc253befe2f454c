# SPDX-License-Identifier: GPL-2.0-or-later
"""Load the BPF programs of ``bpf_pelt`` through libbpf or bcc.

libbpf loads a precompiled object (CO-RE) in less than a second, without compiler or headers. An
object loads completely or not at all, so it is opened once per mechanism; all instances share the
maps of the first. If the kernel rejects a mechanism for one function at load time, each pair is
loaded separately.

bcc compiles one text with all programs on the machine under test and needs the kernel's headers. It
is used if libbpf cannot load the object, or if the user selects it.
"""

from __future__ import annotations

import contextlib
import ctypes
import pkgutil
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedperf_collectors.bpf.bcc import compile_programs
from schedperf_collectors.bpf.libbpf import BpfObject, Candidate, raise_memlock_limit
from schedperf_collectors.bpf.objects import read_object
from schedperf_collectors.bpf.probes import NoPrograms, Programs, as_root
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.btf import MAGIC as BTF_MAGIC
from schedperf_collectors.machine.cpu import possible_cpus
from schedperf_collectors.machine.errors import explain
from schedperf_collectors.machine.kernel_files import KernelFunctions
from schedperf_collectors.machine.system import System
from schedperf_collectors.pelt.programs import (
    CONTEXTS,
    EMPTY_CALL,
    FUNCTIONS,
    MARKERS,
    NEW_TASK,
    SLOTS,
    TIMED_CALL,
    TRACEPOINTS,
    Tried,
    probed_functions,
    role_of,
)
from schedperf_collectors.plugin import Skipped

_BCC_HEADER, _BCC_SOURCE = "pelt.h", "pelt.bcc.c"
_CONTEXT_OF_ROLE = {names[0]: context for context, groups in MARKERS.items() for names in groups}
OBJECT = "pelt"
# Constants of pelt.h.
_DEEPEST_CALL, _DEEPEST_MARK, _LOG2_BINS, LINEAR_BINS = 4, 8, 32, 64


def load_pelt(system: System, kernel: KernelFunctions, sampling: int) -> Programs:
    """Load the programs for all functions that the kernel has, through libbpf.

    :param sampling: time one in this many calls
    :raises Unavailable: no libbpf, no object, the kernel rejects its tracepoint programs, or /sys
        does not list the possible CPUs
    """
    cpus = possible_cpus(system)
    return LibbpfPrograms(read_object(OBJECT), probed_functions(kernel), sampling, cpus)


def _compile_pelt(system: System, kernel: KernelFunctions, sampling: int) -> Programs:
    """Compile the programs for all functions that the kernel has, with bcc.

    :param sampling: time one in this many calls
    :raises Skipped: bcc or the kernel's headers are missing, or bcc cannot compile the programs
    """
    return compile_programs(system, program_text(kernel), {"SAMPLING": sampling})


AUTO = "auto"
TYPES = "/sys/kernel/btf/vmlinux"
LOADERS = {"libbpf": load_pelt, "bcc": _compile_pelt}


@dataclass(frozen=True)
class LoadedPrograms:
    """The programs, and how they were loaded.

    :param asked: AUTO, or the loader that the user asked for
    :param tried: why each loader failed, in the order tried; None for the loader in use
    :param no_types: what is not available because the kernel has no BTF; None if it has BTF
    """

    programs: Programs
    asked: str
    tried: Tried
    no_types: str | None = None

    @property
    def loader(self) -> str | None:
        """Return the loader in use; None if no program can be loaded."""
        return next((name for name, reason in self.tried.items() if reason is None), None)

    def describe(self) -> Mapping[str, object]:
        """Return what pelt.json has under "loader"."""
        return {
            "used": self.loader,
            "asked": self.asked,
            "tried": self.tried,
            "no_types": self.no_types,
        }

    def notes(self) -> list[str]:
        """Return a note if the preferred loader failed and another one is used; otherwise []."""
        refused = {name: reason for name, reason in self.tried.items() if reason is not None}
        if self.loader is None or not refused:
            return []
        return [f"programs loaded with {self.loader}; {_say(refused)}"]


def load_programs(
    system: System, kernel: KernelFunctions, sampling: int, asked: str
) -> LoadedPrograms:
    """Load the programs through the first loader that works, or the selected one.

    :param sampling: time one in this many calls
    :param asked: AUTO or one of LOADERS
    :return: the programs and what was tried; if every loader failed, ``programs`` is
        :class:`NoPrograms` with the reasons
    """
    no_types = why_no_types(system)
    tried: Tried = {}
    remedies: list[str] = []
    for name in LOADERS if asked == AUTO else [asked]:
        programs = _load(name, system, kernel, sampling)
        if not isinstance(programs, NoPrograms):
            tried[name] = None
            return LoadedPrograms(programs, asked, tried, no_types)
        tried[name] = programs.why.reason
        remedies.append(programs.why.remedy)
    reason = _say(tried) if asked == AUTO else str(tried[asked])
    remedy = next(filter(None, remedies), "")
    return LoadedPrograms(NoPrograms(Skipped(reason, remedy)), asked, tried, no_types)


def why_no_types(system: System) -> str | None:
    """Return what is not available if the kernel has no types (BTF); None if it has them."""
    try:
        with system.path(TYPES).open("rb") as file:
            magic = int.from_bytes(file.read(2), sys.byteorder)
    except OSError as error:
        reason = explain(error)
    else:
        reason = "no BTF data"
        if magic == BTF_MAGIC:
            return None
    return (
        f"{TYPES}: {reason}; fentry, fexit and offsets of members such as cfs_rq->rq are not "
        "available"
    )


def _load(name: str, system: System, kernel: KernelFunctions, sampling: int) -> Programs:
    try:
        return LOADERS[name](system, kernel, sampling)
    except Unavailable as error:
        return NoPrograms(Skipped(error.reason, error.remedy or as_root()))
    except Skipped as why:
        return NoPrograms(why)


def _say(refused: Mapping[str, str | None]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in refused.items())


def program_text(kernel: KernelFunctions) -> str:
    """Return the C text for bcc, with one program for each entry, exit and tracepoint."""
    parts = [_read(_BCC_SOURCE).replace(f'#include "{_BCC_HEADER}"\n', _read(_BCC_HEADER))]
    parts += [_pair_of_text(name) for name in probed_functions(kernel)]
    parts += [
        f"int count__{name}(void *ctx)\n"
        f"{{\n\tcount({SLOTS.index(name)}, OPEN_RUN);\n\treturn 0;\n}}\n"
        for name in TRACEPOINTS
    ]
    return "\n".join(parts)


def _read(name: str) -> str:
    data = pkgutil.get_data("schedperf_collectors.bpf", name)
    assert data is not None
    return data.decode()


def _pair_of_text(name: str) -> str:
    entry, end = _bodies(role_of(name))
    return (
        f"int kfunc__{name}(void *ctx)\n{{\n\treturn {entry};\n}}\n\n"
        f"int kretfunc__{name}(void *ctx)\n{{\n\treturn {end};\n}}\n"
    )


def _bodies(role: str) -> tuple[str, str]:
    """Return the C expressions whose values the programs at entry and exit return.

    :param role: from :func:`role_of`
    """
    if role == EMPTY_CALL:
        return "0", "0"
    if role == NEW_TASK:
        return "begin_fork()", "end_fork()"
    if role in FUNCTIONS or role == TIMED_CALL:
        timed = f"{SLOTS.index(role)}, {'OPEN_TRIAL' if role == TIMED_CALL else 'OPEN_RUN'}"
        return f"enter({timed})", f"leave({timed})"
    context = CONTEXTS.index(_CONTEXT_OF_ROLE[role])
    return f"mark({context})", f"unmark({context})"


class _Calls(ctypes.Structure):
    """``struct calls`` of pelt.h."""

    _fields_ = (
        ("depth", ctypes.c_uint64),
        ("start_ns", ctypes.c_uint64 * _DEEPEST_CALL),
        ("by_context", ctypes.c_uint64 * len(CONTEXTS)),
        ("timed", ctypes.c_uint64),
        ("sum_ns", ctypes.c_uint64),
        ("log2_ns", ctypes.c_uint64 * _LOG2_BINS),
        ("linear_ns", ctypes.c_uint64 * LINEAR_BINS),
        ("unpaired", ctypes.c_uint64),
        ("nested", ctypes.c_uint64),
    )


class _Marks(ctypes.Structure):
    """``struct marks`` of pelt.h."""

    _fields_ = (
        ("depth", ctypes.c_uint64),
        ("owner", ctypes.c_uint64 * _DEEPEST_MARK),
        ("context", ctypes.c_uint64 * _DEEPEST_MARK),
        ("lost", ctypes.c_uint64),
        ("forking", ctypes.c_uint64),
    )


# The maps shared by all objects, with the struct of each CPU for per-CPU maps.
MAPS: dict[str, type[ctypes.Structure] | None] = {"gates": None, "calls": _Calls, "marks": _Marks}


class LibbpfPrograms(Programs):
    """The object of one capture, opened once per mechanism.

    :param data: the object file
    :param functions: functions to attach to
    :param sampling: time one in this many calls
    :param cpus: possible CPUs in ascending order
    :raises Unavailable: no libbpf, or the kernel rejects the object's tracepoint programs
    """

    def __init__(
        self, data: bytes, functions: Sequence[str], sampling: int, cpus: Sequence[int]
    ) -> None:
        self._data, self._sampling, self._cpus = data, sampling, cpus
        self._functions = functions
        self._objects = contextlib.ExitStack()
        # For each mechanism, the object with the programs of all functions; None if rejected.
        self._loaded: dict[str, BpfObject | None] = {}
        self._first: BpfObject | None = None
        raise_memlock_limit()
        # Every kernel with BPF accepts these two; one that rejects them rejects the others too.
        self._tracepoints = self._load([_at_tracepoint(name) for name in TRACEPOINTS])

    def attach_pair(self, mechanism: str, name: str) -> None:
        pair = _entry_and_exit(mechanism, name)
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
        # The kernel returns one value per possible CPU in ascending order, without gaps.
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
                pairs = (_entry_and_exit(mechanism, name) for name in self._functions)
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


def _entry_and_exit(mechanism: str, name: str) -> tuple[Candidate, Candidate]:
    entry, end = (
        Candidate(name, f"{role_of(name)}_{each}", each, name) for each in mechanism.split("/")
    )
    return entry, end


def _at_tracepoint(name: str) -> Candidate:
    return Candidate(name, f"{name}_raw_tp", "raw_tp", name)
