# SPDX-License-Identifier: GPL-2.0-or-later
"""Find symbols for a perf.data without a bundle, from the files of this machine.

A mapped file, or the running kernel, is used only if its build id is the recorded one. If perf
wrote no build ids (``-B``, ``-z``, or perf was killed), addresses stay unresolved and a note says
so. A symbol table that the user names is used without this check. ``/tmp/perf-PID.map`` files,
which have no build id, are used only if the recorded kernel is running.
"""

from collections.abc import Callable
from pathlib import Path

from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.kernel.kallsyms import (
    KernelSymbols,
    address_of,
    parse_kernel_symbols,
    without_generated_code,
    without_modules,
)
from schedperf.inputs.kernel.user_symbols import (
    FileSymbols,
    file_symbols,
    read_generated_symbols,
)
from schedperf.inputs.perf_data.recording import KernelText, MappedFile, Recording
from schedperf.inputs.symbols.places import Symbols, dso_name, maps_modules
from schedperf.inputs.symbols.recorded_kernel import (
    WITHOUT_BUILD_IDS,
    has_kernel_code,
    why_other_kernel,
)
from schedperf.model.errors import InputError
from schedperf.model.place import is_jit
from schedperf_collectors.contract import SYMBOLS_LIMIT_BYTES, VDSO, Unavailable
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
        kernel; None to use those of the running kernel if it is the recorded one
    :param note: called with a sentence for each part that is unresolved or may be wrong; of the
        mapped files, only for the first with each problem
    :param system: system of the running kernel; None for this machine
    :raises InputError: ``kernel_symbols`` cannot be read, or is not a symbol table
    """
    system = system or System()
    if kernel_symbols is not None:
        kernel: KernelSymbols | None = _given(kernel_symbols, recording.kernel, note)
    else:
        kernel = _running(recording, note, system)
    return Symbols(kernel, _LocalFiles(recording, note, system).find)


def _given(path: Path, kernel: KernelText | None, note: Callable[[str], None]) -> KernelSymbols:
    content = read_regular(path, SYMBOLS_LIMIT_BYTES, "a System.map or kallsyms")
    text = content.decode("utf-8", "replace")
    slide = _slide(text, kernel)
    if slide is None:
        symbol = "kernel's address" if kernel is None else f"address of {kernel.symbol!r}"
        lacking = "perf.data" if kernel is None else str(path)
        note(
            f"{lacking} does not contain the {symbol}, so addresses of {path} are used unchanged; "
            "names are wrong if KASLR moved the kernel"
        )
    return _moved(text, str(path), slide or 0)


def _running(
    recording: Recording, note: Callable[[str], None], system: System
) -> KernelSymbols | None:
    try:
        text, slide = _read_running(recording, system)
    except Unavailable as error:
        if has_kernel_code(recording):
            note(
                f"kernel addresses stay unresolved, because {error.reason}; pass the symbol "
                "table of "
                "the recorded kernel with --symbols"
            )
        return None
    # BPF programs and trampolines change while a kernel runs; perf.data records them. Modules may
    # have had other addresses in an earlier boot.
    text = without_generated_code(text) if maps_modules(recording) else without_modules(text)
    return _moved(text, "/proc/kallsyms", slide)


def _read_running(recording: Recording, system: System) -> tuple[str, int]:
    """Return kallsyms of the running kernel, and the slide to the recorded addresses, in bytes.

    :raises Unavailable: the running kernel is not known to be the recorded one, its addresses are
        hidden, or the recording lacks the kernel's address
    """
    running, reason = attempt(build_id, system)
    other = why_other_kernel(recording, running, "of the running kernel")
    if other is not None:
        is_known = running is not None or recording.kernel_build_id is None
        raise Unavailable(other if is_known else f"{other} ({reason})")
    text = read_kallsyms(system).decode("utf-8", "replace")
    slide = _slide(text, recording.kernel)
    if slide is None:
        raise Unavailable("perf.data does not record the kernel's address")
    return text, slide


def _slide(text: str, kernel: KernelText | None) -> int | None:
    # Offset in bytes from the addresses of a table to the recorded ones; None if unknown.
    linked = None if kernel is None else address_of(text, kernel.symbol)
    return kernel.address - linked if kernel is not None and linked else None


def _moved(text: str, label: str, slide: int) -> KernelSymbols:
    return parse_kernel_symbols(without_modules(text) if slide else text, label, slide=slide)


class _LocalFiles:
    """Finds symbols in local files; notes only the first file with each problem."""

    def __init__(self, recording: Recording, note: Callable[[str], None], system: System) -> None:
        self._note = note
        has_build_ids = any(file.build_id is not None for file in recording.files)
        self._hint = "" if has_build_ids else f" ({WITHOUT_BUILD_IDS})"
        # A pid is meaningless on another machine.
        running, _ = attempt(build_id, system)
        self._recorded = recording.kernel_build_id
        self._is_here = running is not None and running == self._recorded
        self._noted: set[str] = set()

    def find(self, mapped: MappedFile) -> FileSymbols | None:
        if is_jit(dso_name(mapped.path)):
            return self._generated(mapped.path)
        if not mapped.path.startswith(("/", VDSO)) or mapped.path.startswith("//"):
            return None
        if mapped.build_id is None:
            self._note_once(
                "unknown",
                f"{mapped.path}: perf.data does not record its build id{self._hint}; addresses in "
                "this file stay unresolved (only the first such file is reported)",
            )
            return None
        try:
            symbols = read_file(mapped.path)
        except BadElf as error:
            self._refuse(mapped, str(error))
            return None
        if mapped.build_id != symbols.build_id:
            self._refuse(mapped, "the build id differs from that in perf.data")
            return None
        return file_symbols(symbols.functions)

    def _generated(self, path: str) -> FileSymbols | None:
        if not self._is_here:
            if self._recorded is None and Path(path).exists():
                self._note_once(
                    "generated",
                    "addresses of JIT-compiled functions stay unresolved, because perf.data does "
                    "not record the kernel's build id (perf records it with a sample in the "
                    "kernel), so another machine may have recorded it",
                )
            return None
        try:
            symbols = read_generated_symbols(Path(path))
        except FileNotFoundError:
            return None
        except InputError as error:
            self._note_once("generated", str(error))
            return None
        self._note_once(
            "by number",
            f"{path}: names of JIT-compiled functions come from this file, and are wrong if "
            "another process with the same PID has overwritten the file",
        )
        return symbols

    def _refuse(self, mapped: MappedFile, reason: str) -> None:
        self._note_once(
            "refused",
            f"{mapped.path}: {reason}; addresses in this file stay unresolved (only the first "
            "such file is reported)",
        )

    def _note_once(self, kind: str, text: str) -> None:
        if kind not in self._noted:
            self._noted.add(kind)
            self._note(text)
