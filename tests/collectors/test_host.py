# SPDX-License-Identifier: GPL-2.0-or-later
"""host.json holds what docs/bundle.md promises, and a reason for everything that is null."""

import json
import os
import re
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedperf_collectors import host as host_collector
from schedperf_collectors.host import describe_host, host
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import Capture

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "bundle.md"
CPU = "sys/devices/system/cpu"

MakeSystem = Callable[..., System]


def documented_keys() -> set[str]:
    """Return ``group.key`` of each value that docs/bundle.md lists under host.json."""
    _, _, text = DOCUMENT.read_text(encoding="utf-8").partition("\n## host.json\n")
    keys = set()
    for group, described in re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE):
        # What stands in braces or brackets describes a value; tools' keys are programs.
        outer = re.sub(r"`[{\[][^`]*`|\([^)]*\)", "", described)
        keys |= {f"{group}.{key}" for key in re.findall(r"`(\w+)`", outer)}
    return keys


def all_keys(facts: Any) -> set[str]:
    return {
        f"{group}.{key}"
        for group, values in facts.items()
        if group not in {"missing", "tools"}
        for key in values
    }


def nulls(facts: Any) -> set[str]:
    return {
        f"{group}.{key}"
        for group, values in facts.items()
        if group != "missing"
        for key, value in values.items()
        if value is None
    }


def describe(system: System, capture: Capture) -> Any:
    facts: Any = describe_host(system, capture)
    # Levels of the topology that no CPU has are null inside a value that is there.
    reasons = {path for path in facts["missing"] if not path.startswith("topology.cpus.")}
    assert reasons == nulls(facts)
    assert all(reason for reason in facts["missing"].values())
    json.dumps(facts, allow_nan=False)
    return facts


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return this machine's host.json as the collector wrote it."""
    folder = tmp_path_factory.mktemp("host")
    host(Capture(folder=folder, workload_pid=os.getpid(), options={}))
    assert [path.name for path in folder.iterdir()] == ["host.json"]
    return json.loads((folder / "host.json").read_text())


def test_all_documented_values_are_there_and_no_others(here: Any) -> None:
    documented = documented_keys()
    assert len(documented) > 60
    assert all_keys(here) == documented


def test_this_machine_is_described_as_it_is(here: Any) -> None:
    assert here["kernel"]["release"] == os.uname().release
    assert here["kernel"]["version"] == os.uname().version
    assert here["cpu"]["count_online"] == os.sysconf("SC_NPROCESSORS_ONLN")
    assert len(here["topology"]["cpus"]) == here["cpu"]["count_online"]
    assert here["system"]["hostname"] == os.uname().nodename
    assert here["memory"]["page_bytes"] == os.sysconf("SC_PAGE_SIZE")
    assert len(here["state"]["loadavg"]) == 3
    assert here["cgroup"]["cpus_allowed"]


def test_a_tools_version_does_not_change_with_the_kernel(here: Any) -> None:
    versions = [version for version in here["tools"].values() if version is not None]
    if not versions:
        pytest.skip("needs one of the tools whose version is recorded, perf for one")
    assert not [version for version in versions if here["kernel"]["release"] in version]


def test_the_machine_id_itself_stays_private(here: Any) -> None:
    path = Path("/etc/machine-id")
    if path.exists() and path.read_text().strip():
        assert path.read_text().strip() not in json.dumps(here)


def test_it_costs_less_than_a_second_of_cpu(capture: Capture) -> None:
    def cpu_s() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    before = cpu_s()
    host(capture)
    assert cpu_s() - before < 1.0


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_a_machine_that_shows_nothing_has_reasons_only(
    make_system: MakeSystem, capture: Capture, machine: str
) -> None:
    facts = describe(make_system({}, machine), capture)
    assert facts["kernel"]["release"] is None
    assert facts["missing"]["kernel.build_id"] == "/sys/kernel/notes: no such file or directory"
    assert facts["virtualisation"]["emulated"] is None
    assert facts["missing"]["cpufreq.driver"] == "no cpufreq on this machine"


class SameEverywhere(System):
    """A machine on which every file holds the same text, and every directory the same entries."""

    def __init__(self, text: str, machine: str) -> None:
        super().__init__(Path("/nonexistent"), machine)
        self.content = text.encode("utf-8", "replace")

    def bytes(self, name: str, limit: int = 0) -> bytes:  # noqa: ARG002 # System's own signature
        return self.content

    def exists(self, name: str) -> bool:  # noqa: ARG002
        return True

    def names(self, folder: str, pattern: str) -> list[str]:
        entries = ("cpu0", "node0", "index0", "state0", "policy0", "thermal_zone0", "spectre_v2")
        return [f"{folder}/{entry}" for entry in entries if re.fullmatch(pattern, entry)]

    def kernel_log(self) -> str:
        return self.content.decode("utf-8", "replace")


