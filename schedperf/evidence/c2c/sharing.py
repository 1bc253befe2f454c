# SPDX-License-Identifier: GPL-2.0-or-later
"""Classify sharing as true (CPUs access the same bytes) or false (different bytes of one line).

A contended load is slow because another CPU wrote to the line last. Samples do not record which
CPU, so each contended load is attributed to the writes of all other CPUs in proportion: to writes
of the same bytes (true sharing) and to writes of other bytes of the line (false sharing, which
another layout removes).

Samples do not record the size of an access. Accesses to the same named field count as accesses to
the same bytes; without names, accesses with the same start offset do, so a wide access that
overlaps a narrow one may be classified as false sharing.
"""

import numpy as np
import pandas as pd

from schedperf.evidence.c2c.record import Sharing
from schedperf.inputs.perf_data.recording import NO_CPU

# Smallest fraction of contended loads for a second kind of sharing; less is noise, since stores are
# only sampled.
PURE = 0.1


def df_false_share(samples: pd.DataFrame) -> "pd.Series[float]":
    """Estimate which fraction of the contended loads of each line is false sharing.

    Only loads with a sampled write by another CPU count; each is divided in proportion to the
    writes of other CPUs to the same bytes, and to other bytes.

    :param samples: one row per sample: ``line`` and ``copy`` (int; copies of one per-CPU line are
        different bytes), ``bytes`` (int; equal for accesses to the same bytes of the line), ``cpu``
        (int), ``writes`` (bool), ``slow`` (int, its number of contended loads)
    :return: fraction from 0 to 1, with the index ``line``; NaN if no such load was sampled. Samples
        without a CPU do not count
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
    """Return the kind of sharing: "true", "false" or "mixed".

    :param false_share: fraction of false sharing, 0 to 1; None if unknown. Up to :data:`PURE` is
        "true", from 1 - ``PURE`` on "false"
    :return: None if the fraction is unknown, because no write by another CPU was sampled
    """
    if false_share is None:
        return None
    if false_share <= PURE:
        return "true"
    return "false" if false_share >= 1 - PURE else "mixed"
