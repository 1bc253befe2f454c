# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines with their own /boot, /lib/modules and /sys/firmware, in a mount namespace."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from schedperf_collectors.boots.scripts import script

OLD = "6.1.0-47-cloud-amd64"
NEW = "6.1.0-50-cloud-amd64"

LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
PERSISTENT = 7

# The beginning of grub.cfg as Debian's 00_header writes it.
HEADER = """\
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="%s"
fi
function savedefault {
  if [ -z "${boot_once}" ]; then
    saved_entry="${chosen}"
    save_env saved_entry
  fi
}
"""

_ENTER = """\
set -e
mount --make-rprivate /
folder=$1; shift
if [ -e "$folder/in-memory" ]; then
    mount -t tmpfs none /boot
    cp -a "$folder/boot/." /boot/
elif [ -e "$folder/disk" ]; then
    mount -o "loop,$(cat "$folder/options")" "$folder/disk" /boot
else
    mount --bind "$folder/boot" /boot
fi
mount --bind "$folder/modules" /lib/modules
if [ -d "$folder/firmware" ]; then
    mount --bind "$folder/firmware" /sys/firmware
fi
if [ -d "$folder/net" ]; then
    mount --bind "$folder/net" /sys/class/net
fi
exec "$@"
"""


def menuentry(title: str, release: str, *options: str, rest: str = "root=UUID=1 ro") -> str:
    """Return a menu entry; the title is in single quotes, as grub-mkconfig writes it."""
    quoted = title.replace("'", "'\\''")
    return (
        f"menuentry '{quoted}' {' '.join(options)} {{\n"
        "\tif [ x$grub_platform = xxen ]; then insmod xzio; insmod lzopio; fi\n"
        f"\tlinux\t/boot/vmlinuz-{release} {rest}\n"
        f"\tinitrd\t/boot/initrd.img-{release}\n"
        "}\n"
    )


def with_id(name: str) -> str:
    return f"$menuentry_id_option '{name}'"


DEBIAN_MENU = (
    menuentry("Debian GNU/Linux", NEW, "--class debian", with_id("gnulinux-simple-1"))
    + "submenu 'Advanced options for Debian GNU/Linux' "
    + with_id("gnulinux-advanced-1")
    + " {\n"
    + menuentry(f"Debian, with Linux {NEW}", NEW, with_id(f"gnulinux-{NEW}-advanced-1"))
    + menuentry("recovery", OLD, with_id(f"gnulinux-{OLD}-recovery-1"), rest="ro single")
    + menuentry(f"Debian, with Linux {OLD}", OLD, with_id(f"gnulinux-{OLD}-advanced-1"))
    + "}\n"
)


class Machine:
    """A machine below a folder. Its kernels and drivers are empty files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.boot = folder / "boot"
        self.modules = folder / "modules"
        self.variables = folder / "firmware" / "efi" / "efivars"
        (self.boot / "grub").mkdir(parents=True)
        self.modules.mkdir()
        (folder / "net").mkdir()

    def install(self, release: str) -> None:
        """Install a kernel."""
        (self.boot / f"vmlinuz-{release}").write_bytes(b"")
        (self.boot / f"initrd.img-{release}").write_bytes(b"")
        folder = self.modules / release
        folder.mkdir()
        folder.joinpath("modules.dep").write_text("kernel/drivers/net/virtio_net.ko.xz:\n")
        folder.joinpath("modules.builtin").write_text("kernel/drivers/virtio/virtio-pci.ko\n")

    def install_grub(self, menu: str, default: str = "0") -> None:
        """Write a menu, and an empty environment."""
        (self.boot / "grub" / "grub.cfg").write_text(HEADER % default + menu)
        subprocess.run(["grub-editenv", self.boot / "grub" / "grubenv", "create"], check=True)

    def set_variable(self, name: str, value: bytes, guid: str = GLOBAL) -> None:
        """Write an EFI variable."""
        self.variables.mkdir(parents=True, exist_ok=True)
        data = struct.pack("<I", PERSISTENT) + value
        (self.variables / f"{name}-{guid}").write_bytes(data)

    def set_text(self, name: str, text: str) -> None:
        """Write a variable of the boot loader."""
        self.set_variable(name, f"{text}\0".encode("utf-16-le"), LOADER)

    def make_disk(self, kind: str, megabytes: int = 330) -> None:
        """Move /boot to a file system of its own."""
        disk = self.folder / "disk"
        with disk.open("wb") as file:
            file.truncate(megabytes << 20)
        subprocess.run([f"mkfs.{kind}", "-q", disk], check=True, capture_output=True)
        staged = self.boot.rename(self.folder / "staged")
        self.options("rw")
        self.run("cp", "-a", f"{staged}/.", "/boot/", check=True)

    def options(self, options: str) -> None:
        """Set the mount options of /boot."""
        (self.folder / "options").write_text(options)

    def add_card(self, name: str, driver: str, *, state: str = "up") -> None:
        """Add a network card whose driver is a module of the running kernel."""
        device = self.folder / "devices" / name
        (device / "driver").mkdir(parents=True)
        module = self.folder / "module" / driver
        module.mkdir(parents=True, exist_ok=True)
        (device / "driver" / "module").symlink_to(module)
        (self.folder / "net" / name).mkdir()
        (self.folder / "net" / name / "operstate").write_text(f"{state}\n")
        (self.folder / "net" / name / "device").symlink_to(device)

    def run(
        self, *command: str | Path, check: bool = False, input_: bytes = b""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the machine."""
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", _ENTER, "sh", self.folder, *command],
            capture_output=True,
            input=input_,
            check=check,
            env={
                **os.environ,
                # Libraries refuse directories that are not those of a real machine.
                "SYSTEMD_RELAX_ESP_CHECKS": "1",
                "SYSTEMD_ESP_PATH": "/boot/efi",
                "EFIVARFS_PATH": "/sys/firmware/efi/efivars/",
                "LIBEFIVAR_OPS": "efivarfs",
            },
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def hook(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Call a built-in hook on the machine."""
        return self.run("sh", "-s", "--", *arguments, input_=script(name))


def need(*programs: str) -> None:
    """Skip the test without root, mount namespaces or programs."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount file systems")
    for folder in ("/boot", "/lib/modules", "/sys/class/net", "/sys/firmware"):
        if not Path(folder).is_dir():
            pytest.skip(f"needs the directory {folder} to mount another one there")
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs mount namespaces")
