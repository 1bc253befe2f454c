# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines with several types of cores are compared type by type."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.comparability import compare_hosts, find_rule, flatten_host
from schedperf.compare.machine_class import machine_class
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.sides import Comparability
from schedperf_collectors.host import describe_host
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import Capture
from schedperf_generators.asymmetric_machines import (
    AsymmetricMachine,
    amd_preferred,
    dynamiq,
    homogeneous,
    intel_hybrid,
)

# What these machines show; the rest of host.json is that of every bundle of the tests.
GROUPS = ("topology", "cpufreq", "sched")

Sides = Callable[[AsymmetricMachine, AsymmetricMachine], Comparability]


@pytest.fixture
def facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    # The versions of this machine's programs are none of its files.
    monkeypatch.setenv("PATH", str(tmp_path))

    def facts_of(machine: AsymmetricMachine, name: str = "base") -> dict[str, Any]:
        machine.write(tmp_path / name)
        capture = Capture(folder=tmp_path, workload_pid=os.getpid(), options={})
        described = describe_host(System(tmp_path / name, machine.machine), capture)
        return {group: described[group] for group in GROUPS}

    return facts_of


@pytest.fixture
def compare(
    make_bundle: Callable[..., Path], tmp_path: Path, facts: Callable[..., dict[str, Any]]
) -> Sides:
    def compared(base: AsymmetricMachine, new: AsymmetricMachine) -> Comparability:
        paths = [
            make_bundle(tmp_path / f"{name}.tar", host=facts(machine, name))
            for name, machine in (("base", base), ("new", new))
        ]
        return compare_hosts(name_sides([open_bundle(path) for path in paths]))

    return compared


def differing(found: Comparability) -> dict[str, tuple[object, object, str]]:
    return {each.path: (each.base, each.new, each.severity) for each in found.differences}


@pytest.mark.parametrize("machine", [intel_hybrid(), dynamiq(), amd_preferred(), homogeneous()])
def test_equal_machines_are_comparable(compare: Sides, machine: AsymmetricMachine) -> None:
    assert differing(compare(machine, machine)) == {}


def test_the_type_whose_governor_differs_is_named(compare: Sides) -> None:
    found = compare(intel_hybrid(), intel_hybrid().having(1, governor="performance"))
    assert differing(found) == {
        "cpufreq.governor.cpu_atom": ("powersave", "performance", "blocking")
    }


def test_the_type_whose_frequency_limit_differs_is_named(compare: Sides) -> None:
    found = compare(dynamiq(), dynamiq().having(0, limits_khz=(300_000, 1_200_000)))
    assert differing(found) == {"cpufreq.max_khz.Cortex-A55": (1_800_000, 1_200_000, "blocking")}


def test_cpus_of_one_type_that_differ_are_named(facts: Callable[..., dict[str, Any]]) -> None:
    host = facts(intel_hybrid())
    host["cpufreq"]["policies"] = [
        {"cpus": "0-7,9", "governor": "powersave"},
        {"cpus": "8,10-11", "governor": "performance"},
    ]
    fields = flatten_host(host)
    assert fields["cpufreq.governor.cpu_core"] == "powersave"
    assert fields["cpufreq.governor.cpu_atom"] == "powersave on 9, performance on 8,10-11"


def test_another_capacity_blocks_a_comparison(compare: Sides) -> None:
    found = compare(dynamiq(), dynamiq().having(0, capacity=180))
    assert differing(found)["topology.types.Cortex-A55.capacities"] == (
        "[160]", "[180]", "blocking"
    )  # fmt: skip


def test_threads_of_one_type_block_a_comparison(compare: Sides) -> None:
    found = compare(intel_hybrid(), intel_hybrid().having(0, threads=1, count=8))
    assert differing(found)["topology.types.cpu_core.threads_per_core"] == (2, 1, "blocking")


def test_another_energy_model_blocks_a_comparison(compare: Sides) -> None:
    states = ((300_000, 9_000, 54_000), (1_800_000, 150_000, 150_000))
    found = compare(dynamiq(), dynamiq().having(0, states=states))
    assert [*differing(found)] == ["sched.energy_model.cpu0.states"]
    assert not found.comparable


