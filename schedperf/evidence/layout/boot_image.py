# SPDX-License-Identifier: GPL-2.0-or-later
"""Unpack the vmlinux in an x86 boot image: bzImage, or vmlinuz of a distribution.

It has no symbols, but contains types in BTF. The size in the image's header limits the output.
"""

import gzip
import io
import lzma
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from schedperf.inputs.bundle.seekable import unpacked_chunks
from schedperf.model.errors import InputError

# Fields of the boot protocol (Documentation/arch/x86/boot.rst): sectors of the set-up code, offset
# and length of the compressed kernel. The last word of the compressed kernel is the uncompressed
# size.
_SETUP_SECTORS_AT, _PAYLOAD_AT = 0x1F1, 0x248
_SECTOR_BYTES, _USUAL_SETUP_SECTORS, _SIZE_BYTES = 512, 4, 4
_HEADER_BYTES = _PAYLOAD_AT + 8
# A kernel with all drivers built in has 100 MiB without debug information.
LARGEST_KERNEL_BYTES = 256 << 20
LARGEST_IMAGE_BYTES = 128 << 20

_GZIP = b"\x1f\x8b"
# `lz4 -l`: blocks that unpack to at most 8 MiB, each preceded by its length.
_LZ4, _LZ4_BLOCK_BYTES = b"\x02\x21\x4c\x18", 8 << 20
# Other compression formats of the kernel's scripts/Makefile.lib, by magic bytes.
_OTHER = {b"\x89LZO": "lzo", b"BZh": "bzip2", b"\x5d\0\0": "lzma"}
_ADVICE = "pass the vmlinux, System.map or BTF of this build"


def unpack_boot_image(image: bytes, vmlinux: BinaryIO, label: str) -> None:
    """Write the vmlinux that a boot image contains.

    :param image: the whole boot image
    :param vmlinux: file to write to
    :param label: name of the image in messages
    :raises InputError: the header does not locate a compressed kernel, its compression is not gzip,
        xz, zstd or lz4, the kernel is larger than :data:`LARGEST_KERNEL_BYTES`, or the image is
        damaged
    """
    payload = _payload(image)
    if payload is None:
        raise InputError(f"{label}: boot image without symbols; {_ADVICE}")
    size = int.from_bytes(payload[-_SIZE_BYTES:], "little")
    # gzip data end with their own size field; for other formats the appended size must be removed.
    content = payload if payload.startswith(_GZIP) else payload[:-_SIZE_BYTES]
    is_lz4 = content.startswith(_LZ4)
    chunks = _lz4_chunks(content) if is_lz4 else unpacked_chunks(io.BytesIO(content))
    if chunks is None:
        known = [name for magic, name in _OTHER.items() if payload.startswith(magic)]
        raise InputError(
            f"{label}: boot image with {f'{known[0]} data' if known else 'unknown compression'} "
            f"(expected gzip, xz, zstd or lz4); {_ADVICE}, or unpack it with extract-vmlinux"
        )
    if size > LARGEST_KERNEL_BYTES:
        raise InputError(
            f"{label}: boot image of a kernel of {size} bytes (expected at most "
            f"{LARGEST_KERNEL_BYTES}); {_ADVICE}"
        )
    # Imported here because only boot images need them.
    from lz4.block import LZ4BlockError  # noqa: PLC0415
    from zstandard import ZstdError  # noqa: PLC0415

    written = 0
    try:
        for chunk in chunks:
            written += len(chunk)
            if written > size:
                break
            vmlinux.write(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, ZstdError, LZ4BlockError):
        written = -1
    if written != size:
        raise InputError(f"{label}: damaged boot image; copy it again")


def _payload(image: bytes) -> bytes | None:
    """Return the compressed kernel; None if the header does not locate it."""
    if len(image) < _HEADER_BYTES:
        return None
    sectors = image[_SETUP_SECTORS_AT] or _USUAL_SETUP_SECTORS
    offset, length = struct.unpack_from("<II", image, _PAYLOAD_AT)
    start = (sectors + 1) * _SECTOR_BYTES + offset
    is_inside = length > _SIZE_BYTES and start + length <= len(image)
    return image[start : start + length] if is_inside else None


def _lz4_chunks(content: bytes) -> Iterator[bytes]:
    from lz4.block import decompress  # noqa: PLC0415 # see unpack_boot_image

    position = len(_LZ4)
    while position < len(content):
        start = position + _SIZE_BYTES
        position = start + int.from_bytes(content[position:start], "little")
        if position > len(content):
            raise EOFError
        yield decompress(content[start:position], uncompressed_size=_LZ4_BLOCK_BYTES)
