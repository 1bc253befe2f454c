# SPDX-License-Identifier: GPL-2.0-or-later
"""A profile is on when the workload starts, off when it has ended, and says what it cannot see."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.machine.system import System
from schedperf_collectors.perf.running import PerfFailed
from schedperf_collectors.perf_header import TYPE_HARDWARE, TYPE_SOFTWARE, TYPE_TRACEPOINT, Event
from schedperf_collectors.perf_profile import blindness, perf_profile
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture

CMDLINE = "console=ttyAMA0 irqchip.gicv3_pseudo_nmi=1"
# As Linux 6.1 prints it, with and without pseudo-NMIs.
PMU = "6,1,0,-;hw perfevents: enabled with armv8_pmuv3 PMU driver, 7 counters available{}\n"


def profile(capture: Capture, seconds: float = 0.3) -> Any:
    """Profile one busy CPU for a while and return perf_profile.json."""
    running = perf_profile(capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    # Its own time: a busy machine may not let it run at once.
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    assert list(running) == []
    return json.loads((capture.folder / "perf_profile.json").read_text())


def event(kind: int) -> Event:
    return Event(
        name="e", type=kind, config=0, rate=999, by_frequency=True, sample_type=0,
        read_format=0, precise_ip=0, clockid=None, ids=(1, 2),
    )  # fmt: skip


def programs_that_name(folder: Path) -> list[str]:
    commands = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # It has ended meanwhile.
            continue
    return [command for command in commands if str(folder) in command]


@pytest.mark.usefixtures("needs_perf")
def test_the_busy_process_is_in_the_profile(capture: Capture) -> None:
    facts = profile(capture)
    assert facts["started"] == "acknowledged"
    assert facts["requested"] == "cycles"
    assert facts["samples"] > 50
    pids = subprocess.run(
        ["perf", "report", "-i", str(capture.folder / "perf.data"), "--stdio", "--sort", "pid",
         "-g", "none"],
        capture_output=True,
        text=True,
    ).stdout  # fmt: skip
    assert f"{os.getpid()}:" in pids


@pytest.mark.usefixtures("needs_perf")
def test_cpu_clock_is_said_to_be_blind(capture: Capture) -> None:
    facts = profile(replace(capture, options={"event": "cpu-clock", "frequency": "499"}))
    assert (facts["event"], facts["clock"], facts["frequency"]) == ("cpu-clock", "hrtimer", 499)
    assert (facts["nmi"], facts["blind"]) == (False, True)
    assert "interrupts off" in facts["blind_reason"]
    assert facts["per_cpu"] == os.cpu_count()


@pytest.mark.usefixtures("needs_perf")
def test_a_perf_without_control_pipes_is_used_too(
    capture: Capture, old_perf: Callable[[str], str]
) -> None:
    facts = profile(replace(capture, options={"perf": old_perf("--control")}))
    assert facts["started"] == "assumed"
    assert facts["samples"] > 50


@pytest.mark.usefixtures("needs_perf")
@pytest.mark.parametrize(
    ("options", "said"),
    [({"event": "nonsense"}, "event syntax error"), ({"frequency": "0"}, "frequency and count")],
)
def test_what_perf_refuses_is_said_in_its_own_words(
    capture: Capture, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PerfFailed, match=said):
        next(perf_profile(replace(capture, options=options)))


@pytest.mark.usefixtures("needs_perf")
def test_nothing_is_left_running_when_the_run_is_given_up(capture: Capture) -> None:
    running = perf_profile(capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    assert programs_that_name(capture.folder)
    assert isinstance(running, Generator)
    running.close()
    assert not programs_that_name(capture.folder)


@pytest.mark.usefixtures("needs_perf")
def test_a_user_without_rights_is_told_what_mends_it(run_as_nobody: Callable[[str], str]) -> None:
    assert run_as_nobody("perf_profile") == (
        "Skipped perf is not permitted for this user "
        "run as root, or set kernel.perf_event_paranoid to -1 with sysctl\n"
    )


@pytest.mark.parametrize(
    ("machine", "files", "kind", "expected"),
    [
        ("x86_64", {}, TYPE_HARDWARE, (True, False)),
        ("x86_64", {}, TYPE_SOFTWARE, (False, True)),
        ("x86_64", {}, TYPE_TRACEPOINT, (None, None)),
        ("ppc64le", {}, TYPE_HARDWARE, (None, None)),
        ("aarch64", {}, TYPE_HARDWARE, (None, None)),
        ("aarch64", {"proc/cmdline": "quiet"}, TYPE_HARDWARE, (False, True)),
        ("aarch64", {"proc/cmdline": CMDLINE}, TYPE_HARDWARE, (None, None)),
        (
            "aarch64",
            {"proc/cmdline": CMDLINE, "dev/kmsg": PMU.format(", using NMIs")},
            TYPE_HARDWARE,
            (True, False),
        ),
        (
            "aarch64",
            {"proc/cmdline": CMDLINE, "dev/kmsg": PMU.format("")},
            TYPE_HARDWARE,
            (False, True),
        ),
        (
            "aarch64",
            {"proc/cmdline": CMDLINE, "dev/kmsg": PMU.format(", using NMIs")},
            TYPE_SOFTWARE,
            (False, True),
        ),
    ],
)
def test_blindness_follows_from_how_the_event_interrupts(
    make_system: Callable[..., System],
    machine: str,
    files: dict[str, str],
    kind: int,
    expected: tuple[bool | None, bool | None],
) -> None:
    nmi, blind, reason = blindness(event(kind), make_system(files, machine))
    assert (nmi, blind) == expected
    assert reason
