# SPDX-License-Identifier: GPL-2.0-or-later
"""Read from a history what a record holds about its steps."""

from collections.abc import Sequence

from schedperf.history.questions.causes import REFUTED, CausedStep, cause_of
from schedperf.history.questions.explain import explain_step
from schedperf.history.questions.history import History
from schedperf.history.questions.levels import LevelChange
from schedperf.history.questions.noise import noise_of
from schedperf.history.questions.records import Step
from schedperf.model.text import clean_line
from schedperf.publish.culprit.record import ElsewhereVerdict, SeenStep, StepElsewhere

# A change of less than this part of what was seen is none.
_PART = 0.5
# Steps of a cause that a record holds.
MOST_STEPS = 100


def read_steps(history: History, step: str, known: Sequence[SeenStep] = ()) -> tuple[SeenStep, ...]:
    """Return the steps that have one place and one cause with a step, the one found first leads.

    :param step: its identity
    :param known: those of the record so far, whose first one stays the first
    :raises InputError: no such step, it was refuted, or the database cannot be read
    """
    steps = cause_of(history, step).steps
    lead = known[0].step if known else steps[0].id
    ordered = sorted(steps, key=lambda each: each.id != lead)[:MOST_STEPS]
    first = ordered[0]
    seen = [_see(history, first, has_machines=True)]
    return (*seen, *(_see(history, each) for each in ordered[1:]))


def _see(history: History, step: CausedStep, *, has_machines: bool = False) -> SeenStep:
    found, series = step.shown.step, step.shown.series
    nights = history.nights(series)
    first = next(iter(history.step_changes(found.id)), None)
    refuted = [each for each in history.steps(series) if each.state in REFUTED]
    return SeenStep(
        step=found.id,
        series=series.key,
        machine_class=clean_line(series.machine_class),
        workload=series.workload,
        point=series.point,
        metric=series.metric,
        unit=series.unit,
        night=found.night,
        change=first.change if first else found.change,
        ci_low=first.ci_low if first else found.ci_low,
        ci_high=first.ci_high if first else found.ci_high,
        nights=noise_of(series, nights).nights,
        false_alarms=len(refuted),
        elsewhere=_elsewhere(history, found) if has_machines else (),
    )


def _elsewhere(history: History, step: Step) -> tuple[StepElsewhere, ...]:
    explained = explain_step(history, step.id)
    return tuple(
        StepElsewhere(
            machine=clean_line(each.series.machine_class),
            change=each.change if each.is_log else None,
            ci_low=each.ci_low if each.is_log else None,
            ci_high=each.ci_high if each.is_log else None,
            verdict=_judge(each, step),
        )
        for each in explained.machines
        if each.series.key != step.series
    )


def _judge(change: LevelChange, step: Step) -> ElsewhereVerdict:
    """Return whether another machine has the change of a step, by the CI of its own change."""
    if step.change is None or change.ci_low is None or change.ci_high is None or not change.is_log:
        return "unclear"
    sign = 1.0 if step.change > 0.0 else -1.0
    low, high = sorted((sign * change.ci_low, sign * change.ci_high))
    if low > 0.0:
        return "regressed"
    return "no regression" if high < _PART * abs(step.change) else "unclear"
