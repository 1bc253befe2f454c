# SPDX-License-Identifier: GPL-2.0-or-later
"""Join steps that are likely to have one cause, so that one retest and one mail are enough."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from msgspec import Struct

from schedperf.history.watch.steps import Step


class Group(Struct, frozen=True, kw_only=True):
    """Steps of one machine class and tree whose places overlap.

    :param earliest: order of the first night at which one of them may have begun
    :param latest: order of the last such night
    :param steps: by workload, point and metric
    """

    machine_class: str
    tree: str
    earliest: int
    latest: int
    steps: tuple[Step, ...]


def group_steps(steps: Iterable[Step]) -> tuple[Group, ...]:
    """Join the steps of each machine class and tree whose ranges of possible places overlap.

    The range of a step is the 95% confidence set of its place. Regressions and improvements are in
    one group: a commit may cause both.

    :return: by machine class, tree and place
    """
    ordered = sorted(steps, key=_machine)
    return tuple(
        group
        for _, of_machine in groupby(ordered, key=_machine)
        for group in _join(sorted(of_machine, key=lambda step: (_range(step), step.key)))
    )


def _machine(step: Step) -> tuple[str, str, str]:
    """Return what steps of one cause have in common; of a foreign history, also its name."""
    series = step.key.series
    return series.machine_class, series.tree, "" if series.machine_class else series.workload


def _range(step: Step) -> tuple[int, int]:
    return step.alarm.earliest, step.alarm.latest


def _join(steps: Iterable[Step]) -> Iterator[Group]:
    """Yield the groups of one machine and tree.

    :param steps: by the first night of their ranges
    """
    joined: list[Step] = []
    latest = 0
    for step in steps:
        first, last = _range(step)
        if joined and first > latest:
            yield _group(joined)
            joined = []
        latest = max(latest, last) if joined else last
        joined.append(step)
    if joined:
        yield _group(joined)


def _group(steps: list[Step]) -> Group:
    series = steps[0].key.series
    ranges = [_range(step) for step in steps]
    return Group(
        machine_class=series.machine_class,
        tree=series.tree,
        earliest=min(first for first, _ in ranges),
        latest=max(last for _, last in ranges),
        steps=tuple(sorted(steps, key=lambda step: step.key)),
    )
