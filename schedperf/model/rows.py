# SPDX-License-Identifier: GPL-2.0-or-later
"""Define records of one result: its numbers on both sides, and its verdict."""

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct, field

from schedperf.model.caveats import Caveat

# This many digits distinguish the rows of all comparisons of a site.
KEY_DIGITS = 12

# The direction of imported metrics whose format does not state it: "unknown".
Better = Literal["higher", "lower", "unknown"]
# Kernel developers expect a larger change of a microbenchmark than of an application.
BenchmarkClass = Literal["micro", "semi", "application"]
Family = Literal["primary", "secondary", "informational"]
Verdict = Literal["regression", "improvement", "no-change", "inconclusive", "invalid"]
Replication = Literal["runs", "boots", "rounds"]


def digest_of(values: Sequence[object]) -> str:
    """Return the SHA-256 of JSON values, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


class Source(Struct, frozen=True, kw_only=True):
    """The line of output that a number was read from.

    :param member: member of the bundle: "boots/0/runs/003/stdout"; or the file of a table
    :param line: line number, counted from 1
    :param text: the printed line; a long line is cut
    """

    member: str
    line: int
    text: str


class RunValue(Struct, frozen=True, kw_only=True):
    """One run's value of one metric; fields that a table of numbers does not record are None.

    :param order: position in time over all sides; None if unknown
    :param round: number of the interleaved pair of runs; None if not interleaved
    :param source: the last of the lines that it was computed from, for a maximum the line of the
        largest number; None for an elapsed time, or if not recorded
    """

    boot: int | None
    run: int
    order: int | None
    round: int | None
    value: float
    source: Source | None = None

    @property
    def moment(self) -> tuple[int, int]:
        """Return a key that sorts runs by ``order``, or by run number if that is not recorded."""
        return (self.run, self.run) if self.order is None else (self.order, self.run)


class BootMean(Struct, frozen=True, kw_only=True):
    """The mean of the runs of one boot of one side, geometric or arithmetic as that of the row.

    :param boot: None if not recorded
    """

    boot: int | None
    mean: float


class SideStatistics(Struct, frozen=True, kw_only=True):
    """Statistics of the runs of one side of a row, in the unit of the row.

    :param ci_low: lower bound of the 95% CI of the side's mean (of maxima, of the median) over the
        runs, boots or pairs that the row's ``replication`` names; None with fewer than two of them,
        for maxima with fewer than six
    :param ci_high: upper bound; None also if it is too large for a float
    :param cv: standard deviation of the runs / absolute mean of the side (of maxima, median); None
        with one run, or if the mean is 0
    :param quartiles: lower quartile, median and upper quartile of the runs
    :param whiskers: lowest and highest value within 1.5 interquartile ranges of the quartiles
    :param drift: mean of the later half of the runs / mean of the earlier half, without the middle
        run of an odd number; None with fewer than four runs, or if the earlier mean is 0
    :param boots: in the order of their first runs
    """

    ci_low: float | None
    ci_high: float | None
    cv: float | None
    quartiles: tuple[float, float, float]
    whiskers: tuple[float, float]
    drift: float | None
    boots: tuple[BootMean, ...]


class RunsAbove(Struct, frozen=True, kw_only=True):
    """How often a run of new has a larger value than a run of base.

    :param above: number of such pairs; equal values count half, but 0 in interleaved pairs
    :param pairs: number of compared pairs
    :param interleaved: whether the interleaved pairs are compared; else each run of new is compared
        with each run of base
    """

    above: float
    pairs: int
    interleaved: bool


class BootSd(Struct, frozen=True, kw_only=True):
    """The standard deviation between boots of one kernel that a row's p and CI include."""

    sd: Annotated[float, "standard deviation of the natural logarithm, e.g. 0.1 for about 10%"]
    source: Annotated[
        Literal["history", "given", "assumed"],
        "history: estimated from earlier boots of one kernel (--history); given: --boot-sd; "
        "assumed: neither",
    ]
    df: Annotated[
        int | None, "degrees of freedom of the estimate; null if it is taken as known"
    ] = None


