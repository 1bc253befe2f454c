# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute weights of functions by CPU and NUMA node, and their shares.

Weights are sums of periods; totals equal those of ``perf report``.

There are two denominators: a share of **all CPUs** is relative to all samples, idle time included,
as in ``perf report``; a share of a **node** or **CPU** is relative to its non-idle time, so that a
node that is idle half of the time does not have half of the share.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace
from scipy import sparse

from schedperf.evidence.profile.alignment import Alignment
from schedperf.evidence.profile.family import is_idle_time
from schedperf.evidence.profile.record import SMALLEST_CHANGE_PP
from schedperf.inputs.perf_data.recording import NO_CPU, Recording
from schedperf.inputs.symbols.places import Placed
from schedperf.model.place import Place
from schedperf.model.verdict import FALSE_DISCOVERY_RATE
from schedperf.stats import Columns, compare_columns

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

PER_CENT = 100.0
# A change is on one node only if, with 95% confidence, the change of each other node is smaller
# than this fraction of it.
NO_PART = 0.5


class PlaceWeights(Struct, frozen=True, kw_only=True):
    """One event's samples of one run, by place.

    :param samples: number of samples
    :param places: the sampled places
    :param weights: over all CPUs, shape (places,)
    :param is_idle: True for idle routines, shape (places,)
    :param cpus: the sampled CPUs; ``NO_CPU`` for samples without a CPU
    :param cpu_weights: shape (cpus, places); idle time is 0
    :param node_of_cpu: CPU number to NUMA node; other CPUs belong to no node
    """

    samples: int
    places: tuple[Place, ...]
    weights: Floats
    is_idle: npt.NDArray[np.bool_]
    cpus: tuple[int, ...]
    cpu_weights: sparse.csr_array
    node_of_cpu: Mapping[int, int]

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self.weights.sum())

    @property
    def idle(self) -> float:
        """Sum of the weights of idle time."""
        return float(self.weights[self.is_idle].sum())


def weigh(
    recording: Recording, placed: Placed, event: int, node_of_cpu: Mapping[int, int]
) -> PlaceWeights:
    """Add up the samples of one event by place and CPU.

    :param placed: places of the rows of ``recording.samples``
    :param event: index into ``recording.events``
    """
    rows = recording.samples
    chosen = np.flatnonzero(rows.event == event)
    used, code = np.unique(placed.of_row[chosen], return_inverse=True)
    places = tuple(placed.places[index] for index in used)
    # A sum of periods is negative only in a damaged file, and a share cannot be negative.
    period = np.maximum(rows.period[chosen], 0).astype(np.float64)
    weights: Floats = np.bincount(code, weights=period, minlength=len(places)).astype(np.float64)
    is_idle = np.array([is_idle_time(location) for location in places], dtype=np.bool_)
    cpus, cpu_code = np.unique(rows.cpu[chosen], return_inverse=True)
    busy = np.where(is_idle[code], 0.0, period) if places else period
    matrix = sparse.coo_array((busy, (cpu_code, code)), shape=(len(cpus), len(places)))
    return PlaceWeights(
        samples=int(rows.count[chosen].sum()),
        places=places,
        weights=weights,
        is_idle=is_idle,
        cpus=tuple(int(cpu) for cpu in cpus),
        cpu_weights=matrix.tocsr(),
        node_of_cpu=node_of_cpu,
    )


def align_weights(run: PlaceWeights, alignment: Alignment) -> PlaceWeights:
    """Return a run's weights with the places under which they are compared."""
    names = [alignment.of(location) for location in run.places]
    distinct = {location: number for number, location in enumerate(dict.fromkeys(names))}
    if tuple(distinct) == run.places:
        return run
    code = np.array([distinct[name] for name in names])
    ones = (np.ones(len(code)), (np.arange(len(code)), code))
    merge = sparse.csr_array(sparse.coo_array(ones, shape=(len(code), len(distinct))))
    return replace(
        run,
        places=tuple(distinct),
        weights=np.asarray(run.weights @ merge, dtype=np.float64),
        is_idle=np.array([is_idle_time(location) for location in distinct], dtype=np.bool_),
        cpu_weights=run.cpu_weights @ merge,
    )


def all_places(runs: Sequence[PlaceWeights]) -> tuple[Place, ...]:
    """Return the distinct places of all runs."""
    return tuple(dict.fromkeys(location for run in runs for location in run.places))


def weight_matrix(runs: Sequence[PlaceWeights], places: Sequence[Place]) -> Floats:
    """Return the weights of each run over all CPUs, shape (runs, places).

    A place without samples in a run has weight 0 there.
    """
    return np.array([_spread(run, run.weights, places) for run in runs])


def share_matrix(runs: Sequence[PlaceWeights], places: Sequence[Place]) -> Floats:
    """Return shares of all CPUs in percent, shape (runs, places); NaN in runs without samples."""
    totals = np.array([[run.total] for run in runs])
    return PER_CENT * weight_matrix(runs, places) / np.where(totals > 0.0, totals, np.nan)


def node_matrix(runs: Sequence[PlaceWeights], places: Sequence[Place], node: int) -> Floats:
    """Return shares of one node's non-idle time, in percent, shape (runs, places).

    The shares are NaN in runs in which the node was always idle or not sampled.
    """
    rows = []
    for run in runs:
        is_member = np.array([run.node_of_cpu.get(cpu) == node for cpu in run.cpus], dtype=float)
        own = np.asarray(is_member @ run.cpu_weights, dtype=np.float64)
        rows.append(_spread(run, _shares_of(own), places))
    return np.array(rows)


