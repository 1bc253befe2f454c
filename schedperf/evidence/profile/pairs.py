# SPDX-License-Identifier: GPL-2.0-or-later
"""Determine which events of two sides are comparable, and why others are not."""

from collections.abc import Iterable, Iterator

from schedperf.inputs.perf_data.event import EventIdentity
from schedperf.model.perf_event import counts_level
from schedperf_collectors.perf_header import Event

# Meaning of modifiers, by letter.
_LEVELS = {"u": "user space", "k": "the kernel", "h": "the hypervisor"}


def describe_unpaired(
    side: str, base: Iterable[EventIdentity], new: Iterable[EventIdentity]
) -> Iterator[str]:
    """Yield a sentence for each event that is not compared, or that may differ between the sides.

    An event is not compared if only one side has it; two events of one name with different
    attributes share one sentence. An event of which only a number is known may differ.

    :param side: name of the new side
    """
    of_base, of_new = dict.fromkeys(base), dict.fromkeys(new)
    only_new = [event for event in of_new if event not in of_base]
    for event in of_base:
        if event in of_new:
            if event.is_numbered:
                yield (
                    f"{event.label}: perf.data does not record the event's name, and kernels "
                    "number events differently, so the sides may have sampled different events; "
                    "record both sides again"
                )
            continue
        alike = next((other for other in only_new if other.name == event.name), None)
        if alike is None:
            yield f"{event.label} was sampled on base only, so it is not compared"
            continue
        only_new.remove(alike)
        yield (
            f"{event.spelled} of base and {alike.spelled} of {side} are different events "
            f"({', '.join(_differences(event, alike, side))}), so they are not compared; record "
            "the same event on both sides"
        )
    for event in only_new:
        yield f"{event.label} was sampled on {side} only, so it is not compared"


def describe_targets(side: str, base: Iterable[Event], new: Iterable[Event]) -> Iterator[str]:
    """Yield a sentence if one side sampled whole CPUs and the other only tasks.

    :param side: name of the new side
    :param base: events with samples in base
    """
    of_base, of_new = ({event.is_of_tasks for event in events} for events in (base, new))
    if len(of_base) == len(of_new) == 1 and of_base != of_new:
        of_cpus, of_tasks = ("base", side) if False in of_base else (side, "base")
        yield (
            f"shares are not comparable, because {of_cpus} has samples of whole CPUs (perf record "
            f"-a or -C) and {of_tasks} only of a command or tasks; record both sides the same way"
        )


def _differences(base: EventIdentity, new: EventIdentity, side: str) -> Iterator[str]:
    for name, event, other in (("base", base, new), (side, new, base)):
        without = [
            level
            for letter, level in _LEVELS.items()
            if counts_level(other.modifiers, letter) and not counts_level(event.modifiers, letter)
        ]
        if without:
            yield f"{name} does not count {' or '.join(without)}"
    if base.host != new.host:
        yield f"{side if base.host else 'base'} counts guests only"
    if ("I" in base.modifiers) != ("I" in new.modifiers):
        yield f"{'base' if 'I' in base.modifiers else side} does not count the idle task"
    levels = [event.modifiers.count("p") for event in (base, new)]
    if levels[0] != levels[1]:
        yield f"precise level {levels[0]} in base and {levels[1]} in {side}"
    if base.pmu != new.pmu:
        yield f"PMU {base.pmu or 'not recorded'} in base and {new.pmu or 'not recorded'} in {side}"
    if base.config != new.config:
        yield "config in perf_event_attr differs"
    if base.number != new.number:
        yield "the position among the events of the same name differs"
