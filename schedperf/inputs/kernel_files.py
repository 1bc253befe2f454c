# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the files of the kernel that the collector ``layout`` captured: symbols, BTF, configuration.

Several sections use the same files, so the files of the first boot are cached for the lifetime of
the side. Symbol tables are large, so the files of other boots are cached for one boot at a time.
"""

from schedperf.inputs.bundle.open import Boot, Bundle
from schedperf.inputs.side import Side
from schedperf_collectors.contract import BTF_LIMIT_BYTES, SYMBOLS_LIMIT_BYTES

FOLDER = "layout"
SYSTEM_MAP, KALLSYMS = "System.map", "kallsyms"
BTF, CONFIG, FACTS = "btf", "config", "layout.json"
# In order of preference: kallsyms has modules and run-time addresses.
SYMBOL_TABLES = (KALLSYMS, SYSTEM_MAP)
# Limits on the size; the largest kernel configuration has 400 kB.
LIMITS_BYTES = {
    SYSTEM_MAP: SYMBOLS_LIMIT_BYTES,
    KALLSYMS: SYMBOLS_LIMIT_BYTES,
    BTF: BTF_LIMIT_BYTES,
    CONFIG: 8 << 20,
    FACTS: 1 << 20,
}


def has_kernel_file(bundle: Bundle, boot: Boot, name: str) -> bool:
    """Return whether a kernel file was captured in a boot."""
    return bundle.size(kernel_member(boot, name)) is not None


def kernel_member(boot: Boot, name: str) -> str:
    """Return the name of the bundle member that contains a kernel file."""
    return f"{boot.folder}/{FOLDER}/{name}"


def read_kernel_file(side: Side, boot: Boot, name: str) -> bytes:
    """Return a file of the kernel.

    :param name: a key of ``LIMITS_BYTES``
    :raises InputError: the file is missing, too large or damaged
    """
    return side.once(_Files).read(boot, name)


def read_kernel_text(side: Side, boot: Boot, name: str) -> str:
    """Return a file of the kernel as text; bytes that are not UTF-8 become U+FFFD.

    Parameters and errors are those of :func:`read_kernel_file`.
    """
    return read_kernel_file(side, boot, name).decode(errors="replace")


class _Files:
    def __init__(self, side: Side) -> None:
        self._bundle = side.bundle
        self._kept: dict[int, dict[str, bytes]] = {}

    def read(self, boot: Boot, name: str) -> bytes:
        kept = (self._bundle.boots[0].number, boot.number)
        self._kept = {number: files for number, files in self._kept.items() if number in kept}
        files = self._kept.setdefault(boot.number, {})
        if name not in files:
            files[name] = self._bundle.read(kernel_member(boot, name), LIMITS_BYTES[name])
        return files[name]
