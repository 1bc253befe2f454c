# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of a side without and with a scheduler of sched_ext, as bundles have them."""

import json
from collections.abc import Mapping
from typing import Any

Run = dict[str, Any]

IDLE = {
    "state": "disabled", "enable_seq": "2", "ops": None, "switch_all": "0", "nr_rejected": "0",
    "hotplug_seq": "1",
}  # fmt: skip
LOADED = IDLE | {"state": "enabled", "enable_seq": "3", "ops": "lavd_1.0.20", "switch_all": "1"}
SERVICE = {
    "command": "scx_lavd --performance",
    "program": "/usr/bin/scx_lavd",
    "sha256": "ab" * 32,
    "version": "scx_lavd 1.0.20",
    "end": "exit status 0",
}
REASON = "scx_lavd was ejected (runnable task stall (make[7] failed to run for 30.1s))"


def run(before: Mapping[str, Any], after: Mapping[str, Any] | None = None, **chosen: Any) -> Run:
    record = {"schema": "schedperf/sched_ext/1", "before": before, "after": after or before}
    return {"files": {"sched_ext/sched_ext.json": json.dumps(record)}, **chosen}


FAIR = run(IDLE)
LAVD = run(LOADED, service=SERVICE)
EJECTED = run(LOADED, IDLE | {"nr_rejected": "4"}, service=SERVICE, discarded=REASON)
