# SPDX-License-Identifier: GPL-2.0-or-later
"""How long `schedperf --help` takes, beside a Python that does nothing.

The two are run in turn, so that a change of the machine's speed hits both.
"""

import shutil
import subprocess
import sys
import time
from statistics import median

ROUNDS = 15


def wall_s(command: list[str]) -> float:
    """Return how long the command takes, in seconds."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Print one line a command: median, minimum, and the difference to bare Python."""
    schedperf = shutil.which("schedperf", path=str(sys.prefix) + "/bin") or "schedperf"
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "schedperf --help": [schedperf, "--help"],
        "schedperf --version": [schedperf, "--version"],
        "schedperf record --help": [schedperf, "record", "--help"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            times[name].append(wall_s(command))

    bare = median(times["python -c pass"])
    print(f"start-up time, median of {ROUNDS} runs in turn")
    for name, values in times.items():
        more = median(values) - bare
        print(
            f"  {name:<24} {median(values) * 1e3:6.1f} ms   min {min(values) * 1e3:6.1f} ms"
            f"   {more * 1e3:+6.1f} ms over bare Python"
        )


if __name__ == "__main__":
    main()
