# SPDX-License-Identifier: GPL-2.0-or-later
"""Events are told apart by name, PMU and modifiers, however perf spells them."""

import pytest

from schedperf.model.perf_event import parse_event


@pytest.mark.parametrize(
    ("text", "name", "pmu", "modifiers"),
    [
        ("cycles", "cycles", None, ""),
        ("cycles:k", "cycles", None, "k"),
        ("cycles:hku", "cycles", None, "ukh"),
        ("cycles:ppp", "cycles", None, "ppp"),
        ("cycles:DIuP", "cycles", None, "uIP"),
        ("cpu_core/cycles/u", "cycles", "cpu_core", "u"),
        ("cpu_core/cycles/", "cycles", "cpu_core", ""),
        ("cpu/mem-loads,ldlat=30/P", "mem-loads,ldlat=30", "cpu", "P"),
        ("ibs_op//", "ibs_op", "ibs_op", ""),
        ("sched:sched_switch", "sched:sched_switch", None, ""),
        ("sched:sched_switch:u", "sched:sched_switch", None, "u"),
        ("anything/else", "anything/else", None, ""),
        ("", "", None, ""),
    ],
)
def test_an_event_is_read_as_perf_prints_it(
    text: str, name: str, pmu: str | None, modifiers: str
) -> None:
    event = parse_event(text)
    assert (event.name, event.pmu, event.modifiers) == (name, pmu, modifiers)
    assert (event.host, event.guests) == (None, None)


@pytest.mark.parametrize(
    ("text", "counted"),
    [("cycles:G", (False, True)), ("cycles:kH", (True, False)), ("cpu/cycles/GH", (True, True))],
)
def test_host_and_guests_are_known_where_one_is_named(
    text: str, counted: tuple[bool, bool]
) -> None:
    event = parse_event(text)
    assert (event.host, event.guests) == counted
