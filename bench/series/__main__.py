# SPDX-License-Identifier: GPL-2.0-or-later
"""Prove that a series names the patch that slows the kernel: ``python -m bench.series``.

A repository gets a base and four commits. One of them, which the seed selects, makes
``update_cfs_group`` slower: its kernel and the later ones boot with kprobes on this function.
``schedperf series`` builds the commits by a script, boots them in emulated guests, and must name
this commit and no other, with an inconclusive verdict.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
KERNELS = Path(os.environ.get("SCHEDPERF_KERNELS", ROOT.parent / "shared" / "kernels"))
COMMITS = 4
PROBES = 16
DEPTH = 8
# The script of the build: a kernel that exists, and what its command line gets in this commit.
BUILD = """\
cp "$SCHEDPERF_PROVE_KERNEL/bzImage" "$SCHEDPERF_OUT"
for file in System.map config; do
    [ ! -f "$SCHEDPERF_PROVE_KERNEL/$file" ] || cp "$SCHEDPERF_PROVE_KERNEL/$file" "$SCHEDPERF_OUT"
done
[ ! -f cmdline ] || cp cmdline "$SCHEDPERF_OUT"
"""
ENTER_CGROUP = ROOT / "examples" / "deep-cgroup" / "enter-cgroup"
WORKLOAD = ("sh", "-c", f"{ENTER_CGROUP} {DEPTH} $$ && exec hackbench -l 20 -g 1")
OPTIONS = (
    *("--accel", "tcg", "--cpus", "2", "--nodes", "1", "--memory", "1G"),
    *("--instrumented", "0", "--with", "none", "--strict"),
)
# schedperf compare --strict: the verdict of emulated results.
INCONCLUSIVE = 3


class Wrong(Exception):
    """A check failed; the message says which."""


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exit with status 2 if it is wrong or the kernel is missing."""
    parser = argparse.ArgumentParser(prog="python -m bench.series", description=__doc__)
    parser.add_argument("--kernel", type=Path, default=KERNELS / "tip", help="folder with bzImage")
    parser.add_argument("--boots", type=int, default=3, help="of each commit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, help="keep the bundles in this folder")
    asked = parser.parse_args(arguments)
    if not (asked.kernel / "bzImage").is_file():
        parser.error(f"{asked.kernel}: no bzImage in it; name the folder of a kernel with --kernel")
    return asked


def make_repository(path: Path, planted: int) -> None:
    """Make a git repository: a commit with the tag ``base``, and COMMITS commits on top of it.

    :param planted: number of the commit, from 1, that makes the kernel slower
    :raises CalledProcessError: git fails
    """
    _git(path, "init", "--quiet", "--initial-branch=main")
    for number in range(COMMITS + 1):
        (path / "version").write_text(f"{number}\n")
        if number == planted:
            probes = ";".join(f"p:slow{probe},update_cfs_group" for probe in range(PROBES))
            (path / "cmdline").write_text(f"kprobe_event={probes}\n")
        _git(path, "add", ".")
        _git(path, "commit", "--quiet", "-m", f"sched: change {number}" if number else "base")
        if not number:
            _git(path, "tag", "base")


def _git(path: Path, *words: str) -> None:
    name = ("-c", "user.name=series", "-c", "user.email=series@example.org")
    # The same hashes each time, so that an interrupted series continues.
    dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-01T00:00:00Z")
    command = ["git", "-C", str(path), *name, *words]
    subprocess.run(command, check=True, env={**os.environ, **dates})


def prove(asked: argparse.Namespace, repo: Path, output: Path) -> None:
    """Record the series, compare its commits and check the result.

    :param repo: empty folder, in which the repository is made
    :param output: folder of the bundles
    :raises Wrong: ``schedperf series`` does not end as inconclusive; not exactly the slower commit
        is named; or emulation is not the reason why the verdict is inconclusive
    :raises CalledProcessError: git or ``schedperf compare`` fails
    """
    planted = random.Random(f"series {asked.seed}").randint(1, COMMITS)  # noqa: S311 # a choice
    make_repository(repo, planted)
    command = [sys.executable, "-m", "schedperf", "series", "base..main", "--repo", str(repo)]
    boots = ["--boots", str(asked.boots), "-n", "2", "--build", BUILD, "-o", str(output)]
    ran = subprocess.run(
        [*command, *boots, *OPTIONS, "--", *WORKLOAD],
        env={**os.environ, "SCHEDPERF_PROVE_KERNEL": str(asked.kernel.resolve())},
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    print(ran.stdout)
    if ran.returncode != INCONCLUSIVE:
        raise Wrong(f"exit status {ran.returncode} (expected {INCONCLUSIVE}, inconclusive)")
    paths = sorted(map(str, output.glob("*.tar")))
    for name in ("lkml", "json"):
        words = [sys.executable, "-m", "schedperf", "compare", *paths, "--format", name]
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        if name == "lkml":
            print(text)
    compared = json.loads(text)
    labels = {side["name"]: side["label"] for side in compared["sides"]}
    named = sorted({labels[mover["side"]] for mover in compared["movers"]})
    print(f"planted in commit {planted}; named: {', '.join(named) or 'none'}")
    if [label.split()[0] for label in named] != [f"{planted:02}"]:
        raise Wrong(f"named: {', '.join(named) or 'none'} (expected {planted:02})")
    if "emulat" not in compared["overall"]["reason"]:
        raise Wrong(f"reason without emulation: {compared['overall']['reason']}")


@contextlib.contextmanager
def _folder(path: Path | None) -> Iterator[Path]:
    """Yield a folder that exists, a temporary one by default."""
    if path is None:
        with tempfile.TemporaryDirectory(prefix="schedperf-series-") as name:
            yield Path(name)
    else:
        path.mkdir(parents=True, exist_ok=True)
        yield path


def main(arguments: Sequence[str]) -> int:
    """Make, record and check a series; return 1 if a check fails, else 0."""
    asked = parse_arguments(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as repo, _folder(asked.output) as output:
        try:
            prove(asked, Path(repo), output)
        except Wrong as error:
            print(f"bench.series: {error}", file=sys.stderr)
            return 1
    print(f"the right commit is named, after {(time.monotonic() - began) / 60:.0f} min")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