class RowNumbers(Struct, frozen=True, kw_only=True):
    """The numbers and the verdict of one metric of one point, base against one new side.

    :param n_base: number of independent values; None if a published mean does not record it
    :param base: geometric mean of the runs (arithmetic if a value is not positive; median of
        maxima), in ``unit``; None without values. For failed runs, their number
    :param ratio: new / base; for maxima the Hodges-Lehmann shift as a ratio, with too few of them
        that of the medians. None if a value is not positive, if a side has none, and for failed
        runs
    :param ci_low: lower bound of the 95% CI of ``ratio``; None if not available
    :param p: two-sided; None without a test, e.g. for values that have no variance
    :param q: p, corrected for all rows of the family in this comparison; for failed runs ``p``
    :param mde: the smallest detectable change, as a fraction (80% power); None if unknown
    :param more_runs: how many more independent units per side would decide the row (the total if n
        is unknown); None if it is decided, if more would not help, or if the number is unknown
    :param method: the test by name: "Welch t on logs"; "none" without a test
    :param replication: unit of replication: what ``n_base`` and ``n_new`` count
    :param icc: share of the variance that is between boots; None if boots are not the units, or
        have one run each
    :param design_effect: variance inflation from runs of one boot being alike; 1 for none; None in
        the same cases as ``icc``
    :param p_rank: p of the rank test, or of the permutation test if values are tied; None with
        fewer than five values per side or six pairs, with too many for an exact test, or with
        ``boot_sd``
    :param rank_ratio: Hodges-Lehmann shift as a ratio, with its exact 95% CI; None in the same
        cases as ``p_rank``, or if a value is not positive
    :param p_t: p of the t test of the means; None for maxima. ``p`` is the larger of ``p_t`` and
        ``p_rank`` where ``method`` names both
    :param p_rank_min: the smallest p that the rank test can reach with this number of values
    :param same_as: metric of the same runs whose measurement this row repeats, e.g. as its
        reciprocal; it is tested once, and both rows have its ``q``
    :param boot_sd: standard deviation between boots that ``p`` and the CI include; None unless each
        side has one boot, and the two boots are different
    :param mode_boundary: value between the two modes of the runs, in ``unit``; None with one mode,
        and where boots are compared
    """

    side: str
    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    family: Family
    n_base: int | None
    n_new: int | None
    base: float | None
    new: float | None
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    q: float | None
    verdict: Verdict
    mde: float | None
    more_runs: int | None
    method: str
    replication: Replication
    icc: float | None
    design_effect: float | None
    p_rank: float | None
    rank_ratio: float | None
    rank_low: float | None
    rank_high: float | None
    p_t: float | None = None
    p_rank_min: float | None = None
    same_as: str | None = None
    boot_sd: BootSd | None = None
    mode_boundary: float | None = None
    caveats: tuple[Caveat, ...]

    @property
    def question(self) -> tuple[str, str, str, str, Better]:
        """Return what is measured, on any side: workload, point, metric, unit and direction."""
        return self.workload, self.point, self.metric, self.unit, self.better

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of this class by name, without those of a subclass."""
        return {name: getattr(self, name) for name in RowNumbers.__struct_fields__}


class Row(RowNumbers, frozen=True, kw_only=True):
    """One metric of one point, base against one new side.

    :param margin: half-width of the equivalence band as a fraction: 0.03
    :param reason: why the row has this verdict, one sentence with its numbers
    :param reason_plain: the reason without the row's numbers and without the runs needed; a
        significant change has no other reason, so it keeps the numbers
    :param reason_short: the first part of the reason, without advice
    :param definition: one sentence: what the metric measures, and which mean, sum or percentile it
        is; None if the benchmark's parser does not define it
    :param class_: class of the benchmark: "micro", "semi" (semi-synthetic) or "application"; None
        if its parser does not state it
    :param statistics_base: of the runs in ``values_base``; None without any
    :param runs_above: None if a side has no runs
    """

    margin: float
    reason: str
    reason_plain: str
    reason_short: str
    values_base: tuple[RunValue, ...]
    values_new: tuple[RunValue, ...]
    definition: str | None = None
    class_: BenchmarkClass | None = field(name="class", default=None)
    statistics_base: SideStatistics | None = None
    statistics_new: SideStatistics | None = None
    runs_above: RunsAbove | None = None

    derived: ClassVar[tuple[str, ...]] = ("key",)

    @property
    def key(self) -> str:
        """Return an identifier of what was measured, equal on all sides: 12 hexadecimal digits."""
        return digest_of([self.workload, self.point, self.metric])[:KEY_DIGITS]
