# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs beside a load, as the recorder stores them."""

import json
from collections.abc import Sequence
from typing import Any

COMMAND = "stress-ng --cpu 1 --metrics-brief"
METRICS = (
    "stress-ng: metrc: [9] stressor       bogo ops real time  usr time  sys time   bogo ops/s     "
    "bogo ops/s\n"
    "stress-ng: metrc: [9]                           (secs)    (secs)    (secs)   (real time) "
    "(usr+sys time)\n"
    "stress-ng: metrc: [9] cpu                {ops} 10.00      5.00      0.00 {rate:10.2f} "
    "{rate:10.2f}\n"
)


def load_files(stderr: str, **changes: Any) -> dict[str, str]:
    """Return the files of a run's load."""
    record = {
        "schema": "schedperf/load/1", "command": COMMAND.split(), "wall_s": 10.5,
        "ended_by": "SIGINT", "exit_status": 0, "signal": None, "killed": [],
        "output_left_out": {},
        **changes,
    }  # fmt: skip
    return {"load/load.json": json.dumps(record), "load/stdout": "", "load/stderr": stderr}


def beside_load(rates: Sequence[float], **changes: Any) -> list[dict[str, Any]]:
    """Return runs beside a stress-ng that made so many bogo operations per second."""
    return [
        {"files": load_files(METRICS.format(ops=round(10 * rate), rate=rate), **changes)}
        for rate in rates
    ]
