# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of bytes: per-CPU variables, globals, fields, and objects that the code gives away."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.evidence.c2c.entries import entries_of
from schedperf.evidence.c2c.model import MemoryProfile
from schedperf.evidence.c2c.namer import data_address, load_with_types
from schedperf.evidence.c2c.naming import Variables, is_known_user, plain, struct_names, users_of
from schedperf.evidence.layout.model import Entry, Kernel, Unit
from schedperf.evidence.layout.record import LineBytes
from schedperf.evidence.layout.sources import SCHEDULER_STRUCTS
from schedperf.inputs.kernel.percpu_units import PercpuUnits
from schedperf.inputs.perf_data.recording import KernelText
from schedperf_generators.kernel import Symbol
from schedperf_generators.memory import MemoryRun, scheduler_run

BTF = Path("/sys/kernel/btf/vmlinux")


def entry(name: str, offset: int, size: int | None, type_name: str | None = None) -> Entry:
    return Entry(name=name, offset=offset, size=size, type=type_name)


def unit(name: str, kind: str, size: int, *entries: Entry) -> Unit:
    return Unit(
        name=name, kind=kind, size=size, alignment=64, is_alignment_inferred=False,  # type: ignore[arg-type] # one of three words
        entries=entries, groups={}, sources=("made", "made"), noise={}, notes=(),
    )  # fmt: skip


def kernel_of(*units: Unit) -> Kernel:
    return Kernel(
        label="made", machine="x86_64", pointer_bytes=8, is_big_endian=False,
        line_bytes=LineBytes(compile_time=64, hardware=64),
        units={one.name: one for one in units}, unknown={}, notes=(),
    )  # fmt: skip


RQ = unit("struct rq", "struct", 128, entry("__lock", 0, 4), entry("nr_running", 4, 4),
          entry("cfs.h_nr_running", 64, 4))  # fmt: skip
TASK_GROUP = unit("struct task_group", "struct", 704, entry("shares", 232, 8),
                  entry("load_avg", 256, 8), entry("rt_se", 264, 8))  # fmt: skip
PERCPU = unit("percpu", "percpu", 8192, entry("runqueues", 1024, 128, "struct rq"),
              entry("pair", 2048, 256, "struct rq[2]"), entry("unsized", 4096, None))  # fmt: skip
GLOBALS = unit("globals", "globals", 4096, entry("jiffies_64", 64, 8), entry("nohz", 128, 64))


@pytest.fixture
def variables() -> Variables:
    return Variables(kernel_of(RQ, TASK_GROUP, PERCPU, GLOBALS), 0xFFFFFFFF83000000)


def name_of(variables: Variables, offset: int) -> str | None:
    found = variables.percpu(offset)
    return None if found is None else found.name


def test_a_percpu_variable_has_its_fields_names(variables: Variables) -> None:
    assert name_of(variables, 1028) == "runqueues.nr_running"
    assert name_of(variables, 1088) == "runqueues.cfs.h_nr_running"
    found = variables.percpu(1030)
    assert found is not None
    assert (found.start, found.at, found.end) == (1028, 1030, 1032)


def test_bytes_of_no_field_are_the_variables_and_bytes_of_none_have_no_name(
    variables: Variables,
) -> None:
    assert name_of(variables, 1024 + 100) == "runqueues"
    assert name_of(variables, 1024 + 128) is None
    assert name_of(variables, 0) is None
    assert name_of(variables, 9000) is None


def test_elements_of_arrays_are_numbered(variables: Variables) -> None:
    assert name_of(variables, 2048 + 128 + 4) == "pair[1].nr_running"


def test_a_variable_without_a_size_goes_on_to_the_end(variables: Variables) -> None:
    assert name_of(variables, 8191) == "unsized"


def test_globals_are_found_where_data_was_at_run_time(variables: Variables) -> None:
    found = variables.at(0xFFFFFFFF83000000 + 130)
    assert found is not None
    # Of nohz no part is known, so its bytes are told apart.
    assert (found.name, found.unit, found.start, found.end) == ("nohz", "globals", 130, None)
    jiffies = variables.at(0xFFFFFFFF83000000 + 68)
    assert jiffies is not None
    assert (jiffies.name, jiffies.start, jiffies.end) == ("jiffies_64", 64, 72)
    assert variables.at(64) is None
    assert Variables(kernel_of(GLOBALS), None).at(0xFFFFFFFF83000000 + 130) is None


def test_an_object_is_recognised_by_the_code_that_touches_it(variables: Variables) -> None:
    touched = {0: {"update_cfs_group": 50, "update_load_avg.isra.0": 30}, 8: {"other": 4}}
    assert variables.find_object(touched, {}, 64) == (("struct task_group", 256),)
    field = variables.field("struct task_group", 256)
    assert field is not None
    assert (field.name, field.end) == ("task_group.load_avg", 264)


def test_code_that_touches_nothing_known_there_recognises_nothing(variables: Variables) -> None:
    assert variables.find_object({0: {"memcpy": 50}}, {}, 64) == ()
    assert variables.find_object({16: {"update_cfs_group": 50}}, {}, 64) == ()
    assert variables.find_object({0: {"update_cfs_group": 10, "memcpy": 90}}, {}, 64) == ()
    assert variables.find_object({}, {}, 64) == ()


