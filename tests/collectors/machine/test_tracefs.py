# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of tracefs: where they are, and what is said where they are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.tracefs import read_event_file

EVENT = "events/sched/sched_switch/id"
MOUNTED = {"proc/self/mounts": "none /sys/kernel/tracing tracefs rw 0 0\n"}
NOT_MOUNTED = {"proc/self/mounts": "none /proc proc rw 0 0\nbroken\n"}


@pytest.mark.parametrize("folder", ["sys/kernel/tracing", "sys/kernel/debug/tracing"])
def test_a_file_is_read_where_tracefs_is(make_system: Callable[..., System], folder: str) -> None:
    system = make_system({f"{folder}/{EVENT}": "314\n"})
    assert read_event_file(system, "sched:sched_switch", "id").strip() == "314"


def test_without_tracefs_the_remedy_is_to_mount_it(make_system: Callable[..., System]) -> None:
    with pytest.raises(Unavailable, match="^tracefs is not mounted$") as caught:
        read_event_file(make_system(NOT_MOUNTED), "sched:sched_switch", "id")
    assert caught.value.say() == (
        "tracefs is not mounted; mount -t tracefs nodev /sys/kernel/tracing"
    )


@pytest.mark.parametrize("files", [MOUNTED, {}])
def test_where_tracefs_is_mounted_the_file_is_what_is_missing(
    make_system: Callable[..., System], files: dict[str, str]
) -> None:
    with pytest.raises(Unavailable, match="sched_none/id: no such file") as caught:
        read_event_file(make_system(files), "sched:sched_none", "id")
    assert caught.value.remedy == ""
