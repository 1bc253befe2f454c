# SPDX-License-Identifier: GPL-2.0-or-later
"""Group the steps of a history by their cause: those of one tree that share a possible night.

A commit moves several results on several machines, so people count and read causes, not steps.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.json import decode
from sqlalchemy import select

from schedperf.history.questions.history import History
from schedperf.history.questions.listing import SeriesStep, list_steps
from schedperf.history.states import is_open
from schedperf.history.store.nights import night_of
from schedperf.history.store.tables import STEP_CHANGE

# Names of numbers of the first decision about a step: positions of nights.
EARLIEST, LATEST, FOUND = "earliest", "latest", "found"
REFUTED = ("not reproduced", "invalid")
_DATE = 10


class Suspicion(Struct, frozen=True, kw_only=True):
    """The first decision about a step.

    :param at: when it was made, ISO 8601
    :param earliest: position of the first night at which the step may have begun
    :param latest: position of the last such night
    :param found: night whose results showed the step, or the date of the decision
    """

    at: str
    earliest: int
    latest: int
    found: str


class CausedStep(Struct, frozen=True, kw_only=True):
    """A step with its series and its first decision."""

    shown: SeriesStep
    suspicion: Suspicion

    @property
    def id(self) -> str:
        return self.shown.step.id

    @property
    def state(self) -> str:
        return self.shown.step.state


class Cause(Struct, frozen=True, kw_only=True):
    """Steps that are likely to have one cause, the one that was found first leads.

    :param steps: in the order in which they were found
    """

    steps: tuple[CausedStep, ...]

    @property
    def leader(self) -> CausedStep:
        return self.steps[0]

    @property
    def direction(self) -> str:
        """Return "worse" if a step is worse, else the direction of the first one."""
        directions = [each.shown.step.direction for each in self.steps]
        return "worse" if "worse" in directions else directions[0]

    @property
    def is_open(self) -> bool:
        """Return whether something is left to be done about a step."""
        return any(is_open(each.state) for each in self.steps)

    @property
    def machines(self) -> tuple[str, ...]:
        """Return the machine classes of the steps."""
        return tuple(dict.fromkeys(each.shown.series.machine_class for each in self.steps))


def list_suspected(history: History) -> tuple[CausedStep, ...]:
    """Return all steps with their first decisions, also those that were refuted.

    :raises InputError: the database cannot be read
    """
    suspicions = _read_suspicions(history)
    return tuple(
        CausedStep(shown=each, suspicion=_suspicion(each, suspicions.get(each.step.id)))
        for each in list_steps(history)
    )


def find_causes(history: History) -> tuple[Cause, ...]:
    """Return the causes of all steps that were not refuted, in the order in which they were found.

    :raises InputError: the database cannot be read
    """
    steps = [each for each in list_suspected(history) if each.state not in REFUTED]
    by_tree: dict[object, list[CausedStep]] = {}
    for step in steps:
        by_tree.setdefault(_tree_of(step), []).append(step)
    causes = [cause for of_tree in by_tree.values() for cause in _join(of_tree)]
    return tuple(sorted(causes, key=lambda each: _order(each.leader)))


def cause_of(history: History, step: str) -> Cause:
    """Return the cause of a step; a step that was refuted is alone.

    :param step: its identity
    :raises InputError: no such step
    """
    known = history.step(step)
    for cause in find_causes(history):
        if known.id in {each.id for each in cause.steps}:
            return cause
    [alone] = [each for each in list_suspected(history) if each.id == known.id]
    return Cause(steps=(alone,))


def _tree_of(step: CausedStep) -> object:
    """Return what steps of one cause share; orders of a foreign history are its own."""
    series = step.shown.series
    is_dated = step.shown.step.day is not None
    return (series.tree,) if is_dated else (series.tree, series.machine_class, series.workload)


def _join(steps: Iterable[CausedStep]) -> Iterator[Cause]:
    """Yield the causes of steps of one tree: all steps of a cause share a possible night."""
    joined: list[CausedStep] = []
    latest = 0
    ordered = sorted(steps, key=lambda each: (each.suspicion.earliest, each.suspicion.latest))
    for step in ordered:
        if joined and step.suspicion.earliest > latest:
            yield _cause(joined)
            joined = []
        last = step.suspicion.latest
        latest = min(latest, last) if joined else last
        joined.append(step)
    if joined:
        yield _cause(joined)


def _cause(steps: Iterable[CausedStep]) -> Cause:
    return Cause(steps=tuple(sorted(steps, key=_order)))


def _order(step: CausedStep) -> tuple[str, str, str]:
    # Times of decisions have seconds, so that several steps have one.
    return step.suspicion.found, step.suspicion.at, step.id


def _read_suspicions(history: History) -> Mapping[str, tuple[str, str]]:
    """Return time and numbers of the first decision about each step."""
    query = select(STEP_CHANGE.c.step_id, STEP_CHANGE.c.at, STEP_CHANGE.c.numbers).where(
        STEP_CHANGE.c.number == 0
    )
    with history.database.transaction() as connection:
        return {row.step_id: (row.at, row.numbers) for row in connection.execute(query)}


def _suspicion(step: SeriesStep, first: tuple[str, str] | None) -> Suspicion:
    at, text = first or ("", "{}")
    numbers = decode(text, type=dict[str, float])
    place = step.step.position
    found = numbers.get(FOUND)
    return Suspicion(
        at=at,
        earliest=int(numbers.get(EARLIEST, place)),
        latest=int(numbers.get(LATEST, place)),
        found=(None if found is None else night_of(int(found))) or at[:_DATE],
    )
