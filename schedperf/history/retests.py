# SPDX-License-Identifier: GPL-2.0-or-later
"""Retest steps of a store: what there is to reproduce, and what came out."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from schedperf.history.questions.history import open_history
from schedperf.history.questions.noise import noise_of
from schedperf.history.questions.records import Series, Step
from schedperf.history.questions.watched import better_of
from schedperf.history.states import StepState, may_follow
from schedperf.history.store.decisions import RequestEnd, RequestEnded
from schedperf.history.store.directory import Directory, Say
from schedperf.history.store.requests import find_open
from schedperf.history.store.writer import writing
from schedperf.model.errors import InputError

# States of steps that a retest decides; later ones say that one has.
_OPEN: tuple[StepState, ...] = ("suspected", "not reproduced")


class Suspect(Struct, frozen=True, kw_only=True):
    """A step to retest.

    :param seen: the change, new / base - 1; its sign is the direction
    :param boot_sd: standard deviation between boots, of logarithms; None if no night has two boots
        of a kernel
    :param base: revisions of the reference in the nights since the step, and of the kernels before
    :param new: revisions of the kernels in the nights since the step
    :param request: the open request to retest it; None without one
    """

    step: Step
    series: Series
    seen: float
    boot_sd: float | None
    base: frozenset[str]
    new: frozenset[str]
    request: str | None


class Outcome(Struct, frozen=True, kw_only=True):
    """What a retest showed.

    :param state: state of the step; None to leave it as it is
    :param change: new / base - 1, with its 95% CI; None if it was not measured
    :param boots: boots of each kernel
    :param reason: one line
    :param numbers: what the outcome is based on, by name
    """

    state: Literal["reproduced", "not reproduced"] | None
    change: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    boots: int
    reason: str
    numbers: Mapping[str, float]


def read_suspect(directory: Directory, step: str) -> Suspect:
    """Return a step that is to be retested.

    :param step: its identity
    :raises InputError: the step is unknown or was decided already, or the ratio of its change is
        unknown; or the store cannot be read
    """
    with open_history(directory.folder) as history:
        known = history.step(step)
        if known.state not in _OPEN:
            raise InputError(
                f"step {known.id}: its state is {known.state!r} (expected {' or '.join(_OPEN)}); "
                "to measure it again, retest a comparison (a file of compare --json)"
            )
        if not known.change:
            raise InputError(
                f"step {known.id}: the size of its change is not known as a ratio; retest a "
                "comparison (a file of compare --json)"
            )
        [series] = [each for each in history.series() if each.key == known.series]
        nights = history.nights(series)
        since = [night for night in nights if night.position >= known.position]
        before = {night.revision for night in nights if night.position < known.position}
        references = {night.reference_revision for night in since}
        return Suspect(
            step=known,
            series=series,
            seen=_directed(known, series),
            boot_sd=noise_of(series, nights).sd_boots,
            base=frozenset(filter(None, before | references)),
            new=frozenset(filter(None, (night.revision for night in since))),
            request=find_open(history.database, "retest", known.id),
        )


def store_outcome(
    directory: Directory, step: str, outcome: Outcome, say: Say, *, end: RequestEnd = "done"
) -> None:
    """Store the outcome of a retest as a decision, and end its request; both only once.

    A step that was closed in the meantime keeps its state.

    :param end: how the request has ended
    :raises InputError: the step is unknown, or the store cannot be written
    """
    with writing(directory, say) as writer, open_history(directory.folder) as history:
        known = history.step(step)
        is_new = outcome.state is not None and may_follow(known.state, outcome.state)
        decided = known.changed(
            outcome.state if is_new and outcome.state is not None else known.state,
            reason=outcome.reason,
            numbers=outcome.numbers,
        )
        # What was not reproduced keeps the change that was seen.
        if outcome.state == "reproduced":
            decided = replace(
                decided, change=outcome.change, ci_low=outcome.ci_low, ci_high=outcome.ci_high
            )
        last = history.step_changes(known.id)[-1]
        if (last.state, last.reason) != (decided.state, decided.reason):
            writer.commit([(decided, None)])
        request = find_open(history.database, "retest", known.id)
        if request is not None:
            ended = RequestEnded(
                request=request, state=end, boots=outcome.boots, reason=outcome.reason
            )
            writer.commit([(ended, None)])


def _directed(step: Step, series: Series) -> float:
    """Return the change of a step, whose sign is that of its direction.

    :raises InputError: both contradict each other
    """
    rises = {"higher": True, "lower": False}.get(step.direction)
    if rises is None:
        rises = (step.direction == "better") == (better_of(series) == "higher")
    assert step.change is not None
    if (step.change > 0.0) != rises:
        raise InputError(
            f"step {step.id}: its change ({step.change:+.1%}) is not in its direction "
            f"({step.direction}); see `schedperf history why`"
        )
    return step.change
