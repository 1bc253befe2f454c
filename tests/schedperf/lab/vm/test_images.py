# SPDX-License-Identifier: GPL-2.0-or-later
"""Which files are kernels that can be booted, and what belongs to them."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.lab.vm.images import read_kernel
from schedperf.model.errors import InputError
from tests.shared_data import shared_kernel

MakeImage = Callable[[str], bytes]

BUILT_IN = (
    "CONFIG_NET_9P=y\nCONFIG_NET_9P_VIRTIO=y\nCONFIG_9P_FS=y\nCONFIG_OVERLAY_FS=y\n"
    "CONFIG_VIRTIO_PCI=y\nCONFIG_VIRTIO_CONSOLE=y\n"
)


@pytest.fixture
def image(tmp_path: Path, make_image: MakeImage) -> Path:
    path = tmp_path / "vmlinuz-6.12.0-9-amd64"
    path.write_bytes(make_image("6.12.0-9-amd64"))
    return path


def refusal(image: Path, folder: Path | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read_kernel("tip", image, folder, image.parent / "modules")
    return str(caught.value)


def test_an_image_says_its_release(image: Path, tmp_path: Path) -> None:
    kernel = read_kernel("tip", image, None, tmp_path)
    assert (kernel.name, kernel.release) == ("tip", "6.12.0-9-amd64")
    assert kernel.files == {}


@pytest.mark.parametrize("sectors", [0, 4, 7])
def test_an_image_that_was_cut_is_refused(
    tmp_path: Path, make_image: MakeImage, sectors: int
) -> None:
    head = bytearray(make_image("6.12.0"))
    # boot.rst: setup_sects, and syssize in paragraphs of 16 bytes.
    head[0x1F1], head[0x1F4:0x1F8] = sectors, (1000).to_bytes(4, "little")
    whole = (1 + (sectors or 4)) * 512 + 16000
    path = tmp_path / "bzImage"
    path.write_bytes(bytes(head).ljust(whole, b"\0"))
    assert read_kernel("tip", path, None, tmp_path).release == "6.12.0"
    path.write_bytes(path.read_bytes()[:-1])
    assert f"truncated to {whole - 1} bytes (expected {whole}); copy or build it" in refusal(path)


def test_files_beside_the_image_are_taken_those_of_its_release_first(
    image: Path, tmp_path: Path
) -> None:
    for name in ("System.map", "System.map-6.12.0-9-amd64", "config"):
        (tmp_path / name).write_text(BUILT_IN)
    assert read_kernel("tip", image, None, tmp_path).files == {
        "System.map": tmp_path / "System.map-6.12.0-9-amd64",
        "config": tmp_path / "config",
    }


def test_files_of_a_build_tree_are_found_three_folders_up(
    tmp_path: Path, make_image: MakeImage
) -> None:
    boot = tmp_path / "linux/arch/x86/boot"
    boot.mkdir(parents=True)
    (boot / "bzImage").write_bytes(make_image("6.12.0+"))
    (tmp_path / "linux/System.map").write_text("map")
    (tmp_path / "linux/.config").write_text(BUILT_IN)
    kernel = read_kernel("tip", boot / "bzImage", None, tmp_path)
    assert kernel.release == "6.12.0+"
    assert kernel.files == {
        "System.map": tmp_path / "linux/System.map",
        "config": tmp_path / "linux/.config",
    }


def test_a_folder_that_is_named_is_the_only_one_that_is_looked_into(
    image: Path, tmp_path: Path
) -> None:
    (tmp_path / "System.map").write_text("beside the image")
    other = tmp_path / "other"
    other.mkdir()
    assert "no System.map or config; give" in refusal(image, other)
    (other / "System.map").write_text("map")
    files = read_kernel("tip", image, other, tmp_path).files
    assert files == {"System.map": other / "System.map"}


def test_drivers_that_are_missing_are_named(image: Path) -> None:
    (image.parent / "config").write_text(BUILT_IN.replace("CONFIG_9P_FS=y", "# CONFIG_9P_FS is"))
    said = refusal(image)
    assert "lacks CONFIG_9P_FS (required in a guest)" in said
    assert "cloud" in said


def test_drivers_that_are_modules_need_the_modules_of_the_release(image: Path) -> None:
    (image.parent / "config").write_text(BUILT_IN.replace("9P_FS=y", "9P_FS=m"))
    said = refusal(image)
    assert "CONFIG_9P_FS are modules" in said
    assert "run depmod 6.12.0-9-amd64" in said
    modules = image.parent / "modules"
    (modules / "6.12.0-9-amd64").mkdir(parents=True)
    (modules / "6.12.0-9-amd64/modules.dep").touch()
    assert read_kernel("tip", image, None, modules).release == "6.12.0-9-amd64"


@pytest.mark.parametrize("lib", ["lib", "usr/lib"])
def test_modules_of_an_unpacked_package_are_found_beside_its_image(
    lib: str, tmp_path: Path, make_image: MakeImage
) -> None:
    release = "6.12.0-9-amd64"
    (tmp_path / "package/boot").mkdir(parents=True)
    image = tmp_path / "package/boot" / f"vmlinuz-{release}"
    image.write_bytes(make_image(release))
    (image.parent / f"config-{release}").write_text(BUILT_IN.replace("9P_FS=y", "9P_FS=m"))
    assert "CONFIG_9P_FS are modules" in refusal(image)
    modules = tmp_path / "package" / lib / "modules"
    (modules / "6.12.0-8-amd64").mkdir(parents=True)
    assert "has no modules for 6.12.0-9-amd64" in refusal(image)
    (modules / release).mkdir()
    assert read_kernel("new", image, None, tmp_path).modules == modules / release


def test_a_folder_is_answered_with_the_image_that_is_in_it(image: Path) -> None:
    folder = image.parent / "tip"
    folder.mkdir()
    (folder / "vmlinuz").write_bytes(image.read_bytes())
    expected = f"{folder}: is a directory (expected a kernel image, e.g. {folder}/vmlinuz)"
    assert refusal(folder) == expected


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "an invalid kernel image"),
        (
            b"\x7fELF" + bytes(60),
            "a vmlinux (expected the bzImage of the same build, arch/x86/boot/bzImage",
        ),
        (bytes(56) + b"ARM\x64" + bytes(60), "an arm64 kernel"),
        (gzip.compress(b"Image", mtime=0), "perhaps an arm64 Image.gz"),
        (bytes(range(256)) * 40, "an invalid kernel image"),
    ],
    ids=["empty", "ELF", "arm64", "gzip", "noise"],
)
def test_what_is_no_kernel_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "bzImage").write_bytes(content)
    assert f"{tmp_path}/bzImage: is " in refusal(tmp_path / "bzImage")
    assert said in refusal(tmp_path / "bzImage")


def test_an_image_whose_version_points_nowhere_is_refused(image: Path) -> None:
    whole = image.read_bytes()
    image.write_bytes(whole[:0x20E] + b"\xff\xff" + whole[0x210:])
    assert "no version in its header; build it again" in refusal(image)


def test_a_release_that_would_leave_its_folder_is_refused(
    tmp_path: Path, make_image: MakeImage
) -> None:
    (tmp_path / "bzImage").write_bytes(make_image("../../etc"))
    assert "no version in its header; build it again" in refusal(tmp_path / "bzImage")


def test_a_fifo_and_a_missing_file_do_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert "an invalid kernel image" in refusal(tmp_path / "fifo")
    assert "no such file or directory" in refusal(tmp_path / "none")


def test_a_real_kernel_is_known_with_its_files() -> None:
    kernel = read_kernel(
        "tip", shared_kernel("tip", "bzImage") / "bzImage", None, Path("/lib/modules")
    )
    assert kernel.release.endswith("-tip")
    assert set(kernel.files) == {"System.map", "config"}
