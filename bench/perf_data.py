"""How fast a perf.data of 100 MB or more is read, beside `perf report` on the same file.

The file is recorded here: all CPUs with call chains while hackbench runs. Each
program is a process of its own that reads the file, names the kernel's symbols
and prints the shares; ours is Python and imports nothing but the reader. They
are run in turn, so that a change of the machine's speed hits all of them.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

SMALLEST_BYTES = 100_000_000
# Samples a second and CPU; the kernel's own limit is often lower.
FREQUENCY_HZ = 25_000
SECONDS = (15, 30, 60, 120)
ROUNDS = 5
# The path with children takes seconds to minutes; its order of magnitude is what counts.
SLOW_ROUNDS = 1


class Cost(NamedTuple):
    """What a process took, in seconds."""

    wall_s: float
    cpu_s: float


def record(path: Path) -> None:
    """Record a file that is large enough; exit where that is not possible."""
    limit = int(Path("/proc/sys/kernel/perf_event_max_sample_rate").read_text(encoding="ascii"))
    frequency = str(min(FREQUENCY_HZ, limit))
    for seconds in SECONDS:
        load = ["timeout", str(seconds), "hackbench", "-g", "1", "-l", "100000000"]
        command = ["perf", "record", "-a", "-g", "-N", "-F", frequency, "-m", "4M", "-o", str(path)]
        done = subprocess.run([*command, "--", *load], capture_output=True, text=True, check=False)
        if not path.exists():
            sys.exit(f"perf record: {done.stderr.strip()}; run as root, with perf and hackbench")
        if path.stat().st_size >= SMALLEST_BYTES:
            return
    sys.exit(f"{path.stat().st_size} bytes after {SECONDS[-1]} s; the machine samples too slowly")


def cost_of(command: Sequence[str]) -> Cost:
    """Run a command and return what it cost."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit status {process.returncode}")
    return Cost(wall_s, usage.ru_utime + usage.ru_stime)


def print_shares(path: Path) -> None:
    """Do what perf report does: this is the process that is measured."""
    from schedperf.captures.kernel_symbols import parse_kernel_symbols  # noqa: PLC0415 # measured
    from schedperf.captures.perf_data import read_perf_data  # noqa: PLC0415 # measured
    from schedperf.profile import profile_event, shares  # noqa: PLC0415 # measured

    recording = read_perf_data(path.read_bytes(), path.name)
    symbols = parse_kernel_symbols(
        Path("/proc/kallsyms").read_text(encoding="utf-8"), "/proc/kallsyms"
    )
    for counted in recording.events:
        found = shares(profile_event(recording, counted, symbols, {}).weights)
        for place, share in sorted(found.items(), key=lambda item: -item[1]):
            print(f"{share:6.2f}%  {place.symbol}")


def main() -> None:
    """Record, measure in turn, print one line a program."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "perf.data"
        record(path)
        report = ["perf", "report", "-i", str(path), "--stdio"]
        commands = {
            "schedperf, with chains": [sys.executable, __file__, str(path)],
            "perf report --no-children -g none": [*report, "--no-children", "-g", "none"],
            "perf report": report,
        }
        costs: dict[str, list[Cost]] = {name: [] for name in commands}
        for number in range(ROUNDS):
            for name, command in commands.items():
                if name != "perf report" or number < SLOW_ROUNDS:
                    costs[name].append(cost_of(command))
        size = path.stat().st_size / 1e6
    print(f"perf.data of {size:.0f} MB, recorded now; median of {ROUNDS} runs in turn")
    reference = median(cost.cpu_s for cost in costs["perf report --no-children -g none"])
    for name, values in costs.items():
        cpu_s = median(cost.cpu_s for cost in values)
        print(
            f"  {name:<34} CPU {cpu_s:7.2f} s   wall {median(c.wall_s for c in values):7.2f} s"
            f"   {size / cpu_s:6.0f} MB/s   {cpu_s / reference:6.2f} x   n = {len(values)}"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print_shares(Path(sys.argv[1]))
    else:
        main()
