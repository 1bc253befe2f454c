# SPDX-License-Identifier: GPL-2.0-or-later
"""How long `schedperf compare` takes on each pair of examples/, and what it peaks at.

Beside it: reading the same members with `tar tf` and `xz`, which no reader can avoid.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

EXAMPLES = Path(__file__).parent.parent / "examples"
ROUNDS = 5


def wall_s(command: list[str]) -> float:
    """Return how long the command takes, in seconds; its exit status does not matter."""
    start = time.perf_counter()
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def measure(example: Path, html: Path) -> None:
    """Print the figures of one example."""
    sides = [str(example / "base.tar.xz"), str(example / "new.tar.xz")]
    compare = [sys.executable, "-m", "schedperf", "compare", *sides]
    commands = {
        "tar tf, both bundles": ["sh", "-c", 'for b in "$@"; do tar tf "$b"; done', "sh", *sides],
        "compare --json -": [*compare, "--json", "-"],
        "compare": compare,
        "compare --html": [*compare, "--html", str(html)],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            times[name].append(wall_s(command))
    print(f"{example.name}, median of {ROUNDS} runs in turn")
    reference = median(times["tar tf, both bundles"])
    for name, values in times.items():
        print(f"  {name:<24} {median(values):6.2f} s   {median(values) / reference:5.1f} x tar tf")
    print(f"  report: {html.stat().st_size / 1e6:.2f} MB")


def main() -> None:
    """Measure every example."""
    with tempfile.TemporaryDirectory() as folder:
        for example in sorted(path.parent for path in EXAMPLES.glob("*/base.tar.xz")):
            measure(example, Path(folder) / f"{example.name}.html")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"largest process of all: {peak / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
