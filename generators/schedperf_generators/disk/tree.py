# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the root file system of a disk: Debian with systemd, sshd, Python and two kernels."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

SUITE = "bookworm"
SOURCES = (
    f"deb http://deb.debian.org/debian {SUITE} main",
    f"deb http://deb.debian.org/debian-security {SUITE}-security main",
)
PACKAGES = (
    "efibootmgr",
    # Its controller bisects.
    "git",
    "grub-common",
    "grub2-common",
    "iproute2",
    "kexec-tools",
    "kmod",
    # NumPy's wheels need it.
    "libstdc++6",
    "openssh-server",
    "procps",
    "python3",
    "python3-venv",
    "rt-tests",
    "systemd-boot",
    "systemd-sysv",
    "util-linux",
)
# What a guest without a user does not read.
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
# Loaded in this order before the root file system is mounted; ext4 is built in.
_MODULES = (
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "virtio_rng",
    "vfat",
    "nls_cp437",
    "nls_ascii",
    "efivarfs",
)
# A kernel whose first process ends, so that it panics; and one that runs as another release than
# its name says.
PANICS, LIES = "6.1.0-panics-cloud-amd64", "6.1.0-wrong-cloud-amd64"
ROOT_DEVICE, ESP_DEVICE = "/dev/vda1", "/dev/vda2"
ARGUMENTS = (
    "root=/dev/vda1 ro console=ttyS0 quiet loglevel=4 mitigations=off panic=5 nowatchdog "
    "random.trust_cpu=on tsc=reliable no_timer_check"
)
_BUILD_S = 900
# Linked statically, so it needs no other file in an initial RAM disk.
_BUSYBOX = Path("/bin/busybox")

# mmdebstrap runs them on this machine, with the packages' lists of the root file system: $1.
_LIST_KERNELS = 'apt-cache -c "$MMDEBSTRAP_APT_CONFIG" pkgnames linux-image-6.1 >"$1/kernels"'
_FETCH_KERNELS = (
    'cd "$1/boot" && apt-get -q -c "$MMDEBSTRAP_APT_CONFIG" -o APT::Sandbox::User=root download '
    "$(grep -E '^linux-image-6[.]1[.][0-9]+-[0-9]+-cloud-amd64$' ../kernels | sort -V | tail -n 2)"
)

_INIT = """\
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox mount -t devtmpfs dev /dev
for module in @MODULES@; do /bin/busybox insmod /modules/$module 2>/dev/null; done
/bin/busybox mount -t ext4 -o rw @ROOT@ /root || exec /bin/busybox reboot -f
[ ! -b @ESP@ ] || /bin/busybox mount -t vfat -o umask=0077 @ESP@ /root/boot/efi
/bin/busybox mount -o move /dev /root/dev
exec /bin/busybox switch_root /root @INIT@
"""
_NETWORK = """\
[Unit]
DefaultDependencies=no
Before=network.target network-online.target sshd.service ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'ip link set lo up; for card in /sys/class/net/e*; do card=$${card##*/}; \
ip link set $$card up; ip addr add 10.0.2.15/24 dev $$card; ip route add default via 10.0.2.2; done'
[Install]
WantedBy=multi-user.target
"""
_SSHD = """\
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
UseDNS no
PrintMotd no
KexAlgorithms curve25519-sha256
MaxStartups 100
Subsystem sftp internal-sftp
"""
# Each costs seconds under emulation. Nobody logs in on a terminal, and the RAM disk has loaded the
# drivers and mounted what there is, so that udev has nothing to do.
_MASKED = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-getty.service",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty-static.service",
    "getty.target",
    "grub-common.service",
    "grub-initrd-fallback.service",
    "kexec-load.service",
    "kexec.service",
    "kmod-static-nodes.service",
    "ldconfig.service",
    "modprobe@configfs.service",
    "modprobe@dm_mod.service",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "modprobe@fuse.service",
    "modprobe@loop.service",
    "proc-sys-fs-binfmt_misc.automount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-tracing.mount",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "systemd-binfmt.service",
    "systemd-boot-system-token.service",
    "systemd-boot-update.service",
    "systemd-firstboot.service",
    "systemd-hwdb-update.service",
    "systemd-journal-catalog-update.service",
    "systemd-journal-flush.service",
    "systemd-logind.service",
    "systemd-machine-id-commit.service",
    "systemd-modules-load.service",
    "systemd-pcrphase-sysinit.service",
    "systemd-pcrphase.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-remount-fs.service",
    "systemd-sysctl.service",
    "systemd-sysusers.service",
    "systemd-timesyncd.service",
    "systemd-tmpfiles-clean.timer",
    "systemd-tmpfiles-setup-dev.service",
    "systemd-tmpfiles-setup.service",
    "systemd-udev-settle.service",
    "systemd-udev-trigger.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-udevd.service",
    "systemd-update-done.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
    "systemd-user-sessions.service",
)


