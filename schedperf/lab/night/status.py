# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the status screen of a night, at most 80 columns wide."""

from collections.abc import Iterator
from datetime import datetime
from textwrap import wrap

from schedperf.lab.night.job import JobFile
from schedperf.lab.night.state import STEPS, Night, StepName, StepState, Store, is_running
from schedperf.lab.night.steps import RECORDINGS, read_boots
from schedperf.model.text import clean, clean_line

COLUMNS = 80
_MEANINGS: dict[StepName, str] = {
    "prepare": "check the machine and choose the kernels",
    "record": "boot the kernels alternately and record",
    "compare": "compare",
    "retest": "record a regression again, on other boots",
    "confirm": "compare the retest",
    "culprit": "write the record of the commits",
    "publish": "write the pages",
    "draft": "write the mail, held",
    "history": "add the night to the history, and watch all series",
}


def draw(job: JobFile, store: Store, night: Night) -> Iterator[str]:
    """Yield the lines of the screen."""
    runs = is_running(job.out)
    yield from _wrap(f"night {night.id}: {night.job} on {night.machine} ({job.machine.reach})")
    for kernel in night.kernels:
        yield from _wrap(f"  {kernel.name}: {kernel.release}")
    yield ""
    yield f"  {'step':<8} {'state':<12} {'since':<17} result"
    for name in STEPS:
        if name in night.steps:
            yield from _wrap(_describe(name, night.steps[name], store, runs=runs), " " * 41)
    yield ""
    for note in night.notes:
        yield from _wrap(f"note: {note}")
    if night.outcome is not None:
        yield from _wrap(f"ended: {night.outcome}")
    if night.is_over:
        return
    following = (
        "history"
        if night.outcome is not None
        else next(name for name in STEPS if _is_open(night, name))
    )
    verb = "running" if runs else "not running; next"
    yield from _wrap(f"{verb}: {following}: {_MEANINGS[following]}")
    if not runs:
        yield from _wrap(f"go on with: schedperf night run {job.path}")


def _is_open(night: Night, name: StepName) -> bool:
    return name not in night.steps or night.steps[name].ended is None


def _describe(name: StepName, step: StepState, store: Store, *, runs: bool) -> str:
    result = step.result or step.problem or ""
    if step.ended:
        state = "done"
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
