# SPDX-License-Identifier: GPL-2.0-or-later
"""Write a disk that EFI firmware boots with systemd-boot."""

from pathlib import Path

from schedperf_generators.disk.grub import SECTOR, fill
from schedperf_generators.disk.tree import (
    ARGUMENTS,
    LIES,
    PANICS,
    CannotBuild,
    Kernels,
    run,
    run_with,
)

CODE, VARIABLES = Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd")
_MIB = 1024 * 1024
# The root file system comes first, as on the other disk: ROOT_DEVICE, then ESP_DEVICE.
_ROOT_START, _ROOT_SIZE = 1 * _MIB, 1280 * _MIB
_ESP_START, _ESP_SIZE = _ROOT_START + _ROOT_SIZE, 128 * _MIB
_ESP_UUID = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
_LINUX_UUID = "0fc63daf-8483-4772-8e79-3d69d8477de4"
_ENTRY = """\
title Debian GNU/Linux
version {release}
linux /debian/{release}/vmlinuz-{release}
initrd /debian/{release}/initrd.img-{release}
options {arguments}
"""


def write_disk(root: Path, disk: Path, kernels: Kernels) -> None:
    """Write a disk with systemd-boot on an EFI system partition, which is mounted on /boot/efi.

    :param root: directory with the files of the root file system
    :param disk: the raw image to write
    :raises CannotBuild: the firmware or a program is missing, or a program fails
    """
    loader = root / "usr/lib/systemd/boot/efi/systemd-bootx64.efi"
    for path, package in ((CODE, "ovmf"), (loader, "systemd-boot")):
        if not path.is_file():
            raise CannotBuild(f"{path} is missing; install {package}")
    with disk.open("wb") as file:
        file.truncate(_ESP_START + _ESP_SIZE + _MIB)
    table = (
        "label: gpt\n"
        f"start={_ROOT_START // SECTOR}, size={_ROOT_SIZE // SECTOR}, type={_LINUX_UUID}\n"
        f"start={_ESP_START // SECTOR}, size={_ESP_SIZE // SECTOR}, type={_ESP_UUID}\n"
    )
    run_with(["sfdisk", "--quiet", str(disk)], given=table.encode())
    fill(disk, root, _ROOT_START, _ROOT_SIZE, [])
    _fill_esp(disk, root, loader, kernels)


def _fill_esp(disk: Path, root: Path, loader: Path, kernels: Kernels) -> None:
    """Write systemd-boot, its entries and the kernels, of which the old one is the default."""
    partition = f"{disk}@@{_ESP_START}"
    run("mformat", "-i", partition, "-F", "-T", str(_ESP_SIZE // SECTOR), "::")
    folders = ["EFI", "EFI/BOOT", "EFI/systemd", "loader", "loader/entries", "debian"]
    releases = [*kernels, PANICS, LIES]
    folders += [f"debian/{release}" for release in releases]
    run("mmd", "-i", partition, *(f"::{folder}" for folder in folders))
    for name in ("EFI/BOOT/BOOTX64.EFI", "EFI/systemd/systemd-bootx64.efi"):
        run("mcopy", "-i", partition, str(loader), f"::{name}")
    text = f"default debian-{kernels.old}.conf\ntimeout 0\n"
    run_with(["mcopy", "-i", partition, "-", "::loader/loader.conf"], given=text.encode())
    for release in releases:
        entry = f"::loader/entries/debian-{release}.conf"
        text = _ENTRY.format(release=release, arguments=ARGUMENTS)
        run_with(["mcopy", "-i", partition, "-", entry], given=text.encode())
        for name in (f"vmlinuz-{release}", f"initrd.img-{release}"):
            path = str(root / "boot" / name)
            run("mcopy", "-i", partition, path, f"::debian/{release}/{name}")
