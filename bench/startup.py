# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure how long short commands take, each beside what it cannot do without.

`schedperf --help` beside an import of click; a comparison of two small CSV tables beside imports of
SciPy and of pandas; the recorder's file beside the same file without bytecode. The runs of the
commands are interleaved, so that a change of the machine's speed affects all of them. The first
round, which compiles the modules, is not counted.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from schedperf.commands._zipapp import build_zipapp

ROUNDS = 15
CLICK, HELP = "python -c 'import click'", "schedperf --help"
SCIPY, CSV = "python -c 'import scipy.stats'", "schedperf compare base.csv new.csv"
COMPILED, SOURCES = "recorder --version", "recorder --version, without bytecode"
# Each command, and the one that its times are divided by.
BESIDE = {
    "python -c pass": CLICK,
    CLICK: CLICK,
    HELP: CLICK,
    "schedperf --version": CLICK,
    "schedperf record --help": CLICK,
    SCIPY: SCIPY,
    "python -c 'import pandas'": SCIPY,
    CSV: SCIPY,
    SOURCES: SOURCES,
    COMPILED: SOURCES,
}
# Goal: largest ratio of the times of HELP to those of CLICK.
GOAL = 1.3


def measure(command: list[str], folder: Path) -> tuple[float, float]:
    """Run a command in a directory; return its wall time and CPU time in seconds.

    :raises CalledProcessError: it ends with an error
    """
    # Without compiled modules, the time to compile them would be measured.
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment, cwd=folder)
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system
    return wall, cpu - before.children_user - before.children_system


def prepare(folder: Path) -> None:
    """Write two CSV tables without a change, and the recorder's file with and without bytecode."""
    lines = [
        f"hackbench,groups={groups},time,s,lower,{groups + run / 100:.2f}"
        for groups in range(1, 9)
        for run in range(10)
    ]
    for name in ("base.csv", "new.csv"):
        (folder / name).write_text(
            "\n".join(["workload,point,metric,unit,better,value", *lines, ""])
        )
    compiled = folder / COMPILED.partition(" ")[0]
    compiled.write_bytes(build_zipapp())
    with zipfile.ZipFile(compiled) as whole, zipfile.ZipFile(folder / "sources", "w") as sources:
        for member in whole.infolist():
            if not member.filename.endswith(".pyc"):
                sources.writestr(member, whole.read(member))


def main() -> None:
    """Print one line per command: median times, and their ratios to the command beside it.

    The last line is the goal: the largest allowed ratio for `schedperf --help`.
    """
    schedperf = shutil.which("schedperf", path=str(sys.prefix) + "/bin") or "schedperf"
    commands: Mapping[str, list[str]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        CLICK: [sys.executable, "-c", "import click"],
        HELP: [schedperf, "--help"],
        "schedperf --version": [schedperf, "--version"],
        "schedperf record --help": [schedperf, "record", "--help"],
        SCIPY: [sys.executable, "-c", "import scipy.stats"],
        "python -c 'import pandas'": [sys.executable, "-c", "import pandas"],
        CSV: [schedperf, "compare", "base.csv", "new.csv"],
        SOURCES: [sys.executable, "-I", "sources", "--version"],
        COMPILED: [sys.executable, "-I", "recorder", "--version"],
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(folder)
        for _ in range(ROUNDS + 1):
            for name, command in commands.items():
                times[name].append(measure(command, folder))
    medians = {
        name: [median(column) for column in zip(*values[1:], strict=True)]
        for name, values in times.items()
    }
    print(f"start-up time, median of {ROUNDS} runs in turn")
    for name, beside in BESIDE.items():
        wall, cpu = medians[name]
        parts = (one / other for one, other in zip((wall, cpu), medians[beside], strict=True))
        ratios = " ".join(f"{part:5.2f} x" for part in parts)
        print(f"  {name:<36} wall {wall * 1e3:6.1f} ms  CPU {cpu * 1e3:6.1f} ms  {ratios}")
    print(f"  goal: {HELP} at most {GOAL} x {CLICK}")


if __name__ == "__main__":
    main()
