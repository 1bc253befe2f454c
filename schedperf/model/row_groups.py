# SPDX-License-Identifier: GPL-2.0-or-later
"""Define records over several results: sweeps, sides beside each other, interactions, means."""

from collections.abc import Mapping

from msgspec import Struct

from schedperf.model.base_new import BaseNew
from schedperf.model.caveats import Caveat
from schedperf.model.rows import Better, Family, Replication, Verdict


class Sweep(Struct, frozen=True, kw_only=True):
    """All points of one metric of one workload together.

    :param geomean_ratio: geometric mean of the rows' ratios, with its 95% CI; None if a row has no
        ratio or no standard error
    :param p: p of the null hypothesis that no point changed; None with fewer than two tested points
    :param shape: how the change depends on the parameter: "grows with groups", "shrinks with
        groups", "changes sign with groups", "similar at all groups"; None if no point changed, or
        if unknown
    :param first_point: the first point whose verdict is a change; None without one
    :param method: the test of ``p`` by name; "none" without a ``p``
    """

    side: str
    workload: str
    metric: str
    points: tuple[str, ...]
    geomean_ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    shape: str | None
    first_point: str | None
    method: str


class Step(Struct, frozen=True, kw_only=True):
    """The change of one side from the side before it.

    :param ratio: this side / the side before it, with its 95% CI; None if undefined
    :param p: p of the test that rows use; None if nothing was tested
    :param p_corrected: p corrected by Holm's method for the steps of all results of the family;
        None without ``p``
    :param significant: ``p_corrected`` is below 5%, and a comparison of the two sides alone finds
        a change
    """

    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None = None
    p_corrected: float | None = None
    significant: bool = False


class SideCell(Struct, frozen=True, kw_only=True):
    """The result of one side, beside those of the others.

    :param n: number of independent values; 0 without a row; None if not recorded
    :param value: mean of the runs (of maxima, the median), in the unit of the result; None if it
        has no value
    :param ratio: this side / base with its 95% CI; None for base, and if undefined
    :param verdict: verdict of this side's row; "invalid" without a row; None for base
    :param step: change from the side before it; None for base, and if one of the two is invalid
    """

    side: str
    n: int | None
    value: float | None
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    verdict: Verdict | None
    step: Step | None


class SideBySide(Struct, frozen=True, kw_only=True):
    """One metric of one point on all sides of a comparison of three or more.

    :param cells: one per side, base first
    :param best: side with the best mean among those that improved; base if others regressed and
        none improved. If all new sides are published means without n and CI, the means of all sides
        decide. None if no side improved or regressed, if the better direction is unknown, or if
        base or all others have no valid value
    :param worst: side with the worst mean among those that regressed; base if others improved and
        none regressed; otherwise as ``best``
    """

    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    family: Family
    cells: tuple[SideCell, ...]
    best: str | None
    worst: str | None


class SettingEffect(Struct, frozen=True, kw_only=True):
    """The effect of a setting on one kernel.

    :param ratio: with the new setting / with the base setting, with its 95% CI; None if unknown
    :param verdict: verdict of this effect alone
    """

    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    verdict: Verdict


class Interaction(Struct, frozen=True, kw_only=True):
    """Whether a setting has another effect on a new kernel than on base, for one result.

    :param kernel: name of the new kernel
    :param n: number of boots (or rounds) of each kernel
    :param effects: effects of the setting on each kernel
    :param ratio: effect on the new kernel / effect on base, with its 95% CI; None if unknown
    :param q: p, corrected for all results of the family on all kernels; None without ``p``
    :param verdict: "regression": the setting is worse on the new kernel than on base
    """

    kernel: str
    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    family: Family
    n: BaseNew[int | None]
    effects: BaseNew[SettingEffect]
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    q: float | None
    verdict: Verdict
    reason: str
    method: str
    caveats: tuple[Caveat, ...]


class TwoByTwo(Struct, frozen=True, kw_only=True):
    """How the effect of a setting differs between kernels, each recorded with both settings.

    :param kernels: base first; all others are compared with it
    :param replication: what ``n`` counts: each unit has runs of both settings
    """

    kernels: tuple[str, ...]
    settings: BaseNew[str]
    replication: Replication
    results: tuple[Interaction, ...]


class Mover(Struct, frozen=True, kw_only=True):
    """A significant step: the side, e.g. the patch, at which a result changes.

    :param before: the side before it
    :param ratio: this side / the side before it, with its 95% CI
    :param p_corrected: as in :class:`Step`
    """

    side: str
    before: str
    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    family: Family
    ratio: float
    ci_low: float | None
    ci_high: float | None
    p_corrected: float | None


class Geomean(Struct, frozen=True, kw_only=True):
    """Geometric mean of the ratios of results with the same better direction.

    :param count: number of results in it: those that are not invalid and have a ratio with a CI
    :param ci_low: lower bound of its 95% CI, which is conservative
    """

    better: Better
    count: int
    ratio: float
    ci_low: float
    ci_high: float


class FamilySummary(Struct, frozen=True, kw_only=True):
    """How many rows of a family have each verdict.

    :param rows: number of rows of the side
    :param tested: number of rows with a p, except those that repeat another row's measurement
    :param corrected_for: the same number over all new sides; p is corrected for so many tests
    :param expected_false: largest expected number of false positives among the changed rows
    :param geomeans: one per better direction with results of two or more commands or points
    """

    family: Family
    side: str
    rows: int
    tested: int
    corrected_for: int
    expected_false: float
    verdicts: Mapping[Verdict, int]
    geomeans: tuple[Geomean, ...] = ()
