"""The scheduler's own statistics around each run: ``/proc/schedstat``, before and after.

Both files are kept as the kernel wrote them. ``schedstat.json`` says whether
the kernel was counting: {"enabled": true}. Without kernel.sched_schedstats the
file is there, and most of its numbers stand still.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from schedperf_collectors._base import Capture, Skipped, collector
from schedperf_collectors._system import System, Unavailable, or_none

# 24 kB were seen on 224 CPUs with one domain; 8192 CPUs with five domains stay below 64 MB.
LIMIT_BYTES = 64 << 20


@collector(scope="run", cost="two reads of 24 kB on 224 CPUs")
def schedstat(capture: Capture) -> Iterator[None]:
    """Read /proc/schedstat before and after the run."""
    return capture_schedstat(System(), capture)


def capture_schedstat(system: System, capture: Capture) -> Iterator[None]:
    """Do the work of :func:`schedstat` on any system."""
    (capture.folder / "before").write_bytes(_snapshot(system))
    yield
    (capture.folder / "after").write_bytes(_snapshot(system))
    enabled = or_none(lambda: system.integer("/proc/sys/kernel/sched_schedstats"))
    facts = {"enabled": None if enabled is None else bool(enabled)}
    (capture.folder / "schedstat.json").write_text(json.dumps(facts, indent=1) + "\n")


def _snapshot(system: System) -> bytes:
    if not system.exists("/proc/schedstat"):
        raise Skipped("no /proc/schedstat in this kernel", "rebuild with CONFIG_SCHEDSTATS=y")
    try:
        return system.bytes("/proc/schedstat", LIMIT_BYTES)
    except Unavailable as error:
        raise Skipped(error.reason, "run as root") from error
