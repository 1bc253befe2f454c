# SPDX-License-Identifier: GPL-2.0-or-later
"""Folded lines and speedscope files: what other viewers read of our stacks."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.profile.export import EXPORTS
from schedperf.evidence.profile.stacks import Stacks

MakeStacks = Callable[..., Stacks]


def folded(*events: Stacks) -> list[str]:
    return "".join(EXPORTS["folded"](events)).splitlines()


def speedscope(*events: Stacks) -> Any:
    return json.loads("".join(EXPORTS["speedscope"](events)))


def test_one_side_has_one_number_a_stack(make_stacks: MakeStacks) -> None:
    stacks = make_stacks([{"main;write": 7.0, "main;read;lock": 30.0}])
    assert folded(stacks) == ["main;read;lock 30", "main;write 7"]


def test_two_sides_have_base_and_new_of_each_stack(make_stacks: MakeStacks) -> None:
    base, new = [{"a;b": 4.0, "a;old": 1.0}], [{"a;b": 6.0, "a;came": 2.0}]
    assert folded(make_stacks(base, new)) == ["a;b 4 6", "a;came 0 2", "a;old 1 0"]


def test_the_runs_of_a_side_are_averaged(make_stacks: MakeStacks) -> None:
    assert folded(make_stacks([{"a": 4.0}, {"a": 6.0, "b": 2.0}])) == ["a 5", "b 1"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("operator()(int)::{lambda 7}", "operator()(int)::{lambda 7}"),
        ("two\nlines", "two lines"),
        ("tab\there\r", "tab here"),
        ("\x1b[31mred\u202e", "[31mred"),
        ("", "[unnamed]"),
        ("\x00\x01", "[unnamed]"),
    ],
)
def test_a_name_cannot_break_a_line(name: str, shown: str, make_stacks: MakeStacks) -> None:
    assert folded(make_stacks([{f"main;{name}": 3.0}])) == [f"main;{shown} 3"]


def test_a_semicolon_in_a_name_is_no_border(make_stacks: MakeStacks) -> None:
    stacks = make_stacks([{"main;evil": 3.0}])
    evil = stacks.places[1]._replace(symbol="a;b;c")
    stacks = replace(stacks, places=(stacks.places[0], evil))
    assert folded(stacks) == ["main;a:b:c 3"]


def test_several_events_are_told_apart_by_their_outermost_frame(make_stacks: MakeStacks) -> None:
    cycles, faults = make_stacks([{"a": 9.0}]), make_stacks([{"a": 2.0}], event="page-faults")
    assert folded(cycles, faults) == ["cycles;a 9", "page-faults;a 2"]


def test_a_stack_that_rounds_to_nothing_is_no_line(make_stacks: MakeStacks) -> None:
    assert folded(make_stacks([{"a": 1.0, "b": 0.2}])) == ["a 1"]


def test_speedscope_has_a_profile_for_each_side_and_event(make_stacks: MakeStacks) -> None:
    base, new = [{"a;b": 4.0, "a": 1.0}], [{"a;b": 6.0}]
    found = speedscope(make_stacks(base, new), make_stacks(base, new, event="cpu-clock"))
    profiles = found["profiles"]
    assert [(one["name"], one["unit"]) for one in profiles] == [
        ("base: cycles", "none"),
        ("new: cycles", "none"),
        ("base: cpu-clock", "nanoseconds"),
        ("new: cpu-clock", "nanoseconds"),
    ]
    assert [one["endValue"] for one in profiles] == [5, 6, 5, 6]
    names = [frame["name"] for frame in found["shared"]["frames"]]
    samples = [[names[frame] for frame in sample] for sample in profiles[0]["samples"]]
    assert dict(zip(map(tuple, samples), profiles[0]["weights"], strict=True)) == {
        ("a",): 1,
        ("a", "b"): 4,
    }


def test_equal_beginnings_of_stacks_stand_together(make_stacks: MakeStacks) -> None:
    # A viewer draws neighbours with the same frames as one box.
    found = speedscope(make_stacks([{"a;b": 1.0, "c": 1.0, "a;d": 1.0, "c;b": 1.0}]))
    outermost = [sample[0] for sample in found["profiles"][0]["samples"]]
    assert outermost == sorted(outermost)
