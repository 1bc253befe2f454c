# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute how an event is distributed over the types of CPU cores.

A hybrid machine has a PMU per type, and perf counts an event on each of them: ``cpu_core/cycles/``
and ``cpu_atom/cycles/`` are two events. Shares are relative to the sum over all types.
"""

import re
from collections.abc import Iterable, Mapping

from schedperf.model.host import CoreType
from schedperf.model.perf_event import PerfEvent, parse_event

# PMUs of hybrid Intel CPUs, used if host.json does not list the PMUs.
_INTEL = re.compile(r"cpu_(?:core|atom|lowpower)")


def pmus_of_types(types: Mapping[str, CoreType], events: Iterable[str]) -> frozenset[str]:
    """Return the PMUs of the types of CPU cores; empty if there is only one type.

    :param types: core types from host.json
    :param events: counted events
    """
    pmus = {core.pmu for core in types.values() if core.pmu is not None}
    if not pmus:
        pmus = {pmu for pmu in map(_pmu_of, events) if pmu is not None and _INTEL.fullmatch(pmu)}
    return frozenset(pmus) if len(pmus) > 1 else frozenset()


def shares_by_type(counts: Mapping[str, float], pmus: frozenset[str]) -> dict[str, float]:
    """Return the share of each event that was counted on all types of CPU cores.

    >>> shares_by_type({"cpu_core/cycles/": 30.0, "cpu_atom/cycles/": 10.0, "cs": 7.0},
    ...                frozenset({"cpu_core", "cpu_atom"}))
    {'cpu_core/cycles/': 0.75, 'cpu_atom/cycles/': 0.25}

    :param counts: by event
    """
    same: dict[PerfEvent, dict[str, str]] = {}
    for event in counts:
        parsed = parse_event(event)
        if parsed.pmu in pmus:
            same.setdefault(_without_pmu(parsed), {})[parsed.pmu] = event
    shares: dict[str, float] = {}
    for by_pmu in same.values():
        total = sum(counts[event] for event in by_pmu.values())
        if by_pmu.keys() == pmus and total:
            shares |= {event: counts[event] / total for event in by_pmu.values()}
    return shares


def why_not_counted(event: str, printed: str) -> str:
    """Return why an event of a run has no count.

    :param printed: perf's text in place of the value
    """
    pmu = _pmu_of(event)
    return f"perf reports {printed}" if pmu is None else f"perf reports {printed} on {pmu}"


def _pmu_of(event: str) -> str | None:
    return parse_event(event).pmu


def _without_pmu(event: PerfEvent) -> PerfEvent:
    return PerfEvent(
        name=event.name, pmu=None, modifiers=event.modifiers, host=event.host, guests=event.guests
    )
