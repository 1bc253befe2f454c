# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf vm``: two real kernels booted in turns, recorded, and their bundles compared."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.lab.vm.images import Kernel, read_kernel
from tests.end_to_end.conftest import LONGEST_STEP_S

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200), pytest.mark.xdist_group("guests-2")]

# bpf_pelt is left to test_guest_traces.py, further boots of a kernel to test_advised_steps.py.
BOOT = [
    "--boots", "1", "-n", "1", "--warmup", "0", "--accel", "tcg", "--instrumented", "1",
    "--with", "layout,schedstat,perf_profile,bpf_placement,system_counters",
]  # fmt: skip
WORKLOAD = ["hackbench", "-l", "100", "-g", "2"]


@pytest.fixture(scope="module")
def kernels(kernel_images: Mapping[str, Path]) -> Sequence[Kernel]:
    """Return the kernels as schedperf knows them, base first."""
    return [
        read_kernel(name, image, None, Path("/lib/modules"))
        for name, image in kernel_images.items()
    ]


@pytest.fixture(scope="module")
def recorded(
    kernel_images: Mapping[str, Path],
    guest_environment: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Sequence[Path]:
    """Boot each kernel; return their bundles, base first."""
    output = tmp_path_factory.mktemp("kernels")
    named = [f"--kernel={name}={image}" for name, image in kernel_images.items()]
    command = [sys.executable, "-m", "schedperf", "vm", *named, "--output", str(output)]
    bundles = [output / f"{name}.tar" for name in kernel_images]
    ran = subprocess.run(
        [*command, *BOOT, "--hung-after", str(LONGEST_STEP_S), "--", *WORKLOAD],
        env=guest_environment,
        capture_output=True,
        text=True,
    )
    # A guest that ended early was booted once more; what it said last is in the message.
    if ran.returncode == 2 and re.search(r"\bit (?:hung|printed nothing) for ", ran.stderr):
        pytest.skip(ran.stderr.strip().splitlines()[-1])
    assert ran.returncode == 0, ran.stderr
    then = f"schedperf compare {' '.join(map(str, bundles))}"
    assert ran.stdout.splitlines() == [*map(str, bundles), then]
    assert "timings are informational" in ran.stderr
    assert "2 boots in " in ran.stderr.splitlines()[-1]
    return bundles


@pytest.fixture(scope="module")
def bundles(recorded: Sequence[Path]) -> Sequence[Bundle]:
    """Open the bundles, base first."""
    return [open_bundle(path) for path in recorded]


@pytest.fixture(scope="module")
def compared(recorded: Sequence[Path], compare_as_json: Callable[[Sequence[Path]], Any]) -> Any:
    """Compare the two kernels."""
    return compare_as_json(recorded)


def data_of(compared: Any, section: str) -> Any:
    """Return a section that has something to say."""
    found = compared["sections"][section]
    assert found["status"] == "ok", found["reason"]
    return found["data"]


def hosts(bundle: Bundle) -> list[Any]:
    """Return host.json of each boot."""
    return [boot.host_fields for boot in bundle.boots]


def documents(bundles: Sequence[Bundle], name: str) -> Iterator[Any]:
    """Yield a JSON file of each instrumented run of both sides."""
    for bundle in bundles:
        runs = [run for run in bundle.runs if run.kind == "instrumented"]
        assert runs
        for run in runs:
            yield json.loads(bundle.read(f"{run.folder}/{name}"))


def test_each_kernel_has_a_complete_bundle_with_its_boot(
    bundles: Sequence[Bundle], kernels: Sequence[Kernel]
) -> None:
    for bundle, kernel in zip(bundles, kernels, strict=True):
        assert bundle.complete
        assert bundle.broken_members() == ()
        releases = [host["kernel"]["release"] for host in hosts(bundle)]
        assert releases == [kernel.release]
        kinds = [run.kind for run in bundle.runs if run.succeeded]
        assert sorted(kinds) == ["clean", "instrumented"]
        failed = [one for one in bundle.captures if one.status == "failed"]
        assert failed == []


def test_a_guest_knows_its_nodes_and_that_it_is_emulated(bundles: Sequence[Bundle]) -> None:
    for host in (host for bundle in bundles for host in hosts(bundle)):
        assert host["topology"]["nodes"] == {"0": "0-1", "1": "2-3"}
        assert host["cpu"]["count_online"] == 4
        assert host["virtualisation"]["emulated"] is True
        assert host["sched"]["schedstats"] == 1
        assert host["cgroup"]["version"] == 2


def test_the_files_of_each_kernel_are_in_its_bundle(
    bundles: Sequence[Bundle], kernels: Sequence[Kernel]
) -> None:
    for bundle, kernel in zip(bundles, kernels, strict=True):
        assert set(kernel.files) == {"System.map", "config"}
        for name, path in kernel.files.items():
            content = path.read_bytes()
            # What Debian ships beside an image only says where the System.map is.
            if b"The real System.map is in" not in content:
                assert bundle.read(f"boots/0/layout/{name}") == content


def test_times_are_informational_and_the_reason_is_the_emulation(compared: Any) -> None:
    assert compared["overall"]["verdict"] == "inconclusive"
    assert "timings come from an emulator" in compared["overall"]["reason"]
    assert compared["rows"]
    assert {row["family"] for row in compared["rows"]} == {"informational"}


def test_the_layout_of_the_two_kernels_differs_where_a_variable_was_added(
    compared: Any, kernel_images: Mapping[str, Path]
) -> None:
    assert data_of(compared, "layout")["comparisons"]
    if set(kernel_images) != {"tip", "cluster"}:
        pytest.skip("what these two kernels changed in their per-CPU variables is not known")
    claims = [one["claim"] for one in compared["findings"] if "sd_llc_id" in one["claim"]]
    assert any(
        claim.startswith("root_cpuacct_cpuusage and sd_llc_id shared a 64-byte line")
        for claim in claims
    )


def test_schedstat_has_rates_of_both_levels_of_domains(
    compared: Any, bundles: Sequence[Bundle]
) -> None:
    for bundle in bundles:
        for run in bundle.runs:
            facts = json.loads(bundle.read(f"{run.folder}/schedstat/schedstat.json"))
            assert facts["enabled"] is True
    rows = data_of(compared, "schedstat")["rows"]
    levels = {row["level"] for row in rows} - {""}
    # Two CPUs share a socket, and sockets are nodes.
    assert len(levels) == 2
    for level in levels:
        found = [row for row in rows if row["level"] == level and row["field"] == "lb_count"]
        assert {row["idle"] for row in found} >= {"idle", "newidle"}
        assert {row["unit"] for row in found} >= {"1/s", "1/message"}
        assert all(row["base"] > 0 or row["new"] > 0 for row in found)


def test_placement_knows_moves_by_node_distance_and_cause(
    compared: Any, bundles: Sequence[Bundle]
) -> None:
    for document in documents(bundles, "bpf_placement/placement.json"):
        assert document["mechanism"] == "bpf"
        assert document["nodes"] == {"0": 0, "1": 0, "2": 1, "3": 1}
        nodes = {(one["from_node"], one["to_node"]) for one in document["moves"]}
        assert nodes == {(0, 0), (0, 1), (1, 0), (1, 1)}
        refused = [one for one in document["programs"].values() if one["mechanism"] is None]
        assert all(one["reason"] for one in refused)
        # hackbench forks 40 tasks a group.
        forks = sum(one["count"] for one in document["moves"] if one["event"] == "fork")
        assert 80 <= forks <= 200
        assert document["balance"]["attempts"]
        assert document["balance"]["destination"]
    rows = data_of(compared, "placement")["rows"]
    assert {row["part"] for row in rows} >= {"fork", "wakeup", "migration", "cause", "latency"}
    assert {tuple(row["nodes"]) for row in rows if row["part"] == "wakeup"} >= {(0, 1), (1, 0)}
    crossing = [row for row in rows if row["part"] == "wakeup" and row["field"] == "crossing"]
    assert crossing
    assert all(row["base"] > 0 and row["new"] > 0 for row in crossing)


def test_only_instrumented_runs_are_profiled(bundles: Sequence[Bundle]) -> None:
    for bundle in bundles:
        for run in bundle.runs:
            profile = f"{run.folder}/perf_profile/perf.data"
            assert (profile in bundle.names()) == (run.kind == "instrumented")
            if run.kind == "instrumented":
                assert bundle.read(profile).startswith(b"PERFILE2")


def test_the_effect_of_the_instruments_is_told(compared: Any) -> None:
    assert data_of(compared, "probe_effect")
