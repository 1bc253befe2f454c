"""What the profile section of a comparison found, for the tests of its drawing."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import jsonschema
import pytest

from schedperf.evidence.profile.section import SCHEMA
from schedperf.model.comparison import Comparison, Section
from schedperf_reports.blocks import Block
from schedperf_reports.evidence.profile.section import profile

SHARE: dict[str, Any] = {
    "base": 8.5,
    "new": 16.25,
    "change": 7.75,
    "ci_low": 7.0,
    "ci_high": 8.5,
    "p": 0.001,
    "q": 0.004,
}
COST: dict[str, Any] = {
    "base": 850.0,
    "new": 1700.0,
    "change": 850.0,
    "ci_low": 800.0,
    "ci_high": 900.0,
    "p": 0.001,
    "q": 0.004,
}
UNKNOWN: dict[str, Any] = dict.fromkeys(("ci_low", "ci_high", "p", "q"))
CPUS = {"least": 6.5, "largest": 21.0, "cpus": 192}
ROW: dict[str, Any] = {
    "row": "update_cfs_group",
    "symbol": "update_cfs_group",
    "dso": "[kernel]",
    "class": "PELT",
    "scheduler": True,
    "idle": False,
    "share": SHARE,
    "changed": True,
    "cost": COST,
    "base_nodes": {"0": 7.73, "1": 13.15},
    "new_nodes": {"0": 12.68, "1": 20.22},
    "base_range": [7.73, 13.15],
    "new_range": [12.68, 20.22],
    "one_node": None,
    "base_cpus": CPUS,
    "new_cpus": CPUS,
}
IDLE: dict[str, Any] = {
    **ROW,
    "row": "default_idle",
    "symbol": "default_idle",
    "class": None,
    "scheduler": False,
    "idle": True,
    "share": {**SHARE, **UNKNOWN},
    "cost": {**COST, **UNKNOWN},
    "changed": False,
    "base_nodes": {"0": 0.0},
    "new_nodes": {},
    "base_range": [0.0, 0.0],
    "new_range": None,
    "base_cpus": None,
    "new_cpus": None,
}
CLASS: dict[str, Any] = {
    "row": "class:PELT",
    "class": "PELT",
    "share": SHARE,
    "changed": True,
    "cost": COST,
    "base_range": [7.73, 13.15],
    "new_range": [12.68, 20.22],
    "functions": [{"symbol": "update_cfs_group", "change": 7.75}],
}
EXPLAINED: dict[str, Any] = {
    "symbols": ["update_cfs_group", "update_load_avg", "reweight_entity"],
    "change": 1200.0,
    "part": 0.71,
    "ci_low": 0.6,
    "ci_high": 0.83,
    "reason": None,
    "busy_equal": None,
    "busy_reason": "the event stops",
}
POINT: dict[str, Any] = {
    "workload": "hackbench -g {groups}",
    "point": "groups=4",
    "runs": {"base": 5, "new": 6},
    "independent": "runs",
    "took_turns": True,
    "cautions": [],
    "samples": {"base": 1000, "new": 2000},
    "lost": {"base": 0, "new": 0},
    "throttled": {"base": 0, "new": 0},
    "losses": {"base": None, "new": None},
    "others": {
        "base": {"share": 1.0, "commands": [{"command": "perf", "share": 1.0}]},
        "new": None,
    },
    "busy": {"base": 87.66, "new": 99.5, "change": 11.84, "ci_low": 11.0, "ci_high": 12.5},
    "operations": {"unit": "message", "exact": True, "base": 40000.0, "new": 40000.0},
    "cost_unit": "ns per message",
    "cost_reason": None,
    "busy_cost": {"base": 10e3, "new": 12e3, "change": 2e3, "ci_low": 1.9e3, "ci_high": 2.1e3},
    "rows": [ROW, IDLE],
    "classes": [CLASS],
    "explained": EXPLAINED,
    "symbols": 7,
}
DATA: dict[str, Any] = {
    "comparisons": [
        {
            "side": "new",
            "events": [
                {
                    "event": "cycles",
                    "unit": "cycles",
                    "clock": {"base": "pmu", "new": "pmu"},
                    "nmi": {"base": True, "new": True},
                    "precise": {"base": 0, "new": 0},
                    "emulated": {"base": False, "new": False},
                    "blind": {"base": False, "new": False},
                    "blind_reason": {"base": "NMI", "new": "NMI"},
                    "remedy": None,
                    "caveats": [],
                    "points": [POINT],
                }
            ],
            "notes": ["base: the copy is partial"],
        }
    ],
    "missing": [],
}


class Example:
    """The data of a section, and parts of it to build others from."""

    data = DATA
    row = ROW
    class_row = CLASS
    point = POINT
    explained = EXPLAINED
    cost = COST

    def with_event(self, **event: Any) -> dict[str, Any]:
        """Return data with something else in its event."""
        data = deepcopy(DATA)
        data["comparisons"][0]["events"][0].update(event)
        return data

    def with_point(self, **point: Any) -> dict[str, Any]:
        """Return data with something else in its point."""
        data = deepcopy(DATA)
        data["comparisons"][0]["events"][0]["points"][0].update(deepcopy(point))
        return data


@pytest.fixture
def example() -> Example:
    """Return the data of a section."""
    return Example()


@pytest.fixture
def describe(
    make_comparison: Callable[..., Comparison], to_blocks: Callable[[Iterable[Block]], Any]
) -> Callable[[Any], Any]:
    """Return the blocks for the section's data, which must follow its schema."""

    def run(data: dict[str, Any]) -> Any:
        jsonschema.validate(data, SCHEMA)
        section = Section(schema="", status="ok", reason=None, data=data)
        return to_blocks(profile(make_comparison(sections={"profile": section})))

    return run
