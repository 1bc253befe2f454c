# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure how fast the pages of a lab are published: ``python -m bench.site``.

A lab of 20 machines with 60 series each has made 10,000 comparisons: 50 nights of 10 benchmarks per
machine. One more night is published, several times. The exit status is 1 if the limit is not kept,
or if a site that is written anew differs from one that grew.
"""

import argparse
import filecmp
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from statistics import median

from schedperf.history.nightly import watch_store
from schedperf.history.store.directory import Directory
from schedperf.publish.dashboard.build import publish_lab
from tests.labs import Shape, add_nights, make_lab, night_of

MACHINES, RESULTS, NIGHTS, JOBS = 20, 60, 50, 10
ROUNDS = 5
NIGHT_S = 1.0


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=MACHINES)
    parser.add_argument("--nights", type=int, default=NIGHTS)
    chosen = parser.parse_args()
    shape = Shape(machines=chosen.machines, results=RESULTS, nights=chosen.nights, step=40)
    comparisons = chosen.machines * JOBS * chosen.nights
    print(f"{chosen.machines} machines x {RESULTS} series, {comparisons} comparisons")
    with tempfile.TemporaryDirectory() as folder:
        return _measure(Path(folder), shape)


def _measure(folder: Path, shape: Shape) -> int:
    directory = make_lab(folder / "history", shape)
    wall, cpu = _publish(directory, folder / "grown", shape.nights)
    print(f"whole site: {wall:.2f} s, {cpu:.2f} s of CPU")
    times = []
    for night in range(shape.nights, shape.nights + ROUNDS):
        add_nights(directory, shape, [night])
        watch_store(directory, print)
        times.append(_publish(directory, folder / "grown", night))
    walls, cpus = zip(*times, strict=True)
    print(
        f"one more night: {median(walls):.2f} s, {median(cpus):.2f} s of CPU (median of {ROUNDS}; "
        f"at least {min(walls):.2f} s)"
    )
    _publish(directory, folder / "anew", shape.nights + ROUNDS - 1)
    is_equal = _are_equal(folder / "grown", folder / "anew")
    print(f"written anew: {'equal' if is_equal else 'different'}")
    return int(median(walls) > NIGHT_S or not is_equal)


def _publish(directory: Directory, site: Path, night: int) -> tuple[float, float]:
    """Publish; return wall time and CPU time in seconds."""
    began = time.monotonic(), time.process_time()
    publish_lab(directory.folder, site, today=date.fromisoformat(night_of(night)), is_private=True)
    return time.monotonic() - began[0], time.process_time() - began[1]


def _are_equal(one: Path, other: Path) -> bool:
    names = [
        sorted(str(path.relative_to(site)) for path in site.rglob("*") if path.is_file())
        for site in (one, other)
    ]
    return names[0] == names[1] and filecmp.cmpfiles(one, other, names[0], shallow=False)[1:] == (
        [],
        [],
    )


if __name__ == "__main__":
    sys.exit(main())
