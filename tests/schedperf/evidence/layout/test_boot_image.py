# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot images are unpacked for their types; damaged ones get one line."""

import gzip
import io
import lzma
import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from schedperf.evidence.layout.boot_image import (
    LARGEST_KERNEL_BYTES,
    unpack_boot_image,
)
from schedperf.evidence.layout.sources import load_kernel
from schedperf.model.errors import InputError
from tests.shared_data import shared

SETUP_SECTORS, OFFSET = 3, 100
# Repeats near and far, and what repeats nothing: more than one block of lz4.
VMLINUX = (b"\x7fELF" + random.Random(33).randbytes(70_000) + bytes(90_000)) * 60  # noqa: S311


def make_image(payload: bytes) -> bytes:
    image = bytearray((SETUP_SECTORS + 1) * 512 + OFFSET)
    image[0x1F1] = SETUP_SECTORS
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", image, 0x248, OFFSET, len(payload))
    return bytes(image) + payload + bytes(50)


def lz4(content: bytes) -> bytes:
    if shutil.which("lz4") is None:
        pytest.skip("lz4 is not installed; apt-get install lz4")
    return subprocess.run(
        ["lz4", "-l", "-9"], input=content, capture_output=True, check=True
    ).stdout


def with_size(pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda content: pack(content) + len(content).to_bytes(4, "little")


PACK = {
    "gzip": gzip.compress,
    "xz": with_size(lambda content: lzma.compress(content, check=lzma.CHECK_CRC32, preset=0)),
    "zstd": with_size(zstandard.ZstdCompressor(level=3).compress),
    "lz4": with_size(lz4),
}
every_compression = pytest.mark.parametrize("pack", PACK.values(), ids=PACK)


def unpack(image: bytes) -> bytes:
    vmlinux = io.BytesIO()
    unpack_boot_image(image, vmlinux, "vmlinuz-6.12")
    return vmlinux.getvalue()


@every_compression
def test_the_kernel_of_a_boot_image_is_unpacked(pack: Callable[[bytes], bytes]) -> None:
    assert unpack(make_image(pack(VMLINUX))) == VMLINUX


@every_compression
def test_a_damaged_boot_image_is_one_line(pack: Callable[[bytes], bytes]) -> None:
    payload = pack(VMLINUX[:400_000])
    chance = random.Random(33)  # noqa: S311 # no secret depends on it
    for _ in range(100):
        damaged = bytearray(payload)
        damaged[chance.randrange(6, len(damaged))] ^= 1 << chance.randrange(8)
        try:
            unpack(make_image(bytes(damaged)))
        except InputError as error:
            assert str(error).startswith("vmlinuz-6.12: ")  # noqa: PT017 # most, not all, are found
    for end in range(0, len(payload), len(payload) // 50):
        with pytest.raises(InputError, match=r"^vmlinuz-6.12: .*(boot image|copy it again)"):
            unpack(make_image(payload[:end]))


@every_compression
def test_no_more_is_unpacked_than_the_image_states(pack: Callable[[bytes], bytes]) -> None:
    payload = pack(bytes(64 << 20))
    size = (1000).to_bytes(4, "little")
    vmlinux = io.BytesIO()
    with pytest.raises(InputError, match="damaged boot image"):
        unpack_boot_image(make_image(payload[:-4] + size), vmlinux, "vmlinuz")
    assert len(vmlinux.getvalue()) <= 1000
    size = (LARGEST_KERNEL_BYTES + 1).to_bytes(4, "little")
    with pytest.raises(InputError, match=f"expected at most {LARGEST_KERNEL_BYTES}"):
        unpack(make_image(payload[:-4] + size))


def test_other_compressions_are_named() -> None:
    with pytest.raises(InputError, match="boot image with lzo data .expected gzip, xz, zstd or"):
        unpack(make_image(b"\x89LZO" + bytes(100)))


@pytest.mark.parametrize("is_folder", [False, True])
def test_the_types_of_a_boot_image_are_those_of_the_kernel(
    *, is_folder: bool, tmp_path: Path
) -> None:
    folder = shared("kernels/tip")
    if is_folder:
        shutil.copy(folder / "bzImage", tmp_path / "vmlinuz-6.12.0-9-amd64")
        stub = "ffffffffffffffff B The real System.map is in the linux-image-6.12-dbg package\n"
        (tmp_path / "System.map-6.12.0-9-amd64").write_text(stub)
    found = load_kernel(tmp_path if is_folder else folder / "bzImage")
    assert found.units["struct rq"] == load_kernel(folder / "btf").units["struct rq"]
