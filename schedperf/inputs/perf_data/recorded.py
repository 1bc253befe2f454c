# SPDX-License-Identifier: GPL-2.0-or-later
"""Find and read the perf.data files of a bundle."""

import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from schedperf.inputs.bundle.open import Boot, Bundle, Run
from schedperf.inputs.perf_data import LARGEST_PERF_DATA_BYTES, Keep, read_perf_data
from schedperf.inputs.perf_data.recording import Recording
from schedperf_collectors.contract import temporary_prefix


def recorded_runs(bundle: Bundle, *collectors: str) -> Iterator[tuple[Boot, Run, str]]:
    """Yield boot, run and member of each perf.data of a successful instrumented run.

    Warm-up runs are left out.

    :param collectors: collectors that write a perf.data; for each run, the first one with a file is
        used
    """
    for boot in bundle.boots:
        for run in boot.runs:
            if run.kind != "instrumented" or run.warmup or not run.succeeded:
                continue
            members = (f"{run.folder}/{collector}/perf.data" for collector in collectors)
            member = next((name for name in members if bundle.size(name) is not None), None)
            if member is not None:
                yield boot, run, member


def why_not_recorded(bundle: Bundle, *collectors: str) -> str:
    """Return the reason why a bundle has no perf.data of these collectors."""
    for entry in bundle.captures:
        if entry.collector in collectors and entry.reason:
            return f"{entry.collector} was {entry.status}: {entry.reason}"
    return f"no instrumented run was recorded with {' or '.join(collectors)}"


def read_recorded(bundle: Bundle, member: str, label: str, keep: Collection[Keep]) -> Recording:
    """Read a perf.data of a bundle.

    :param member: name of the member
    :param label: name of the file in errors
    :param keep: what to read, as in :func:`~schedperf.inputs.perf_data.read_perf_data`
    :raises InputError: the member is missing, damaged or too large, or is not a perf.data
    """
    # It may have gigabytes, so read it from an extracted file, not from memory.
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
        path = bundle.extract(member, Path(folder), LARGEST_PERF_DATA_BYTES)
        return read_perf_data(path, label, keep=frozenset(keep))
