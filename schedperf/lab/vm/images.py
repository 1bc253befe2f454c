# SPDX-License-Identifier: GPL-2.0-or-later
"""Read kernel images to boot, and find the files that belong to them.

A bzImage has the boot flag 0xaa55 at 0x1fe, "HdrS" at 0x202, and the offset of its version string
minus 0x200 at 0x20e (the kernel's Documentation/arch/x86/boot.rst)::

    6.1.192-tip (root@host) #4 SMP PREEMPT_DYNAMIC Fri Nov 20 13:00:03 UTC 2026
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from schedperf.inputs.bundle.files import read_head, read_regular
from schedperf.model.errors import InputError

# Header and version are in the real-mode code, which has at most 64 setup sectors.
HEAD_BYTES = 65 * 512
_BOOT_FLAG = (0x1FE, b"\x55\xaa")
_MAGIC = (0x202, b"HdrS")
_VERSION_POINTER = 0x20E
# One byte (0 means 4): the number of 512-byte sectors after the first. Four bytes: the size of the
# kernel in units of 16 bytes.
_SETUP_SECTORS = 0x1F1
_DEFAULT_SECTORS = 4
_SYSTEM_SIZE = 0x1F4
_VERSION_BASE = 0x200
# __NEW_UTS_LEN of the kernel's include/uapi/linux/utsname.h.
_LONGEST_RELEASE = 64

# A distribution's configuration is 0.3 MB.
_CONFIG_LIMIT_BYTES = 4 << 20

# First bytes of files that an x86-64 guest cannot boot.
_OTHERS: Sequence[tuple[int, bytes, str]] = (
    (0, b"\x7fELF", "a vmlinux (expected the bzImage of the same build, arch/x86/boot/bzImage)"),
    (56, b"ARM\x64", "an arm64 kernel (expected x86-64)"),
    (0, b"\x1f\x8b", "a gzip file, perhaps an arm64 Image.gz (expected an x86-64 bzImage)"),
)

# Options that a guest kernel needs to mount this machine's file system and run a command. Modules
# are loaded from an initramfs.
_NEEDED = (
    "CONFIG_NET_9P",
    "CONFIG_NET_9P_VIRTIO",
    "CONFIG_9P_FS",
    "CONFIG_OVERLAY_FS",
    "CONFIG_VIRTIO_PCI",
    "CONFIG_VIRTIO_CONSOLE",
)

# The recorder looks for these names in its kernel directory.
_FILE_NAMES = ("System.map", "config", ".config")


class Kernel(Struct, frozen=True, kw_only=True):
    """A kernel to boot.

    :param name: name of its bundle
    :param release: what ``uname -r`` will print
    :param files: the System.map and config found, by file name
    :param modules: directory of its modules if they are in an unpacked package or a build's result;
        None if the guest uses this machine's modules of that release
    :param arguments: command-line parameters of this kernel only
    :param label: label of its bundle; None to use its name
    :param source: its commit, as for ``record --source``; None if not given
    """

    name: str
    image: Path
    release: str
    files: Mapping[str, Path]
    modules: Path | None = None
    arguments: str = ""
    label: str | None = None
    source: Mapping[str, Any] | None = None


def read_kernel(name: str, image: Path, folder: Path | None, modules: Path) -> Kernel:
    """Examine an image and find the files that belong to it.

    :param name: name of its bundle
    :param folder: directory of System.map and config; None for the image's directory or build tree
    :param modules: directory with the modules of each release: /lib/modules
    :raises InputError: the image cannot be booted in a guest on this machine, or ``folder`` is not
        a directory or lacks both files
    """
    release = _read_release(image)
    if folder is not None and not folder.is_dir():
        raise InputError(
            f"{folder}: no such directory; give the directory with System.map and config"
        )
    files = dict(_find_files(image, release, folder))
    if folder is not None and not files:
        raise InputError(
            f"{folder}: no {_FILE_NAMES[0]} or {_FILE_NAMES[1]}; give the directory with these "
            "files, or omit the directory"
        )
    beside = _modules_beside(image, release)
    kernel = Kernel(name=name, image=image, release=release, files=files, modules=beside)
    _check_drivers(kernel, modules)
    return kernel


def _read_release(image: Path) -> str:
    if image.is_dir():
        inside = next((f for f in _likely_images(image) if f.is_file()), image / "bzImage")
        raise InputError(f"{image}: is a directory (expected a kernel image, e.g. {inside})")
    try:
        # Opening a fifo would block.
        os.close(os.open(image, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(
            f"{image}: {problem} (expected a kernel image); check the path and its permissions"
        ) from None
    head = read_head(image, HEAD_BYTES)
    for offset, magic in (_BOOT_FLAG, _MAGIC):
        if head[offset : offset + len(magic)] != magic:
            raise InputError(f"{image}: is {_what_else(head)}")
    _check_size(head, image)
    return _release_of(head, image)


def _check_size(head: bytes, image: Path) -> None:
    sectors = (head[_SETUP_SECTORS] or _DEFAULT_SECTORS) + 1
    paragraphs = int.from_bytes(head[_SYSTEM_SIZE : _SYSTEM_SIZE + 4], "little")
    expected, size = sectors * 512 + paragraphs * 16, image.stat().st_size
    if size < expected:
        raise InputError(
            f"{image}: truncated to {size} bytes (expected {expected}); copy or build it again"
        )


def _likely_images(folder: Path) -> Iterator[Path]:
    for name in ("bzImage", "vmlinuz", "arch/x86/boot/bzImage"):
        yield folder / name


def _what_else(head: bytes) -> str:
    for offset, magic, text in _OTHERS:
        if head[offset : offset + len(magic)] == magic:
            return text
    return "an invalid kernel image (expected an x86-64 bzImage, e.g. /boot/vmlinuz-RELEASE)"


def _release_of(head: bytes, image: Path) -> str:
    pointer = int.from_bytes(head[_VERSION_POINTER : _VERSION_POINTER + 2], "little")
    start = pointer + _VERSION_BASE
    text = head[start : start + _LONGEST_RELEASE + 1]
    match = re.match(rb"[\w.+~-]{1,64}(?=[ \0])", text)
    if not pointer or not match:
        raise InputError(f"{image}: no version in its header; build it again")
    return match[0].decode("ascii")


def _find_files(image: Path, release: str, folder: Path | None) -> Iterator[tuple[str, Path]]:
    for kept in ("System.map", "config"):
        usual = [name for name in _FILE_NAMES if kept in name]
        paths = [
            parent / name
            for parent in ([folder] if folder is not None else _folders(image))
            for name in (f"{kept}-{release}", *usual)
        ]
        existing = next((path for path in paths if path.is_file()), None)
        if existing is not None:
            yield kept, existing


def _folders(image: Path) -> Iterator[Path]:
    path = image.absolute()
    yield path.parent
    # In a build tree the image is in arch/x86/boot.
    if path.parts[-4:-1] == ("arch", "x86", "boot"):
        yield path.parents[3]


def _modules_beside(image: Path, release: str) -> Path | None:
    """Return the modules directory of an unpacked package, in which boot/ and lib/ are siblings.

    :return: None if the image is in no such package
    """
    root = image.absolute().parent.parent
    if root == Path(root.anchor):
        return None
    folders = [root / lib / "modules" / release for lib in ("lib", "usr/lib")]
    return next((folder for folder in folders if folder.is_dir()), None)


def _check_drivers(kernel: Kernel, modules: Path) -> None:
    """Reject a kernel that lacks options that a guest needs, or the modules for them.

    A kernel without a configuration file is accepted.

    :param modules: directory with this machine's modules of each release
    :raises InputError: options or modules are missing
    """
    if "config" not in kernel.files:
        # If the configuration is missing, the boot will show it.
        return
    text = read_regular(
        kernel.files["config"], _CONFIG_LIMIT_BYTES, "the kernel's configuration"
    ).decode("utf-8", "replace")
    values = dict(re.findall(r"^(CONFIG_\w+)=([ym])$", text, re.MULTILINE))
    missing = [option for option in _NEEDED if option not in values]
    if missing:
        raise InputError(
            f"{kernel.image}: lacks {', '.join(missing)} (required in a guest); build the "
            "kernel with these options, or use another flavour (Debian's cloud kernels lack them)"
        )
    needs_modules = [option for option in _NEEDED if values[option] == "m"]
    if not needs_modules or kernel.modules is not None:
        return
    if not (modules / kernel.release / "modules.dep").is_file():
        raise InputError(
            f"{kernel.image}: {', '.join(needs_modules)} are modules, but {modules} has no "
            f"modules for {kernel.release}; install them and run depmod {kernel.release}"
        )
