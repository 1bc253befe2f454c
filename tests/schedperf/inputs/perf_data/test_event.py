# SPDX-License-Identifier: GPL-2.0-or-later
"""The attributes of a recording say which event it holds, whatever perf called it."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from schedperf.inputs.perf_data import read_perf_data
from schedperf.inputs.perf_data.event import EventIdentity, identify_event, identify_events
from schedperf.model.perf_event import PerfEvent
from schedperf_collectors.perf_header import TYPE_HARDWARE, TYPE_SOFTWARE, TYPE_TRACEPOINT, Event
from schedperf_generators.installed_perf import perf_report

RAW = 4
PMUS = {RAW: "cpu", 8: "ibs_op", 10: "cpu_atom"}


def make_event(name: str, kind: int, config: int = 0, **chosen: Any) -> Event:
    return Event(
        name=name, type=kind, config=config, rate=1, by_frequency=False, sample_type=0,
        read_format=0, clockid=None, ids=(), **{"precise_ip": 0, **chosen},
    )  # fmt: skip


def identify(name: str, kind: int, config: int = 0, **chosen: Any) -> PerfEvent:
    return identify_event(make_event(name, kind, config, **chosen), PMUS)


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
def test_what_perf_was_asked_for_is_read_back(recorded_here_with: Any) -> None:
    path = recorded_here_with("-e", "cpu-clock:k,task-clock:u,page-faults")
    recording = read_perf_data(path, "perf.data")
    found = [identify_event(event, recording.features.pmus) for event in recording.events]
    asked = {event.name: (event.modifiers, event.pmu) for event in found}
    expected = {"cpu-clock": "k", "task-clock": "u", "page-faults": ""}
    assert asked.items() >= {name: (word, "software") for name, word in expected.items()}.items()


def identities(*events: Event, pmus: dict[int, str] | None = None) -> tuple[EventIdentity, ...]:
    return identify_events(events, PMUS if pmus is None else pmus)


def test_modifiers_make_another_event() -> None:
    user = make_event("cpu-clock:u", TYPE_SOFTWARE, excluded=frozenset({"kernel", "hv"}))
    kernel = make_event("cpu-clock:k", TYPE_SOFTWARE, excluded=frozenset({"user", "hv"}))
    both = make_event("cpu-clock", TYPE_SOFTWARE)
    found = identities(user, kernel, both)
    assert [identity.label for identity in found] == ["cpu-clock:u", "cpu-clock:k", "cpu-clock"]
    assert [identity.modifiers for identity in found] == ["u", "k", ""]
    assert len(set(found)) == len(found)


def test_versions_of_perf_print_one_event_differently() -> None:
    printed = ("cycles", "cycles:P", "cycles:ppp")
    found = {identities(make_event(name, TYPE_HARDWARE, precise_ip=3))[0] for name in printed}
    assert [identity.spelled for identity in found] == ["cycles:ppp"]


def test_an_excluded_level_is_spelled_where_perf_did_not_print_it() -> None:
    (found,) = identities(make_event("cycles", TYPE_HARDWARE, excluded=frozenset({"kernel", "hv"})))
    assert (found.label, found.modifiers) == ("cycles:u", "u")
    # Old perf counts the hypervisor with it.
    (old,) = identities(make_event("cycles:u", TYPE_HARDWARE, excluded=frozenset({"kernel"})))
    assert old == found


def test_an_event_that_perf_replaced_is_called_what_it_is() -> None:
    assert identities(make_event("cycles", TYPE_SOFTWARE))[0].label == "cpu-clock"
    # The user's own name for it is no other event.
    assert identities(make_event("mine", TYPE_SOFTWARE))[0].label == "mine"


def test_a_timer_has_no_precise_level() -> None:
    (found,) = identities(make_event("cpu-clock:ppp", TYPE_SOFTWARE, precise_ip=3))
    assert (found.label, found.printed) == ("cpu-clock", "cpu-clock:ppp")
    assert found == identities(make_event("cpu-clock", TYPE_SOFTWARE))[0]


def test_numbers_of_tracepoints_differ_between_kernels() -> None:
    (base,) = identities(make_event("sched:sched_switch", TYPE_TRACEPOINT, 300))
    (new,) = identities(make_event("sched:sched_switch", TYPE_TRACEPOINT, 317))
    assert base == new


def test_numbers_of_pmus_differ_between_machines() -> None:
    (base,) = identities(make_event("ibs_op//", 8), pmus={8: "ibs_op"})
    (new,) = identities(make_event("ibs_op//", 11), pmus={11: "ibs_op"})
    assert base == new


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"config": 0x1CD}, {"config": 0x1CE}),
        ({"more_config": (30, 0, 0)}, {"more_config": (50, 0, 0)}),
        ({"kind": 9}, {"kind": 10}),
    ],
)
def test_equal_names_of_different_attributes_are_different_events(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    both = [make_event(**{"name": "x", "kind": RAW, **chosen}) for chosen in (one, other)]
    found = identities(*both)
    assert found[0] != found[1]
    assert [identity.label for identity in found] == ["x", "x#2"]


def test_equal_events_of_one_recording_are_counted_apart() -> None:
    # perf.data does not record which is of which cgroup.
    found = identities(*[make_event("cycles", TYPE_HARDWARE)] * 2)
    assert [identity.label for identity in found] == ["cycles", "cycles#2"]
    assert found[0] != found[1]
    named = identities(make_event("a", TYPE_HARDWARE), make_event("b", TYPE_HARDWARE))
    swapped = identities(make_event("b", TYPE_HARDWARE), make_event("a", TYPE_HARDWARE))
    assert named == swapped[::-1]


@pytest.mark.system
def test_a_real_recording_of_three_modifiers_equals_perf_report(recorded_here_with: Any) -> None:
    path = recorded_here_with("-e", "cpu-clock:u", "-e", "cpu-clock:k", "-e", "cpu-clock")
    recording = read_perf_data(path, "perf.data")
    labels = [event.label for event in identify_events(recording.events, recording.features.pmus)]
    counts = np.bincount(recording.samples.event, recording.samples.count, len(labels))
    reported: Counter[str] = Counter()
    for row, counted in perf_report(path).items():
        reported[row.event] += counted.samples
    assert {label: n for label, n in zip(labels, counts, strict=True) if n} == reported
