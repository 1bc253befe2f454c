# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the data that one kind of evidence computes and another needs.

Kinds of evidence do not import each other. The kind that has the data provides a function::

    @WAKEUPS.provide
    def count_wakeups(side: Side, run: Run) -> float | None:
        ...

and the section that needs the data declares it, and is called with this function::

    @section(Pelt, needs=WAKEUPS)
    def pelt(sides: Sequence[Side], count_wakeups: CountWakeups) -> Pelt:
        ...
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side

Function = TypeVar("Function", bound=Callable[..., object])


class Need(Generic[Function]):
    """A function that one kind of evidence provides, and others call.

    :param what: the data that the function computes, for messages: "contended samples"
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._function: Function | None = None

    def provide(self, function: Function) -> Function:
        """Register the decorated function as the one that provides the data."""
        self._function = function
        return function

    @property
    def function(self) -> Function:
        """The registered function.

        :raises LookupError: no imported module provides it
        """
        if self._function is None:
            raise LookupError(f"no kind of evidence provides {self._what}")
        return self._function


# Counts the contended memory samples (HITM, or peer snoops on Arm) by side, unit of the layout and
# entry; sides without samples are left out.
MeasureHeat = Callable[[Iterable[Side]], Mapping[str, Mapping[str, Mapping[str, int]]]]
HEAT: Need[MeasureHeat] = Need("contended samples")

# Counts the wakeups of a run; returns None if unknown.
CountWakeups = Callable[[Side, Run], float | None]
WAKEUPS: Need[CountWakeups] = Need("wakeups")

# Returns the names of the workload's tasks in a run; None if they were not recorded.
CommandsOfTasks = Callable[[Side, Run], Sequence[str] | None]
COMMANDS: Need[CommandsOfTasks] = Need("names of the workload's tasks")
