# SPDX-License-Identifier: GPL-2.0-or-later
"""Which event a perf.data holds, from the attributes that the kernel was given."""

from collections.abc import Mapping

from schedperf.model.perf_event import IDLE, LEVELS, PRECISE, PerfEvent, parse_event
from schedperf_collectors.perf_header import TYPE_HARDWARE, Event

# Hybrid CPUs keep the number of the PMU in the upper half of a hardware event's config.
_PMU_SHIFT = 32
_LEVELS = dict(zip(LEVELS, ("user", "kernel", "hv"), strict=True))


def identify_event(event: Event, pmus: Mapping[int, str] | None) -> PerfEvent:
    """Return the event as the kernel was asked for it.

    :param pmus: names of the machine's PMUs by the number that is an event's type; None: unknown
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
