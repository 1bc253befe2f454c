# SPDX-License-Identifier: GPL-2.0-or-later
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.perf_data import Recording, read_perf_data
from schedperf.inputs.perf_data.recording import MappedFile
from schedperf.inputs.side import name_sides
from schedperf.inputs.symbols.boot_symbols import BootSymbols
from schedperf_collectors.contract import VDSO
from schedperf_collectors.symbols import read_file, symbols_of
from schedperf_generators.perf_data import write_perf_data
from schedperf_generators.profiles import profile, profiled_kernel

KERNEL = profiled_kernel()
FILES = {"boots/0/layout/kallsyms": KERNEL.kallsyms()}


@pytest.fixture
def recording() -> Recording:
    return read_perf_data(write_perf_data(profile(KERNEL, {("schedule", 0): 2})), "perf.data")


@pytest.fixture
def open_boot(
    make_bundle: Callable[..., Path], tmp_path: Path
) -> Callable[..., tuple[BootSymbols, list[str]]]:
    """Make a bundle of some files; returns its boot's symbols, and what they note."""

    def make(
        files: dict[str, Any],
        build_id: str | None = bytes(range(20)).hex(),
        name: str = "b.tar",
    ) -> tuple[BootSymbols, list[str]]:
        host = {"kernel": {"build_id": build_id}}
        bundle = open_bundle(
            make_bundle(tmp_path / name, host=host, runs=[{"time_s": 1}], files=files)
        )
        notes: list[str] = []
        [side] = name_sides([bundle])
        return BootSymbols(side, bundle.boots[0], notes.append), notes

    return make


def test_the_kernels_symbols_are_those_of_the_boot(
    open_boot: Callable[..., tuple[BootSymbols, list[str]]], recording: Recording
) -> None:
    for source, text in (("kallsyms", KERNEL.kallsyms()), ("System.map", KERNEL.system_map())):
        boot, notes = open_boot({f"boots/0/layout/{source}": text})

        symbols = boot.of(recording)

        assert symbols.kernel is not None
        found = symbols.kernel.find(KERNEL.address("schedule", 8))
        assert found is not None
        assert found.name == "schedule"
        assert notes == []
        assert boot.of(recording).kernel is symbols.kernel


def test_user_files_are_found_by_their_build_id(
    open_boot: Callable[..., tuple[BootSymbols, list[str]]], recording: Recording
) -> None:
    build_id = read_file(VDSO).build_id or ""
    stored = {
        f"boots/0/symbols/{build_id}.sym": symbols_of(build_id, VDSO),
        "boots/0/symbols/00ff.sym": symbols_of("00ff", "/no/such/file"),
    }
    boot, notes = open_boot({**FILES, **stored})
    of_file = boot.of(recording).of_file

    found = of_file(MappedFile(VDSO, build_id))
    assert found is not None
    assert found.find(np.array([0], np.uint64)).tolist() == [-1]
    assert of_file(MappedFile("/other/name/of/it", build_id)) is found
    assert of_file(MappedFile(VDSO, None)) is None
    assert of_file(MappedFile("/not/stored", "11" * 20)) is None
    assert notes == []

    for _ in range(2):
        assert of_file(MappedFile("/no/such/file", "00ff")) is None
    assert notes == ["boot 0, symbols of /no/such/file: no such file or directory"]


def test_a_table_of_millions_of_functions_in_a_small_bundle_is_refused(
    open_boot: Callable[..., tuple[BootSymbols, list[str]]], recording: Recording
) -> None:
    count = 1_500_000
    head = f'{{"format": "schedperf-symbols/1", "functions": {count}}}\n'
    lines = "".join(f"{start:x} 1 f\n" for start in range(count))
    boot, notes = open_boot({**FILES, "boots/0/symbols/00ff.sym": head + lines}, name="b.tar.xz")
    assert boot.of(recording).of_file(MappedFile("/bin/x", "00ff")) is None
    (note,) = notes
    assert "00ff.sym: too many lines in the texts of the collectors" in note


def test_what_does_not_fit_is_noted(
    open_boot: Callable[..., tuple[BootSymbols, list[str]]], recording: Recording
) -> None:
    boot, notes = open_boot({})
    assert boot.of(recording).kernel is None
    assert notes == [
        (
            "boot 0: kernel addresses stay unresolved without a usable symbol table; record with "
            "the collector `layout`, as root"
        )
    ]

    moved = profiled_kernel(slide=0x5000000)
    boot, notes = open_boot({"boots/0/layout/kallsyms": moved.kallsyms()})
    assert boot.of(recording).kernel is not None
    (note,) = notes
    assert note == (
        "boot 0, kallsyms: kernel addresses differ from those in perf.data, so the file is from "
        "another boot; addresses in modules stay unresolved"
    )

    boot, notes = open_boot({"boots/0/layout/kallsyms": "no symbols\n"})
    assert boot.of(recording).kernel is None
    assert notes[0].startswith("boot 0, kallsyms:1: invalid line")


@pytest.mark.parametrize(
    ("recorded", "booted", "said"),
    [
        (
            bytes(20),
            bytes(range(20)).hex(),
            f"is {'00' * 20}, but that of the bundle's kernel is 000102030405",
        ),
        (bytes(20), None, f"is {'00' * 20}, but that of the bundle's kernel is unknown"),
        (None, bytes(range(20)).hex(), "perf.data does not record the kernel's build id (perf rec"),
        (None, None, "perf.data does not record the kernel's build id (perf record -B or -z, or "),
    ],
)
def test_only_an_equal_build_id_names_kernel_addresses(
    open_boot: Callable[..., tuple[BootSymbols, list[str]]],
    recording: Recording,
    recorded: bytes | None,
    booted: str | None,
    said: str,
) -> None:
    # The text address is the same, as of all kernels without KASLR.
    build_ids = {} if recorded is None else {"[kernel.kallsyms]": recorded.hex()}
    other = replace(recording, features=replace(recording.features, build_ids=build_ids))
    boot, notes = open_boot(FILES, booted)

    assert boot.of(other).kernel is None
    assert len(notes) == 1
    assert notes[0].startswith("boot 0: kernel addresses stay unresolved, because ")
    assert said in notes[0]
    # Other runs of the boot are named.
    if booted:
        assert boot.of(recording).kernel is not None
