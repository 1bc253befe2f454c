"""Where a change is: on which NUMA nodes, and over how many CPUs.

Shares of a node and of a CPU are of what it did while not idle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schedperf.evidence.profile.family import SMALLEST_CHANGE_PP
from schedperf.evidence.profile.shares import RunWeights, cpu_means, node_matrix, nodes_of
from schedperf.stats import Columns, compare_columns
from schedperf.stats.verdicts import FALSE_DISCOVERY_RATE
from schedperf.symbols.place import Place

# A node has no part in what another node shows if its own change is, with 95 % confidence, smaller
# than this part of that other one's: then most of the change is on that node.
NO_PART = 0.5

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """One side's shares of some places by node and by CPU, in per cent, means of the runs.

    :param nodes: by node, shape (places,) each
    :param cpus: shape (CPUs that were not idle all the time, places)
    """

    nodes: Mapping[int, Floats]
    cpus: Floats


def spread_of(runs: Sequence[RunWeights], places: Sequence[Place]) -> Spread:
    """Return how the shares of these places are spread over one side's nodes and CPUs."""
    return Spread(
        nodes={
            node: np.nanmean(node_matrix(runs, places, node), axis=0) for node in nodes_of(runs)
        },
        cpus=cpu_means(runs, places),
    )


def one_node_only(
    base: Sequence[RunWeights], new: Sequence[RunWeights], places: Sequence[Place]
) -> tuple[int | None, ...]:
    """Return, for each place, the only node that shows a change; None where there is no such.

    It takes a change beyond chance on that node, after the correction for all of these places,
    and of each other node an interval that leaves room for no more than ``NO_PART`` of it: a node
    of which too little is known is not said to lack the change.
    """
    common = sorted(set(nodes_of(base)) & set(nodes_of(new)))
    if len(common) < 2:  # noqa: PLR2004 # one node is no choice
        return (None,) * len(places)
    found = [
        compare_columns(node_matrix(base, places, node), node_matrix(new, places, node))
        for node in common
    ]
    return tuple(_only(common, found, column) for column in range(len(places)))


def _only(nodes: Sequence[int], found: Sequence[Columns], column: int) -> int | None:
    changed = [
        place
        for place, node in enumerate(found)
        if node.q[column] < FALSE_DISCOVERY_RATE
        and abs(node.difference[column]) >= SMALLEST_CHANGE_PP
    ]
    if len(changed) != 1:
        return None
    room = NO_PART * abs(found[changed[0]].difference[column])
    others = [node for place, node in enumerate(found) if place != changed[0]]
    has_no_part = all(
        -room < node.ci_low[column] and node.ci_high[column] < room for node in others
    )
    return nodes[changed[0]] if has_no_part else None


def class_spread(
    runs: Sequence[RunWeights], places: Sequence[Place], classes: npt.NDArray[np.intp], count: int
) -> Mapping[int, Floats]:
    """Return each class's share by node, in per cent, mean of the runs, shape (classes,) each.

    :param classes: of each place, an index below ``count``; -1 is in none
    """
    members = classes[:, None] == np.arange(count)
    return {
        node: np.asarray(np.nanmean(node_matrix(runs, places, node), axis=0) @ members)
        for node in nodes_of(runs)
    }
