# SPDX-License-Identifier: GPL-2.0-or-later
"""Unpack the kernel of an x86 bzImage, and return its symbols and types as files for schedperf."""

import io
import struct
import subprocess

from elftools.elf.elffile import ELFFile

from bench.layout_alarms.kallsyms import DamagedImageError, read_symbols

# Fields of the boot protocol (Documentation/arch/x86/boot.rst): sectors of the set-up code, offset
# and length of the compressed kernel.
_SETUP_SECTORS_AT, _PAYLOAD_AT = 0x1F1, 0x248
_SECTOR_BYTES, _USUAL_SETUP_SECTORS = 512, 4
_PROGRAMS = {
    b"\xfd7zXZ\0": ("xz", "-dcq", "--single-stream"),
    bytes.fromhex("28b52ffd"): ("zstd", "-dcq"),
    bytes.fromhex("02214c18"): ("lz4", "-dcq"),
}


def unpack(image: bytes) -> tuple[str, bytes]:
    """Return the System.map and the raw BTF of a bzImage.

    :raises DamagedImageError: another compression than xz, zstd and lz4, or no BTF
    """
    kernel = ELFFile(io.BytesIO(_decompress(image)))
    sections = {section.name: section for section in kernel.iter_sections()}
    if ".BTF" not in sections:
        raise DamagedImageError("vmlinuz: no section .BTF")
    symbols = read_symbols(sections[".rodata"].data())
    table = "".join(f"{address:016x} {letter} {name}\n" for address, letter, name in symbols)
    return table, sections[".BTF"].data()


def _decompress(image: bytes) -> bytes:
    sectors = image[_SETUP_SECTORS_AT] or _USUAL_SETUP_SECTORS
    offset, length = struct.unpack_from("<II", image, _PAYLOAD_AT)
    start = (sectors + 1) * _SECTOR_BYTES + offset
    payload = image[start : start + length]
    for magic, command in _PROGRAMS.items():
        if payload.startswith(magic):
            # The size of the kernel follows the compressed data, which is reported as an error.
            done = subprocess.run(command, input=payload, capture_output=True, check=False)
            return done.stdout
    raise DamagedImageError(f"vmlinuz: unknown compression {payload[:6].hex()}")
