"""PELT's object has a program for each probe; what this kernel takes of it counts."""

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import schedperf_collectors
from schedperf_collectors.bpf._libbpf_library import load_library
from schedperf_collectors.bpf.libbpf import BpfObject
from schedperf_collectors.bpf.objects import read_object
from schedperf_collectors.bpf.probes import PAIRS
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel_functions import KernelFunctions
from schedperf_collectors.machine.system import System
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
from schedperf_collectors.pelt.through_libbpf import (
    LINEAR_BINS,
    MAPS,
    OBJECT,
    LibbpfPrograms,
    load_pelt,
)

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
    with pytest.raises(Unavailable, match=r"pelt.bpf.o is not packed, .*apt-get install clang"):
        load_pelt(system, KernelFunctions({}, {}), sampling=1)
