"""Records of where tasks went, and what the report describes of them."""

from collections.abc import Callable
from typing import Any

import pytest

from schedperf.model.comparison import Comparison, Section
from schedperf_reports.evidence.placement.section import placement
from tests.placement_rates import ROSE

Describe = Callable[..., Any]
Numbered = Callable[..., list[dict[str, Any]]]

FORKS: dict[str, Any] = {
    "row": "new-0",
    "side": "new",
    "workload": "hackbench",
    "point": "groups=4",
    "name": "forks: between nodes",
    "part": "fork",
    "field": "crossing",
    "cause": "",
    "level": "",
    "idle": "",
    "nodes": [],
    "groups": [],
    "basis": "share",
    "meaning": "share between nodes",
    "function": "sched_balance_find_dst_group()",
    "reason": None,
    **ROSE,
}


@pytest.fixture
def forks() -> dict[str, Any]:
    """Return the row of forks between nodes, which changed."""
    return {**FORKS}


@pytest.fixture(scope="session")
def numbered() -> Numbered:
    """Give each row an anchor of its own."""
    return lambda *rows: [{**row, "row": f"new-{number}"} for number, row in enumerate(rows)]


@pytest.fixture
def compared(make_comparison: Callable[..., Comparison]) -> Callable[..., Comparison]:
    """Build the record of a section's data."""

    def make(*rows: dict[str, Any], **data: Any) -> Comparison:
        side = {"side": "base", "runs": 5, "mechanisms": ["bpf"], "nodes": 2, "seconds": 9.0}
        values: dict[str, Any] = {
            "sides": [side, {**side, "side": "new"}],
            "rows": list(rows),
            **{name: [] for name in ("programs", "not_compared", "series", "depths", "timers")},
            **{name: [] for name in ("moves", "waits", "phases")},
            "zeros": [],
            "notes": [],
        }
        section = Section(
            schema="schedperf/section/placement/1", status="ok", reason=None, data=values | data
        )
        return make_comparison(sections={"placement": section})

    return make


@pytest.fixture
def describe(compared: Callable[..., Comparison], to_blocks: Callable[..., Any]) -> Describe:
    """Return the blocks for a section's data."""
    return lambda *rows, **data: to_blocks(placement(compared(*rows, **data)))
