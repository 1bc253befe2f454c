# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe how many boots, runs or pairs a result is based on."""

from collections.abc import Sequence

from msgspec import Struct

from schedperf.model.rows import Row, RunValue
from schedperf.model.verdict import name_units

_SIDES = 2


class Replicates(Struct, frozen=True, kw_only=True):
    """How often each kernel was booted, and the workload run.

    :param boots: boots of each kernel; None if they are not the unit, or unknown
    :param runs: runs of a point in each boot; None if they differ or are unknown
    """

    boots: int | None
    runs: int | None


def replicates_of(row: Row) -> Replicates:
    """Return the boots of each kernel and the runs of each boot of a result."""
    sides = [_boots_of(values) for values in (row.values_base, row.values_new)]
    counts = {len(side) for side in sides}
    per_boot = {runs for side in sides for runs in side.values()}
    is_whole = row.replication != "boots" or counts == {row.n_base} == {row.n_new}
    runs = per_boot.pop() if len(per_boot) == 1 and is_whole else None
    if row.replication == "boots" and row.n_base is not None and row.n_base == row.n_new:
        return Replicates(boots=row.n_base, runs=runs)
    boots = counts.pop() if len(counts) == 1 else 0
    is_paired = row.replication == "rounds" and boots == row.n_base
    return Replicates(boots=boots if boots >= _SIDES and is_paired else None, runs=runs)


def count_replicates(row: Row) -> str:
    """Format the sample size of a result: ``4 boots per kernel x 2 runs``, ``8 runs per kernel``.

    Without any number it is ``number of runs not recorded``.
    """
    known = replicates_of(row)
    if known.boots is not None:
        times = f" x {known.runs} runs" if (known.runs or 0) > 1 else ""
        return f"{known.boots} boot{'s' * (known.boots != 1)} per kernel{times}"
    counts = [n for n in (row.n_base, row.n_new) if n is not None]
    if not counts:
        return f"number of {name_units(0, row.replication)} not recorded"
    least, most = min(counts), max(counts)
    number = f"{least}" if least == most else f"{least} to {most}"
    if row.replication == "rounds":
        return f"{number} interleaved {name_units(most, row.replication)} of runs"
    return f"{number} {name_units(most, row.replication)} per kernel"


def describe_order(*, interleaved: bool | None) -> str:
    """State in which order the kernels were measured.

    :param interleaved: whether their boots or runs were interleaved; None if that is not recorded
    """
    return {True: "interleaved", False: "not interleaved", None: "order not recorded"}[interleaved]


def _boots_of(values: Sequence[RunValue]) -> dict[int, int]:
    """Return the number of runs by boot; values without a boot are left out."""
    boots: dict[int, int] = {}
    for value in values:
        if value.boot is not None:
            boots[value.boot] = boots.get(value.boot, 0) + 1
    return boots
