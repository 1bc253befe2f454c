# SPDX-License-Identifier: GPL-2.0-or-later
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from schedperf.inputs.perf_data import Recording, read_perf_data
from schedperf.inputs.perf_data.recording import KERNEL_MAP, MappedFile, generated_code_of
from schedperf.inputs.symbols.local_symbols import symbols_for_file
from schedperf.model.errors import InputError
from schedperf_collectors.machine.system import System
from schedperf_collectors.symbols import read_file
from schedperf_generators.kernel import KernelImage
from schedperf_generators.perf_data import write_perf_data
from schedperf_generators.profiles import profile, profiled_kernel

BUILD_ID = bytes(range(20))
NOTES = b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0" + BUILD_ID


@pytest.fixture
def kernel() -> KernelImage:
    return profiled_kernel()


@pytest.fixture
def recording(kernel: KernelImage) -> Recording:
    data = profile(kernel, {("update_load_avg", 0): 4, ("nf_ct_get_tuple", 1): 3})
    return read_perf_data(write_perf_data(data), "perf.data")


@pytest.fixture
def make_machine(tmp_path: Path) -> Callable[[bytes, str], System]:
    """Make a machine: its kernel's ELF notes, and its kallsyms."""

    def make(notes: bytes, kallsyms: str) -> System:
        for name, content in (("sys/kernel/notes", notes), ("proc/kallsyms", kallsyms.encode())):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
        return System(tmp_path, "x86_64")

    return make


def test_the_running_kernel_names_a_recording_of_it(
    kernel: KernelImage, recording: Recording, make_machine: Callable[[bytes, str], System]
) -> None:
    notes: list[str] = []
    machine = make_machine(NOTES, kernel.kallsyms())

    symbols = symbols_for_file(recording, None, notes.append, machine)

    assert symbols.kernel is not None
    found = symbols.kernel.find(kernel.address("update_load_avg", 5))
    assert found is not None
    assert found.name == "update_load_avg"
    assert notes == []


def without_build_ids(recording: Recording, release: str) -> Recording:
    features = replace(recording.features, build_ids={}, os_release=release)
    return replace(recording, features=features)


@pytest.mark.parametrize("release", ["6.18.1", "6.17.9"])
def test_neither_the_release_nor_the_text_address_tell_the_running_kernel(
    kernel: KernelImage,
    recording: Recording,
    make_machine: Callable[[bytes, str], System],
    release: str,
) -> None:
    # Without KASLR all kernels have this text address, and many builds have one release.
    machine = make_machine(NOTES, kernel.kallsyms())
    (machine.root / "proc/sys/kernel").mkdir(parents=True)
    (machine.root / "proc/sys/kernel/osrelease").write_text("6.18.1\n")
    heard: list[str] = []

    symbols = symbols_for_file(without_build_ids(recording, release), None, heard.append, machine)

    assert symbols.kernel is None
    (note,) = heard
    assert note == (
        "kernel addresses stay unresolved, because perf.data does not record the kernel's build "
        "id (perf "
        "record -B or -z, or perf was killed); pass the symbol table of the recorded kernel with "
        "--symbols"
    )


def test_the_mapping_of_the_kernel_may_have_its_build_id(
    kernel: KernelImage, recording: Recording, make_machine: Callable[[bytes, str], System]
) -> None:
    # As of perf record --buildid-mmap.
    machine = make_machine(NOTES, kernel.kallsyms())
    for build_id, is_here in ((BUILD_ID, True), (BUILD_ID[::-1], False)):
        mapped = tuple(
            file._replace(build_id=build_id.hex()) if file.path.startswith(KERNEL_MAP) else file
            for file in recording.files
        )
        other = replace(without_build_ids(recording, "6.18.1"), files=mapped)
        symbols = symbols_for_file(other, None, lambda _: None, machine)
        assert (symbols.kernel is not None) == is_here


