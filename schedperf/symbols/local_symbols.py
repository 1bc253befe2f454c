# SPDX-License-Identifier: GPL-2.0-or-later
"""What names the addresses of a perf.data that comes without a bundle: this machine's own files.

A file is only believed when its build id is the recorded one. Where perf wrote no build
ids (``-z``, a pipe), the kernel is the running one if its release and the address of its
text are; other files are then found by their paths, and a note says so.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from schedperf.bundle.files import read_regular
from schedperf.kernel.kallsyms import (
    KernelSymbols,
    address_of,
    parse_kernel_symbols,
    without_modules,
)
from schedperf.kernel.user_symbols import FileSymbols, file_symbols
from schedperf.perf_data.recording import (
    CONTEXT_KERNEL,
    MODE_KERNEL,
    KernelText,
    MappedFile,
    Recording,
)
from schedperf.symbols.places import Symbols
from schedperf_collectors.contract import SYMBOLS_LIMIT_BYTES, VDSO
from schedperf_collectors.machine.elf_symbols import BadElf
from schedperf_collectors.machine.kernel_files import build_id, read_kallsyms
from schedperf_collectors.machine.system import System, attempt
from schedperf_collectors.symbols import read_file


def symbols_for_file(
    recording: Recording,
    kernel_symbols: Path | None,
    note: Callable[[str], None],
    system: System | None = None,
) -> Symbols:
    """Find what names the addresses of a recording.

    :param kernel_symbols: a System.map, kallsyms or output of ``nm vmlinux`` of the recorded
        kernel; None: the running kernel's, if it is the recorded one
    :param note: takes one sentence about what stays unresolved
    :param system: where the running kernel is asked; None: this machine
    :raises InputError: ``kernel_symbols`` cannot be read, or is not a symbol table
    """
    system = system or System()
    is_here = _is_running(recording, system)
    if kernel_symbols is not None:
        kernel: KernelSymbols | None = _given(kernel_symbols, recording.kernel)
    else:
        kernel = _running(recording, note, system, is_here=is_here)
    return Symbols(kernel, _LocalFiles(note, by_path=is_here).find)


def _given(path: Path, kernel: KernelText | None) -> KernelSymbols:
    content = read_regular(path, SYMBOLS_LIMIT_BYTES, "name a System.map or kallsyms")
    return _at_recorded_address(content.decode("utf-8", "replace"), str(path), kernel)


def _is_running(recording: Recording, system: System) -> bool:
    # Without a build id: does everything else that tells kernels and boots apart agree?
    if recording.kernel is None or recording.features.kernel_build_id:
        return False
    release, _ = attempt(system.text, "/proc/sys/kernel/osrelease")
    content, _ = attempt(read_kallsyms, system)
    if not content or not release:
        return False
    address = address_of(content.decode("utf-8", "replace"), recording.kernel.symbol)
    recorded = recording.features.os_release
    return address == recording.kernel.address and recorded in {None, release.strip()}


def _running(
    recording: Recording, note: Callable[[str], None], system: System, *, is_here: bool
) -> KernelSymbols | None:
    content, reason = _read_running(recording, system, is_here=is_here)
    if content is None:
        if _has_kernel_code(recording):
            note(f"kernel addresses stay unresolved: {reason}")
        return None
    text = content.decode("utf-8", "replace")
    return _at_recorded_address(text, "/proc/kallsyms", recording.kernel)


def _read_running(
    recording: Recording, system: System, *, is_here: bool
) -> tuple[bytes | None, str]:
    # The kallsyms of the recorded kernel, or None and why there are none.
    recorded = recording.features.kernel_build_id
    running, reason = attempt(build_id, system)
    if is_here or (recorded is not None and running == recorded):
        return attempt(read_kallsyms, system)
    of_it = f"has build id {recorded}" if recorded else "has no build id in the recording"
    own = f"has build id {running}" if running else f"does not say its own ({reason})"
    return None, f"the recorded kernel {of_it}, the running one {own}; name its symbol table"


def _has_kernel_code(recording: Recording) -> bool:
    # Of a program alone, as perf records it for users, there are no such addresses.
    memory = recording.memory
    modes = [recording.samples.mode, *([] if memory is None else [memory.mode])]
    has_samples = any(np.any(mode == MODE_KERNEL) for mode in modes)
    return has_samples or bool(np.any(recording.chains.words == CONTEXT_KERNEL))


def _at_recorded_address(text: str, label: str, kernel: KernelText | None) -> KernelSymbols:
    linked = None if kernel is None else address_of(text, kernel.symbol)
    slide = kernel.address - linked if kernel is not None and linked else 0
    return parse_kernel_symbols(without_modules(text) if slide else text, label, slide=slide)


class _LocalFiles:
    # Of many files that are not the recorded ones the first is named.

    def __init__(self, note: Callable[[str], None], *, by_path: bool) -> None:
        self._note = note
        self._by_path = by_path
        self._said: set[str] = set()

    def find(self, mapped: MappedFile) -> FileSymbols | None:
        if mapped.build_id is None and not self._by_path:
            return None
        if not mapped.path.startswith(("/", VDSO)):
            return None
        try:
            found = read_file(mapped.path)
        except BadElf as error:
            self._refuse(mapped, str(error))
            return None
        if mapped.build_id is None:
            self._say_once("by path", "perf wrote no build ids: files are those of now, by path")
        elif mapped.build_id != found.build_id:
            self._refuse(mapped, "not the file that was recorded")
            return None
        return file_symbols(found.functions)

    def _refuse(self, mapped: MappedFile, reason: str) -> None:
        self._say_once(
            "refused",
            f"{mapped.path}: {reason}; its addresses stay unresolved, as do those of other files "
            "like it",
        )

    def _say_once(self, what: str, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._note(text)
