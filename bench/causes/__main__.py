# SPDX-License-Identifier: GPL-2.0-or-later
"""Prove that reports name the cause of a slower workload: ``python -m bench.causes``.

Ten causes are planted, one after another, in the runs of one side; each pair of sides is recorded
on this machine by ``schedperf ab`` as root, and compared. The table has the result, the change of
the time of the workload's tasks, and the first reason. At least eight of ten must be named first.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.causes.planted import Cause, all_causes

HERE = Path(__file__).parent
PROGRAMS = {
    "workload": ("workload.c", "-pthread"),
    "user.so": ("more.c", "-DUSER", "-shared", "-fPIC"),
    "calls.so": ("more.c", "-shared", "-fPIC"),
}
LEAST_NAMED = 8
# Exit statuses of compare that are a verdict.
VERDICTS = (0, 1)
WIDTH = 100


class Found(NamedTuple):
    """The content of a report about one cause.

    :param result: the verdict and the change of the result
    :param time: the change of the tasks' time, with its largest parts
    :param reasons: texts of the findings, the first reason first
    """

    cause: Cause
    result: str
    time: str
    reasons: tuple[str, ...]

    @property
    def is_named(self) -> bool:
        """Return whether the first reason names the cause."""
        return bool(self.reasons) and self.cause.named.search(self.reasons[0]) is not None


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.causes", description=__doc__)
    parser.add_argument("--pairs", type=int, default=8, help="clean pairs per cause")
    parser.add_argument("--instrumented", type=int, default=4, help="instrumented pairs per cause")
    parser.add_argument("--only", action="append", metavar="CAUSE", default=[])
    parser.add_argument("-o", "--output", type=Path, help="keep the bundles in this folder")
    return parser.parse_args(arguments)


def build(folder: Path) -> None:
    """Compile the workloads.

    :raises subprocess.CalledProcessError: the compiler fails
    """
    for name, (source, *options) in PROGRAMS.items():
        # Frame pointers, so that stacks of the profile name callers.
        words = ["cc", "-O1", "-g", "-fno-omit-frame-pointer", *options]
        subprocess.run([*words, "-o", str(folder / name), str(HERE / source)], check=True)


def record(cause: Cause, folder: Path, asked: argparse.Namespace) -> tuple[Path, Path]:
    """Record both sides of a cause; return the bundles.

    :raises subprocess.CalledProcessError: the recording fails
    """
    stem = cause.name.replace(" ", "-").replace("/", "")
    base, new = folder / f"{stem}-base.tar", folder / f"{stem}-new.tar"
    setups = [f"--{side}-setup={text}" for side, text in
              (("base", cause.base), ("new", cause.new)) if text]  # fmt: skip
    subprocess.run(
        [
            *(sys.executable, "-m", "schedperf", "ab", "--base", str(base), "--new", str(new)),
            *("-n", str(asked.pairs), "--instrumented", str(asked.instrumented), *setups),
            *("--with", "default,bpf_account"),
            *("--", *shlex.split(cause.command)),
        ],
        stdout=sys.stderr,
        check=True,
    )
    return base, new


def compare(cause: Cause, bundles: Sequence[Path]) -> Found:
    """Compare both sides of a cause.

    :raises subprocess.CalledProcessError: the comparison fails
    """
    command = [sys.executable, "-m", "schedperf", "compare", *map(str, bundles), "--json", "-"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode not in VERDICTS:
        done.check_returncode()
    found = json.loads(done.stdout)
    reasons = [each for each in found["findings"] if each["bearing"] == "reason"]
    return Found(
        cause=cause,
        result=describe_result(found),
        time="; ".join(describe_time(found)),
        reasons=tuple(f"{each['clause']}{each['change']}{each['details']}" for each in reasons),
    )


def describe_result(found: Any) -> str:
    """Return the verdict and the largest change: ``regression +21.8%``."""
    ratios = [row["ratio"] for row in found["rows"] if row["ratio"] is not None]
    largest = max(ratios, key=lambda ratio: abs(ratio - 1.0), default=None)
    change = "" if largest is None else f" {largest - 1.0:+.1%}"
    return f"{found['overall']['verdict']}{change}"


def describe_time(found: Any) -> Iterator[str]:
    """Yield, for each point, the change of the tasks' time and of its parts."""
    for point in found["sections"]["account"]["data"]["points"]:
        parts = sorted(point["parts"], key=lambda part: -abs(part["contribution"]))
        words = ", ".join(f"{part['part']} {100 * part['contribution']:+.0f} pp" for part in parts)
        yield f"{100 * point['all']['contribution']:+.0f}%: {words}"


def main(arguments: Sequence[str]) -> int:
    """Record, compare and print the table; return 1 if fewer causes are named than must be."""
    asked = parse_arguments(arguments)
    with tempfile.TemporaryDirectory(prefix="schedperf-causes-") as name:
        folder = Path(name)
        build(folder)
        causes = [each for each in all_causes(folder) if not asked.only or each.name in asked.only]
        kept = asked.output or folder
        kept.mkdir(parents=True, exist_ok=True)
        all_found = []
        for cause in causes:
            print(f"{cause.name}: {shlex.join(cause.command.split())}", file=sys.stderr)
            all_found.append(compare(cause, record(cause, kept, asked)))
    for found in all_found:
        print(f"{'named' if found.is_named else 'MISSED':8}{found.cause.name}: {found.result}")
        print(f"        thread-time {found.time}")
        print(f"        first reason: {(found.reasons or ('none',))[0][:WIDTH]}")
    named = sum(found.is_named for found in all_found)
    print(f"{named} of {len(all_found)} causes are named first")
    return 0 if named >= min(LEAST_NAMED, len(all_found)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
