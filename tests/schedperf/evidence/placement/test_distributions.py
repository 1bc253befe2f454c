# SPDX-License-Identifier: GPL-2.0-or-later
"""Moves by pair of nodes, waits bin by bin, and phases that are turned to one another."""

from collections.abc import Callable
from typing import Any

import pytest

from schedperf.evidence.placement.record import MovesRow, Placement

Make = Callable[..., Any]
Analyse = Callable[..., Placement]


@pytest.fixture
def moving(make_placement: Make, make_move: Make) -> Make:
    """Return runs in which so many of the migrations by the balancer go from node 0 to node 1."""
    return lambda *crossing: [
        make_placement(
            moves=[
                make_move("migration", count, (0, 1), cause="load_balance"),
                make_move("migration", 5, (1, 0), cause="wakeup"),
                make_move("fork", 100),
            ]
        )
        for count in crossing
    ]


def moves_of(data: Placement, event: str, cause: str = "") -> MovesRow:
    [found] = [one for one in data.moves if (one.event, one.cause) == (event, cause)]
    return found


def test_migrations_have_pairs_of_all_causes_and_of_each(
    analyse_runs: Analyse, moving: Make
) -> None:
    data = analyse_runs(moving(20, 21, 19, 20), moving(80, 81, 79, 80))
    balanced = moves_of(data, "migration", "load_balance")
    assert balanced.unit == "1/message"
    # 1000 messages in a run.
    by_pair = dict(zip(balanced.pairs, balanced.new, strict=True))
    assert by_pair[0, 1] == pytest.approx(0.08)
    assert by_pair[1, 0] == 0.0
    assert [*zip(balanced.pairs, balanced.changed, strict=True)] == [
        ((0, 0), False), ((0, 1), True), ((1, 0), False), ((1, 1), False),
    ]  # fmt: skip
    every = moves_of(data, "migration")
    assert sum(filter(None, every.base)) == pytest.approx(0.025)
    assert {(one.event, one.cause) for one in data.moves} >= {("fork", "")}


def test_moves_of_a_machine_with_one_node_are_no_matrix(
    analyse_runs: Analyse, make_placement: Make, make_move: Make
) -> None:
    run = make_placement(nodes={"0": 0, "1": 0}, moves=[make_move("fork", 10)])
    assert analyse_runs([run], [run]).moves == ()


def test_waits_are_shares_in_bins_and_one_side_alone_has_its_own(
    analyse_runs: Analyse, make_placement: Make
) -> None:
    run = make_placement()
    [found] = analyse_runs([run, run], [run, run]).waits
    assert sum(filter(None, found.base)) == pytest.approx(1.0)
    assert found.base == found.new
    assert set(found.changed) == {False}
    [alone] = analyse_runs([run, run]).waits
    assert (alone.side, alone.n_new) == ("base", 0)


def test_phases_are_turned_until_the_first_group_is_in_the_middle(
    analyse_runs: Analyse, make_placement: Make, make_timer: Make
) -> None:
    # A period begins at another time in each run; /b is always 16 of 64 bins behind /a.
    def runs(apart: int) -> list[Any]:
        return [
            make_placement(timers=[make_timer("/a", start), make_timer("/b", (start + apart) % 64)])
            for start in (3, 40, 60)
        ]

    found = {one.group: one for one in analyse_runs(runs(16), runs(0)).phases}
    for group, base, new in (("/a", 0.5, 0.5), ("/b", 0.75, 0.5)):
        one = found[group]
        for shares, middle in ((one.base, base), (one.new, new)):
            index = shares.index(1.0)
            assert one.low[index] <= middle < (one.high[index] or 1.0)
    assert len(found["/a"].low) > 16


def test_timers_without_a_steady_phase_have_no_middle(
    analyse_runs: Analyse, make_placement: Make, make_timer: Make
) -> None:
    run = make_placement(timers=[make_timer("/a", *range(0, 64, 2))])
    assert analyse_runs([run], [run]).phases == ()
