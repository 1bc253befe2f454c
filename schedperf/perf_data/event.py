# SPDX-License-Identifier: GPL-2.0-or-later
"""Identify the event of a perf.data from its ``perf_event_attr``."""

from collections.abc import Mapping

from schedperf.model.perf_event import IDLE, LEVELS, PRECISE, PerfEvent, parse_event
from schedperf_collectors.perf_header import TYPE_HARDWARE, Event

# On hybrid CPUs the upper half of a hardware event's config is the type of its PMU.
_PMU_SHIFT = 32
_LEVELS = dict(zip(LEVELS, ("user", "kernel", "hv"), strict=True))


def identify_event(event: Event, pmus: Mapping[int, str] | None) -> PerfEvent:
    """Return name, PMU and modifiers of an event.

    :param pmus: names of the machine's PMUs by event type; None if not recorded
    """
    is_of_core = event.type == TYPE_HARDWARE
    number = event.config >> _PMU_SHIFT if is_of_core else event.type
    unnumbered = is_of_core and not number
    printed = parse_event(event.name)
    return PerfEvent(
        name=parse_event(event.plain_name).name,
        pmu=printed.pmu or (None if unnumbered else (pmus or {}).get(number)),
        modifiers=_modifiers(event),
        host="host" not in event.excluded,
        guests="guest" not in event.excluded,
    )


def _modifiers(event: Event) -> str:
    counted = [letter for letter, level in _LEVELS.items() if level not in event.excluded]
    levels = "".join(counted) if len(counted) < len(LEVELS) else ""
    idle = IDLE if "idle" in event.excluded else ""
    return f"{levels}{idle}{PRECISE[0] * event.precise_ip}"
