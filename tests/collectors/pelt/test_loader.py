"""bcc takes the place of libbpf where that cannot load the object, and the record says so."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator

import pytest

from schedperf_collectors.bpf import _libbpf_library
from schedperf_collectors.bpf._libbpf_library import load_library
from schedperf_collectors.bpf.probes import NoPrograms
from schedperf_collectors.machine.kernel_functions import KernelFunctions
from schedperf_collectors.machine.system import System
from schedperf_collectors.pelt.loader import AUTO, LoadedPrograms, load_programs, why_no_types
from schedperf_collectors.plugin import Skipped

EMPTY = KernelFunctions({}, {})
NOT_PACKED = "pelt.bpf.o is not packed, and no clang; apt-get install clang"
NO_TYPES = (
    "/sys/kernel/btf/vmlinux: no such file or directory: no fentry, no fexit, and no members of "
    "types such as cfs_rq->rq"
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
    assert why.remedy == ("apt-get install python3-bpfcc" if os.geteuid() == 0 else "run as root")
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
    assert reason.startswith("libbpf.so.none cannot be used (libbpf.so.none: ")
    assert reason.endswith("; apt-get install libbpf1")
    assert "\n" not in reason


def test_another_loader_than_the_first_is_noted() -> None:
    programs = NoPrograms(Skipped("nothing"))
    fallback = LoadedPrograms(programs, AUTO, {"libbpf": NOT_PACKED, "bcc": None})
    assert fallback.loader == "bcc"
    assert fallback.notes() == [f"bcc loaded the programs; libbpf: {NOT_PACKED}"]
    assert LoadedPrograms(programs, AUTO, {"libbpf": None}).notes() == []
    assert LoadedPrograms(programs, "bcc", {"bcc": None}).notes() == []


def test_a_kernel_without_types_says_what_cannot_be_had(make_system: Callable[..., System]) -> None:
    types = "sys/kernel/btf/vmlinux"
    assert why_no_types(make_system({})) == NO_TYPES
    assert "no types in it: no fentry" in str(why_no_types(make_system({types: ""})))
    magic = (0xEB9F).to_bytes(2, sys.byteorder)
    assert why_no_types(make_system({types: magic + bytes(30)})) is None
