# SPDX-License-Identifier: GPL-2.0-or-later
"""perf c2c finds in generated recordings the accesses and lines that were put in."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from schedperf_generators.installed_perf import (
    perf_c2c_lines,
    perf_c2c_statistics,
    run_perf,
)
from schedperf_generators.memory import (
    LINE_BYTES,
    LOAD_AVG_AT,
    MemoryRun,
    Touch,
    Vendor,
    scheduler_kernel,
    scheduler_run,
)
from schedperf_generators.memory_kinds import KINDS
from schedperf_generators.numa import Numa
from schedperf_generators.perf_data import write_perf_data
from schedperf_generators.samples import Sample

RUNQUEUES_AT = 0x2BA40
# Where the unit of CPU 0 is, and of the first CPU of the second node.
CPU_0_AT = 0xFFFF88807FC00000
CPU_56_AT = 0xFFFF88A07FC00000


def written(run: MemoryRun, folder: Path) -> Path:
    path = folder / "perf.data"
    path.write_bytes(write_perf_data(run.perf_data()))
    return path


def every_kind(*, weight_struct: bool = False) -> MemoryRun:
    """Return a run with another number of samples of each kind, some of them locked."""
    touches = tuple(
        Touch(
            target="nohz", offset=8, kind=kind, function="cpu_util", samples=3 + number,
            locked=number % 3 == 0,
        )
        for number, kind in enumerate(KINDS)
    )  # fmt: skip
    numa = Numa(cpus=16, nodes=2)
    return MemoryRun(
        numa=numa, kernel=scheduler_kernel(), touches=touches, weight_struct=weight_struct
    )


def agree(run: MemoryRun, path: Path) -> None:
    """Assert that perf's totals are the truth; what the truth does not name is 0."""
    truth = dict(run.truth().totals)
    found = dict(perf_c2c_statistics(path))
    # Whether perf knows a mapping for a data address is up to it and not to the recording.
    del found["no_page_map_rejects"]
    assert found == {name: truth.pop(name, 0) for name in found}
    assert truth == {}


@pytest.mark.parametrize("order", ["<", ">"])
def test_perf_counts_each_kind_of_access_as_its_table_says(
    tmp_path: Path, order: Literal["<", ">"]
) -> None:
    run = replace(every_kind(), order=order)
    agree(run, written(run, tmp_path))


def test_the_newer_weight_changes_no_count(tmp_path: Path) -> None:
    run = every_kind(weight_struct=True)
    path = written(run, tmp_path)
    agree(run, path)
    weights = {int(word) for word in run_perf("script", "-i", path, "-F", "weight").split()}
    assert weights == {kind.weight for kind in KINDS.values()}


@pytest.mark.parametrize("vendor", ["intel", "amd", "arm"])
@pytest.mark.parametrize("side", ["base", "new"])
def test_perf_finds_the_lines_of_the_scheduler(
    tmp_path: Path, vendor: Vendor, side: Literal["base", "new"]
) -> None:
    run = scheduler_run(side, vendor=vendor, scale=0.25)
    path = written(run, tmp_path)
    agree(run, path)
    display = "peer" if vendor == "arm" else "tot"
    found = perf_c2c_lines(path, "--show-all", "-d", display)
    truth = run.truth().lines
    assert len(found) > run.numa.cpus
    for address, row in found.items():
        columns = truth[address]
        shared = row.keys() & KIND_COLUMNS
        assert {name: row[name] for name in shared} == {name: columns[name] for name in shared}
        # perf adds up columns, and a remote hit of Skylake and newer is in two of them.
        assert row["records"] == sum(columns[name] for name in KIND_COLUMNS - {"records"}) - (
            columns["store_l1_hit"] + columns["store_l1_miss"] + columns["store_na"]
        )


KIND_COLUMNS = {
    "store", "store_l1_hit", "store_l1_miss", "store_na", "load_fb_hit", "load_l1_hit",
    "load_l2_hit", "load_llc_hit", "lcl_hitm", "rmt_hit", "rmt_hitm", "lcl_dram", "rmt_dram",
}  # fmt: skip


def contended(lines: Mapping[int, Mapping[str, int]]) -> dict[int, int]:
    return {address: row["lcl_hitm"] + row["rmt_hitm"] for address, row in lines.items()}


def test_perf_hides_the_per_cpu_variable_that_is_a_sixth_of_all_contention(
    tmp_path: Path,
) -> None:
    run = scheduler_run("base")
    truth = run.truth()
    queues = {base + RUNQUEUES_AT for base in run.numa.unit_bases().values()}
    hitms = contended(truth.lines)
    assert truth.copies["runqueues", 0] == run.numa.cpus
    assert sum(hitms[queue] for queue in queues) / sum(hitms.values()) > 1 / 6
    path = written(run, tmp_path)
    assert queues.isdisjoint(perf_c2c_lines(path))
    assert queues <= perf_c2c_lines(path, "--show-all").keys()


def test_units_lie_in_the_memory_of_their_cpus_node() -> None:
    numa = Numa()
    bases = numa.unit_bases()
    assert (bases[0], bases[1], bases[56]) == (CPU_0_AT, CPU_0_AT + numa.unit_bytes, CPU_56_AT)
    assert [numa.node(cpu) for cpu in (0, 55, 56, 223)] == [0, 0, 1, 3]
    assert "pcpu-alloc: [3] 168 169" in numa.percpu_lines()
    assert "s217088 r8192 d28672 u262144 alloc=1*2097152" in numa.percpu_lines()


def test_load_avg_cools_down_and_run_queues_heat_up_from_base_to_new() -> None:
    base, new = (scheduler_run(side).truth().folded for side in ("base", "new"))
    group, queue = ("task_group", LOAD_AVG_AT & -LINE_BYTES), ("runqueues", 0)
    assert base[group]["rmt_hitm"] > 5 * new[group]["rmt_hitm"] > 0
    assert 2 * base[queue]["rmt_hitm"] == new[queue]["rmt_hitm"]
    assert base["nohz", 0] == new["nohz", 0]


def test_false_sharing_has_readers_and_writers_of_different_bytes() -> None:
    truth = scheduler_run("base").truth()
    assert truth.offsets["nohz", 8]["store"] == truth.offsets["nohz", 16]["rmt_hitm"] == 0
    assert truth.offsets["nohz", 16]["store"] > 0 < truth.offsets["nohz", 8]["rmt_hitm"]
    shared = truth.offsets["task_group", LOAD_AVG_AT]
    assert shared["store"] > 0 < shared["rmt_hitm"]


def test_a_copy_is_touched_from_the_node_that_its_kind_says() -> None:
    run = scheduler_run("base")
    numa, bases = run.numa, run.numa.unit_bases()
    owners = {base: cpu for cpu, base in bases.items()}
    samples = [record for record in run.perf_data().records if isinstance(record, Sample)]
    seen = set()
    for sample in samples:
        owner = owners.get(sample.address - RUNQUEUES_AT - 4)
        if owner is None:
            continue
        same = numa.node(owner) == numa.node(sample.cpu)
        remote = sample.data_src == KINDS["load_remote_hitm"].data_src
        assert same != remote
        seen.add((remote, owner == sample.cpu))
    assert seen == {(True, False), (False, False), (False, True)}
