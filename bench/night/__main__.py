# SPDX-License-Identifier: GPL-2.0-or-later
"""Prove a whole night in a guest, with kills: ``python -m bench.night``.

A machine under QEMU with a real boot loader is the target; the controller runs here. The new kernel
is made slower by probes on its command line. The night must find that, retest it on other boots,
publish it, and draft a mail that is held because its timings come from an emulator, although it is
killed three times on the way.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from schedperf.commands._zipapp import build_zipapp
from schedperf_generators.disk.build import Disk, get_disk
from schedperf_generators.disk.machine import HOST, DidNotBoot, Machine
from schedperf_generators.disk.tree import CannotBuild

ROOT = Path(__file__).parents[2]
DEPTH = 8
PROBES = 16
_ENTER_CGROUP = ROOT / "examples" / "deep-cgroup" / "enter-cgroup"
_BENCHMARK = f"""\
#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
/root/enter-cgroup {DEPTH} $$ && exec hackbench -l 30 -g 1
"""
_JOB = """\
[site]
out = "nights"
outbox = "outbox"

[[machine]]
name = "guest"
reach = "ssh:{host}"
boot = "grub-reboot"
settle = 0

[[job]]
name = "hackbench"
run = ["/root/benchmark"]
runs = {runs}
warmup = 1
with = ["none"]
metric = ["time[s,lower]=Time: (.*)"]

[kernel]
reference = "{base}"
new = "{new}"
sources = "commits"

