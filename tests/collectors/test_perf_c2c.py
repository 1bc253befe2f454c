# SPDX-License-Identifier: GPL-2.0-or-later
"""The vendor's events are chosen with a fixed period, recorded by a real perf, and read back.

No hardware that samples memory accesses is at hand, so perf is a real one that is
given cpu-clock in place of the vendor's event; all else is as on hardware.
"""

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.machine.system import System
from schedperf_collectors.perf.memory import (
    MemoryEvents,
    cannot_decode,
    choose_memory_events,
    read_wanted,
)
from schedperf_collectors.perf.running import PerfFailed
from schedperf_collectors.perf_c2c import capture_c2c, perf_c2c
from schedperf_collectors.perf_header import BadPerfData
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped

MakeSystem = Callable[..., System]

DEVICES = "sys/bus/event_source/devices"
INTEL = {f"{DEVICES}/cpu/{name}": "x" for name in (
    "events/mem-loads", "events/mem-stores", "format/ldlat",
)}  # fmt: skip
HYBRID = {
    f"{DEVICES}/cpu_atom/events/mem-loads": "x",
    f"{DEVICES}/cpu_atom/events/mem-stores": "x",
    f"{DEVICES}/cpu_atom/format/ldlat": "x",
    f"{DEVICES}/cpu_core/events/mem-loads": "x",
    f"{DEVICES}/cpu_core/events/mem-loads-aux": "x",
    f"{DEVICES}/cpu_core/events/mem-stores": "x",
    f"{DEVICES}/cpu_core/format/ldlat": "x",
}
POWER = {f"{DEVICES}/cpu/events/mem-loads": "x", f"{DEVICES}/cpu/events/mem-stores": "x"}
ZEN3 = {f"{DEVICES}/ibs_op/type": "11", "proc/cpuinfo": "cpu family\t: 25\nmodel\t\t: 1\n"}
ZEN2 = {f"{DEVICES}/ibs_op/type": "11", "proc/cpuinfo": "cpu family\t: 23\nmodel\t\t: 49\n"}
ZEN4 = {
    f"{DEVICES}/ibs_op/caps/zen4_ibs_extensions": "1",
    "proc/cpuinfo": "cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9654\n",
}
ZEN5 = {**ZEN4, f"{DEVICES}/ibs_op/format/ldlat": "config1:0-11"}
SPE = {f"{DEVICES}/arm_spe_0/format/pa_enable": "config:1"}


def choose(system: System, *, stores: bool = True, **options: str) -> MemoryEvents:
    return choose_memory_events(system, read_wanted("perf_c2c", options, stores=stores))


@pytest.fixture
def clock_perf(tmp_path: Path) -> Callable[..., str]:
    """Make a perf that records cpu-clock whatever memory event it is asked for.

    :param period: what it is given beside it; "" leaves the rate to perf
    :param without: an option that it silently leaves out
    """

    def make(period: str = "-c 1000000", without: str = "nothing") -> str:
        program = tmp_path / "clock-perf"
        program.write_text(
            f"""#!/bin/bash
words=()
for word; do
    case "$word" in
        *mem-loads*|*mem-stores*|ibs_op*|arm_spe*) words+=(cpu-clock);;
        {without}) ;;
        *) words+=("$word");;
    esac
    [ "$word" = record ] && words+=({period})
done
exec perf "${{words[@]}}"
"""
        )
        program.chmod(0o755)
        return str(program)

    return make