class Kernels(NamedTuple):
    """Releases of the installed kernels, as ``uname -r`` prints them; the first is the default."""

    old: str
    new: str


class CannotBuild(Exception):
    """A disk cannot be built on this machine; the message is the reason."""


def build_tree(folder: Path) -> Kernels:
    """Build the root file system in a directory; return the releases of its kernels.

    :param folder: directory for ``root/``, the file system, and ``key``, the private ssh key that
        root's sshd accepts
    :raises CannotBuild: a program or package is missing or fails, or the user is not root
    """
    if os.geteuid() != 0:
        raise CannotBuild("a root file system has files of root; run this as root")
    root = folder / "root"
    install(root)
    kernels = add_kernels(root, folder)
    add_settings(root, folder)
    return kernels


def install(root: Path) -> None:
    """Install Debian's packages, and download the packages of two kernels into ``boot/``.

    :raises CannotBuild: mmdebstrap is missing or fails
    """
    options = [f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT]
    run(
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--format=directory",
        "--variant=essential",
        f"--include={','.join(PACKAGES)}",
        *options,
        "--dpkgopt=force-unsafe-io",
        '--aptopt=APT::Install-Recommends "false"',
        '--aptopt=Acquire::Languages "none"',
        # The lists of packages, by which the kernels are found.
        "--skip=cleanup/apt",
        f"--customize-hook={_LIST_KERNELS}",
        f"--customize-hook={_FETCH_KERNELS}",
        SUITE,
        str(root),
        *SOURCES,
    )
    for path in ("var/lib/apt/lists", "var/cache/apt", "usr/share/locale"):
        shutil.rmtree(root / path, ignore_errors=True)


def add_kernels(root: Path, folder: Path) -> Kernels:
    """Unpack the kernels of ``root/boot/*.deb``; return their releases.

    Write an initial RAM disk for each, and add the two broken kernels ``PANICS`` and ``LIES``.

    :param folder: directory for temporary files
    :raises CannotBuild: there are not two kernels, or a program, such as cpio or /bin/busybox, is
        missing or fails
    """
    (root / "kernels").unlink()
    modules = root / "usr/lib/modules"
    modules.mkdir(exist_ok=True)
    for package in sorted((root / "boot").glob("*.deb")):
        # Unpacked elsewhere: its folder lib would replace the link to usr/lib.
        unpacked = folder / package.stem
        run("dpkg-deb", "-x", str(package), str(unpacked))
        package.unlink()
        for path in (unpacked / "lib/modules").iterdir():
            path.rename(modules / path.name)
        for path in (unpacked / "boot").iterdir():
            path.rename(root / "boot" / path.name)
        shutil.rmtree(unpacked)
    releases = sorted(path.name for path in modules.iterdir())
    if len(releases) != len(Kernels._fields):
        raise CannotBuild(f"{SUITE} has no two kernels of one flavour (found {releases})")
    for release in releases:
        run("depmod", "-b", str(root), release)
        write_initrd(root, folder, release)
    kernels = Kernels(*sorted(releases, key=_abi))
    _add_broken(root, folder, PANICS, kernels.old, "/panics")
    _add_broken(root, folder, LIES, kernels.old, "/sbin/init")
    return kernels


def _abi(release: str) -> int:
    return int(release.split("-")[1])


def _add_broken(root: Path, folder: Path, name: str, release: str, init: str) -> None:
    """Add the kernel of a release under another name.

    :param init: first process that its initial RAM disk starts
    """
    for prefix in ("vmlinuz", "config", "System.map"):
        (root / "boot" / f"{prefix}-{name}").hardlink_to(root / "boot" / f"{prefix}-{release}")
    (root / "usr/lib/modules" / name).symlink_to(release)
    write_initrd(root, folder, name, init)


def write_initrd(root: Path, folder: Path, release: str, init: str = "/sbin/init") -> None:
    """Write an initial RAM disk that only loads drivers, mounts the disk, and starts ``init``.

    Debian's own is 20 times as large, and an emulator takes many seconds to unpack it.

    :raises CannotBuild: cpio or /bin/busybox is missing, or cpio fails
    """
    if not _BUSYBOX.exists():
        raise CannotBuild(f"{_BUSYBOX} is missing; install busybox-static")
    tree = folder / "initrd"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "bin").mkdir(parents=True)
    (tree / "modules").mkdir()
    shutil.copy(_BUSYBOX, tree / "bin/busybox")
    files = _module_files(root, release)
    for file in files:
        shutil.copy(file, tree / "modules")
    text = _INIT.replace("@MODULES@", " ".join(file.name for file in files))
    script = tree / "init"
    text = text.replace("@ROOT@", ROOT_DEVICE).replace("@ESP@", ESP_DEVICE)
    script.write_text(text.replace("@INIT@", init))
    script.chmod(0o755)
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
    packed = _output_of(
        ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"],
        cwd=tree,
        given="\n".join(names).encode(),
    )
    (root / "boot" / f"initrd.img-{release}").write_bytes(packed)


