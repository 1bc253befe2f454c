# SPDX-License-Identifier: GPL-2.0-or-later
"""Blocks of reports refuse what no format can draw."""

import pytest

from schedperf_reports.blocks import Cell, Column, Table


@pytest.mark.parametrize("count", [1, 3])
def test_a_row_has_a_cell_for_each_column(count: int) -> None:
    columns = (Column(title="symbol"), Column(title="share"))
    rows = ((Cell(text="schedule"),) * 2, (Cell(text="schedule"),) * count)
    problem = rf"profile: a row has {count} cells \(expected 2: symbol, share\)"
    with pytest.raises(ValueError, match=problem):
        Table(caption="profile", columns=columns, rows=rows)
