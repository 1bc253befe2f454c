# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure time and peak memory of `schedperf compare` on each pair of bundles in examples/.

For comparison: `tar tf` of the same bundles, whose decompression no reader can avoid. The first
round is not counted, because it reads the files into the page cache and compiles the modules.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

EXAMPLES = Path(__file__).parent.parent / "examples"
ROUNDS = 9
# Seconds of wall and CPU time that `compare` to a terminal shall take at most, on 2 idle CPUs.
GOALS = {"deep-cgroup": (1.3, 1.8), "cluster-percpu": (2.5, 4.0)}


def measure_one(command: list[str]) -> tuple[float, float]:
    """Return wall and CPU seconds of a command; its exit status does not matter."""
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start, before = time.perf_counter(), os.times()
    subprocess.run(
        command,
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system
    return wall, cpu - before.children_user - before.children_system


def measure(example: Path, html: Path) -> None:
    """Measure all commands on one example, and print their times and the size of the report.

    :param example: directory with both bundles
    :param html: path for the report
    """
    sides = [str(example / "base.tar.xz"), str(example / "new.tar.xz")]
    compare = [sys.executable, "-m", "schedperf", "compare", *sides]
    commands = {
        "tar tf, both bundles": ["sh", "-c", 'for b in "$@"; do tar tf "$b"; done', "sh", *sides],
        "compare --json -": [*compare, "--json", "-"],
        "compare": compare,
        "compare --html": [*compare, "--html", str(html)],
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(ROUNDS + 1):
        for name, command in commands.items():
            times[name].append(measure_one(command))
    print(f"{example.name}, median of {ROUNDS} runs in turn, load {os.getloadavg()[0]:.1f}")
    for name, values in times.items():
        wall, cpu = (median(column) for column in zip(*values[1:], strict=True))
        line = f"  {name:<24} wall {wall:6.2f} s  CPU {cpu:6.2f} s"
        if name == "compare" and (goal := GOALS.get(example.name)):
            line += f"   goals {goal[0]} and {goal[1]} s"
        print(line)
    print(f"  report: {html.stat().st_size / 1e6:.2f} MB")


def main() -> None:
    """Measure every example; then print the peak memory of the largest process."""
    with tempfile.TemporaryDirectory() as folder:
        for example in sorted(path.parent for path in EXAMPLES.glob("*/base.tar.xz")):
            measure(example, Path(folder) / f"{example.name}.html")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"largest process of all: {peak / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
