# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe how many boots, runs or pairs a result is based on."""

from collections.abc import Sequence

from schedperf.model.rows import Row
from schedperf.model.verdict import name_units


def count_replicates(rows: Sequence[Row], *, interleaved: bool | None) -> str:
    """Format the sample size of the rows with its unit: ``8 boots per kernel, interleaved``.

    :param rows: at least one row; all have the unit of replication of the first one
    :param interleaved: whether the runs of the sides were interleaved; None if not recorded
    """
    counts = [n for row in rows for n in (row.n_base, row.n_new) if n is not None]
    replication = rows[0].replication
    if not counts:
        return f"number of {name_units(0, replication)} not recorded"
    least, most = min(counts), max(counts)
    number = f"{least}" if least == most else f"{least} to {most}"
    noun = name_units(most, replication)
    if replication == "rounds":
        return f"{number} interleaved {noun} of runs"
    orders = {True: "interleaved", False: "not interleaved", None: "order not recorded"}
    return f"{number} {noun} per kernel, {orders[interleaved]}"
