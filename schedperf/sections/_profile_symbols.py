"""The symbols of one booted kernel, from what the layout collector captured of it."""

from collections.abc import Callable, Iterator

from schedperf.bundle import Boot, Bundle
from schedperf.captures.kernel_symbols import KernelSymbols, address_of, parse_kernel_symbols
from schedperf.captures.perf_data import KernelText, PerfData
from schedperf.errors import InputError
from schedperf_collectors._kernel_files import SYMBOLS_LIMIT_BYTES

# Best first: kallsyms has the modules and the addresses at run time.
SOURCES = ("kallsyms", "System.map")


class BootSymbols:
    """The kernel's symbols of one boot, read when the first profile asks for them.

    :param note: takes one sentence about what could not be read
    """

    def __init__(self, bundle: Bundle, boot: Boot, note: Callable[[str], None]) -> None:
        self._bundle = bundle
        self._boot = boot
        self._note = note
        self._is_read = False
        self._symbols: KernelSymbols | None = None

    def of(self, recording: PerfData) -> KernelSymbols | None:
        """Return the symbols at the addresses of a recording; None where no source has them."""
        self._compare_build_ids(recording)
        if not self._is_read:
            self._is_read = True
            self._symbols = next(self._read_sources(recording.kernel), None)
            if self._symbols is None:
                self._note(f"{self._boot.folder}: kernel addresses stay unresolved")
        return self._symbols

    def _read_sources(self, kernel: KernelText | None) -> Iterator[KernelSymbols]:
        for source in SOURCES:
            name = f"{self._boot.folder}/layout/{source}"
            if self._bundle.size(name) is None:
                continue
            try:
                text = self._bundle.read_text(name, SYMBOLS_LIMIT_BYTES)
                slide = self._slide(text, name, kernel)
                yield parse_kernel_symbols(text, name, slide=slide)
            except InputError as error:
                self._note(str(error))

    def _slide(self, text: str, name: str, kernel: KernelText | None) -> int:
        # perf measured the address of one symbol; 0 in the table means that it is hidden there.
        is_runtime = name.endswith(SOURCES[0])
        linked = None if kernel is None else address_of(text, kernel.symbol)
        if kernel is None or not linked:
            if is_runtime:
                return 0
            raise InputError(f"{name}: perf.data does not say where the kernel was; use kallsyms")
        slide = kernel.address - linked
        if slide and is_runtime:
            self._note(f"{name}: the kernel was at other addresses than when perf recorded it")
        return slide

    def _compare_build_ids(self, recording: PerfData) -> None:
        group = self._boot.host.get("kernel")
        expected = group.get("build_id") if isinstance(group, dict) else None
        found = recording.features.kernel_build_id
        if isinstance(expected, str) and found is not None and found != expected.lower():
            self._note(
                f"{self._boot.folder}: perf.data is of the kernel with build id {found}, "
                f"host.json of {expected}"
            )