def sample(system: System, capture: Capture, seconds: float = 0.2) -> Any:
    """Sample a busy CPU for a while and return perf_c2c.json."""
    running = capture_c2c(system, capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    # Its own time: a busy machine may not let it run at once.
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    assert list(running) == []
    return json.loads((capture.folder / "perf_c2c.json").read_text())


@pytest.mark.parametrize(
    ("files", "vendor", "observable", "events"),
    [
        (
            INTEL,
            "Intel",
            "hitm",
            ("cpu/mem-loads,ldlat=30,period=20011/P", "cpu/mem-stores,period=1000003/P"),
        ),
        (
            HYBRID,
            "Intel",
            "hitm",
            (
                "cpu_atom/mem-loads,ldlat=30,period=20011/P",
                "cpu_atom/mem-stores,period=1000003/P",
                "{cpu_core/mem-loads-aux,period=20011/,cpu_core/mem-loads,ldlat=30,period=20011/}:P",
                "cpu_core/mem-stores,period=1000003/P",
            ),
        ),
        (POWER, "POWER", "hitm", ("cpu/mem-loads,period=20011/", "cpu/mem-stores,period=1000003/")),
        (ZEN4, "AMD", "ibs", ("ibs_op//",)),
        (ZEN5, "AMD", "ibs", ("ibs_op//",)),
        (
            SPE,
            "Arm",
            "peer",
            ("arm_spe_0/ts_enable=1,pa_enable=1,load_filter=1,store_filter=1,min_latency=30/",),
        ),
    ],
    ids=["intel", "hybrid", "power", "zen4", "zen5", "spe"],
)
def test_each_vendor_has_its_events(
    make_system: MakeSystem,
    files: Mapping[str, str],
    vendor: str,
    observable: str,
    events: tuple[str, ...],
) -> None:
    chosen = choose(make_system(files))
    assert (chosen.vendor, chosen.observable, chosen.events) == (vendor, observable, events)
    # A period is either part of every event or an option of perf: never perf's own choice.
    command = chosen.record_command("perf", "perf.data")
    assert ("-c" in command) != all("period=" in event for event in events)


def test_loads_alone_are_sampled_without_stores(make_system: MakeSystem) -> None:
    chosen = choose(make_system(INTEL), stores=False)
    assert chosen.events == ("cpu/mem-loads,ldlat=30,period=20011/P",)
    assert chosen.store_period is None


def test_stores_are_filtered_out_of_a_trace(make_system: MakeSystem) -> None:
    (event,) = choose(make_system(SPE), stores=False).events
    assert "load_filter=1,store_filter=0," in event


@pytest.mark.parametrize(
    ("event", "observable"),
    [("ibs_op/cnt_ctl=1/", "ibs"), ("arm_spe_0//", "peer"), ("cpu/event=0xcd,umask=1/P", "hitm")],
)
def test_an_event_that_is_named_is_taken_as_it_is(
    make_system: MakeSystem, event: str, observable: str
) -> None:
    chosen = choose(make_system({}), event=event, period="4001")
    assert (chosen.events, chosen.observable, chosen.period) == ((event,), observable, 4001)
    command = chosen.record_command("perf", "perf.data")
    assert command[command.index("-c") + 1] == "4001"


def test_settings_are_in_the_events_and_in_the_record(make_system: MakeSystem) -> None:
    chosen = choose(make_system(INTEL), period="1009", store_period="50021", ldlat="70")
    assert chosen.events == (
        "cpu/mem-loads,ldlat=70,period=1009/P",
        "cpu/mem-stores,period=50021/P",
    )
    assert (chosen.period, chosen.store_period, chosen.ldlat) == (1009, 50021, 70)
    assert chosen.blind == ("loads faster than 70 cycles",)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (ZEN2, "modified lines of other nodes: before Zen 4"),
        (ZEN3, "modified lines of other cores: Zen 3 does not report"),
        (SPE, "whether a line was modified"),
    ],
    ids=["zen2", "zen3", "spe"],
)
def test_what_a_vendor_cannot_show_is_said(
    make_system: MakeSystem, files: Mapping[str, str], said: str
) -> None:
    assert choose(make_system(files)).blind[0].startswith(said)


def test_a_latency_filter_of_ibs_hides_stores(make_system: MakeSystem) -> None:
    chosen = choose(make_system(ZEN5), ldlat="128")
    assert chosen.events == ("ibs_op/ldlat=128/",)
    assert chosen.blind == ("stores, and loads faster than 128 cycles",)


@pytest.mark.parametrize(
    ("files", "options", "reason", "remedy"),
    [
        (ZEN3, {"ldlat": "128"}, "`ibs_op` has no latency filter", "do not set ldlat"),
        (POWER, {"ldlat": "30"}, "`mem-loads` has no latency filter", "do not set ldlat"),
        (INTEL, {"period": "often"}, "not a number: 'often'", "use --set perf_c2c.period=NUMBER"),
        (
            INTEL,
            {"ldlat": "0"},
            "invalid ldlat: 0 (expected a positive number)",
            "use --set perf_c2c.ldlat=NUMBER",
        ),
        (
            {"proc/cpuinfo": "vendor_id\t: GenuineIntel\n"},
            {},
            "PEBS is not available on this machine, because ",
            "",
        ),
        (
            {"proc/cpuinfo": "vendor_id\t: AuthenticAMD\n"},
            {},
            "IBS is not available on this machine, because ",
            "enable IBS",
        ),
        (
            {"proc/cpuinfo": "vendor_id\t: AuthenticAMD\n", "sys/hypervisor/type": "xen"},
            {},
            "IBS is not available in this guest (xen), because /sys/bus/event_source/devices has",
            "record on the host",
        ),
    ],
)
def test_what_is_impossible_says_why_and_what_mends_it(
    make_system: MakeSystem,
    files: Mapping[str, str],
    options: Mapping[str, str],
    reason: str,
    remedy: str,
) -> None:
    with pytest.raises(Skipped) as caught:
        choose_memory_events(make_system(files), read_wanted("perf_c2c", options, stores=True))
    assert reason in caught.value.reason
    assert caught.value.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [("aarch64", "Arm SPE is not available"), ("s390x", "memory access sampling is not")],
)
def test_other_machines_name_what_they_lack(
    make_system: MakeSystem, machine: str, reason: str
) -> None:
    with pytest.raises(Skipped, match=reason):
        choose(make_system({}, machine))


