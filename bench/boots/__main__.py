# SPDX-License-Identifier: GPL-2.0-or-later
"""Prove that kills and power cuts lose no run: ``python -m bench.boots``.

Two kernels are booted alternately on a machine under QEMU with a real boot loader. The recording is
made in five ways: ``ssh`` with ``ab --on ssh:HOST``; ``resume`` with ``ab --resume``; ``design``,
by ssh with two kernels and two settings, which must be restored; ``added``, by ssh with one kernel,
to whose bundle a second recording adds boots; and ``faults``, by ssh with two more kernels, one
that panics and one with a wrong name, which must be given up. At random moments the power is cut,
or the controller killed. At the end, the bundles must contain all planned boots and each finished
run once, and the machine must run its default kernel.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.boots.recording import (
    Added,
    ByItself,
    BySsh,
    Design,
    Faults,
    Recording,
    Say,
    Size,
    Wrong,
    finish,
)
from schedperf_generators.disk.build import get_disk
from schedperf_generators.disk.machine import DidNotBoot, Machine
from schedperf_generators.disk.tree import CannotBuild

WAYS: dict[str, tuple[type[Recording], str]] = {
    "ssh": (BySsh, "grub"),
    "resume": (ByItself, "systemd-boot"),
    "design": (Design, "grub"),
    "added": (Added, "grub"),
    "faults": (Faults, "grub"),
}
# Enough that a power cut often leaves some of them finished.
_RUNS = 5
# Longest time between two kills, so that each phase of a boot is hit.
_LONGEST_S = 60.0


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.boots", description=__doc__)
    parser.add_argument("--boots", type=int, default=4, help="of each kernel")
    parser.add_argument("--kills", type=int, default=10, help="of each way")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--way", choices=sorted(WAYS), action="append")
    return parser.parse_args(arguments)


def prove(way: str, asked: argparse.Namespace, folder: Path) -> None:
    """Make a recording in one way with kills, check it, and print what happens.

    :param way: a key of ``WAYS``
    :param folder: directory for the machine and the bundles
    :raises Wrong: a run is lost or recorded twice, or a change of the machine is left behind
    :raises DidNotBoot: the machine does not come up at its first boot
    :raises CannotBuild: the disk cannot be built
    """
    kind, loader = WAYS[way]
    disk = get_disk(loader)
    began = time.monotonic()
    chance = random.Random(f"{way} {asked.seed}")  # noqa: S311 # moments, not secrets

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {way}: {text}", flush=True)

    with Machine(disk, folder / "machine") as machine:
        machine.start()
        say(f"{loader}, {disk.kernels.old} and {disk.kernels.new}, seed {asked.seed}")
        # The settings that the recording left can be checked only if its last boot still runs.
        boots = asked.boots | 1 if kind is Design else asked.boots
        recording = kind(machine, disk.kernels, Size(boots, _RUNS), folder, say)
        kills = 0
        for _ in range(recording.visits):
            recording.start()
            recording.wait_for("the first boot", lambda state: state["started"] > 0)
            kills += _kill(recording, chance, asked.kills, say)
            finish(recording)
        recording.check(kills)
        say(f"over; {kills} kills; every finished run is in the bundles once")


def _kill(recording: Recording, chance: random.Random, kills: int, say: Say) -> int:
    """Cut the power or kill the controller at random moments; return how often.

    It is less than ``kills`` if the recording ends before.
    """
    done = 0
    while done < kills:
        time.sleep(chance.uniform(1, _LONGEST_S))
        if recording.is_over:
            say(f"over before the kill {done + 1} of {kills}")
            break
        state = recording.state()
        where = "booting" if state is None else f"{state['phase']}, boot {state['next'] + 1}"
        if chance.choice([True, False]):
            recording.cut_power()
            say(f"power cut ({where})")
        elif recording.kill_controller():
            say(f"controller killed ({where})")
        else:
            # There is nothing to kill while the machine boots.
            continue
        done += 1
        recording.go_on()
    return done


def main(arguments: Sequence[str]) -> int:
    """Prove each chosen way; return 1 if a check fails, else 0."""
    asked = parse_arguments(arguments)
    status = 0
    for way in asked.way or list(WAYS):
        with tempfile.TemporaryDirectory(prefix="schedperf-boots-") as name:
            folder = Path(name)
            try:
                prove(way, asked, folder)
            except (Wrong, DidNotBoot, CannotBuild) as error:
                print(f"bench.boots: {way}: {error}", file=sys.stderr)
                status = 1
            for log in folder.glob("log"):
                print(log.read_text(errors="replace"), end="")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
