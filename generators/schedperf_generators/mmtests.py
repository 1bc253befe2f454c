# SPDX-License-Identifier: GPL-2.0-or-later
"""Write results directories in the layout of mmtests, with known numbers.

::

    python -m schedperf_generators.mmtests FOLDER RELEASE SECONDS [BOOTS]

The logs of hackbench have the format of ``perf bench sched messaging`` of perf 6.1. SECONDS is its
mean time with one group, BOOTS the number of iterations [default: 4].
"""

import gzip
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent

from msgspec import Struct

GROUPS = (1, 4, 8, 16)
RUNS = 5
# Relative standard deviation of the times.
NOISE = 0.01
FIRST_START_S = 1_735_689_600
DAY_S = 86_400
# Time from one boot to the next; mmtests itself does not reboot the machine.
BOOT_S = 600
HZ = 250
# Kernels start counting ticks five minutes before the counter overflows 32 bits.
FIRST_JIFFIES = 2**32 - 300 * HZ
UPTIME_S = 40


class Benchmark(Struct, frozen=True, kw_only=True):
    """One benchmark of one iteration.

    :param logs: content of files by name; names that end with .gz are compressed
    """

    name: str
    logs: Mapping[str, str]


def messaging(groups: int, times_s: Sequence[float]) -> str:
    """Return the output of runs of ``perf bench sched messaging -p``, one after the other."""
    return "".join(
        f"# Running 'sched/messaging' benchmark:\n"
        f"# 20 sender and receiver processes per group\n"
        f"# {groups} groups == {40 * groups} processes run\n\n"
        f"     Total time: {time_s:.3f} [sec]\n"
        for time_s in times_s
    )


def hackbench(seconds: float, source: random.Random) -> Benchmark:
    """Return the logs of hackbench with 1 to 16 groups; times grow with the number of groups.

    :param seconds: mean time with one group
    :param source: source of the noise
    """
    times = {
        groups: [seconds * groups * source.gauss(1.0, NOISE) for _ in range(RUNS)]
        for groups in GROUPS
    }
    return Benchmark(
        name="hackbench-process-pipes",
        logs={f"hackbench-{groups}": messaging(groups, runs) for groups, runs in times.items()},
    )


def unixbenchd(command: str, runs: Sequence[str]) -> Benchmark:
    """Return the log of a program of UnixBench, to which mmtests appends one run after the other.

    :param command: what follows ``./pgms/``, e.g. "context1 5"
    :param runs: what each run printed, e.g. "COUNT|52880|1|lps"
    """
    return Benchmark(
        name="unixbenchd",
        logs={
            "commands.log": f"./pgms/{command}\n",
            "unixbenchd.log": "".join(f"{run}\n" for run in runs),
        },
    )


def write_iteration(
    folder: Path,
    tests: Sequence[Benchmark],
    *,
    release: str,
    start: int,
    jiffies: int | None = None,
) -> None:
    """Write the directory of one iteration: iter-N.

    :param folder: the directory; must not exist
    :param release: release of the kernel
    :param start: start of the iteration, in s since 1970
    :param jiffies: timestamp in /proc/schedstat, which counts ticks; None: the file is not recorded
    """
    folder.mkdir(parents=True)
    stamps = [f"start :: {start}"]
    for number, test in enumerate(tests):
        begin = start + 60 * number + 5
        end = begin + 30
        stamps += [
            f"test begin :: {test.name} {begin}",
            f"test end :: {test.name} {end} 0",
            f"time :: {test.name} 10.50 user 20.25 system 30.00 elapsed",
        ]
        for name, text in test.logs.items():
            _write(folder / test.name / "logs" / name, text)
    stamps.append(f"finish :: {start + 60 * len(tests) + 5}")
    _write(folder / "tests-timestamp", "\n".join(stamps) + "\n")
    if jiffies is not None:
        state = f"file start :: /proc/schedstat\nversion 15\ntimestamp {jiffies}\n"
        _write(folder / "tests-sysstate.gz", state)
    _write_machine(folder, release)


def _write_machine(folder: Path, release: str) -> None:
    version = "#1 SMP PREEMPT_DYNAMIC Mon Jan 6 09:12:31 UTC 2025"
    _write(
        folder / "kernel.version", f"Linux node1 {release} {version} x86_64 x86_64 x86_64 GNU/Linux"
    )
    _write(folder / f"kconfig-{release}.txt.gz", "CONFIG_SMP=y\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n")
    _write(
        folder / "lscpu.txt.gz",
        dedent(
            """\
            Architecture:            x86_64
            CPU(s):                  16
              On-line CPU(s) list:   0-15
            Vendor ID:               AuthenticAMD
              Model name:            AMD EPYC 7313P 16-Core Processor
                CPU family:          25
                Model:               1
                Thread(s) per core:  1
                Stepping:            1
            NUMA:
              NUMA node(s):          1
              NUMA node0 CPU(s):     0-15
            """
        ),
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without a time stamp the same text makes the same file.
    packed = gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode()
    path.write_bytes(packed)


def write_results(folder: Path, *, release: str, seconds: float, boots: int, seed: int) -> None:
    """Write a results directory with one iteration for each of several boots.

    :param seconds: mean time of hackbench with one group
    """
    source = random.Random(seed)  # noqa: S311 # noise, not a secret
    for boot in range(boots):
        write_iteration(
            folder / f"iter-{boot}",
            [hackbench(seconds * source.gauss(1.0, NOISE), source)],
            release=release,
            start=FIRST_START_S + seed * DAY_S + boot * BOOT_S,
            jiffies=FIRST_JIFFIES + UPTIME_S * HZ,
        )


def main(arguments: Sequence[str]) -> None:
    """Write a results directory with the numbers of a seed that depends on the release.

    :param arguments: FOLDER, RELEASE, SECONDS and, optionally, BOOTS
    """
    folder, release, seconds, *more = arguments
    boots = int(more[0]) if more else 4
    write_results(
        Path(folder),
        release=release,
        seconds=float(seconds),
        boots=boots,
        seed=sum(map(ord, release)),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
