# SPDX-License-Identifier: GPL-2.0-or-later
"""Make kernels of other releases from an installed one, because none can be built in the guests.

A copy runs the same code. It differs in what a build of a commit would change, too: ``uname -r``
and the build id. Debian compresses its cloud kernels by LZ4, which stores both as they are, so that
they are replaced in the compressed image.
"""

import hashlib
import re
import struct
import tempfile
from pathlib import Path

import lz4.block

from schedperf_generators.disk.build import Disk
from schedperf_generators.disk.grub import PARTITION_START
from schedperf_generators.disk.tree import CannotBuild, run

# Offsets in the header of a bzImage (Documentation/arch/x86/boot.rst) and of an ELF file (elf(5)).
_SETUP_SECTORS, _PAYLOAD = 0x1F1, 0x248
_SECTOR = 512
_PROGRAM_HEADERS, _NUMBER_OF_HEADERS, _HEADER_BYTES = 0x20, 0x38, 56
_NOTES = 4
_BUILD_ID = re.compile(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0(.{20})", re.DOTALL)
_LEGACY = bytes.fromhex("02214c18")
_BLOCK_BYTES = 8 << 20
# The size before each block, and that of the kernel after all of them.
_SIZE_BYTES = 4
# The release in `struct new_utsname`, whose fields have 65 bytes: what repeats such a field in LZ4
# follows, 65 bytes after it.
_NEXT_FIELD = b"A\0"


def names_of_copies(disk: Disk, number: int) -> list[str]:
    """Return releases for copies of the old kernel, as long as its own: ``6.1.0-commit-0000001``.

    :param number: how many
    """
    old = disk.kernels.old
    first = f"{old.partition('-')[0]}-commit-"
    return [f"{first}{i + 1:0{len(old) - len(first)}}" for i in range(number)]


def copy_kernel(disk: Disk, release: str) -> bytes:
    """Return a copy of the disk's old kernel with another release and build id.

    :param release: as long as that of the old kernel
    :raises CannotBuild: debugfs is missing or fails, or :func:`rename` rejects the kernel
    """
    old = disk.kernels.old
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "vmlinuz")
        where = f"{disk.path}?offset={PARTITION_START}"
        run("debugfs", "-R", f"dump /boot/vmlinuz-{old} {path}", where)
        return rename(path.read_bytes(), old, release)


def rename(image: bytes, old: str, release: str) -> bytes:
    """Return a bzImage with another release, and with a build id that follows from it.

    :param image: a bzImage that is compressed by LZ4
    :param old: its release
    :param release: as long as ``old``
    :raises CannotBuild: it is compressed by another program, or they are not in it as expected
    """
    start = ((image[_SETUP_SECTORS] or 4) + 1) * _SECTOR
    offset, size = struct.unpack_from("<II", image, _PAYLOAD)
    begin, end = start + offset, start + offset + size - _SIZE_BYTES
    packed = image[begin:end]
    kernel = _unpack(packed)
    build_id = _build_id_of(kernel)
    new_id = hashlib.sha1(release.encode(), usedforsecurity=False).digest()
    changed = packed.replace(old.encode() + _NEXT_FIELD, release.encode() + _NEXT_FIELD)
    changed = changed.replace(build_id, new_id)
    copy = _unpack(changed)
    is_other = release.encode() + b"\0" in copy and _build_id_of(copy) == new_id
    if not is_other or len(copy) != len(kernel):
        raise CannotBuild(f"{old}: its release or build id cannot be replaced in its image")
    return image[:begin] + changed + image[end:]


def _unpack(packed: bytes) -> bytes:
    """Decompress a kernel from the legacy format of LZ4: a magic number, then blocks.

    :raises CannotBuild: it has another format
    """
    if packed[: len(_LEGACY)] != _LEGACY:
        raise CannotBuild("the disk's kernel is not compressed by LZ4")
    blocks, at = [], len(_LEGACY)
    while at < len(packed):
        [size] = struct.unpack_from("<I", packed, at)
        at += _SIZE_BYTES
        blocks.append(lz4.block.decompress(packed[at : at + size], uncompressed_size=_BLOCK_BYTES))
        at += size
    return b"".join(blocks)


def _build_id_of(kernel: bytes) -> bytes:
    """Return the build id in the segment of notes; the vDSO's is elsewhere.

    :param kernel: an ELF file
    """
    [headers] = struct.unpack_from("<Q", kernel, _PROGRAM_HEADERS)
    [number] = struct.unpack_from("<H", kernel, _NUMBER_OF_HEADERS)
    for at in range(headers, headers + number * _HEADER_BYTES, _HEADER_BYTES):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", kernel, at)
        found = _BUILD_ID.search(kernel, offset, offset + size) if kind == _NOTES else None
        if found is not None:
            return found[1]
    raise CannotBuild("the disk's kernel has no build id")
