# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare how counts are distributed over CPUs, pairs of nodes and bins, and their means over runs.

Places of one kind are a family: each is tested on the plain values, so that a place that counted
nothing is a number like any other, and p is corrected for all places of the family. The test is
Welch's, and for interleaved sides t of the differences of the rounds, as it is of the sums.

>>> base, new = [{0: 1.0, 1: 5.0}, {0: 1.1, 1: 5.1}], [{0: 9.0, 1: 5.0}, {0: 9.1, 1: 5.2}]
>>> from schedperf.model.run import RunKey
>>> key = RunKey(side="base", workload="hackbench", point="", boot=0, run=0)
>>> runs = [[Captured(key=key, content=one) for one in side] for side in (base, new)]
>>> found = compare_places(*runs)
>>> found.places, found.changed
((0, 1), (True, False))
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import scipy
from msgspec import Struct

from schedperf.model.comparison import Replication
from schedperf.model.counted import Bins, CpuRow, Places
from schedperf.model.run import Captured, SideOf
from schedperf.model.verdict import CONFIDENCE, FALSE_DISCOVERY_RATE, FEWEST_RUNS
from schedperf.stats._correction import false_discovery
from schedperf.stats._rows import FEWEST_BOOTS, FEWEST_ROUNDS

Floats = npt.NDArray[np.float64]
Place = TypeVar("Place", bound=Hashable)
# What a run counted, by place; a place that was not looked at is not there.
PlacedRuns = Sequence[Captured[Mapping[Place, float]]]
# Bins of a drawing; more are joined.
MOST_BINS = 24
# Of the events of a side: the last bin has at least so many of them.
_FEWEST_LAST = 0.005


# What runs counted in each bin, shape (bins,) each.
_BinnedRuns = Sequence[Captured[Sequence[int]]]
# Numbers of the first and of the last bin that are joined to one.
_Joined = tuple[int, int]


class Grid(Places, Generic[Place], frozen=True, kw_only=True):
    """The answer for each place.

    :param places: shape (places,), as all others
    """

    places: tuple[Place, ...]


def compare_places(
    base: PlacedRuns[Place],
    new: PlacedRuns[Place],
    places: Sequence[Place] | None = None,
    *,
    is_comparable: bool = True,
) -> Grid[Place]:
    """Compare the places of two sides, or show those of one.

    Of interleaved sides rounds are compared, by the rule of :func:`schedperf.stats.compare_runs`,
    and runs without a counterpart are left out. Runs of one boot are not independent of it, so
    where both sides have several boots and no rounds, the means of boots are compared as well, and
    the less certain answer counts.

    :param new: empty: base is alone
    :param places: in this order; None: all that any run looked at, in the order in which they come
    :param is_comparable: False: values only, and nothing is said of their difference
    """
    if places is None:
        places = list(dict.fromkeys(key for run in (*base, *new) for key in run.content))
    replication, units, (low, high, p) = _test(base, new, places)
    if not is_comparable:
        low, high, p = (np.full(len(places), np.nan) for _ in range(3))
    # Equal numbers that never vary are equal; different ones have no chance to be compared with.
    same = (low == 0.0) & (high == 0.0)
    q = false_discovery(p, np.zeros(len(places), dtype=np.int64))
    return Grid(
        places=tuple(places),
        replication=replication,
        n_base=len(units[0]),
        n_new=len(units[1]),
        base=_known(_means(units[0])),
        new=_known(_means(units[1])),
        ci_low=_known(low),
        ci_high=_known(high),
        changed=tuple(
            None if np.isnan(q_value) and not is_same else bool(q_value < FALSE_DISCOVERY_RATE)
            for q_value, is_same in zip(q, same, strict=True)
        ),
    )


def _test(
    base: PlacedRuns[Place], new: PlacedRuns[Place], places: Sequence[Place]
) -> tuple[Replication, list[Floats], tuple[Floats, Floats, Floats]]:
    # What is independent, its values of both sides, and lower bound, upper bound and p.
    sides = (base, new)
    runs = [_rows(side, places) for side in sides]
    rounds = _rounds(base, new)
    if rounds:
        units = [
            _units(rows, [run.key.round for run in side], rounds)
            for side, rows in zip(sides, runs, strict=True)
        ]
        return "rounds", units, _paired(*units)
    boots = [[run.key.boot for run in side] for side in sides]
    among_runs = _welch(*runs)
    if any(len(set(boots_of_side)) < FEWEST_RUNS for boots_of_side in boots):
        return "runs", runs, among_runs
    units = [
        _units(rows, boots_of_side, list(dict.fromkeys(boots_of_side)))
        for rows, boots_of_side in zip(runs, boots, strict=True)
    ]
    # Both have to show it: boots that happen to agree do not show how much runs scatter.
    low, high, p = _welch(*units)
    widest = np.fmin(among_runs[0], low), np.fmax(among_runs[1], high), np.fmax(among_runs[2], p)
    return "boots", units, widest