def test_without_the_recorded_address_the_running_kernel_names_nothing(
    kernel: KernelImage, recording: Recording, make_machine: Callable[[bytes, str], System]
) -> None:
    heard: list[str] = []
    machine = make_machine(NOTES, kernel.kallsyms())
    symbols = symbols_for_file(replace(recording, kernel=None), None, heard.append, machine)
    assert symbols.kernel is None
    assert "perf.data does not record the kernel's address" in heard[0]


def test_generated_code_is_not_named_by_the_running_kernel(
    kernel: KernelImage, recording: Recording, make_machine: Callable[[bytes, str], System]
) -> None:
    # BPF programs and trampolines come and go; perf.data has those of its time.
    at = kernel.address("nf_ct_get_tuple") + 0x100000
    lines = f"{at:x} t bpf_prog_1 [bpf]\n{at + 64:x} t ftrace_trampoline [__builtin__ftrace]\n"
    machine = make_machine(NOTES, kernel.kallsyms() + lines)
    symbols = symbols_for_file(recording, None, print, machine)
    assert symbols.kernel is not None
    assert symbols.kernel.find(kernel.address("nf_ct_get_tuple")) is not None
    assert [symbols.kernel.find(at + offset) for offset in (8, 72)] == [None, None]


def test_another_boot_of_the_kernel_names_all_but_modules(
    kernel: KernelImage, recording: Recording, make_machine: Callable[[bytes, str], System]
) -> None:
    now = profiled_kernel(slide=0x4000000)
    symbols = symbols_for_file(recording, None, print, make_machine(NOTES, now.kallsyms()))

    assert symbols.kernel is not None
    found = symbols.kernel.find(kernel.address("update_load_avg", 5))
    assert found is not None
    assert found.name == "update_load_avg"
    assert symbols.kernel.find(kernel.address("nf_ct_get_tuple")) is None


@pytest.mark.parametrize(
    ("notes", "kallsyms", "said"),
    [
        (NOTES[:-1] + b"\xff", "ffffffff81000000 T _text\n", "of the running kernel is 0001"),
        (b"", "ffffffff81000000 T _text\n", "of the running kernel is unknown (/sys/kernel/notes:"),
        (NOTES, "0000000000000000 T _text\n", "addresses are hidden; run as root"),
    ],
)  # fmt: skip
def test_why_the_kernel_stays_unnamed_is_said(
    recording: Recording,
    make_machine: Callable[[bytes, str], System],
    notes: bytes,
    kallsyms: str,
    said: str,
) -> None:
    heard: list[str] = []
    symbols = symbols_for_file(recording, None, heard.append, make_machine(notes, kallsyms))
    assert symbols.kernel is None
    assert len(heard) == 1
    assert heard[0].startswith("kernel addresses stay unresolved, because ")
    assert said in heard[0]


def test_a_given_symbol_table_is_moved_to_the_recorded_address(
    kernel: KernelImage, recording: Recording, tmp_path: Path
) -> None:
    path = tmp_path / "System.map"
    path.write_text(kernel.system_map())

    symbols = symbols_for_file(recording, path, print)

    assert symbols.kernel is not None
    found = symbols.kernel.find(kernel.address("update_load_avg", 5))
    assert found is not None
    assert found.name == "update_load_avg"


def test_a_given_table_that_is_none_is_refused(recording: Recording, tmp_path: Path) -> None:
    path = tmp_path / "System.map"
    with pytest.raises(InputError, match="no such file or directory .expected a System.map"):
        symbols_for_file(recording, path, print)
    path.write_bytes(b"\x7fELF" + bytes(99))
    with pytest.raises(InputError, match="invalid line"):
        symbols_for_file(recording, path, print)


def test_a_local_file_is_believed_by_its_build_id_alone(recording: Recording) -> None:
    path = "[vdso]"
    build_id = read_file(path).build_id
    heard: list[str] = []
    of_file = symbols_for_file(recording, None, lambda _text: None).of_file

    found = of_file(MappedFile(path, build_id))
    assert found is not None
    assert found.find(found.starts[:1]).tolist() == [0]
    assert of_file(MappedFile(path, None)) is None
    assert of_file(MappedFile("//anon", build_id)) is None
    assert of_file(MappedFile("//anon", None)) is None

    of_file = symbols_for_file(recording, None, heard.append).of_file
    heard.clear()
    assert of_file(MappedFile(path, "00" * 20)) is None
    assert of_file(MappedFile("/no/such/file", "00" * 20)) is None
    assert len(heard) == 1
    assert heard[0].startswith("[vdso]: the build id differs from that in perf.data; ")
    assert np.uint64(0) not in found.starts


