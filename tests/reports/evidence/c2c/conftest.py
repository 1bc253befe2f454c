# SPDX-License-Identifier: GPL-2.0-or-later
"""The section of bouncing cache lines, described from records."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from schedperf.evidence.c2c.record import C2c
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section
from schedperf_reports.blocks import Block
from schedperf_reports.evidence.c2c.section import c2c

Describe = Callable[[C2c], Any]
ToBlocks = Callable[[Iterable[Block]], Any]


@pytest.fixture
def report(make_comparison: Callable[..., Comparison]) -> Callable[..., Comparison]:
    """Return a comparison that has the section's data."""

    def make(data: C2c, **changes: Any) -> Comparison:
        section = Section.of(data)
        return make_comparison(sections={"c2c": section}, **changes)

    return make


@pytest.fixture
def describe(report: Callable[..., Comparison], to_blocks: ToBlocks) -> Describe:
    """Describe data: ``describe(with_point(reason="periods differ"))``."""
    return lambda data: to_blocks(c2c(report(data)))
