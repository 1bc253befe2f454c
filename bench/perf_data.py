# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare how fast schedperf and perf read the same perf.data files, of 250 MB or more.

Two files are recorded here, on all CPUs with call chains: of hackbench, whose chains are shallow,
and of a program that calls functions up to 120 levels deep. Each program is a process of its own,
`schedperf profile` as a user runs it; the time to start Python and to import is part of it. The
runs of the programs are interleaved, so that a change of the machine's speed affects all of them.
Other files may be given instead: `bench/perf_data.py perf.data`. For a file of 100 MB, `perf
report` without call chains takes as long as `schedperf profile`, which needs 0.3 s to start Python.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

SMALLEST_BYTES = 250_000_000
# Samples per second and CPU; the kernel's own limit is often lower.
FREQUENCY_HZ = 25_000
SECONDS = (30, 60, 120)
ROUNDS = 5
# A program that takes longer is stopped: its time is then a lower bound.
LIMIT_S = 900.0
# perf's programs with call chains take up to minutes.
SLOW_ROUNDS = 1
# A program that needs more memory fails, so that other programs on the machine keep theirs.
MOST_BYTES = 8 << 30
# ru_maxrss is in KiB.
KIB = 1024
INFERNO = "~0.12"
DEEP = Path(__file__).with_name("deep_chains.c")

PROFILE, GRAPH = "schedperf profile", "schedperf profile --flamegraph"
FOLDED = "schedperf profile --export folded"
WORKERS = {count: f"reading and naming, {count} workers" for count in (1, 2, 16)}
FLAT, CHAINS = "perf report --no-children -g none", "perf report"
SCRIPT = "perf script | collapse"
SLOW = (CHAINS, SCRIPT)


class Goal(NamedTuple):
    """The largest ratios of the cost of ``ours`` to that of ``theirs`` that meet the goal.

    :param ours: name of a program of schedperf, as :func:`programs` has it
    :param theirs: name of a program of perf
    :param cpu: ratio of CPU times; None: no goal for them
    """

    ours: str
    theirs: str
    wall: float
    cpu: float | None


GOALS = (
    Goal(PROFILE, FLAT, 1.0, 1.2),
    Goal(GRAPH, CHAINS, 0.5, 0.5),
    Goal(FOLDED, SCRIPT, 0.05, None),
)


class Cost(NamedTuple):
    """Time and memory of a process and of its children that it waited for.

    :param cpu_s: CPU time of all of them
    :param peak_bytes: largest resident memory of any one of them
    """

    wall_s: float
    cpu_s: float
    peak_bytes: float


class Failed(Exception):
    """A program could not be measured; the text says why."""


def record(path: Path, load: Sequence[str]) -> None:
    """Record for 30, 60, then 120 s, until the file has SMALLEST_BYTES.

    :param load: the command that is sampled; ``timeout`` stops it
    :raises SystemExit: perf writes no file, or the file is too small after 120 s
    :raises FileNotFoundError: perf is not installed
    """
    limit = int(Path("/proc/sys/kernel/perf_event_max_sample_rate").read_text(encoding="ascii"))
    frequency = str(min(FREQUENCY_HZ, limit))
    for seconds in SECONDS:
        command = ["perf", "record", "-a", "-g", "-N", "-F", frequency, "-m", "4M", "-o", str(path)]
        timed = [*command, "--", "timeout", str(seconds), *load]
        done = subprocess.run(timed, capture_output=True, text=True, check=False)
        if not path.exists():
            sys.exit(f"perf record: {done.stderr.strip()}; run as root, with perf and hackbench")
        if path.stat().st_size >= SMALLEST_BYTES:
            return
    sys.exit(f"{path.stat().st_size} bytes after {SECONDS[-1]} s; the machine samples too slowly")


