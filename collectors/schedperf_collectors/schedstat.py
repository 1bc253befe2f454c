# SPDX-License-Identifier: GPL-2.0-or-later
"""Record ``/proc/schedstat`` before and after each run.

Both copies are kept unchanged. ``schedstat.json`` records whether the kernel was counting before
and after the run (null if unknown): {"enabled_before": true, "enabled": true, "switched_on":
false}. If the sysctl kernel.sched_schedstats is 0, /proc/schedstat exists, but most counters do not
change. The option ``enable=1`` then sets the sysctl for each run (``switched_on``) and restores it
afterwards, even if this process is killed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterator

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.changed import changed_for_now
from schedperf_collectors.machine.system import System, or_none, unavailable
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped, collector

# 8192 CPUs with four levels have 85 MB, half of it CPU masks; the analysis reads no more.
LIMIT_BYTES = 128 << 20
SWITCH = "/proc/sys/kernel/sched_schedstats"
HINT = (
    f"{SWITCH} is 0, so the kernel counts no events; add --set schedstat.enable=1, or write 1 to "
    "this file"
)


@collector(
    scope="run",
    cost="two reads of 0.1 to 0.2 kB per CPU and scheduling domain; with enable=1 also the "
    "kernel's overhead for schedstats",
    options=("enable",),
)
def schedstat(capture: Capture) -> Generator[str, None, str]:
    """Read /proc/schedstat before and after the run."""
    return capture_schedstat(System(), capture)


def capture_schedstat(system: System, capture: Capture) -> Generator[str, None, str]:
    """Implement :func:`schedstat` for any system.

    :return: a hint if kernel.sched_schedstats is 0, else ""
    :raises Skipped: /proc/schedstat is missing or not readable, or the sysctl cannot be set
    """
    was_enabled = _is_enabled(system)
    switch_on = was_enabled is False and capture.options.get("enable") == "1"
    with _switched_on(system) if switch_on else contextlib.nullcontext():
        _snapshot(system)
        yield PREPARED
        began = _is_enabled(system)
        (capture.folder / "before").write_bytes(_snapshot(system))
        yield BEGUN
        (capture.folder / "after").write_bytes(_snapshot(system))
        enabled = _is_enabled(system)
    facts = {"enabled_before": began, "enabled": enabled, "switched_on": switch_on}
    (capture.folder / "schedstat.json").write_text(json.dumps(facts, indent=1) + "\n")
    return HINT if enabled is False else ""


def _is_enabled(system: System) -> bool | None:
    value = or_none(lambda: system.integer(SWITCH))
    return None if value is None else bool(value)


@contextlib.contextmanager
def _switched_on(system: System) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(changed_for_now(system.path(SWITCH), b"1\n"))
        except OSError as error:
            raise Skipped(unavailable(SWITCH, error).reason, "run as root") from error
        yield


def _snapshot(system: System) -> bytes:
    if not system.exists("/proc/schedstat"):
        raise Skipped("no /proc/schedstat in this kernel", "rebuild with CONFIG_SCHEDSTATS=y")
    try:
        return system.bytes("/proc/schedstat", LIMIT_BYTES)
    except Unavailable as error:
        raise Skipped(error.reason, "run as root") from error
