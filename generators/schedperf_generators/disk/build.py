# SPDX-License-Identifier: GPL-2.0-or-later
"""Build two disks once and cache them: one that GRUB boots, and one that systemd-boot boots."""

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from schedperf_generators.disk import efi, grub, tree
from schedperf_generators.disk.tree import Kernels

LOADERS = ("grub", "systemd-boot")
_KEPT_S = 3 * 24 * 3600


class Firmware(NamedTuple):
    """Files of a machine's EFI firmware: its code, and its variables before the first boot."""

    code: Path
    variables: Path


class Disk(NamedTuple):
    """A bootable disk.

    :param path: a raw image that no machine may write to
    :param kernels: the first is the default
    :param key: file with the private ssh key that root's sshd accepts
    :param firmware: EFI firmware that boots it; None for a PC's BIOS
    """

    path: Path
    kernels: Kernels
    key: Path
    firmware: Firmware | None


def get_disk(loader: str) -> Disk:
    """Return a disk with a boot loader; build it if it is not in the cache (about a minute).

    :param loader: one of LOADERS
    :raises tree.CannotBuild: a program or package is missing or fails, or the user is not root
    :raises FileNotFoundError: cpio or /bin/busybox is missing
    :raises subprocess.CalledProcessError: cpio fails
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "schedperf", "disks")
    folder = cache / _recipe()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            _make(cache, folder)
    kernels = Kernels(*(folder / "made").read_text().split())
    firmware = Firmware(efi.CODE, efi.VARIABLES) if loader == "systemd-boot" else None
    return Disk(folder / f"{loader}.raw", kernels, folder / "key", firmware)


def _recipe() -> str:
    """Return a hash of the modules that build the disks: the name of their cache directory."""
    folder = Path(__file__).parent
    content = b"".join((folder / f"{name}.py").read_bytes() for name in ("tree", "grub", "efi"))
    return hashlib.sha256(content).hexdigest()[:16]


def _make(cache: Path, folder: Path) -> None:
    """Remove disks that are older than three days, then build both disks.

    :param cache: directory of all builds
    :param folder: directory of this build; the remains of an interrupted build are replaced
    """
    for other in cache.iterdir():
        # A machine may still run from a younger disk.
        if other.is_dir() and time.time() - other.stat().st_mtime > _KEPT_S:
            shutil.rmtree(other)
    with tempfile.TemporaryDirectory(dir=cache) as name:
        making = Path(name)
        kernels = tree.build_tree(making)
        grub.write_menu(making / "root", kernels)
        grub.write_disk(making / "root", making / "grub.raw")
        efi.write_disk(making / "root", making / "systemd-boot.raw", kernels)
        # The remains of an interrupted build, which have no file `made`.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for path in ("grub.raw", "systemd-boot.raw", "key"):
            (making / path).rename(folder / path)
        (folder / "made").write_text("\n".join(kernels))
