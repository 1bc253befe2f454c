# SPDX-License-Identifier: GPL-2.0-or-later
"""Name the functions of stacks that BPF programs recorded, on the machine that they ran on.

Kernel functions are those of ``/proc/kallsyms``. The kernel stores a frame of user mode as the
build id of its file and the offset in it, so that stacks of processes can be named after these have
ended. :class:`MappedFiles` finds the files of the build ids: it lists the files that processes map
while the workload runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import struct
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Optional

from schedperf_collectors.bpf.libbpf import BpfMap
from schedperf_collectors.contract import Function
from schedperf_collectors.machine.elf_symbols import BadElf, read_build_id, read_functions
from schedperf_collectors.machine.system import System

# Of workload.h: frames of a stack, and struct bpf_stack_build_id of include/uapi/linux/bpf.h.
KERNEL_FRAME, USER_FRAME = struct.Struct("=Q"), struct.Struct("=i20sQ")
# enum bpf_stack_build_id_status.
EMPTY, IN_FILE, ADDRESS_ONLY = 0, 1, 2
# Functions of BPF and of tracepoints, between the function with the tracepoint and the program.
_OF_TRACING = re.compile(r"(__)?bpf_|__traceiter_|trace_call_bpf|__probestub_")
# Innermost frames among which those functions are.
TRACING_FRAMES = 10
# A file name in /proc/PID/maps, of an executable mapping.
_MAPPED = re.compile(rb"^[0-9a-f]+-[0-9a-f]+ ..x. [0-9a-f]+ \S+ [1-9]\d* +(/.*)$", re.MULTILINE)
_TEXT = re.compile(r"^([0-9a-f]{8,16}) [tTwW] (\S+)(?:\t\[\S+\])?$", re.MULTILINE)
# Pause between two looks at all processes.
FIRST_PAUSE_S, PAUSE_S = 0.02, 0.25
MOST_FILES = 4000
BUILD_ID_DIGITS = 40
# The file of a frame of generated code; a key and a value of the map of processes.
GENERATED = "[JIT]"
PROCESS = struct.Struct("=I")
# Start, size and name; the start may have a prefix. Larger maps are cut.
_GENERATED = re.compile(
    rb"^(?:0[xX])?([0-9A-Fa-f]{1,15})[ \t]+(?:0[xX])?([0-9A-Fa-f]{1,15})[ \t]+(.+)$", re.MULTILINE
)
MOST_GENERATED_BYTES, LONGEST_NAME = 64 << 20, 512

# A frame: its function, None if unknown, and its file, None for the kernel or if unknown.
Frame = tuple[Optional[str], Optional[str]]


class KernelFunctions:
    """The functions of the running kernel and its modules.

    :param text: content of /proc/kallsyms
    """

    def __init__(self, text: str) -> None:
        found = sorted((int(address, 16), name) for address, name in _TEXT.findall(text))
        # Addresses are 0 if kernel.kptr_restrict hides them.
        found = [each for each in found if each[0]]
        self._addresses = [address for address, _ in found]
        self._names = [name for _, name in found]

    @classmethod
    def read(cls, system: System) -> KernelFunctions:
        """Return the functions of this kernel; none if they cannot be read."""
        try:
            return cls(system.path("/proc/kallsyms").read_text(errors="replace"))
        except OSError:
            return cls("")

    def __len__(self) -> int:
        return len(self._names)

    def name(self, address: int) -> str | None:
        """Return the function that contains an address; None if unknown.

        >>> KernelFunctions("ffffffff81000010 T first\\nffffffff81000020 t second").name(
        ...     0xFFFFFFFF8100001F
        ... )
        'first'
        """
        index = bisect_right(self._addresses, address) - 1
        return self._names[index] if index >= 0 else None


def symbol_addresses(text: str, names: Iterable[str]) -> dict[str, int]:
    """Return the addresses of some symbols of /proc/kallsyms by name, without missing ones."""
    found: dict[str, int] = {}
    for name in names:
        match = re.search(rf"^([0-9a-f]+) \w {re.escape(name)}$", text, re.MULTILINE)
        if match and int(match[1], 16):
            found[name] = int(match[1], 16)
    return found


class MappedFiles:
    """Lists the files with code that processes map, in a thread of its own.

    A process is looked at once for each program that it executes. A process that is shorter than
    the time between two looks is missed, but its files are found if another one maps them.
    """

    def __init__(self, system: System) -> None:
        self._proc = system.path("/proc")
        self._seen: set[tuple[str, str]] = set()
        self._paths: dict[str, None] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        """Start looking."""
        self._thread.start()

    def stop(self) -> None:
        """Look for the last time, and end the thread."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self._seen.clear()
            self._look()

    def add(self, paths: Iterable[str]) -> None:
        """Add files, such as programs that processes executed; they may be missing or relative."""
        for path in paths:
            self._paths.setdefault(os.path.abspath(path))  # noqa: PTH100 # keeps links

    def by_build_id(self, wanted: Iterable[str]) -> dict[str, str]:
        """Return the files with these build ids: path by build id."""
        missing = set(wanted)
        found: dict[str, str] = {}
        for path in list(self._paths)[:MOST_FILES]:
            if not missing:
                break
            with contextlib.suppress(BadElf, OSError):
                # The kernel pads shorter build ids with zeros, and cuts longer ones.
                build_id = (read_build_id(Path(path)) or "").ljust(BUILD_ID_DIGITS, "0")
                build_id = build_id[:BUILD_ID_DIGITS]
                if build_id in missing:
                    found[build_id] = path
                    missing.discard(build_id)
        return found

    def _follow(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stop.wait(pause_s):
            self._look()
            pause_s = min(PAUSE_S, 2 * pause_s)

    def _look(self) -> None:
        for name in os.listdir(self._proc):  # noqa: PTH208 # 10 times faster
            if not name.isdigit():
                continue
            # A process may end at any time; those of the kernel have no program.
            with contextlib.suppress(OSError):
                program = os.readlink(self._proc / name / "exe")  # noqa: PTH115 # faster
                if (name, program) not in self._seen:
                    self._seen.add((name, program))
                    self._add(self._proc / name / "maps")

    def _add(self, maps: Path) -> None:
        for path in _MAPPED.findall(maps.read_bytes()):
            self._paths.setdefault(os.fsdecode(path))


class _Functions:
    """The functions of one file with code, by offset; of generated code, by address.

    :param functions: sorted by offset, one per offset
    """

    def __init__(self, functions: Iterable[Function]) -> None:
        self._functions = list(functions)
        self._offsets = [each.offset for each in self._functions]

    @classmethod
    def of_file(cls, path: str) -> _Functions:
        """Return the functions of a file; none if it cannot be read."""
        with contextlib.suppress(BadElf, OSError):
            return cls(read_functions(Path(path)).functions)
        return cls(())

    def name(self, offset: int) -> str | None:
        """Return the function that contains an offset; None if there is none."""
        index = bisect_right(self._offsets, offset) - 1
        if index < 0:
            return None
        function = self._functions[index]
        # A function without a size ends where the next one begins.
        is_inside = not function.size or offset < function.offset + function.size
        return function.name if is_inside else None


class GeneratedCode:
    """The functions of code that processes generated, from the maps that these write for perf.

    Like perf, this reads only files of root and of the own user.

    :param processes: the process of each stack
    """

    def __init__(self, system: System, processes: BpfMap) -> None:
        self._folder = system.path("/tmp")  # noqa: S108 # where perf expects them
        self._processes = processes
        self._of_process: dict[int, _Functions] = {}

    def name(self, stack: int, address: int) -> str | None:
        """Return the function at an address of the process of a stack; None if unknown."""
        content = self._processes.read(PROCESS.pack(stack))
        process = 0 if content is None else PROCESS.unpack(content)[0]
        if process not in self._of_process:
            self._of_process[process] = _Functions(self._read(f"perf-{process}.map"))
        return self._of_process[process].name(address)

    def _read(self, name: str) -> Iterator[Function]:
        try:
            content = _read_own(self._folder / name)
        except OSError:
            return
        # The last one of several at one address counts.
        found = {int(start, 16): (size, text) for start, size, text in _GENERATED.findall(content)}
        for start in sorted(found):
            size, text = found[start]
            yield Function(start, int(size, 16), text.decode("utf-8", "replace")[:LONGEST_NAME])


def _read_own(path: Path) -> bytes:
    # The directory belongs to all users: a link may lead anywhere, and a fifo never ends.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 # of a descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()):
            raise PermissionError(path)
        return file.read(MOST_GENERATED_BYTES)


class Stacks:
    """The named stacks of one recording.

    Stacks with equal names are one stack.

    :param kernel: the map of kernel stacks
    :param user: the map of user stacks; None if there is none
    :param files: files that may contain the frames
    :param generated: names of code that processes generated
    """

    def __init__(
        self,
        kernel: BpfMap,
        user: BpfMap | None,
        functions: KernelFunctions,
        files: MappedFiles | None = None,
        generated: GeneratedCode | None = None,
    ) -> None:
        self._kernel, self._user, self._functions = kernel, user, functions
        self._files, self._generated = files, generated
        self._paths: dict[str, str] | None = None
        self._opened: dict[str, _Functions] = {}
        self._frames: dict[Frame, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._numbers: dict[tuple[bool, int], int] = {}

    def kernel(self, number: int) -> int | None:
        """Return the index of a kernel stack among the described ones; None if not recorded."""
        return self._describe(number, self._kernel, is_user=False)

    def user(self, number: int) -> int | None:
        """Return the index of a user stack among the described ones; None if not recorded."""
        return None if self._user is None else self._describe(number, self._user, is_user=True)

    def add_files(self, paths: Iterable[str]) -> None:
        """Add files that may contain user frames, before the first stack is named."""
        if self._files is not None:
            self._files.add(paths)

    def describe(self) -> dict[str, object]:
        """Return the frames, and the stacks as indexes of frames, innermost first."""
        return {
            "frames": [list(frame) for frame in self._frames],
            "stacks": [list(stack) for stack in self._stacks],
        }

    def _describe(self, number: int, stored: BpfMap, *, is_user: bool) -> int | None:
        if number < 0:
            return None
        known = self._numbers.get((is_user, number))
        if known is not None:
            return known
        content = stored.read(struct.pack("=I", number))
        if content is None:
            return None
        frames = self._user_frames(content, number) if is_user else self._kernel_frames(content)
        stack = tuple(self._frames.setdefault(frame, len(self._frames)) for frame in frames)
        index = self._stacks.setdefault(stack, len(self._stacks))
        self._numbers[is_user, number] = index
        return index

    def _kernel_frames(self, content: bytes) -> list[Frame]:
        addresses = [address for (address,) in KERNEL_FRAME.iter_unpack(content) if address]
        # All but the innermost are return addresses, which may be the first of the next function.
        names = [
            self._functions.name(address - bool(index)) for index, address in enumerate(addresses)
        ]
        return [(name, None) for name in names[_tracing(names) :]]

    def _user_frames(self, content: bytes, number: int) -> list[Frame]:
        raw = [
            (status, build_id.hex(), offset)
            for status, build_id, offset in USER_FRAME.iter_unpack(content)
            if status != EMPTY
        ]
        return [
            self._user_frame(build_id, offset - bool(index))
            if status == IN_FILE
            else self._generated_frame(number, offset - bool(index))
            for index, (status, build_id, offset) in enumerate(raw)
        ]

    def _generated_frame(self, number: int, address: int) -> Frame:
        name = None if self._generated is None else self._generated.name(number, address)
        return (None, None) if name is None else (name, GENERATED)

    def _user_frame(self, build_id: str, offset: int) -> Frame:
        path = self._path(build_id)
        if path is None:
            return None, None
        if path not in self._opened:
            self._opened[path] = _Functions.of_file(path)
        return self._opened[path].name(offset), path

    def _path(self, build_id: str) -> str | None:
        if self._paths is None:
            self._paths = {}
            if self._files is not None and self._user is not None:
                self._paths = self._files.by_build_id(_ids_of(self._user))
        return self._paths.get(build_id)


def _tracing(names: list[str | None]) -> int:
    """Return the number of innermost frames that belong to BPF and the tracepoint."""
    of_tracing = [
        index
        for index, name in enumerate(names[:TRACING_FRAMES])
        if name is not None and _OF_TRACING.match(name)
    ]
    return of_tracing[-1] + 1 if of_tracing else 0


def _ids_of(user: BpfMap) -> Iterator[str]:
    for _, content in user.items():  # noqa: PERF102 # a map has no values()
        for status, build_id, _ in USER_FRAME.iter_unpack(content):
            if status == IN_FILE:
                yield build_id.hex()
