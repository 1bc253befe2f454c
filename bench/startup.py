# SPDX-License-Identifier: GPL-2.0-or-later
"""How long `schedperf --help` takes, beside a Python that imports click, or does nothing.

They are run in turn, so that a change of the machine's speed hits all of them. The first round,
which compiles the modules, is not counted.
"""

import os
import shutil
import subprocess
import sys
import time
from statistics import median

ROUNDS = 15
CLICK, HELP = "python -c 'import click'", "schedperf --help"
# The largest quotient of the two that is aimed at.
GOAL = 1.3


def measure(command: list[str]) -> tuple[float, float]:
    """Return wall and CPU seconds of a command."""
    # Without compiled modules, the time to compile them would be measured.
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system
    return wall, cpu - before.children_user - before.children_system


def main() -> None:
    """Print one line a command: medians, and the quotient that is aimed at."""
    schedperf = shutil.which("schedperf", path=str(sys.prefix) + "/bin") or "schedperf"
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        CLICK: [sys.executable, "-c", "import click"],
        HELP: [schedperf, "--help"],
        "schedperf --version": [schedperf, "--version"],
        "schedperf record --help": [schedperf, "record", "--help"],
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(ROUNDS + 1):
        for name, command in commands.items():
            times[name].append(measure(command))
    medians = {
        name: [median(column) for column in zip(*values[1:], strict=True)]
        for name, values in times.items()
    }
    print(f"start-up time, median of {ROUNDS} runs in turn")
    for name, (wall, cpu) in medians.items():
        parts = (one / other for one, other in zip((wall, cpu), medians[CLICK], strict=True))
        beside = " ".join(f"{part:5.2f} x" for part in parts)
        print(f"  {name:<26} wall {wall * 1e3:6.1f} ms  CPU {cpu * 1e3:6.1f} ms  {beside}")
    print(f"  goal: {HELP} at most {GOAL} x {CLICK}")


if __name__ == "__main__":
    main()
