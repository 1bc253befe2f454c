# SPDX-License-Identifier: GPL-2.0-or-later
"""Classify sharing as true (CPUs access the same bytes) or false (different bytes of one line).

A contended load is slow because another CPU wrote to the line last. Samples do not record which
CPU, so each contended load is attributed to the writes of all other CPUs in proportion: to writes
of the same bytes (true sharing) and to writes of other bytes of the line (false sharing, which
another layout removes).

Samples do not record the size of an access. Accesses to one named field are to the same bytes;
without names, accesses that begin at one offset are, so a wide access next to a narrow one may be
classified as false sharing.
"""

import numpy as np
import pandas as pd

from schedperf.evidence.c2c.record import Sharing
from schedperf.perf_data.recording import NO_CPU

# Up to this fraction of the contended loads the other kind of sharing is ignored, since stores are
# only sampled.
PURE = 0.1


def df_false_share(samples: pd.DataFrame) -> "pd.Series[float]":
    """Return the fraction of each line's contended loads with false sharing.

    :param samples: one row a sample: ``line`` and ``copy`` (int; copies of one per-CPU line are
        different bytes), ``bytes`` (int; equal for accesses to the same bytes of the line),
        ``cpu`` (int), ``writes`` (bool), ``slow`` (int, how often it counts as contended)
    :return: index ``line``, 0 to 1; NaN if no write by another CPU was sampled. Samples without a
        CPU are omitted
    """
    with_cpu = samples[samples["cpu"] != NO_CPU]
    keys = ["line", "copy", "bytes", "cpu"]
    rows = with_cpu.groupby(keys, as_index=False)[["writes", "slow"]].sum()
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
    """Return the kind of sharing; None if no write by another CPU was sampled."""
    if false_share is None:
        return None
    if false_share <= PURE:
        return "true"
    return "false" if false_share >= 1 - PURE else "mixed"