[plan]
boots = {boots}
retest = {boots}
act_on_emulated = true
"""
_MAIL = """\
[site]
name = "Example lab"
domain = "lab.example"
from = "schedperf <schedperf@lab.example>"
contact = "perf-team@lab.example"
list = "sched-perf@lab.example"
base_url = "https://lab.example/schedperf"
"""
_POLL_S = 1.0
_END_S = 3600.0


class Wrong(Exception):
    """Something that must be true is not; the message says what."""


class Controller:
    """Runs nights of a machine in a folder.

    :param say: prints one line
    """

    def __init__(self, machine: Machine, folder: Path, say: Callable[[str], None]) -> None:
        self._machine = machine
        self._folder = folder
        self._say = say
        self._night: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the night, or go on with it."""
        with (self._folder / "log").open("ab") as log:
            self._night = subprocess.Popen(
                [sys.executable, "-m", "schedperf", "night", "run", str(self._folder / "job.toml")],
                env=self._machine.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, what: str) -> None:
        """Kill the night with all its commands."""
        assert self._night is not None
        if self._night.poll() is not None:
            raise Wrong(f"the night ended before the kill in {what}: {self.log()}")
        os.killpg(self._night.pid, signal.SIGKILL)
        self._night.wait()
        self._say(f"killed in {what}")

    def finish(self) -> int:
        """Wait for the end of the night; return its exit status."""
        assert self._night is not None
        return self._night.wait(_END_S)

    def await_that(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait until something is true; the night must run meanwhile."""
        assert self._night is not None
        end = time.monotonic() + _END_S
        while not is_so():
            if time.monotonic() > end or self._night.poll() is not None:
                raise Wrong(f"not reached: {what}; {self.log()}")
            time.sleep(_POLL_S)

    def has_begun(self, step: str) -> bool:
        """Return whether a step has begun."""
        return bool(self.state().get("steps", {}).get(step, {}).get("began"))

    def has_booted(self, recording: str) -> bool:
        """Return whether a recording has finished a boot."""
        return any(
            json.loads(path.read_text())["done"]
            for path in self._folder.glob(f"nights/2*/{recording}.boots/state.json")
        )

    def state(self) -> Mapping[str, Any]:
        """Return the state of the only night; {} before it."""
        paths = list(self._folder.glob("nights/2*/state.json"))
        return json.loads(paths[0].read_text()) if paths else {}

    def log(self) -> str:
        """Return the last lines of what the night printed."""
        return "; ".join((self._folder / "log").read_text().splitlines()[-3:])


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.night", description=__doc__)
    parser.add_argument("--boots", type=int, default=2, help="of each kernel, also of the retest")
    parser.add_argument("--runs", type=int, default=2, help="in each boot")
    parser.add_argument("-o", "--output", type=Path, help="keep the night in this new folder")
    return parser.parse_args(arguments)


def prepare(machine: Machine, disk: Disk, folder: Path, asked: argparse.Namespace) -> None:
    """Plant the slow kernel, prove the boots, and write the job file."""
    probes = ";".join(f"p:slow{probe},update_cfs_group" for probe in range(PROBES))
    slow = f's|\\(vmlinuz-{disk.kernels.new} .*\\)|\\1 "kprobe_event={probes}"|'
    machine.run("sed", "-i", slow, "/boot/grub/grub.cfg")
    machine.put(_ENTER_CGROUP.read_bytes(), "/root/enter-cgroup")
    machine.put(_BENCHMARK.encode(), "/root/benchmark")
    machine.run("chmod", "755", "/root/enter-cgroup", "/root/benchmark")
    machine.put(build_zipapp(), "/root/recorder")
    doctor = ("python3", "-I", "/root/recorder", "doctor", "--boot", "grub-reboot")
    before = machine.run("cat", "/proc/sys/kernel/random/boot_id").strip()
    machine.run(*doctor, "--prove", limit_s=300)
    machine.call("systemctl", "reboot")
    machine.wait(another_boot_than=before)
    machine.run(*doctor, limit_s=300)
    releases = {"base": disk.kernels.old, "new": disk.kernels.new}
    (folder / "commits").mkdir()
    for number, release in enumerate(releases.values(), 1):
        commit = {"commit": str(number) * 40, "subject": f"sched: change {number}"}
        (folder / "commits" / f"{release}.json").write_text(json.dumps(commit))
    (folder / "outbox").mkdir()
    (folder / "outbox" / "mail.toml").write_text(_MAIL)
    job = _JOB.format(host=HOST, boots=asked.boots, runs=asked.runs, **releases)
    (folder / "job.toml").write_text(job)


def prove(asked: argparse.Namespace, folder: Path) -> None:
    """Run the night with kills, and check what it leaves.

    :raises Wrong: the night has another end
    """
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    disk = get_disk("grub")
    with Machine(disk, folder / "machine") as machine:
        machine.start()
        prepare(machine, disk, folder, asked)
        say(f"base {disk.kernels.old}, new {disk.kernels.new} with {PROBES} probes")
        controller = Controller(machine, folder, say)
        for what, is_so in (
            ("record", lambda: controller.has_booted("night")),
            ("retest", lambda: controller.has_booted("retest")),
            ("culprit", lambda: controller.has_begun("culprit")),
        ):
            controller.start()
            controller.await_that(what, is_so)
            controller.kill(what)
        controller.start()
        status = controller.finish()
        if status != 0:
            raise Wrong(f"exit status {status}: {controller.log()}")
        for name, step in controller.state()["steps"].items():
            say(f"{name}: {step['result']}")
        check(controller.state(), folder, say)
        running = machine.run("uname", "-r").strip()
        if running != disk.kernels.old:
            raise Wrong(f"{running} runs (expected the default {disk.kernels.old})")


def check(state: Mapping[str, Any], folder: Path, say: Callable[[str], None]) -> None:
    """Check the end of the night, the pages and the mail."""
    say(f"outcome: {state['outcome']}")
    mails = list((folder / "outbox" / "held").glob("*.eml"))
    if len(mails) != 1:
        raise Wrong(f"{len(mails)} held mails (expected 1)")
    if not list((folder / "nights" / "pages").glob("r/*/index.html")):
        raise Wrong("no page of the record")
    print(mails[0].read_text())
    outbox = ["mail", "why", "--outbox", str(folder / "outbox"), mails[0].stem]
    words = [sys.executable, "-m", "schedperf", *outbox]
    why = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    print(why)
    if "emulat" not in why:
        raise Wrong("the mail is not held because of the emulator")


def main(arguments: list[str]) -> int:
    """Prove a night; return the exit status."""
    asked = parse_arguments(arguments)
    with tempfile.TemporaryDirectory(prefix="schedperf-night-") as name:
        folder = Path(name) if asked.output is None else asked.output
        folder.mkdir(parents=True, exist_ok=asked.output is None)
        try:
            prove(asked, folder.absolute())
        except (Wrong, DidNotBoot, CannotBuild, subprocess.SubprocessError) as error:
            print(f"wrong: {error}", file=sys.stderr)
            return 1
    print("proven")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
