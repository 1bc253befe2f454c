# SPDX-License-Identifier: GPL-2.0-or-later
"""Identify the events of a perf.data from their ``perf_event_attr``."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from schedperf.inputs.perf_data._layout import ADDR, DATA_SRC
from schedperf.model.perf_event import IDLE, LEVELS, PRECISE, PerfEvent, parse_event
from schedperf_collectors.perf_header import (
    TYPE_HARDWARE,
    TYPE_SOFTWARE,
    TYPE_TRACEPOINT,
    Event,
)

# Names for events whose name perf did not write, because it was killed or wrote to a pipe. The
# kernel assigns the type numbers of dynamic PMUs and the configs of tracepoints at boot; the fixed
# types are part of its ABI.
_NUMBERED = re.compile(r"type (\d+) config ")
_FIXED_TYPES = (0, 1, 3, 4, 5)
# PERF_COUNT_SW_DUMMY.
_DUMMY = 9
# On hybrid CPUs the upper half of a hardware event's config is the type of its PMU.
_PMU_SHIFT = 32
_LEVELS = dict(zip(LEVELS, ("user", "kernel", "hv"), strict=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class EventIdentity:
    """The identity of an event, which decides whether samples are comparable.

    Samples of different events of one recording are never added up, and those of two sides are
    compared only if the identities are equal.

    :param printed: the event as perf prints it (``cycles:P``); not compared, because versions of
        perf print one event differently
    :param label: ``printed``, corrected if perf's spelling is wrong; unique in its recording; not
        compared
    :param name: without PMU and modifiers; the whole printed name if the recording has several
        events with equal attributes
    :param pmu: name of the PMU, or "type N" if only its number is known; None for tracepoints, for
        software events with a known name, and for hardware events without a PMU
    :param modifiers: modifiers according to the event's attribute: ``uppp``
    :param host: whether the host is counted
    :param config: other fields of the attribute that identify the event; () if the name suffices
    :param number: 0, or the index among events of one recording with equal attributes and names,
        e.g. one per cgroup
    """

    printed: str = field(compare=False)
    label: str = field(compare=False)
    name: str
    pmu: str | None
    modifiers: str
    host: bool
    config: tuple[int, ...]
    number: int = 0

    @property
    def is_numbered(self) -> bool:
        """Whether only a number is known, which may be another event on another machine or kernel.

        Numbers of the kernel's ABI are the same everywhere, so they do not count.
        """
        match = _NUMBERED.match(self.name)
        return match is not None and int(match[1]) not in _FIXED_TYPES

    @property
    def spelled(self) -> str:
        """The event in the syntax of ``man perf-list``, independent of what perf printed."""
        modifiers = f"{self.modifiers}{'' if self.host else 'G'}"
        if self.pmu is not None and "/" in self.label:
            return f"{self.pmu}/{self.name}/{modifiers}"
        return f"{self.name}:{modifiers}" if modifiers else self.name


def identify_events(
    events: Sequence[Event], pmus: Mapping[int, str] | None
) -> tuple[EventIdentity, ...]:
    """Return the identity of each event of a recording; no two are equal.

    :param pmus: names of the machine's PMUs by event type; None if not recorded
    """
    identities = [_identify(event, pmus) for event in events]
    # Events with equal attributes differ in the name that the user gave them, or in their cgroup,
    # which perf.data does not record.
    equal = Counter(identities)
    identities = [
        replace(identity, name=event.name) if equal[identity] > 1 else identity
        for identity, event in zip(identities, events, strict=True)
    ]
    seen: Counter[EventIdentity] = Counter()
    for index, identity in enumerate(identities):
        identities[index] = replace(identity, number=seen[identity])
        seen[identity] += 1
    return tuple(_label_apart(identities))


def _label_apart(identities: Sequence[EventIdentity]) -> list[EventIdentity]:
    # perf prints some different events alike: its default "cycles" has a precise level.
    printed = Counter(identity.label for identity in identities)
    labels = [
        identity.spelled if printed[identity.label] > 1 else identity.label
        for identity in identities
    ]
    seen: Counter[str] = Counter()
    apart = []
    for identity, label in zip(identities, labels, strict=True):
        seen[label] += 1
        number = f"#{seen[label]}" if seen[label] > 1 else ""
        apart.append(replace(identity, label=f"{label}{number}"))
    return apart


def _identify(event: Event, pmus: Mapping[int, str] | None) -> EventIdentity:
    named = identify_event(event, pmus)
    # Numbers of tracepoints and of most PMUs differ between kernels; their names do not.
    is_named = event.type == TYPE_TRACEPOINT or (
        event.type == TYPE_SOFTWARE and event.has_known_name
    )
    pmu = None if is_named else named.pmu
    if pmu is None and not is_named and event.type != TYPE_HARDWARE:
        pmu = f"type {event.type}"
    identity = EventIdentity(
        printed=event.name,
        label=event.name,
        name=named.name,
        pmu=pmu,
        modifiers=_printed_levels(event) + _idle(event) + ("" if is_named else _precise(event)),
        host="host" not in event.excluded,
        config=() if is_named else (event.config & _config_bits(event), *event.more_config),
    )
    # Old perf excludes the kernel without printing it; timers have no precise level.
    printed = set(parse_event(event.name).modifiers)
    is_true = printed & set(LEVELS) == set(_printed_levels(event)) and not event.is_misnamed
    is_timer = is_named and printed & set(PRECISE)
    return identity if is_true and not is_timer else replace(identity, label=identity.spelled)


def _config_bits(event: Event) -> int:
    return (1 << (_PMU_SHIFT if event.type == TYPE_HARDWARE else 64)) - 1


def _printed_levels(event: Event) -> str:
    # The modifiers that perf prints, if any and if correct; otherwise from the attribute. Some
    # versions of perf exclude the hypervisor by default, which matters on few machines.
    printed = [letter for letter in parse_event(event.name).modifiers if letter in LEVELS]
    counted = {letter for letter, level in _LEVELS.items() if level not in event.excluded}
    if set(printed) - {"h"} == counted - {"h"}:
        return "".join(printed)
    return "" if {"u", "k"} <= counted else "".join(filter(counted.__contains__, LEVELS))


def identify_event(event: Event, pmus: Mapping[int, str] | None) -> PerfEvent:
    """Return name, PMU and modifiers of an event, and whether it counts the host and guests.

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


def samples_memory(event: Event) -> bool:
    """Return whether samples of an event have data addresses and data sources.

    False for perf's dummy event, which requests both but never samples.
    """
    is_dummy = event.type == TYPE_SOFTWARE and event.config == _DUMMY
    return bool(event.sample_type & ADDR and event.sample_type & DATA_SRC) and not is_dummy


def _modifiers(event: Event) -> str:
    counted = [letter for letter, level in _LEVELS.items() if level not in event.excluded]
    levels = "".join(counted) if len(counted) < len(LEVELS) else ""
    return levels + _idle(event) + _precise(event)


def _idle(event: Event) -> str:
    return IDLE if "idle" in event.excluded else ""


def _precise(event: Event) -> str:
    return PRECISE[0] * event.precise_ip
