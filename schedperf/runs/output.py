# SPDX-License-Identifier: GPL-2.0-or-later
"""Sizes of what the runs of a bundle printed, and how much of it is not kept or not read."""

from schedperf.bundle.open import Bundle, Run

STREAMS = ("stdout", "stderr")
# A benchmark prints kilobytes; all of it is held in memory while it is read. Of longer texts, which
# earlier recorders kept whole, as much is read as recorders keep now.
LARGEST_TEXT_BYTES = 16 << 20
HEAD_BYTES = 4 << 20
TAIL_BYTES = 8 << 20
# How advice names the part of the output in which a result is always found.
KEPT_PART = f"the first {HEAD_BYTES >> 20} MiB or the last {TAIL_BYTES >> 20} MiB of the output"


def omitted_bytes(bundle: Bundle, run: Run) -> int:
    """Return how many bytes of what a run printed are not kept, or are too many to be read."""
    sizes = (bundle.size(f"{run.folder}/{stream}") or 0 for stream in STREAMS)
    unread = sum(size - HEAD_BYTES - TAIL_BYTES for size in sizes if size > LARGEST_TEXT_BYTES)
    return sum(run.output_left_out.values()) + unread


def prints_nothing(bundle: Bundle) -> bool:
    """Return whether all runs that succeeded printed nothing, and there is one."""
    folders = [run.folder for run in bundle.runs if run.succeeded]
    names = [f"{folder}/{stream}" for folder in folders for stream in STREAMS]
    return bool(names) and not any(map(bundle.size, names))