def test_a_missing_energy_model_blocks_a_comparison(compare: Sides) -> None:
    found = compare(dynamiq(), dynamiq().having(0, states=()))
    assert differing(found)["sched.energy_model.cpu0.cpus"] == ("0-3", None, "blocking")


def test_other_names_of_the_types_are_one_difference_each(compare: Sides) -> None:
    unnamed = intel_hybrid().having(0, pmu=None).having(1, pmu=None, governor="performance")
    assert differing(compare(intel_hybrid(), unnamed)) == {
        "topology.types.cpu_core.cpus": ("0-7", None, "noted"),
        "topology.types.cpu_atom.cpus": ("8-11", None, "noted"),
        "topology.types.performance.cpus": (None, "0-7", "noted"),
        "topology.types.efficiency.cpus": (None, "8-11", "noted"),
        "cpufreq.governor": ("powersave", "powersave + performance", "blocking"),
    }


def test_rankings_are_noted(compare: Sides) -> None:
    found = compare(amd_preferred(), amd_preferred().having(0, ranking=232))
    assert {path: severity for path, (_, _, severity) in differing(found).items()} == {
        "cpufreq.rankings.236": "noted", "cpufreq.rankings.232": "noted"
    }  # fmt: skip


def test_a_bundle_of_an_older_recorder_is_compared_as_a_whole(
    make_bundle: Callable[..., Path], tmp_path: Path, facts: Callable[..., dict[str, Any]]
) -> None:
    new = facts(intel_hybrid().having(1, governor="performance"))
    new_names = {"types", "siblings", "policies", "prefcore", "rankings"}
    old = {
        group: {name: value for name, value in values.items() if name not in new_names}
        for group, values in facts(intel_hybrid(), "old").items()
    }
    paths = [
        make_bundle(tmp_path / "old.tar", host=old),
        make_bundle(tmp_path / "new.tar", host=new),
    ]
    found = differing(compare_hosts(name_sides([open_bundle(path) for path in paths])))
    assert found["cpufreq.governor"] == ("powersave", "powersave + performance", "blocking")
    assert found["topology.types.cpu_atom.cpus"] == (None, "8-11", "noted")
    assert not [path for path in found if path.startswith("cpufreq.governor.")]


def test_a_newer_recorder_does_not_change_the_class_of_a_machine(
    make_bundle: Callable[..., Path], tmp_path: Path, facts: Callable[..., dict[str, Any]]
) -> None:
    for number, machine in enumerate((homogeneous(), amd_preferred())):
        new = facts(machine, f"{number}")
        old = {group: {**values} for group, values in new.items()}
        del old["topology"]["types"], old["topology"]["siblings"]
        del old["cpufreq"]["policies"], old["cpufreq"]["prefcore"], old["cpufreq"]["rankings"]
        for name in ("itmt", "energy_model", "asym_domains", "energy_aware"):
            del old["sched"][name]
        classes = [
            machine_class(open_bundle(make_bundle(tmp_path / "class.tar", host=host)), (), ())
            for host in (old, new)
        ]
        assert classes[0] == classes[1]


HOSTILE: tuple[Mapping[str, Any], ...] = (
    {"types": {"a": {"cpus": "0-4294967295"}, "b": {"cpus": "1"}}},
    {"types": {"a": {"cpus": 7}, "b": None, "\u202e\r\n\x00": {"cpus": "1"}}},
    {"types": {"x" * 100_000: {"cpus": "0"}, "b": {"cpus": "1", "capacities": "many"}}},
    {"types": {f"t{number}": {"cpus": "0"} for number in range(1000)}},
    {"types": [1, 2]},
)


@pytest.mark.parametrize("topology", HOSTILE)
@pytest.mark.parametrize(
    "policies", [[], "x", [{"cpus": "0-4294967295"}], [{"cpus": "0", "governor": 7}], None]
)
def test_a_hostile_host_json_is_flattened(topology: Mapping[str, Any], policies: object) -> None:
    host: dict[str, Any] = {"topology": topology, "cpufreq": {"policies": policies}}
    assert not [path for path in flatten_host(host) if path.startswith("cpufreq.policies")]


def test_each_new_field_has_a_rule(facts: Callable[..., dict[str, Any]]) -> None:
    for machine in (intel_hybrid(), dynamiq(), amd_preferred()):
        for path in flatten_host(facts(machine)):
            assert find_rule(path).reason != "unknown field"
