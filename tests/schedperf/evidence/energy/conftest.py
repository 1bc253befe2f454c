# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs whose energy is known, and rows of what their section says."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from schedperf.evidence.energy.section import energy
from schedperf_generators.energy import Domain, rapl_domain, write_capture

Analyse = Callable[..., Any]
Run = dict[str, Any]

SECONDS = 2.0


def run_of(domains: Sequence[Domain], *, seconds: float = SECONDS, **others: Any) -> Run:
    """Return a run of bundles whose domains used their energy."""
    return {"files": {"energy/energy.json": write_capture(domains, seconds=seconds)}, **others}


def package_runs(joules: Sequence[float], **others: Any) -> list[Run]:
    """Return runs in which package-0 used this energy, and a tenth of it in its dram."""
    return [
        run_of(
            [rapl_domain("0", "package-0", each), rapl_domain("0:2", "dram", each / 10)], **others
        )
        for each in joules
    ]


def row_of(data: Any, domain: str, basis: str = "operation", **fields: object) -> Any:
    """Return the row of a counter."""
    wanted: Mapping[str, object] = {"domain": domain, "basis": basis, **fields}
    [row] = [
        row
        for row in data.rows
        if all(getattr(row, name) == value for name, value in wanted.items())
    ]
    return row


@pytest.fixture
def analyse(analyse_with: Callable[..., Analyse]) -> Analyse:
    return analyse_with(energy)
