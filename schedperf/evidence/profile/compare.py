"""Two sides' profiles of one event at one point: which functions changed, and by how much.

Shares say what part of the machine's time a function has; they change when anything
else does. The **cost per operation** of the benchmark does not: it is the function's own
weight over the work that was done. Both are compared run by run, since a run is what is
independent (a boot, where there are several), by :func:`schedperf.stats.compare_columns`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schedperf.evidence.profile.family import (
    is_changed,
    is_hot,
    is_kernel_code,
    is_silent,
)
from schedperf.evidence.profile.independent import average_runs, independent_of
from schedperf.evidence.profile.record import Independent
from schedperf.evidence.profile.shares import (
    PER_CENT,
    RunWeights,
    all_places,
    share_matrix,
    weight_matrix,
)
from schedperf.stats import Columns, Difference, compare_columns, welch_difference
from schedperf.symbols.functions import IDLE, class_of
from schedperf.symbols.place import Place

# What functions of no class are.
OTHER_KERNEL, USER = "other kernel code", "user code"
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfiledRun:
    """One event's samples of one run.

    :param operations: how many operations of the benchmark it did; None where that is unknown
    """

    weights: RunWeights
    operations: float | None
    boot: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """Weights per operation, one row an independent run or boot; base in front of new.

    :param places: shape (runs, places) each
    :param busy: of all but idle time, shape (runs,) each
    :param busy_change: of their means
    :param by_place: the comparison of ``places``
    :param by_class: the same of classes
    """

    places: tuple[Floats, Floats]
    busy: tuple[Floats, Floats]
    busy_change: Difference
    by_place: Columns
    by_class: Columns


@dataclass(frozen=True, kw_only=True, slots=True)
class PointComparison:
    """What changed at one point.

    :param share: shares of all CPUs in per cent, one column a place
    :param is_changed: did the share change beyond chance, by 0.1 pp at least?
        shape (places,)
    :param is_idle: waits the idle task for work there? shape (places,)
    :param classes: names of function classes, idle time left out, hottest first
    :param class_of_place: for each place an index into ``classes``; -1 is idle time
    :param class_share: shares of all CPUs in per cent, one column a class
    :param is_class_changed: as ``is_changed``, shape (classes,)
    :param costs: None where the operations of a run are not known
    :param busy: per cent of all CPUs that was not idle
    :param independent: what a row of the matrices is
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


def compare_point(
    base: Sequence[ProfiledRun], new: Sequence[ProfiledRun], *, sees_kernel: bool
) -> PointComparison:
    """Compare the profiles of some runs.

    What is tested is chosen by :mod:`schedperf.evidence.profile.family`. Of idle time ``busy``
    says what is
    to say.

    :param sees_kernel: can the event sample code that runs with interrupts off? If not, time of the
        kernel's functions is charged to others of them, and none is tested
    """
    table = _Table(base, new)
    shares = table.reduce([share_matrix(side, table.places) for side in table.sides])
    hot = is_hot(shares[0].mean(axis=0), shares[1].mean(axis=0))
    tested = hot & ~is_silent(table.is_idle, table.is_kernel, sees_kernel=sees_kernel)
    share = compare_columns(*shares, tested=tested, alike=hot)
    classes, codes = _classes_of(table, shares)
    class_share = _compare_classes(shares, codes, classes, sees_kernel=sees_kernel)
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
        costs=_compare_costs(table, (tested, hot), classes, codes, sees_kernel=sees_kernel),
        busy=welch_difference(*(side.tolist() for side in busy)),
        independent=table.independent,
    )


class _Table:
    # The runs of both sides, and the places that occur in any of them.

    def __init__(self, base: Sequence[ProfiledRun], new: Sequence[ProfiledRun]) -> None:
        self.runs = (base, new)
        self.sides = [[run.weights for run in side] for side in self.runs]
        every = [run for side in self.sides for run in side]
        self.places = all_places(every)
        idle = {
            place
            for run in every
            for place, flag in zip(run.places, run.is_idle, strict=True)
            if flag
        }
        self.is_idle = np.array([place in idle for place in self.places], dtype=np.bool_)
        self.is_kernel = np.array([is_kernel_code(place) for place in self.places], dtype=np.bool_)
        self.boots = [[run.boot for run in side] for side in self.runs]
        self.independent = independent_of(self.boots)

    def reduce(self, matrices: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Average the runs of each boot where boots are what is independent."""
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
    *,
    sees_kernel: bool,
) -> Costs | None:
    matrices = []
    for runs, side in zip(table.runs, table.sides, strict=True):
        counts = [run.operations for run in runs]
        if any(count is None for count in counts):
            return None
        operations = np.array(counts, dtype=np.float64)[:, None]
        matrices.append(weight_matrix(side, table.places) / operations)
    tested, hot = chosen
    costs = table.reduce(matrices)
    busy = (costs[0][:, ~table.is_idle].sum(axis=1), costs[1][:, ~table.is_idle].sum(axis=1))
    return Costs(
        places=costs,
        busy=busy,
        busy_change=welch_difference(busy[0].tolist(), busy[1].tolist()),
        by_place=compare_columns(*costs, tested=tested, alike=hot),
        by_class=_compare_classes(costs, codes, classes, sees_kernel=sees_kernel),
    )


def _classes_of(table: _Table, shares: Sequence[Floats]) -> tuple[tuple[str, ...], Integers]:
    # Every place but idle time is in one class; the hottest class comes first.
    names = [
        IDLE if is_idle else _class_name(place)
        for place, is_idle in zip(table.places, table.is_idle, strict=True)
    ]
    means = shares[0].mean(axis=0) + shares[1].mean(axis=0)
    heat: dict[str, float] = {}
    for name, mean in zip(names, means, strict=True):
        heat[name] = heat.get(name, 0.0) + float(mean)
    heat.pop(IDLE, None)
    ranked = tuple(sorted(heat, key=lambda name: (-heat[name], name)))
    number: Mapping[str, int] = {name: place for place, name in enumerate(ranked)}
    return ranked, np.array([number.get(name, -1) for name in names], dtype=np.intp)


def _class_name(place: Place) -> str:
    if not is_kernel_code(place):
        return USER
    return class_of(place) or OTHER_KERNEL


def _compare_classes(
    matrices: Sequence[Floats], codes: Integers, classes: Sequence[str], *, sees_kernel: bool
) -> Columns:
    # Where time of the kernel's functions is charged to others, no class of theirs is tested.
    members = codes[:, None] == np.arange(len(classes))
    base, new = (matrix @ members for matrix in matrices)
    return compare_columns(base, new, tested=[sees_kernel or name == USER for name in classes])
