# SPDX-License-Identifier: GPL-2.0-or-later
"""The hooks bootctl and efibootmgr, with the real programs and variables in plain files."""

import struct
from pathlib import Path

import pytest

from tests.collectors.boots.machines import GLOBAL, LOADER, NEW, OLD, Machine, need

pytestmark = pytest.mark.system


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    need()
    machine = Machine(tmp_path)
    machine.install(OLD)
    machine.install(NEW)
    machine.set_variable("SecureBoot", b"\0")
    return machine


def test_without_efi_neither_applies(tmp_path: Path) -> None:
    need()
    machine = Machine(tmp_path)
    (tmp_path / "firmware").mkdir()
    for hook in ("bootctl", "efibootmgr"):
        done = machine.hook(hook, "check", NEW)
        assert done.returncode == 1
        assert "not started by EFI" in done.stderr.splitlines()[-1]


def with_systemd_boot(machine: Machine) -> None:
    need("bootctl")
    machine.set_text("LoaderInfo", "systemd-boot 252.39-1~deb12u2")
    entries = machine.boot / "efi" / "loader" / "entries"
    entries.mkdir(parents=True)
    for release in (OLD, NEW):
        folder = machine.boot / "efi" / "deb" / release
        folder.mkdir(parents=True)
        (folder / "linux").write_bytes(b"")
        (folder / "initrd").write_bytes(b"")
        (folder / "microcode").write_bytes(b"")
        # Boot counting is part of the name of the file, not of the id.
        tries = "+3-0" if release == OLD else ""
        (entries / f"deb-{release}{tries}.conf").write_text(
            f"title Debian (1) (default)\nversion {release}\nlinux /deb/{release}/linux\n"
            f"initrd /deb/{release}/microcode\ninitrd /deb/{release}/initrd\noptions root=UUID=1\n"
        )


def test_systemd_boot_is_found_by_its_variable(machine: Machine) -> None:
    with_systemd_boot(machine)
    assert machine.hook("bootctl", "applies").returncode == 0
    (machine.boot / "grub" / "grub.cfg").write_text("")
    refused = machine.hook("grub-reboot", "applies")
    assert refused.returncode == 1
    assert refused.stderr == (
        "this machine was started by systemd-boot, not by GRUB; use --boot bootctl\n"
    )
    machine.set_text("LoaderInfo", "GRUB 2.12")
    assert machine.hook("bootctl", "applies").returncode == 1


def test_entries_of_systemd_boot(machine: Machine) -> None:
    with_systemd_boot(machine)
    done = machine.hook("bootctl", "check", OLD)
    assert f"boot entry deb-{OLD}.conf\n" in done.stdout
    assert f"kernel /boot/efi/deb/{OLD}/linux\n" in done.stdout
    assert f"initrd /boot/efi/deb/{OLD}/microcode\n" in done.stdout
    assert f"initrd /boot/efi/deb/{OLD}/initrd\n" in done.stdout
    (machine.boot / "efi" / "deb" / OLD / "initrd").unlink()
    assert (
        f"loads /deb/{OLD}/initrd, which does not exist"
        in machine.hook("bootctl", "check", OLD).stderr
    )
    missing = machine.hook("bootctl", "check", OLD.removesuffix("64"))
    assert "systemd-boot has no entry of 6.1.0-47-cloud-amd " in missing.stderr


def test_the_default_of_systemd_boot(machine: Machine) -> None:
    with_systemd_boot(machine)

    def default() -> str:
        return machine.hook("bootctl", "default").stdout.strip()

    settings = machine.boot / "efi" / "loader" / "loader.conf"
    assert default() == NEW
    settings.write_text("timeout 3\ndefault deb-6.1.0-47-*\n")
    assert default() == OLD
    # A one-shot entry is no default.
    machine.set_text("LoaderEntryOneShot", f"deb-{NEW}.conf")
    assert machine.hook("bootctl", "armed").stdout == f"deb-{NEW}.conf"
    assert default() == OLD
    machine.set_text("LoaderEntryDefault", f"deb-{NEW}.conf")
    assert default() == NEW
    machine.set_text("LoaderEntryDefault", "@saved")
    machine.set_text("LoaderEntryLastBooted", f"deb-{OLD}.conf")
    assert default() == OLD
    machine.set_text("LoaderEntryDefault", "gone.conf")
    assert default() == ""


