# SPDX-License-Identifier: GPL-2.0-or-later
"""Set up two guests, a controller and its target, as docs/night.md describes."""

import io
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from msgspec import Struct

from bench.night.kernels import copy_kernel, names_of_copies
from schedperf_generators.disk.build import get_disk
from schedperf_generators.disk.machine import GATEWAY, Machine

ROOT = Path(__file__).parents[2]
TARGET = "lab1"
MACHINE = "guest"
LAB = "/root/lab.toml"
NIGHTS = "/root/nights"
OUTBOX = f"{NIGHTS}/outbox"
UNIT = f"schedperf-lab@{MACHINE}"
# The slow commit's kernel traces functions that start a new task, which the other job hardly calls.
# Parameters that compare refuses, e.g. slub_debug, cannot be planted.
SLOW = "ftrace=function ftrace_filter=*page*,*alloc*,*vma*,*pte*"
# Of the tested commit, and of those between it and the first kernel; the revert has none.
COPIES = 3
_SITE = Path(__file__).parent / "site"
_ON_TARGET = ("forks", "loop")
_ON_CONTROLLER = ("add-kernel", "install-kernel", "build-tonight", "make-tree")
_LAB = """\
[[machine]]
name = "{machine}"
reach = "ssh:{target}"
boot = "grub-reboot"
settle = 0

[[tree]]
name = "tip"
url = "https://lab.example/linux.git"
refs = ["master"]
reference = "{base}"
new = "*-commit-*"
build = ["site/build-tonight"]
sources = "commits"
repo = "linux"
bisect = {{install = "/root/site/install-kernel", build = 'cp cmdline "$SCHEDPERF_OUT"'}}

[[job]]
name = "forks"
run = ["/root/forks"]
runs = {runs}
warmup = 1
with = ["none"]
metric = ["time[us,lower]=Time: (.*)"]

[[job]]
name = "loop"
run = ["/root/loop"]
runs = {runs}
warmup = 1
with = ["none"]
metric = ["time[ms,lower]=Time: (.*)"]

[plan]
boots = {boots}
act_on_emulated = true

[mail.site]
name = "Example lab"
domain = "lab.example"
from = "schedperf <schedperf@lab.example>"
contact = "perf-team@lab.example"
list = "sched-perf@lab.example"
base_url = "https://lab.example/schedperf"
"""
_SSH = """\
Host {target}
  HostName {address}
  Port {port}
  User root
  IdentityFile /root/.ssh/night
  StrictHostKeyChecking accept-new
"""
# A night that was killed goes on after 10 minutes; here it need not wait so long. An emulated
# target beside other work answers late.
_PATIENT = """\
[Service]
RestartSec=20
Environment="SCHEDPERF_SSH=ssh -o ConnectTimeout=60 -o ServerAliveCountMax=12"
"""
_CONTROLLER_MIB = 1536
# Packages that the controller installs from a local folder, because it cannot reach an index.
_PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_24_x86_64",
              "manylinux_2_27_x86_64", "manylinux_2_28_x86_64")  # fmt: skip
_PYTHON = "3.11"
# Time limit of a boot on a loaded machine.
BOOT_S = 900.0
_STEP_S = 1200.0
_END_S = 3 * 3600.0
# Each look takes a second of the emulated processors.
_POLL_S = 20.0

Say = Callable[[str], None]


class Wrong(Exception):
    """A command or a check failed; the message describes what is wrong."""


class Size(Struct, frozen=True):
    """Number of boots of each kernel in the night, and of runs in each boot."""

    boots: int
    runs: int


