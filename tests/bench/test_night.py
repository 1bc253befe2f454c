# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of the proven night, which are copies of one kernel."""

import hashlib
import struct
from pathlib import Path

import lz4.block
import pytest

from bench.night.kernels import names_of_copies, rename
from schedperf_generators.disk.build import Disk
from schedperf_generators.disk.tree import CannotBuild, Kernels

OLD, NEW = "6.1.0-56-cloud-amd64", "6.1.0-commit-0000001"
BUILD_ID = bytes(range(100, 120))
HEADER_BYTES = 64 + 56


def make_kernel() -> bytes:
    """Return an ELF file with a note of its build id, and with the names of init_uts_ns."""
    note = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0" + BUILD_ID
    header = bytearray(64)
    struct.pack_into("<Q", header, 0x20, 64)
    struct.pack_into("<H", header, 0x38, 1)
    program = struct.pack("<IIQQQQQQ", 4, 0, HEADER_BYTES, 0, 0, len(note), len(note), 4)
    names = b"".join(name.encode().ljust(65, b"\0") for name in ("Linux", "(none)", OLD, "#1 SMP"))
    return bytes(header) + program + note + names


def make_image(kernel: bytes, magic: bytes = bytes.fromhex("02214c18")) -> bytes:
    block = bytes(lz4.block.compress(kernel, mode="high_compression", store_size=False))
    payload = magic + struct.pack("<I", len(block)) + block + struct.pack("<I", len(kernel))
    image = bytearray(5 * 512)
    image[0x1F1] = 4
    struct.pack_into("<II", image, 0x248, 0, len(payload))
    return bytes(image) + payload + b"after"


def unpack(image: bytes) -> bytes:
    return bytes(lz4.block.decompress(image[5 * 512 + 8 : -9], uncompressed_size=1 << 20))


def test_a_copy_has_another_release_and_build_id() -> None:
    kernel = make_kernel()
    copy = unpack(rename(make_image(kernel), OLD, NEW))
    build_id = hashlib.sha1(NEW.encode(), usedforsecurity=False).digest()
    names = OLD.encode().ljust(65, b"\0"), NEW.encode().ljust(65, b"\0")
    assert copy == kernel.replace(BUILD_ID, build_id).replace(*names)


@pytest.mark.parametrize(
    "image",
    [
        make_image(make_kernel(), b"\x1f\x8b\x08\0"),
        make_image(make_kernel().replace(OLD.encode() + b"\0", b"6.1.0-57-cloud-amd64\0")),
        make_image(make_kernel().replace(b"GNU\0", b"XYZ\0")),
    ],
)
def test_another_kernel_is_refused(image: bytes) -> None:
    with pytest.raises(CannotBuild):
        rename(image, OLD, NEW)


def test_names_are_as_long_as_that_of_the_first_kernel() -> None:
    for old in (OLD, "6.12.117+deb12-cloud-amd64"):
        names = names_of_copies(Disk(Path("disk"), Kernels(old, "new"), Path("key"), None), 3)
        assert len({*names, old}) == 4
        assert {len(name) for name in names} == {len(old)}
