# SPDX-License-Identifier: GPL-2.0-or-later
"""The parser of placement.json: what is written is read, what cannot be is refused in one line."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.placement.capture import (
    MOST_LEVELS,
    MOST_NODES,
    Invisible,
    PlacementCapture,
    parse_placement,
)
from schedperf.model.errors import BundleError, InputError

Make = Callable[..., Any]


def parse(content: Any) -> PlacementCapture:
    return parse_placement(json.dumps(content).encode(), "base.tar: placement.json")


def test_what_the_collector_writes_is_read(make_placement: Make) -> None:
    found = parse(make_placement())
    assert (found.mechanism, found.seconds, found.nodes) == ("bpf", 2.0, {0: 0, 1: 0, 2: 1, 3: 1})
    assert [one.count for one in found.moves if one.is_crossing] == [100, 300]
    assert found.moves[3].cause == "load_balance"
    assert found.switches_by_depth == {0: 100, 2: 300}
    assert found.answers.destination is not None
    assert [one.to_node for one in found.answers.destination] == [None, 1]
    assert found.latency[1].log2_ns[12] == 5000
    assert [one.group for one in found.timers] == ["/a", "/b"]
    assert found.invisible == (Invisible(what="find_idlest_cpu", reason="inlined"),)


def test_what_is_invisible_is_none_and_not_zero(make_placement: Make) -> None:
    hidden = {"destination": None, "source": None, "migratable": None, "group_imbalance": None}
    found = parse(make_placement(balance=hidden | {"attempts": []}, timers=[]))
    assert found.answers.attempts == ()
    assert found.answers.migratable is None
    assert parse(make_placement(balance=None)).answers.attempts is None


def test_what_names_the_levels_is_read_where_it_is_said(make_placement: Make) -> None:
    assert parse(make_placement()).levels_from is None
    assert parse(make_placement(levels_from="domains")).levels_from == "domains"
    with pytest.raises(BundleError, match="levels_from"):
        parse(make_placement(levels_from="guesses"))


def test_depths_that_are_said_twice_are_added(make_placement: Make) -> None:
    rows = [{"depth": 1, "switches": 2}, {"depth": 1, "switches": 3}]
    assert parse(make_placement(depth=rows)).switches_by_depth == {1: 5}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"schema": "schedperf/bpf_placement/2"}, 'schema is .*/2" .expected ".*/1"'),
        ({"mechanism": "ftrace"}, 'mechanism is "ftrace" \\(expected "bpf" or "perf"'),
        ({"seconds": 0}, r"seconds is 0 \(expected float > 0"),
        ({"seconds": 1e300}, r"seconds is 1e\+300 \(expected float <= 100000000.0"),
        ({"seconds": True}, r"seconds is true \(expected float"),
        ({"nodes": {"cpu0": 0}}, r"nodes is invalid \(expected int, got str"),
        ({"nodes": {"9999": 0}}, r"nodes is invalid \(expected int <= 8191"),
        ({"nodes": {"0": MOST_NODES}}, r"nodes\[...\] is invalid \(expected int <= 1023"),
        ({"moves": [{}]}, r"moves\[0\].event is missing"),
        ({"moves": {"event": "fork"}}, r"moves is .* \(expected array"),
        ({"series": {"step_s": 0.0, "rows": []}}, r"series.step_s is 0.0 \(expected float > 0"),
        ({"series": None}, r"series is null \(expected object"),
        ({"depth": [{"depth": 5000, "switches": 1}]}, r"depth\[0\].depth is 5000 .*int <= 4095"),
        ({"lost": {"events": -1}}, r"lost\[...\] is invalid \(expected int >= 0"),
        ({"lost": {str(one): 0 for one in range(300)}}, r"lost is .* .*of length <= 256"),
        ({"programs": {str(one): {} for one in range(300)}}, r"programs is .* .*of length <= 256"),
        ({"programs": {"a": 3}}, r"programs\[...\] is invalid \(expected object, got int"),
        ({"notes": [7]}, r"notes\[0\] is 7 \(expected str"),
        ({"invisible": [{"what": "x"}]}, r"invisible\[0\].reason is missing"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(
    make_placement: Make, change: Any, problem: str
) -> None:
    with pytest.raises(
        BundleError, match=rf"^base\.tar: placement\.json: (key in )?\$\.{problem}"
    ) as caught:
        parse(make_placement(**change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "change", "problem"),
    [
        ("moves", {"event": "vfork"}, r'event is "vfork" \(expected "exec" or "fork" or'),
        ("moves", {"cause": "magic"}, r'cause is "magic" \(expected "affinity" or'),
        ("moves", {"level": ""}, r'level is "" \(expected str of length >= 1'),
        ("moves", {"level": "x" * 5000}, r"level is .* \(expected str of length <= 4096"),
        ("moves", {"count": 2**63}, "invalid JSON: number too large"),
        ("latency", {"log2_ns": [1] * 39}, r"log2_ns is .* \(expected array of length >= 40"),
        ("latency", {"log2_ns": [1.5] * 40}, r"log2_ns\[0\] is 1.5 \(expected int"),
        ("timers", {"phases": [0] * 65}, r"phases is .* \(expected array of length <= 64"),
        ("timers", {"period_ns": 0}, r"period_ns is 0 \(expected int >= 1"),
        ("timers", {"group": 7}, r"group is 7 \(expected str"),
    ],
)
def test_a_part_that_cannot_be_is_refused(
    make_placement: Make, part: str, change: Any, problem: str
) -> None:
    content = make_placement()
    content[part][0] |= change
    with pytest.raises(BundleError, match=problem):
        parse(content)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("destination", {"to_node": -1}),
        ("destination", {"fork": 1}),
        ("source", {"answer": "perhaps"}),
        ("attempts", {"idle": "bored"}),
        ("attempts", {"pulled": -5}),
        ("migratable", {"answer": None}),
        ("group_imbalance", {"count": "many"}),
    ],
)
def test_an_answer_of_the_balancer_that_cannot_be_is_refused(
    make_placement: Make, part: str, change: Any
) -> None:
    content = make_placement()
    content["balance"][part][0] |= change
    with pytest.raises(BundleError, match=rf"\$\.balance\.{part}\[0\]\.{next(iter(change))} is"):
        parse(content)


def test_endless_lists_are_refused(make_placement: Make, make_move: Make, make_timer: Make) -> None:
    levels = [make_move("fork", 1, level=f"L{one}") for one in range(MOST_LEVELS + 1)]
    with pytest.raises(
        BundleError,
        match=r"\$: 35 scheduling-domain levels \(expected at most 32\); copy the file again",
    ):
        parse(make_placement(moves=levels))
    with pytest.raises(BundleError, match=r"timers is .* \(expected array of length <= 4096"):
        parse(make_placement(timers=[make_timer(f"/{one}") for one in range(4097)]))
    with pytest.raises(BundleError, match=r"notes is .* \(expected array of length <= 256"):
        parse(make_placement(notes=["x"] * 300))
    row = {"event": "fork", "cause": None, "crossing": True, "counts": [0] * 5000}
    with pytest.raises(BundleError, match=r"counts is .* \(expected array of length <= 4096"):
        parse(make_placement(series={"step_s": 0.1, "rows": [row]}))


def test_a_file_that_is_cut_off_anywhere_is_refused(make_placement: Make) -> None:
    content = json.dumps(make_placement()).encode()
    for end in range(0, len(content), 97):
        with pytest.raises(BundleError, match=r"^x: "):
            parse_placement(content[:end], "x")


@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_and_nothing_else(
    make_placement: Make, data: st.DataObject
) -> None:
    content = bytearray(json.dumps(make_placement()).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    problem = ""
    try:
        parse_placement(bytes(content), "x")
    except InputError as error:
        problem = str(error)
    assert not problem or (problem.startswith("x: ") and "\n" not in problem)
