"""A rate of task placement that changed beyond noise, as its rows in the record have it."""

from collections.abc import Mapping
from typing import Any

ROSE: Mapping[str, Any] = {
    "status": "ok",
    "events_base": 1000.0,
    "events_new": 1000.0,
    "unit": "",
    "n_base": 5,
    "n_new": 5,
    "base": 0.011,
    "new": 0.12,
    "ratio": 10.9,
    "ci_low": 9.0,
    "ci_high": 13.0,
    "p": 1e-6,
    "q": 1e-5,
    "changed": True,
    "replication": "runs",
}
