# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the nights of a machine step by step, or continue unfinished ones.

The nights of a date are those of the trees, one after the other. When all have their results, the
steps after them follow.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime

from msgspec import Struct

from schedperf.lab.night.after import AFTER_STEPS, OWN, SHARED
from schedperf.lab.night.context import Context, Failed, NotNow, Result
from schedperf.lab.night.lab import Lab, Machine, Tree
from schedperf.lab.night.process import Commands, Interrupted
from schedperf.lab.night.recording import free
from schedperf.lab.night.state import (
    MAIN,
    AfterName,
    Night,
    NightError,
    StepName,
    Store,
    find_nights,
    in_turn,
    locked,
    new_store,
    now,
)
from schedperf.lab.night.steps import MAIN_STEPS, RECORDINGS, Step
from schedperf.lab.reserve import reserved
from schedperf.model.errors import SchedperfError
from schedperf.model.text import clean_line

# A step that has failed this often is given up, so that the next night can begin.
MOST_FAILURES = 3
_LONGEST = 1000
_LAB_LOCK = "lab.lock"
# What holds the reservation of the machine.
_RESERVED = "reserved.json"
# How long the steps of the whole lab may take on another machine.
_TURN_S = 3600.0

Say = Callable[[str], None]


class _Opened(Struct, frozen=True, kw_only=True):
    """A night, its folder, and the tree that it tests."""

    store: Store
    night: Night
    tree: Tree


def run_nights(lab: Lab, machine: Machine, say: Say, *, again: bool = False) -> int:
    """Continue the unfinished nights of a machine, or start new ones: one per tree.

    :param say: called with one line at the begin and at the end of each step, and of each night
    :param again: record the kernels even if the last night has a result for them
    :return: 0 if they have ended with a result, 1 if one has none
    :raises SchedperfError: they cannot continue now, or others run on this machine; ``exit_status``
        of the error distinguishes the cases
    """
    out = lab.folder_of(machine)
    with locked(out) as lock:
        contexts = [
            Context(
                lab,
                machine,
                each.tree,
                store=each.store,
                night=each.night,
                commands=Commands(each.store.path, lock),
                previous=_previous(lab, machine, each),
                again=again,
            )
            for each in _open_nights(lab, machine)
        ]
        needs_machine = any(not each.night.has_ended("requests") for each in contexts)
        how = machine.reserve if needs_machine else None
        with reserved(how, machine.name, out / _RESERVED):
            for context in contexts:
                _find_result(context, say)
            _follow_up_all(contexts, OWN, say)
        _follow_up_all(contexts, SHARED, say)
        failed = [context.night for context in contexts if context.night.failed]
        for context in contexts:
            say(f"{_title(context)}: {context.night.outcome}")
    return int(bool(failed))


def unfinished_nights(lab: Lab, machine: Machine) -> Sequence[Night]:
    """Return the unfinished ones of the last nights of a machine.

    :raises InputError: the state of a night cannot be read
    """
    return [night for _, night in _last_nights(lab, machine) if not night.is_over]


def _last_nights(lab: Lab, machine: Machine) -> list[tuple[Store, Night]]:
    """Return the nights that the last start of a machine's nights made; [] if there is none."""
    found: list[tuple[Store, Night]] = []
    for store in reversed(find_nights(lab.folder_of(machine))):
        night = store.read()
        if found and night.start != found[0][1].start:
            break
        found.insert(0, (store, night))
    return found


def _open_nights(lab: Lab, machine: Machine) -> list[_Opened]:
    """Return the unfinished nights of a machine; new ones if there is none.

    :raises NightError: a night is of a tree that the lab has no more, or a state cannot be written
    :raises InputError: the state of a night cannot be read
    """
    trees = {tree.name: tree for tree in lab.trees_of(machine)}
    last = _last_nights(lab, machine)
    if all(night.is_over for _, night in last):
        last = []
    opened = []
    for store, night in last:
        if night.machine != machine.name or night.tree not in trees:
            raise NightError(
                f"{store.path}: unfinished night of {night.tree or night.job} on {night.machine} "
                f"(expected one of {lab.path}); give each lab its own site.out, or move it away"
            )
        opened.append(_Opened(store=store, night=night, tree=trees[night.tree]))
    begun = {each.night.tree for each in opened}
    for name, tree in trees.items():
        if name not in begun:
            opened.append(_begin(lab, machine, tree, opened[0].night.start if opened else ""))
    return opened