def boot_option(label: str, path: str) -> bytes:
    """Return an EFI_LOAD_OPTION of a file."""
    file = f"{path}\0".encode("utf-16-le")
    device = struct.pack("<BBH", 4, 4, 4 + len(file)) + file + struct.pack("<BBH", 0x7F, 0xFF, 4)
    return struct.pack("<IH", 1, len(device)) + f"{label}\0".encode("utf-16-le") + device


def with_boot_options(machine: Machine, *options: tuple[str, str]) -> None:
    need("efibootmgr")
    numbers = range(len(options))
    machine.set_variable("BootOrder", struct.pack(f"<{len(options)}H", *numbers))
    machine.set_variable("BootCurrent", struct.pack("<H", 0))
    for number, (label, path) in zip(numbers, options, strict=True):
        machine.set_variable(f"Boot{number:04X}", boot_option(label, path))


def test_a_kernel_that_the_firmware_boots_is_selected_once(machine: Machine) -> None:
    with_boot_options(
        machine,
        ("new $(reboot) 'x'", f"\\EFI\\Linux\\linux-{NEW}.efi"),
        (f"Linux {OLD}-rt", f"\\EFI\\x\\1{OLD}.efi"),
        (f"Linux {OLD}", "\\EFI\\x\\vmlinuz"),
    )
    assert machine.hook("efibootmgr", "default").stdout == f"{NEW}\n"
    assert machine.hook("efibootmgr", "armed").stdout == ""
    assert machine.hook("efibootmgr", "arm", OLD).returncode == 0
    assert machine.hook("efibootmgr", "armed").stdout == "0002\n"
    assert machine.hook("efibootmgr", "default").stdout == f"{NEW}\n"
    next_boot = machine.variables / f"BootNext-{GLOBAL}"
    assert next_boot.read_bytes()[4:] == b"\2\0"
    assert machine.hook("efibootmgr", "disarm").returncode == 0
    assert machine.hook("efibootmgr", "armed").stdout == ""
    assert machine.hook("efibootmgr", "check", NEW).stdout.splitlines()[1:] == [
        "boot entry Boot0000",
        f"modules /lib/modules/{NEW}",
        f"default {NEW}",
    ]
    assert machine.hook("efibootmgr", "arm", "6.1.0-4").returncode == 1


def pe_file(certificates: int) -> bytes:
    """Return the headers of an EFI program with a certificate table of some bytes."""
    header = bytearray(1024)
    struct.pack_into("<2s58xI", header, 0, b"MZ", 128)
    struct.pack_into("<4s", header, 128, b"PE\0\0")
    struct.pack_into("<H", header, 128 + 24, 0x20B)
    struct.pack_into("<II", header, 128 + 24 + 144, 4096 if certificates else 0, certificates)
    return bytes(header)


def test_secure_boot_refuses_kernels_without_a_signature(machine: Machine) -> None:
    with_systemd_boot(machine)
    kernel = machine.boot / "efi" / "deb" / OLD / "linux"
    unsigned = f"Secure Boot is on, and /boot/efi/deb/{OLD}/linux has no signature; sign it"
    machine.set_variable("SecureBoot", b"\1")
    for data in (b"", b"MZ", pe_file(0), b"\xff" * 64):
        kernel.write_bytes(data)
        assert unsigned in machine.hook("bootctl", "check", OLD).stderr
    kernel.write_bytes(pe_file(1440))
    assert unsigned not in machine.hook("bootctl", "check", OLD).stderr
    kernel.write_bytes(pe_file(0))
    machine.set_variable("SecureBoot", b"\0")
    assert unsigned not in machine.hook("bootctl", "check", OLD).stderr


def test_variables_of_strangers(machine: Machine) -> None:
    machine.set_text("LoaderInfo", "systemd-boot \n\x1b[31m" + "x" * 100_000)
    machine.set_text("LoaderEntryOneShot", "a\n$(reboot)")
    (machine.variables / f"LoaderEntryDefault-{LOADER}").write_bytes(b"\1")
    done = machine.hook("bootctl", "check", OLD)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout + done.stderr
