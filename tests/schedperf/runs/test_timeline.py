# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.runs.timeline: runs of several bundles in one order."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from schedperf.runs.timeline import Moment, place_in_time

Runs = Sequence[Mapping[str, Any]]
Place = Callable[..., Mapping[tuple[str, str], Moment]]


@pytest.fixture
def place(make_bundle: Callable[..., Path], tmp_path: Path) -> Place:
    """Place the runs of bundles that are made of the given facts."""

    def place(*sides: Runs) -> Mapping[tuple[str, str], Moment]:
        paths = [
            make_bundle(tmp_path / f"{number}.tar", runs=list(runs))
            for number, runs in enumerate(sides)
        ]
        return place_in_time(name_sides([open_bundle(path) for path in paths]))

    return place


def at(second: int, **facts: object) -> dict[str, object]:
    return {"start": f"2026-11-21T02:00:{second:02}.000000Z", "session": "s", **facts}


def in_order(moments: Mapping[tuple[str, str], Moment]) -> list[str]:
    return [side for side, _ in sorted(moments, key=lambda key: moments[key].order or 0)]


def test_sessions_stand_in_the_order_of_the_clock(place: Place) -> None:
    base = [at(0, session="a"), at(20, session="c")]
    new = [at(10, session="b"), at(30, session="d")]
    assert in_order(place(base, new)) == ["base", "new", "base", "new"]


def test_one_session_keeps_its_order_when_the_clock_was_set(place: Place) -> None:
    base = [at(0, order=0), at(1, order=3)]
    new = [at(50, order=1), at(51, order=2)]
    assert in_order(place(base, new)) == ["base", "new", "new", "base"]


def test_a_session_during_which_the_clock_was_set_back_stands_at_its_beginning(
    place: Place,
) -> None:
    base = [at(10, session="a", order=0), at(20, session="a", order=1)]
    new = [at(30, session="b", order=0), at(5, session="b", order=1), at(15, session="b", order=2)]
    moments = place(base, new)
    assert in_order(moments) == ["base", "base", "new", "new", "new"]
    of_new = [moments["new", f"boots/0/runs/{number:03}"].order for number in range(3)]
    assert of_new == [2, 3, 4]


def test_without_a_clock_bundles_stand_one_after_the_other(place: Place) -> None:
    base = [{"start": None, "session": "a", "order": 7}]
    new = [{"start": None, "session": "b", "order": 0}]
    assert in_order(place(base, new)) == ["base", "new"]


def test_rounds_of_one_session_are_numbered_alike_on_both_sides(place: Place) -> None:
    runs = [at(number, order=number, round=number) for number in range(3)]
    found = place(runs, runs)
    rounds = {
        side: [found[key].round for key in found if key[0] == side] for side in ("base", "new")
    }
    assert rounds["base"] == rounds["new"] == [0, 1, 2]


def test_rounds_of_different_sessions_are_no_rounds(place: Place) -> None:
    found = place([at(0, session="a", round=0)], [at(1, session="b", round=0)])
    assert {moment.round for moment in found.values()} == {None}


def test_a_run_that_warms_up_has_no_moment(place: Place) -> None:
    assert len(place([at(0, warmup=True), at(1)], [at(2)])) == 2
