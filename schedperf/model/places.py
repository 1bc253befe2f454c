# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of ``ab --probe session``: whether a result depends on where it was run."""

from typing import Literal

from msgspec import Struct

from schedperf.model.rows import Better, Family, Replication, Verdict

Answer = Literal["yes", "no", "undecided", "invalid"]


class PlaceValue(Struct, frozen=True, kw_only=True):
    """One result in one place.

    :param place: name of the side: "root-noautogroup"
    :param levels: depth of the workload's cgroup, 0 for the root cgroup; None if not recorded
    :param autogroup: whether autogroup was on; None if not recorded
    :param n: number of independent values
    :param value: mean of the runs, in the unit of the result; None if it has no value
    :param ratio: this place / the first place, with its 95% CI; None for the first, or if undefined
    :param q: p, corrected for the results of all places; None without a test
    :param verdict: None for the first place
    """

    place: str
    levels: int | None
    autogroup: bool | None
    n: int | None
    value: float | None
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    q: float | None
    verdict: Verdict | None


class PlaceResult(Struct, frozen=True, kw_only=True):
    """One result in all places.

    :param values: one per place, that of the user's shell first
    """

    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    family: Family
    replication: Replication
    values: tuple[PlaceValue, ...]


class Places(Struct, frozen=True, kw_only=True):
    """The answer: do the results depend on the place?

    :param answer: "invalid" without a primary result
    :param sentence: the answer with its numbers
    :param results: the primary results; without any, those of the next family
    """

    answer: Answer
    sentence: str
    results: tuple[PlaceResult, ...]