def _rounds(base: PlacedRuns[Place], new: PlacedRuns[Place]) -> list[int]:
    # Those in which both sides ran; none where they are too few, or share the boots of each other.
    theirs = {run.key.round for run in new}
    shared = [
        run.key.round for run in base if run.key.round is not None and run.key.round in theirs
    ]
    rounds = list(dict.fromkeys(shared))
    boots = min(len({run.key.boot for run in side}) for side in (base, new))
    is_paired = len(rounds) >= FEWEST_ROUNDS and (boots < FEWEST_BOOTS or len(rounds) <= boots)
    return rounds if is_paired else []


def _rows(side: PlacedRuns[Place], places: Sequence[Place]) -> Floats:
    # Shape (runs, places); NaN where a run did not look.
    return np.array(
        [[run.content.get(key, np.nan) for key in places] for run in side], dtype=np.float64
    ).reshape(len(side), len(places))


def _units(rows: Floats, unit_of_run: Sequence[int | None], units: Sequence[int]) -> Floats:
    # The means over the runs of each boot or round, shape (units, places).
    return np.array(
        [_means(rows[[run_unit == unit for run_unit in unit_of_run]]) for unit in units]
    )


def _means(rows: Floats) -> Floats:
    # numpy.nanmean warns of a place without values.
    counts = np.count_nonzero(~np.isnan(rows), axis=0)
    sums = np.nansum(rows, axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _welch(base: Floats, new: Floats) -> tuple[Floats, Floats, Floats]:
    # As schedperf.stats.welch, for all places at once; a place that some run did not look at has no
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
    return _student(exact, np.sqrt(total), df)


def _paired(base: Floats, new: Floats) -> tuple[Floats, Floats, Floats]:
    # As _welch, of the differences of the rounds; shape (rounds, places) each.
    apart = new - base
    total = _squared_error(apart)
    exact = np.where(total == 0.0, apart[0], apart.mean(axis=0))
    return _student(exact, np.sqrt(total), np.full(len(total), len(apart) - 1.0))


def _student(difference: Floats, error: Floats, df: Floats) -> tuple[Floats, Floats, Floats]:
    half = scipy.special.stdtrit(df, 0.5 + CONFIDENCE / 2.0) * error
    nothing = np.full(len(error), np.nan)
    z = np.divide(np.abs(difference), error, out=nothing, where=error > 0.0)
    return difference - half, difference + half, 2.0 * scipy.special.stdtr(df, -z)


def _squared_error(side: Floats) -> Floats:
    # The rounding of the mean would spoil the zero of equal values.
    spread = np.ptp(side, axis=0)
    variance: Floats = np.where(spread == 0.0, 0.0, side.var(axis=0, ddof=1) / len(side))
    return variance


def _known(values: Floats) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(value) else value for value in values.tolist())


def compare_bins(
    base: _BinnedRuns,
    new: _BinnedRuns,
    edges: Sequence[float],
    *,
    is_comparable: bool = True,
    is_trimmed: bool = True,
) -> Bins:
    """Compare the share of the events that is in each bin.

    :param base: runs of one side, all with as many bins
    :param edges: the lower one of each bin, shape (bins,); the last bin is open
    :param is_comparable: False: shares only, and nothing is said of their difference
    :param is_trimmed: rare bins at the end are joined to one that is open; else all are kept, and
        the last one ends where a turn ends
    """
    sides = (base, new)
    sums = [_sum(side) for side in sides]
    joined = _join(_range(sums) if is_trimmed else (0, len(edges) - 1))
    before, after = ([run.having(_shares(run.content, joined)) for run in side] for side in sides)
    grid = compare_places(before, after, range(len(joined)), is_comparable=is_comparable)
    return Bins(
        low=tuple(edges[first] for first, _ in joined),
        high=(*(edges[last + 1] for _, last in joined[:-1]), None),
        events_base=sum(sums[0]),
        events_new=sum(sums[1]),
        **grid.as_fields(),
    )


def _sum(side: _BinnedRuns) -> list[int]:
    return [sum(column) for column in zip(*(run.content for run in side), strict=True)]


