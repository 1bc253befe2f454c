# SPDX-License-Identifier: GPL-2.0-or-later
"""Tunables of the machine: what is saved, what counts as a change, and how it is undone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from schedperf_collectors.recorder.control_groups import all_cgroups
from schedperf_collectors.recorder.tunables import (
    changed_tunables,
    read_tunables,
    restore_tunables,
    undo_command,
    words_to_write,
)

POLICY = "sys/devices/system/cpu/cpufreq/policy0"
CASES = {
    "proc/sys/kernel/sched_autogroup_enabled": ("0", "1"),
    "sys/kernel/debug/sched/base_slice_ns": ("2800000", "3000000"),
    "sys/kernel/debug/sched/domains/cpu0/domain0/min_interval": ("2", "4"),
    "sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs": ("10000", "0"),
    f"{POLICY}/scaling_governor": ("powersave", "performance"),
    f"{POLICY}/scaling_max_freq": ("2100000", "800000"),
    "sys/devices/system/cpu/cpu0/cpuidle/state2/disable": ("0", "1"),
    "sys/devices/system/cpu/intel_pstate/no_turbo": ("0", "1"),
}
COMMANDS_OF_THE_KERNEL = (
    "proc/sys/kernel/ns_last_pid",
    "proc/sys/kernel/random/boot_id",
    "proc/sys/vm/drop_caches",
    "sys/kernel/debug/sched/domains/cpu0/domain0/max_newidle_lb_cost",
    "sys/devices/system/cpu/cpu0/topology/core_id",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root directory with the tunables of the cases, and files that are none."""
    for name, (text, _) in CASES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    for name in COMMANDS_OF_THE_KERNEL:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("0\n")
    debug = tmp_path / "sys/kernel/debug/sched/debug"
    debug.write_text("Sched Debug Version: v0.11\n")
    debug.chmod(0o444)
    return tmp_path


def test_every_tunable_is_saved_and_restored_and_nothing_else(root: Path) -> None:
    before = read_tunables(root)
    assert {str(path.relative_to(root)): text for path, text in before.items()} == {
        name: text for name, (text, _) in CASES.items()
    }
    for name, (_, other) in CASES.items():
        (root / name).write_text(other + "\n")
    assert changed_tunables(before) == {root / name: other for name, (_, other) in CASES.items()}
    assert restore_tunables(before) == {}
    assert [(root / name).read_text() for name in CASES] == [
        f"{text}\n" for text, _ in CASES.values()
    ]


def test_what_is_gone_is_no_change(root: Path) -> None:
    before = read_tunables(root)
    (root / POLICY / "scaling_governor").unlink()
    assert changed_tunables(before) == {}


@pytest.mark.parametrize(
    ("name", "before", "now", "words"),
    [
        ("/sys/kernel/debug/sched/features", "A NO_B C", "NO_A NO_B NO_C", ["A", "C"]),
        ("/sys/kernel/debug/sched/preempt", "none (voluntary) full", "", ["voluntary"]),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never", "", ["madvise"]),
        ("/sys/kernel/mm/x/defrag", "[defer+madvise]", "", ["defer+madvise"]),
        ("/proc/sys/kernel/core_pattern", "|/bin/x [p] (y)", "core", ["|/bin/x [p] (y)"]),
        ("/proc/sys/kernel/printk", "4\t4\t1\t7", "1\t4\t1\t7", ["4\t4\t1\t7"]),
        ("/proc/sys/vm/overcommit_memory", "", "1", [""]),
        ("/sys/devices/virtual/workqueue/a/affinity_scope", "default (cache)", "", ["default"]),
        ("/sys/fs/cgroup/a/cpuset.cpus.partition", "root invalid (x)", "member", ["root"]),
    ],
)  # fmt: skip
def test_a_file_is_written_in_the_form_that_the_kernel_takes(
    name: str, before: str, now: str, words: list[str]
) -> None:
    assert words_to_write(Path(name), before, now) == words


@pytest.mark.parametrize("text", ["4\t4 1", "a'b $(touch no)", "", "-n x"])
def test_the_command_that_undoes_a_change_works_in_a_shell(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a b"
    path.write_text("other\n")
    command = undo_command(path, text, "other")
    subprocess.run(["bash", "-c", command], check=True, cwd=tmp_path)
    assert path.read_text() == text + "\n"
    assert [item.name for item in tmp_path.iterdir()] == ["a b"]


@pytest.mark.system
def test_the_values_of_this_kernel_are_read() -> None:
    names = {str(path) for path in read_tunables()}
    assert not any(name.endswith("/ns_last_pid") for name in names)
    assert not any(name.startswith("/proc/sys/kernel/random/") for name in names)
    assert changed_tunables(read_tunables()) == {}


@pytest.mark.system
def test_settings_of_control_groups_that_exist_are_read() -> None:
    names = {path.name for path in read_tunables()}
    weights = [path for path in all_cgroups() if (path / "cpu.shares").exists()]
    if not weights or os.geteuid() != 0:
        pytest.skip("needs root and cgroups with the controller cpu (version 1)")
    assert "cpu.shares" in names


@pytest.mark.system
@pytest.mark.alone
def test_debugfs_is_read_where_a_setup_may_mount_it() -> None:
    tests = "! mountpoint -q /sys/kernel/debug && unshare -m sh -c '"
    tests += "mount -t debugfs none /sys/kernel/debug && cat /sys/kernel/debug/sched/features'"
    if subprocess.run(["sh", "-c", tests], capture_output=True, check=False).returncode:
        pytest.skip("needs debugfs that is readable and not mounted")
    path = Path("/sys/kernel/debug/sched/features")
    assert "PLACE_LAG" in read_tunables()[path]
    assert not path.exists()


@pytest.mark.system
def test_a_value_that_refuses_to_be_restored_is_returned() -> None:
    path = Path("/proc/sys/kernel/ostype")
    assert restore_tunables({path: "Hurd"}) == {path: "Linux"}
    assert undo_command(path, "Hurd", "Linux") == "echo Hurd > /proc/sys/kernel/ostype"
