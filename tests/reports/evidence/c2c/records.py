"""The section's data of one line on both sides, as its tests change them."""

from copy import deepcopy
from typing import Any

CHANGE: dict[str, Any] = {
    "samples": {"base": 93, "new": 12},
    "base": 3.1,
    "base_low": 2.5,
    "base_high": 3.8,
    "new": 0.4,
    "new_low": 0.2,
    "new_high": 0.7,
    "ratio": 0.129,
    "ratio_low": 0.067,
    "ratio_high": 0.23,
    "difference": -2.7,
    "difference_low": -3.4,
    "difference_high": -2.0,
    "p": 1e-9,
    "q": 2e-9,
    "least_ratio": 1.45,
    "changed": True,
}
NOTHING: dict[str, Any] = {
    **dict.fromkeys(CHANGE),
    "samples": {"base": 0, "new": 0},
    "changed": False,
}
ACCESS: dict[str, Any] = {
    "offset": 0,
    "size": 8,
    "name": "task_group.load_avg",
    "grade": "A",
    "reads": 93,
    "writes": 40,
    "local": 0,
    "remote": 93,
    "readers": "0-3,8",
    "writers": "1",
    "nodes": [
        {"node": 0, "reads": 90, "writes": 40, "local": 0, "remote": 90},
        {"node": 1, "reads": 3, "writes": 0, "local": 0, "remote": 3},
    ],
    "symbols": [
        {"symbol": "update_cfs_group", "samples": 90, "writes": 0},
        {"symbol": "update_load_avg", "samples": 43, "writes": 40},
        {"symbol": "attach_entity_cfs_rq", "samples": 2, "writes": 2},
    ],
    "commands": [
        {"command": "hackbench", "samples": 130},
        {"command": "kworker/0:1", "samples": 2},
        {"command": "swapper", "samples": 1},
    ],
}
UNNAMED = {
    **ACCESS,
    "offset": 8,
    "size": None,
    "name": None,
    "grade": None,
    "writes": 0,
    "writers": "",
}
SEEN: dict[str, Any] = {
    "key": "task_group+0x100",
    "copies": 1,
    "stores": 40,
    "records": 226,
    "loads": 186,
    "double_counted": 93,
    "sharing": "true",
    "false_share": 0.0,
    "accesses": [ACCESS, UNNAMED],
}
LINE: dict[str, Any] = {
    "row": "task_group.load_avg",
    "name": "task_group.load_avg",
    "names": ["task_group.load_avg"],
    "unmatched": None,
    "remote": CHANGE,
    "local": NOTHING,
    "base": SEEN,
    "new": {**SEEN, "sharing": "false", "key": "task_group+0x140"},
}
POINT: dict[str, Any] = {
    "workload": "hackbench -g {groups}",
    "point": "groups=4",
    "runs": {"base": 3, "new": 4},
    "observable": {"base": "hitm", "new": "hitm"},
    "events": {"base": ["cpu/mem-loads/P"], "new": ["cpu/mem-loads/P"]},
    "period": {"base": 1000, "new": 1000},
    "store_period": {"base": 1000, "new": 1000},
    "ldlat": {"base": 30, "new": 30},
    "line_bytes": {"base": 64, "new": 64},
    "samples": {"base": 1000, "new": 2000},
    "reason": None,
    "unit": "message",
    "per": 1000,
    "model": "negative binomial",
    "phi": 0.04,
    "replication": "runs",
    "least_ratio": 1.45,
    "totals": {"remote": CHANGE, "local": NOTHING, "stores": NOTHING},
    "lines": [LINE],
    "seen": 5,
    "seen_unmatched": {"base": 0, "new": 0},
    "notes": ["base: who wrote a line cannot be seen", "new: who wrote a line cannot be seen"],
}
DATA: dict[str, Any] = {
    "comparisons": [{"side": "new", "points": [POINT], "notes": []}],
    "missing": [],
}


def with_point(**point: Any) -> dict[str, Any]:
    """Return the data with other facts of its only point."""
    data = deepcopy(DATA)
    data["comparisons"][0]["points"][0].update(deepcopy(point))
    return data


def unmatched(side: str, number: int) -> dict[str, Any]:
    """Return a line that one side alone has and that cannot be found again on the other."""
    other = "new" if side == "base" else "base"
    change = {**NOTHING, "samples": {side: 7, other: None}}
    return {
        **LINE,
        "row": f"0xffff88800000{number:02x}00",
        "name": None,
        "unmatched": "an address means nothing in another boot",
        "remote": change,
        "local": change,
        other: None,
    }
