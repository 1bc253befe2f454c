# SPDX-License-Identifier: GPL-2.0-or-later
"""GRUB itself, on an emulated PC: whether it consumes the entry that the hook sets.

The entries print their release and power off; no kernel is needed.
"""

import subprocess
from pathlib import Path

import pytest

from tests.collectors.boots.machines import NEW, OLD, Machine, need

pytestmark = pytest.mark.vm

HOOK = "grub-reboot"
IMAGES = Path("/usr/lib/grub/i386-pc")
MODULES = [
    "biosdisk", "btrfs", "configfile", "echo", "ext2", "halt", "linux", "loadenv", "normal",
    "serial", "terminal", "test",
]  # fmt: skip
# GRUB starts from the first disk; /boot is the second one.
START = """\
serial --unit=0
terminal_output serial
set root=hd1
set prefix=(hd1)/grub
configfile (hd1)/grub/grub.cfg
"""
SECTOR = 512
BOOT_LIMIT_S = 120


def entry(release: str) -> str:
    return (
        f"menuentry 'Linux {release}' --id 'linux-{release}' {{\n"
        f"\techo 'booted {release}'\n\thalt\n\tlinux /vmlinuz-{release} ro\n}}\n"
    )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    need("grub-editenv", "grub-mkimage", "qemu-system-x86_64")
    if not (IMAGES / "boot.img").is_file():
        pytest.skip("needs GRUB for BIOS (package grub-pc-bin)")
    machine = Machine(tmp_path)
    machine.install(OLD)
    machine.install(NEW)
    machine.install_grub("set timeout=0\n" + entry(NEW) + entry(OLD))
    early = tmp_path / "early.cfg"
    early.write_text(START)
    core = tmp_path / "core.img"
    command: list[str | Path] = [
        "grub-mkimage",
        "-O",
        "i386-pc",
        "-c",
        early,
        "-o",
        core,
        "-p",
        "(hd1)/grub",
    ]
    subprocess.run([*command, *MODULES], check=True)
    # The boot sector loads the image from the sectors that follow it.
    first = (IMAGES / "boot.img").read_bytes().ljust(SECTOR, b"\0") + core.read_bytes()
    (tmp_path / "first").write_bytes(first.ljust(2 << 20, b"\0"))
    return machine


def booted(machine: Machine) -> str:
    """Boot the machine; return what it printed."""
    disks = [f"file={machine.folder / name},format=raw,if=ide" for name in ("first", "disk")]
    done = subprocess.run(
        ["qemu-system-x86_64", "-accel", "tcg", "-m", "64", "-display", "none", "-nodefaults",
         "-serial", "stdio", "-no-reboot", "-drive", disks[0], "-drive", disks[1]],
        capture_output=True, timeout=BOOT_LIMIT_S, stdin=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    return done.stdout.decode(errors="replace")


def test_on_ext4_grub_consumes_the_entry(machine: Machine) -> None:
    need("mkfs.ext4")
    machine.make_disk("ext4")
    assert machine.hook(HOOK, "check", OLD).returncode == 0
    assert f"booted {NEW}" in booted(machine)
    assert machine.hook(HOOK, "arm", OLD).returncode == 0
    assert f"booted {OLD}" in booted(machine)
    assert machine.hook(HOOK, "armed").stdout == ""
    assert f"booted {NEW}" in booted(machine)
    assert machine.hook(HOOK, "arm", OLD).returncode == 0
    assert machine.hook(HOOK, "disarm").returncode == 0
    assert f"booted {NEW}" in booted(machine)


def test_on_btrfs_grub_keeps_the_entry_as_the_check_says(machine: Machine) -> None:
    need("mkfs.btrfs")
    machine.make_disk("btrfs")
    assert "GRUB cannot clear a one-shot entry" in machine.hook(HOOK, "check", OLD).stderr
    assert machine.hook(HOOK, "arm", OLD).returncode == 0
    for _ in range(2):
        assert f"booted {OLD}" in booted(machine)
        assert machine.hook(HOOK, "armed").stdout == f"linux-{OLD}\n"
