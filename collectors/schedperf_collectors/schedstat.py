# SPDX-License-Identifier: GPL-2.0-or-later
"""Record ``/proc/schedstat`` before and after each run.

Both copies are kept unchanged. ``schedstat.json`` records whether the kernel was counting:
{"enabled_before": true, "enabled": true, "switched_on": false}. Without kernel.sched_schedstats the
file exists, but most counters do not change; the option ``enable=1`` enables it for each run
(``switched_on``) and restores it afterwards, even if this process is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NoReturn

from schedperf_collectors.contract import Unavailable
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
    """Implement :func:`schedstat` for any system; return a hint if the kernel counts little.

    :raises Skipped: the file is missing or not readable
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


@contextlib.contextmanager
def changed_for_now(path: Path, value: bytes) -> Iterator[None]:
    """Write a value to a file of /proc or /sys; restore the old one when the block ends.

    A killed collector cannot restore the value (the recorder kills collectors that hang, and all of
    them on Ctrl-C). Therefore a child in a separate session, which receives no signals for the
    collector, waits for end of file on a pipe to the collector and then restores the value.

    :raises OSError: it cannot be read or written
    """
    before = path.read_bytes()
    held, release = os.pipe()
    ready, say_ready = os.pipe()
    guard = os.fork()
    if guard == 0:
        _wait_and_restore(path, before, held, say_ready)
    os.close(held)
    os.close(say_ready)
    try:
        # The value is changed only after the child is in its own session.
        os.read(ready, 1)
        path.write_bytes(value)
        yield
    finally:
        os.close(ready)
        os.close(release)
        os.waitpid(guard, 0)


def _wait_and_restore(path: Path, before: bytes, held: int, say_ready: int) -> NoReturn:
    try:
        os.setsid()
        # Readers of the collector's pipes must not wait for this process.
        for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 # bare names
            if descriptor not in (held, say_ready):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        os.close(say_ready)
        os.read(held, 1)
        path.write_bytes(before)
    finally:
        os._exit(0)
