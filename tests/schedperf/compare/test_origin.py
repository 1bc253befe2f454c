# SPDX-License-Identifier: GPL-2.0-or-later
"""Defaults that the kernels changed are part of the change; what an owner set blocks."""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.comparability import compare_hosts
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.sides import Comparability, Difference

MakeBundle = Callable[..., Path]
Host = dict[str, Any]
Gate = Callable[..., Comparability]

MEMBER = "boots/0/layout/config"
NEW_KERNEL = {"release": "6.18.0-new", "version": "#1 SMP PREEMPT_LAZY", "build_id": "77aa01"}
NOTHING_SET: Host = {"sysctl": {}, "tmpfiles": {}, "tuned": "none", "written": {}}
CONFIGS = ("CONFIG_PREEMPT_VOLUNTARY=y\n", "CONFIG_PREEMPT_LAZY=y\n")


@pytest.fixture
def gate(make_bundle: MakeBundle, tmp_path: Path) -> Gate:
    """Compare base with a new side; their kernels differ unless it is said otherwise."""

    def compare(
        base: Host,
        new: Host,
        *,
        kernel: Host = NEW_KERNEL,
        configs: tuple[str, ...] = (),
        **of: Any,
    ) -> Comparability:
        files = [{MEMBER: text} for text in configs] or [{}, {}]
        hosts = [base, {**new, "kernel": {**kernel, **new.get("kernel", {})}}]
        paths = [
            make_bundle(tmp_path / f"{number}.tar", host=host, files=captured, **of)
            for number, (host, captured) in enumerate(zip(hosts, files, strict=True))
        ]
        return compare_hosts(name_sides([open_bundle(path) for path in paths]))

    return compare


def with_settings(host: Host, **chosen: Any) -> Host:
    """Return a host as this recorder writes it: with what its owner set."""
    return {**deepcopy(host), "settings": {**NOTHING_SET, **chosen}}


def only(found: Comparability, path: str) -> Difference:
    return next(each for each in found.differences if each.path == path)


# What scheduler commits change: values of both kernels, and the field.
DEFAULTS: list[tuple[Host, Host, str]] = [
    ({"sched": {"preempt": "voluntary"}}, {"sched": {"preempt": "lazy"}}, "sched.preempt"),
    ({"sched": {"features": "PLACE_LAG RUN_TO_PARITY"}},
     {"sched": {"features": "PLACE_LAG NO_RUN_TO_PARITY"}}, "sched.features.RUN_TO_PARITY"),
    ({"sched": {"features": "PLACE_LAG"}}, {"sched": {"features": "PLACE_LAG DELAY_DEQUEUE"}},
     "sched.features.DELAY_DEQUEUE"),
    ({"sched": {"base_slice_ns": 3000000}}, {"sched": {"base_slice_ns": 2800000}},
     "sched.base_slice_ns"),
    ({"sched": {"base_slice_ns": None}}, {"sched": {"base_slice_ns": 2800000}},
     "sched.base_slice_ns"),
    ({"sched": {"latency_ns": 18000000}}, {"sched": {"latency_ns": None}}, "sched.latency_ns"),
    ({"sched": {"hz": 250}}, {"sched": {"hz": 1000}}, "sched.hz"),
    ({"sched": {"numa_balancing": 0}}, {"sched": {"numa_balancing": 1}}, "sched.numa_balancing"),
    ({"cpu": {"mitigations": {"spectre_v2": "Mitigation: Retpolines"}}},
     {"cpu": {"mitigations": {"spectre_v2": "Mitigation: Retpolines; BHI: Retpoline"}}},
     "cpu.mitigations.spectre_v2"),
    ({"cpuidle": {"driver": "acpi_idle"}}, {"cpuidle": {"driver": "intel_idle"}},
     "cpuidle.driver"),
    ({"cpuidle": {"states": [{"name": "C1", "latency_us": 1, "disabled": False}]}},
     {"cpuidle": {"states": [{"name": "C1E", "latency_us": 2, "disabled": False}]}},
     "cpuidle.states"),
    ({"cpufreq": {"driver": "acpi-cpufreq"}}, {"cpufreq": {"driver": "amd-pstate-epp"}},
     "cpufreq.driver"),
    ({"clock": {"source": "hpet"}}, {"clock": {"source": "tsc"}}, "clock.source"),
    ({"memory": {"page_bytes": 4096}}, {"memory": {"page_bytes": 65536}}, "memory.page_bytes"),
    ({"cgroup": {"version": 1}}, {"cgroup": {"version": 2}}, "cgroup.version"),
]  # fmt: skip


# One kernel has all of its features and tunables on both sides.
ON_BOTH = [
    (base, new, path)
    for base, new, path in DEFAULTS
    if "DELAY_DEQUEUE" not in path
    and all(None not in group.values() for host in (base, new) for group in host.values())
]


