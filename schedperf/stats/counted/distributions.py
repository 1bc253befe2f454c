# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare how counts are distributed over CPUs, pairs of nodes and bins; average them over runs.

Places (CPUs, pairs of nodes or bins) of one kind are a family: each place is tested on the plain
values, so that a count of 0 is a valid value, and p is corrected for all places of the family. The
test is Welch's; for interleaved sides, it is the paired t test on rounds, as for sums.

>>> base, new = [{0: 1.0, 1: 5.0}, {0: 1.1, 1: 5.1}], [{0: 9.0, 1: 5.0}, {0: 9.1, 1: 5.2}]
>>> from schedperf.model.run import RunKey
>>> key = RunKey(side="base", workload="hackbench", point="", boot=0, run=0)
>>> runs = [[Captured(key=key, content=one) for one in side] for side in (base, new)]
>>> found = compare_places(*runs)
>>> found.places, found.changed
((0, 1), (True, False))
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import scipy
from msgspec import Struct

from schedperf.model.counted import Bins, CpuRow, Places
from schedperf.model.rows import Replication
from schedperf.model.run import Captured, RunKey, SideOf
from schedperf.model.verdict import CONFIDENCE, FALSE_DISCOVERY_RATE, FEWEST_RUNS
from schedperf.stats._correction import false_discovery
from schedperf.stats._rows import FEWEST_BOOTS, FEWEST_ROUNDS
from schedperf.stats.one_side import gather_units, interval_of_mean, replication_of

Floats = npt.NDArray[np.float64]
Place = TypeVar("Place", bound=Hashable)
# The counts of a run by place; places that were not measured are missing.
PlacedRuns = Sequence[Captured[Mapping[Place, float]]]
# Largest number of bins of a drawing; with more, bins are joined.
MOST_BINS = 24
# Smallest fraction of a side's events in the last bin.
_FEWEST_LAST = 0.005


# The counts of each run by bin, shape (bins,) each.
_BinnedRuns = Sequence[Captured[Sequence[int]]]
# Indices of the first and the last bin that are joined to one.
_Joined = tuple[int, int]


class Grid(Places, Generic[Place], frozen=True, kw_only=True):
    """The comparison of each place.

    :param places: shape (places,), like all other arrays
    """

    places: tuple[Place, ...]


def compare_places(
    base: PlacedRuns[Place],
    new: PlacedRuns[Place],
    places: Sequence[Place] | None = None,
    *,
    is_comparable: bool = True,
) -> Grid[Place]:
    """Compare the places of two sides, or describe those of one.

    If the sides are interleaved, rounds are compared, by the rule of
    :func:`schedperf.stats.compare_runs`, and runs without a counterpart are left out. Runs of one
    boot are not independent, so if both sides have several boots and no rounds, the means of boots
    are compared as well, and the less certain result counts. Unless boots are compared, a place
    that some run did not measure gets no interval.

    :param base: runs, with the value of each place
    :param new: runs of the other side; empty if there is only base
    :param places: the places in output order; None for all that a run measured, in order of
        appearance
    :param is_comparable: False to return values only, without a comparison
    """
    if places is None:
        places = list(dict.fromkeys(key for run in (*base, *new) for key in run.content))
    replication, units, (low, high, p) = _test(base, new, places)
    if not is_comparable:
        low, high, p = (np.full(len(places), np.nan) for _ in range(3))
    # Equal values without variance are equal (p = 1); different ones without variance have no p.
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
    # The unit of replication, the values of both sides, and lower bound, upper bound and p.
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
    # Both tests must be significant: boots that agree by chance underestimate the scatter of runs.
    low, high, p = _welch(*units)
    widest = np.fmin(among_runs[0], low), np.fmax(among_runs[1], high), np.fmax(among_runs[2], p)
    return "boots", units, widest


