# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a machine under QEMU that boots a disk, is reached by ssh, reboots, and loses its power."""

import os
import shlex
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from schedperf_generators.disk.build import Disk
from schedperf_generators.disk.tree import CannotBuild, run

# Time limit of a boot, on a loaded machine.
BOOT_S = 240.0
_MEMORY_MIB = 640
_CPUS = 2
# Options of a steady machine: 2 ns per instruction. A slower one would spend its time in timer
# interrupts if the kernel that it boots is slow.
_STEADY = ("-accel", "tcg,thread=single", "-icount", "shift=1", "-smp", "1")
_FAST = ("-accel", "tcg,thread=multi", "-smp", str(_CPUS))
# A fast model for TCG, with the name by which the recorder recognises emulation.
_CPU = "Nehalem,model-id=QEMU TCG CPU version 2.5+"
_POLL_S = 0.5
_END_S = 20.0
# What the kernel prints last, after which QEMU ends within a second, unless it hangs.
_RESTARTS = b"reboot: Restarting system"
_RESTART_S = 30.0
HOST = "target"
# The address of this machine in each guest, whose network is QEMU's own.
GATEWAY = "10.0.2.2"
# OpenSSH takes the user's home from /etc/passwd, so that only an option gives another file.
_CONFIG = """\
Host {host}
  HostName 127.0.0.1
  Port {port}
  User root
  IdentityFile {key}
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""


class DidNotBoot(Exception):
    """The machine does not answer; the message has the last lines of its console."""


class Machine:
    """A machine with its own changes to a disk that others share.

    :param folder: directory for the changes, the console's log, and a directory ``bin`` with an
        ``ssh`` that reaches the machine as ``target``
    :param steady: True for a guest with one CPU whose clock counts instructions, so that the load
        of the host changes no timing in the guest
    :raises CannotBuild: qemu-img, ssh or scp is missing or fails
    """

    def __init__(
        self, disk: Disk, folder: Path, *, memory_mib: int = _MEMORY_MIB, steady: bool = False
    ) -> None:
        self._disk = disk
        self._memory_mib = memory_mib
        self._steady = steady
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._supervisor: threading.Thread | None = None
        self._has_power = threading.Event()
        # Held while QEMU is started or killed, so that it does not start after the power is cut.
        self._starting = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self.console = folder / "console.log"
        self._overlay = folder / "changes.qcow2"
        # Port of its sshd, which is at 127.0.0.1 on this machine and at GATEWAY in other guests.
        self.port = _free_port()
        back = ("-F", "raw", "-b", str(disk.path.resolve()))
        run("qemu-img", "create", "-q", "-f", "qcow2", *back, str(self._overlay))
        if disk.firmware is not None:
            shutil.copy(disk.firmware.variables, folder / "variables.fd")
        self._write_ssh()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut_power()

    @property
    def environment(self) -> dict[str, str]:
        """Return environment variables with which ``ssh target`` reaches the machine."""
        return {**os.environ, "PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}"}

    @property
    def is_on(self) -> bool:
        """Return whether the machine has power."""
        return self._supervisor is not None and self._supervisor.is_alive()

    def start(self, *, waits: bool = True) -> None:
        """Switch the power on.

        :param waits: whether to wait for sshd
        :raises DidNotBoot: sshd does not answer
        """
        self._has_power.set()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)
        self._supervisor.start()
        if waits:
            self.wait()

    def _supervise(self) -> None:
        """Start QEMU again for each boot, until it fails or the power is cut.

        A reboot within one QEMU would be slow: GRUB copies the kernel to where the last one ran,
        and QEMU checks each written byte for code that it has translated.
        """
        status = 0
        while status == 0:
            with self._starting:
                if not self._has_power.is_set():
                    return
                with self.console.open("ab") as log:
                    earlier = log.tell()
                    self._process = subprocess.Popen(
                        self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
                    )
            status = self._await_end(self._process, earlier)

    def _await_end(self, process: subprocess.Popen[bytes], earlier: int) -> int:
        """Wait for QEMU and return its exit status; kill it if it hangs in the guest's restart.

        :param earlier: number of bytes that earlier boots wrote to the console
        :return: exit status; 0 after a hang
        """
        was_restarting = False
        while True:
            try:
                return process.wait(_RESTART_S)
            except subprocess.TimeoutExpired:
                printed = self.console.read_bytes()[earlier:]
                is_restarting = printed.rstrip().endswith(_RESTARTS)
            if is_restarting and was_restarting:
                process.kill()
                process.wait()
                return 0
            was_restarting = is_restarting

    def cut_power(self) -> None:
        """Switch the power off at once: what the guest did not flush is lost."""
        with self._starting:
            self._has_power.clear()
            if self._process is not None:
                # The host keeps what QEMU wrote; what QEMU holds itself ends with it.
                self._process.kill()
        if self._supervisor is not None:
            self._supervisor.join(_END_S)
            self._supervisor = None

    def wait(self, limit_s: float = BOOT_S, *, another_boot_than: str | None = None) -> str:
        """Wait until sshd answers; return the boot id.

        :param another_boot_than: boot id of an earlier boot, whose end is awaited; None for none
        :raises DidNotBoot: sshd does not answer within the limit, or QEMU ended
        """
        end = time.monotonic() + limit_s
        while time.monotonic() < end and self.is_on:
            try:
                boot = self.run("cat", "/proc/sys/kernel/random/boot_id", limit_s=15).strip()
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                boot = ""
            if boot and boot != another_boot_than:
                return boot
            time.sleep(_POLL_S)
        lines = self.console.read_text(errors="replace").splitlines()[-10:]
        raise DidNotBoot("\n".join(["the machine does not answer; its console:", *lines]))

    def run(self, *command: str, limit_s: float = 60.0, given: bytes = b"") -> str:
        """Run a program as root; return what it prints on stdout.

        :param given: its stdin
        :raises subprocess.CalledProcessError: it fails, or ssh does (exit status 255)
        :raises subprocess.TimeoutExpired: it takes longer than the limit
        """
        return self.call(*command, limit_s=limit_s, given=given, checks=True).stdout

    def call(
        self, *command: str, limit_s: float = 60.0, given: bytes = b"", checks: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as root; return its exit status, stdout and stderr.

        :param given: its stdin
        :param checks: whether a failure raises, as in :meth:`run`
        :raises subprocess.TimeoutExpired: it takes longer than the limit
        """
        return self.shell(shlex.join(command), limit_s=limit_s, given=given, checks=checks)

    def shell(
        self, script: str, *, limit_s: float = 60.0, given: bytes = b"", checks: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command line as root; return its exit status, stdout and stderr.

        :param given: its stdin
        :param checks: whether a failure raises
        :raises subprocess.CalledProcessError: with ``checks``, it fails, or ssh does (255)
        :raises subprocess.TimeoutExpired: it takes longer than the limit
        """
        ssh = (str(self._folder / "bin/ssh"), "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
        done = subprocess.run(
            [*ssh, HOST, script], input=given, capture_output=True, timeout=limit_s, check=checks
        )
        return subprocess.CompletedProcess(
            done.args,
            done.returncode,
            done.stdout.decode(errors="replace"),
            done.stderr.decode(errors="replace"),
        )

    def put(self, content: bytes, path: str) -> None:
        """Write a file on the machine and flush it to the disk; raise as :meth:`shell`."""
        self.shell(f"cat >{shlex.quote(path)} && sync {shlex.quote(path)}", given=content)

    def get(self, path: str) -> bytes:
        """Return the content of a file on the machine; raise as :meth:`shell`."""
        command = [str(self._folder / "bin/ssh"), HOST, f"cat {shlex.quote(path)}"]
        return subprocess.run(command, capture_output=True, timeout=60, check=True).stdout

    def _command(self) -> Sequence[str]:
        network = f"user,id=net,hostfwd=tcp:127.0.0.1:{self.port}-:22"
        firmware: list[str] = []
        if self._disk.firmware is not None:
            code, variables = self._disk.firmware.code, self._folder / "variables.fd"
            firmware += ["-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={code}"]
            firmware += ["-drive", f"if=pflash,unit=1,format=raw,file={variables}"]
        return [
            "qemu-system-x86_64",
            *("-machine", "q35" if firmware else "pc", *firmware),
            *(_STEADY if self._steady else _FAST),
            *("-cpu", _CPU, "-m", str(self._memory_mib)),
            *("-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"),
            *("-drive", f"if=none,id=disk,format=qcow2,cache=writeback,file={self._overlay}"),
            *("-device", "virtio-blk-pci,drive=disk,bootindex=1"),
            *("-netdev", network, "-device", "virtio-net-pci,netdev=net,romfile="),
            *("-device", "virtio-rng-pci"),
        ]

    def _write_ssh(self) -> None:
        config = self._folder / "ssh_config"
        config.write_text(_CONFIG.format(host=HOST, port=self.port, key=self._disk.key.resolve()))
        folder = self._folder / "bin"
        folder.mkdir(exist_ok=True)
        for name in ("ssh", "scp"):
            real = shutil.which(name)
            if real is None:
                raise CannotBuild(f"{name} is missing; install openssh-client")
            program = folder / name
            program.write_text(f'#!/bin/sh\nexec {real} -F {shlex.quote(str(config))} "$@"\n')
            program.chmod(0o755)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
