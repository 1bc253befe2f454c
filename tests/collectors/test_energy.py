# SPDX-License-Identifier: GPL-2.0-or-later
"""Energy counters are read around and during a run; what cannot be read has its reason."""

import json
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.energy import (
    LONGEST_PAUSE_S,
    SHORTEST_PAUSE_S,
    Readings,
    capture_energy,
    energy,
    find_counters,
)
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.value_files import ValueFiles
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped
from schedperf_generators.energy import (
    RAPL_RANGE_UJ,
    EnergyTree,
    Sensor,
    Zone,
    amd_energy,
    arm_scmi,
    intel_rapl,
)

# Only a limit: a machine that is busy with other things takes its time.
LONGEST_WAIT_S = 60
NOBODY = 65534


@pytest.fixture
def make_tree(tmp_path: Path) -> Callable[..., EnergyTree]:
    return lambda **counters: EnergyTree(tmp_path / "root", **counters)


MakeTree = Callable[..., EnergyTree]


def record(tree: EnergyTree, capture: Capture, during: Callable[[], None] = lambda: None) -> Any:
    """Run the collector around a function; return what it wrote."""
    running = capture_energy(System(tree.root), capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    during()
    assert list(running) == []
    return json.loads((capture.folder / "energy.json").read_text())


def test_this_machine_is_read_or_has_a_reason(run_here: Callable[..., str]) -> None:
    reason = run_here(energy)
    assert reason == "" or "/sys/class/" in reason


def test_zones_of_two_packages_are_read_before_and_after(
    make_tree: MakeTree, capture: Capture
) -> None:
    tree = make_tree(zones=intel_rapl(packages=2, psys=True))
    facts = record(tree, capture, lambda: tree.use({"intel-rapl:0": 90.0, "intel-rapl:1:2": 2.5}))
    counters = [(counter["path"], counter["name"]) for counter in facts["counters"]]
    assert counters[:2] == [
        ("/sys/class/powercap/intel-rapl:0/energy_uj", "package-0"),
        ("/sys/class/powercap/intel-rapl:0:0/energy_uj", "core"),
    ]
    assert len(counters) == 9
    assert {counter["max_energy_range_uj"] for counter in facts["counters"]} == {str(RAPL_RANGE_UJ)}
    before, after = (reading["energy_uj"] for reading in facts["readings"])
    changes = [int(new) - int(old) for old, new in zip(before, after, strict=True)]
    assert [change for change in changes if change] == [90_000_000, 2_500_000]
    assert facts["readings"][0]["ns"] < facts["readings"][1]["ns"]
    assert (facts["every_s"], facts["refused"]) == (LONGEST_PAUSE_S, {})


def test_zones_of_scmi_and_sensors_of_hwmon_are_read(make_tree: MakeTree, capture: Capture) -> None:
    tree = make_tree(zones=arm_scmi("soc", "big"), sensors=amd_energy(sockets=2, cores=1))
    facts = record(tree, capture)
    assert [(counter["name"], counter["chip"]) for counter in facts["counters"]] == [
        ("soc", None), ("big", None), ("Ecore000", "amd_energy"), ("Esocket0", "amd_energy"),
        ("Esocket1", "amd_energy"),
    ]  # fmt: skip


def test_sensors_of_one_name_have_their_device(make_tree: MakeTree, capture: Capture) -> None:
    sensors = [
        Sensor(folder=f"hwmon{number}", chip="ina238", number=1, device=f"1-004{number}")
        for number in range(2)
    ]
    facts = record(make_tree(sensors=sensors), capture)
    assert [(counter["chip"], counter["device"]) for counter in facts["counters"]] == [
        ("ina238", "1-0040"), ("ina238", "1-0041"),
    ]  # fmt: skip


def test_power_is_never_read(make_tree: MakeTree, capture: Capture) -> None:
    tree = make_tree(sensors=[Sensor(folder="hwmon0", chip="ina226", number=1)])
    device = tree.root / "sys/class/hwmon/hwmon0"
    (device / "power1_average").write_text("15000000\n")
    (device / "power1_input").write_text("15000000\n")
    [counter] = record(tree, capture)["counters"]
    assert counter["path"].endswith("hwmon0/energy1_input")


@pytest.mark.parametrize(
    ("range_uj", "pause_s"),
    [
        (RAPL_RANGE_UJ, LONGEST_PAUSE_S),
        (20_000_000_000, 5.0),
        (1000, SHORTEST_PAUSE_S),
        (2**64 - 1, LONGEST_PAUSE_S),
    ],
)
def test_a_counter_is_read_before_it_can_count_half_of_its_range(
    make_tree: MakeTree, capture: Capture, range_uj: int, pause_s: float
) -> None:
    tree = make_tree(zones=[Zone(folder="intel-rapl:0", name="x", range_uj=str(range_uj))])
    assert record(tree, capture)["every_s"] == pause_s


@pytest.mark.parametrize("text", [None, "0", "-5", "²", "many", "1e9", ""])
def test_a_counter_without_a_range_is_read_twice_only(
    make_tree: MakeTree, capture: Capture, text: str | None
) -> None:
    tree = make_tree(zones=[Zone(folder="intel-rapl:0", name="x", range_uj=text)])
    facts = record(tree, capture)
    assert facts["every_s"] is None
    assert len(facts["readings"]) == 2


def test_counters_with_a_range_are_read_during_the_run(make_tree: MakeTree) -> None:
    zones = [Zone(folder="intel-rapl:0", name="package-0", energy_uj="900", range_uj="1000")]
    tree = make_tree(zones=zones, sensors=amd_energy(sockets=1))
    files = ValueFiles(System(tree.root))
    readings = Readings(files, find_counters(files)[0])
    readings.read_all()
    end_s = time.monotonic() + LONGEST_WAIT_S
    with readings.repeated():
        # It starts from 0 again.
        tree.use({"intel-rapl:0": 200e-6})
        while len(readings.rows) == 1 and time.monotonic() < end_s:
            time.sleep(SHORTEST_PAUSE_S / 10)
    readings.read_all()
    first, second, *_, last = [reading["energy_uj"] for reading in readings.rows]
    assert (first, second, last) == (["900", "77000000"], ["99", None], ["99", "77000000"])


def test_a_counter_that_vanishes_has_no_value_any_more(
    make_tree: MakeTree, capture: Capture
) -> None:
    tree = make_tree(zones=intel_rapl(packages=1))
    facts = record(tree, capture, lambda: tree.remove("intel-rapl:0"))
    assert [reading["energy_uj"][0] for reading in facts["readings"]] == ["1284423345", None]


@pytest.mark.parametrize("text", ["", "garbage\tand\nlines", "9" * 5000, "\x00\u202e", "-1"])
def test_whatever_a_counter_holds_is_kept_as_it_is(
    make_tree: MakeTree, capture: Capture, text: str
) -> None:
    tree = make_tree(zones=intel_rapl(packages=1))
    facts = record(tree, capture, lambda: tree.set("intel-rapl:0", text))
    kept = facts["readings"][1]["energy_uj"][0]
    assert kept == (text.strip("\0 \t\r\n")[:4096] or None)


def test_a_counter_that_cannot_be_read_is_named_and_the_others_are_read(
    make_tree: MakeTree, capture: Capture
) -> None:
    tree = make_tree(zones=intel_rapl(packages=1))
    tree.deny("intel-rapl:0:2")
    running = capture_energy(System(tree.root), capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    with pytest.raises(StopIteration) as ended:
        next(running)
    path = "/sys/class/powercap/intel-rapl:0:2/energy_uj"
    reason = "too many levels of symbolic links"
    assert ended.value.value == f"{path}: {reason}"
    facts = json.loads((capture.folder / "energy.json").read_text())
    assert facts["refused"] == {path: reason}
    assert len(facts["counters"]) == 3


def test_a_loop_of_directories_is_no_counter(make_tree: MakeTree) -> None:
    tree = make_tree(zones=intel_rapl(packages=1))
    for kind in ("powercap", "hwmon"):
        folder = tree.root / "sys/class" / kind
        folder.mkdir(exist_ok=True)
        (folder / "loop").symlink_to("loop")
    counters, refused = find_counters(ValueFiles(System(tree.root)))
    assert (len(counters), refused) == (4, {})


def test_a_machine_without_counters_is_skipped(make_tree: MakeTree, capture: Capture) -> None:
    tree = make_tree()
    with pytest.raises(Skipped) as skipped:
        next(capture_energy(System(tree.root), capture))
    assert skipped.value.reason == "no energy counter in /sys/class/powercap or /sys/class/hwmon"
    assert skipped.value.remedy == ""


def test_a_machine_whose_counters_are_closed_is_skipped_with_the_reason(
    make_tree: MakeTree, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_tree(zones=list(intel_rapl(packages=1))[:2])
    tree.deny("intel-rapl:0")
    tree.deny("intel-rapl:0:0")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Skipped) as skipped:
        next(capture_energy(System(tree.root), capture))
    assert skipped.value.reason == (
        "/sys/class/powercap/intel-rapl:0/energy_uj: too many levels of symbolic links (and 1 more)"
    )
    assert skipped.value.remedy == "run as root"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_an_ordinary_user_may_not_read_rapl(capture: Capture) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        tree = EnergyTree(Path(name) / "root", zones=list(intel_rapl(packages=1))[:1])
        os.seteuid(NOBODY)
        try:
            with pytest.raises(Skipped) as skipped:
                next(capture_energy(System(tree.root), capture))
        finally:
            os.seteuid(0)
    assert skipped.value.reason == ("/sys/class/powercap/intel-rapl:0/energy_uj: permission denied")
    assert skipped.value.remedy == "run as root"


EVENTS = "sys/bus/event_source/devices/power/events"
# Without the PMU, the installed perf counts another event in its place.
PERF = """#!/bin/sh
for word; do
    shift
    case $word in power/*) word=cpu-clock;; esac
    set -- "$@" "$word"
done
exec perf "$@"
"""


@pytest.mark.usefixtures("needs_perf")
def test_perf_counts_where_no_zone_can_be_read(
    make_tree: MakeTree, capture: Capture, tmp_path: Path
) -> None:
    tree = make_tree(zones=list(intel_rapl(packages=1))[:1])
    tree.deny("intel-rapl:0")
    events = tree.root / EVENTS
    events.mkdir(parents=True)
    for name in ("energy-pkg", "energy-pkg.unit", "energy-ram", "other"):
        (events / name).write_text("event=0x02\n")
    program = tmp_path / "perf"
    program.write_text(PERF)
    program.chmod(0o755)
    capture = Capture(capture.folder, capture.workload_pid, {"perf": str(program)})
    facts = record(tree, capture)
    assert re.search("^S0,.*,cpu-clock,", (capture.folder / "perf.csv").read_text(), re.MULTILINE)
    assert facts["counters"] == []
    assert [*facts["refused"]] == ["/sys/class/powercap/intel-rapl:0/energy_uj"]


def test_without_perf_the_events_are_no_help(make_tree: MakeTree, capture: Capture) -> None:
    tree = make_tree()
    (tree.root / EVENTS).mkdir(parents=True)
    (tree.root / EVENTS / "energy-pkg").write_text("event=0x02\n")
    capture = Capture(capture.folder, capture.workload_pid, {"perf": "no-such-perf"})
    with pytest.raises(Skipped, match="perf: no-such-perf is not on PATH"):
        next(capture_energy(System(tree.root), capture))
