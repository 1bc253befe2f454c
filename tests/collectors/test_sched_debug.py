# SPDX-License-Identifier: GPL-2.0-or-later
"""Settings that only debugfs has, of today's kernels and of older ones, CPUs alike together."""

from collections.abc import Callable

import pytest

from schedperf.runs.sched_debug import CpuKind, SchedDebug, parse_sched_debug
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import Capture, Skipped
from schedperf_collectors.sched_debug import (
    MOST_KINDS,
    MOST_SETTINGS,
    capture_sched_debug,
    sched_debug,
)

MakeSystem = Callable[..., System]

DEBUG = "sys/kernel/debug/sched"


def read(system: System, capture: Capture) -> SchedDebug:
    capture_sched_debug(system, capture)
    return parse_sched_debug((capture.folder / "sched_debug.json").read_bytes(), "sched_debug.json")


def domains(cpus: range, name: str, cost: int = 0) -> dict[str, str]:
    files: dict[str, str] = {}
    for cpu in cpus:
        folder = f"{DEBUG}/domains/cpu{cpu}/domain0"
        files |= {f"{folder}/name": f"{name}\n", f"{folder}/max_newidle_lb_cost": f"{cost + cpu}\n"}
    return files


def test_debugfs_that_not_even_root_may_read_is_skipped(
    make_system: MakeSystem, capture: Capture
) -> None:
    system = make_system({f"{DEBUG}/verbose": ""})
    with pytest.raises(Skipped, match="no setting is readable: ") as skipped:
        capture_sched_debug(system, capture)
    assert skipped.value.remedy in {"run as root", "boot without kernel lockdown"}
    assert list(capture.folder.iterdir()) == []


def test_settings_that_host_json_has_are_not_here(
    make_system: MakeSystem, capture: Capture
) -> None:
    system = make_system(
        {
            f"{DEBUG}/features": "NO_HRTICK\n",
            f"{DEBUG}/base_slice_ns": "2800000\n",
            f"{DEBUG}/debug": "cpu#0\n",
            f"{DEBUG}/nr_migrate": "32\n",
            f"{DEBUG}/numa_balancing/scan_size_mb": "256\n",
        }
    )
    found = read(system, capture)
    assert found.source == "/sys/kernel/debug/sched"
    assert found.settings == {"nr_migrate": "32", "numa_balancing/scan_size_mb": "256"}
    assert found.missing == {}


def test_cpus_with_the_same_settings_stand_together(
    make_system: MakeSystem, capture: Capture
) -> None:
    files = domains(range(8), "MC") | domains(range(2, 4), "CLS")
    files |= {f"{DEBUG}/fair_server/cpu{cpu}/runtime": "50\n" for cpu in range(8)}
    found = read(make_system(files), capture)
    assert found.per_cpu["domains"] == (
        CpuKind(cpus="0-1,4-7", settings={"domain0/name": "MC"}),
        CpuKind(cpus="2-3", settings={"domain0/name": "CLS"}),
    )
    assert found.per_cpu["fair_server"] == (CpuKind(cpus="0-7", settings={"runtime": "50"}),)


def test_what_is_half_written_is_said(make_system: MakeSystem, capture: Capture) -> None:
    files = {**domains(range(2), "MC"), f"{DEBUG}/domains/cpu1/domain0/flags": "", f"{DEBUG}/x": ""}
    found = read(make_system(files), capture)
    assert found.missing == {
        "x": "/sys/kernel/debug/sched/x: empty",
        "domains/cpu1/domain0/flags": "/sys/kernel/debug/sched/domains/cpu1/domain0/flags: empty",
    }
    assert [kind.cpus for kind in found.per_cpu["domains"]] == ["0-1"]


def test_older_kernels_have_the_same_names(make_system: MakeSystem, capture: Capture) -> None:
    system = make_system(
        {
            "proc/sys/kernel/sched_nr_migrate": "32\n",
            "proc/sys/kernel/sched_latency_ns": "6000000\n",
            "proc/sys/kernel/numa_balancing_scan_size_mb": "256\n",
            "proc/sys/kernel/numa_balancing": "1\n",
            "proc/sys/kernel/sched_domain/cpu0/domain0/name": "MC\n",
        }
    )
    found = read(system, capture)
    assert found.source == "/proc/sys/kernel"
    assert found.settings == {"nr_migrate": "32", "numa_balancing/scan_size_mb": "256"}
    assert found.per_cpu["domains"] == (CpuKind(cpus="0", settings={"domain0/name": "MC"}),)


def test_more_than_a_kernel_has_is_cut_and_said(make_system: MakeSystem, capture: Capture) -> None:
    files = {f"{DEBUG}/setting{number}": "1\n" for number in range(MOST_SETTINGS + 3)}
    for cpu in range(MOST_KINDS + 3):
        files |= domains(range(cpu, cpu + 1), f"kind{cpu}")
    found = read(make_system(files), capture)
    assert len(found.settings) == MOST_SETTINGS
    assert len(found.per_cpu["domains"]) == MOST_KINDS
    assert found.missing == {
        "settings": f"settings beyond the first {MOST_SETTINGS} are not stored",
        "domains": (
            f"CPUs have {MOST_KINDS + 3} different combinations of settings; only the first "
            f"{MOST_KINDS} are stored"
        ),
    }


def test_without_debugfs_it_is_skipped_with_the_remedy(
    make_system: MakeSystem, capture: Capture
) -> None:
    with pytest.raises(Skipped, match="/sys/kernel/debug/sched does not exist") as caught:
        capture_sched_debug(make_system({}), capture)
    assert caught.value.remedy.startswith("run `mount -t debugfs")


def test_this_machine_has_it_or_is_skipped(capture: Capture) -> None:
    if System().exists("/sys/kernel/debug/sched"):
        sched_debug(capture)
        assert read(System(), capture).per_cpu["domains"]
    else:
        with pytest.raises(Skipped):
            sched_debug(capture)
