# SPDX-License-Identifier: GPL-2.0-or-later
"""The hook grub-reboot, with GRUB's programs on real file systems."""

from pathlib import Path

import pytest

from schedperf_collectors.boots.scripts import script
from tests.collectors.boots.machines import DEBIAN_MENU, NEW, OLD, Machine, menuentry, need, with_id

pytestmark = pytest.mark.system

HOOK = "grub-reboot"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    need("grub-editenv", "grub-probe", "mkfs.ext4")
    machine = Machine(tmp_path)
    machine.install(OLD)
    machine.install(NEW)
    machine.install_grub(DEBIAN_MENU)
    return machine


def test_a_kernel_is_selected_once_by_its_entry(machine: Machine) -> None:
    assert machine.hook(HOOK, "default").stdout == f"{NEW}\n"
    assert machine.hook(HOOK, "armed").stdout == ""
    assert machine.hook(HOOK, "arm", OLD).returncode == 0
    entry = f"gnulinux-advanced-1>gnulinux-{OLD}-advanced-1\n"
    assert machine.hook(HOOK, "armed").stdout == entry
    assert machine.hook(HOOK, "default").stdout == f"{NEW}\n"
    assert machine.hook(HOOK, "disarm").returncode == 0
    assert machine.hook(HOOK, "armed").stdout == ""
    environment = (machine.boot / "grub" / "grubenv").read_bytes()
    assert len(environment) == 1024


def test_what_is_in_order_on_ext4(machine: Machine) -> None:
    machine.make_disk("ext4")
    machine.add_card("eth0", "virtio_net")
    done = machine.hook(HOOK, "check", OLD)
    assert (done.stderr, done.returncode) == ("", 0)
    free, *checks = done.stdout.splitlines()
    assert free.startswith("/boot has ")
    assert checks == [
        f"boot entry gnulinux-advanced-1>gnulinux-{OLD}-advanced-1",
        f"kernel /boot/vmlinuz-{OLD}",
        f"initrd /boot/initrd.img-{OLD}",
        "GRUB can write /boot/grub/grubenv (ext2)",
        f"modules /lib/modules/{OLD}",
        "driver virtio_net of eth0",
        f"default {NEW}",
    ]


def problems(machine: Machine, release: str = OLD) -> list[str]:
    done = machine.hook(HOOK, "check", release)
    lines = done.stderr.splitlines()
    assert done.returncode == bool(lines)
    # Each line has a remedy.
    assert all("; " in line for line in lines)
    return lines


def test_btrfs_keeps_the_entry_unless_grub_has_a_block_for_it(machine: Machine) -> None:
    need("mkfs.btrfs")
    machine.make_disk("btrfs")
    [line] = problems(machine)
    assert line == (
        "/boot/grub is on btrfs, without env_block: GRUB cannot clear a one-shot entry there, and "
        "would boot it every time; put /boot on a plain partition with ext4, or use --boot kexec "
        "or a command hook"
    )
    # As GRUB 2.14 and SUSE record it.
    machine.run("grub-editenv", "/boot/grub/grubenv", "set", "env_block=512+1", check=True)
    machine.run("sh", "-c", "echo '# load_env env_block' >>/boot/grub/grub.cfg", check=True)
    assert problems(machine) == []


@pytest.mark.parametrize(
    ("layers", "said"), [("lvm", "lvm"), ("diskfilter\nmdraid1x", "diskfilter mdraid1x")]
)
def test_lvm_and_raid_keep_the_entry(machine: Machine, layers: str, said: str) -> None:
    # Device mapper is not in every kernel: only the answer of grub-probe is replaced.
    machine.make_disk("ext4")
    probe = machine.folder / "bin" / "grub-probe"
    probe.parent.mkdir()
    probe.write_text(
        f"#!/bin/sh\ncase $1 in *abstraction) printf '{layers}\\n';; *) echo ext2;; esac\n"
    )
    probe.chmod(0o755)
    done = machine.run(
        "sh",
        "-c",
        f'PATH={probe.parent}:$PATH; exec sh "$@"',
        "sh",
        *hook_file(machine),
        "check",
        OLD,
    )
    assert done.stderr.startswith(f"/boot/grub is on {said}: GRUB cannot clear a one-shot entry")
    assert done.returncode == 1


def hook_file(machine: Machine) -> list[Path]:
    path = machine.folder / "hook"
    path.write_bytes(script(HOOK))
    return [path]


