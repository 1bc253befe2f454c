# SPDX-License-Identifier: GPL-2.0-or-later
"""Say how many boots, runs or pairs a result is based on."""

from collections.abc import Sequence

from schedperf.model.comparison import Row
from schedperf.model.verdict import name_units


def count_replicates(rows: Sequence[Row], *, interleaved: bool | None) -> str:
    """Return n of the rows and its unit: ``8 boots per kernel, interleaved``."""
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