@pytest.mark.property
@settings(suppress_health_check=list(HealthCheck))
@given(
    text=st.one_of(
        st.text(max_size=60),
        st.integers().map(str),
        st.sampled_from(["0-3", "1:cpu:/a/b", "0::/x", "[y]", "(y)", "a: b", "1 2 3 4/5 6", "nan"]),
    ),
    machine=st.sampled_from(["x86_64", "aarch64", "ppc64le"]),
)
def test_whatever_the_files_hold_the_machine_is_described(
    text: str, machine: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    capture = Capture(folder=folder, workload_pid=1, options={})
    with pytest.MonkeyPatch.context() as patch:
        # The versions of this machine's programs are none of its files.
        patch.setenv("PATH", str(folder))
        describe(SameEverywhere(text, machine), capture)


def topology_files() -> dict[str, str]:
    """Return the files of four CPUs in two nodes, without clusters and without cache ids."""
    files = {f"{CPU}/online": "0-3\n"}
    for cpu in range(4):
        node = cpu // 2
        files |= {
            f"{CPU}/cpu{cpu}/topology/core_id": f"{cpu}\n",
            f"{CPU}/cpu{cpu}/topology/cluster_id": "65535\n",
            f"{CPU}/cpu{cpu}/topology/physical_package_id": f"{node}\n",
            f"{CPU}/cpu{cpu}/cache/index0/level": "1\n",
            f"{CPU}/cpu{cpu}/cache/index0/shared_cpu_list": f"{cpu}\n",
            f"{CPU}/cpu{cpu}/cache/index3/level": "3\n",
            f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_list": f"{2 * node}-{2 * node + 1}\n",
            f"{CPU}/cpu{cpu}/node{node}/cpulist": "",
        }
    for node in range(2):
        files[f"sys/devices/system/node/node{node}/cpulist"] = f"{2 * node}-{2 * node + 1}\n"
        files[f"sys/devices/system/node/node{node}/distance"] = (
            "10 20\n" if node == 0 else "20 10\n"
        )
    # A node of memory alone.
    files["sys/devices/system/node/node2/cpulist"] = "\n"
    files["sys/devices/system/node/node2/distance"] = "17 28\n"
    return files


def test_two_nodes_are_described_cpu_by_cpu(make_system: MakeSystem, capture: Capture) -> None:
    facts = describe(make_system(topology_files()), capture)
    topology = facts["topology"]
    assert topology["cpus"][2] == {
        "cpu": 2, "core": 2, "cluster": None, "llc": 2, "socket": 1, "node": 1,
    }  # fmt: skip
    assert topology["nodes"] == {"0": "0-1", "1": "2-3"}
    assert topology["distances"] == [[10, 20], [20, 10], [17, 28]]
    assert "topology.cpus.cluster" in facts["missing"]
    assert "topology.cpus.llc" not in facts["missing"]


@pytest.mark.parametrize(
    ("files", "preempt"),
    [
        ({"sys/kernel/debug/sched/preempt": "none voluntary (full) lazy\n"}, "full"),
        ({"proc/sys/kernel/version": "#1 SMP PREEMPT_RT Debian\n"}, "rt"),
        ({"dev/kmsg": "6,1,0,-;Dynamic Preempt: voluntary\n"}, "voluntary"),
        ({"dev/kmsg": "6,1,0,-;Dynamic Preempt: lazy\n6,2,9,-;Dynamic Preempt: full\n"}, "full"),
        ({"proc/cmdline": "quiet preempt=none ro\n"}, "none"),
        ({"proc/cmdline": "preempt\n",
          "boot/config-6.1.0": "CONFIG_PREEMPT_BUILD=y\nCONFIG_PREEMPT_VOLUNTARY=y\n"},
         "voluntary"),
        ({"boot/config-6.1.0": "# CONFIG_PREEMPT_NONE is not set\nCONFIG_PREEMPT=y\n"}, "full"),
        ({"boot/config-6.1.0": "CONFIG_HZ=250\n"}, None),
    ],
)  # fmt: skip
def test_the_preemption_model_is_found_where_the_kernel_says_it(
    make_system: MakeSystem, capture: Capture, files: dict[str, str], preempt: str | None
) -> None:
    always = {
        "proc/sys/kernel/osrelease": "6.1.0\n",
        "proc/sys/kernel/version": "#1 SMP PREEMPT_DYNAMIC\n",
        "proc/cmdline": "quiet\n",
    }
    assert describe(make_system(always | files), capture)["sched"]["preempt"] == preempt


SCHED_SYSCTLS = {
    f"proc/sys/kernel/{name}": "1\n" for name in ("sched_autogroup_enabled", "numa_balancing")
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, {}),
        (
            {
                "etc/sysctl.d/50-own.conf": "# autogroup\nkernel/sched_autogroup_enabled = 0\n",
                "usr/lib/sysctl.d/10-dist.conf": "kernel.sched_autogroup_enabled=1\n"
                "-kernel.numa_balancing =  0 \nkernel.printk = 4 4\n;kernel.numa_balancing=1\n",
            },
            {"kernel.sched_autogroup_enabled": "0", "kernel.numa_balancing": "0"},
        ),
        # The owner's file hides the distribution's file of the same name.
        (
            {
                "etc/sysctl.d/10-sched.conf": "kernel.numa_balancing = 0\n",
                "usr/lib/sysctl.d/10-sched.conf": "kernel.sched_autogroup_enabled = 0\n",
            },
            {"kernel.numa_balancing": "0"},
        ),
        # A key that this kernel does not have sets nothing.
        ({"etc/sysctl.conf": "kernel.sched_latency_ns = 1\nkernel.numa_balancing = 0"},
         {"kernel.numa_balancing": "0"}),
    ],
)  # fmt: skip
def test_sysctls_that_files_set_are_recorded_as_they_are_applied(
    make_system: MakeSystem, capture: Capture, files: dict[str, str], expected: dict[str, str]
) -> None:
    facts = describe(make_system(SCHED_SYSCTLS | files), capture)
    assert (facts["settings"]["sysctl"], facts["settings"]["tuned"]) == (expected, "none")


