# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a night step by step; go on with an unfinished one."""

from collections.abc import Callable
from datetime import datetime

from schedperf.model.errors import SchedperfError
from schedperf.model.text import clean_line
from schedperf.night import steps
from schedperf.night.job import JobFile
from schedperf.night.process import Commands, Interrupted
from schedperf.night.state import (
    STEPS,
    Night,
    NightError,
    StepName,
    Store,
    find_nights,
    locked,
    new_store,
    now,
)

# A step that failed so often ends the night, so that the next one can begin.
MOST_FAILURES = 3
_LONGEST = 1000

Say = Callable[[str], None]


def run_night(job: JobFile, say: Say, *, again: bool = False) -> int:
    """Go on with the unfinished night, or start one; return the exit status.

    :param say: called with one line per step
    :param again: record the kernels although the last night has a result of them
    :raises SchedperfError: the night cannot go on now, or ended without an answer
    """
    with locked(job.out) as lock:
        store, night, previous = _open(job)
        commands = Commands(store.path, lock)
        context = steps.Context(job, store, night, commands, previous, again=again)
        for name in STEPS:
            if night.step(name).ended is None:
                _take(context, name, say)
            if night.outcome is not None:
                break
        say(f"night {night.id}: {night.outcome}")
        return 0


def is_unfinished(job: JobFile) -> bool:
    """Return whether the last night has not ended."""
    nights = find_nights(job.out)
    return bool(nights) and nights[-1].read().outcome is None


def _open(job: JobFile) -> tuple[Store, Night, Night | None]:
    """Return the night to run, and the one before."""
    nights = find_nights(job.out)
    last = nights[-1].read() if nights else None
    if last is not None and last.outcome is None:
        _check_same(job, last, nights[-1])
        return nights[-1], last, nights[-2].read() if len(nights) > 1 else None
    store = new_store(job.out, f"{datetime.now():%Y-%m-%d}")  # noqa: DTZ005 # of this place
    night = Night(id=store.path.name, machine=job.machine.name, job=job.job.name)
    store.write(night)
    return store, night, last


def _check_same(job: JobFile, night: Night, store: Store) -> None:
    """Check that the unfinished night is of this job.

    :raises NightError: it is of another one
    """
    if (night.machine, night.job) != (job.machine.name, job.job.name):
        raise NightError(
            f"{store.path}: unfinished night of {night.job} on {night.machine} (expected "
            f"{job.job.name} on {job.machine.name}); give each job file its own site.out"
        )


def _take(context: steps.Context, name: StepName, say: Say) -> None:
    """Take one step; what happens is written before and after it."""
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
        if night.outcome is not None:
            raise steps.Failed(night.outcome) from error
        raise
    step.ended, step.result = now(), result.text[:_LONGEST]
    night.outcome = None if result.outcome is None else result.outcome[:_LONGEST]
    store.write(night)
    say(f"night {night.id}: {name} done: {result.text}")


def _fail(context: steps.Context, name: StepName, error: SchedperfError) -> None:
    """Write why a step failed; end the night if it cannot go on."""
    night, step = context.night, context.night.step(name)
    step.problem = clean_line(str(error))[:_LONGEST]
    step.failures += not isinstance(error, steps.NotNow)
    if isinstance(error, steps.Failed) or step.failures >= MOST_FAILURES:
        night.failed = True
        night.outcome = f"failed in {name}: {step.problem}"[:_LONGEST]
        _free(context, name)
    context.store.write(night)


def _free(context: steps.Context, name: StepName) -> None:
    """End the recording of a failed night; the machine boots its default kernel."""
    prefix = steps.recording_of(context, name)
    boots = None if prefix is None else steps.read_boots(prefix)
    if boots is not None and not boots.is_over:
        context.commands.schedperf("stop", ["ab", "stop", "-o", str(prefix)])
