# SPDX-License-Identifier: GPL-2.0-or-later
"""Record where the workload's tasks block, by stack, for how long, and which task wakes them.

``blocking.json`` has the schema "schedperf/bpf_blocking/1" and the fields that
:mod:`schedperf_collectors.bpf.off_cpu` describes. ``--set bpf_blocking.least_us=N`` sets the
shortest duration that is recorded by stack [default: 1].
"""

from __future__ import annotations

import json
from collections.abc import Generator

from schedperf_collectors.bpf.off_cpu import BLOCKED, capture_off_cpu
from schedperf_collectors.plugin import Capture, Skipped, collector

SCHEMA = "schedperf/bpf_blocking/1"
FILE_NAME = "blocking.json"
LEAST_US, MOST_US = "1", 10_000_000
NS_PER_US = 1000


@collector(
    scope="run",
    intrusive=True,
    default=False,
    cost="2.1 us per context switch on average, with the stacks of tasks that block, and 0.25 us "
    "per wakeup (9% of hackbench's CPU time); 0.3 to 3 s to load; 42 MiB of kernel memory",
    options=("least_us",),
)
def bpf_blocking(capture: Capture) -> Generator[str, None, None]:
    """Record where the workload's tasks block, for how long, and what wakes them."""
    least_ns = _least_ns(capture.options.get("least_us", LEAST_US))
    document = yield from capture_off_cpu(capture, BLOCKED, least_ns)
    (capture.folder / FILE_NAME).write_text(json.dumps({"schema": SCHEMA, **document}) + "\n")


def _least_ns(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MOST_US:
        raise Skipped(
            f"least_us: invalid duration {text!r} (expected 0 to {MOST_US} us, e.g. 10)",
            "--set bpf_blocking.least_us=10",
        )
    return int(text) * NS_PER_US
