# SPDX-License-Identifier: GPL-2.0-or-later
"""The bundles of examples/ are real captures, and compare says of them what it must."""

import json
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.model.comparison import Comparison
from schedperf_reports.formats import Options, all_formats

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NAMES = ("cluster-percpu", "deep-cgroup", "deep-cgroup-arm64", "other-load")
LARGEST_BYTES = 4_000_000


@pytest.fixture
def print_as(compared_example: Callable[[str], Comparison]) -> Callable[[str, str], str]:
    """Print all of an example's comparison: ``print_as("text", "deep-cgroup")``."""

    def printed(form: str, name: str) -> str:
        options = Options(width=78, colour=False, everything=True)
        return all_formats()[form].render(compared_example(name), options)

    return printed


@pytest.fixture
def read_record(print_as: Callable[[str, str], str]) -> Callable[[str], dict[str, Any]]:
    """Give an example's record, as a reader of the JSON has it."""

    def read(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(print_as("json", name))
        return found

    return read


@pytest.fixture(params=[(name, side) for name in NAMES for side in ("base", "new")], ids="/".join)
def bundle(request: pytest.FixtureRequest) -> Bundle:
    """Give each bundle of the examples."""
    name, side = request.param
    return open_bundle(EXAMPLES / name / f"{side}.tar.xz")


def test_bundles_are_small_complete_and_have_five_runs_of_each_kind(bundle: Bundle) -> None:
    assert bundle.path.stat().st_size < LARGEST_BYTES
    assert bundle.complete
    for workload in bundle.workload:
        for kind in ("clean", "instrumented"):
            runs = [
                run
                for run in bundle.runs
                if run.workload == workload
                and run.kind == kind
                and not run.warmup
                and run.succeeded
            ]
            assert len(runs) >= 5, (workload, kind)


def test_recorded_commands_name_programs_not_places_of_one_machine(bundle: Bundle) -> None:
    for run in bundle.runs:
        assert not [word for word in run.command if word.startswith("/")]
    for name in bundle.names():
        if name.endswith("perf_profile.json"):
            command = json.loads(bundle.read_text(name))["command"]
            places = [word for word in command if word.startswith("/")]
            assert all(word.startswith(("/usr/", "/tmp/")) for word in places), command


def test_each_example_can_be_recorded_again() -> None:
    for name in (*NAMES, "three-kernels"):
        script = EXAMPLES / name / "record"
        assert script.stat().st_mode & 0o111, f"{script} is not executable"
        subprocess.run(["bash", "-n", str(script)], check=True)
        assert (EXAMPLES / name / "README.md").is_file()


def test_deep_cgroup_is_a_regression_whose_profile_says_that_it_is_blind(
    read_record: Callable[[str], dict[str, Any]],
) -> None:
    record = read_record("deep-cgroup")
    assert record["overall"]["exit_status"] == 1
    assert record["overall"]["verdict"] == "regression"
    (primary,) = [row for row in record["rows"] if row["family"] == "primary"]
    assert primary["verdict"] == "regression"
    assert primary["ci_low"] > 1.0
    profile = record["sections"]["profile"]
    assert profile["status"] == "ok"
    (event,) = profile["data"]["comparisons"][0]["events"]
    assert (event["event"], event["blind"]) == ("cpu-clock", {"base": True, "new": True})
    for row in event["points"][0]["rows"]:
        is_kernel = row["dso"] == "[kernel]"
        assert not (is_kernel and row["changed"]), "a blind profile proves nothing of the kernel"
    found = [one for one in record["findings"] if one["id"].startswith("hotter_symbols#")]
    assert [one["id"] for one in found] == ["hotter_symbols#blind:cpu-clock"]
    assert found[0]["value"] is None
    assert "record cycles on a machine with a PMU" in found[0]["claim"]


def test_the_text_of_deep_cgroup_says_that_it_is_blind_and_what_to_do(
    print_as: Callable[[str, str], str],
) -> None:
    text = " ".join(print_as("text", "deep-cgroup").split())
    assert (
        "recorded with cpu-clock, which cannot sample most of the scheduler, so hot functions may "
        "be missing from the list below [see Hot symbols]"
    ) in text
    _, _, rests = text.partition(" sampled events: ")
    assert (
        "(most of the scheduler): cpu-clock is driven by an hrtimer: time with interrupts off is "
        "attributed to the instruction that re-enables them"
    ) in rests
    assert (
        "cpu-clock instead record cycles on a machine with a PMU (bare metal, or a guest with a "
        "virtual PMU; boot arm64 with irqchip.gicv3_pseudo_nmi=1); or count PELT updates without "
        "sampling, with schedperf record --with bpf_pelt"
    ) in rests


def test_deep_cgroup_costs_time_in_the_kernel_of_the_workloads_own_tasks(
    read_record: Callable[[str], dict[str, Any]],
) -> None:
    record = read_record("deep-cgroup")
    (point,) = record["sections"]["account"]["data"]["points"]
    parts = {change["part"]: change["contribution"] for change in point["parts"]}
    assert [*parts] == ["user", "system", "exiting", "waiting", "blocked"]
    assert sum(parts.values()) == pytest.approx(point["all"]["contribution"])
    first = record["findings"][0]
    assert first["clause"].startswith("system time of the workload's tasks per message")
    assert (first["bearing"], first["of_machine"]) == ("reason", False)


def test_other_load_is_the_first_reason(
    read_record: Callable[[str], dict[str, Any]], print_as: Callable[[str, str], str]
) -> None:
    record = read_record("other-load")
    assert record["overall"]["verdict"] == "regression"
    first = record["findings"][0]
    assert first["clause"].startswith("other load (yes): ")
    assert first["unit"] == "pp"
    assert first["ci"][0] > 0.0
    # Commands of other processes are nowhere but under other load.
    (event,) = record["sections"]["profile"]["data"]["comparisons"][0]["events"]
    (point,) = event["points"]
    assert not [row for row in point["rows"] if row["dso"].startswith("yes")]
    assert "yes" in [each["command"] for each in point["others"]["new"]["commands"]]
    for form in ("text", "lkml"):
        _, _, reasons = " ".join(print_as(form, "other-load").split()).partition(" Reasons 1. ")
        assert reasons.startswith("other load (yes): ")


def test_cluster_percpu_names_the_pair_that_a_cacheline_boundary_separates(
    read_record: Callable[[str], dict[str, Any]],
) -> None:
    record = read_record("cluster-percpu")
    assert record["overall"]["exit_status"] == 0
    assert record["overall"]["verdict"] == "inconclusive"
    (comparison,) = record["sections"]["layout"]["data"]["comparisons"]
    first = comparison["alarms"][0]
    assert (first["rule"], first["grade"]) == ("separated", "measured")
    assert set(first["pairs"][0]) == {"root_cpuacct_cpuusage", "sd_llc_id"}
    assert f"{first['boundary']:x}".endswith("240")
    assert (first["cause"]["kind"], first["cause"]["entry"]) == ("inserted", "sd_cluster")
    (finding,) = [
        one for one in record["findings"] if one["evidence"] == [f"layout#{first['row']}"]
    ]
    assert finding["claim"].startswith(first["claim"])
    assert "sd_cluster" in finding["claim"]
    assert all(side["boots"] >= 2 for side in record["sides"])


def test_three_kernels_shows_the_pair_separated_by_one_patch_and_joined_by_the_next(
    read_record: Callable[[str], dict[str, Any]], print_as: Callable[[str, str], str]
) -> None:
    record = read_record("three-kernels")
    assert [side["label"] for side in record["sides"]] == ["tip", "cluster", "repair"]
    assert record["rows"] == []
    assert record["overall"]["exit_status"] == 0
    alarms = {
        comparison["side"]: [set(pair) for alarm in comparison["alarms"] for pair in alarm["pairs"]]
        for comparison in record["sections"]["layout"]["data"]["comparisons"]
    }
    pair = {"root_cpuacct_cpuusage", "sd_llc_id"}
    assert pair in alarms["new"]
    assert pair not in alarms["new2"]
    text = " ".join(print_as("text", "three-kernels").split())
    assert "root_cpuacct_cpuusage and sd_llc_id shared a 64-byte line and are now separated" in text


def test_arm64_shows_update_cfs_group_rising_on_both_nodes_and_decides_nothing(
    read_record: Callable[[str], dict[str, Any]], print_as: Callable[[str, str], str]
) -> None:
    record = read_record("deep-cgroup-arm64")
    assert record["overall"]["exit_status"] == 0
    assert record["overall"]["verdict"] == "inconclusive"
    assert "emulat" in record["overall"]["reason"]
    printed = print_as("text", "deep-cgroup-arm64").splitlines()
    change, by_node = [
        line.split()
        for line, following in pairwise(printed)
        if line.startswith("  update_cfs_group ") and following.strip() != "(interrupts)"
    ][:2]
    # Behind both shares: marked as changed, and how much.
    mark, points = change[3:5]
    assert mark == "*"
    assert points.startswith("+")
    assert float(points) > 0.1
    # Base -> new on each node.
    shares = [float(word) for word in by_node[1:7] if word != "->"]
    assert shares[0] < shares[1]
    assert shares[2] < shares[3]


def test_arm64_shows_pelt_as_the_class_that_grew_on_each_node_and_per_operation(
    read_record: Callable[[str], dict[str, Any]],
) -> None:
    record = read_record("deep-cgroup-arm64")
    (event,) = record["sections"]["profile"]["data"]["comparisons"][0]["events"]
    assert event["blind"] == {"base": False, "new": False}
    assert event["emulated"] == {"base": True, "new": True}
    (point,) = event["points"]
    changed = [row for row in point["classes"] if row["changed"]]
    (pelt,) = [row for row in changed if row["class"] == "PELT and group shares"]
    assert 0.0 < pelt["share"]["ci_low"] < pelt["share"]["change"] < pelt["share"]["ci_high"]
    assert pelt["share"]["q"] < 0.01
    assert pelt["base_range"][1] < pelt["new_range"][0]
    assert {"update_load_avg", "update_cfs_group"} <= {one["symbol"] for one in pelt["functions"]}
    # 2 groups of 20 senders that pass 50 messages to each of 20 receivers.
    assert point["operations"] == {"unit": "message", "exact": True, "base": 4e4, "new": 4e4}
    assert point["cost_unit"] == "cycles per message"
    assert 0.0 < pelt["cost"]["ci_low"] < pelt["cost"]["change"]
    claims = [
        one["claim"]
        for one in record["findings"]
        if one["id"].endswith("#class:PELT and group shares")
    ]
    assert len(claims) == 1
    for said in (
        "PELT and group shares: ",
        "update_cfs_group +",
        "95% CI [+",
        "idle excluded, node 0 ",
        "per message",
    ):
        assert said in claims[0]
