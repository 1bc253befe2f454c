# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the values of a bundle's runs as a small CSV table, such as aa.csv.

Usage: ``python -m bench.verdicts.extract_aa BUNDLE CSV``
"""

import csv
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.inputs.side import name_sides
from schedperf.runs.values import read_run_values

COLUMNS = ["order", "point", "metric", "unit", "better", "resolution", "value"]


def provenance(bundle: Bundle) -> Iterator[str]:
    """Yield lines of text: when, where and under which load the bundle was recorded."""
    host = bundle.boots[0].host_fields

    def known(group: str, *names: str) -> str:
        part = host.get(group)
        found = [part.get(name) for name in names] if isinstance(part, dict) else []
        return ", ".join(str(item) for item in found if item is not None) or "unknown"

    yield f"recorded {bundle.created} by schedperf {bundle.tool_version}, one boot, one side"
    yield f"kernel {known('kernel', 'release', 'machine')}"
    yield f"machine {known('cpu', 'model')}, CPUs {known('cpu', 'count_online')}"
    yield f"system {known('system', 'distro')}, virtualisation {known('virtualisation', 'kind')}"
    yield f"tools {known('tools', 'perf', 'hackbench', 'stress-ng')}"
    yield f"load average at the start {known('state', 'loadavg')}"
    yield f"command {' '.join(bundle.workload[0].split())}"


def write_table(bundle: Bundle, path: Path) -> int:
    """Write the values of the primary metrics of successful runs, and return their number.

    Lines with the provenance, which start with ``#``, come first. The values are in the order in
    which they were recorded.
    """
    table = read_run_values(name_sides([bundle])).table
    counts = (table["family"] == "primary") & (table["status"] == "ok")
    table = table.take(counts)
    table = table.take(np.argsort(table["order"], kind="stable"))
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"# {line}\n" for line in provenance(bundle))
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in table.rows(COLUMNS):
            *texts, resolution, value = row
            step = math.nan if resolution is None else resolution
            writer.writerow([*texts, f"{step:.6g}", f"{value:.12g}"])
    return len(table)


def main() -> None:
    """Read the bundle of the first argument; write the table to the path of the second."""
    source, destination = (Path(argument) for argument in sys.argv[1:3])
    count = write_table(open_bundle(source), destination)
    print(f"{destination}: {count} numbers")


if __name__ == "__main__":
    main()
