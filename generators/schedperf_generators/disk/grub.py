# SPDX-License-Identifier: GPL-2.0-or-later
"""Write a disk that a PC's BIOS boots with GRUB."""

from collections.abc import Sequence
from pathlib import Path

from schedperf_generators.disk.tree import (
    ARGUMENTS,
    LIES,
    PANICS,
    CannotBuild,
    Kernels,
    run,
    run_with,
)

SECTOR = 512
PARTITION_START = 2048 * SECTOR
_SIZE = 2560 * 1024 * 1024
ROOT_UUID = "5c5c0de5-0000-4000-8000-000000000001"
_GRUB = Path("/usr/lib/grub/i386-pc")
_MODULES = "biosdisk part_msdos ext2 normal linux loadenv configfile echo test search serial reboot"
# The partition table and the disk's signature in the first sector are not GRUB's.
_BOOT_CODE = 440

# As update-grub writes it: a one-shot entry, then the default, then entries inside a submenu.
_MENU = """\
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
   set default="0"
fi
if [ x"${feature_menuentry_id}" = xy ]; then
  menuentry_id_option="--id"
else
  menuentry_id_option=""
fi
export menuentry_id_option
set timeout=0
"""
_ENTRY = """\
{indent}menuentry '{title}' --class debian $menuentry_id_option '{name}' {{
{indent}\tlinux\t/boot/vmlinuz-{release} {arguments}
{indent}\tinitrd\t/boot/initrd.img-{release}
{indent}}}
"""


def write_menu(root: Path, kernels: Kernels) -> None:
    """Write GRUB's menu, in which the old kernel is the default, and an empty environment block.

    :param root: directory with the files of the root file system
    """
    folder = root / "boot/grub"
    folder.mkdir(parents=True, exist_ok=True)
    text = _MENU + _entry(kernels.old, "", "gnulinux-simple", "Debian GNU/Linux")
    text += "submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option "
    text += f"'gnulinux-advanced-{ROOT_UUID}' {{\n"
    for release in (kernels.new, kernels.old, PANICS, LIES):
        title = f"Debian GNU/Linux, with Linux {release}"
        text += _entry(release, "\t", f"gnulinux-{release}-advanced", title)
    (folder / "grub.cfg").write_text(text + "}\n")
    head = b"# GRUB Environment Block\n"
    (folder / "grubenv").write_bytes(head.ljust(1024, b"#"))


def _entry(release: str, indent: str, name: str, title: str) -> str:
    return _ENTRY.format(
        indent=indent, title=title, name=f"{name}-{ROOT_UUID}", release=release, arguments=ARGUMENTS
    )


def write_disk(root: Path, disk: Path) -> None:
    """Write a disk with GRUB in the gap before its only partition.

    :param root: directory with the files of the root file system
    :param disk: the raw image to write
    :raises CannotBuild: GRUB's files or a program are missing, or a program fails
    """
    if not (_GRUB / "boot.img").is_file():
        raise CannotBuild(f"{_GRUB} is missing; install grub-pc-bin")
    with disk.open("wb") as file:
        file.truncate(_SIZE)
    table = (
        f"label: dos\nlabel-id: 0x5c5c0de5\nstart={PARTITION_START // SECTOR}, type=83, bootable\n"
    )
    run_with(["sfdisk", "--quiet", str(disk)], given=table.encode())
    fill(disk, root, PARTITION_START, _SIZE - PARTITION_START, ["-U", ROOT_UUID])
    core = disk.with_name("core.img")
    modules = _MODULES.split()
    run("grub-mkimage", "-O", "i386-pc", "-p", "(hd0,msdos1)/boot/grub", "-o", str(core), *modules)
    with disk.open("r+b") as file:
        # boot.img reads the core from sector 1; the core's list of sectors begins there too.
        file.write((_GRUB / "boot.img").read_bytes()[:_BOOT_CODE])
        file.seek(SECTOR)
        file.write(core.read_bytes())


def fill(disk: Path, root: Path, start: int, size: int, options: Sequence[str]) -> None:
    """Write an ext4 file system with the files of a directory into a disk image.

    :param root: the directory
    :param start: offset of the file system on the disk, in bytes
    :param size: size of the file system, in bytes
    :param options: further options of mke2fs
    :raises CannotBuild: mke2fs is missing or fails
    """
    # GRUB 2.06 does not read a file system with metadata_csum_seed; a journal is needed, since
    # power is cut.
    run(
        "mke2fs",
        "-q",
        "-F",
        "-t",
        "ext4",
        "-O",
        "^metadata_csum_seed,^orphan_file",
        "-E",
        f"offset={start},lazy_itable_init=0,lazy_journal_init=0",
        "-d",
        str(root),
        *options,
        str(disk),
        f"{size // 1024}k",
    )
