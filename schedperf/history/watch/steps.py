# SPDX-License-Identifier: GPL-2.0-or-later
"""Keep each lasting change of a series as one object, a step, from the alarm to its end.

Alarms of all nights and the decisions about them make the steps::

    steps = form_steps(alarms, decisions)

The same alarms and decisions always make the same steps, so nothing else has to be stored. A step
that is still there the next night stays the same step; so does one whose place moves within its
95% confidence set when a night comes late.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import astuple, replace

from schedperf.history.series import SeriesKey
from schedperf.history.watch.state import Alarm
from schedperf.model.errors import InputError
from schedperf.model.rows import Better, digest_of
from schedperf.model.text import clean_line, list_some

# Digits of the name of a step.
STEP_DIGITS = 12

Status = Literal[
    "suspected",
    "not-reproduced",
    "reproduced",
    "range-known",
    "first-bad-known",
    "reported",
    "answered",
    "fixed",
    "accepted",
    "invalid",
    "stale",
]
Direction = Literal["regression", "improvement", "change"]

_ENDS: tuple[Status, ...] = ("fixed", "accepted", "invalid", "stale")
_SEARCHED: tuple[Status, ...] = ("range-known", "first-bad-known", "reported")
# Which statuses may follow; what is not a key is the end.
_NEXT: Mapping[Status, tuple[Status, ...]] = {
    "suspected": ("reproduced", "not-reproduced", *_ENDS),
    "not-reproduced": ("reproduced", "invalid"),
    "reproduced": (*_SEARCHED, *_ENDS),
    "range-known": (*_SEARCHED[1:], *_ENDS),
    "first-bad-known": (*_SEARCHED[2:], *_ENDS),
    "reported": ("answered", *_ENDS),
    "answered": _ENDS,
    "stale": ("answered", "fixed", "accepted", "invalid"),
}


class StepKey(Struct, frozen=True, kw_only=True, order=True):
    """The identity of a step.

    :param place: order of the first night of the new level
    :param rises: whether the new level is the larger one
    """

    series: SeriesKey
    place: int
    rises: bool

    @property
    def name(self) -> str:
        """Return 12 digits that name the step on a command line."""
        return digest_of([*astuple(self.series), self.place, self.rises])[:STEP_DIGITS]


class Decision(Struct, frozen=True, kw_only=True):
    """What a person or a retest decided about a step.

    :param step: key of the step at that time
    :param time: in seconds since 1970
    :param status: of the step from then on; None if it stays
    :param place: another place, which a person has named; None if it stays
    :param reason: why, in words
    """

    step: StepKey
    time: int
    status: Status | None
    place: int | None
    reason: str


class Step(Struct, frozen=True, kw_only=True):
    """A lasting change of a series.

    :param key: its identity: the place is the one of the first alarm
    :param place: its place now
    :param alarm: the first alarm
    :param decisions: oldest first
    """

    key: StepKey
    status: Status
    place: int
    alarm: Alarm
    decisions: tuple[Decision, ...]

    def direction(self, better: Better) -> Direction:
        """Return whether the step is a regression, by the better direction of its metric."""
        if better == "unknown":
            return "change"
        return "improvement" if self.key.rises == (better == "higher") else "regression"

    @property
    def is_open(self) -> bool:
        """Return whether anything is left to be done about it."""
        return self.status not in {*_ENDS, "not-reproduced"}

    def concerns(self, key: StepKey) -> bool:
        """Return whether a key names this step, although its place may have been another one."""
        is_same = (self.key.series, self.key.rises) == (key.series, key.rises)
        return is_same and (
            key.place in (self.key.place, self.place)
            or self.alarm.earliest <= key.place <= self.alarm.latest
        )


class Steps(Struct, frozen=True, kw_only=True):
    """All steps of some series, and the decisions that concern none of them.

    :param steps: in the order of their alarms
    :param unmatched: e.g. decisions about a step of nights that are no longer in the store
    """

    steps: tuple[Step, ...]
    unmatched: tuple[Decision, ...]


class News(Struct, frozen=True, kw_only=True):
    """What changed from one night to the next.

    :param new: steps that were not there before
    :param changed: steps with another status or place than before
    """

    new: tuple[Step, ...]
    changed: tuple[Step, ...]


def form_steps(alarms: Iterable[Alarm], decisions: Iterable[Decision]) -> Steps:
    """Return the steps that alarms and decisions make.

    :param alarms: of any number of series; those of one series oldest first
    :param decisions: oldest first
    :raises InputError: for a decision that cannot follow those before it
    """
    by_series: dict[SeriesKey, list[Step]] = {}
    for alarm in alarms:
        _add_alarm(by_series.setdefault(alarm.key, []), alarm)
    unmatched = []
    for decision in decisions:
        of_series = by_series.get(decision.step.series, [])
        if (index := _find(of_series, decision.step)) is None:
            unmatched.append(decision)
        else:
            of_series[index] = decide(of_series[index], decision)
    steps = sorted(
        (step for of_series in by_series.values() for step in of_series),
        key=lambda step: (step.alarm.found, step.key),
    )
    return Steps(steps=tuple(steps), unmatched=tuple(unmatched))


def decide(step: Step, decision: Decision) -> Step:
    """Return a step after one more decision.

    :raises InputError: if the new status cannot follow the one that the step has
    """
    status = decision.status or step.status
    allowed = _NEXT.get(step.status, ())
    if decision.status is not None and status not in allowed:
        expected = list_some(allowed, len(allowed)) or "none, since the step is closed"
        raise InputError(
            f"step {step.key.name} of {clean_line(step.key.series.workload)}: {status!r} cannot "
            f"follow {step.status!r} (expected {expected}); see its earlier decisions"
        )
    return replace(
        step,
        status=status,
        place=step.place if decision.place is None else decision.place,
        decisions=(*step.decisions, decision),
    )


def find_news(before: Iterable[Step], now: Iterable[Step]) -> News:
    """Return what is new in steps, e.g. since the night before."""
    known = {step.key: (step.status, step.place) for step in before}
    now = tuple(now)
    return News(
        new=tuple(step for step in now if step.key not in known),
        changed=tuple(
            step
            for step in now
            if step.key in known and known[step.key] != (step.status, step.place)
        ),
    )


def _add_alarm(steps: list[Step], alarm: Alarm) -> None:
    key = StepKey(series=alarm.key, place=alarm.place, rises=alarm.rises)
    if _find(steps, key) is None:
        steps.append(
            Step(key=key, status="suspected", place=alarm.place, alarm=alarm, decisions=())
        )


def _find(steps: Sequence[Step], key: StepKey) -> int | None:
    """Return the index of the step that a key concerns: the newest one, an equal key first."""
    near = [index for index, step in enumerate(steps) if step.concerns(key)]
    exact = [index for index in near if steps[index].key == key]
    return next(reversed(exact or near), None)
