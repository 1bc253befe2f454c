# SPDX-License-Identifier: GPL-2.0-or-later
"""bench.retest: its cells, and its limits."""

from msgspec.structs import replace

from bench.retest.__main__ import Cell, Rates, check, make_cells, simulate


def test_cells_are_simulated_and_checked() -> None:
    cell = Cell(sd=0.02, change=0.10, seen=0.10)
    assert cell in make_cells()
    rates = simulate(cell, trials=50)
    assert rates.reproduced == 1.0
    assert all(each.is_kept for each in check(cell, rates))


def test_limits_are_checked_in_each_kind_of_cell() -> None:
    bad = Rates(reproduced=0.5, futile=0.5, absent=0.0, undecided=0.0, boots=16.0, fixed=0.0)
    for cell in make_cells():
        assert not any(each.is_kept for each in check(cell, bad))
        good = replace(bad, reproduced=float(cell.change == cell.seen), futile=0.0, boots=4.0)
        assert all(each.is_kept for each in check(cell, good))
