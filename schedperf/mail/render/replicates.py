# SPDX-License-Identifier: GPL-2.0-or-later
"""Say how many boots, runs or pairs a result is based on."""

from collections.abc import Sequence

from schedperf.model.comparison import Comparison, Row


def count_replicates(rows: Sequence[Row], *, interleaved: bool) -> str:
    """Return n of the rows and its unit: ``8 boots per kernel, interleaved``."""
    counts = [n for row in rows for n in (row.n_base, row.n_new) if n is not None]
    unit = {"boots": "boot", "runs": "run", "rounds": "interleaved pair of runs"}[
        rows[0].replication
    ]
    if not counts:
        return f"number of {unit}s not recorded"
    least, most = min(counts), max(counts)
    number = f"{least}" if least == most else f"{least} to {most}"
    plural = unit.replace("pair", "pairs") if unit.startswith("inter") else f"{unit}s"
    noun = unit if most == 1 else plural
    if rows[0].replication == "rounds":
        return f"{number} {noun}"
    return f"{number} {noun} per kernel, {'' if interleaved else 'not '}interleaved"


def is_interleaved(comparison: Comparison) -> bool:
    """Return whether the runs of the sides were interleaved."""
    caveats = [*comparison.caveats, *(each for row in comparison.rows for each in row.caveats)]
    return all(caveat.code != "blocks" for caveat in caveats)
