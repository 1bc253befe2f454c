# SPDX-License-Identifier: GPL-2.0-or-later
"""Read kernel images to boot, and find the files that belong to them.

A bzImage has at 0x1fe the boot flag 0xaa55, at 0x202 "HdrS", and at 0x20e the offset of its
version, less 0x200 (Documentation/arch/x86/boot.rst of the kernel)::

    6.1.192-tip (root@host) #4 SMP PREEMPT_DYNAMIC Fri Nov 20 13:00:03 UTC 2026
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedperf.bundle.files import read_head, read_regular
from schedperf.model.errors import InputError

# Header and version are in the real-mode code, which has at most 64 setup sectors.
HEAD_BYTES = 65 * 512
_BOOT_FLAG = (0x1FE, b"\x55\xaa")
_MAGIC = (0x202, b"HdrS")
_VERSION_POINTER = 0x20E
_VERSION_BASE = 0x200
# __NEW_UTS_LEN of the kernel's include/uapi/linux/utsname.h.
_LONGEST_RELEASE = 64

# A distribution's configuration is 0.3 MB.
_CONFIG_LIMIT_BYTES = 4 << 20

# How images start that an x86-64 guest cannot boot, and what they are.
_OTHERS: Sequence[tuple[int, bytes, str]] = (
    (0, b"\x7fELF", "a vmlinux (expected the bzImage built from it, arch/x86/boot/bzImage)"),
    (56, b"ARM\x64", "an arm64 kernel (expected x86-64)"),
    (0, b"\x1f\x8b", "gzip, perhaps an arm64 Image.gz (expected an x86-64 kernel)"),
)

# Options that a kernel needs to see this machine's file system and to run a command, and whether
# they may be modules: those that mount the root come from an initramfs with the release's modules.
_NEEDED = (
    "CONFIG_NET_9P",
    "CONFIG_NET_9P_VIRTIO",
    "CONFIG_9P_FS",
    "CONFIG_OVERLAY_FS",
    "CONFIG_VIRTIO_PCI",
    "CONFIG_VIRTIO_CONSOLE",
)

# The recorder looks for these names in its kernel folder.
_FILE_NAMES = ("System.map", "config", ".config")


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """A kernel to boot.

    :param name: name of its bundle
    :param release: what ``uname -r`` will print
    :param files: the System.map and config found, by file name
    :param modules: folder of its modules if the image is in an unpacked package; None: the guest
        sees this machine's modules of its release
    """

    name: str
    image: Path
    release: str
    files: Mapping[str, Path]
    modules: Path | None = None


def read_kernel(name: str, image: Path, folder: Path | None, modules: Path) -> Kernel:
    """Examine an image and find the files that belong to it.

    :param folder: where System.map and config are; None: beside the image, or in its build tree
    :param modules: folder with the modules of each release: /lib/modules
    :raises InputError: it cannot be booted here
    """
    release = _read_release(image)
    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the one with System.map and config")
    found = dict(_find_files(image, release, folder))
    if folder is not None and not found:
        raise InputError(
            f"{folder}: neither {_FILE_NAMES[0]} nor {_FILE_NAMES[1]} found; give the folder "
            "that has them, or leave it out"
        )
    beside = _modules_beside(image, release)
    kernel = Kernel(name=name, image=image, release=release, files=found, modules=beside)
    _check_drivers(kernel, modules)
    return kernel


def _read_release(image: Path) -> str:
    if image.is_dir():
        inside = next((f for f in _likely_images(image) if f.is_file()), image / "bzImage")
        raise InputError(f"{image}: is a folder; give the image itself, e.g. {inside}")
    try:
        # Opening a fifo would block.
        os.close(os.open(image, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(f"{image}: {problem}; give a kernel image that can be read") from None
    head = read_head(image, HEAD_BYTES)
    for place, magic in (_BOOT_FLAG, _MAGIC):
        if head[place : place + len(magic)] != magic:
            raise InputError(f"{image}: is {_what_else(head)}")
    return _release_of(head, image)


def _likely_images(folder: Path) -> Iterator[Path]:
    for name in ("bzImage", "vmlinuz", "arch/x86/boot/bzImage"):
        yield folder / name


def _what_else(head: bytes) -> str:
    for place, magic, text in _OTHERS:
        if head[place : place + len(magic)] == magic:
            return text
    return "not an x86-64 kernel image; give a bzImage or /boot/vmlinuz-RELEASE"


def _release_of(head: bytes, image: Path) -> str:
    pointer = int.from_bytes(head[_VERSION_POINTER : _VERSION_POINTER + 2], "little")
    start = pointer + _VERSION_BASE
    text = head[start : start + _LONGEST_RELEASE + 1]
    found = re.match(rb"[\w.+~-]{1,64}(?=[ \0])", text)
    if not pointer or not found:
        raise InputError(f"{image}: no version in its header; build it again")
    return found[0].decode("ascii")


def _find_files(image: Path, release: str, folder: Path | None) -> Iterator[tuple[str, Path]]:
    for kept in ("System.map", "config"):
        usual = [name for name in _FILE_NAMES if kept in name]
        places = [
            place / name
            for place in ([folder] if folder is not None else _folders(image))
            for name in (f"{kept}-{release}", *usual)
        ]
        found = next((place for place in places if place.is_file()), None)
        if found is not None:
            yield kept, found


def _folders(image: Path) -> Iterator[Path]:
    place = image.absolute()
    yield place.parent
    # In a build tree the image is three folders down.
    if place.parts[-4:-1] == ("arch", "x86", "boot"):
        yield place.parents[3]


def _modules_beside(image: Path, release: str) -> Path | None:
    """Return the modules' folder of an unpacked package: boot/ and lib/ are side by side."""
    root = image.absolute().parent.parent
    if root == Path(root.anchor):
        return None
    places = [root / folder / "modules" / release for folder in ("lib", "usr/lib")]
    return next((place for place in places if place.is_dir()), None)


def _check_drivers(kernel: Kernel, modules: Path) -> None:
    """Refuse a kernel whose own configuration cannot boot as a guest."""
    if "config" not in kernel.files:
        # Booting will show it.
        return
    text = read_regular(
        kernel.files["config"], _CONFIG_LIMIT_BYTES, "give the kernel's configuration"
    ).decode("utf-8", "replace")
    values = dict(re.findall(r"^(CONFIG_\w+)=([ym])$", text, re.MULTILINE))
    missing = [option for option in _NEEDED if option not in values]
    if missing:
        raise InputError(
            f"{kernel.image}: lacks {', '.join(missing)}, which a guest needs; build with "
            "them, or use another flavour (Debian's cloud kernels lack them)"
        )
    needs_modules = [option for option in _NEEDED if values[option] == "m"]
    if not needs_modules or kernel.modules is not None:
        return
    if not (modules / kernel.release / "modules.dep").is_file():
        raise InputError(
            f"{kernel.image}: {', '.join(needs_modules)} are modules, and {modules} has none "
            f"of {kernel.release}; install them there and run depmod {kernel.release}"
        )
