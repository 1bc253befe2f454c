# SPDX-License-Identifier: GPL-2.0-or-later
"""What the section of the results describes, by kind and as text."""

from collections.abc import Callable
from typing import Any

import pytest

from schedperf.model.comparison import Comparison
from schedperf_reports.results.benchmarks import benchmarks

OfKind = Callable[[Comparison, type[Any]], list[Any]]


@pytest.fixture(scope="session")
def of_kind() -> OfKind:
    """Return the blocks of one kind: ``of_kind(comparison, Table)``."""

    def choose(comparison: Comparison, kind: type[Any]) -> list[Any]:
        return [block for block in benchmarks(comparison) if isinstance(block, kind)]

    return choose