def _module_files(root: Path, release: str) -> list[Path]:
    """Return the files of the modules of the RAM disk, each after those that it depends on."""
    folder = root / "usr/lib/modules" / release
    needs = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[Path(path).name.partition(".")[0].replace("-", "_")] = [path, *others.split()]
    found: list[Path] = []
    for name in _MODULES:
        # modules.dep names the nearest first.
        for path in reversed(needs.get(name, [])):
            if folder / path not in found:
                found.append(folder / path)
    return found


def add_settings(root: Path, folder: Path) -> None:
    """Write the settings with which the system boots to sshd, quickly, and the ssh keys.

    :param folder: directory for the private key
    :raises CannotBuild: ssh-keygen is missing or fails
    """
    units = root / "etc/systemd/system"
    (units / "network-static.service").write_text(_NETWORK)
    wanted = units / "multi-user.target.wants"
    wanted.mkdir(exist_ok=True)
    (wanted / "network-static.service").symlink_to("/etc/systemd/system/network-static.service")
    for name in _MASKED:
        (units / name).unlink(missing_ok=True)
        (units / name).symlink_to("/dev/null")
    (units / "default.target").unlink(missing_ok=True)
    (units / "default.target").symlink_to("/lib/systemd/system/multi-user.target")
    limits = root / "etc/systemd/system.conf.d"
    limits.mkdir(exist_ok=True)
    (limits / "quick.conf").write_text(
        "[Manager]\nDefaultTimeoutStopSec=10s\nDefaultTimeoutStartSec=120s\n"
    )
    journal = root / "etc/systemd/journald.conf.d"
    journal.mkdir(exist_ok=True)
    (journal / "quick.conf").write_text("[Journal]\nStorage=volatile\nRuntimeMaxUse=8M\n")
    # systemd would wait for udev to find the devices of its lines.
    (root / "etc/fstab").write_text("")
    (root / "boot/efi").mkdir()
    # Otherwise sshd reads its configuration twice.
    start = units / "ssh.service.d"
    start.mkdir(exist_ok=True)
    (start / "quick.conf").write_text("[Service]\nExecStartPre=\n")
    (root / "etc/hostname").write_text("target\n")
    (root / "etc/machine-id").write_text("5c5c0de5c5c0de5c5c0de5c5c0de5c5c\n")
    (root / "etc/default/grub").write_text(
        f'GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX_DEFAULT="{ARGUMENTS}"\n'
    )
    _add_keys(root, folder)


def _add_keys(root: Path, folder: Path) -> None:
    key = folder / "key"
    for path in (root / "etc/ssh").glob("ssh_host_*"):
        path.unlink()
    host_key = root / "etc/ssh/ssh_host_ed25519_key"
    for path in (key, host_key):
        path.unlink(missing_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "guest", "-f", str(path))
    accepted = root / "root/.ssh"
    accepted.mkdir(mode=0o700, exist_ok=True)
    (accepted / "authorized_keys").write_bytes((folder / "key.pub").read_bytes())
    (root / "etc/ssh/sshd_config").write_text(_SSHD)


def run(*command: str, cwd: Path | None = None) -> str:
    """Run a program; return what it prints on stdout.

    :param cwd: its working directory; None for the current one
    :raises CannotBuild: it is missing, takes longer than 15 minutes, or fails; the message then has
        the last line of its errors
    """
    return run_with(command, cwd=cwd)


def run_with(command: Sequence[str], *, cwd: Path | None = None, given: bytes = b"") -> str:
    """Run a program with bytes on its stdin; return and raise as :func:`run`."""
    return _output_of(command, cwd=cwd, given=given).decode(errors="replace")


def _output_of(command: Sequence[str], *, cwd: Path | None, given: bytes) -> bytes:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            input=given,
            capture_output=True,
            timeout=_BUILD_S,
            check=False,
            env={**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"},
        )
    except FileNotFoundError as error:
        raise CannotBuild(f"{command[0]} is missing; install it") from error
    except subprocess.TimeoutExpired as error:
        raise CannotBuild(f"{command[0]} takes more than {_BUILD_S} s") from error
    if done.returncode:
        errors = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise CannotBuild(f"{command[0]} fails: {errors[-1]}")
    return done.stdout