def nodes_of(runs: Sequence[PlaceWeights]) -> tuple[int, ...]:
    """Return the nodes with non-idle time in at least one of these runs, in ascending order."""
    return tuple(
        sorted(
            {
                run.node_of_cpu[cpu]
                for run in runs
                for cpu, weight in zip(run.cpus, run.cpu_weights.sum(axis=1), strict=True)
                if cpu in run.node_of_cpu and weight > 0.0
            }
        )
    )


def cpu_means(runs: Sequence[PlaceWeights], places: Sequence[Place]) -> Floats:
    """Return shares of each CPU's non-idle time in percent, mean over runs, shape (cpus, places).

    Runs in which a CPU was always idle do not count for it. CPUs that were idle in all runs are
    left out; the others are in ascending order.
    """
    by_cpu: dict[int, list[Floats]] = {}
    for run in runs:
        columns = _columns(run, places)
        totals = np.asarray(run.cpu_weights.sum(axis=1), dtype=np.float64)
        weights = run.cpu_weights[:, columns[columns >= 0]].toarray()
        for row, cpu in enumerate(run.cpus):
            if cpu != NO_CPU and totals[row] > 0.0:
                shares = np.zeros(len(places))
                shares[columns >= 0] = PER_CENT * weights[row] / totals[row]
                by_cpu.setdefault(cpu, []).append(shares)
    means = [np.mean(rows, axis=0) for _, rows in sorted(by_cpu.items())]
    return np.array(means).reshape(len(means), len(places))


class Spread(Struct, frozen=True, kw_only=True):
    """One side's shares of some places by node and by CPU, in percent, means over the runs.

    :param nodes: by node, shape (places,) each
    :param cpus: shape (CPUs that were not always idle, places)
    """

    nodes: Mapping[int, Floats]
    cpus: Floats


def spread_of(runs: Sequence[PlaceWeights], places: Sequence[Place]) -> Spread:
    """Return the shares of these places by node and CPU of one side."""
    return Spread(
        nodes={
            node: np.nanmean(node_matrix(runs, places, node), axis=0) for node in nodes_of(runs)
        },
        cpus=cpu_means(runs, places),
    )


def one_node_only(
    base: Sequence[PlaceWeights], new: Sequence[PlaceWeights], places: Sequence[Place]
) -> tuple[int | None, ...]:
    """Return, for each place, the only node with a change; None if several or none changed.

    The change on that node must be significant, corrected for all of these places, and at least
    ``SMALLEST_CHANGE_PP``. The 95% CI of each other node must lie within +-``NO_PART`` of this
    change; otherwise the result is None, since a node with too little data does not count as
    unchanged. None also if base and new have fewer than two nodes in common.
    """
    common = sorted(set(nodes_of(base)) & set(nodes_of(new)))
    if len(common) < 2:  # noqa: PLR2004 # a single node is always the only one
        return (None,) * len(places)
    per_node = [
        compare_columns(node_matrix(base, places, node), node_matrix(new, places, node))
        for node in common
    ]
    return tuple(_only(common, per_node, column) for column in range(len(places)))


def class_spread(
    runs: Sequence[PlaceWeights], places: Sequence[Place], classes: npt.NDArray[np.intp], count: int
) -> Mapping[int, Floats]:
    """Return each class's share by node, in percent, mean over the runs, shape (classes,) each.

    :param classes: class index of each place, below ``count``; -1 for none
    """
    members = classes[:, None] == np.arange(count)
    return {
        node: np.asarray(np.nanmean(node_matrix(runs, places, node), axis=0) @ members)
        for node in nodes_of(runs)
    }


def _only(nodes: Sequence[int], per_node: Sequence[Columns], column: int) -> int | None:
    changed = [
        index
        for index, node in enumerate(per_node)
        if node.q[column] < FALSE_DISCOVERY_RATE
        and abs(node.difference[column]) >= SMALLEST_CHANGE_PP
    ]
    if len(changed) != 1:
        return None
    room = NO_PART * abs(per_node[changed[0]].difference[column])
    others = [node for index, node in enumerate(per_node) if index != changed[0]]
    has_no_part = all(
        -room < node.ci_low[column] and node.ci_high[column] < room for node in others
    )
    return nodes[changed[0]] if has_no_part else None


def _shares_of(weights: Floats) -> Floats:
    total = weights.sum()
    return PER_CENT * weights / (total if total > 0.0 else np.nan)


def _columns(run: PlaceWeights, places: Sequence[Place]) -> Integers:
    # Index of each place in the run; -1 if the run does not have it.
    at = {location: number for number, location in enumerate(run.places)}
    return np.array([at.get(location, -1) for location in places], dtype=np.int64)


def _spread(run: PlaceWeights, values: Floats, places: Sequence[Place]) -> Floats:
    # The values of the run's places, at the positions in the list of all places. If all values of a
    # run are unknown, those of the other places are unknown, too.
    empty = np.nan if len(values) and np.isnan(values).all() else 0.0
    spread = np.full(len(places), empty)
    columns = _columns(run, places)
    spread[columns >= 0] = values[columns[columns >= 0]]
    return spread
