# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines made of processes, and the file of their lab: real recorder, real bundles."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from schedperf.cli import main
from schedperf.history.questions.history import open_history
from schedperf.history.store.tables import INPUT, NIGHT_RUN, REQUEST, RUN, STEP
from schedperf.inputs.bundle.open import open_bundle
from tests.collectors.boots.test_machine import HERE, HOOK, ProcessMachine

LIMIT_S = 600
# The kernel `two` is slower. The values differ by run, but not from night to night.
WORKLOAD = """\
#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
echo x >>"$MACHINE/count"
n=$(wc -l <"$MACHINE/count")
score=$((100 + n % 3))
[ "$(cat /proc/sys/kernel/osrelease)" != "$(cat "$MACHINE/slow")" ] || score=$((score + 60))
echo "score: $score"
"""
MAIL = """\
allow = ["sched-perf@lab.example"]

[site]
name = "Example lab"
domain = "lab.example"
from = "schedperf <schedperf@lab.example>"
contact = "perf-team@lab.example"
list = "sched-perf@lab.example"
base_url = "https://lab.example/schedperf"
"""
__all__ = ["HERE", "HOOK", "LIMIT_S", "Lab", "Laboratory", "ProcessMachine"]


class Lab:
    """A machine and the file of its lab."""

    def __init__(self, folder: Path, machine: ProcessMachine) -> None:
        self.folder = folder
        self.machine = machine
        self.job = folder / "night.toml"
        self.out = folder / "nights"
        (folder / "hook").write_text(HOOK.read_text())
        (folder / "hook").chmod(0o755)
        self.program = folder / "benchmark"
        self.program.write_text(WORKLOAD)
        self.program.chmod(0o755)
        (folder / "commits").mkdir()
        for number, release in enumerate(("one", "two"), 1):
            commit = {"commit": str(number) * 40, "subject": f"sched: change {number}"}
            (folder / "commits" / f"{release}.json").write_text(json.dumps(commit))
        self.environment = machine.environment()
        self.slow("two")
        self.write_job()

    def write_mails(self) -> None:
        """Let the lab write mails."""
        (self.folder / "outbox").mkdir()
        (self.folder / "outbox" / "mail.toml").write_text(MAIL)

    def slow(self, release: str) -> None:
        """Plant a slow kernel."""
        (self.machine.folder / "slow").write_text(f"{release}\n")

    def write_job(self, *, boots: int = 2, plan: str = "", machine: str = "") -> None:
        """Write the file of a lab with one machine, one job, and two kernels."""
        self.job.write_text(
            '[site]\noutbox = "outbox"\npublic = ["score"]\n'
            f'[[machine]]\nname = "lab"\nreach = "ssh:root@lab"\nboot = "command:hook"\n'
            f"settle = 0\n{machine}"
            f'[[job]]\nname = "score"\nrun = ["{self.program}"]\nruns = 2\nwarmup = 0\n'
            'with = ["none"]\nmetric = ["score[s,lower]=score: (.*)"]\n'
            '[kernel]\nreference = "one"\nnew = "two"\nsources = "commits"\n'
            f"[plan]\nboots = {boots}\n{plan}"
        )

    def command(self, *words: str) -> list[str]:
        """Return a command that runs as on the controller of the machine."""
        return self.machine.command(sys.executable, "-m", "schedperf", *words)

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start the night."""
        return subprocess.Popen(
            self.command("night", "run", str(self.job), *options),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options: str) -> tuple[int, str]:
        """Run the night; return its exit status and what it prints."""
        process = self.start(*options)
        _, errors = process.communicate(timeout=LIMIT_S)
        return process.returncode, errors

    def run_here(self) -> tuple[int, str]:
        """Run the night in this process, without a way to the machine."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("SCHEDPERF_SSH", "sh -c 'exit 255'")
            done = self._call("run")
        return done.returncode, done.stderr

    def status(self) -> subprocess.CompletedProcess[str]:
        """Return what `night status` prints, which asks no machine."""
        return self._call("status")

    def _call(self, command: str) -> subprocess.CompletedProcess[str]:
        with redirect_stdout(StringIO()) as output, redirect_stderr(StringIO()) as errors:
            status = main(["night", command, str(self.job)])
        return subprocess.CompletedProcess([], status, output.getvalue(), errors.getvalue())

    def states(self) -> list[dict[str, Any]]:
        """Return the states of all nights."""
        return [json.loads(path.read_text()) for path in sorted(self.out.glob("2*/state.json"))]

    def count_runs(self, name: str) -> int:
        """Return the number of runs of a complete bundle.

        :param name: pattern of its path in the directory of the nights, without ``.tar``
        """
        (path,) = self.out.glob(f"{name}.tar")
        bundle = open_bundle(path)
        assert bundle.complete
        return len(bundle.runs)

    def write_program(self, name: str, script: str, then: str = "") -> None:
        """Write a program beside the job file: a hook of the machine."""
        (self.folder / name).write_text(f"#!/bin/sh\n{script}\n{then}")
        (self.folder / name).chmod(0o755)

    def await_step(self, name: str, *, of: int = 0) -> None:
        """Wait until a step of a night has begun."""
        self.await_that(
            name,
            lambda: any(state["steps"].get(name, {}).get("began") for state in self.states()[of:]),
        )

    def await_boot(self, recording: str) -> None:
        """Wait until a recording has finished a boot.

        :param recording: pattern of its prefix in the directory of the nights
        """
        pattern = f"{recording}.boots/state.json"
        self.await_that(
            recording,
            lambda: any(json.loads(path.read_text())["done"] for path in self.out.glob(pattern)),
        )

    def install_kernels(self) -> None:
        """Give the kernels their images."""
        self.run_there("mount", "-t", "tmpfs", "none", "/boot")
        for release in ("one", "two"):
            self.run_there("sh", "-c", f"echo {release} >/boot/vmlinuz-{release}")

    def emulate(self) -> None:
        """Let the machine look like one of QEMU TCG."""
        text = Path("/proc/cpuinfo").read_text()
        model = "model name\t: QEMU TCG CPU version 2.5+"
        cpuinfo = self.folder / "cpuinfo"
        cpuinfo.write_text(re.sub(r"^model name\s*:.*$", model, text, flags=re.MULTILINE))
        self.run_there("mount", "--bind", str(cpuinfo), "/proc/cpuinfo")
        # The CPU itself would name the hypervisor of this machine.
        if Path("/dev/cpu/0/cpuid").exists():
            self.run_there("mount", "--bind", "/dev/null", "/dev/cpu/0/cpuid")

    def run_there(self, *words: str) -> None:
        """Run a command in the machine's mount namespace."""
        subprocess.run(self.machine.command(*words), check=True, capture_output=True)

    def await_there(self, pattern: str) -> None:
        """Wait until a file exists in the machine's mount namespace."""
        look = self.machine.command("sh", "-c", f"ls {pattern}")
        self.await_that(pattern, lambda: subprocess.run(look, capture_output=True).returncode == 0)

    @staticmethod
    def await_that(what: str, is_so: Callable[[], bool]) -> None:
        """Wait until something is true."""
        until = time.monotonic() + LIMIT_S
        while not is_so():
            assert time.monotonic() < until, what
            time.sleep(0.02)


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a night at once, without its commands."""
    process.send_signal(signal.SIGKILL)
    process.communicate()


class Laboratory:
    """Two machines, each in a mount namespace of its own, and a controller outside of them."""

    names = ("a", "b")

    def __init__(self, folder: Path, machines: Sequence[ProcessMachine]) -> None:
        self.folder = folder
        self.machines = dict(zip(self.names, machines, strict=True))
        self.out = folder / "nights"
        self.path = folder / "lab.toml"
        cases = {
            name: f"nsenter -m -t{machine.process.pid} -- env MACHINE={machine.folder}"
            for name, machine in self.machines.items()
        }
        ssh = "".join(f'{name}) exec {at} sh -c "$command";;\n' for name, at in cases.items())
        hook = "".join(f'{name}) exec {at} sh {HOOK} "$@";;\n' for name, at in cases.items())
        self._write("ssh", f'for command; do :; done\nwhile [ "$2" != -- ]; do shift; done\n'
                           f'shift; while [ "$1" = -- ]; do shift; done\n'
                           f'case $1 in\n{ssh}esac\n')  # fmt: skip
        self._write("hook", f"case ${{SCHEDPERF_TARGET#*@}} in\n{hook}esac\n")
        self._write("score", WORKLOAD.removeprefix("#!/bin/sh\n"))
        self._write("other", 'echo "other: $((7 + $$ % 2))"\n')
        (folder / "commits").mkdir()
        for number, release in enumerate(("one", "two"), 1):
            commit = {"commit": str(number) * 40, "subject": f"sched: change {number}"}
            (folder / "commits" / f"{release}.json").write_text(json.dumps(commit))
        self.slow("two")
        self.environment = {**os.environ, "SCHEDPERF_SSH": str(folder / "ssh")}

    def slow(self, release: str) -> None:
        """Plant a slow kernel on the first machine."""
        for name, machine in self.machines.items():
            (machine.folder / "slow").write_text(f"{release if name == 'a' else 'none'}\n")

    def write(self, *, boots: int, machine: str = "", more: str = "") -> None:
        """Write the file of the lab."""
        machines = "".join(
            f'[[machine]]\nname = "{name}"\nreach = "ssh:{name}"\nboot = "command:hook"\n'
            f"settle = 0\n{machine}"
            for name in self.names
        )
        jobs = "".join(
            f'[[job]]\nname = "{name}"\nrun = ["{self.folder / name}"]\nruns = 2\nwarmup = 0\n'
            f'with = ["none"]\nmetric = ["{name}[s,lower]={name}: (.*)"]\n'
            for name in ("score", "other")
        )
        mail = MAIL.replace("[site]", "[mail.site]")
        self.path.write_text(
            f'[site]\npublic = ["score", "other", "a", "b"]\n{machines}{jobs}'
            '[[tree]]\nname = "tip"\nreference = "one"\nnew = "two"\nsources = "commits"\n'
            f"[plan]\nboots = {boots}\n[mail]\n{mail}{more}"
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command of ``schedperf night`` on the controller."""
        return subprocess.Popen(
            [sys.executable, "-m", "schedperf", "night", words[0], str(self.path), *words[1:]],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run a command of ``schedperf night``; return its status, its output and its errors."""
        process = self.start(*words)
        output, errors = process.communicate(timeout=LIMIT_S)
        return process.returncode, output, errors

    def summary(self) -> dict[str, Any]:
        """Return what the store, the outbox and the site have, without times and values."""
        with open_history(self.out / "history") as history:
            rows = {
                "input": select(INPUT.c.machine, INPUT.c.role, INPUT.c.purpose),
                "run": select(RUN.c.workload, RUN.c.boot, RUN.c.run, RUN.c.status),
                "step": select(STEP.c.id, STEP.c.state),
                "request": select(REQUEST.c.id, REQUEST.c.state, REQUEST.c.boots_done),
                "night_run": select(NIGHT_RUN.c.machine, NIGHT_RUN.c.failed),
            }
            with history.database.transaction() as connection:
                found: dict[str, Any] = {
                    name: sorted(map(str, connection.execute(query)))
                    for name, query in rows.items()
                }
        found["mails"] = sorted(path.name for path in self.out.glob("outbox/*/*"))
        # Comparisons are named by their content, which has times.
        found["pages"] = sorted(
            re.sub("/c/[0-9a-f]{16}/", "/c/ID/", str(path.relative_to(self.out)))
            for path in self.out.glob("pages/**/*.html")
        )
        return found

    def _write(self, name: str, script: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{script}")
        (self.folder / name).chmod(0o755)
