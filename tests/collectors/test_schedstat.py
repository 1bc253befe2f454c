"""Both snapshots are kept as the kernel wrote them; a kernel without statistics is said so."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf_collectors._base import Capture, Skipped
from schedperf_collectors._system import System
from schedperf_collectors.schedstat import capture_schedstat, schedstat

SNAPSHOT = "version 15\ntimestamp 4295148270\ncpu0 0 0 0 0 0 0 {} 0 9\n"

MakeSystem = Callable[..., System]


def capture_on(system: System, capture: Capture, after: str) -> None:
    running = capture_schedstat(system, capture)
    next(running)
    system.path("/proc/schedstat").write_text(after)
    assert list(running) == []


def test_the_file_is_kept_before_and_after_the_run(
    make_system: MakeSystem, capture: Capture
) -> None:
    system = make_system({"proc/schedstat": SNAPSHOT.format(1)})
    capture_on(system, capture, SNAPSHOT.format(2))
    assert (capture.folder / "before").read_text() == SNAPSHOT.format(1)
    assert (capture.folder / "after").read_text() == SNAPSHOT.format(2)


@pytest.mark.parametrize(("setting", "enabled"), [("1\n", True), ("0\n", False), (None, None)])
def test_it_is_noted_whether_the_kernel_was_counting(
    make_system: MakeSystem, capture: Capture, setting: str | None, enabled: object
) -> None:
    files = {"proc/schedstat": SNAPSHOT.format(1)}
    if setting is not None:
        files["proc/sys/kernel/sched_schedstats"] = setting
    capture_on(make_system(files), capture, SNAPSHOT.format(2))
    assert json.loads((capture.folder / "schedstat.json").read_text()) == {"enabled": enabled}


def test_a_kernel_without_schedstat_is_skipped_with_the_remedy(
    make_system: MakeSystem, capture: Capture
) -> None:
    with pytest.raises(Skipped, match="no /proc/schedstat") as caught:
        next(capture_schedstat(make_system({}), capture))
    assert caught.value.remedy == "rebuild with CONFIG_SCHEDSTATS=y"


def test_this_machine_has_it_or_is_skipped(capture: Capture) -> None:
    running = schedstat(capture)
    if Path("/proc/schedstat").exists():
        list(running)
        assert (capture.folder / "after").read_bytes().startswith(b"version ")
    else:
        with pytest.raises(Skipped):
            next(running)
