# SPDX-License-Identifier: GPL-2.0-or-later
"""Say how many boots, runs or pairs a result is based on."""

from collections.abc import Mapping, Sequence

from schedperf.model.comparison import Comparison, Replication, Row

_UNITS: Mapping[Replication, tuple[str, str]] = {
    "boots": ("boot", "boots"),
    "runs": ("run", "runs"),
    "rounds": ("interleaved pair of runs", "interleaved pairs of runs"),
}


def count_replicates(rows: Sequence[Row], *, interleaved: bool | None) -> str:
    """Return n of the rows and its unit: ``8 boots per kernel, interleaved``."""
    counts = [n for row in rows for n in (row.n_base, row.n_new) if n is not None]
    one, several = _UNITS[rows[0].replication]
    if not counts:
        return f"number of {several} not recorded"
    least, most = min(counts), max(counts)
    number = f"{least}" if least == most else f"{least} to {most}"
    noun = one if most == 1 else several
    if rows[0].replication == "rounds":
        return f"{number} {noun}"
    order = {True: ", interleaved", False: ", not interleaved", None: ""}[interleaved]
    return f"{number} {noun} per kernel{order}"


def is_interleaved(comparison: Comparison, rows: Sequence[Row]) -> bool | None:
    """Return whether the runs of the sides were interleaved; None if their order is unknown."""
    caveats = [*comparison.caveats, *(each for row in rows for each in row.caveats)]
    if any(caveat.code == "blocks" for caveat in caveats):
        return False
    values = [value for row in rows for value in (*row.values_base, *row.values_new)]
    is_known = bool(values) and all(value.order is not None for value in values)
    return True if is_known else None
