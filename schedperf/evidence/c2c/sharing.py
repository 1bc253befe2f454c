# SPDX-License-Identifier: GPL-2.0-or-later
"""True or false sharing: whether CPUs fight for the same bytes or only for the same line.

A load that finds a modified line was made slow by the last CPU that wrote to the line. Which one
that was no sample says, so each slow load is charged to the writes of other CPUs in proportion:
to those of the same bytes (true sharing, which no other layout can mend) and to those of other
bytes of the line (false sharing, which a layout can).

How many bytes an access has is not in a sample. Accesses of one named field are to the same
bytes; without names those that begin at one offset are, so that a wide access next to a narrow
one may pass for false sharing.
"""

import numpy as np
import pandas as pd

from schedperf.evidence.c2c.record import Sharing
from schedperf.perf_data.recording import NO_CPU

# Up to this part of the slow loads the other kind of sharing is not worth a word: stores are
# sampled, so a few of them are where nothing is shared in earnest.
PURE = 0.1


def df_false_share(samples: pd.DataFrame) -> "pd.Series[float]":
    """Return the part of each line's slow loads that is of false sharing.

    :param samples: one row a sample: ``line`` and ``copy`` (int; copies of one per-CPU line are
        different bytes), ``bytes`` (int; equal for accesses to the same bytes of the line),
        ``cpu`` (int), ``writes`` (bool), ``slow`` (int, how often it counts as contended)
    :return: index ``line``, 0 to 1; NaN where no other CPU was seen to write. A sample without a
        CPU proves nothing and is left out
    """
    known = samples[samples["cpu"] != NO_CPU]
    keys = ["line", "copy", "bytes", "cpu"]
    rows = known.groupby(keys, as_index=False)[["writes", "slow"]].sum()
    by_line = rows.groupby(["line", "copy"])["writes"].transform("sum")
    by_cpu = rows.groupby(["line", "copy", "cpu"])["writes"].transform("sum")
    by_bytes = rows.groupby(["line", "copy", "bytes"])["writes"].transform("sum")
    others = by_line - by_cpu
    elsewhere = others - (by_bytes - rows["writes"])
    explained = rows["slow"].where(others > 0, 0)
    rows = rows.assign(
        explained=explained, false=explained * elsewhere / others.where(others > 0, 1)
    )
    sums = rows.groupby("line")[["explained", "false"]].sum()
    share = sums["false"] / sums["explained"].where(sums["explained"] > 0)
    return share.reindex(pd.Index(np.unique(samples["line"]), name="line"))


def sharing_of(false_share: float | None) -> Sharing | None:
    """Return what a line's false share means; None where nobody else was seen to write."""
    if false_share is None:
        return None
    if false_share <= PURE:
        return "true"
    return "false" if false_share >= 1 - PURE else "mixed"
