# SPDX-License-Identifier: GPL-2.0-or-later
"""Both snapshots are kept as the kernel wrote them; a kernel without statistics is said so."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped
from schedperf_collectors.schedstat import (
    HINT,
    SWITCH,
    capture_schedstat,
    schedstat,
)

SNAPSHOT = "version 15\ntimestamp 4295148270\ncpu0 0 0 0 0 0 0 {} 0 9\n"

MakeSystem = Callable[..., System]


def capture_on(system: System, capture: Capture, after: str) -> None:
    running = capture_schedstat(system, capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
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
    facts = json.loads((capture.folder / "schedstat.json").read_text())
    assert facts == {"enabled_before": enabled, "enabled": enabled, "switched_on": False}


def test_a_switch_that_is_turned_during_the_run_is_noted(
    make_system: MakeSystem, capture: Capture
) -> None:
    switch = "proc/sys/kernel/sched_schedstats"
    system = make_system({"proc/schedstat": SNAPSHOT.format(1), switch: "0\n"})
    running = capture_schedstat(system, capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    system.path(f"/{switch}").write_text("1\n")
    assert list(running) == []
    facts = json.loads((capture.folder / "schedstat.json").read_text())
    assert facts == {"enabled_before": False, "enabled": True, "switched_on": False}


def outcome(system: System, capture: Capture) -> tuple[str, str]:
    """Run it to its end; return the switch during the run, and the hint."""
    running = capture_schedstat(system, capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    switch = system.path(SWITCH).read_text()
    with pytest.raises(StopIteration) as end:
        next(running)
    return switch, end.value.value


@pytest.mark.parametrize(("setting", "enable"), [("0\n", "0"), ("1\n", "1")])
def test_the_switch_is_left_alone_unless_it_is_off_and_to_be_on(
    make_system: MakeSystem, capture: Capture, setting: str, enable: str
) -> None:
    system = make_system({"proc/schedstat": SNAPSHOT.format(1), SWITCH[1:]: setting})
    switch, hint = outcome(system, replace(capture, options={"enable": enable}))
    assert switch == setting
    assert hint == (HINT if setting == "0\n" else "")


def test_the_kernel_counts_for_the_run_and_not_longer(
    make_system: MakeSystem, capture: Capture
) -> None:
    system = make_system({"proc/schedstat": SNAPSHOT.format(1), SWITCH[1:]: "0\n"})
    switch, hint = outcome(system, replace(capture, options={"enable": "1"}))
    assert (switch, hint) == ("1\n", "")
    assert system.path(SWITCH).read_text() == "0\n"
    facts = json.loads((capture.folder / "schedstat.json").read_text())
    assert facts == {"enabled_before": True, "enabled": True, "switched_on": True}


def test_a_switch_that_is_not_for_this_user_skips_it(
    make_system: MakeSystem, capture: Capture
) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write every file")
    system = make_system({"proc/schedstat": SNAPSHOT.format(1), SWITCH[1:]: "0\n"})
    system.path(SWITCH).chmod(0o444)
    with pytest.raises(Skipped, match="sched_schedstats: permission denied"):
        next(capture_schedstat(system, replace(capture, options={"enable": "1"})))


@pytest.mark.system
@pytest.mark.xdist_group("machine")
def test_a_hint_of_a_collector_that_works_is_shown_by_doctor(
    recorder_with: Callable[[str], Any],
) -> None:
    recorder = recorder_with(
        '''
@collector(scope="run", cost="nothing")
def hinting(capture):
    """Write a file."""
    (capture.folder / "file").write_text("1")
    yield
    return "switch it on"
'''
    )
    rows = json.loads(recorder("doctor", "--json").stdout)["collectors"]
    [row] = [row for row in rows if row["name"] == "hinting"]
    assert (row["status"], row["reason"], row["remedy"]) == ("ok", None, None)
    assert row["hint"] == "switch it on"


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
