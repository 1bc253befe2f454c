# SPDX-License-Identifier: GPL-2.0-or-later
"""Load BPF objects through ``libbpf.so.1`` and read their maps.

A kernel may reject one kind of program and accept others, and an object loads completely or not at
all. Each program therefore has *candidates*, the ways it can be attached; :func:`load_what_works`
uses the first one that works and records why programs without such a candidate failed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import resource
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Optional

from schedperf_collectors.bpf._libbpf_library import load_library, log
from schedperf_collectors.bpf.probes import NO_KPROBES, group_refusals, lacks_kprobes
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import unavailable

# enum bpf_map_type of include/uapi/linux/bpf.h: PERCPU_HASH, PERCPU_ARRAY, LRU_PERCPU_HASH.
PERCPU_MAP_TYPES = (5, 6, 10)
# struct bpf_prog_info of the same file: u64 run_time_ns, run_cnt (Linux 5.1) and recursion_misses
# (5.12), with which it ended then.
INFO = struct.Struct("=192xQQQ")
# enum bpf_stats_type: BPF_STATS_RUN_TIME.
RUN_TIME = 0

# "mechanism", "function" and "reason" of each slot, as in placement.json.
Programs = dict[str, dict[str, Optional[str]]]


class NothingWorks(Unavailable):
    """No program of an object can be loaded and attached.

    :param label: name of the object, for the message
    :param programs: by slot, why its programs failed
    """

    def __init__(self, label: str, programs: Programs) -> None:
        reasons = [str(program["reason"]) for program in programs.values()]
        super().__init__(
            f"{label}: {next(iter(reasons), 'no BPF program was passed to the loader')}"
        )
        self.programs = programs


@dataclass(frozen=True)
class Candidate:
    """One way to attach one program.

    :param slot: purpose of the program; one candidate per slot is used
    :param program: the C function's name
    :param mechanism: "tp_btf", "raw_tp", "fentry", "fexit", "kprobe" or "kretprobe"
    :param function: the tracepoint, or the function of the kernel that it is attached to
    """

    slot: str
    program: str
    mechanism: str
    function: str


@dataclass(frozen=True)
class Loaded:
    """An object with attached programs.

    :param programs: by slot, the attached program, or why none is attached
    """

    object: BpfObject
    programs: Programs


class BpfMap:
    """One map of a loaded object; all keys and values are bytes as C lays them out.

    :ivar fd: its descriptor, which the object closes
    :ivar value_size: size of one value in bytes; a per-CPU map has one value for each possible CPU,
        each rounded up to 8 bytes
    """

    def __init__(self, library: Any, handle: int, name: str) -> None:
        self._library = library
        self._name = name
        self.fd: int = library.bpf_map__fd(handle)
        self.key_size: int = library.bpf_map__key_size(handle)
        self.value_size: int = library.bpf_map__value_size(handle)
        self.max_entries: int = library.bpf_map__max_entries(handle)
        self._read_size = self.value_size
        if library.bpf_map__type(handle) in PERCPU_MAP_TYPES:
            self._read_size = -(-self.value_size // 8) * 8 * library.libbpf_num_possible_cpus()

    def read(self, key: bytes) -> bytes | None:
        """Return the value of a key (per-CPU maps: the values of all CPUs); None if missing.

        :raises ValueError: the key has the wrong size
        :raises Unavailable: the kernel refuses
        """
        self._check(len(key), self.key_size)
        value = ctypes.create_string_buffer(self._read_size)
        answer = self._library.bpf_map_lookup_elem(self.fd, key, value)
        return value.raw if self._found(answer, "read") else None

    def write(self, key: bytes, value: bytes) -> None:
        """Set the value of a key (per-CPU maps: the values of all CPUs).

        :raises ValueError: the key or the value has the wrong size
        :raises Unavailable: the kernel refuses
        """
        self._check(len(key), self.key_size)
        self._check(len(value), self._read_size)
        answer = self._library.bpf_map_update_elem(self.fd, key, value, 0)
        if answer < 0:
            raise Unavailable(f"BPF map {self._name!r} cannot be written: {_errno_text(answer)}")

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values, as :meth:`read` returns them.

        If entries are added or deleted meanwhile, some may be missed or yielded twice.

        :raises Unavailable: the kernel refuses
        """
        key = None
        following = ctypes.create_string_buffer(self.key_size)
        # At most as many keys as the map can contain: the iteration restarts if its key is deleted.
        for _ in range(self.max_entries):
            answer = self._library.bpf_map_get_next_key(self.fd, key, following)
            if not self._found(answer, "next key"):
                return
            key = following.raw
            value = self.read(key)
            if value is not None:
                yield key, value

    def mapped(self) -> mmap.mmap:
        """Return the values of a mappable array as shared memory, each rounded up to 8 bytes.

        :raises Unavailable: the kernel refuses
        """
        size = self.max_entries * (-(-self.value_size // 8) * 8)
        try:
            return mmap.mmap(self.fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
        except OSError as error:
            raise unavailable(f"BPF map {self._name!r}: mmap", error) from error

    def _found(self, answer: int, action: str) -> bool:
        if answer >= 0:
            return True
        if answer == -errno.ENOENT:
            return False
        raise Unavailable(f"BPF map {self._name!r}: {action}: {_errno_text(answer)}")

    def _check(self, size: int, expected: int) -> None:
        if size != expected:
            raise ValueError(
                f"BPF map {self._name!r}: key or value of {size} bytes (expected {expected} bytes)"
            )


class BpfObject:
    """An opened object file; a context manager that unloads it at the end.

    :param data: the ELF file, as clang writes it for the target bpf
    :param label: name in messages; the names of .rodata and .bss in the kernel start with it
    :raises Unavailable: libbpf cannot be loaded, or the file is not a BPF object
    """

    def __init__(self, data: bytes, label: str) -> None:
        self._library = load_library()
        self._label = label
        self._links: dict[str, int] = {}
        self._timing: int | None = None
        # libbpf reads the file from this memory until it is loaded.
        self._data = data
        name = ctypes.create_string_buffer(label.encode())
        options = struct.pack("@NP", struct.calcsize("@NP"), ctypes.addressof(name))
        with log.capturing():
            self._handle = self._library.bpf_object__open_mem(data, len(data), options)
            if not self._handle:
                raise Unavailable(f"{label}: {log.explain(ctypes.get_errno())}")
        self._programs = dict(self._list_programs())

    def __enter__(self) -> BpfObject:  # noqa: PYI034 # Self came with Python 3.11
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Detach all programs and remove them and the maps; a second call does nothing."""
        for link in self._links.values():
            self._library.bpf_link__destroy(link)
        self._links.clear()
        if self._handle:
            self._library.bpf_object__close(self._handle)
        self._handle = None

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the names of its programs."""
        return tuple(self._programs)

    def resize(self, name: str, max_entries: int) -> None:
        """Set how many entries a map has, before loading.

        :raises Unavailable: the object lacks the map, or libbpf refuses
        """
        self._demand(
            self._library.bpf_map__set_max_entries(self._find_map(name), max_entries), name
        )

    def share(self, name: str, shared: BpfMap) -> None:
        """Replace a map by that of another object, before loading.

        :raises Unavailable: the object lacks the map, or the map is of another kind
        """
        self._demand(self._library.bpf_map__reuse_fd(self._find_map(name), shared.fd), name)

    def set_constants(self, data: bytes) -> None:
        """Set the ``const volatile`` variables before loading.

        The verifier treats them as constants.

        :param data: contents of the section .rodata
        :raises Unavailable: the object lacks this section, or it has another size
        """
        handle = self._find_map(".rodata")
        answer = self._library.bpf_map__set_initial_value(handle, data, len(data))
        self._demand(answer, f"cannot set the {len(data)} bytes of .rodata")

    def load(self, candidates: Sequence[Candidate]) -> None:
        """Load these programs and no others.

        :raises Unavailable: the kernel refuses one of them, or lacks the function of an fentry or
            fexit program
        """
        programs_used = {candidate.program for candidate in candidates}
        with log.capturing():
            for name, program in self._programs.items():
                self._library.bpf_program__set_autoload(program, name in programs_used)
            for candidate in candidates:
                if candidate.mechanism in ("fentry", "fexit"):
                    self._retarget(candidate)
            answer = self._library.bpf_object__load(self._handle)
            if answer < 0:
                raise Unavailable(log.explain(-answer))

    def _retarget(self, candidate: Candidate) -> None:
        program = self._program(candidate)
        target = candidate.function.encode()
        answer = self._library.bpf_program__set_attach_target(program, 0, target)
        if answer < 0:
            raise Unavailable(f"{candidate.function}: {log.explain(-answer)}")

    def attach(self, candidate: Candidate) -> None:
        """Attach a loaded program.

        :raises Unavailable: the kernel refuses, or the object lacks the program
        """
        program = self._program(candidate)
        with log.capturing():
            is_probe = candidate.mechanism in ("kprobe", "kretprobe")
            if is_probe:
                link = self._library.bpf_program__attach_kprobe(
                    program, candidate.mechanism == "kretprobe", candidate.function.encode()
                )
            else:
                link = self._library.bpf_program__attach(program)
            if not link:
                said = log.explain(ctypes.get_errno())
                raise Unavailable(NO_KPROBES if is_probe and lacks_kprobes() else said)
        self._links[candidate.program] = link

    def detach(self, candidate: Candidate) -> None:
        """Detach an attached program; it stays loaded."""
        self._library.bpf_link__destroy(self._links.pop(candidate.program))

    def map(self, name: str) -> BpfMap:
        """Return a map of the loaded object; ".bss" holds the global variables.

        :raises Unavailable: the object lacks the map
        """
        return BpfMap(self._library, self._find_map(name), name)

    def set_gate(self, *, is_open: bool) -> None:
        """Start or stop counting in the programs that test ``is_open``, their only variable.

        :raises Unavailable: the kernel refuses, or the object has no variables
        """
        self.map(".bss").write(struct.pack("=I", 0), struct.pack("=I", int(is_open)))

    def misses(self) -> dict[str, int]:
        """Return by program how often the kernel skipped it to avoid recursion, without zeros.

        The result is empty on kernels before 5.12, which do not count this.
        """
        counts = {name: self._info_of(self._programs[name])[2] for name in self._links}
        return {name: count for name, count in counts.items() if count}

    def costs(self) -> dict[str, tuple[int, int]]:
        """Return by program the number of its calls, and their time in ns, while timed."""
        infos = {name: self._info_of(self._programs[name]) for name in self._links}
        return {name: (calls, ns) for name, (ns, calls, _) in infos.items()}

    def start_timing(self) -> None:
        """Let the kernel count and time the calls of all BPF programs (Linux 5.8).

        :raises Unavailable: the kernel refuses
        """
        descriptor = self._library.bpf_enable_stats(RUN_TIME)
        if descriptor < 0:
            raise Unavailable(f"{self._label}: {os.strerror(-descriptor)}")
        self._timing = descriptor

    def stop_timing(self) -> None:
        """End what :meth:`start_timing` started, if it did."""
        if self._timing is not None:
            os.close(self._timing)
            self._timing = None

    def _info_of(self, program: int) -> tuple[int, int, int]:
        # Time in ns and number of the calls, and of those that were skipped.
        info = ctypes.create_string_buffer(INFO.size)
        size = ctypes.c_uint32(INFO.size)
        descriptor = self._library.bpf_program__fd(program)
        answer = self._library.bpf_obj_get_info_by_fd(descriptor, info, ctypes.byref(size))
        # Older kernels return a shorter struct; the rest stays 0.
        return INFO.unpack(info.raw) if answer >= 0 else (0, 0, 0)

    def _list_programs(self) -> Iterator[tuple[str, int]]:
        program = None
        while True:
            program = self._library.bpf_object__next_program(self._handle, program)
            if not program:
                return
            yield self._library.bpf_program__name(program).decode(), program

    def _program(self, candidate: Candidate) -> int:
        if candidate.program not in self._programs:
            raise Unavailable(f"{self._label}: no BPF program {candidate.program!r}")
        return self._programs[candidate.program]

    def _find_map(self, name: str) -> int:
        handle: int | None = self._library.bpf_object__find_map_by_name(self._handle, name.encode())
        if not handle:
            raise Unavailable(f"{self._label}: no BPF map {name!r}")
        return handle

    def _demand(self, answer: int, what: str) -> None:
        if answer < 0:
            raise Unavailable(f"{self._label}: {what}: {_errno_text(answer)}")


def load_what_works(
    data: bytes,
    label: str,
    candidates: Sequence[Candidate],
    prepare: Callable[[BpfObject], None],
) -> Loaded:
    """Load an object and attach, for each slot, the first of its candidates that works.

    :param candidates: candidates; those of one slot are in order of preference
    :param prepare: function that sets sizes and constants of the opened object; called for each
        attempt
    :raises NothingWorks: every candidate fails, e.g. because libbpf is missing, or there is none
    :raises Unavailable: each of the chosen candidates works, but not all together
    """
    raise_memlock_limit()
    preferred: dict[str, Candidate] = {}
    for candidate in candidates:
        preferred.setdefault(candidate.slot, candidate)
    if not candidates:
        raise NothingWorks(label, {})
    # If the kernel accepts all preferred candidates, one load is enough.
    with contextlib.suppress(Unavailable):
        return _start(data, label, list(preferred.values()), prepare, {})
    chosen: dict[str, Candidate] = {}
    refusals: dict[str, dict[str, str]] = {candidate.slot: {} for candidate in candidates}
    for candidate in candidates:
        if candidate.slot not in chosen:
            refusal = _refusal(data, label, candidate, prepare)
            if refusal is None:
                chosen[candidate.slot] = candidate
            else:
                refusals[candidate.slot][candidate.mechanism] = refusal
    refused: Programs = {
        slot: {"mechanism": None, "function": None, "reason": group_refusals(refusals[slot])}
        for slot in refusals
        if slot not in chosen
    }
    if not chosen:
        raise NothingWorks(label, refused)
    return _start(data, label, list(chosen.values()), prepare, refused)


def _start(
    data: bytes,
    label: str,
    candidates: Sequence[Candidate],
    prepare: Callable[[BpfObject], None],
    refused: Programs,
) -> Loaded:
    programs = dict(refused)
    with contextlib.ExitStack() as stack:
        loading = stack.enter_context(BpfObject(data, label))
        prepare(loading)
        loading.load(candidates)
        for each in candidates:
            loading.attach(each)
            programs[each.slot] = {
                "mechanism": each.mechanism,
                "function": each.function,
                "reason": None,
            }
        stack.pop_all()
    return Loaded(loading, programs)


def _refusal(
    data: bytes, label: str, candidate: Candidate, prepare: Callable[[BpfObject], None]
) -> str | None:
    """Try to load and attach one program; return the error, None on success."""
    try:
        _start(data, label, [candidate], prepare, {}).object.close()
    except Unavailable as error:
        return error.reason
    return None


def raise_memlock_limit() -> None:
    """Raise RLIMIT_MEMLOCK so that maps can be created; do nothing if that is not allowed."""
    # Before "bpf: Eliminate rlimit-based memory accounting" (v5.11) maps count as locked memory. If
    # the limit cannot be raised, the kernel's answer shows whether that matters.
    with contextlib.suppress(OSError, ValueError):
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, unlimited)


def _errno_text(answer: int) -> str:
    return os.strerror(-answer).lower()