@pytest.mark.parametrize(
    ("part", "version", "blind"),
    [
        ("0xd4f", "perf version 6.8.12", True),
        ("0xd4f", "perf version 6.13", False),
        ("0xd0c", "perf version 5.15.0", True),
        ("0xd0c", "perf version 6.1.192", False),
        ("0xfff", "perf version 5.15.0", False),
        ("0xd4f", "None", False),
    ],
)
def test_a_perf_that_cannot_decode_peers_is_said(
    make_system: MakeSystem, part: str, version: str, *, blind: bool
) -> None:
    system = make_system({"proc/cpuinfo": f"CPU part\t: {part}\n"}, "aarch64")
    assert (cannot_decode(system, version) is not None) == blind


@pytest.mark.system
@pytest.mark.xdist_group("machine")
@pytest.mark.usefixtures("needs_perf")
def test_the_file_is_one_that_perf_c2c_reads(
    make_system: MakeSystem, capture: Capture, clock_perf: Callable[..., str]
) -> None:
    system = make_system({**ZEN4, "sys/devices/system/cpu/online": "0\n"})
    facts = sample(system, replace(capture, options={"perf": clock_perf()}))
    assert (facts["vendor"], facts["observable"]) == ("AMD", "ibs")
    assert facts["requested"] == ["ibs_op//"]
    assert (facts["period"], facts["ldlat"], facts["store_period"]) == (1 << 19, None, None)
    (event,) = facts["events"]
    assert event["period"] is not None
    assert facts["cpu"] == "AMD EPYC 9654"
    assert facts["started"] == "acknowledged"
    assert facts["command"][-1] == "perf.data"
    assert facts["blind"] == []
    path = capture.folder / "perf.data"
    report = subprocess.run(
        ["perf", "c2c", "report", "-i", str(path), "--stats"], capture_output=True, text=True
    )
    assert report.returncode == 0
    assert f"Total records                     :{facts['samples']:>11}" in report.stdout
    assert json.loads((capture.folder / "percpu.json").read_text())["tried"]["kcore"]
    assert {file.name for file in capture.folder.iterdir()} == {
        "perf.data", "perf_c2c.json", "percpu.json",
    }  # fmt: skip


@pytest.mark.usefixtures("needs_perf")
def test_a_trace_is_decoded_by_perf_and_not_kept(
    make_system: MakeSystem, capture: Capture, clock_perf: Callable[..., str]
) -> None:
    system = make_system({**SPE, "proc/cpuinfo": "CPU part\t: 0xd4f\n"}, "aarch64")
    facts = sample(system, replace(capture, options={"perf": clock_perf()}))
    assert facts["observable"] == "peer"
    assert facts["samples"] > 0
    assert facts["cpu"] == "0xd4f"
    assert not (capture.folder / "trace.data").exists()
    version = tuple(int(part) for part in facts["perf_version"].split()[-1].split(".")[:2])
    assert any("Neoverse V2" in each for each in facts["blind"]) == (version < (6, 13))


@pytest.mark.usefixtures("needs_perf")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"period": ""}, "no fixed sampling period"),
        ({"without": "-d"}, "have no data"),
    ],
)
def test_a_file_of_something_else_is_refused(
    make_system: MakeSystem,
    capture: Capture,
    clock_perf: Callable[..., str],
    wrong: dict[str, str],
    said: str,
) -> None:
    with pytest.raises(BadPerfData, match=said):
        sample(make_system(INTEL), replace(capture, options={"perf": clock_perf(**wrong)}))


@pytest.mark.usefixtures("needs_perf")
def test_a_pmu_that_is_not_precise_is_said(
    make_system: MakeSystem, capture: Capture, clock_perf: Callable[..., str]
) -> None:
    facts = sample(make_system(INTEL), replace(capture, options={"perf": clock_perf()}))
    assert facts["blind"][0] == "loads faster than 30 cycles"
    assert "exact data addresses: no precise sampling for cpu-clock" in facts["blind"][1]


@pytest.mark.usefixtures("needs_perf")
def test_what_perf_refuses_is_said_in_its_own_words(
    make_system: MakeSystem, capture: Capture
) -> None:
    with pytest.raises(PerfFailed, match="event syntax error"):
        next(capture_c2c(make_system({}), replace(capture, options={"event": "nonsense"})))


def test_here_it_runs_or_says_why_not(capture: Capture, run_here: Callable[..., str]) -> None:
    reason = run_here(perf_c2c)
    assert bool(reason) != (capture.folder / "percpu.json").exists()