class Lab:
    """A controller and its target, both guests with a boot loader.

    Methods that run commands on the controller raise :class:`Wrong` if a command fails, except
    :meth:`run` and those that read a state.

    :param folder: directory for the changes to their disks
    :raises CannotBuild: the disk cannot be built
    """

    def __init__(self, folder: Path) -> None:
        disk = get_disk("grub")
        self.disk = disk
        self._printed: set[str] = set()
        self.kernels = disk.kernels
        self.key = disk.key
        self.controller = Machine(disk, folder / "controller", memory_mib=_CONTROLLER_MIB)
        self.target = Machine(disk, folder / "target", steady=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.controller.cut_power()
        self.target.cut_power()

    def start(self) -> None:
        """Switch both guests on, and wait for their sshd.

        :raises DidNotBoot: an sshd does not answer
        """
        machines = (self.controller, self.target)
        for machine in machines:
            machine.start(waits=False)
        for machine in machines:
            machine.wait(BOOT_S)

    def plant(self) -> None:
        """Install the benchmarks and copies of the first kernel on the target.

        :raises CannotBuild: the kernel cannot be copied
        """
        self.target.run("mkdir", "-p", "/root/copies")
        for release in names_of_copies(self.disk, COPIES):
            self.target.put(copy_kernel(self.disk, release), f"/root/copies/{release}")
        for name in _ON_TARGET:
            self.target.put((_SITE / name).read_bytes(), f"/root/{name}")
        self.target.run("chmod", "755", *(f"/root/{name}" for name in _ON_TARGET))
        # Pages must not contain the host name, which "target" would be.
        self.target.put(b"schedperf-lab1\n", "/etc/hostname")
        self.target.run("sync")

    def install(self) -> None:
        """Install schedperf on the controller from wheels, and let it reach the target by ssh."""
        with tempfile.TemporaryDirectory() as name:
            collect_wheels(Path(name))
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as archive:
                archive.add(name, "wheels")
        self._run(
            "hostname controller && hostname >/etc/hostname && tar -x -C /root",
            given=packed.getvalue(),
        )
        self._run("python3 -m venv /opt/schedperf")
        # Modules that are never imported need not be compiled.
        self._run(
            "/opt/schedperf/bin/pip install -q --disable-pip-version-check --no-compile "
            "--no-index --find-links /root/wheels schedperf && rm -r /root/wheels && "
            "ln -s /opt/schedperf/bin/schedperf /usr/local/bin"
        )
        self.controller.put(self.key.read_bytes(), "/root/.ssh/night")
        config = _SSH.format(target=TARGET, address=GATEWAY, port=self.target.port)
        self.controller.put(config.encode(), "/root/.ssh/config")
        self._run("chmod 600 /root/.ssh/night && sync")

    def prove_boots(self) -> str:
        """Run ``doctor --boot --prove`` on the target, from the controller, and reboot the target.

        It proves that the boot loader consumes one-shot entries.

        :return: the line of ``doctor --boot`` about one-shot entries; without one, its last line
        :raises DidNotBoot: the target does not come up
        """
        doctor = f"ssh {TARGET} python3 -I collect.pyz doctor --boot grub-reboot"
        before = self.target.run("cat", "/proc/sys/kernel/random/boot_id").strip()
        self._run(f"schedperf pack collect.pyz && scp -q collect.pyz {TARGET}:")
        self._run(f"{doctor} --prove")
        self.controller.shell(f"ssh {TARGET} systemctl reboot", checks=False)
        self.target.wait(BOOT_S, another_boot_than=before)
        lines = self._run(doctor).splitlines()
        return next((line for line in lines if line.startswith("one-shot entry:")), lines[-1])

    def write_lab(self, size: Size) -> str:
        """Write the file of the lab, its programs and its repository; return the log of git."""
        base = self.kernels.old
        self._run("mkdir -p /root/commits /root/site")
        for name in _ON_CONTROLLER:
            self.controller.put((_SITE / name).read_bytes(), f"/root/site/{name}")
        copies = "".join(f"{release}\n" for release in names_of_copies(self.disk, COPIES))
        self.controller.put(copies.encode(), "/root/site/copies")
        self._run(f"chmod 755 /root/site/* && /root/site/make-tree {base} '{SLOW}'")
        text = _LAB.format(
            machine=MACHINE, target=TARGET, base=base, boots=size.boots, runs=size.runs
        )
        self.controller.put(text.encode(), LAB)
        return self._run("git -C /root/linux log --reverse --format='%h %s'").rstrip()

    def set_timer(self) -> str:
        """Install the timer and start it; return the time of the night, HH:MM, in 3 minutes."""
        at = self._run("date -d '+3 minutes' +%H:%M").strip()
        self._run(f"schedperf night install {LAB} --at {at}")
        for unit in ("schedperf-lab@", "schedperf-lab-resume@"):
            folder = f"/etc/systemd/system/{unit}.service.d"
            self._run(f"mkdir -p {folder}")
            self.controller.put(_PATIENT.encode(), f"{folder}/patient.conf")
        self._run(f"systemctl daemon-reload && systemctl enable -q --now {UNIT}.timer && sync")
        return at

    def kill_night(self) -> None:
        """Kill the night's process."""
        self._run(f"systemctl kill -s KILL --kill-whom=main {UNIT}.service")

    def state(self) -> Mapping[str, Any]:
        """Return the content of the night's state.json; {} if it cannot be read now."""
        return self._read(f"{NIGHTS}/{MACHINE}/2*/state.json")

    def is_over(self) -> bool:
        """Return whether the last step of the night has ended."""
        return bool(self.state().get("steps", {}).get("digest", {}).get("ended"))

    def current(self) -> str:
        """Return the name of the step that is running.

        :raises Wrong: no step is running
        """
        for name, step in self.state().get("steps", {}).items():
            if not step["ended"]:
                return str(name)
        raise Wrong(f"no step runs; {self.log()}")

    def has_booted(self, recording: str) -> bool:
        """Return whether a recording has finished a boot.

        :param recording: its prefix in the directory of the nights, a pattern
        """
        return bool(self._read(f"{NIGHTS}/{recording}.boots/state.json").get("done"))

    def has_searched(self) -> bool:
        """Return whether a bisection has finished a visit of the target."""
        bundles = f"ls {NIGHTS}/requests/*/{MACHINE}/search/bundles/*.tar"
        try:
            return self.controller.shell(bundles, checks=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def await_that(self, what: str, is_so: Callable[[], bool], say: Say) -> None:
        """Wait until a condition holds; print each step of the night that has ended meanwhile.

        :param what: name of the condition for the error
        :raises Wrong: the night ends before, or three hours pass
        """
        end = time.monotonic() + _END_S
        while not is_so():
            self.print_steps(say)
            if self.is_over() or time.monotonic() > end:
                raise Wrong(f"not reached: {what}; {self.state().get('outcome')}; {self.log()}")
            time.sleep(_POLL_S)
        self.print_steps(say)

    def print_steps(self, say: Say) -> None:
        """Print the steps of the night that have ended and were not printed."""
        for name, step in self.state().get("steps", {}).items():
            if step["ended"] and name not in self._printed:
                self._printed.add(name)
                took = datetime.fromisoformat(step["ended"]) - datetime.fromisoformat(step["began"])
                say(f"{name}: {step['result']} ({took.seconds} s since its last start)")

    def log(self) -> str:
        """Return the last lines of the journal of the night's services, joined by semicolons."""
        units = "-u schedperf-lab@*.service -u schedperf-lab-resume@*.service"
        lines = self._run(f"journalctl -q -o cat -n 5 {units}").splitlines()
        return "; ".join(lines)

    def run(self, command: str) -> str:
        """Run a command on the controller; return its stdout and stderr, even if it fails.

        :raises subprocess.TimeoutExpired: it takes longer than 20 minutes
        """
        done = self.controller.shell(command, limit_s=_STEP_S, checks=False)
        return done.stdout + done.stderr

    def _read(self, pattern: str) -> Mapping[str, Any]:
        """Return the JSON object in a file of the controller; {} if it cannot be read now."""
        try:
            text = self.controller.shell(f"cat {pattern}", checks=False).stdout
            record: Mapping[str, Any] = json.loads(text)
        except (ValueError, subprocess.TimeoutExpired):
            return {}
        return record

    def _run(self, command: str, *, given: bytes = b"") -> str:
        """Run a command on the controller that must succeed; return its stdout.

        :param given: its stdin
        :raises Wrong: it fails
        """
        done = self.controller.shell(command, limit_s=_STEP_S, given=given, checks=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines()[-3:]
            raise Wrong(f"{command}: exit status {done.returncode}: {'; '.join(lines)}")
        return done.stdout


def collect_wheels(folder: Path) -> None:
    """Put the wheels of schedperf and of its dependencies into a directory.

    :raises subprocess.CalledProcessError: pip fails
    """
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    platforms = [f"--platform={name}" for name in _PLATFORMS]
    subprocess.run(
        [
            *(*pip, "download", "--dest", str(folder), "--only-binary", ":all:"),
            *("--python-version", _PYTHON, *platforms),
            *("-r", str(ROOT / "requirements" / "requirements.txt")),
        ],
        check=True,
    )
    # Built with the packages that are installed here, not in an isolated environment.
    wheel = (*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT))
    subprocess.run(wheel, check=True)