def test_a_file_system_that_grub_probe_does_not_know(machine: Machine) -> None:
    (machine.folder / "in-memory").touch()
    [line] = problems(machine)
    assert line.startswith("grub-probe cannot tell what /boot/grub is stored on; put /boot on")


def test_a_read_only_boot(machine: Machine) -> None:
    machine.make_disk("ext4")
    machine.options("ro")
    [line] = problems(machine)
    assert line.startswith("/boot/grub/grubenv cannot be written; mount its file system writable")
    assert machine.hook(HOOK, "arm", OLD).returncode == 1


def test_a_full_boot(machine: Machine) -> None:
    machine.make_disk("ext4", megabytes=24)
    machine.run("dd", "if=/dev/zero", "of=/boot/filler", "bs=1M")
    lines = problems(machine)
    assert lines[0].startswith("/boot has 0 MB free, expected at least 16 MB; remove a kernel")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("rm /boot/grub/grubenv", "/boot/grub/grubenv does not exist"),
        ("mv /boot/grub/grubenv /boot/x; ln -s /boot/x /boot/grub/grubenv", "is a symbolic link"),
        ("truncate -s 512 /boot/grub/grubenv", "is not an environment block of 1024 bytes"),
        ("head -c 1024 /dev/zero >/boot/grub/grubenv", "is not an environment block"),
        ("sed -i /next_entry/d /boot/grub/grub.cfg", "does not read next_entry"),
        (f"rm /boot/vmlinuz-{OLD}", f"loads /boot/vmlinuz-{OLD}, which does not exist"),
        (f"rm /boot/initrd.img-{OLD}", f"loads /boot/initrd.img-{OLD}, which does not exist"),
        (f"rm -r /lib/modules/{OLD}", f"/lib/modules/{OLD} does not exist"),
        (f": >/lib/modules/{OLD}/modules.dep", "modules.dep is missing or empty; run depmod"),
        ("grub-editenv /boot/grub/grubenv set next_entry=x", "entry is already set: x"),
        (f"rm -r /lib/modules/{NEW}", f"default boot entry boots {NEW}, which has no /lib/modules"),
        ("sed -i 's/default=\"0\"/default=gone/' /boot/grub/grub.cfg", "by default is unknown"),
        ("rm /boot/grub/grub.cfg", "GRUB has no menu"),
        ("rm -r /boot/*", "GRUB has no menu"),
    ],
)
def test_each_fault_is_named(machine: Machine, spoil: str, said: str) -> None:
    machine.make_disk("ext4")
    machine.run("sh", "-c", spoil, check=True)
    [line] = problems(machine)
    assert said in line


def test_a_network_driver_that_a_kernel_lacks(machine: Machine) -> None:
    machine.make_disk("ext4")
    machine.add_card("eth0", "virtio_net")
    machine.add_card("eth1", "tg3")
    machine.add_card("eth2", "r8169", state="down")
    # File names write - where modules write _.
    machine.add_card("eth3", "virtio_pci")
    [line] = problems(machine)
    assert line == (
        f"{OLD} has no driver tg3, which eth1 uses; "
        "enable this driver in the kernel's configuration"
    )


@pytest.mark.parametrize(
    ("default", "saved", "expected"),
    [
        ("0", None, NEW),
        (f"gnulinux-advanced-1>gnulinux-{OLD}-advanced-1", None, OLD),
        ("1>2", None, OLD),
        ("Advanced options for Debian GNU/Linux>0", None, NEW),
        ("${saved_entry}", None, NEW),
        ("${saved_entry}", f"gnulinux-advanced-1>gnulinux-{OLD}-advanced-1", OLD),
        # A submenu, which has no kernel; an entry that is gone; a variable of a script.
        ("1", None, None),
        ("gnulinux-9", None, None),
        ("7", None, None),
        ("${other}", None, None),
        ("${saved_entry}", "$(reboot)", None),
    ],
)
def test_the_default(
    machine: Machine, default: str, saved: str | None, expected: str | None
) -> None:
    machine.install_grub(DEBIAN_MENU, default)
    if saved is not None:
        environment = str(machine.boot / "grub" / "grubenv")
        machine.run("grub-editenv", environment, "set", f"saved_entry={saved}", check=True)
    assert machine.hook(HOOK, "default").stdout == (f"{expected}\n" if expected else "")


