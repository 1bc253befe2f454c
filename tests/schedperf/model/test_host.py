# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.model.host: facts of a foreign host.json, and None for what it does not hold."""

import pytest

from schedperf.model.host import (
    LONGEST_TYPE,
    MOST_CPUS,
    CoreType,
    Cpu,
    Host,
    Kernel,
    has_other_kernel,
    has_same_kernel,
    read_host,
    read_types,
)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kernel": None, "cpu": "x", "topology": [], "virtualisation": 7},
        {"kernel": {"build_id": 7, "taint": True}, "topology": {"cpus": {}, "nodes": "0-1"}},
        {"virtualisation": {"emulated": "no"}, "sched": {"hz": 0}, "cpu": {"l1_line_bytes": 64.5}},
    ],
)
def test_what_host_json_does_not_hold_is_none(fields: dict[str, object]) -> None:
    assert read_host(fields) == Host()


def test_a_fact_of_another_type_does_not_hide_the_others() -> None:
    host = read_host({"kernel": {"release": "6.18.0", "build_id": 7, "page": 4096}, "new": {}})
    assert host == Host(kernel=Kernel(release="6.18.0"))


def test_facts_of_one_host() -> None:
    host = read_host(
        {
            "kernel": {"machine": "x86_64", "build_id": "3f1c5a"},
            "cpu": {"l1_line_bytes": 128},
            "sched": {"hz": 250, "preempt": "full"},
            "virtualisation": {"emulated": False, "kind": "kvm"},
        }
    )
    assert (host.kernel.machine, host.kernel.build_id) == ("x86_64", "3f1c5a")
    assert (host.cpu.l1_line_bytes, host.sched.hz) == (128, 250)
    assert (host.virtualisation.emulated, host.virtualisation.kind) == (False, "kvm")


def test_cpus_without_a_number_are_left_out() -> None:
    numbers: list[object] = [{"cpu": 3, "node": 1}, {"cpu": "4", "node": 1}, "x", {"node": 1}]
    numbers += [{"cpu": -1}, {"cpu": MOST_CPUS}, {"cpu": 5, "node": None, "core": "0"}]
    topology = read_host({"topology": {"cpus": numbers, "nodes": {"1": "3"}}}).topology
    assert topology.cpus == (Cpu(cpu=3, node=1), Cpu(cpu=5))
    assert topology.node_of_cpu() == {3: 1}
    assert topology.nodes == {"1": "3"}


@pytest.mark.parametrize(
    ("base", "new", "is_same"),
    [
        ({"build_id": "3f"}, {"build_id": "3f"}, True),
        ({"build_id": "3f", "release": "6.18.0"}, {"build_id": "3f"}, True),
        ({"release": "6.18.0", "version": "#1"}, {"release": "6.18.0", "version": "#1"}, True),
        ({"release": "6.18.0", "version": "#1"}, {"release": "6.18.0", "version": "#2"}, False),
        # No fact is known of both.
        ({"build_id": "3f"}, {"release": "6.18.0", "version": "#1"}, False),
        ({"release": "6.18.0"}, {"release": "6.18.0"}, False),
    ],
)
def test_only_facts_of_both_hosts_show_that_they_ran_one_kernel(
    base: dict[str, str], new: dict[str, str], *, is_same: bool
) -> None:
    assert has_same_kernel({"kernel": base}, {"kernel": new}) is is_same


def test_types_of_cores_without_cpus_are_left_out() -> None:
    types = {
        "cpu_atom": {"cpus": "4-5", "capacities": [512], "pmu": 7},
        "cpu_core": {"threads_per_core": 1},
        "x" * (LONGEST_TYPE + 1): {"cpus": "4-5"},
    }
    found = {"cpu_atom": CoreType(cpus="4-5", capacities=(512,))}
    assert read_host({"topology": {"types": types}}).topology.types == found
    assert read_types({"topology": {"types": types}}) == found
    assert read_types({"topology": {"types": ["cpu_core", "cpu_atom"]}}) == {}
    assert read_types({"topology": {"types": None}}) == {}


KERNEL = {"release": "6.12.0", "build_id": "3f1c5a"}


@pytest.mark.parametrize(
    ("kernel", "is_other"),
    [
        (KERNEL, False),
        ({**KERNEL, "release": "6.13.0"}, True),
        ({**KERNEL, "build_id": "ffff00"}, True),
        ({"release": "6.13.0", "build_id": None}, True),
        ({"release": "6.12.0", "build_id": None}, False),
        ({}, False),
        (None, False),
        # A bundle is untrusted: a value that is not text is unknown.
        ({**KERNEL, "build_id": ["3f1c5a", {}]}, False),
        ("6.13.0", False),
    ],
)
def test_another_kernel_is_another_release_or_another_build(
    kernel: object, *, is_other: bool
) -> None:
    base, new = {"kernel": KERNEL}, {"kernel": kernel}
    assert has_other_kernel(base, new) is is_other
    assert has_other_kernel(new, base) is is_other
    assert not has_other_kernel(base, base)