def test_what_tmpfiles_and_tuned_set_is_recorded(make_system: MakeSystem, capture: Capture) -> None:
    files = {
        "etc/tmpfiles.d/sched.conf": "w- /sys/kernel/debug/sched/features - - - - NO_PLACE_LAG\n"
        "w /sys/kernel/mm/transparent_hugepage/enabled - - - - never # no THP\n"
        "d /run/sched 0755 root root -\nw 'unclosed\nw /sys/kernel/debug/sched/preempt\n",
        "etc/tuned/active_profile": "throughput-performance\n",
    }
    settings_group = describe(make_system(files), capture)["settings"]
    assert settings_group["tmpfiles"] == {
        "/sys/kernel/debug/sched/features": "NO_PLACE_LAG",
        "/sys/kernel/mm/transparent_hugepage/enabled": "never",
    }
    assert settings_group["tuned"] == "throughput-performance"


@pytest.mark.parametrize(
    ("models", "written"),
    [
        (["lazy"], {}),
        (["lazy", "full"], {"sched.preempt": "lazy"}),
        (["lazy", "full", "lazy"], {}),
    ],
)
def test_a_model_that_was_written_after_boot_is_recorded(
    make_system: MakeSystem, capture: Capture, models: list[str], written: dict[str, str]
) -> None:
    log = "".join(f"6,{n},0,-;Dynamic Preempt: {model}\n" for n, model in enumerate(models))
    facts = describe(make_system({"dev/kmsg": log}), capture)
    assert facts["settings"]["written"] == written


def test_scheduler_tunables_are_read_where_this_kernel_has_them(
    make_system: MakeSystem, capture: Capture
) -> None:
    old = {"proc/sys/kernel/sched_latency_ns": "24000000\n"}
    new = {
        "sys/kernel/debug/sched/base_slice_ns": "2800000\n",
        "sys/kernel/debug/sched/features": "PLACE_LAG NO_HRTICK\n",
        "sys/kernel/sched_ext/state": "disabled\n",
    }
    facts = describe(make_system(old | new), capture)
    assert facts["sched"]["latency_ns"] == 24000000
    assert facts["sched"]["base_slice_ns"] == 2800000
    assert facts["sched"]["features"] == "PLACE_LAG NO_HRTICK"
    assert facts["sched"]["sched_ext"] == "disabled"


def test_unmounted_debugfs_names_the_remedy(make_system: MakeSystem, capture: Capture) -> None:
    facts = describe(make_system({}), capture)
    assert "mount -t debugfs" in facts["missing"]["sched.features"]


