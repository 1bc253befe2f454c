# SPDX-License-Identifier: GPL-2.0-or-later
"""Collect what ``history why`` shows of a step: its decisions, and what else moved with it."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from msgspec import Struct

from schedperf.history.questions.chains import ChainNight, read_chains
from schedperf.history.questions.change import correct
from schedperf.history.questions.history import History
from schedperf.history.questions.levels import LevelChange, Levels
from schedperf.history.questions.listing import SeriesStep, list_steps
from schedperf.history.questions.noise import WEEK
from schedperf.history.questions.records import Series, Step, StepChange

# Nights on each side that show whether another machine moved, too.
MOST_NIGHTS = 30


class Explained(Struct, frozen=True, kw_only=True):
    """A step, why it has its state, and what else moved with it.

    :param decisions: in their order
    :param together: other steps of all series that began within 7 nights of it
    :param machines: change of the same result at the same night on all machines, by up to 30 nights
        on each side
    """

    step: Step
    series: Series
    decisions: tuple[StepChange, ...]
    together: tuple[SeriesStep, ...]
    machines: tuple[LevelChange, ...]


def explain_step(history: History, name: str) -> Explained:
    """Return what is known about a step.

    :param name: its identity
    :raises InputError: no such step
    """
    name = history.step(name).id
    steps = list_steps(history)
    [shown] = [each for each in steps if each.step.id == name]
    return Explained(
        step=shown.step,
        series=shown.series,
        decisions=history.step_changes(name),
        together=tuple(each for each in steps if each.step.id != name and _is_near(each, shown)),
        machines=_on_machines(history, shown),
    )


def _is_near(one: SeriesStep, other: SeriesStep) -> bool:
    """Return whether two steps began within 7 nights; orders are those of one history each."""
    days = (one.step.day, other.step.day)
    if days[0] is not None and days[1] is not None:
        return abs(days[0] - days[1]) <= WEEK
    is_one_history = _history_of(one.series) == _history_of(other.series)
    return is_one_history and abs(one.step.position - other.step.position) <= WEEK


def _history_of(series: Series) -> tuple[str, str, str]:
    return series.machine_class, series.tree, series.workload


def _on_machines(history: History, shown: SeriesStep) -> tuple[LevelChange, ...]:
    """Return the changes of the series that differ only in their machine."""
    chains = read_chains(history)
    changes = [
        _change_at(history, each, chains, shown.step.position)
        for each in history.series()
        if _without_machine(each) == _without_machine(shown.series)
    ]
    return tuple(correct(changes))


def _without_machine(series: Series) -> tuple[str, ...]:
    return (series.tree, series.workload, series.point, series.metric, series.unit)


def _change_at(
    history: History, series: Series, chains: Mapping[str, Sequence[ChainNight]], position: int
) -> LevelChange:
    nights = history.nights(series)
    levels = Levels(series, nights, chains.get(series.key, ()))
    measured = [index for index, value in enumerate(levels.values) if value is not None]
    split = bisect_left(measured, position, key=lambda index: nights[index].position)
    return levels.compare(
        measured[max(0, split - MOST_NIGHTS) : split], measured[split : split + MOST_NIGHTS]
    )
