# SPDX-License-Identifier: GPL-2.0-or-later
"""Check that the tests notice planted mistakes: ``python -m bench.mutants``; see README.md."""

import argparse
import csv
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

from bench.mutants.trial import Clone, Mutant, Outcome, TrialError

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
COLUMNS = ("id", "area", "killed_by", "seconds", "commit")
Row = Mapping[str, str]


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__)
    parser.add_argument("--ids", nargs="+", metavar="ID", help="mutants to try [default: all]")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="mutants at a time")
    parser.add_argument(
        "--most-files",
        type=int,
        metavar="N",
        help="run the N nearest test files only, to choose a new mutant [default: all]",
    )
    parser.add_argument(
        "--root", type=Path, default=ROOT, metavar="CHECKOUT", help="its last commit is tested"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=FOLDER / "results.csv",
        metavar="FILE",
        help="table to update",
    )
    return parser.parse_args(arguments)


def read_mutants(ids: Sequence[str] | None) -> list[Mutant]:
    """Return the mutants of ``mutants.toml`` in its order.

    :param ids: the mutants to return; None for all
    :raises TrialError: an id is unknown
    """
    listed = tomllib.loads((FOLDER / "mutants.toml").read_text(encoding="utf-8"))["mutant"]
    mutants = {entry["id"]: Mutant(**entry) for entry in listed}
    if unknown := set(ids or ()) - mutants.keys():
        raise TrialError(f"--ids: unknown mutant {', '.join(sorted(unknown))}; see mutants.toml")
    return [mutant for name, mutant in mutants.items() if ids is None or name in ids]


def read_results(path: Path) -> dict[str, Row]:
    """Return the rows of a table of results, by id of the mutant; {} if the file does not exist."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def write_results(path: Path, rows: Mapping[str, Row]) -> None:
    """Write a table of results in the order of ``mutants.toml``; leave out mutants it lacks."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[mutant.id] for mutant in read_mutants(None) if mutant.id in rows)


def killers() -> dict[str, list[str]]:
    """Return the test files that killed each mutant before, from all tables in this directory."""
    found: dict[str, list[str]] = {}
    for row in chain.from_iterable(
        read_results(path).values() for path in sorted(FOLDER.glob("results*.csv"))
    ):
        if row["killed_by"]:
            tests = found.setdefault(row["id"], [])
            # The file, because the test may be gone.
            tests.append(row["killed_by"].partition("::")[0])
    return {name: list(dict.fromkeys(tests)) for name, tests in found.items()}


def try_all(
    root: Path, mutants: Sequence[Mutant], jobs: int, most_files: int | None
) -> Iterator[Outcome]:
    """Try mutants, ``jobs`` at a time, each job in a clone of its own, and yield the outcomes.

    A test that also fails without a mutant proves nothing. The mutants that it killed are tried
    again without this test, and a second outcome is yielded.

    :param root: checkout whose last commit is tested
    :param most_files: as in :meth:`Clone.try_mutant`
    :raises TrialError: a mutant cannot be tried
    :raises subprocess.CalledProcessError: git fails
    """
    first = killers()
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        ThreadPoolExecutor(jobs) as pool,
    ):
        clones = []
        for number in range(jobs):
            (own := Path(folder, str(number))).mkdir()
            clones.append(Clone(root, own))

        def try_one(mutant: Mutant) -> Outcome:
            clone = clones.pop()
            try:
                return clone.try_mutant(
                    mutant, first=first.get(mutant.id, ()), most_files=most_files
                )
            finally:
                clones.append(clone)

        while mutants:
            killed: dict[str, list[Mutant]] = {}
            for outcome in pool.map(try_one, mutants):
                if outcome.killed_by is not None:
                    killed.setdefault(outcome.killed_by, []).append(outcome.mutant)
                yield outcome
            unsound = set().union(*(clone.failing(list(killed)) for clone in clones))
            mutants = [mutant for test in sorted(unsound) for mutant in killed[test]]


def main(arguments: Sequence[str]) -> int:
    """Try the mutants and write the results.

    Return 1 if a mutant survives, 2 if one cannot be tried, else 0.
    """
    chosen = parse_arguments(arguments)
    root = chosen.root.resolve()
    command = ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    rows = read_results(chosen.results)
    survivors: dict[str, str] = {}
    try:
        mutants = read_mutants(chosen.ids)
        for outcome in try_all(root, mutants, chosen.jobs, chosen.most_files):
            mutant, killed_by = outcome.mutant, outcome.killed_by
            print(f"{mutant.id}: {killed_by or 'SURVIVED'} ({outcome.seconds:.0f} s)", flush=True)
            values = (mutant.id, mutant.area, killed_by or "", f"{outcome.seconds:.1f}", commit)
            rows[mutant.id] = dict(zip(COLUMNS, values, strict=True))
            write_results(chosen.results, rows)
            survivors.pop(mutant.id, None)
            if killed_by is None:
                survivors[mutant.id] = mutant.wrong
    except TrialError as error:
        print(error, file=sys.stderr)
        return 2
    print(
        f"{len(survivors)} survived",
        *(f"  {name}: {wrong}" for name, wrong in survivors.items()),
        sep="\n",
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