def test_two_objects_that_explain_a_line_alike_are_both_told() -> None:
    twin = replace(TASK_GROUP, entries=(entry("load_avg", 256, 8), entry("shares", 320, 8)))
    both = Variables(kernel_of(twin), None)
    found = both.find_object({0: {"update_cfs_group": 50}}, {}, 64)
    assert set(found) == {("struct task_group", 256), ("struct task_group", 320)}


def test_who_writes_tells_structs_apart_that_are_read_alike() -> None:
    cfs_rq = unit("struct cfs_rq", "struct", 512, entry("load", 0, 16))
    both = Variables(kernel_of(TASK_GROUP, cfs_rq), None)
    stores = {0: {"update_load_avg": 15}}
    touched = {0: {"update_cfs_group": 40, **stores[0]}}
    assert len(both.find_object(touched, {}, 64)) == 2
    assert both.find_object(touched, stores, 64) == (("struct task_group", 256),)
    assert len(both.find_object(touched, {0: {"memcpy": 15}}, 64)) == 2


def test_a_struct_of_per_cpu_variables_is_no_object_without_types_either() -> None:
    untyped = unit("percpu", "percpu", 8192, entry("runqueues", 1024, 128))
    rq = unit("struct rq", "struct", 128, entry("nr_running", 64, 4))
    touched = {0: {"available_idle_cpu": 10, "idle_cpu": 10, "update_sg_lb_stats": 10}}
    assert Variables(kernel_of(rq, untyped), None).find_object(touched, {}, 64) == ()


def test_functions_have_their_newest_names_and_no_module() -> None:
    assert plain("load_balance.constprop.0") == "sched_balance_rq"
    assert plain("nf_hook [nf_tables]") == "nf_hook"


def test_who_is_inlined_is_known_under_its_callers_names() -> None:
    assert "update_load_avg" in users_of("struct task_group", "load_avg")
    assert "throttle_cfs_rq" in users_of("struct cfs_bandwidth", "runtime")
    assert users_of("struct task_group", "no_such_field") == frozenset()


def test_a_known_user_makes_the_better_grade() -> None:
    assert is_known_user("percpu", "sd_llc_id", ["cpus_share_cache"])
    assert not is_known_user("percpu", "sd_llc_id", ["memcpy"])
    assert not is_known_user("percpu", "no_such_variable", ["cpus_share_cache"])


def test_structs_of_variables_are_named_once() -> None:
    entries = [entry("a", 0, 8, "struct rq"), entry("b", 8, 8, "struct rq[2]"),
               entry("c", 16, 8, "struct rq *"), entry("d", 24, 8, "u64")]  # fmt: skip
    assert struct_names(entries) == ("struct rq",)


def test_data_lies_where_the_text_was_slid_to() -> None:
    table = (
        "ffffffff81000000 T _text\nffffffff82a01000 D _sdata\nffffffff82b00000 D _edata\n"
        "ffffffff82c00000 B __bss_start\nffffffff82d00000 B __bss_stop\n"
    )
    kernel = KernelText(symbol="_text", address=0xFFFFFFFF81000000 + 0x1C00000)
    assert data_address([table], kernel) == 0xFFFFFFFF82A01000 + 0x1C00000
    assert data_address(["garbage", table], kernel) == 0xFFFFFFFF82A01000 + 0x1C00000
    assert data_address([table], None) is None
    assert data_address([], kernel) is None
    hidden = re.sub("(?m)^[0-9a-f]{16}", "0" * 16, table)
    assert data_address([hidden], kernel) is None


@pytest.mark.skipif(not BTF.exists(), reason="the running kernel has no BTF")
def test_a_field_of_the_running_kernels_run_queue_is_named_on_all_its_copies(
    analyse: Callable[..., MemoryProfile], units_of: Callable[[MemoryRun], PercpuUnits]
) -> None:
    variables = Variables(load_with_types(BTF), None)
    kernel = load_with_types(BTF)
    queues = next(one for one in kernel.units["percpu"].entries if one.name == "runqueues")
    field = next(one for one in kernel.units["struct rq"].entries if one.name == "nr_running")
    run = scheduler_run("base")
    here = dataclasses.replace(
        run.kernel, per_cpu=(Symbol("runqueues", queues.offset, queues.size or 0),)
    )
    touches = tuple(
        dataclasses.replace(touch, offset=field.offset)
        for touch in run.touches
        if touch.target == "runqueues" and touch.kind != "load_l1"
    )
    run = dataclasses.replace(run, kernel=here, touches=touches)
    (line,) = analyse(run, units=units_of(run), variables=variables).lines
    assert (line.copies, line.name) == (224, "runqueues.nr_running")
    (access,) = line.accesses
    assert access.name == "runqueues.nr_running"


@pytest.mark.skipif(not BTF.exists(), reason="the running kernel has no BTF")
def test_scheduler_structs_in_variables_of_the_running_kernel_have_their_rows_in_the_layout() -> (
    None
):
    scheduler = {f"struct {name}" for name in SCHEDULER_STRUCTS}
    variables = load_with_types(BTF).units["percpu"].entries
    embedded = {one.name: one.type for one in variables if one.type in scheduler}
    # What the layout section compares is known by what it is made of, too.
    assert {name: entries_of("percpu+0x0", f"{name}.field")[1:] for name in embedded} == {
        name: ((embedded[name], "field"),) for name in embedded
    }
