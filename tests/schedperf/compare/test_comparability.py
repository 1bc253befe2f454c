# SPDX-License-Identifier: GPL-2.0-or-later
"""The comparability gate: which differences forbid a comparison."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.comparability import (
    LONGEST_VALUE,
    compare_hosts,
    field_rules,
    find_rule,
    flatten_host,
)
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.sides import Comparability
from schedperf_collectors import host as host_collector
from schedperf_collectors.plugin import Capture

MakeBundle = Callable[..., Path]
Gate = Callable[..., Comparability]


@pytest.fixture
def gate(make_bundle: MakeBundle, tmp_path: Path) -> Gate:
    """Compare two bundles that differ in what is given of ``new``."""

    def compare(
        new: Mapping[str, Any], base: Mapping[str, Any] = {}, allowed: tuple[str, ...] = ()
    ) -> Comparability:
        paths = [
            make_bundle(tmp_path / "base.tar", **base),
            make_bundle(tmp_path / "new.tar", **new),
        ]
        return compare_hosts(name_sides([open_bundle(path) for path in paths]), allowed=allowed)

    return compare


def severities(found: Comparability) -> dict[str, str]:
    return {difference.path: difference.severity for difference in found.differences}


def test_equal_hosts_are_comparable(gate: Gate) -> None:
    found = gate({})
    assert (found.comparable, found.differences) == (True, ())
    assert found.compared > 50


@pytest.mark.parametrize(
    ("host", "path", "severity"),
    [
        ({"kernel": {"release": "6.13"}}, "kernel.release", "treatment"),
        ({"kernel": {"build_id": "77"}}, "kernel.build_id", "treatment"),
        ({"kernel": {"machine": "aarch64"}}, "kernel.machine", "blocking"),
        ({"kernel": {"config_sha256": "0"}}, "kernel.config_sha256", "noted"),
        ({"cpu": {"microcode": "0x1"}}, "cpu.microcode", "blocking"),
        ({"cpu": {"smt": "on"}}, "cpu.smt", "blocking"),
        ({"cpu": {"mitigations": {"spectre_v2": "Off"}}}, "cpu.mitigations.spectre_v2", "blocking"),
        ({"cpu": {"flags_sha256": "0"}}, "cpu.flags_sha256", "noted"),
        ({"topology": {"distances": [[10, 30], [30, 10]]}}, "topology.distances", "blocking"),
        ({"cpufreq": {"governor": "powersave"}}, "cpufreq.governor", "blocking"),
        ({"cpufreq": {"boost": False}}, "cpufreq.boost", "blocking"),
        ({"sched": {"autogroup": 1}}, "sched.autogroup", "blocking"),
        ({"sched": {"features": "NO_PLACE_LAG RUN_TO_PARITY"}}, "sched.features.PLACE_LAG",
         "blocking"),
        ({"sched": {"features": "PLACE_LAG RUN_TO_PARITY NEW"}}, "sched.features.NEW", "noted"),
        ({"cgroup": {"depth": 8}}, "cgroup.depth", "blocking"),
        ({"cgroup": {"path": "/a"}}, "cgroup.path", "blocking"),
        ({"memory": {"total_bytes": 4 << 30}}, "memory.total_bytes", "blocking"),
        ({"virtualisation": {"emulated": True}}, "virtualisation.emulated", "blocking"),
        ({"system": {"hostname": "bench02"}}, "system.hostname", "noted"),
        ({"tools": {"hackbench": "hackbench 2.50"}}, "tools.hackbench", "blocking"),
        ({"tools": {"perf": "perf version 6.13"}}, "tools.perf", "noted"),
        ({"vendor_extension": {"x": 1}}, "vendor_extension.x", "noted"),
    ],
)  # fmt: skip
def test_a_difference_counts_as_the_table_says(
    gate: Gate, host: Mapping[str, Any], path: str, severity: str
) -> None:
    found = gate({"host": host})
    assert severities(found) == {path: severity}
    assert found.comparable == (severity != "blocking")


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("root=/dev/vdb rw console=ttyS0 console=tty0", {"kernel.cmdline.rw": "noted"}),
        ("root=/dev/vda ro mitigations=off", {"kernel.cmdline.mitigations": "blocking"}),
        ("root=/dev/vda ro isolcpus=1-3 quiet", {"kernel.cmdline.isolcpus": "blocking"}),
        ('root=/dev/vda ro dyndbg="file a.c +p"', {"kernel.cmdline.dyndbg": "noted"}),
    ],
)
def test_kernel_parameters_are_judged_one_by_one(
    gate: Gate, parameters: str, expected: dict[str, str]
) -> None:
    found = severities(gate({"host": {"kernel": {"cmdline": parameters}}}))
    found.pop("kernel.cmdline.ro", None)
    assert found == expected


@pytest.mark.parametrize(
    "host",
    [
        {"state": {"loadavg": [9.0, 9.0, 9.0]}},
        {"system": {"boot_id": "other"}},
        {"memory": {"total_bytes": (8 << 30) - (64 << 20)}},
        {"cgroup": {"path": "/"}},
    ],
)
def test_what_moves_all_the_time_is_no_difference(gate: Gate, host: Mapping[str, Any]) -> None:
    assert gate({"host": host}).differences == ()


def test_sessions_of_one_place_in_the_hierarchy_are_equal(gate: Gate) -> None:
    base = {"host": {"cgroup": {"path": "/user.slice/session-3.scope"}}}
    assert gate({"host": {"cgroup": {"path": "/user.slice/session-12.scope"}}}, base).comparable


def test_a_value_that_one_side_could_not_see_is_noted_with_the_reason(gate: Gate) -> None:
    host = {"cpu": {"microcode": None}, "missing": {"cpu.microcode": "no such file"}}
    found = gate({"host": host})
    [difference] = found.differences
    assert (difference.severity, found.comparable) == ("noted", True)
    assert difference.reason == "unknown in new: no such file"


def test_the_treatment_of_either_side_is_exempt_with_all_below_it(gate: Gate) -> None:
    host = {"cgroup": {"depth": 8, "path": "/a/b"}, "sched": {"autogroup": 1}}
    found = gate({"host": host, "treatment": ["cgroup"]}, {"treatment": ["sched.autogroup"]})
    assert set(severities(found).values()) == {"treatment"}
    assert found.comparable


def test_a_name_that_only_begins_like_a_treatment_is_not_exempt(gate: Gate) -> None:
    host = {"cpufreq": {"governor": "powersave"}}
    assert not gate({"host": host, "treatment": ["cpu", "cpufreq.gov"]}).comparable


def test_what_the_user_allows_is_exempt(gate: Gate) -> None:
    new = {"host": {"cpu": {"microcode": "0x1"}}}
    assert not gate(new).comparable
    assert gate(new, allowed=("cpu.microcode",)).comparable


@pytest.mark.parametrize("base", [None, "nice -n 1", ""])
def test_a_setup_is_what_differs_even_where_no_field_shows_it(gate: Gate, base: str | None) -> None:
    found = gate({"setup": "renice -n 5 -p $$"}, {"setup": base})
    [difference] = found.differences
    assert (difference.path, difference.severity) == ("setup", "treatment")
    assert (difference.base, difference.new) == (base or None, "renice -n 5 -p $$")
    assert gate({"setup": base}, {"setup": base}).differences == ()


def test_another_workload_blocks(gate: Gate) -> None:
    found = gate({"workload": "hackbench -T -l 100 -g {groups}"})
    assert severities(found) == {"workload": "blocking"}


def test_a_metric_that_is_read_by_another_expression_blocks(gate: Gate) -> None:
    rule = {"name": "rate", "unit": "1/s", "better": "higher", "regex": r"(\d+)"}
    found = gate({"metric": [{**rule, "regex": r"rate (\d+)"}]}, {"metric": [rule]})
    assert severities(found) == {"metric.rate": "blocking"}


def test_without_host_json_nothing_is_known_and_that_is_noted(gate: Gate) -> None:
    found = gate({"host": None})
    [difference] = found.differences
    assert difference.reason == "machines are not compared, because host.json is missing in new"


def test_boots_of_one_side_must_be_of_one_kernel(gate: Gate) -> None:
    runs = [{"boot": 0, "run": 0}, {"boot": 1, "run": 0}]
    noted = gate({"runs": runs, "hosts": {1: {"cpu": {"microcode": "0x1"}}}})
    assert [(d.path, d.severity) for d in noted.differences] == [("cpu.microcode", "noted")]
    assert noted.differences[0].reason == "differs between boots 0 and 1 of new"
    mixed = gate({"runs": runs, "hosts": {1: {"kernel": {"release": "6.13"}}}})
    assert severities(mixed) == {"kernel.release": "blocking"}


def boot_method(method: str | None) -> Mapping[str, Any]:
    return {"system": {} if method is None else {"boot_method": method}}


@pytest.mark.parametrize(
    ("base", "new", "is_comparable"),
    [("cold", "kexec", False), ("cold", "cold", True), (None, "cold", True)],
)
def test_kexec_is_not_mixed_with_cold_boots(
    gate: Gate, base: str | None, new: str, *, is_comparable: bool
) -> None:
    hosts = boot_method(base), boot_method(new)
    assert gate({"host": hosts[1]}, {"host": hosts[0]}).comparable == is_comparable
    # Nor within one side.
    runs = [{"boot": 0, "run": 0}, {"boot": 1, "run": 0}]
    of_boots = {"runs": runs, "hosts": dict(enumerate(hosts))}
    assert gate(of_boots, {"host": hosts[0]}).comparable == is_comparable


def test_what_one_boot_could_not_see_does_not_differ_between_boots(gate: Gate) -> None:
    runs = [{"boot": 0, "run": 0}, {"boot": 1, "run": 0}]
    silent = {"kernel": {"build_id": None}, "tools": {"perf": None}}
    reasons = {"kernel.build_id": "no build id", "tools.perf": "perf: no answer in 20 s"}
    assert not gate({"runs": runs, "hosts": {1: {**silent, "missing": reasons}}}).differences
    # Without a reason nobody tried, and what wrote that is another recorder.
    untold = gate({"runs": runs, "hosts": {1: silent}})
    assert severities(untold) == {"kernel.build_id": "blocking", "tools.perf": "noted"}


def test_a_long_value_is_cut(gate: Gate) -> None:
    [difference] = gate({"host": {"cpu": {"model": "x" * 10_000}}}).differences
    assert len(str(difference.new)) == LONGEST_VALUE


def test_fields_that_are_equal_on_all_sides_are_listed(gate: Gate) -> None:
    base, new = ({"host": {"cpu": {"microcode": version}}} for version in ("0x1", "0x2"))
    found = gate(new, base)
    assert {"cpu.model", "sched.base_slice_ns"} < set(found.equal)
    assert "cpu.microcode" not in found.equal
    # Ignored fields are not compared.
    assert "kernel.cmdline.root" not in found.equal
    assert gate({"host": None}, base).equal == ()


def test_what_is_unknown_is_not_equal(gate: Gate) -> None:
    # No side could read its configuration: a mail must not say that they are identical.
    unknown = {"host": {"kernel": {"config_sha256": None}}}
    assert "kernel.config_sha256" in gate({}, {}).equal
    assert "kernel.config_sha256" not in gate(unknown, unknown).equal
    assert "kernel.config_sha256" not in gate(unknown, {}).equal


def test_every_entry_of_the_table_has_a_reason_and_a_severity_of_the_model() -> None:
    for rule in field_rules():
        assert rule.reason
        assert rule.severity in {"treatment", "blocking", "noted", "ignored"}
    paths = [rule.path for rule in field_rules()]
    assert len(paths) == len(set(paths))


def test_the_table_knows_every_field_of_a_captured_host(tmp_path: Path) -> None:
    host_collector.host(Capture(folder=tmp_path, workload_pid=os.getpid(), options={}))
    [file] = tmp_path.glob("host.json")
    fields = flatten_host(json.loads(file.read_text()))
    assert len(fields) > 60
    unknown = [path for path in fields if find_rule(path).reason == "unknown field"]
    assert unknown == []


@pytest.mark.parametrize(
    ("value", "paths"), [("max 100000", []), ("50000 100000", ["cgroup.cpu_max"])]
)
def test_no_limit_of_the_root_group_equals_a_group_without_one(
    gate: Gate, value: str, paths: list[str]
) -> None:
    found = gate({"host": {"cgroup": {"cpu_max": value}}}, {"host": {"cgroup": {"cpu_max": None}}})
    assert [one.path for one in found.differences] == paths
