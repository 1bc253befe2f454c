# SPDX-License-Identifier: GPL-2.0-or-later
"""bcc takes the place of libbpf where that cannot load the object, and the record says so."""

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import schedperf_collectors
from schedperf_collectors.bpf import _libbpf_library
from schedperf_collectors.bpf._libbpf_library import load_library
from schedperf_collectors.bpf.libbpf import BpfObject
from schedperf_collectors.bpf.objects import read_object
from schedperf_collectors.bpf.probes import PAIRS, NoPrograms
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel_files import KernelFunctions
from schedperf_collectors.machine.system import System
from schedperf_collectors.pelt.loader import (
    AUTO,
    LINEAR_BINS,
    MAPS,
    OBJECT,
    LibbpfPrograms,
    LoadedPrograms,
    load_pelt,
    load_programs,
    program_text,
    why_no_types,
)
from schedperf_collectors.pelt.programs import (
    CONTEXTS,
    EMPTY_CALL,
    FUNCTIONS,
    LINEAR_STEP_NS,
    MARKERS,
    OPEN_RUN,
    OPEN_TRIAL,
    SLOTS,
    TIMED_CALL,
    TRACEPOINTS,
    attach_functions,
    find_pelt_functions,
    role_of,
    syscall_names,
)
from schedperf_collectors.plugin import Skipped

EMPTY = KernelFunctions({}, {})
NOT_PACKED = "this recorder does not contain pelt.bpf.o, and clang is not installed"
NO_TYPES = (
    "/sys/kernel/btf/vmlinux: no such file or directory; fentry, fexit and offsets of members "
    "such as cfs_rq->rq are not available"
)
NO_BCC = "python3-bpfcc is not installed"

without_bcc = pytest.mark.skipif(
    importlib.util.find_spec("bcc") is not None, reason="bcc is installed for this Python"
)


@pytest.fixture
def bare(make_system: Callable[..., System], monkeypatch: pytest.MonkeyPatch) -> System:
    """Return a machine that has no clang and no packed object."""
    monkeypatch.setenv("PATH", "/nonexistent")
    return make_system({"sys/devices/system/cpu/possible": "0-3\n"})


@without_bcc
def test_where_no_loader_works_each_says_why(bare: System) -> None:
    loaded = load_programs(bare, EMPTY, 1, AUTO)
    assert isinstance(loaded.programs, NoPrograms)
    assert loaded.describe() == {
        "used": None,
        "asked": "auto",
        "tried": {"libbpf": NOT_PACKED, "bcc": NO_BCC},
        "no_types": NO_TYPES,
    }
    why = loaded.programs.why
    assert why.reason == f"libbpf: {NOT_PACKED}; bcc: {NO_BCC}"
    assert why.remedy.startswith(
        "run `apt-get install clang`, or use a recorder that `schedperf pack` "
    )
    assert loaded.notes() == []


@pytest.mark.parametrize(("asked", "reason"), [("libbpf", NOT_PACKED), ("bcc", NO_BCC)])
@without_bcc
def test_the_loader_that_was_asked_for_is_the_only_one_tried(
    bare: System, asked: str, reason: str
) -> None:
    loaded = load_programs(bare, EMPTY, 1, asked)
    assert isinstance(loaded.programs, NoPrograms)
    assert loaded.programs.why.reason == reason
    assert loaded.tried == {asked: reason}
    assert loaded.asked == asked


