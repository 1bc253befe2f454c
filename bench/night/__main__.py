# SPDX-License-Identifier: GPL-2.0-or-later
"""Prove a whole night in two guests, with kills: ``python -m bench.night``.

A controller and its target run under QEMU, with a real boot loader, and are set up as docs/night.md
describes. Probes on the kernel command line make the target's new kernel slower. A systemd timer
starts the night. It must find the regression, retest it on other boots, publish it, and draft a
mail, which is held because the timings come from an emulator. Meanwhile, the night's process is
killed once, and the power of the target and of the controller is cut once each.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from bench.night.lab import JOB, OUTBOX, PROBES, UNIT, Lab, Say, Size, Wrong
from schedperf_generators.disk.machine import DidNotBoot, Machine
from schedperf_generators.disk.tree import CannotBuild


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.night", description=__doc__)
    parser.add_argument("--boots", type=int, default=2, help="of each kernel, also of the retest")
    parser.add_argument("--runs", type=int, default=2, help="in each boot")
    parser.add_argument("-o", "--output", type=Path, help="keep the guests in this new folder")
    return parser.parse_args(arguments)


def prove(size: Size, folder: Path) -> None:
    """Run the night with kills, check its result, and print the progress.

    :param folder: directory for the guests
    :raises Wrong: a command or a check fails, or the night makes no progress
    :raises DidNotBoot: a guest does not come up
    :raises CannotBuild: the disk cannot be built
    :raises subprocess.SubprocessError: a command fails on the target, or takes too long
    """
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    with Lab(folder) as lab:
        set_up(lab, size, say)
        kill(lab, say)
        lab.await_that("the end", lambda: lab.state().get("outcome") is not None)
        for name, step in lab.state()["steps"].items():
            took = datetime.fromisoformat(step["ended"]) - datetime.fromisoformat(step["began"])
            say(f"{name}: {step['result']} ({took.seconds} s since its last start)")
        check(lab, say)


def set_up(lab: Lab, size: Size, say: Say) -> None:
    """Boot the guests and follow docs/night.md from the installation to the timer.

    Raise as :func:`prove`.
    """

    @contextmanager
    def timed(what: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        say(f"{what}: {time.monotonic() - started:.0f} s")

    with timed("boot both guests"):
        lab.start()
    lab.plant()
    say(f"base {lab.kernels.old}, new {lab.kernels.new} with {PROBES} probes")
    with timed("install schedperf on the controller"):
        lab.install()
    with timed("doctor --boot --prove, reboot, doctor --boot"):
        said = lab.prove_boots()
    say(said)
    with timed("job file and timer"):
        lab.write_job(size)
        at = lab.set_timer()
    say(f"the timer starts the night at {at}")


def kill(lab: Lab, say: Say) -> None:
    """Kill the night's process, then cut the power of the target, then that of the controller.

    :raises Wrong: the night ends or an hour passes before a kill, or a command fails
    :raises DidNotBoot: the controller does not come up
    """

    def cut_power(machine: Machine) -> Callable[[], None]:
        def cut() -> None:
            machine.cut_power()
            machine.start(waits=False)

        return cut

    for what, is_so, act in (
        ("the night's process killed", lambda: lab.has_booted("night"), lab.kill_night),
        ("power of the target cut", lambda: lab.has_booted("retest"), cut_power(lab.target)),
        ("power of the controller cut", lambda: lab.has_begun("culprit"),
         cut_power(lab.controller)),
    ):  # fmt: skip
        lab.await_that(what, is_so)
        step = lab.current()
        act()
        say(f"{what}, in {step}")
    lab.controller.wait()


def check(lab: Lab, say: Say) -> None:
    """Check the outcome of the night, its pages, the held mail, and the target's running kernel.

    :raises Wrong: a check fails
    """
    state = lab.state()
    say(f"outcome: {state['outcome']}")
    print(lab.run(f"schedperf night status {JOB}"))
    shown = lab.run(f"systemctl show -P Result {UNIT}-resume.service").strip()
    if state["failed"] or shown != "success":
        raise Wrong(f"the service that goes on after a boot: {shown}; {lab.log()}")
    if not lab.run("ls -d /root/nights/pages/r/*/index.html").startswith("/root"):
        raise Wrong("no page of the record")
    mails = lab.run(f"ls {OUTBOX}/held | grep eml").split()
    if len(mails) != 1:
        raise Wrong(f"{len(mails)} held mails (expected 1)")
    print(lab.run(f"cat {OUTBOX}/held/{mails[0]}"))
    why = lab.run(f"schedperf mail why --outbox {OUTBOX} {Path(mails[0]).stem}")
    print(why)
    if "emulat" not in why:
        raise Wrong("the mail is not held because of the emulator")
    running = lab.target.run("uname", "-r").strip()
    if running != lab.kernels.old:
        raise Wrong(f"{running} runs (expected the default {lab.kernels.old})")


def main(arguments: list[str]) -> int:
    """Prove a night; return 1 if a check fails, else 0."""
    asked = parse_arguments(arguments)
    with tempfile.TemporaryDirectory(prefix="schedperf-night-") as name:
        folder = Path(name) if asked.output is None else asked.output
        folder.mkdir(parents=True, exist_ok=asked.output is None)
        try:
            prove(Size(asked.boots, asked.runs), folder.absolute())
        except (Wrong, DidNotBoot, CannotBuild, subprocess.SubprocessError) as error:
            print(f"wrong: {error}", file=sys.stderr)
            return 1
    print("proven")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
