# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the symbols for the addresses of one boot: those of the kernel and of sampled files.

The collector ``layout`` captures the kernel's symbols, ``symbols`` those of programs and libraries.
The kernel's symbols are used for a recording only if both have the same build id.
"""

from collections.abc import Callable, Iterator

from schedperf.inputs.bundle.open import Boot
from schedperf.inputs.kernel.kallsyms import (
    KernelSymbols,
    address_of,
    parse_kernel_symbols,
    without_modules,
)
from schedperf.inputs.kernel.user_symbols import MOST_FILE_BYTES, FileSymbols, parse_user_symbols
from schedperf.inputs.kernel_files import (
    KALLSYMS,
    SYMBOL_TABLES,
    has_kernel_file,
    kernel_member,
    read_kernel_text,
)
from schedperf.inputs.perf_data.recording import KernelText, MappedFile, Recording
from schedperf.inputs.side import Side
from schedperf.inputs.symbols.places import Symbols
from schedperf.inputs.symbols.recorded_kernel import has_kernel_code, why_other_kernel
from schedperf.model.errors import InputError
from schedperf_collectors.contract import SYMBOLS_SUFFIX


class BootSymbols:
    """The symbols of one boot; each table is read on first use.

    :param note: called with a sentence for each part that could not be read or stays unresolved
    """

    def __init__(self, side: Side, boot: Boot, note: Callable[[str], None]) -> None:
        self._side = side
        self._bundle = side.bundle
        self._boot = boot
        self._note = note
        self._label = f"boot {boot.number}"
        # Cache by the recorded address of the kernel, which is the same for all runs of a boot.
        self._kernels: dict[KernelText | None, KernelSymbols | None] = {}
        self._files: dict[str, FileSymbols | None] = {}

    def of(self, recording: Recording) -> Symbols:
        """Return the symbols for a recording of this boot."""
        return Symbols(self._kernel_of(recording), self._of_file)

    def _kernel_of(self, recording: Recording) -> KernelSymbols | None:
        booted = self._boot.host.kernel.build_id
        reason = why_other_kernel(recording, booted, "of the bundle's kernel")
        if reason is not None:
            if has_kernel_code(recording):
                self._note(
                    f"{self._label}: kernel addresses stay unresolved, because {reason}; record "
                    "again"
                )
            return None
        if recording.kernel not in self._kernels:
            kernel = next(self._read_sources(recording.kernel), None)
            self._kernels[recording.kernel] = kernel
            if kernel is None:
                self._note(
                    f"{self._label}: kernel addresses stay unresolved without a usable symbol "
                    "table; "
                    "record with the collector `layout`, as root"
                )
        return self._kernels[recording.kernel]

    def _of_file(self, mapped: MappedFile) -> FileSymbols | None:
        if mapped.build_id is None:
            return None
        if mapped.build_id not in self._files:
            self._files[mapped.build_id] = self._read_file(mapped)
        return self._files[mapped.build_id]

    def _read_file(self, mapped: MappedFile) -> FileSymbols | None:
        name = f"{self._boot.folder}/symbols/{mapped.build_id}{SYMBOLS_SUFFIX}"
        if self._bundle.size(name) is None:
            return None
        try:
            return self._side.shared(name, lambda: self._parse_file(name, mapped), "functions")
        except InputError as error:
            self._note(str(error))
            return None

    def _parse_file(self, name: str, mapped: MappedFile) -> FileSymbols:
        label = f"{self._label}, symbols of {mapped.path}"
        return parse_user_symbols(self._bundle.read_captured(name, MOST_FILE_BYTES), label)

    def _read_sources(self, kernel: KernelText | None) -> Iterator[KernelSymbols]:
        for source in SYMBOL_TABLES:
            if not has_kernel_file(self._bundle, self._boot, source):
                continue
            try:
                text = read_kernel_text(self._side, self._boot, source)
                yield self._at_recorded_address(text, source, kernel)
            except InputError as error:
                self._note(str(error))

    def _at_recorded_address(
        self, text: str, source: str, kernel: KernelText | None
    ) -> KernelSymbols:
        label = f"{self._label}, {source}"
        # perf recorded the run-time address of one symbol. Address 0 in the table means hidden.
        is_runtime = source == KALLSYMS
        linked = None if kernel is None else address_of(text, kernel.symbol)
        if kernel is None or not linked:
            if is_runtime:
                return self._parse_kernel(text, source)
            raise InputError(
                f"{label}: cannot be used, because perf.data does not record the kernel's "
                "address; use "
                "kallsyms"
            )
        slide = kernel.address - linked
        if slide and is_runtime:
            self._note(
                f"{label}: kernel addresses differ from those in perf.data, so the file is from "
                f"another boot; addresses in modules stay unresolved"
            )
            text = without_modules(text)
        return self._parse_kernel(text, source, slide)

    def _parse_kernel(self, text: str, source: str, slide: int = 0) -> KernelSymbols:
        # Without a slide, the text is the whole member; with one, modules may be omitted.
        return self._side.shared(
            kernel_member(self._boot, source),
            lambda: parse_kernel_symbols(text, f"{self._label}, {source}", slide=slide),
            "addresses",
            source,
            slide,
        )
