# SPDX-License-Identifier: GPL-2.0-or-later
"""Count the layout alarms between successive kernels of Debian; see README.md in this directory."""

import argparse
import csv
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from bench.layout_alarms.debian import (
    FLAVOURS,
    Image,
    find_packages,
    pairs,
    prepare,
    sched_lines,
)
from schedperf.evidence.layout.compare import analyse_kernels
from schedperf.evidence.layout.record import LayoutAlarm
from schedperf.evidence.layout.sources import load_kernel

FOLDER = Path(__file__).parent
CACHE = Path(tempfile.gettempdir()) / "schedperf-debian-kernels"
# Alarms that all pairs without a change of the scheduler may have together.
MOST_FALSE_ALARMS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One pair of kernels.

    :param base: version of the older kernel
    :param new: version of the newer kernel
    :param sched_lines: number of changes of ``sched/`` in new's changelog since base
    :param changed_layouts: number of sections and structs that differ
    :param alarms: number of alarms
    :param notes: number of pairs of variables that no longer share a line, without an alarm because
        they are only read at run time
    :param explanation: claim and cause of each alarm, and the pairs of the notes
    """

    base: str
    new: str
    sched_lines: int
    changed_layouts: int
    alarms: int
    notes: int
    explanation: str


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.layout_alarms", description=__doc__)
    parser.add_argument(
        "--cache", type=Path, default=CACHE, metavar="DIR", help="where kernels are kept, 2 GB"
    )
    parser.add_argument(
        "--results", type=Path, default=FOLDER / "results.csv", metavar="FILE", help="table"
    )
    parser.add_argument(
        "--flavours", nargs="+", choices=FLAVOURS, default=FLAVOURS, help="kernels to compare"
    )
    return parser.parse_args(arguments)


def measure(base: Image, new: Image) -> Row:
    """Compare the layouts of two kernels; return their row of the table."""
    kernels = [load_kernel(image.folder, label=image.name) for image in (base, new)]
    (compared,) = analyse_kernels(kernels).comparisons
    only_read = [pair for unit in compared.units for pair in unit.only_read]
    notes = [f"note: {' and '.join(pair)} parted, only read" for pair in only_read]
    return Row(
        base=base.name,
        new=new.name,
        sched_lines=sched_lines(base, new),
        changed_layouts=compared.counts.units - compared.counts.unchanged_units,
        alarms=compared.counts.alarms,
        notes=len(notes),
        explanation="; ".join(chain(map(explain, compared.alarms), notes)),
    )


def explain(alarm: LayoutAlarm) -> str:
    """Format an alarm with its grade, claim and cause."""
    cause = "no single edit" if alarm.cause is None else alarm.cause.text
    return f"{alarm.grade}: {alarm.claim} (cause: {cause})"


def main() -> int:
    """Write and print the table; return 1 if there are too many false alarms.

    All alarms of pairs without a change of ``sched/`` count as false.
    """
    arguments = parse_arguments(sys.argv[1:])
    rows = []
    for flavour in arguments.flavours:
        images = [prepare(package, arguments.cache) for package in find_packages(flavour)]
        rows += [measure(base, new) for base, new in pairs(images)]
    with arguments.results.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, Row.__slots__, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, rows))
    for row in rows:
        print(f"{row.base:>30} {row.new:<30} {row.sched_lines:3} sched/ lines  "
              f"{row.alarms:2} alarms  {row.notes:2} notes  {row.explanation}")  # fmt: skip
    quiet = [row for row in rows if not row.sched_lines]
    alarms = sum(row.alarms for row in quiet)
    print(f"{len(rows)} pairs; {len(quiet)} without a change of sched/, with {alarms} alarms")
    return int(alarms > MOST_FALSE_ALARMS)


if __name__ == "__main__":
    sys.exit(main())
