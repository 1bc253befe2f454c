# SPDX-License-Identifier: GPL-2.0-or-later
"""List what is open: one row for all steps that are likely to have one cause."""

from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup
from msgspec import Struct

from schedperf.history.questions.open_steps import OpenStep
from schedperf.history.questions.recent import Recent
from schedperf.history.states import STATES
from schedperf.publish.dashboard.chart import CLASSES, draw_sparkline
from schedperf.publish.dashboard.lab import Lab, Machine, describe_result, short
from schedperf.publish.dashboard.shown import Shown
from schedperf.publish.dashboard.words import describe_level
from schedperf.publish.pages.site import Entry

# From the answer that says most.
_ANSWERS = ("yes", "gone", "unclear", "no", "lost", "not measured")
_DATE = 10


class OpenResult(Struct, frozen=True, kw_only=True):
    """A result that has moved.

    :param key: series in which its change is largest
    """

    key: str
    name: str


class OpenRow(Struct, frozen=True, kw_only=True):
    """Open steps of one cause; the size is that of the largest one on a machine that has results.

    :param is_gone: whether none of the steps is there in the last nights
    :param is_new: whether it got its state in the last night, or since
    :param direction: "worse" if a step is worse
    :param state: the state of the step about which most is known
    :param machine: of the largest step
    :param results: that of the largest step first
    :param answers: each with the names of its machines
    :param kernels: the last one before the steps, and the first one since; "" if unknown
    :param machine_ids: of the machines that have a step
    """

    direction: str
    is_gone: bool
    is_new: bool
    tree: str
    since: str
    nights: int
    machine: Machine
    results: tuple[OpenResult, ...]
    size: str
    interval: str
    tone: str
    answers: tuple[tuple[str, str], ...]
    machine_ids: tuple[str, ...]
    metrics: tuple[str, ...]
    kernels: str
    record: Entry | None
    state: str
    state_since: str
    request: str
    sparkline: Markup


def list_open_rows(lab: Lab, recent: Mapping[str, Recent], shown: Shown) -> Iterator[OpenRow]:
    """Yield a row per cause, the newest one first.

    :param recent: the last nights of each series, by key
    """
    for steps in lab.open_causes:
        ordered = sorted(steps, key=lambda step: _size(step, lab), reverse=True)
        yield _row(ordered, lab, recent, shown)


def _size(step: OpenStep, lab: Lab) -> tuple[bool, float]:
    return step.found.series.key not in lab.lost, abs(step.now.change or 0.0)


def _row(
    steps: Sequence[OpenStep], lab: Lab, recent: Mapping[str, Recent], shown: Shown
) -> OpenRow:
    directions = [each.found.step.direction for each in steps]
    direction = "worse" if "worse" in directions else directions[0]
    largest = next(each for each in steps if each.found.step.direction == direction)
    series = largest.found.series
    known = max((each.found.step for each in steps), key=lambda step: STATES.index(step.state))
    decisions = lab.decisions.get(known.id, ())
    size, interval = describe_level(largest.now)
    # The first series of each result has its largest change.
    results: dict[str, str] = {describe_result(series): series.key}
    for each in steps:
        results.setdefault(describe_result(each.found.series), each.found.series.key)
    first = min(steps, key=lambda each: each.found.step.position)
    is_gone = all(each.is_gone for each in steps)
    state_since = decisions[-1].at[:_DATE] if decisions else ""
    kernels = ""
    if first.before and first.first:
        kernels = f"{shown.text(short(first.before))}..{shown.text(short(first.first))}"
    return OpenRow(
        direction=direction,
        is_gone=is_gone,
        is_new=lab.is_since_last_night(state_since),
        tree=series.tree,
        since=first.found.step.night[:_DATE],
        nights=max(each.nights for each in steps),
        machine=lab.machine(series),
        results=tuple(OpenResult(key=key, name=name) for name, key in results.items()),
        size=size,
        interval=interval,
        tone="suspected"
        if known.state == "suspected" or is_gone
        else CLASSES.get(direction, "moved"),
        answers=tuple(_answers(steps, lab)),
        machine_ids=tuple(dict.fromkeys(lab.machine(each.found.series).id for each in steps)),
        metrics=tuple(dict.fromkeys(each.found.series.metric for each in steps)),
        kernels=kernels,
        record=next(filter(None, (lab.of_step.get(each.found.step.id) for each in steps)), None),
        state=known.state,
        state_since=state_since,
        request=next(filter(None, (lab.request_of(each.found.step) for each in steps)), ""),
        sparkline=draw_sparkline(recent[series.key]),
    )


def _answers(steps: Sequence[OpenStep], lab: Lab) -> Iterator[tuple[str, str]]:
    """Yield each answer with the names of its machines; each machine has one."""
    of_machine: dict[str, str] = {}
    gone = {step.found.series.key for step in steps if step.is_gone}
    is_gone = len(gone) == len({step.found.series.key for step in steps})
    for step in steps:
        for each in step.machines:
            if each.series.key not in lab.machines:
                continue
            name = lab.machine(each.series).name
            was_there = is_gone and each.answer == "yes"
            answer: str = "gone" if was_there or each.series.key in gone else each.answer
            answer = "lost" if each.series.key in lab.lost else answer
            before = of_machine.get(name, _ANSWERS[-1])
            of_machine[name] = min(answer, before, key=_ANSWERS.index)
    for answer in _ANSWERS:
        if names := sorted(name for name, given in of_machine.items() if given == answer):
            yield answer, ", ".join(names)
