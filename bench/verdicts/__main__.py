# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure the error rates of the verdicts: ``python -m bench.verdicts``; see its README.md."""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path

from bench.verdicts.cells import Cell, all_cells, quick
from bench.verdicts.gates import check_cells, check_speed
from bench.verdicts.measure import Score, score_cell
from bench.verdicts.real import RealScore, Recording, read_csv, read_texts, score_recording
from bench.verdicts.speed import ROWS, lines, time_thousand_rows
from bench.verdicts.table import cell_lines, gate_lines, real_lines, tool_lines, write_csv
from schedperf.model.errors import InputError

FOLDER = Path(__file__).parent
OWN_RECORDING = FOLDER / "aa.csv"
# Captured text of other recordings lies beside the checkout where there is any.
TEXTS = FOLDER.parents[2] / "shared" / "data" / "aa"
MOST_PROCESSES = 2


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.verdicts", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the trials")
    parser.add_argument("--only", metavar="NAME", help="cells whose name contains this; no others")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write every rate of every tool")
    parser.add_argument(
        "--texts", type=Path, default=TEXTS, metavar="FOLDER", help="captured text of A/A runs"
    )
    return parser.parse_args(arguments)


def score_cells(pool: ProcessPoolExecutor, cells: Sequence[Cell]) -> dict[str, list[Score]]:
    """Return the scores of all tools by name of the cell.

    If stderr is a terminal, it gets a line of progress.
    """
    scores: dict[str, list[Score]] = {}
    for cell, found in zip(cells, pool.map(score_cell, cells), strict=True):
        scores[cell.name] = found
        if sys.stderr.isatty():
            print(f"\r{len(scores)}/{len(cells)} {cell.name:<50}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r" + " " * 70 + "\r", end="", file=sys.stderr)
    return scores


def recordings(texts: Path) -> list[Recording]:
    """Return the A/A recordings: aa.csv, and the texts if their folder exists.

    :param texts: folder of captured text
    :raises InputError: a recording has too few runs
    """
    found = [read_csv(OWN_RECORDING)]
    return [*found, read_texts(texts)] if texts.is_dir() else found


def _score_real(recording: Recording) -> list[RealScore]:
    return list(score_recording(recording))


def print_lines(title: str, lines: Sequence[str]) -> None:
    """Print a table below its title."""
    print(f"\n{title}\n", *lines, sep="\n")


def main(arguments: Sequence[str]) -> int:
    """Print all tables; return the exit status.

    It is 1 if a limit is not met, 2 if no cell has the given name or a recording cannot be used,
    else 0.
    """
    chosen = parse_arguments(arguments)
    cells = quick(all_cells()) if chosen.quick else all_cells()
    if chosen.only:
        cells = [cell for cell in cells if chosen.only in cell.name]
        if not cells:
            print(f"--only: no cell's name contains {chosen.only!r}", file=sys.stderr)
            return 2
    try:
        real = [] if chosen.only else recordings(chosen.texts)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    timings = list(time_thousand_rows())
    with ProcessPoolExecutor(min(MOST_PROCESSES, os.cpu_count() or 1)) as pool:
        scores = score_cells(pool, cells)
        found = list(pool.map(_score_real, real))
    checks = [*check_cells(cells, scores), *check_speed(timings)]
    print_lines("Simulated recordings", list(cell_lines(cells, scores)))
    print_lines("Tools", list(tool_lines(scores)))
    if found:
        print_lines("Real recordings", list(real_lines(chain.from_iterable(found))))
    print_lines(f"Time for {ROWS} rows", list(lines(timings)))
    print_lines("Limits", list(gate_lines(checks)))
    if chosen.csv:
        write_csv(chosen.csv, cells, scores)
    return 0 if all(check.is_kept for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
