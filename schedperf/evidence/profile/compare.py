# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare two profiles of one event at one point: which functions changed, and by how much.

The share of a function in the machine's time also changes if other shares change. Its **cost per
operation** of the benchmark does not: it is the function's weight divided by the number of
operations. Both are compared with :func:`schedperf.stats.compare_columns`; the unit of replication
is a run, or a boot if a side has several.

The fraction of a change that a few functions account for is a quotient of two changes measured in
the same runs: the numerator is part of the denominator, so their errors are correlated, and the
denominator may be zero. The CI follows Fieller, "Some problems in interval estimation", J. R. Stat.
Soc. B 16 (1954). If the change of the whole may be zero, the CI is unbounded and no
result is given.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import scipy
from msgspec import Struct

from schedperf.evidence.profile.family import (
    HIDDEN,
    class_name,
    is_changed,
    is_charged,
    is_hot,
    is_silent,
)
from schedperf.evidence.profile.independent import average_runs, independent_of
from schedperf.evidence.profile.record import Independent
from schedperf.evidence.profile.shares import (
    PER_CENT,
    PlaceWeights,
    all_places,
    share_matrix,
    weight_matrix,
)
from schedperf.inputs.symbols.functions import IDLE
from schedperf.model.place import OTHER_LOAD, Place
from schedperf.model.run import Captured
from schedperf.model.verdict import CONFIDENCE, FALSE_DISCOVERY_RATE, FEWEST_RUNS
from schedperf.stats import Columns, Difference, compare_columns, welch_difference

# Largest number of functions that a sentence about the whole change names.
MOST_EXPLAINING = 3
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
Runs = Sequence[Captured[PlaceWeights]]


class Costs(Struct, frozen=True, kw_only=True):
    """Weights per operation, one row per independent run or boot; pairs of base and new.

    :param places: shape (runs, places) each
    :param busy: weights of non-idle time without other load, shape (runs,) each
    :param busy_change: change of the means of ``busy``
    :param by_place: the comparison of ``places``
    :param by_class: the comparison of function classes
    """

    places: tuple[Floats, Floats]
    busy: tuple[Floats, Floats]
    busy_change: Difference
    by_place: Columns
    by_class: Columns


class PointComparison(Struct, frozen=True, kw_only=True):
    """The comparison of one point.

    :param share: shares of all CPUs in percent, one column per place
    :param is_changed: True for places whose share changed significantly by 0.1 pp or more; shape
        (places,)
    :param is_idle: True for idle routines; shape (places,)
    :param classes: names of function classes without idle time, hottest first
    :param class_of_place: for each place an index into ``classes``; -1 is idle time
    :param class_share: shares of all CPUs in percent, one column per class
    :param is_class_changed: like ``is_changed``, shape (classes,)
    :param costs: None if the number of operations of a run is unknown
    :param busy: change of the non-idle share of all CPUs, in percentage points
    :param independent: unit of replication, i.e. of a row of the matrices
    """

    places: tuple[Place, ...]
    share: Columns
    is_changed: Flags
    is_idle: Flags
    classes: tuple[str, ...]
    class_of_place: Integers
    class_share: Columns
    is_class_changed: Flags
    costs: Costs | None
    busy: Difference
    independent: Independent


def compare_point(base: Runs, new: Runs, *, sees_kernel: bool) -> PointComparison:
    """Compare the profiles of the runs of base and new at one point.

    :mod:`schedperf.evidence.profile.family` selects the tested rows.

    :param sees_kernel: whether the event samples code that runs with interrupts off; otherwise
        the functions to which its time is attributed are not tested
    """
    table = _Table(base, new)
    shares = table.reduce([share_matrix(side, table.places) for side in table.sides])
    hot = is_hot(shares[0].mean(axis=0), shares[1].mean(axis=0))
    tested = hot & ~is_silent(table.is_idle, table.is_hidden, sees_kernel=sees_kernel)
    share = compare_columns(*shares, tested=tested, alike=hot)
    classes, codes = _classes_of(table, shares, sees_kernel=sees_kernel)
    class_share = _compare_classes(shares, codes, classes)
    busy = [PER_CENT - side[:, table.is_idle].sum(axis=1) for side in shares]
    return PointComparison(
        places=table.places,
        share=share,
        is_changed=tested & is_changed(share),
        is_idle=table.is_idle,
        classes=classes,
        class_of_place=codes,
        class_share=class_share,
        is_class_changed=is_changed(class_share),
        costs=_compare_costs(table, (tested, hot), classes, codes),
        busy=welch_difference(*(side.tolist() for side in busy)),
        independent=table.independent,
    )


