# SPDX-License-Identifier: GPL-2.0-or-later
"""Find symbols for a perf.data without a bundle, from the files of this machine.

A file is used only if its build id is the recorded one. If perf wrote no build ids (``-z``, a
pipe), the running kernel is used if its release and text address match, and other files are then
found by path, which adds a note.
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
    """Return the symbols for the addresses of a recording.

    :param kernel_symbols: a System.map, kallsyms or output of ``nm vmlinux`` of the recorded
        kernel; None: the running kernel's, if it is the recorded kernel
    :param note: called with a sentence for each unresolved part
    :param system: system of the running kernel; None: this machine
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
    content = read_regular(path, SYMBOLS_LIMIT_BYTES, "give a System.map or kallsyms")
    return _at_recorded_address(content.decode("utf-8", "replace"), str(path), kernel)


def _is_running(recording: Recording, system: System) -> bool:
    # Without a build id: compare the release and the text address instead.
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
    """Return kallsyms of the recorded kernel, or None and the reason."""
    recorded = recording.features.kernel_build_id
    running, reason = attempt(build_id, system)
    if is_here or (recorded is not None and running == recorded):
        return attempt(read_kallsyms, system)
    recorded_id = recorded or "not recorded"
    running_id = running or f"unknown ({reason})"
    return None, (
        f"build id of the recorded kernel is {recorded_id}, of the running kernel {running_id}; "
        "give the symbol table of the recorded kernel"
    )


def _has_kernel_code(recording: Recording) -> bool:
    # A recording of user space only has no kernel addresses.
    memory = recording.memory
    modes = [recording.samples.mode, *([] if memory is None else [memory.mode])]
    has_samples = any(np.any(mode == MODE_KERNEL) for mode in modes)
    return has_samples or bool(np.any(recording.chains.words == CONTEXT_KERNEL))


def _at_recorded_address(text: str, label: str, kernel: KernelText | None) -> KernelSymbols:
    linked = None if kernel is None else address_of(text, kernel.symbol)
    slide = kernel.address - linked if kernel is not None and linked else 0
    return parse_kernel_symbols(without_modules(text) if slide else text, label, slide=slide)


class _LocalFiles:
    """Finds symbols in local files; notes only the first file that does not match."""

    def __init__(self, note: Callable[[str], None], *, by_path: bool) -> None:
        self._note = note
        self._by_path = by_path
        self._noted: set[str] = set()

    def find(self, mapped: MappedFile) -> FileSymbols | None:
        if mapped.build_id is None and not self._by_path:
            return None
        if not mapped.path.startswith(("/", VDSO)):
            return None
        try:
            symbols = read_file(mapped.path)
        except BadElf as error:
            self._refuse(mapped, str(error))
            return None
        if mapped.build_id is None:
            self._note_once(
                "by path",
                "perf.data does not record build ids: symbols are read from the files that now "
                "have the recorded paths",
            )
        elif mapped.build_id != symbols.build_id:
            self._refuse(mapped, "build id differs from perf.data")
            return None
        return file_symbols(symbols.functions)

    def _refuse(self, mapped: MappedFile, reason: str) -> None:
        self._note_once(
            "refused",
            f"{mapped.path}: {reason}; addresses in this and similar files stay unresolved",
        )

    def _note_once(self, kind: str, text: str) -> None:
        if kind not in self._noted:
            self._noted.add(kind)
            self._note(text)