@pytest.mark.parametrize(("base", "new", "path"), DEFAULTS, ids=[path for _, _, path in DEFAULTS])
def test_a_default_that_the_kernels_changed_is_part_of_the_change(
    gate: Gate, base: Host, new: Host, path: str
) -> None:
    old_bundles = gate(base, new)
    assert old_bundles.comparable
    assert old_bundles.part_of_change == (path,)
    assert only(old_bundles, path).origin == "unknown"
    assert "does not record whether an administrator" in only(old_bundles, path).reason
    recorded = gate(with_settings(base), with_settings(new))
    assert recorded.comparable
    assert (only(recorded, path).severity, only(recorded, path).origin) == ("treatment", "kernel")


@pytest.mark.parametrize(
    ("base", "new", "path"),
    ON_BOTH,
    ids=[path for _, _, path in ON_BOTH],
)
def test_on_one_kernel_the_owner_set_what_differs(
    gate: Gate, base: Host, new: Host, path: str
) -> None:
    found = gate(with_settings(base), with_settings(new), kernel={})
    assert not found.comparable
    assert found.part_of_change == ()
    assert (only(found, path).severity, only(found, path).origin) == ("blocking", None)


PREEMPT: tuple[Host, Host] = ({"sched": {"preempt": "full"}}, {"sched": {"preempt": "lazy"}})
AUTOGROUP: tuple[Host, Host] = ({"sched": {"autogroup": 0}}, {"sched": {"autogroup": 1}})
FEATURE: tuple[Host, Host] = (
    {"sched": {"features": "NO_PLACE_LAG"}}, {"sched": {"features": "PLACE_LAG"}}
)  # fmt: skip
THP: tuple[Host, Host] = ({"memory": {"thp": "never"}}, {"memory": {"thp": "always"}})


@pytest.mark.parametrize(
    ("sides", "path", "set_in_base", "reason"),
    [
        (PREEMPT, "sched.preempt", {"kernel": {"cmdline": "ro preempt=full"}},
         "kernel.cmdline.preempt full in base, not set in new"),
        (PREEMPT, "sched.preempt", {"written": {"sched.preempt": "voluntary"}},
         "full in base, voluntary at boot"),
        (AUTOGROUP, "sched.autogroup", {"sysctl": {"kernel.sched_autogroup_enabled": "0"}},
         "settings.sysctl.kernel.sched_autogroup_enabled 0 in base, not set in new"),
        (AUTOGROUP, "sched.autogroup", {"kernel": {"cmdline": "ro noautogroup"}},
         "kernel.cmdline.noautogroup"),
        (AUTOGROUP, "sched.autogroup",
         {"kernel": {"cmdline": "ro sysctl.kernel.sched_autogroup_enabled=0"}},
         "kernel.cmdline.sysctl.kernel.sched_autogroup_enabled 0 in base"),
        (FEATURE, "sched.features.PLACE_LAG",
         {"tmpfiles": {"/sys/kernel/debug/sched/features": "NO_PLACE_LAG"}},
         "settings.tmpfiles./sys/kernel/debug/sched/features NO_PLACE_LAG in base"),
        (FEATURE, "sched.features.PLACE_LAG", {"tuned": "latency-performance"},
         "settings.tuned latency-performance in base, none in new"),
    ],
)  # fmt: skip
def test_what_the_owner_of_one_machine_set_blocks(
    gate: Gate, sides: tuple[Host, Host], path: str, set_in_base: Host, reason: str
) -> None:
    kernel = set_in_base.get("kernel", {})
    chosen = {key: value for key, value in set_in_base.items() if key != "kernel"}
    base = {**with_settings(sides[0], **chosen), "kernel": kernel}
    found = gate(base, with_settings(sides[1]))
    assert not found.comparable
    assert (only(found, path).severity, only(found, path).origin) == ("blocking", "owner")
    assert reason in only(found, path).reason
    assert path not in found.part_of_change


def test_a_value_in_force_that_sysctl_d_does_not_set_was_written(gate: Gate) -> None:
    chosen = {"sysctl": {"kernel.sched_autogroup_enabled": "0"}}
    found = gate(*(with_settings(side, **chosen) for side in AUTOGROUP))
    assert only(found, "sched.autogroup").severity == "blocking"


def test_a_parameter_that_both_kernels_were_given_does_not_set_them_apart(gate: Gate) -> None:
    # The new kernel has no such model any more.
    given = {"kernel": {"cmdline": "ro preempt=voluntary"}}
    base, new = ({**with_settings(side), **given} for side in PREEMPT)
    assert gate(base, new, configs=CONFIGS).comparable


@pytest.mark.parametrize(("base", "severity"), [("voluntary", "treatment"), ("full", "blocking")])
def test_the_configuration_says_what_the_default_is(gate: Gate, base: str, severity: str) -> None:
    found = gate({"sched": {"preempt": base}}, PREEMPT[1], configs=CONFIGS)
    difference = only(found, "sched.preempt")
    assert difference.severity == severity
    assert difference.origin == ("kernel" if severity == "treatment" else "owner")
    if severity == "blocking":
        assert "but voluntary in the kernel configuration" in difference.reason