class _Table:
    # The runs of both sides, and all places in them.

    def __init__(self, base: Runs, new: Runs) -> None:
        self.runs = (base, new)
        self.sides = [[run.content for run in side] for side in self.runs]
        every = [run for side in self.sides for run in side]
        self.places = all_places(every)
        idle = {
            location
            for run in every
            for location, flag in zip(run.places, run.is_idle, strict=True)
            if flag
        }
        self.is_idle = np.array([location in idle for location in self.places], dtype=np.bool_)
        self.is_hidden = np.array(
            [is_charged(location) for location in self.places], dtype=np.bool_
        )
        self.is_own = np.array(
            [
                not is_idle and location != OTHER_LOAD
                for location, is_idle in zip(self.places, self.is_idle, strict=True)
            ],
            dtype=np.bool_,
        )
        self.boots = [[run.key.boot for run in side] for side in self.runs]
        self.independent = independent_of(self.boots)

    def reduce(self, matrices: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Average the runs of each boot if boots are the unit of replication."""
        base, new = (
            average_runs(matrix, boots, self.independent)
            for matrix, boots in zip(matrices, self.boots, strict=True)
        )
        return base, new


def _compare_costs(
    table: _Table,
    chosen: tuple[Flags, Flags],
    classes: Sequence[str],
    codes: Integers,
) -> Costs | None:
    matrices = []
    for runs, side in zip(table.runs, table.sides, strict=True):
        counts = [run.ops.count for run in runs if run.ops is not None]
        if len(counts) < len(runs):
            return None
        matrices.append(weight_matrix(side, table.places) / np.array(counts)[:, None])
    tested, hot = chosen
    costs = table.reduce(matrices)
    busy = (costs[0][:, table.is_own].sum(axis=1), costs[1][:, table.is_own].sum(axis=1))
    return Costs(
        places=costs,
        busy=busy,
        busy_change=welch_difference(busy[0].tolist(), busy[1].tolist()),
        by_place=compare_columns(*costs, tested=tested, alike=hot),
        by_class=_compare_classes(costs, codes, classes),
    )


def _classes_of(
    table: _Table, shares: Sequence[Floats], *, sees_kernel: bool
) -> tuple[tuple[str, ...], Integers]:
    # Every place except idle time is in one class; the hottest class comes first.
    names = [
        IDLE if is_idle else class_name(location, sees_kernel=sees_kernel)
        for location, is_idle in zip(table.places, table.is_idle, strict=True)
    ]
    means = shares[0].mean(axis=0) + shares[1].mean(axis=0)
    heat: dict[str, float] = {}
    for name, mean in zip(names, means, strict=True):
        heat[name] = heat.get(name, 0.0) + float(mean)
    heat.pop(IDLE, None)
    ranked = tuple(sorted(heat, key=lambda name: (-heat[name], name)))
    number: Mapping[str, int] = {name: index for index, name in enumerate(ranked)}
    return ranked, np.array([number.get(name, -1) for name in names], dtype=np.intp)


def _compare_classes(
    matrices: Sequence[Floats], codes: Integers, classes: Sequence[str]
) -> Columns:
    members = codes[:, None] == np.arange(len(classes))
    base, new = (matrix @ members for matrix in matrices)
    return compare_columns(base, new, tested=[name != HIDDEN for name in classes])


class Part(Struct, frozen=True, kw_only=True):
    """The part of a change, as a quotient of changes, with its 95% CI.

    :param value: 1 for all of the change; None, like the CI, if the whole may not have changed or a
        side has fewer than 2 runs
    :param reason: why ``value`` is None; None if it is known
    """

    value: float | None
    ci_low: float | None
    ci_high: float | None
    reason: str | None


class Explained(Struct, frozen=True, kw_only=True):
    """The fraction of the change of CPU time per operation that a few functions account for.

    :param places: the functions, largest change first
    :param change: change of their total cost per operation, in the unit of the event
    """

    places: tuple[Place, ...]
    change: float
    part: Part


def explain_change(comparison: PointComparison) -> Explained | None:
    """Return the fraction of the change of non-idle time that the most-changed functions explain.

    Neither the functions nor the non-idle time include other load.

    The functions are those with the largest significant changes of cost in the direction of the
    whole, at most three. None if the number of operations is unknown, or no cost changed
    significantly in this direction. The same runs select the functions and measure their fraction,
    which biases it upwards if the changes are barely significant.
    """
    costs = comparison.costs
    if costs is None or costs.busy_change.difference is None:
        return None
    change = costs.by_place.difference
    is_alike = (change * costs.busy_change.difference > 0.0) & _is_own(comparison)
    candidates = np.flatnonzero(is_alike & (costs.by_place.q < FALSE_DISCOVERY_RATE))
    chosen = candidates[np.argsort(-np.abs(change[candidates]), kind="stable")][:MOST_EXPLAINING]
    if not len(chosen):
        return None
    parts = [side[:, chosen].sum(axis=1) for side in costs.places]
    return Explained(
        places=tuple(comparison.places[index] for index in chosen),
        change=float(change[chosen].sum()),
        part=part_of_change(parts[0], costs.busy[0], parts[1], costs.busy[1]),
    )


def _is_own(comparison: PointComparison) -> Flags:
    return np.array([location != OTHER_LOAD for location in comparison.places], dtype=np.bool_)


def part_of_change(
    part_base: npt.ArrayLike,
    whole_base: npt.ArrayLike,
    part_new: npt.ArrayLike,
    whole_new: npt.ArrayLike,
) -> Part:
    """Return change of the part / change of the whole, with Fieller's CI.

    The sides may have unequal variances; degrees of freedom are Welch-Satterthwaite for the whole.

    :param part_base: one value per run, shape (runs of base,)
    :param whole_base: the whole in the same runs, in the same unit
    :param part_new: as ``part_base``, shape (runs of new,)
    :param whole_new: the whole in the runs of new
    """
    sides = [
        np.column_stack((np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)))
        for part, whole in ((part_base, whole_base), (part_new, whole_new))
    ]
    if min(len(side) for side in sides) < FEWEST_RUNS:
        return _without("a side has fewer than 2 runs, so the variance is unknown")
    part, whole = (sides[1].mean(axis=0) - sides[0].mean(axis=0)).tolist()
    errors = [np.cov(side, rowvar=False, ddof=1) / len(side) for side in sides]
    covariance = errors[0] + errors[1]
    variance = float(covariance[1, 1])
    quantile = float(scipy.special.stdtrit(_degrees(errors, sides), 0.5 + CONFIDENCE / 2.0))
    doubt = quantile**2 * variance / whole**2 if whole else math.inf
    if doubt >= 1.0:
        return _without(
            "the total cost did not change significantly, so the fraction of the change that "
            "individual functions account for is unknown"
        )
    low, high = _ends(part / whole, whole, covariance, quantile, doubt)
    return Part(value=part / whole, ci_low=low, ci_high=high, reason=None)


def _without(reason: str) -> Part:
    return Part(value=None, ci_low=None, ci_high=None, reason=reason)


def _degrees(errors: list[Floats], sides: list[Floats]) -> float:
    total = float(sum(error[1, 1] for error in errors))
    if total == 0.0:
        return float(sum(len(side) for side in sides) - 2)
    shares = [float(error[1, 1]) / total for error in errors]
    return 1.0 / sum(share**2 / (len(side) - 1) for share, side in zip(shares, sides, strict=True))


def _ends(
    ratio: float, whole: float, covariance: Floats, quantile: float, doubt: float
) -> tuple[float, float]:
    # The roots of (part - r * whole)^2 = quantile^2 * variance(part - r * whole) in r.
    of_part, both, of_whole = (float(covariance[at]) for at in ((0, 0), (0, 1), (1, 1)))
    slope = both / of_whole if of_whole else 0.0
    inside = of_part - 2.0 * ratio * both + ratio**2 * of_whole
    inside -= doubt * (of_part - slope * both)
    centre = (ratio - doubt * slope) / (1.0 - doubt)
    half = quantile / abs(whole) * math.sqrt(max(inside, 0.0)) / (1.0 - doubt)
    return centre - half, centre + half
