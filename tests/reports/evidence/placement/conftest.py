# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of where tasks went, and what the report describes of them."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.placement.record import PlacementRow
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section
from schedperf_reports.evidence.placement.section import placement
from tests.placement_records import make_placement, placement_row

Describe = Callable[..., Any]
Numbered = Callable[..., list[PlacementRow]]


@pytest.fixture
def forks() -> PlacementRow:
    """Return the row of forks between nodes, which changed."""
    return placement_row()


@pytest.fixture(scope="session")
def numbered() -> Numbered:
    """Give each row an anchor of its own."""
    return lambda *rows: [replace(row, row=f"new-{index}") for index, row in enumerate(rows)]


@pytest.fixture
def compared(make_comparison: Callable[..., Comparison]) -> Callable[..., Comparison]:
    """Build the record of a section's data."""

    def make(*rows: PlacementRow, **parts: Any) -> Comparison:
        record = make_placement(*rows, **parts)
        section = Section.of(record)
        return make_comparison(sections={"placement": section})

    return make


@pytest.fixture
def describe(compared: Callable[..., Comparison], to_blocks: Callable[..., Any]) -> Describe:
    """Return the blocks for a section's data."""
    return lambda *rows, **data: to_blocks(placement(compared(*rows, **data)))
