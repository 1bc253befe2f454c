# SPDX-License-Identifier: GPL-2.0-or-later
"""What the runs of a bundle printed: how much is kept, and what is said if no number is read."""

from schedperf.bundle.open import Bundle, Run

STREAMS = ("stdout", "stderr")
# A benchmark prints kilobytes; all of it is held in memory while it is read. Of longer texts, which
# earlier recorders kept whole, as much is read as recorders keep now.
LARGEST_TEXT_BYTES = 16 << 20
HEAD_BYTES = 4 << 20
TAIL_BYTES = 8 << 20
# Where a result is always found.
_KEPT_PART = f"the first {HEAD_BYTES >> 20} MiB or the last {TAIL_BYTES >> 20} MiB of the output"


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


def say_unread(*, has_rules: bool) -> str:
    """Say that no number was read from the output of a workload."""
    readers = "no --metric rule and no parser reads" if has_rules else "no parser reads"
    return f"{readers} the output of this workload"


def correct_rule(*, is_whole: bool) -> str:
    """Say what to do about a rule that matches nothing.

    :param is_whole: whether all output was kept and read
    """
    place = "" if is_whole else f", or print the result within {_KEPT_PART}"
    return f"correct the --metric rule{place}"