MOUNTS = (
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n"
    "32 31 0:29 {} /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
)
QUOTA = {"sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us": "50000\n",
         "sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us": "100000\n"}  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "files", "expected"),
    [
        ("3:cpuset:/\n2:cpuacct:/x\n1:cpu:/a/b\n0::/\n", QUOTA, (1, "/a/b", 2, "50000 100000")),
        ("4:cpu,cpuacct:/a/b\n0::/\n", {}, (1, "/a/b", 2, None)),
        ("0::/a/b c/d\n", {"sys/fs/cgroup/unified/a/b c/d/cpu.max": "max 100000\n"},
         (2, "/a/b c/d", 3, "max 100000")),
        ("0::/\n", {}, (2, "/", 0, None)),
        ("3:cpuset:/\n", {}, (None, None, None, None)),
    ],
)  # fmt: skip
def test_the_workloads_own_cpu_group_is_found(
    make_system: MakeSystem,
    capture: Capture,
    lines: str,
    files: dict[str, str],
    expected: tuple[int | None, str | None, int | None, str | None],
) -> None:
    process = {
        "proc/7/cgroup": lines,
        "proc/7/status": "Cpus_allowed:\t3\nCpus_allowed_list:\t0-1\n",
        "proc/self/mountinfo": MOUNTS.format("/"),
    }
    system = make_system(process | files)
    found = describe(system, replace(capture, workload_pid=7))["cgroup"]
    keys = ("version", "path", "depth", "cpu_max")
    assert tuple(found[key] for key in keys) == expected
    assert found["cpus_allowed"] == "0-1"


def test_a_container_sees_its_group_below_its_own_mount(
    make_system: MakeSystem, capture: Capture
) -> None:
    system = make_system(
        {
            "proc/7/cgroup": "1:cpu:/docker/abc/a/b\n",
            "proc/self/mountinfo": MOUNTS.format("/docker/abc"),
            **QUOTA,
        }
    )
    found = describe(system, replace(capture, workload_pid=7))["cgroup"]
    assert (found["depth"], found["cpu_max"]) == (4, "50000 100000")


def test_a_group_beside_the_mount_of_a_container_is_not_below_it(
    make_system: MakeSystem, capture: Capture
) -> None:
    # "/docker/abc" only begins like the mounted "/docker/ab".
    system = make_system(
        {
            "proc/7/cgroup": "1:cpu:/docker/abc/a/b\n",
            "proc/self/mountinfo": MOUNTS.format("/docker/ab"),
            **{f"sys/fs/cgroup/cpu/c/a/b/{Path(name).name}": text for name, text in QUOTA.items()},
        }
    )
    assert describe(system, replace(capture, workload_pid=7))["cgroup"]["cpu_max"] is None


@pytest.fixture
def nested_group() -> Iterator[Path]:
    """Make a cpu cgroup of depth 2 on this machine, and remove it."""
    top = next(
        (path for path in (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
         if (path / "cgroup.procs").exists()),
        None,
    )  # fmt: skip
    if top is None or not os.access(top, os.W_OK):
        pytest.skip("cannot make a cgroup here")
    outer = top / f"schedperf-test-{os.getpid()}"
    try:
        (outer / "inner").mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"cannot make a cgroup here: {error}")
    try:
        yield outer / "inner"
    finally:
        (outer / "inner").rmdir()
        outer.rmdir()


def test_a_workload_in_a_nested_group_is_at_its_depth(nested_group: Path, capture: Capture) -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            (nested_group / "cgroup.procs").write_text(str(sleeper.pid))
            system = System()
            above = describe(system, replace(capture, workload_pid=1))["cgroup"]["depth"]
            found = describe(system, replace(capture, workload_pid=sleeper.pid))["cgroup"]
        finally:
            sleeper.kill()
    assert found["path"].endswith("/".join(nested_group.parts[-2:]))
    assert found["depth"] >= 2
    assert above is not None


def test_a_tool_without_an_answer_is_waited_for_longer_where_instructions_are_emulated(
    make_system: MakeSystem,
    capture: Capture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = tmp_path / "bin" / "sysbench"
    silent.parent.mkdir()
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setenv("PATH", f"{silent.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(host_collector, "TOOL_TIMEOUT_S", 0.2)
    monkeypatch.setattr(host_collector, "EMULATED_TOOL_TIMEOUT_S", 0.4)
    models = {"0.2": "AMD EPYC", "0.4": "QEMU TCG CPU version 2.5+"}
    for patience, model in models.items():
        system = make_system({"proc/cpuinfo": f"model name\t: {model}\n"}, machine="x86_64")
        found = describe(system, capture)
        assert found["tools"]["sysbench"] is None
        assert found["missing"]["tools.sysbench"] == f"sysbench did not finish within {patience} s"
