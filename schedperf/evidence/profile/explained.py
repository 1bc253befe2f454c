"""What part of a change a few symbols are, with an interval.

The part is a quotient of two changes that are measured together: the numerator is
contained in the denominator, so both err together, and the denominator may be zero.
Fieller, "Some problems in interval estimation", J. R. Stat. Soc. B 16 (1954), takes
both into account. Where the change of the whole may be zero, the set of parts that
agree with the runs has no end, and a percentage would say nothing: there is none then.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from schedperf.evidence.profile.compare import PointComparison
from schedperf.stats.verdicts import FALSE_DISCOVERY_RATE, MARGIN
from schedperf.stats.welch import CONFIDENCE, FEWEST_RUNS
from schedperf.symbols.place import Place

# Functions that a sentence about the whole change names.
MOST_EXPLAINING = 3

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A quotient of changes with its 95 % interval.

    :param value: 1 is all of the change; None where the whole may not have changed
    :param reason: why there is no value; None where there is one
    """

    value: float | None
    ci_low: float | None
    ci_high: float | None
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Explained:
    """How much of the change of the CPU time per operation a few functions are.

    :param places: the functions, largest change first; () where none changed as the whole did
    :param change: of their cost per operation together, in the unit of the event
    """

    places: tuple[Place, ...]
    change: float
    part: Part


def explain_change(found: PointComparison) -> Explained | None:
    """Return what the functions that changed most explain of the change of all CPU time but idle.

    They are those whose cost changed beyond chance in the direction of the whole, the three
    largest of them. None where the operations are not known, or nothing changed so. The same runs
    choose the functions and measure their part, which makes it look larger than it is where
    their changes are barely beyond chance.
    """
    costs = found.costs
    if costs is None or costs.busy_change.difference is None:
        return None
    change = costs.by_place.difference
    is_alike = change * costs.busy_change.difference > 0.0
    candidates = np.flatnonzero(is_alike & (costs.by_place.q < FALSE_DISCOVERY_RATE))
    chosen = candidates[np.argsort(-np.abs(change[candidates]), kind="stable")][:MOST_EXPLAINING]
    if not len(chosen):
        return None
    parts = [side[:, chosen].sum(axis=1) for side in costs.places]
    return Explained(
        places=tuple(found.places[place] for place in chosen),
        change=float(change[chosen].sum()),
        part=part_of_change(parts[0], costs.busy[0], parts[1], costs.busy[1]),
    )


def is_busy_equal(found: PointComparison) -> bool | None:
    """Say whether the busy part of the machine's time stayed, within the margin of equivalence.

    Only then is a part of the CPU time also that part of the wall time. None where there is no
    interval.
    """
    busy = found.busy
    if busy.ci_low is None or busy.ci_high is None:
        return None
    room = MARGIN * float(found.share.base[~found.is_idle].sum())
    return -room <= busy.ci_low and busy.ci_high <= room


def part_of_change(
    part_base: npt.ArrayLike,
    whole_base: npt.ArrayLike,
    part_new: npt.ArrayLike,
    whole_new: npt.ArrayLike,
) -> Part:
    """Return what part of the change of the whole is the change of the part, by Fieller's theorem.

    Variances of the sides are not taken for equal; degrees of freedom are those of Welch and
    Satterthwaite for the whole.

    :param part_base: one value a run, shape (runs of base,)
    :param whole_base: of the same runs, in the same unit
    """
    sides = [
        np.column_stack((np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)))
        for part, whole in ((part_base, whole_base), (part_new, whole_new))
    ]
    if min(len(side) for side in sides) < FEWEST_RUNS:
        return _without("it takes two runs a side")
    part, whole = (sides[1].mean(axis=0) - sides[0].mean(axis=0)).tolist()
    errors = [np.cov(side, rowvar=False, ddof=1) / len(side) for side in sides]
    covariance = errors[0] + errors[1]
    variance = float(covariance[1, 1])
    quantile = float(special.stdtrit(_degrees(errors, sides), 0.5 + CONFIDENCE / 2.0))
    doubt = quantile**2 * variance / whole**2 if whole else math.inf
    if doubt >= 1.0:
        return _without("the whole may not have changed, so no part of that change has a size")
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
