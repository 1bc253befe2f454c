# SPDX-License-Identifier: GPL-2.0-or-later
"""Extract the symbols and types of an x86 boot image in the form of files for schedperf."""

import io

from elftools.elf.elffile import ELFFile

from bench.layout_alarms.kallsyms import DamagedImageError, read_symbols
from schedperf.evidence.layout.boot_image import unpack_boot_image


def unpack(image: bytes) -> tuple[str, bytes]:
    """Return the System.map and the raw BTF of a bzImage.

    :raises DamagedImageError: it has no BTF, or no table of symbols
    :raises InputError: it cannot be unpacked
    """
    vmlinux = io.BytesIO()
    unpack_boot_image(image, vmlinux, "vmlinuz")
    kernel = ELFFile(vmlinux)
    sections = {section.name: section for section in kernel.iter_sections()}
    if ".BTF" not in sections:
        raise DamagedImageError("vmlinuz: no section .BTF")
    symbols = read_symbols(sections[".rodata"].data())
    table = "".join(f"{address:016x} {letter} {name}\n" for address, letter, name in symbols)
    return table, sections[".BTF"].data()
