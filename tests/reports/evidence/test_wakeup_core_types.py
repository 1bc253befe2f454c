# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's wakeup latency per type of CPU core."""

from collections.abc import Callable

import pytest

from schedperf.evidence.wakeup_latency.section import analyse_sides
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section
from schedperf_reports.blocks import Table
from schedperf_reports.evidence.wakeup_latency import wakeup_latency
from tests.schedperf.evidence.wakeup_latency.test_waits_by_core_type import runs_of, typed


@pytest.mark.parametrize("is_alone", [False, True])
def test_each_type_has_its_percentiles(
    make_comparison: Callable[..., Comparison], *, is_alone: bool
) -> None:
    sides = [typed("base", runs_of(40)), typed("new", runs_of(400))]
    data = analyse_sides(sides[:1] if is_alone else sides)
    comparison = make_comparison(sections={data.section: Section.of(data)})
    tables = [block for block in wakeup_latency(comparison) if isinstance(block, Table)]
    [table] = [each for each in tables if "types of CPU cores" in each.caption]
    assert "cpu_atom: p99" in [row[0].text for row in table.rows]
    assert ("changed significantly" in table.caption) != is_alone
