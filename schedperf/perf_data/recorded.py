# SPDX-License-Identifier: GPL-2.0-or-later
"""perf.data in a bundle: which runs have one, why none has, and how one is read."""

import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from schedperf.bundle.open import Boot, Bundle, Run
from schedperf.perf_data import LARGEST_PERF_DATA_BYTES, Keep, read_perf_data
from schedperf.perf_data.recording import Recording


def recorded_runs(bundle: Bundle, *collectors: str) -> Iterator[tuple[Boot, Run, str]]:
    """Yield the instrumented runs that count and have a perf.data, boot by boot, and its member.

    :param collectors: that write one; of several in one run the first
    """
    for boot in bundle.boots:
        for run in boot.runs:
            if run.kind != "instrumented" or run.warmup or not run.succeeded:
                continue
            members = (f"{run.folder}/{collector}/perf.data" for collector in collectors)
            found = next((name for name in members if bundle.size(name) is not None), None)
            if found is not None:
                yield boot, run, found


def why_not_recorded(bundle: Bundle, *collectors: str) -> str:
    """Say why a bundle has no perf.data of these collectors."""
    for entry in bundle.captures:
        if entry.collector in collectors and entry.reason:
            return f"{entry.collector} was {entry.status}: {entry.reason}"
    return f"no instrumented run was recorded with {' or '.join(collectors)}"


def read_recorded(bundle: Bundle, member: str, label: str, keep: Collection[Keep]) -> Recording:
    """Read a perf.data of a bundle.

    :param label: what errors call it
    :param keep: what is kept apart
    :raises InputError: it cannot be read
    """
    # It may be gigabytes, so it is read from a file and not from memory.
    with tempfile.TemporaryDirectory(prefix="schedperf-") as folder:
        path = bundle.extract(member, Path(folder), LARGEST_PERF_DATA_BYTES)
        return read_perf_data(path, label, keep=frozenset(keep))
