# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs with statistics of a scheduler, whose true numbers are known.

Their form is that of the crate scx_stats, which ``tests/data/scx_stats/server`` uses.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

NS_PER_S = 1_000_000_000
FIRST_NS = 5_140_900_000_000
# A request without a pause.
AGAIN_S = 0.0002

Run = dict[str, Any]

LAYER: Mapping[str, Any] = {
    "name": "LayerStats",
    "desc": "layer statistics",
    "user": {"_om_label": "layer_name", "_om_prefix": "l_"},
    "fields": {
        "index": {"datum": "u64", "desc": "index", "user": {"_om_skip": "true"}},
        "util": {"datum": "float", "desc": "Total CPU utilization (100% means one full CPU)"},
        "total": {"datum": "u64", "desc": "count of sched events during the period"},
        "runq_lat_hist": {
            "array": "u64",
            "desc": "runqueue latency histogram, log2 us buckets 1us..32s, per stats interval",
        },
        "cpus": {"array": "u64", "desc": "mask of allocated CPUs", "user": {"_om_skip": "true"}},
    },
}
META: Mapping[str, Any] = {
    "LayerStats": LAYER,
    "SysStats": {
        "name": "SysStats",
        "top": "true",
        "fields": {
            "at": {"datum": "float", "desc": "timestamp", "user": {"_om_skip": "true"}},
            "mseq": {"datum": "u64", "desc": "Sequence ID of this message"},
            "nr_cpus": {"datum": "u64", "desc": "Number of online CPUs"},
            "nr_direct": {"datum": "u64", "desc": "Number of direct dispatches"},
            "nr_started": {"datum": "u64", "desc": "Number of tasks since scheduler start"},
            "proc_time": {"datum": "float", "desc": "time spent in the scheduler"},
            "power_mode": {"datum": "string", "desc": "Current power mode"},
            "layers": {
                "desc": "per-layer statistics",
                "dict": {"key": "string", "datum": {"struct": "LayerStats"}},
            },
        },
    },
}


def times_of(seconds: float) -> list[tuple[float, str]]:
    """Return when the collector takes samples of a run, in s since its start, and which."""
    paced = [0.25, 0.75, *(1.75 + step for step in range(100))]
    times = [(0.0, "before"), *((at, "during") for at in paced if at < seconds)]
    if len(times) > 1:
        times.insert(2, (times[1][0] + AGAIN_S, "again"))
    return [*times, (seconds, "after"), (seconds + AGAIN_S, "again")]


def samples_of(
    seconds: float,
    *,
    direct: float,
    util: float = 40.0,
    waits: Sequence[int] = (0, 3, 1, 0),
    cpus: int = 2,
) -> list[dict[str, Any]]:
    """Return the samples of one run.

    :param direct: direct dispatches per second
    :param waits: shares of the bins of waits, as whole numbers
    """
    samples, last_s = [], 0.0
    for number, (at_s, when) in enumerate(times_of(seconds)):
        count = int(at_s * direct) - int(last_s * direct)
        last_s = at_s
        layer = {
            "index": 0,
            "util": util,
            "total": 2 * count,
            "runq_lat_hist": [count * share for share in waits],
            "cpus": [3],
        }
        stats = {
            "at": at_s,
            "mseq": number,
            "nr_cpus": cpus,
            "nr_direct": count,
            "nr_started": 1000 + int(at_s * direct) // 4,
            "proc_time": 0.01,
            "power_mode": "balanced",
            "layers": {"batch": layer},
        }
        samples.append({"ns": FIRST_NS + round(at_s * NS_PER_S), "when": when, "stats": stats})
    return samples


def write_capture(taken: Sequence[Mapping[str, Any]], **changed: Any) -> str:
    """Return the content of ``scx_stats.json``."""
    record = {
        "schema": "schedperf/scx_stats/1", "socket": "/var/run/scx/root/stats", "meta": META,
        "samples": taken, "left_out": 0, "failure": None,
    }  # fmt: skip
    return json.dumps({**record, **changed})


def run_of(
    seconds: float = 2.0, *, changed: Mapping[str, Any] | None = None, **samples: Any
) -> Run:
    """Return a run whose scheduler has these statistics."""
    content = write_capture(samples_of(seconds, **samples), **(changed or {}))
    return {"time_s": seconds, "files": {"scx_stats/scx_stats.json": content}}