@pytest.mark.parametrize(
    ("configs", "severity"),
    [
        ((), "blocking"),
        (("CONFIG_TRANSPARENT_HUGEPAGE_NEVER=y\n", "CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS=y\n"),
         "treatment"),
        (("CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS=y\n",) * 2, "blocking"),
    ],
)  # fmt: skip
def test_huge_pages_are_the_kernels_choice_where_the_configurations_say_so(
    gate: Gate, configs: tuple[str, ...], severity: str
) -> None:
    assert only(gate(*THP, configs=configs), "memory.thp").severity == severity


@pytest.mark.parametrize("driver", ["amd-pstate-epp", "acpi-cpufreq"])
def test_limits_of_the_frequency_follow_the_driver(gate: Gate, driver: str) -> None:
    base = {"cpufreq": {"driver": "acpi-cpufreq", "max_khz": 2100000}}
    found = gate(base, {"cpufreq": {"driver": driver, "max_khz": 3700000}})
    assert found.comparable == (driver == "amd-pstate-epp")


def test_a_scheduler_that_was_loaded_is_no_default(gate: Gate) -> None:
    states = ({"sched": {"sched_ext": state}} for state in ("disabled", "enabled"))
    found = gate(*map(with_settings, states))
    assert (only(found, "sched.sched_ext").severity, found.part_of_change) == ("blocking", ())


def test_a_tunable_that_debugfs_did_not_show_is_unknown(gate: Gate) -> None:
    hidden = {"sched": {"features": None, "base_slice_ns": None}}
    found = only(gate(hidden, {}), "sched.base_slice_ns")
    assert (found.severity, found.origin) == ("noted", None)
    assert found.reason.startswith("unknown in base: ")


def test_a_disabled_idle_state_is_no_default(gate: Gate) -> None:
    states = [[{"name": "C1", "latency_us": 1, "disabled": disabled}] for disabled in (False, True)]
    found = gate(*({"cpuidle": {"states": each}} for each in states))
    assert [(each.path, each.severity) for each in found.differences if "cpuidle" in each.path] == [
        ("cpuidle.states.disabled", "blocking")
    ]


def test_boots_of_one_kernel_that_differ_show_that_it_was_set(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    runs = [{"boot": 0, "run": 0}, {"boot": 1, "run": 0}]
    other = {"hosts": {1: {"sched": {"base_slice_ns": 1000000}}}, "runs": runs}
    base = make_bundle(tmp_path / "base.tar", **other)
    host = {"kernel": NEW_KERNEL, "sched": {"base_slice_ns": 2800000}}
    new = make_bundle(tmp_path / "new.tar", host=host)
    found = compare_hosts(name_sides([open_bundle(base), open_bundle(new)]))
    blocking = {each.path: each.reason for each in found.differences if each.severity == "blocking"}
    assert (
        "3000000 in base, but 1000000 in another boot of the same side"
        in blocking["sched.base_slice_ns"]
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"sched": {"features": "NO_PLACE_LAG"}}, "treatment"),
        ({"sched": {"features": "PLACE_LAG"}}, "blocking"),
        (None, "treatment"),
        ({}, "treatment"),
    ],
)
def test_what_was_written_while_it_was_recorded_blocks(
    make_bundle: MakeBundle, tmp_path: Path, settings: Host | None, severity: str
) -> None:
    facts = json.dumps({"settings": settings})
    runs = [{}, {"files": {"system_counters/facts.json": facts}}]
    base = make_bundle(tmp_path / "base.tar", runs=runs, host=FEATURE[0])
    new = make_bundle(tmp_path / "new.tar", host={**FEATURE[1], "kernel": NEW_KERNEL})
    found = compare_hosts(name_sides([open_bundle(base), open_bundle(new)]))
    assert only(found, "sched.features.PLACE_LAG").severity == severity
    if severity == "blocking":
        assert only(found, "sched.features.PLACE_LAG").reason.endswith(
            "True in a run of the same side)"
        )


def test_what_only_one_side_records_is_not_known(gate: Gate) -> None:
    found = gate(PREEMPT[0], with_settings(PREEMPT[1]))
    assert (found.comparable, only(found, "sched.preempt").origin) == (True, "unknown")
    assert only(found, "settings.tuned").reason == "unknown in base: not recorded"


@pytest.mark.parametrize(
    ("changed", "comparable"),
    [({"core": 7}, True), ({"cluster": 3}, True), ({"llc": 5}, False), ({"node": 5}, False)],
)
def test_cpus_that_are_grouped_alike_are_equal_whatever_the_numbers(
    gate: Gate, changed: Mapping[str, int], *, comparable: bool
) -> None:
    cpus = [
        {"cpu": cpu, "core": cpu, "cluster": None, "llc": cpu // 2, "socket": 0, "node": cpu // 2}
        for cpu in range(4)
    ]
    # The first CPU gets a number that no other has.
    other = [{**cpus[0], **changed}, *cpus[1:]]
    if "cluster" in changed:
        other = [{**cpu, "cluster": cpu["cpu"]} for cpu in cpus]
    base, new = ({"topology": {"cpus": each}} for each in (cpus, other))
    assert gate(base, new).comparable == comparable
