# SPDX-License-Identifier: GPL-2.0-or-later
"""How fast a perf.data of 300 MB or more is read, beside perf's own programs on the same file.

The file is recorded here: all CPUs with call chains while hackbench runs. Each
program is a process of its own that reads the file, names the symbols and prints
shares or call chains; of ours the time to start Python and to import is part of
it. They run in turn, so that a change of the machine's speed hits all of them.
Another file may be given instead: `bench/perf_data.py perf.data`.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

SMALLEST_BYTES = 300_000_000
# Samples a second and CPU; the kernel's own limit is often lower.
FREQUENCY_HZ = 25_000
SECONDS = (45, 90, 180)
ROUNDS = 3
# A program that takes longer is stopped: its time is then a lower bound. All of it is over in
# some four minutes where the machine is fast enough to record in one go.
LIMIT_S = 60.0
# The paths with call chains take seconds to minutes; their order of magnitude is what counts.
SLOW_ROUNDS = 1
# What is aimed at: times faster than what handles call chains, and times the cost without them.
CHAINS_GOAL, FLAT_GOAL = 10.0, 1.0
# What would help where a goal is missed.
REMEDY = "a compiled loop over the distinct chains, where plain Python puts their names together"
# ru_maxrss is in KiB.
KIB = 1024
INFERNO = "~0.12"

ONE, ALL = "ours, one thread", "ours, a thread a CPU"
FOLDED, PAIR = "ours, call chains folded", "ours, two files"
FLAT, CHAINS = "perf report --no-children -g none", "perf report -g caller"
DIFF = "perf diff of two files"
SCRIPT = "perf script | collapse"
SLOW = (CHAINS, SCRIPT)


class Cost(NamedTuple):
    """What a process and those that it waited for took.

    :param peak_bytes: resident, of the largest of them
    """

    wall_s: float
    cpu_s: float
    peak_bytes: float


class Failed(Exception):
    """A program could not be measured; the text says why."""


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


def find_collapse() -> str | None:
    """Return a program that folds perf script's text; cargo gets one where there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "schedperf-bench"
    places = os.pathsep.join((os.environ["PATH"], str(cache / "bin")))
    for name in ("inferno-collapse-perf", "stackcollapse-perf.pl"):
        if found := shutil.which(name, path=places):
            return found
    if shutil.which("cargo") is None:
        return None
    print("no inferno-collapse-perf: cargo builds it, once", file=sys.stderr)
    options = ("--locked", "--no-default-features", "--features", "cli", "--root", str(cache))
    subprocess.run(["cargo", "install", "inferno", "--version", INFERNO, *options], check=False)
    return shutil.which("inferno-collapse-perf", path=places)


def cost_of(command: Sequence[str]) -> Cost:
    """Run a command and return what it cost.

    :raises Failed: it ended with an error, or had to be stopped
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    timer = threading.Timer(LIMIT_S, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    wall_s = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode == -signal.SIGKILL and wall_s >= LIMIT_S:
        raise Failed(f"stopped after {LIMIT_S:.0f} s")
    if process.returncode:
        raise Failed(f"exit status {process.returncode}")
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * KIB)


def programs(path: Path, collapse: str | None) -> Mapping[str, Sequence[str]]:
    """Return what is run, by its name."""
    ours = [sys.executable, __file__, "--run"]
    cpus, file = str(os.cpu_count() or 1), str(path)
    report = ["perf", "report", "-i", file, "--stdio"]
    script = f"perf script -i {file}"
    return {
        ONE: [*ours, "shares", "1", file],
        ALL: [*ours, "shares", cpus, file],
        FOLDED: [*ours, "folded", cpus, file],
        FLAT: [*report, "--no-children", "-g", "none"],
        PAIR: [*ours, "shares", cpus, file, file],
        DIFF: ["perf", "diff", file, file],
        CHAINS: [*report, "-g", "caller"],
        SCRIPT: ["sh", "-c", f"{script} | {collapse}" if collapse else script],
    }


def run_ours(what: str, processes: int, paths: Sequence[Path]) -> None:
    """Do what perf does: this is the process that is measured."""
    import numpy as np  # noqa: PLC0415 # measured

    from schedperf.perf_data import Keep, read_perf_data  # noqa: PLC0415 # measured
    from schedperf.symbols.local_symbols import symbols_for_file  # noqa: PLC0415 # measured
    from schedperf.symbols.places import place_samples  # noqa: PLC0415 # measured

    # As `schedperf profile` does without a flame graph, and perf report with -g none.
    keep = frozenset({Keep.CHAIN} if what == "folded" else ())
    for path in paths:
        recording = read_perf_data(path, path.name, keep=keep, processes=processes)
        symbols = symbols_for_file(recording, None, print)
        placed = place_samples(recording, symbols)
        periods = recording.samples.period.tolist()
        found: Counter[tuple[int, ...]] = Counter()
        stacks = (
            placed.frames(np.arange(len(periods)))
            if what == "folded"
            else [(place,) for place in placed.of_row.tolist()]
        )
        for frames, period in zip(stacks, periods, strict=True):
            found[frames] += period
        total = sum(periods)
        for frames, period in found.most_common():
            names = ";".join(placed.places[frame].symbol for frame in frames)
            print(f"{100 * period / total:6.2f}%  {names}")


def measure(commands: Mapping[str, Sequence[str]]) -> tuple[dict[str, Cost], dict[str, str]]:
    """Run all of them in turn; return the medians, and why others have none."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    failed: dict[str, str] = {}
    for number in range(ROUNDS):
        for name, command in commands.items():
            if name in failed or (number >= SLOW_ROUNDS and name in SLOW):
                continue
            try:
                costs[name].append(cost_of(command))
            except Failed as error:
                failed[name] = str(error)
    medians = {
        name: Cost(*map(median, zip(*found, strict=True)))
        for name, found in costs.items()
        if name not in failed
    }
    return medians, failed


