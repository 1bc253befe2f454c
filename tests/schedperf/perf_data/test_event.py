# SPDX-License-Identifier: GPL-2.0-or-later
"""The attributes of a recording say which event it holds, whatever perf called it."""

from typing import Any

import pytest

from schedperf.model.perf_event import PerfEvent
from schedperf.perf_data import read_perf_data
from schedperf.perf_data.event import identify_event
from schedperf_collectors.perf_header import TYPE_HARDWARE, Event

RAW = 4
PMUS = {RAW: "cpu", 8: "ibs_op", 10: "cpu_atom"}


def identify(name: str, kind: int, config: int = 0, **chosen: Any) -> PerfEvent:
    event = Event(
        name=name, type=kind, config=config, rate=1, by_frequency=False, sample_type=0,
        read_format=0, clockid=None, ids=(), **{"precise_ip": 0, **chosen},
    )  # fmt: skip
    return identify_event(event, PMUS)


@pytest.mark.parametrize(
    ("excluded", "precise_ip", "modifiers"),
    [
        (set(), 0, ""),
        ({"user", "hv"}, 0, "k"),
        ({"hv"}, 0, "uk"),
        ({"kernel", "hv", "idle"}, 2, "uIpp"),
    ],
)
def test_modifiers_are_what_the_kernel_was_asked_for(
    excluded: set[str], precise_ip: int, modifiers: str
) -> None:
    # perf's own word for the highest precise level says less than the level that it got.
    event = identify("cycles:P", TYPE_HARDWARE, excluded=frozenset(excluded), precise_ip=precise_ip)
    assert (event.name, event.modifiers) == ("cycles", modifiers)


def test_guests_and_the_host_are_counted_unless_excluded() -> None:
    assert identify("cycles", TYPE_HARDWARE, excluded=frozenset({"guest"})).guests is False
    only_guests = identify("cycles:G", TYPE_HARDWARE, excluded=frozenset({"host"}))
    assert (only_guests.host, only_guests.guests) == (False, True)


@pytest.mark.parametrize(
    ("name", "kind", "config", "expected"),
    [
        ("cycles", TYPE_HARDWARE, 0, ("cycles", None)),
        ("cycles", TYPE_HARDWARE, 10 << 32, ("cycles", "cpu_atom")),
        ("cpu_core/cycles/", TYPE_HARDWARE, 11 << 32, ("cycles", "cpu_core")),
        ("cpu/mem-loads,ldlat=30/P", RAW, 0x1CD, ("mem-loads,ldlat=30", "cpu")),
        ("r1cd", RAW, 0x1CD, ("r1cd", "cpu")),
        ("ibs_op//", 8, 0, ("ibs_op", "ibs_op")),
        ("uncore_x/y/", 99, 0, ("y", "uncore_x")),
        ("type 99 config 0x0", 99, 0, ("type 99 config 0x0", None)),
    ],
)
def test_a_pmu_is_named_by_perf_or_by_its_number(
    name: str, kind: int, config: int, expected: tuple[str, str | None]
) -> None:
    event = identify(name, kind, config)
    assert (event.name, event.pmu) == expected


@pytest.mark.system
def test_what_perf_was_asked_for_is_read_back(recorded_with: Any) -> None:
    path = recorded_with("-e", "cpu-clock:k,task-clock:u,page-faults")
    recording = read_perf_data(path, "perf.data")
    found = [identify_event(event, recording.features.pmus) for event in recording.events]
    asked = {event.name: (event.modifiers, event.pmu) for event in found}
    expected = {"cpu-clock": "k", "task-clock": "u", "page-faults": ""}
    assert asked.items() >= {name: (word, "software") for name, word in expected.items()}.items()
