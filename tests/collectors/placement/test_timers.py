# SPDX-License-Identifier: GPL-2.0-or-later
"""Real throttled groups are seen with their phases; paths and periods keep groups apart."""

import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from schedperf_collectors.bpf.libbpf import BpfObject, Candidate, load_what_works
from schedperf_collectors.bpf.objects import read_object
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System
from schedperf_collectors.placement import timers
from schedperf_collectors.placement.machine import Machine, Place, read_machine
from schedperf_collectors.placement.timers import (
    CANDIDATES,
    FOLDERS,
    KEY,
    NAME_BYTES,
    PHASE_BINS,
    VALUE,
    describe_timers,
    group_path,
    read_expiries,
)

Wait = Callable[[Callable[[], object]], None]

PERIOD_US = 50_000
FEWEST_PERIODS = 15
BUSY = "while :; do :; done"


def _make_group(folder: Path) -> None:
    folder.mkdir()
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text(f"{PERIOD_US // 10} {PERIOD_US}")
    else:
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(PERIOD_US // 10))


def statistic(folder: Path, name: str) -> int:
    """Return what the kernel itself counts of a group: ``nr_periods`` or ``nr_throttled``."""
    return int((folder / "cpu.stat").read_text().split(f"{name} ")[1].split()[0])


@pytest.fixture
def throttled(wait_for: Wait) -> Iterator[list[Path]]:
    """Keep two groups busy beyond their limits; yields their folders."""
    roots = [Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")]
    root = next((each for each in roots if (each / "cgroup.procs").exists()), None)
    if os.geteuid() != 0 or root is None:
        pytest.skip("needs root and a cgroup hierarchy at its usual place")
    folders = [root / f"schedperf-test-{os.getpid()}-{name}" for name in "ab"]
    with ExitStack() as stack:
        for folder in folders:
            try:
                stack.callback(_remove, folder)
                _make_group(folder)
            except OSError as error:
                pytest.skip(f"no group with a limit of CPU time can be made: {error}")
            script = f"echo $$ > {folder}/cgroup.procs; {BUSY}"
            busy = subprocess.Popen(["sh", "-c", script])
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        wait_for(lambda: all(statistic(folder, "nr_throttled") for folder in folders))
        yield folders


def _remove(folder: Path) -> None:
    if folder.exists():
        folder.rmdir()


class Periods:
    """How many periods of each group have passed since then, as the kernel counts them."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._before = self._read()

    def _read(self) -> list[int]:
        return [statistic(folder, "nr_periods") for folder in self._folders]

    def passed(self) -> list[int]:
        return [now - before for now, before in zip(self._read(), self._before, strict=True)]


@pytest.mark.system
@pytest.mark.xdist_group("machine")
@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda each: each.mechanism)
def test_the_timers_of_two_throttled_groups_are_counted(
    throttled: list[Path], candidate: Candidate, wait_for: Wait
) -> None:
    machine = read_machine(System())
    try:
        loaded = load_what_works(read_object("timers"), "timers", [candidate], machine.prepare)
    except Unavailable as error:
        pytest.skip(error.reason)
    with loaded.object as program:
        outer = Periods(throttled)
        program.set_gate(is_open=True)
        inner = Periods(throttled)
        wait_for(lambda: min(inner.passed()) >= FEWEST_PERIODS)
        fewest = inner.passed()
        program.set_gate(is_open=False)
        most = outer.passed()
        found = {each.group: each for each in read_expiries(program.map("timer_counts").items())}
    for folder, at_least, at_most in zip(throttled, fewest, most, strict=True):
        timer = found[f"/{folder.name}"]
        assert timer.period_ns == PERIOD_US * 1000
        # A period may begin between the program's look and the kernel's, once at each end.
        assert at_least - 1 <= timer.expiries + timer.overruns <= at_most + 1
        assert sum(timer.phases) == timer.expiries
        # A timer is set again by adding periods: its phase does not change.
        assert [bool(count) for count in timer.phases].count(True) == 1
        place = timer.first_ns % timer.period_ns * PHASE_BINS // timer.period_ns
        assert timer.phases[place] == timer.expiries


@pytest.mark.system
@pytest.mark.xdist_group("machine")
def test_the_collectors_own_start_sees_a_throttled_group(
    throttled: list[Path], wait_for: Wait
) -> None:
    watching = timers.start(read_machine(System()))
    try:
        [program] = watching.programs.values()
        if program["reason"]:
            assert watching.invisible == [
                {"what": "sched_cfs_period_timer", "reason": program["reason"]}
            ]
            assert watching.read() == []
            return
        time.sleep(0.2)
        assert watching.read() == []
        watching.open_gate()
        periods = Periods(throttled)
        wait_for(lambda: min(periods.passed()) >= 2)
        watching.close_gate()
        rows = watching.read()
        assert {row["group"] for row in rows} >= {f"/{folder.name}" for folder in throttled}
        time.sleep(0.2)
        assert watching.read() == rows
        assert watching.lost == {}
    finally:
        watching.close()


def test_records_are_as_large_as_those_of_the_program() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make BPF maps")
    try:
        loaded = BpfObject(read_object("timers"), "timers")
        loaded.load([])
    except Unavailable as error:
        pytest.skip(error.reason)
    with loaded:
        counts = loaded.map("timer_counts")
        assert (counts.key_size, counts.value_size) == (KEY.size, VALUE.size)


@pytest.mark.parametrize(
    ("names", "path"),
    [
        ([b"b\0", b"a\0", b"\0", b"\0"], "/a/b"),
        ([b"\0junk", b"\0"], "/"),
        ([b"\xff\0", b"\0"], "/�"),
        ([b"h", b"g", b"f"], "…/f/g/h"),
    ],
)
def test_a_group_is_named_by_its_folders(names: list[bytes], path: str) -> None:
    assert group_path(names) == path


def make_item(folder: bytes, period_ns: int, first_ns: int, bin_: int) -> tuple[bytes, bytes]:
    phases = [0] * PHASE_BINS
    phases[bin_] = 3
    names = folder.ljust(NAME_BYTES, b"\0").ljust(NAME_BYTES * FOLDERS, b"\0")
    value = VALUE.pack(3, first_ns, 1, *phases, names)
    return struct.pack("=QQ", first_ns, period_ns), value


def test_a_group_that_was_made_again_continues_its_row_and_another_period_does_not() -> None:
    items = [make_item(b"x", 100, 70, 1), make_item(b"x", 100, 20, 2), make_item(b"x", 50, 90, 1)]
    other, continued = describe_timers(read_expiries(iter(items)))
    assert (other["group"], other["period_ns"], other["expiries"]) == ("/x", 50, 3)
    assert {name: continued[name] for name in ("expiries", "first_ns", "overruns")} == {
        "expiries": 6,
        "first_ns": 20,
        "overruns": 2,
    }
    phases = continued["phases"]
    assert isinstance(phases, list)
    assert phases[:4] == [0, 3, 3, 0]
    assert len(phases) == PHASE_BINS


@pytest.mark.parametrize(
    ("kallsyms", "reason"),
    [
        ("0000000000000000 t sched_cfs_period_timer\n", "hidden; run as root with kernel"),
        (
            "ffffffff81000000 t start_cfs_bandwidth\n",
            "inlined or not built: not in the kernel's symbols",
        ),
    ],
)
def test_a_function_that_cannot_be_found_is_the_reason_why_nothing_is_seen(
    kallsyms: str, reason: str, make_system: Callable[..., System]
) -> None:
    system = make_system({"proc/kallsyms": kallsyms})
    watching = timers.start(Machine({0: Place(0, (0,))}, 1, 0, ("PKG",), "topology"), system)
    [hidden] = watching.invisible
    assert reason in hidden["reason"]
    assert watching.programs["bandwidth_timers"]["mechanism"] is None
    assert watching.read() == []
    watching.close()
