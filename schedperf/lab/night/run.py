# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a night step by step, or continue an unfinished one."""

from collections.abc import Callable
from datetime import datetime

from schedperf.lab.night import steps
from schedperf.lab.night.job import JobFile
from schedperf.lab.night.process import Commands, Interrupted
from schedperf.lab.night.state import (
    STEPS,
    Night,
    NightError,
    StepName,
    StepState,
    Store,
    find_nights,
    locked,
    new_store,
    now,
)
from schedperf.model.errors import SchedperfError
from schedperf.model.text import clean_line

# A step that has failed this often ends the night, so that the next one can begin.
MOST_FAILURES = 3
_LONGEST = 1000

Say = Callable[[str], None]


def run_night(job: JobFile, say: Say, *, again: bool = False) -> int:
    """Continue the unfinished night, or start a new one; return 0 if it has ended with a result.

    At its end, however it ended, it is added to the history of the job.

    :param say: called with one line at the begin and at the end of each step, and of the night
    :param again: record the kernels even if the last night has a result for them
    :raises SchedperfError: the night cannot continue now, ended without a result, or another night
        runs; ``exit_status`` of the error distinguishes the cases
    """
    with locked(job.out) as lock:
        store, night, previous = _open(job)
        commands = Commands(store.path, lock)
        context = steps.Context(job, store, night, commands, previous, again=again)
        try:
            while night.outcome is None:
                _take(context, _following(night), say)
        finally:
            if night.outcome is not None and not night.is_over:
                _take(context, "history", say)
        say(f"night {night.id}: {night.outcome}")
        return int(night.failed)


def _following(night: Night) -> StepName:
    """Return the first step that has not ended."""
    return next(name for name in STEPS if night.step(name).ended is None)


def is_unfinished(job: JobFile) -> bool:
    """Return whether there is a night, and the last one is unfinished.

    :raises InputError: the state of the last night cannot be read
    """
    nights = find_nights(job.out)
    return bool(nights) and not nights[-1].read().is_over


def _open(job: JobFile) -> tuple[Store, Night, Night | None]:
    """Return folder and state of the night to run, and the previous night; None without one.

    :raises NightError: the unfinished night belongs to another job, or the state of a new night
        cannot be written
    :raises InputError: the state of a night cannot be read
    """
    nights = find_nights(job.out)
    last = nights[-1].read() if nights else None
    if last is not None and not last.is_over:
        _check_same(job, last, nights[-1])
        return nights[-1], last, nights[-2].read() if len(nights) > 1 else None
    store = new_store(job.out, f"{datetime.now():%Y-%m-%d}")  # noqa: DTZ005 # of this place
    night = Night(
        id=store.path.name, machine=job.machine.name, job=job.job.name, store=job.site.store
    )
    store.write(night)
    return store, night, last


def _check_same(job: JobFile, night: Night, store: Store) -> None:
    """Check that the unfinished night belongs to this job.

    :raises NightError: the night belongs to another job
    """
    if (night.machine, night.job) != (job.machine.name, job.job.name):
        raise NightError(
            f"{store.path}: unfinished night of {night.job} on {night.machine} (expected "
            f"{job.job.name} on {job.machine.name}); give each job file its own site.out"
        )


def _take(context: steps.Context, name: StepName, say: Say) -> None:
    """Run one step; write the state before and after it.

    :raises SchedperfError: the step failed; :class:`steps.Failed` if the night has ended thereby
    """
    night, store = context.night, context.store
    step = night.step(name)
    step.began, step.problem = now(), None
    store.write(night)
    say(f"night {night.id}: {name}")
    try:
        context.check_space()
        result = steps.ALL[name](context)
    except Interrupted:
        raise
    except SchedperfError as error:
        _fail(context, name, error)
        if name == "history":
            if night.is_over:
                say(f"night {night.id}: {night.notes[-1]}")
                return
        elif night.outcome is not None:
            raise steps.Failed(night.outcome) from error
        raise
    step.ended, step.result = now(), result.text[:_LONGEST]
    if result.outcome is not None:
        night.outcome = result.outcome[:_LONGEST]
    store.write(night)
    say(f"night {night.id}: {name} done: {result.text}")


def _fail(context: steps.Context, name: StepName, error: SchedperfError) -> None:
    """Record why a step failed; end the night if it cannot continue, or after three failures.

    A step that may not run now (:class:`steps.NotNow`) has not failed.
    """
    night, step = context.night, context.night.step(name)
    step.problem = clean_line(str(error))[:_LONGEST]
    step.failures += not isinstance(error, steps.NotNow)
    if name == "history":
        _give_up_history(context, step)
    elif isinstance(error, steps.Failed) or step.failures >= MOST_FAILURES:
        night.failed = True
        night.outcome = f"failed in {name}: {step.problem}"[:_LONGEST]
        _free(context, name)
    context.store.write(night)


def _give_up_history(context: steps.Context, step: StepState) -> None:
    """Let the next night begin, although this one is not in the store."""
    if step.failures < MOST_FAILURES:
        return
    step.ended = now()
    words = f"schedperf history add --store {context.night.store} {context.store.path}"
    note = f"not in the history: {step.problem}; when that is mended: {words}"
    context.night.notes = (*context.night.notes, note[:_LONGEST])


def _free(context: steps.Context, name: StepName) -> None:
    """Stop the recording of a failed night, so that the machine boots its default kernel."""
    prefix = steps.recording_of(context, name)
    boots = None if prefix is None else steps.read_boots(prefix)
    if boots is not None and not boots.is_over:
        context.commands.schedperf("stop", ["ab", "stop", "-o", str(prefix)])
