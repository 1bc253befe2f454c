"""What runs counted at many places: CPUs, pairs of nodes, bins of a histogram; place by place.

Places of one kind are a family: each is tested by Welch on the plain values, so that a place that
counted nothing is a number like any other, and p is corrected for all places of the family.

>>> base, new = [{0: 1.0, 1: 5.0}, {0: 1.1, 1: 5.1}], [{0: 9.0, 1: 5.0}, {0: 9.1, 1: 5.2}]
>>> found = compare_places([PlacedRun(0, one) for one in base], [PlacedRun(0, one) for one in new])
>>> found.places, found.changed
((0, 1), (True, False))
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import scipy

from schedperf.stats._correction import false_discovery
from schedperf.verdicts import FALSE_DISCOVERY_RATE
from schedperf.welch import CONFIDENCE, FEWEST_RUNS

Floats = npt.NDArray[np.float64]
Place = TypeVar("Place", bound=Hashable)


class PlacedRun(NamedTuple, Generic[Place]):
    """What one run counted, by place; a place that was not looked at is not there."""

    boot: int
    values: Mapping[Place, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid(Generic[Place]):
    """The answer for each place.

    :param places: shape (places,), as all that follow
    :param replication: what n_base and n_new count: "runs" or "boots"
    :param base: means over runs; None where no run looked
    :param ci_low: lower end of the 95 % interval of new - base, in the unit of the values
    :param changed: beyond chance; None where it cannot be said: one run, or no two runs differ
    """

    places: tuple[Place, ...]
    replication: str
    n_base: int
    n_new: int
    base: tuple[float | None, ...]
    new: tuple[float | None, ...]
    ci_low: tuple[float | None, ...]
    ci_high: tuple[float | None, ...]
    changed: tuple[bool | None, ...]

    def record(self) -> dict[str, Any]:
        """Return all but the places, as JSON has it."""
        found = asdict(self)
        del found["places"]
        return {name: list(one) if isinstance(one, tuple) else one for name, one in found.items()}


def compare_places(
    base: Sequence[PlacedRun[Place]],
    new: Sequence[PlacedRun[Place]],
    places: Sequence[Place] | None = None,
    *,
    is_comparable: bool = True,
) -> Grid[Place]:
    """Compare the places of two sides, or show those of one.

    Runs of one boot are not independent of it, so where both sides have several boots, the means
    of boots are compared as well, and the less certain answer counts.

    :param new: empty: base is alone
    :param places: in this order; None: all that any run looked at, in the order in which they come
    :param is_comparable: False: values only, and nothing is said of their difference
    """
    if places is None:
        places = list(dict.fromkeys(place for run in (*base, *new) for place in run.values))
    has_boots = all(len({run.boot for run in side}) >= FEWEST_RUNS for side in (base, new))
    runs = [_rows(side, places) for side in (base, new)]
    units = runs
    low, high, p = _welch(*runs)
    if has_boots:
        units = [_boots(side, rows) for side, rows in zip((base, new), runs, strict=True)]
        # Both have to show it: boots that happen to agree do not show how much runs scatter.
        among = _welch(*units)
        low, high, p = np.fmin(low, among[0]), np.fmax(high, among[1]), np.fmax(p, among[2])
    if not is_comparable:
        low, high, p = (np.full(len(places), np.nan) for _ in range(3))
    # Equal numbers that never vary are equal; different ones have no chance to be compared with.
    same = (low == 0.0) & (high == 0.0)
    q = false_discovery(p, np.zeros(len(places), dtype=np.int64))
    return Grid(
        places=tuple(places),
        replication="boots" if has_boots else "runs",
        n_base=len(units[0]),
        n_new=len(units[1]),
        base=_known(_means(units[0])),
        new=_known(_means(units[1])),
        ci_low=_known(low),
        ci_high=_known(high),
        changed=tuple(
            None if np.isnan(one) and not is_same else bool(one < FALSE_DISCOVERY_RATE)
            for one, is_same in zip(q, same, strict=True)
        ),
    )


def _rows(side: Sequence[PlacedRun[Place]], places: Sequence[Place]) -> Floats:
    # Shape (runs, places); NaN where a run did not look.
    return np.array(
        [[run.values.get(place, np.nan) for place in places] for run in side], dtype=np.float64
    ).reshape(len(side), len(places))


def _boots(side: Sequence[PlacedRun[Place]], rows: Floats) -> Floats:
    # Shape (boots, places).
    boots = np.array([run.boot for run in side])
    return np.array([_means(rows[boots == boot]) for boot in dict.fromkeys(boots.tolist())])


def _means(rows: Floats) -> Floats:
    # numpy.nanmean warns of a place without values.
    counts = np.count_nonzero(~np.isnan(rows), axis=0)
    sums = np.nansum(rows, axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _welch(base: Floats, new: Floats) -> tuple[Floats, Floats, Floats]:
    # As schedperf.welch, for all places at once; a place that some run did not look at has no
    # interval.
    nothing = np.full(base.shape[1], np.nan)
    if min(len(base), len(new)) < FEWEST_RUNS:
        return nothing, nothing, nothing
    errors = [_squared_error(side) for side in (base, new)]
    total = errors[0] + errors[1]
    difference = new.mean(axis=0) - base.mean(axis=0)
    exact = np.where(total == 0.0, new[0] - base[0], difference)
    share = np.divide(errors[0], total, out=np.full_like(total, 0.5), where=total > 0.0)
    df = 1.0 / (share**2 / (len(base) - 1) + (1.0 - share) ** 2 / (len(new) - 1))
    error = np.sqrt(total)
    half = scipy.special.stdtrit(df, 0.5 + CONFIDENCE / 2.0) * error
    z = np.divide(np.abs(difference), error, out=nothing.copy(), where=total > 0.0)
    return exact - half, exact + half, 2.0 * scipy.special.stdtr(df, -z)


def _squared_error(side: Floats) -> Floats:
    # The rounding of the mean would spoil the zero of equal values.
    spread = np.ptp(side, axis=0)
    found: Floats = np.where(spread == 0.0, 0.0, side.var(axis=0, ddof=1) / len(side))
    return found


def _known(values: Floats) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(value) else value for value in values.tolist())