def _range(sums: Sequence[Sequence[int]]) -> _Joined:
    # From the first bin that has any to the last one behind which there is next to nothing.
    counted = [side for side in sums if any(side)]
    first = min(next(index for index, count in enumerate(side) if count) for side in counted)
    last = first
    for index in range(first, len(counted[0])):
        if max(sum(side[index:]) / sum(side) for side in counted) >= _FEWEST_LAST:
            last = index
    return first, last


def _join(bins: _Joined) -> list[_Joined]:
    first, last = bins
    each = -(-(last - first + 1) // MOST_BINS)
    return [(low, min(low + each - 1, last)) for low in range(first, last + 1, each)]


def _shares(counts: Sequence[int], joined: Sequence[_Joined]) -> dict[int, float]:
    # The last one has all that comes behind it; a run without events has no shares.
    total = sum(counts)
    ends = [last for _, last in joined[:-1]] + [len(counts) - 1]
    return {
        index: sum(counts[first : end + 1]) / total
        for index, ((first, _), end) in enumerate(zip(joined, ends, strict=True))
        if total
    }


class CpuMeasure(NamedTuple):
    """What is measured of a CPU.

    :param unit: "1/s", "s/s"; "" for a share of its time
    """

    name: str
    unit: str
    meaning: str


# Of one run: the values of each CPU, by measure.
CpuValues = Mapping[CpuMeasure, Mapping[int, float]]


def compare_cpus(
    base: SideOf[CpuValues],
    new: SideOf[CpuValues] | None,
    *,
    invalid: frozenset[str] = frozenset(),
) -> Iterator[CpuRow]:
    """Yield each measure of each point, CPU by CPU; one that is 0 on all of them is left out.

    :param new: None: base is alone
    :param invalid: names of measures whose values are shown and not compared
    One measure is a family of tests.
    """
    others = {} if new is None else new.by_point()
    for (workload, point), runs in base.by_point().items():
        sides = [runs, others.get((workload, point), [])]
        if new is not None and not sides[1]:
            continue
        for measure in dict.fromkeys(
            name for side in sides for run in side for name in run.content
        ):
            before, after = (_placed(side, measure) for side in sides)
            cpus = sorted({cpu for run in (*before, *after) for cpu in run.content})
            if any(value for run in (*before, *after) for value in run.content.values()):
                is_comparable = measure.name not in invalid
                grid = compare_places(before, after, cpus, is_comparable=is_comparable)
                yield CpuRow(
                    side=(new or base).name,
                    workload=workload,
                    point=point,
                    measure=measure.name,
                    unit=measure.unit,
                    meaning=measure.meaning,
                    cpus=tuple(cpus),
                    **grid.as_fields(),
                )


def _placed(
    runs: Sequence[Captured[CpuValues]], measure: CpuMeasure
) -> list[Captured[Mapping[int, float]]]:
    return [run.having(run.content[measure]) for run in runs if measure in run.content]


class _Means(Struct, frozen=True, kw_only=True):
    """Means of numbers that are never negative, in their unit.

    :param replication: what n counts
    :param mean: shape (numbers,), as all that follow
    :param ci_low: lower bound of the 95% CI of the mean; None with fewer than two values
    """

    replication: Literal["runs", "boots"]
    n: int
    mean: list[float]
    ci_low: list[float | None]
    ci_high: list[float | None]


def means_over_runs(values: Floats, boots: Sequence[int]) -> _Means:
    """Return the mean of each column with Student's interval.

    Runs of one boot are not independent of it, so where there are several boots, the means of
    boots count as well, and the wider interval is given.

    :param values: shape (runs, numbers), runs >= 1, none of them negative
    :param boots: of each run
    """
    numbers = np.array(boots)
    units = np.array([values[numbers == boot].mean(axis=0) for boot in dict.fromkeys(boots)])
    has_boots = len(units) >= FEWEST_RUNS
    half = np.fmax(_half_width_of_mean(values), _half_width_of_mean(units))
    mean = (units if has_boots else values).mean(axis=0)
    return _Means(
        replication="boots" if has_boots else "runs",
        n=len(units) if has_boots else len(values),
        mean=mean.tolist(),
        ci_low=_known_ends(np.maximum(mean - half, 0.0)),
        ci_high=_known_ends(mean + half),
    )


def _half_width_of_mean(values: Floats) -> Floats:
    if len(values) < FEWEST_RUNS:
        return np.full(values.shape[1], np.nan)
    quantile = float(scipy.special.stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2.0))
    half: Floats = quantile * values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return half


def _known_ends(values: Floats) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]
