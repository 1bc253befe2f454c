# SPDX-License-Identifier: GPL-2.0-or-later
"""Call stacks made by hand."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from schedperf.evidence.profile.samples import Runs
from schedperf.evidence.profile.stacks import Stacks
from schedperf.model.place import Place

Weights = Sequence[Mapping[str, float]]


def _place(name: str) -> Place:
    symbol, _, file = name.partition("@")
    return Place(symbol, file or "[kernel]")


@pytest.fixture
def make_stacks() -> Callable[..., Stacks]:
    """Make the stacks of one or two sides; a run is {"main;read@libc.so.6;lock": weight}.

    Without a file a function is the kernel's.

    ``make_stacks(base, new, boots=[0, 0, 1, 1], operations=[…], event="cycles") -> Stacks``
    """

    def make(
        *sides: Weights,
        boots: Sequence[int] | None = None,
        operations: Sequence[float] | None = None,
        event: str = "cycles",
        sees_kernel: bool = True,
    ) -> Stacks:
        runs = [run for side in sides for run in side]
        stacks = list(dict.fromkeys(stack for run in runs for stack in run))
        places = list(dict.fromkeys(name for stack in stacks for name in stack.split(";")))
        frames = [[places.index(name) for name in stack.split(";")] for stack in stacks]
        entries = [
            (number, stacks.index(stack), weight)
            for number, run in enumerate(runs)
            for stack, weight in run.items()
        ]
        return Stacks(
            runs=Runs(
                event=event,
                unit="ns" if event == "cpu-clock" else event,
                labels=("base", "new")[: len(sides)],
                sides=np.repeat(np.arange(len(sides)), [len(side) for side in sides]),
                boots=np.array(boots or [0] * len(runs)),
                totals=np.array([float(sum(run.values())) for run in runs]),
                operations=np.array(operations or [1.0] * len(runs)),
                sees_kernel=sees_kernel,
            ),
            places=tuple(_place(name) for name in places),
            frames=np.array([place for stack in frames for place in stack]),
            starts=np.concatenate(([0], np.cumsum([len(stack) for stack in frames]))),
            run=np.array([run for run, _, _ in entries]),
            stack=np.array([stack for _, stack, _ in entries]),
            weight=np.array([weight for _, _, weight in entries]),
        )

    return make
