# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the status screens of a lab and of a night, at most 80 columns wide."""

from collections.abc import Iterator
from datetime import date, datetime
from textwrap import wrap

from msgspec import Struct

from schedperf.history.questions.history import open_history
from schedperf.history.questions.lost import Lost, read_lost
from schedperf.history.store import is_store
from schedperf.history.store.directory import open_directory
from schedperf.lab.night.lab import Lab, Machine
from schedperf.lab.night.recording import read_boots
from schedperf.lab.night.requests import Waits, find_tasks
from schedperf.lab.night.state import (
    STEPS,
    Night,
    StepName,
    StepState,
    Store,
    find_nights,
    is_running,
)
from schedperf.lab.night.steps import RECORDINGS
from schedperf.model.text import clean, clean_line

COLUMNS = 80
# More series of one machine are counted.
_MOST_SERIES = 5
_MEANINGS: dict[StepName, str] = {
    "prepare": "check the machine and choose the kernels",
    "record": "boot the kernels alternately and record",
    "compare": "compare",
    "history": "add the night to the history, and watch all series",
    "requests": "retest and bisect what the history requests",
    "records": "write the records of steps that were reproduced",
    "publish": "write the pages",
    "draft": "write the mails, held",
    "digest": "write the digest of the week, held",
}


class MachineStatus(Struct, frozen=True, kw_only=True):
    """The last night of a machine; None if it had none.

    :param runs: whether a night runs now
    """

    machine: Machine
    store: Store | None
    night: Night | None
    runs: bool

    @property
    def is_bad(self) -> bool:
        """Return whether there is no night, or it has no result, or a step of it failed."""
        night = self.night
        return night is None or night.failed or any(step.problem for step in night.steps.values())


def read_machine(lab: Lab, machine: Machine) -> MachineStatus:
    """Return the last night of a machine.

    :raises InputError: its state cannot be read
    """
    nights = find_nights(lab.folder_of(machine))
    store = nights[-1] if nights else None
    night = None if store is None else store.read()
    runs = is_running(lab.folder_of(machine))
    return MachineStatus(machine=machine, store=store, night=night, runs=runs)


def read_lab_lost(lab: Lab) -> Lost | None:
    """Return what has no result; None before the first night is in the store.

    :raises InputError: the store cannot be read
    """
    if not is_store(lab.store):
        return None
    with open_history(lab.store) as history:
        return read_lost(history, date.today())  # noqa: DTZ011 # of this place


def is_lost(lost: Lost | None) -> bool:
    """Return whether a machine, a series or a whole night has no result."""
    return lost is not None and bool(lost.series or lost.machines or lost.night.is_late)


def draw_lab(lab: Lab, machines: list[MachineStatus]) -> Iterator[str]:
    """Yield a line per machine."""
    width = max(len("machine"), *(len(each.machine.name) for each in machines))
    yield f"{'machine':<{width}}  {'night':<12}  state"
    for each in machines:
        name = f"{each.machine.name:<{width}}"
        if each.night is None or each.store is None:
            yield f"{name}  {'none':<12}  start one with: schedperf night run {lab.path}"
            continue
        state = _state(each, each.store, each.night)
        yield from _wrap(f"{name}  {each.night.id:<12}  {state}", " " * (width + 16))


def draw_requests(lab: Lab, machines: list[Machine]) -> Iterator[str]:
    """Yield a line per open request that a machine could take: whether it waits, and why.

    :raises InputError: the store cannot be read
    """
    if not is_store(lab.store):
        return
    directory = open_directory(lab.store)
    for machine in machines:
        for each in find_tasks(lab, machine, directory):
            why = each.why if isinstance(each, Waits) else "next"
            request = each.request
            what = f"{request.kind} {request.id} on {machine.name} ({request.why})"
            yield from _wrap(f"request: {what}: {why}")


def draw_lost(lost: Lost) -> Iterator[str]:
    """Yield a line for each thing that has no result."""
    if lost.night.is_late:
        yield from _wrap(
            f"lost: whole nights: the last result is of {lost.night.night}, {lost.night.days} days "
            "ago"
        )
    for machine in lost.machines:
        yield from _wrap(f"lost: machine {machine.machine}: {_since(machine.last, machine.nights)}")
    machines = {each.machine for each in lost.machines}
    series = [each for each in lost.series if each.series.machine_class not in machines]
    for each in series[:_MOST_SERIES]:
        where = f"{each.series.name} ({each.series.workload}, {each.series.machine_class})"
        yield from _wrap(f"lost: series {where}: {_since(each.last, each.nights)}")
    if len(series) > _MOST_SERIES:
        yield f"lost: {len(series) - _MOST_SERIES} more series"


def draw_night(lab: Lab, status: MachineStatus) -> Iterator[str]:
    """Yield the lines of the screen of a night."""
    machine, store, night = status.machine, status.store, status.night
    assert store is not None
    assert night is not None
    tree = "" if night.tree is None else f" of {night.tree}"
    yield from _wrap(f"night {night.id}{tree}: {night.job} on {night.machine} ({machine.reach})")
    for kernel in night.kernels:
        yield from _wrap(f"  {kernel.name}: {kernel.release}")
    yield ""
    yield f"  {'step':<8} {'state':<12} {'since':<17} result"
    for name in STEPS:
        if name in night.steps:
            step = night.steps[name]
            yield from _wrap(_describe(name, step, store, runs=status.runs), " " * 41)
    yield ""
    for note in night.notes:
        yield from _wrap(f"note: {note}")
    if night.outcome is not None:
        yield from _wrap(f"result: {night.outcome}")
    following = night.following
    if following is None:
        return
    verb = "running" if status.runs else "not running; next"
    yield from _wrap(f"{verb}: {following}: {_MEANINGS[following]}")
    if not status.runs:
        yield from _wrap(f"go on with: schedperf night run {lab.path}")


def _state(status: MachineStatus, store: Store, night: Night) -> str:
    """Return how far a night is, and its result."""
    following = night.following
    if following is None:
        return night.outcome or ""
    step = night.steps.get(following, StepState())
    boots = read_boots(store.path / RECORDINGS[following]) if following in RECORDINGS else None
    how = "running" if status.runs else "not running"
    done = "" if boots is None else f", {boots.done} of {boots.total} boots"
    parts = (f"{following} ({how}{done})", step.problem, night.outcome)
    return "; ".join(filter(None, parts))


def _since(last: str | None, nights: int) -> str:
    since = "no result yet" if last is None else f"no result since {last}"
    return f"{since} ({nights} nights)"


def _describe(name: StepName, step: StepState, store: Store, *, runs: bool) -> str:
    result = step.result or step.problem or ""
    if step.ended:
        state = "given up" if step.problem else "done"
    elif step.problem:
        state = f"failed ({step.failures})" if step.failures else "waiting"
    else:
        state = "running" if runs else "interrupted"
    recording = RECORDINGS.get(name)
    boots = read_boots(store.path / recording) if recording and not step.ended else None
    if boots is not None:
        result = "; ".join(filter(None, (f"{boots.done} of {boots.total} boots", result)))
    return f"  {name:<8} {state:<12} {_local(step.ended or step.began):<17} {clean_line(result)}"


def _local(text: str | None) -> str:
    """Convert a time of the state to local time; "unknown" for an invalid or missing one."""
    try:
        return f"{datetime.fromisoformat(text or '').astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return "unknown"


def _wrap(text: str, indent: str = "    ") -> list[str]:
    """Wrap a text to lines of at most 80 columns; all but the first one are indented."""
    return wrap(clean(text), COLUMNS, subsequent_indent=indent, break_on_hyphens=False)
