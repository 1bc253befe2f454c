# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare mechanisms of known causes: ``python -m bench.mechanism``.

A microbenchmark does more work in user mode. A workload "of production" does the same, or runs on
one CPU only, or both. All are recorded on this machine by ``schedperf ab`` as root, and
``schedperf mechanism`` compares them. The table has the outcomes of user and of waiting time.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).parent / "causes" / "more.c"
# Of the time of a run, about as much as one CPU costs.
SPINS = 400
MICRO = ("dd", "if=/dev/zero", "of=/dev/null", "bs=64", "count=500000")
PRODUCTION = ("hackbench", "-l", "700", "-g", "2")
MORE_WORK = "export LD_PRELOAD={library}"
ONE_CPU = "taskset -cp 0 $$ >/dev/null"
# The cause, and whether it is that of the microbenchmark: the outcome of user time must be "same".
CASES: Mapping[str, tuple[str, bool]] = {
    "same cause": (MORE_WORK, True),
    "different cause": (ONE_CPU, False),
    "partly the same": (f"{MORE_WORK} && {ONE_CPU}", True),
}
VERDICTS = (0, 1, 3)


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.mechanism", description=__doc__)
    parser.add_argument("--pairs", type=int, default=8, help="interleaved pairs of runs")
    parser.add_argument("-o", "--output", type=Path, help="keep the bundles in this folder")
    return parser.parse_args(arguments)


def schedperf(*words: str | Path) -> str:
    """Run schedperf and return its output.

    :raises subprocess.CalledProcessError: it fails
    """
    command = [sys.executable, "-m", "schedperf", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in VERDICTS:
        done.check_returncode()
    return done.stdout


def record(name: str, cause: str, command: Sequence[str], folder: Path, pairs: int) -> Path:
    """Record a workload without and with a cause, and return the file of the comparison.

    :raises subprocess.CalledProcessError: the recording fails
    """
    stem = name.replace(" ", "-")
    bundles = [folder / f"{stem}-{side}.tar" for side in ("base", "new")]
    schedperf("ab", "--base", bundles[0], "--new", bundles[1], "-n", str(pairs), "-q",
              "--instrumented", "0", f"--new-setup={cause}", "--", *command)  # fmt: skip
    file = folder / f"{stem}.json"
    schedperf("compare", *bundles, "--json", file)
    return file


def outcome_of(micro: Path, production: Path) -> tuple[str, dict[str, str]]:
    """Return the sentence, and the outcome of each part of the time account."""
    found = json.loads(schedperf("mechanism", micro, production, "--json", "-"))
    [pair] = found["pairs"]
    parts = {row["name"]: row["outcome"] for row in pair["rows"] if row["section"] == "account"}
    return pair["sentence"], parts


def main(arguments: Sequence[str]) -> int:
    """Record, compare and print the table; return 1 if an outcome is wrong."""
    asked = parse_arguments(arguments)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="schedperf-mechanism-") as name:
        folder = asked.output or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        library = folder / "user.so"
        words = ["cc", "-O1", "-DUSER", f"-DSPINS={SPINS}", "-shared", "-fPIC"]
        subprocess.run([*words, "-o", str(library), str(SOURCE)], check=True)
        micro = record("micro", MORE_WORK.format(library=library), MICRO, folder, asked.pairs)
        for case, (cause, has_user) in CASES.items():
            setup = cause.format(library=library)
            file = record(case, setup, PRODUCTION, folder, asked.pairs)
            sentence, parts = outcome_of(micro, file)
            is_right = (parts.get("user") == "same") == has_user
            wrong += not is_right
            shown = ", ".join(f"{name} {parts.get(name)}" for name in ("user", "waiting"))
            print(f"{'right' if is_right else 'WRONG':6}{case}: {shown}")
            print(f"      {sentence}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