def record_both(folder: Path) -> list[Path]:
    """Record a file with shallow and a file with deep call chains; return their paths.

    :raises SystemExit: as :func:`record`
    :raises CalledProcessError: the program with deep call chains cannot be compiled
    """
    shallow, deep = folder / "shallow.data", folder / "deep.data"
    record(shallow, ["hackbench", "-g", "1", "-l", "100000000"])
    program = folder / "deep"
    options = ("-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
    subprocess.run(["cc", *options, "-o", str(program), str(DEEP)], check=True)
    cpus = len(os.sched_getaffinity(0))
    record(deep, ["sh", "-c", " & ".join([str(program)] * cpus) + " & wait"])
    return [shallow, deep]


def find_collapse() -> str | None:
    """Return the path of a program that folds perf script's text; None if there is none.

    It is FlameGraph's or inferno's. If neither is installed, cargo builds inferno, if there is
    cargo.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "schedperf-bench"
    places = os.pathsep.join((os.environ["PATH"], str(cache / "bin")))
    for name in ("stackcollapse-perf.pl", "inferno-collapse-perf"):
        if found := shutil.which(name, path=places):
            return found
    if shutil.which("cargo") is None:
        return None
    print("no inferno-collapse-perf: cargo builds it, once", file=sys.stderr)
    options = ("--locked", "--no-default-features", "--features", "cli", "--root", str(cache))
    subprocess.run(["cargo", "install", "inferno", "--version", INFERNO, *options], check=False)
    return shutil.which("inferno-collapse-perf", path=places)


def cost_of(command: Sequence[str]) -> Cost:
    """Run a command, with MOST_BYTES of address space, and return its cost.

    :raises Failed: it ends with an error, or is stopped after LIMIT_S
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        ["prlimit", f"--as={MOST_BYTES}", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
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


def programs(path: Path, collapse: str | None, folder: Path) -> Mapping[str, Sequence[str]]:
    """Return the command lines of the programs that are measured, by name.

    :param path: the perf.data file that they read
    :param collapse: the program that folds perf script's text; None: perf script runs without one
    :param folder: where they write their output
    """
    ours = [sys.executable, "-m", "schedperf", "profile", str(path)]
    report = ["perf", "report", "-i", str(path), "--stdio"]
    script = f"perf script -i {path}"
    return {
        FLAT: [*report, "--no-children", "-g", "none"],
        PROFILE: ours,
        **{
            name: [sys.executable, __file__, "--run", str(count), str(path)]
            for count, name in WORKERS.items()
        },
        FOLDED: [*ours, "--export", "folded"],
        GRAPH: [*ours, "--flamegraph", str(folder / "flames.html")],
        CHAINS: report,
        SCRIPT: ["sh", "-c", f"{script} | {collapse}" if collapse else script],
    }


def read_and_name(processes: int, path: Path) -> None:
    """Read a file and name its symbols; called in the process that is measured.

    :param processes: number of worker processes
    """
    from schedperf.inputs.perf_data import read_perf_data  # noqa: PLC0415 # measured
    from schedperf.inputs.symbols.local_symbols import symbols_for_file  # noqa: PLC0415 # measured
    from schedperf.inputs.symbols.places import place_samples  # noqa: PLC0415 # measured

    recording = read_perf_data(path, path.name, keep=frozenset(), processes=processes)
    place_samples(recording, symbols_for_file(recording, None, print))


def measure(commands: Mapping[str, Sequence[str]]) -> tuple[dict[str, Cost], dict[str, str]]:
    """Run all commands, interleaved: ROUNDS times each, those of SLOW only SLOW_ROUNDS times.

    A command that fails once is not run again.

    :return: the median costs by name, and the reasons of failures by name
    """
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


def print_costs(costs: Mapping[str, Cost], failed: Mapping[str, str]) -> None:
    """Print one line per program: its cost, and the ratio to perf report without call chains.

    The ratio is missing if that program failed. For programs that failed, the line has the reason.
    """
    flat = costs.get(FLAT)
    for name, cost in costs.items():
        beside = "" if flat is None else f"  {cost.wall_s / flat.wall_s:6.2f} x"
        print(
            f"  {name:<36} wall {cost.wall_s:7.2f} s  CPU {cost.cpu_s:7.2f} s"
            f"{beside}  largest process {cost.peak_bytes / 1e6:5.0f} MB"
        )
    for name, why in failed.items():
        print(f"  {name:<36} {why}")


def print_goals(costs: Mapping[str, Cost]) -> None:
    """Print the ratios of our cost to perf's, and whether the goals are met."""
    for goal in GOALS:
        if goal.ours not in costs or goal.theirs not in costs:
            print(f"  {goal.ours}, of {goal.theirs}: not measured")
            continue
        ours, theirs = costs[goal.ours], costs[goal.theirs]
        parts = [describe_part("wall", ours.wall_s / theirs.wall_s, goal.wall)]
        if goal.cpu is not None:
            parts.append(describe_part("CPU", ours.cpu_s / theirs.cpu_s, goal.cpu))
        parts.append(describe_part("memory", ours.peak_bytes / theirs.peak_bytes, 1.0))
        print(f"  {goal.ours}, of {goal.theirs}: {', '.join(parts)}")


def describe_part(name: str, part: float, goal: float) -> str:
    """Return a ratio and whether it meets its goal, as text."""
    return f"{name} {part:.3g} x (goal {goal:g}: {'met' if part <= goal else 'missed'})"


def main(given: Sequence[str]) -> None:
    """Measure all programs on each file, and print the costs and the goals.

    :param given: paths of perf.data files; empty: two files are recorded
    """
    collapse = find_collapse()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in [Path(argument) for argument in given] or record_both(folder):
            costs, failed = measure(programs(path, collapse, folder))
            print(
                f"{path.name}, {path.stat().st_size / 1e6:.0f} MB; median of {ROUNDS} runs in "
                f"turn, of perf's programs with call chains {SLOW_ROUNDS}; x: of {FLAT}; load of "
                f"the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
            )
            print_costs(costs, failed)
            if collapse is None:
                print(f"  {SCRIPT} stands alone: nothing that folds its text, and no cargo")
            print_goals(costs)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        read_and_name(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        main(sys.argv[1:])
