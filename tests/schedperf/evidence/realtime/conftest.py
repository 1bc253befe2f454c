# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of cyclictest with histograms, as cyclictest prints them."""

from collections.abc import Mapping, Sequence
from typing import Any


def histogram_text(counts: Mapping[int, int], *, maximum_us: int, above: int = 0) -> str:
    """Return what ``cyclictest -q -h`` prints of one thread."""
    rows = "".join(f"{value:06d} {count:06d}\n" for value, count in sorted(counts.items()))
    return (
        f"# Histogram\n{rows}# Total: {sum(counts.values()):09d}\n# Min Latencies: 00002\n"
        f"# Avg Latencies: 00004\n# Max Latencies: {maximum_us:05d}\n"
        f"# Histogram Overflows: {above:05d}\n"
    )


def summary_text(cycles: int, maximum_us: int) -> str:
    """Return what ``cyclictest -q`` prints of one thread."""
    values = "Min:      2 Act:    5 Avg:    5"
    return f"T: 0 (  9) P:80 I:1000 C:{cycles:7d} {values} Max:{maximum_us:8d}\n"


def tail_runs(
    late: Sequence[int], *, samples: int = 10_000, boots: int = 1, longest_us: int = 150
) -> list[dict[str, Any]]:
    """Return runs in which so many samples take 120 us, and one is the longest; others take 4 us.

    The maxima of the runs differ by 1 us.
    """
    return [
        {
            "workload": "cyclictest -q -l 10000 -h 400",
            "stdout": histogram_text(
                {4: samples - count - 1, 120: count, longest_us + step: 1},
                maximum_us=longest_us + step,
            ),
            "boot": step * boots // len(late),
        }
        for step, count in enumerate(late)
    ]