def test_a_file_without_a_recorded_build_id_is_not_found_by_its_path(
    recording: Recording, kernel: KernelImage, make_machine: Callable[[bytes, str], System]
) -> None:
    heard: list[str] = []
    machine = make_machine(NOTES, kernel.kallsyms())
    of_file = symbols_for_file(recording, None, heard.append, machine).of_file
    for path in (sys.executable, "/usr/bin/env"):
        assert of_file(MappedFile(path, None)) is None
    assert len(heard) == 1
    assert heard[0].startswith(f"{sys.executable}: perf.data does not record its build id")


@pytest.fixture
def generated() -> Iterator[Path]:
    """List the functions that a process has generated; its PID is above every PID of Linux.

    Each worker of the tests has its own file.
    """
    path = Path(generated_code_of((1 << 22) + os.getpid()))
    path.write_text("7f00 10 old\nno function\n7f00 20 hot /app/x.js:12\n0x8000 8 cold\n")
    yield path
    path.unlink()


@pytest.mark.parametrize(
    ("notes", "is_here"),
    [(NOTES, True), (NOTES[:-1] + b"\xff", False), (b"", False)],
    ids=["same kernel", "another build id", "unknown"],
)
def test_generated_code_is_named_only_on_the_machine_that_recorded_it(
    recording: Recording,
    kernel: KernelImage,
    make_machine: Callable[[bytes, str], System],
    generated: Path,
    notes: bytes,
    *,
    is_here: bool,
) -> None:
    heard: list[str] = []
    machine = make_machine(notes, kernel.kallsyms())
    of_file = symbols_for_file(recording, None, heard.append, machine).of_file
    found = of_file(MappedFile(str(generated), None))
    assert (found is not None) == is_here
    if found is not None:
        # Names may have blanks, and the last function of an address counts.
        assert found.names == ("hot /app/x.js:12", "cold")
        assert "another process with the same PID" in heard[-1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_generated_code_that_another_user_lists_is_not_used(
    recording: Recording,
    kernel: KernelImage,
    make_machine: Callable[[bytes, str], System],
    generated: Path,
) -> None:
    os.chown(generated, 12345, -1)
    heard: list[str] = []
    machine = make_machine(NOTES, kernel.kallsyms())
    of_file = symbols_for_file(recording, None, heard.append, machine).of_file
    assert of_file(MappedFile(str(generated), None)) is None
    assert heard == [
        f"{generated}: not used, because the file belongs to another user; copy the file as root"
    ]


def test_a_given_table_that_cannot_be_moved_is_noted(
    kernel: KernelImage, recording: Recording, tmp_path: Path
) -> None:
    path = tmp_path / "System.map"
    path.write_text(kernel.system_map())
    heard: list[str] = []
    symbols = symbols_for_file(replace(recording, kernel=None), path, heard.append)
    assert symbols.kernel is not None
    (note,) = heard
    assert note == (
        f"perf.data does not contain the kernel's address, so addresses of {path} are used "
        "unchanged; names are wrong if KASLR moved the kernel"
    )


def test_a_recording_of_a_program_alone_says_nothing_of_the_kernel(
    kernel: KernelImage, make_machine: Callable[[bytes, str], System]
) -> None:
    other = make_machine(NOTES.replace(BUILD_ID, bytes(20)), kernel.kallsyms())
    heard: dict[str, list[str]] = {"user": [], "schedule": []}
    for function, notes in heard.items():
        data = write_perf_data(profile(kernel, {(function, 0): 4}, chains=False))
        symbols_for_file(read_perf_data(data, "perf.data"), None, notes.append, other)
    assert heard["user"] == []
    assert heard["schedule"][0].startswith("kernel addresses stay unresolved")