@pytest.fixture
def without_libbpf(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the library have a name that no machine has."""
    monkeypatch.setattr(_libbpf_library, "LIBRARY", "libbpf.so.none")
    load_library.cache_clear()
    yield
    load_library.cache_clear()


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
@pytest.mark.usefixtures("without_libbpf")
def test_a_machine_without_libbpf_is_told_the_package(make_system: Callable[..., System]) -> None:
    system = make_system({"sys/devices/system/cpu/possible": "0-3\n"})
    reason = str(load_programs(system, EMPTY, 1, AUTO).tried["libbpf"])
    assert reason.startswith("libbpf.so.none cannot be loaded (libbpf.so.none: ")
    assert reason.endswith("; run `apt-get install libbpf1`")
    assert "\n" not in reason


def test_another_loader_than_the_first_is_noted() -> None:
    programs = NoPrograms(Skipped("nothing"))
    fallback = LoadedPrograms(programs, AUTO, {"libbpf": NOT_PACKED, "bcc": None})
    assert fallback.loader == "bcc"
    assert fallback.notes() == [f"programs loaded with bcc; libbpf: {NOT_PACKED}"]
    assert LoadedPrograms(programs, AUTO, {"libbpf": None}).notes() == []
    assert LoadedPrograms(programs, "bcc", {"bcc": None}).notes() == []


def test_a_kernel_without_types_says_what_cannot_be_had(make_system: Callable[..., System]) -> None:
    types = "sys/kernel/btf/vmlinux"
    assert why_no_types(make_system({})) == NO_TYPES
    assert "no BTF data; fentry" in str(why_no_types(make_system({types: ""})))
    magic = (0xEB9F).to_bytes(2, sys.byteorder)
    assert why_no_types(make_system({types: magic + bytes(30)})) is None


HEADER = Path(schedperf_collectors.__file__).parent / "bpf" / "pelt.h"
MARKED = [name for groups in MARKERS.values() for names in groups for name in names]
CALLS = [name for call in (TIMED_CALL, EMPTY_CALL) for name in syscall_names(call)]

pytestmark = pytest.mark.system


@pytest.fixture
def data() -> bytes:
    """Return the object."""
    if shutil.which("clang") is None:
        pytest.skip("needs clang")
    try:
        load_library()
    except Unavailable as unavailable:
        pytest.skip(unavailable.reason)
    return read_object(OBJECT)


@pytest.fixture
def programs(data: bytes) -> Iterator[LibbpfPrograms]:
    """Load the object for the functions of this kernel."""
    assert data
    if os.geteuid() != 0:
        pytest.skip("needs root")
    system = System()
    loaded = load_pelt(system, find_pelt_functions(system), sampling=1)
    assert isinstance(loaded, LibbpfPrograms)
    yield loaded
    loaded.close()


@pytest.mark.parametrize("mechanism", PAIRS)
def test_each_function_has_a_pair_of_programs_for_each_mechanism(
    data: bytes, mechanism: str
) -> None:
    with BpfObject(data, OBJECT) as opened:
        for name in (*FUNCTIONS, *MARKED, *CALLS):
            for each in mechanism.split("/"):
                assert f"{role_of(name)}_{each}" in opened.programs
        assert {f"{name}_raw_tp" for name in TRACEPOINTS} <= set(opened.programs)


def enumerators(name: str) -> list[str]:
    found = re.search(rf"enum {name} {{([^}}]*)}};", HEADER.read_text())
    assert found is not None
    return [each.strip() for each in found[1].split(",") if each.strip()]


def test_the_header_numbers_everything_as_python_does() -> None:
    *slots, end = enumerators("slot")
    assert end == "SLOTS"
    assert [each.strip("_").lower() for each in slots] == [name.strip("_") for name in SLOTS]
    *contexts, end = enumerators("context")
    assert end == "CONTEXTS"
    assert [each.removeprefix("IN_").lower() for each in contexts] == list(CONTEXTS)
    gates = enumerators("gate")
    assert (gates[OPEN_RUN], gates[OPEN_TRIAL]) == ("OPEN_RUN", "OPEN_TRIAL")
    text = HEADER.read_text()
    assert f"#define LINEAR_STEP_NS {LINEAR_STEP_NS}\n" in text
    assert f"#define LINEAR_BINS {LINEAR_BINS}\n" in text


def test_values_of_the_maps_have_the_sizes_that_are_read(programs: LibbpfPrograms) -> None:
    for name, layout in MAPS.items():
        if layout is not None:
            assert programs._tracepoints.map(name).value_size == ctypes.sizeof(layout)  # noqa: SLF001 # what the kernel has


def test_tracepoints_count_while_the_gate_is_open(programs: LibbpfPrograms) -> None:
    (slot,) = (at for at, name in enumerate(SLOTS) if name == "pelt_se_tp")

    def counted() -> int:
        return sum(sum(value.by_context) for value in programs.read("calls", slot).values())

    programs.attach_raw_tracepoint("pelt_se_tp")
    subprocess.run(["sleep", "0.05"], check=True)
    assert counted() == 0
    programs.write("gates", OPEN_RUN, 1)
    for _ in range(20):
        subprocess.run(["true"], check=True)
    programs.write("gates", OPEN_RUN, 0)
    assert counted() >= 20
    assert set(programs.read("calls", slot)) == set(programs.read("marks", 0))


@pytest.mark.parametrize("mechanism", PAIRS)
def test_a_function_that_no_kernel_has_is_one_reason(data: bytes, mechanism: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    name = "no_such_function_in_any_kernel"
    programs = LibbpfPrograms(data, [], sampling=1, cpus=[0])
    try:
        with pytest.raises(Unavailable) as refused:
            # Its pair is that of a function which has one.
            programs.attach_pair(mechanism, name)
    finally:
        programs.close()
    assert refused.value.reason
    assert "\n" not in refused.value.reason


def test_an_object_that_is_none_is_one_reason(data: bytes) -> None:
    for damaged in (b"", data[:1000], b"no object" * 100):
        with pytest.raises(Unavailable) as refused:
            LibbpfPrograms(damaged, [], sampling=1, cpus=[0])
        assert "\n" not in refused.value.reason


def test_nothing_is_left_behind(data: bytes) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    assert data
    system = System()
    kernel = find_pelt_functions(system)
    before = set(Path("/proc/self/fd").iterdir())
    programs = load_pelt(system, kernel, sampling=4)
    attach_functions(programs, kernel)
    programs.close()
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_without_an_object_and_clang_the_package_is_named(
    make_system: Callable[..., System], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    system = make_system({"sys/devices/system/cpu/possible": "0-3\n"})
    with pytest.raises(Unavailable, match=r"pelt.bpf.o, and clang is not installed$"):
        load_pelt(system, KernelFunctions({}, {}), sampling=1)


def kernel_with(*names: str) -> KernelFunctions:
    return KernelFunctions(addresses=dict.fromkeys(names, (1,)), copies={})


def test_the_text_has_programs_for_what_is_there_only() -> None:
    text = program_text(kernel_with("update_cfs_group", "enqueue_task_fair", "wake_up_new_task",
                                    "newidle_balance",
                                    "__do_sys_getuid", "__do_sys_geteuid"))  # fmt: skip
    assert "int kfunc__update_cfs_group(void *ctx)\n{\n\treturn enter(0, OPEN_RUN);\n}" in text
    assert "int kretfunc__update_cfs_group(void *ctx)\n{\n\treturn leave(0, OPEN_RUN);\n}" in text
    enqueue, newidle = CONTEXTS.index("enqueue"), CONTEXTS.index("newidle")
    assert f"int kretfunc__enqueue_task_fair(void *ctx)\n{{\n\treturn unmark({enqueue});" in text
    # Under the name that this kernel has.
    assert f"int kfunc__newidle_balance(void *ctx)\n{{\n\treturn mark({newidle});" in text
    assert "int kfunc__sched_balance_newidle" not in text
    assert "int kfunc__wake_up_new_task(void *ctx)\n{\n\treturn begin_fork();" in text
    assert "int kfunc__dequeue_task_fair" not in text
    assert "return enter(6, OPEN_TRIAL);" in text
    assert "int kfunc____do_sys_geteuid(void *ctx)\n{\n\treturn 0;\n}" in text
    assert text.count("count(4, OPEN_RUN)") == text.count("count(5, OPEN_RUN)") == 1


def test_the_shared_header_is_in_the_text() -> None:
    text = program_text(kernel_with())
    assert "#include" not in text
    assert text.index("#define INLINE") < text.index("struct calls {") < text.index("BPF_ARRAY(")


def test_a_call_without_its_partner_is_not_probed() -> None:
    text = program_text(kernel_with("__do_sys_getuid"))
    assert "__do_sys_getuid" not in text
