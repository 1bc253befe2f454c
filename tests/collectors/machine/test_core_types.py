# SPDX-License-Identifier: GPL-2.0-or-later
"""host.json of asymmetric machines: types of cores, policies, energy model, preferred CPUs.

The machines are generated from the kernel's documentation; none of them is a real one.
"""

from collections.abc import Callable
from typing import Any

import pytest

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.host import describe_host
from schedperf_collectors.machine.core_types import (
    MOST_TYPES,
    core_pmus,
    describe_types,
    type_of_cpu,
)
from schedperf_collectors.machine.system import TEXT_LIMIT_BYTES, System
from schedperf_collectors.plugin import Capture
from schedperf_generators.asymmetric_machines import (
    CPU,
    PMUS,
    AsymmetricMachine,
    amd_preferred,
    dynamiq,
    homogeneous,
    intel_hybrid,
)

MakeSystem = Callable[..., System]


@pytest.fixture
def describe(
    make_system: MakeSystem, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    # The versions of this machine's programs are none of its files.
    monkeypatch.setenv("PATH", str(capture.folder))

    def described(machine: AsymmetricMachine, **files: str) -> Any:
        system = make_system({**machine.files(), **files}, machine.machine)
        return describe_host(system, capture)

    return described


def test_intel_names_types_by_their_pmus(describe: Callable[..., Any]) -> None:
    facts = describe(intel_hybrid())
    assert facts["topology"]["types"] == {
        "cpu_core": {"cpus": "0-7", "capacities": None, "threads_per_core": 2, "midr": None,
                     "pmu": "cpu_core"},
        "cpu_atom": {"cpus": "8-11", "capacities": None, "threads_per_core": 1, "midr": None,
                     "pmu": "cpu_atom"},
    }  # fmt: skip
    assert facts["topology"]["siblings"] == ["0-1", "2-3", "4-5", "6-7"]
    assert [policy["cpus"] for policy in facts["cpufreq"]["policies"]] == ["0-7", "8-11"]
    assert facts["cpufreq"]["policies"][1] == {
        "cpus": "8-11", "driver": "intel_pstate", "governor": "powersave",
        "epp": "balance_performance", "min_khz": 400_000, "max_khz": 3_900_000,
        "hw_min_khz": 400_000, "hw_max_khz": 3_900_000,
    }  # fmt: skip
    assert facts["sched"]["itmt"] == 1
    assert facts["sched"]["asym_domains"] == {
        "SD_ASYM_PACKING": ["MC"], "SD_ASYM_CPUCAPACITY": [], "SD_ASYM_CPUCAPACITY_FULL": [],
    }  # fmt: skip


def test_arm_names_types_by_their_cores_and_has_an_energy_model(
    describe: Callable[..., Any],
) -> None:
    facts = describe(dynamiq())
    types = facts["topology"]["types"]
    assert {name: (core["cpus"], core["capacities"]) for name, core in types.items()} == {
        "Cortex-A55": ("0-3", [160]),
        "Cortex-A78": ("4-6", [498]),
        "Cortex-X1": ("7", [1024]),
    }
    assert types["Cortex-A55"]["midr"] == ["0x412fd050"]
    assert facts["sched"]["energy_model"]["cpu4"] == {
        "cpus": "4-6", "states": [[400_000, 38_000, 213_000], [2_250_000, 520_000, 520_000]],
    }  # fmt: skip
    assert facts["sched"]["asym_domains"]["SD_ASYM_CPUCAPACITY"] == ["MC"]
    assert (facts["sched"]["energy_aware"], facts["sched"]["uclamp_min_rt_default"]) == (1, 0)
    assert facts["missing"]["cpufreq.prefcore"].endswith("no such file or directory")


def test_equal_cores_with_other_capacities_are_two_types(make_system: MakeSystem) -> None:
    machine = dynamiq().having(2, midr=0x411FD410)
    types = describe_types(make_system(machine.files(), "aarch64"))
    assert [*types] == ["Cortex-A55", "Cortex-A78 capacity 498", "Cortex-A78 capacity 1024"]


def test_without_names_the_capacities_tell_types_apart(make_system: MakeSystem) -> None:
    machine = dynamiq()
    for index in range(3):
        machine = machine.having(index, midr=None)
    types = describe_types(make_system(machine.files(), "riscv64"))
    assert [*types] == ["capacity 160", "capacity 498", "capacity 1024"]


def test_debugfs_names_types_where_the_pmus_do_not(make_system: MakeSystem) -> None:
    machine = intel_hybrid().having(0, pmu=None).having(1, pmu=None)
    assert [*describe_types(make_system(machine.files()))] == ["performance", "efficiency"]


def test_an_unknown_core_of_arm_has_its_numbers(make_system: MakeSystem) -> None:
    machine = dynamiq().having(0, midr=0x61000220)
    assert next(iter(describe_types(make_system(machine.files())))) == "0x61-0x022"


def test_preferred_cores_are_of_one_type(describe: Callable[..., Any]) -> None:
    facts = describe(amd_preferred())
    assert facts["topology"]["types"] is None
    assert facts["missing"]["topology.types"].startswith("no types of cores (")
    assert facts["cpufreq"]["rankings"] == {"236": "0-3", "231": "4-7"}
    assert facts["cpufreq"]["prefcore"] == "enabled"
    assert facts["sched"]["asym_domains"]["SD_ASYM_PACKING"] == ["MC"]
    assert [policy["cpus"] for policy in facts["cpufreq"]["policies"]] == ["0-7"]


def test_equal_cpus_have_one_type(describe: Callable[..., Any], make_system: MakeSystem) -> None:
    types = describe(homogeneous())["topology"]["types"]
    assert {name: core["cpus"] for name, core in types.items()} == {"CPU": "0-7"}
    system = make_system(homogeneous().files())
    assert (core_pmus(system), type_of_cpu(system)) == ({}, {})


def test_types_of_cpus(make_system: MakeSystem) -> None:
    system = make_system(intel_hybrid().files())
    assert core_pmus(system) == {"cpu_core": list(range(8)), "cpu_atom": list(range(8, 12))}
    assert type_of_cpu(system)[7] == "cpu_core"
    assert type_of_cpu(system)[8] == "cpu_atom"


def test_cpus_that_are_offline_are_left_out(make_system: MakeSystem) -> None:
    files = {**intel_hybrid().files(), f"{CPU}/online": "0-1,8-9\n"}
    types = describe_types(make_system(files))
    assert [core["cpus"] for core in types.values()] == ["0-1", "8-9"]


def test_without_debugfs_the_reason_says_what_to_do(
    make_system: MakeSystem, capture: Capture
) -> None:
    files = {name: text for name, text in dynamiq().files().items() if "/debug/" not in name}
    missing = describe_host(make_system(files, "aarch64"), capture)["missing"]
    for path in ("sched.energy_model", "sched.asym_domains"):
        assert str(missing[path]).endswith("run `mount -t debugfs none /sys/kernel/debug` as root")


HOSTILE = ["0-4294967295\n", "\n", "3-1\n", "x" * 100, "0,0,0,0\n", "\u202e0-3\x00\r\n", "-1\n"]


@pytest.mark.parametrize(
    "name",
    [
        f"{PMUS}/cpu_core/cpus",
        f"{CPU}/cpu0/cpu_capacity",
        f"{CPU}/cpu0/topology/thread_siblings_list",
        f"{CPU}/cpufreq/policy0/affected_cpus",
        f"{CPU}/cpufreq/policy0/scaling_max_freq",
        "sys/kernel/debug/sched/domains/cpu0/domain0/flags",
        "sys/kernel/debug/x86/topo/cpus/0",
        "proc/sys/kernel/sched_itmt_enabled",
    ],
)
def test_whatever_a_file_holds_the_machine_is_described(
    describe: Callable[..., Any], name: str
) -> None:
    for text in HOSTILE:
        facts = describe(intel_hybrid(), **{name: text})
        for group in ("topology", "cpufreq", "sched"):
            for key, value in facts[group].items():
                assert value is not None or facts["missing"][f"{group}.{key}"]


def test_huge_files_and_loops_are_refused(make_system: MakeSystem) -> None:
    files = intel_hybrid().files()
    files[f"{PMUS}/cpu_core/cpus"] = "0," * TEXT_LIMIT_BYTES
    system = make_system(files)
    loop = system.path(f"/{CPU}/cpu8/cpu_capacity")
    loop.symlink_to(loop)
    assert core_pmus(system) == {}
    assert [*describe_types(system)] == ["performance", "efficiency"]


def test_more_types_than_any_machine_has_are_refused(make_system: MakeSystem) -> None:
    count = MOST_TYPES + 1
    files = {f"{CPU}/online": f"0-{count - 1}\n"}
    files |= {f"{CPU}/cpu{cpu}/cpu_capacity": f"{cpu + 1}\n" for cpu in range(count)}
    with pytest.raises(Unavailable, match=f"{count} types of cores"):
        describe_types(make_system(files))