def _begin(lab: Lab, machine: Machine, tree: Tree, first: str) -> _Opened:
    """Make the folder and the state of a new night.

    :param first: id of the first night of this start; "" if this is it
    """
    today = f"{datetime.now():%Y-%m-%d}"  # noqa: DTZ005 # of this place
    store = new_store(lab.folder_of(machine), today)
    night = Night(
        id=store.path.name,
        machine=machine.name,
        job=", ".join(job.name for job in lab.jobs_of(machine))[:_LONGEST],
        tree=tree.name,
        first=first or store.path.name,
    )
    store.write(night)
    return _Opened(store=store, night=night, tree=tree)


def _previous(lab: Lab, machine: Machine, opened: _Opened) -> Night | None:
    """Return the night of the tree before a night; None if there is none."""
    for store in reversed(find_nights(lab.folder_of(machine))):
        if store.path == opened.store.path:
            continue
        night = store.read()
        if night.tree == opened.tree.name and night.start != opened.night.start:
            return night
    return None


def _find_result(context: Context, say: Say) -> None:
    """Run the steps until a night has its result, or has none.

    :raises SchedperfError: the night cannot continue now
    """
    night = context.night
    while night.outcome is None:
        name = next(name for name in MAIN if not night.has_ended(name))
        try:
            result = _take(context, name, MAIN_STEPS[name], say)
        except Interrupted:
            raise
        except SchedperfError as error:
            _fail(context, name, error)
            if night.outcome is None:
                raise
            say(f"{_title(context)}: {night.outcome}")
        else:
            _end(context, name, result, say)


def _follow_up_all(contexts: Sequence[Context], names: Sequence[AfterName], say: Say) -> None:
    """Run steps after the result, each for the nights of all trees."""
    for name in names:
        for context in contexts:
            if not context.night.has_ended(name):
                _follow_up(context, name, say)


def _follow_up(context: Context, name: AfterName, say: Say) -> None:
    """Run a step after the result.

    :raises SchedperfError: it failed, but not so often that it is given up
    """
    try:
        with ExitStack() as stack:
            if name in SHARED:
                context = _with_lock(context, stack)
            result = _take(context, name, AFTER_STEPS[name], say)
    except Interrupted:
        raise
    except SchedperfError as error:
        _fail(context, name, error)
        if not context.night.has_ended(name):
            raise
        say(f"{_title(context)}: {context.night.notes[-1]}")
    else:
        _end(context, name, result, say)


def _with_lock(context: Context, stack: ExitStack) -> Context:
    """Return the same while other machines of the lab wait."""
    lock = stack.enter_context(in_turn(context.lab.out / _LAB_LOCK, _TURN_S))
    return context.holding(lock)


def _take(context: Context, name: StepName, run: Step, say: Say) -> Result:
    """Run one step; write the state before it.

    :raises SchedperfError: the step failed
    """
    night = context.night
    step = night.step(name)
    step.began, step.problem = now(), None
    context.store.write(night)
    say(f"{_title(context)}: {name}")
    context.check_space()
    return run(context)


def _end(context: Context, name: StepName, result: Result, say: Say) -> None:
    """Write the state after a step."""
    night, step = context.night, context.night.step(name)
    step.ended, step.result = now(), clean_line(result.text)[:_LONGEST]
    if result.outcome is not None:
        night.outcome = clean_line(result.outcome)[:_LONGEST]
    context.store.write(night)
    say(f"{_title(context)}: {name} done: {step.result}")


def _fail(context: Context, name: StepName, error: SchedperfError) -> None:
    """Record why a step failed; give it up if it cannot succeed, or after three failures.

    A step that may not run now (:class:`NotNow`) has not failed.
    """
    night, step = context.night, context.night.step(name)
    step.problem = clean_line(str(error))[:_LONGEST]
    step.failures += not isinstance(error, NotNow)
    if isinstance(error, Failed) or step.failures >= MOST_FAILURES:
        if name in MAIN:
            night.failed = True
            night.outcome = f"failed in {name}: {step.problem}"[:_LONGEST]
            if name in RECORDINGS:
                # The machine boots its default kernel.
                free(context, context.file(RECORDINGS[name]))
        else:
            step.ended = now()
            night.note(f"{name}: given up: {step.problem}{_advice(context, name)}"[:_LONGEST])
    context.store.write(night)


def _advice(context: Context, name: StepName) -> str:
    """Return how to do by hand what a night could not."""
    if name != "history":
        return "; the next night does it again"
    add = f"schedperf history add --store {context.lab.store} {context.store.path}"
    return f"; when that is mended: {add}"


def _title(context: Context) -> str:
    """Return how messages name a night."""
    night = context.night
    return f"night {night.machine}/{night.id}" if context.lab.has_folders else f"night {night.id}"
