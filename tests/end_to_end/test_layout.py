# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf layout`` on real kernels: the case that it was made for, from each kind of source."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.shared_data import shared, shared_kernel

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# How many lines of text the first finding may take.
MOST_LINES = 15


def schedperf(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "schedperf", "layout", *args],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"NO_COLOR": "1"},
    )


def kernel(name: str, source: str = "") -> Path:
    return shared_kernel(name) / source


def record(*args: str | Path) -> tuple[int, dict[str, Any]]:
    done = schedperf(*args, "--json", "-")
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)["data"]


@pytest.mark.parametrize("source", ["", "System.map", "btf"])
def test_the_cluster_patch_separates_the_pair_that_cost_a_quarter_of_tbench(source: str) -> None:
    status, data = record(kernel("tip", source), kernel("cluster", source))
    assert status == 1
    alarm = data["comparisons"][0]["alarms"][0]
    assert alarm["rule"] == "separated"
    assert {entry["name"] for entry in alarm["entries"]} == {"root_cpuacct_cpuusage", "sd_llc_id"}
    assert f"{alarm['boundary']:x}".endswith("240")
    assert (alarm["cause"]["entry"], alarm["cause"]["kind"]) == ("sd_cluster", "inserted")


def test_the_first_finding_is_on_few_lines_and_drawn_before_all_others() -> None:
    done = schedperf(kernel("tip"), kernel("cluster"))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    first = " ".join(" ".join(lines[:MOST_LINES]).split())
    for said in ("root_cpuacct_cpuusage and sd_llc_id", "240", "because of sd_cluster (inserted"):
        assert said in first
    drawn = next(at for at, line in enumerate(lines) if "root_cpuacct_cpuusage          " in line)
    assert drawn < next(at for at, line in enumerate(lines) if line.startswith("  1. "))
    assert "20208 d root_cpuacct_cpuusage          20208 d root_cpuacct_cpuusage" in done.stdout
    assert "advice for cluster: declare " in done.stdout
    assert "use unknown" in done.stdout
    assert max(map(len, lines)) <= 78


def test_kernels_of_equal_source_and_other_options_raise_no_alarm() -> None:
    status, data = record(kernel("tip"), kernel("tip-config"))
    compared = data["comparisons"][0]
    changed = [unit["unit"] for unit in compared["units"] if not unit["is_unchanged"]]
    assert status == int(bool(compared["alarms"]))
    assert changed
    assert all(unit["causes"] for unit in compared["units"] if unit["separated"])


def test_one_kernel_shows_a_struct_whole() -> None:
    done = schedperf(kernel("tip"), "--struct", "task_group")
    assert done.returncode == 0
    assert "struct task_group: " in done.stdout
    assert "load_avg.counter  s64 (8)" in done.stdout
    assert "(hole, " in done.stdout
    assert done.stdout.count("64 B cacheline boundary") >= 5


def test_load_avg_stays_and_its_line_mates_change_between_6_14_and_6_18() -> None:
    names = ("sched-types-6.14-x86", "vmlinux-6.18.44-x86_64-vm")
    paths = [shared(f"data/btf/{name}.btf") for name in names]
    _, data = record(*paths, "--struct", "task_group")
    (unit,) = data["comparisons"][0]["units"]
    load_avg = next(one for one in unit["entries"] if one["name"] == "load_avg.counter")
    assert load_avg["keeps_offset"]
    assert load_avg["lost"]
    assert load_avg["gained"]
    shown = next(
        line
        for line in schedperf(*paths, "--struct", "task_group").stdout.splitlines()
        if line.startswith("  100 load_avg.counter")
    )
    assert "moved" not in shown


def test_kernels_of_two_architectures_are_one_line() -> None:
    done = schedperf(kernel("tip"), kernel("arm64-pseudo-nmi"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "compare kernels of one architecture" in done.stderr


def test_bundles_of_the_examples_say_the_same() -> None:
    folder = EXAMPLES / "cluster-percpu"
    status, data = record(folder / "base.tar.xz", folder / "new.tar.xz", "--percpu")
    assert status == 1
    assert data["comparisons"][0]["alarms"][0]["cause"]["entry"] == "sd_cluster"
