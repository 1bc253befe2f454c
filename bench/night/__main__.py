# SPDX-License-Identifier: GPL-2.0-or-later
"""Prove a whole night in two guests, with kills: ``python -m bench.night``.

A controller and its target run under QEMU, with a real boot loader, and are set up as docs/night.md
describes, with one tree and two jobs. The tree has four commits. No kernel can be built in an
emulated guest in this time: each commit gets a copy of the target's first kernel, with a release
and a build id of its own. One commit adds tracing to the kernel command line, which makes one of
the jobs slower, and thus also the newest commit, which the night compares with the first.

A systemd timer starts the night. It records both jobs in the same boots, suspects the slower one,
retests it on other boots, names the commit, publishes it, and drafts a mail, which is held because
the timings come from an emulator. The revert waits: all copies of the kernel are used.
Meanwhile, the night's process is killed while it records, the power of the target is cut in the
retest, and that of the controller in the bisection.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.night.lab import BOOT_S, LAB, MACHINE, NIGHTS, OUTBOX, SLOW, Lab, Say, Size, Wrong
from schedperf_generators.disk.machine import DidNotBoot, Machine
from schedperf_generators.disk.tree import CannotBuild

_STEPS = "SELECT state, change, reason FROM step_change ORDER BY step_id, number"


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.night", description=__doc__)
    parser.add_argument("--boots", type=int, default=2, help="of each kernel in the night")
    parser.add_argument("--runs", type=int, default=1, help="in each boot")
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
        lab.await_that("the end", lab.is_over, say)
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
    with timed("benchmarks, and copies of the kernel"):
        lab.plant()
    with timed("install schedperf on the controller"):
        lab.install()
    with timed("doctor --boot --prove, reboot, doctor --boot"):
        said = lab.prove_boots()
    say(said)
    with timed("file of the lab, repository and timer"):
        log = lab.write_lab(size)
        at = lab.set_timer()
    say(f"base {lab.kernels.old}; the third commit adds {SLOW}:")
    print(log)
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

    night, retest = f"{MACHINE}/2*/night", f"requests/*/{MACHINE}/retest"
    for what, is_so, act in (
        ("the night's process killed", lambda: lab.has_booted(night), lab.kill_night),
        ("power of the target cut", lambda: lab.has_booted(retest), cut_power(lab.target)),
        ("power of the controller cut", lab.has_searched, cut_power(lab.controller)),
    ):
        lab.await_that(what, is_so, say)
        step = lab.current()
        act()
        say(f"{what}, in {step}")
    lab.controller.wait(BOOT_S)


def check(lab: Lab, say: Say) -> None:
    """Check the result of the night, its pages, the held mail, and the target's running kernel.

    :raises Wrong: a check fails
    """
    state = lab.state()
    say(f"outcome: {state['outcome']}")
    print(lab.run(f"schedperf night status {LAB}"))
    given_up = [note for note in state["notes"] if "given up" in note]
    if state["failed"] or given_up:
        raise Wrong(f"{state['outcome']}; {'; '.join(given_up)}; {lab.log()}")
    steps = lab.run(f"schedperf history sql --store {NIGHTS}/history '{_STEPS}'")
    print(steps)
    if "Trace each new page" not in steps:
        raise Wrong("the slow commit is not named")
    if not lab.run(f"ls -d {NIGHTS}/pages/r/*/index.html").startswith("/root"):
        raise Wrong("no page of the record")
    mails = lab.run(f"grep -L '^X-Schedperf-Kind: digest' {OUTBOX}/held/*.eml").split()
    if len(mails) != 1:
        raise Wrong(f"{len(mails)} held mails besides the digest (expected 1)")
    print(lab.run(f"cat {mails[0]}"))
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