def test_entries_that_may_be_hidden_are_not_counted(machine: Machine) -> None:
    hidden = 'if [ "$grub_platform" = "efi" ]; then\n' + menuentry("x", OLD, with_id("x")) + "fi\n"
    machine.install_grub(hidden + DEBIAN_MENU, "1")
    assert machine.hook(HOOK, "default").stdout == ""
    machine.install_grub(DEBIAN_MENU + hidden, "0")
    assert machine.hook(HOOK, "default").stdout == f"{NEW}\n"


@pytest.mark.parametrize(
    ("title", "entry"),
    [
        ('It\'s "quoted" $(touch /boot/pwned) `touch /boot/pwned`', None),
        ("a > b", "a >> b"),
        ("back\\slash * ?", None),
        ("--id=x", ""),
        ("6.1 begins with a digit", ""),
    ],
)
def test_titles_are_data(machine: Machine, title: str, entry: str | None) -> None:
    machine.install_grub(menuentry(title, OLD) + DEBIAN_MENU.replace(OLD, "5.0"))
    armed = machine.hook(HOOK, "arm", OLD)
    expected = title if entry is None else entry
    assert armed.returncode == (0 if expected else 1)
    assert machine.hook(HOOK, "armed").stdout == (f"{expected}\n" if expected else "")
    assert not (machine.boot / "pwned").exists()


def test_only_exactly_this_release_is_found(machine: Machine) -> None:
    for release in ("6.1.0-4", "6.1.0-47", "6.1.0-47-cloud-amd6", "47-cloud-amd64"):
        assert machine.hook(HOOK, "arm", release).returncode == 1
    assert machine.hook(HOOK, "armed").stdout == ""


def test_another_entry_of_the_same_name_is_in_front(machine: Machine) -> None:
    menu = menuentry("a", NEW, with_id("same")) + menuentry("b", OLD, with_id("same"))
    machine.install_grub(menu)
    assert machine.hook(HOOK, "arm", OLD).returncode == 1


@pytest.mark.parametrize("release", ["-x", "../..", "", "a b", "$(reboot)", "a\nb", "x" * 65])
def test_releases_that_are_none(machine: Machine, release: str) -> None:
    for verb in ("check", "arm"):
        done = machine.hook(HOOK, verb, release)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("invalid kernel release")


@pytest.mark.slow
def test_a_menu_of_10_megabytes(machine: Machine) -> None:
    entries = (menuentry(f"x{i}", f"5.{i}", with_id(f"id{i}")) for i in range(60_000))
    machine.install_grub(DEBIAN_MENU + "#" * 1_000_000 + "\n" + "".join(entries))
    assert (machine.boot / "grub" / "grub.cfg").stat().st_size > 10_000_000
    assert machine.hook(HOOK, "arm", "5.59999").returncode == 0
    assert machine.hook(HOOK, "armed").stdout == "id59999\n"


def test_entries_of_the_boot_loader_specification(machine: Machine) -> None:
    machine.install_grub("insmod blscfg\nblscfg\n", "${saved_entry}")
    entries = machine.boot / "loader" / "entries"
    entries.mkdir(parents=True)
    for release in (OLD, NEW):
        entries.joinpath(f"0123-{release}.conf").write_text(
            f"title Fedora Linux ({release})\nversion {release}\nlinux /vmlinuz-{release}\n"
            f"initrd /initrd.img-{release} $tuned_initrd\noptions root=UUID=1 $tuned_params\n"
        )
    environment = str(machine.boot / "grub" / "grubenv")
    machine.run("grub-editenv", environment, "set", f"saved_entry=0123-{NEW}", check=True)
    machine.make_disk("ext4")
    assert problems(machine) == []
    assert machine.hook(HOOK, "default").stdout == f"{NEW}\n"
    assert machine.hook(HOOK, "arm", OLD).returncode == 0
    assert machine.hook(HOOK, "armed").stdout == f"0123-{OLD}\n"


@pytest.mark.parametrize(
    ("root", "needs"),
    [
        ("root=/dev/sda1", False),
        ("root=PARTUUID=1-2", False),
        ("root=UUID=1", True),
        ("root=/dev/mapper/vg-root", True),
    ],
)
def test_an_entry_without_initrd(machine: Machine, root: str, needs: bool) -> None:  # noqa: FBT001
    menu = menuentry("x", OLD, with_id("x"), rest=f"ro {root} quiet").replace("initrd", "# ")
    machine.install_grub(DEBIAN_MENU.replace(OLD, "5.0") + menu)
    machine.make_disk("ext4")
    said = f"the boot entry of {OLD} has no initrd, and its root= needs one; make one, e.g. "
    assert [line.startswith(said) for line in problems(machine)] == [True] * needs