def print_costs(costs: Mapping[str, Cost], failed: Mapping[str, str], size: int) -> None:
    """Print a line a program."""
    flat = costs.get(FLAT)
    for name, cost in costs.items():
        files = 2 if name in (PAIR, DIFF) else 1
        beside = "" if flat is None else f"  {cost.wall_s / flat.wall_s:6.2f} x"
        print(
            f"  {name:<36} wall {cost.wall_s:7.2f} s  CPU {cost.cpu_s:7.2f} s"
            f"  {files * size / cost.wall_s / 1e6:5.0f} MB/s{beside}"
            f"  largest process {cost.peak_bytes / 1e6:5.0f} MB"
        )
    for name, why in failed.items():
        print(f"  {name:<36} {why}")


def print_goals(costs: Mapping[str, Cost]) -> None:
    """Say which goals are met; they are of the wall, and the CPU time stands beside."""
    for name in SLOW:
        for ours in (ALL, FOLDED):
            print_goal(costs, name, ours, CHAINS_GOAL)
    print_goal(costs, FLAT, ALL, FLAT_GOAL)
    print_goal(costs, DIFF, PAIR, FLAT_GOAL)
    if ONE in costs and ALL in costs:
        print(f"  {ONE}: {costs[ONE].wall_s / costs[ALL].wall_s:.2f} x the time of {ALL}")


def print_goal(costs: Mapping[str, Cost], theirs: str, ours: str, goal: float) -> None:
    """Print how many times faster ours is."""
    if theirs not in costs or ours not in costs:
        print(f"  {ours}, against {theirs}: not measured")
        return
    wall = costs[theirs].wall_s / costs[ours].wall_s
    cpu = costs[theirs].cpu_s / costs[ours].cpu_s
    words = "met" if wall >= goal else f"missed; {REMEDY}"
    print(
        f"  {ours}, against {theirs}: {wall:.1f} x as fast (CPU {cpu:.1f} x), goal {goal:g} x: "
        f"{words}"
    )


def main(given: Sequence[str]) -> None:
    """Record, measure in turn, print one line a program."""
    collapse = find_collapse()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(given[0]) if given else Path(folder) / "perf.data"
        if not given:
            record(path)
        costs, failed = measure(programs(path, collapse))
        size = path.stat().st_size
    origin = "given" if given else "recorded now"
    print(
        f"perf.data of {size / 1e6:.0f} MB with call chains, {origin}; median of {ROUNDS} runs in "
        f"turn, of perf's programs with call chains {SLOW_ROUNDS}; x: of {FLAT}; load of the "
        f"machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
    )
    print_costs(costs, failed, size)
    if collapse is None:
        print(f"  {SCRIPT} stands alone: nothing that folds its text, and no cargo to build it")
    print_goals(costs)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run_ours(sys.argv[2], int(sys.argv[3]), [Path(argument) for argument in sys.argv[4:]])
    else:
        main(sys.argv[1:])