def _rounds(base: PlacedRuns[Place], new: PlacedRuns[Place]) -> list[int]:
    # Rounds in which both sides ran; none if they are too few or share boots.
    theirs = {run.key.round for run in new}
    shared = [
        run.key.round for run in base if run.key.round is not None and run.key.round in theirs
    ]
    rounds = list(dict.fromkeys(shared))
    boots = min(len({run.key.boot for run in side}) for side in (base, new))
    is_paired = len(rounds) >= FEWEST_ROUNDS and (boots < FEWEST_BOOTS or len(rounds) <= boots)
    return rounds if is_paired else []


def _rows(side: PlacedRuns[Place], places: Sequence[Place]) -> Floats:
    # Shape (runs, places); NaN for a place that a run did not measure.
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
    # Like schedperf.stats.welch, for all places at once; a place that some run did not measure has
    # no interval.
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
    # Like _welch, for the differences of the rounds; shape (rounds, places) each.
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
    # Rounding of the mean would make the variance of equal values positive.
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
    """Compare the share of events in each bin; join neighbouring bins if there are more than 24.

    :param base: runs of one side, each with its count of events per bin, shape (bins,)
    :param new: runs of the other side; empty if there is only base
    :param edges: lower edge of each bin, shape (bins,); the last bin has no upper edge
    :param is_comparable: False to return shares only, without a comparison
    :param is_trimmed: True to leave out empty bins before the first event and to join rare bins at
        the end; False to keep the whole range
    :raises ValueError: ``is_trimmed`` is True and no run has events
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
    # From the first bin with events to the last one that has, with all later ones, at least
    # _FEWEST_LAST of the events.
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
    # The last bin includes all later ones; a run without events has no shares.
    total = sum(counts)
    ends = [last for _, last in joined[:-1]] + [len(counts) - 1]
    return {
        index: sum(counts[first : end + 1]) / total
        for index, ((first, _), end) in enumerate(zip(joined, ends, strict=True))
        if total
    }


class CpuMeasure(NamedTuple):
    """A quantity that is measured per CPU.

    :param unit: "1/s", "s/s"; "" for a share of the CPU's time
    """

    name: str
    unit: str
    meaning: str


# The values of each CPU in one run, by measure.
CpuValues = Mapping[CpuMeasure, Mapping[int, float]]


def compare_cpus(
    base: SideOf[CpuValues],
    new: SideOf[CpuValues] | None,
    *,
    invalid: frozenset[str] = frozenset(),
) -> Iterator[CpuRow]:
    """Yield one row per point and measure, which compares the CPUs of both sides.

    All CPUs of a row are one family of tests. Measures that are 0 on all CPUs are skipped, and
    points that ``new`` lacks.

    :param new: None if there is only base
    :param invalid: names of measures whose values are shown and not compared
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


class Mean(NamedTuple):
    """The mean of non-negative numbers.

    :param ci_low: lower bound of its 95% CI; None with fewer than two units of replication
    """

    mean: float
    ci_low: float | None
    ci_high: float | None


class Means(Struct, frozen=True, kw_only=True):
    """Means of several numbers of the same runs, in their unit.

    :param replication: what n counts
    :param means: one per number, in the order of the columns
    """

    replication: Literal["runs", "boots"]
    n: int
    means: list[Mean]


def means_over_runs(values: Floats, runs: Sequence[RunKey]) -> Means:
    """Return the arithmetic mean of each column over the runs or boots, with its 95% CI.

    :param values: shape (runs, numbers), runs >= 1, none of them negative
    :param runs: the run of each row of ``values``
    :raises ValueError: the numbers of rows and runs differ
    """
    replication = replication_of(runs)
    units = gather_units(list(range(len(runs))), runs, replication)
    return Means(
        replication=replication,
        n=len(units),
        means=[_mean_of(column, runs, replication) for column in values.T.tolist()],
    )


def _mean_of(values: list[float], runs: Sequence[RunKey], replication: Replication) -> Mean:
    units = gather_units(values, runs, replication)
    interval = interval_of_mean(values, runs, replication, is_log=False)
    return Mean(fmean(map(fmean, units)), *interval)
