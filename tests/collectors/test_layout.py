# SPDX-License-Identifier: GPL-2.0-or-later
"""What is kept belongs to the running kernel, and what is absent says why."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.layout import cacheline, capture_layout, layout
from schedperf_collectors.machine.kernel_files import build_id
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import Capture
from tests.shared_data import shared_kernel

RELEASE = {"proc/sys/kernel/osrelease": "6.1.0-test\n"}
LINE_SIZE = "sys/devices/system/cpu/cpu{}/cache/index{}/coherency_line_size"

MakeSystem = Callable[..., System]


def symbols(slide: int, *names: str) -> str:
    return "".join(
        f"{0xFFFFFFFF81000000 + slide + 64 * index:016x} T {name}\n"
        for index, name in enumerate(names)
    )


FUNCTIONS = [f"function_{number}" for number in range(100)]
SLIDE = 0x12000000


def kept(system: System, capture: Capture) -> tuple[Any, set[str]]:
    """Capture and return layout.json and the names of the files beside it."""
    capture_layout(system, capture)
    names = {path.name for path in capture.folder.iterdir()} - {"layout.json"}
    return json.loads((capture.folder / "layout.json").read_text()), names


def test_on_this_machine_each_file_is_kept_or_has_a_reason(capture: Capture) -> None:
    layout(capture)
    facts = json.loads((capture.folder / "layout.json").read_text())
    names = {path.name for path in capture.folder.iterdir()} - {"layout.json"}
    everything = {"System.map", "kallsyms", "btf", "config", "percpu.txt"}
    assert names | {*facts["notes"]} == everything
    assert not names & {*facts["notes"]}
    if "btf" in names:
        assert (capture.folder / "btf").read_bytes() == Path("/sys/kernel/btf/vmlinux").read_bytes()
    if "config" in names:
        assert "Kernel Configuration" in (capture.folder / "config").read_text()


def test_a_system_map_at_a_constant_distance_is_the_running_kernels(
    make_system: MakeSystem, capture: Capture
) -> None:
    module = "ffffffffc0000000 T module_function\t[module]\n"
    system_map = symbols(0, *FUNCTIONS, "__ignored_by_kallsyms")
    system = make_system(
        {
            **RELEASE,
            "proc/kallsyms": symbols(SLIDE, *FUNCTIONS) + module,
            "boot/System.map-6.1.0-test": system_map,
        }
    )
    facts, names = kept(system, capture)
    assert names == {"System.map", "kallsyms"}
    assert (capture.folder / "System.map").read_text() == system_map
    assert "System.map" not in facts["notes"]


@pytest.mark.parametrize(
    ("system_map", "reason"),
    [
        (symbols(0, *FUNCTIONS[:50], "new", *FUNCTIONS[50:]), "at 2 different offsets"),
        (symbols(0, *(f"other_{number}" for number in range(100))), "0 of 100 functions"),
        ("", "0 of 0 functions"),
        ("\0\xff" * 1000, "0 of 0 functions"),
    ],
)
def test_another_kernels_system_map_is_not_kept(
    make_system: MakeSystem, capture: Capture, system_map: str, reason: str
) -> None:
    system = make_system(
        {
            **RELEASE,
            "proc/kallsyms": symbols(SLIDE, *FUNCTIONS),
            "boot/System.map-6.1.0-test": system_map,
        }
    )
    facts, names = kept(system, capture)
    assert names == {"kallsyms"}
    assert "does not match the running kernel" in facts["notes"]["System.map"]
    assert reason in facts["notes"]["System.map"]


def test_a_folder_of_kernel_files_is_looked_at_first(
    make_system: MakeSystem, capture: Capture, tmp_path: Path
) -> None:
    (tmp_path / "System.map").write_text(symbols(0, *FUNCTIONS))
    (tmp_path / ".config").write_text("CONFIG_X86_L1_CACHE_SHIFT=7\n")
    system = make_system(
        {
            **RELEASE,
            "proc/kallsyms": symbols(SLIDE, *FUNCTIONS),
            "boot/config-6.1.0-test": "CONFIG_X86_L1_CACHE_SHIFT=6\n",
        }
    )
    facts, names = kept(system, replace(capture, options={"kernel_files": str(tmp_path)}))
    assert names == {"System.map", "kallsyms", "config"}
    assert facts["cacheline"]["compile_time_bytes"] == 128


def test_the_running_kernels_own_configuration_wins(
    make_system: MakeSystem, capture: Capture, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("CONFIG_OTHER=y\n")
    running = gzip.compress(b"CONFIG_RUNNING=y\n", mtime=0)
    system = make_system({**RELEASE, "proc/config.gz": running})
    kept(system, replace(capture, options={"kernel_files": str(tmp_path)}))
    assert (capture.folder / "config").read_text() == "CONFIG_RUNNING=y\n"


def test_hidden_addresses_keep_no_symbols_and_no_system_map(
    make_system: MakeSystem, capture: Capture
) -> None:
    system = make_system(
        {
            **RELEASE,
            "proc/kallsyms": "0000000000000000 T _text\n0000000000000000 T _stext\n",
            "boot/System.map-6.1.0-test": symbols(0, *FUNCTIONS),
        }
    )
    facts, names = kept(system, capture)
    assert names == set()
    assert "kernel.kptr_restrict" in facts["notes"]["kallsyms"]
    assert facts["notes"]["System.map"].startswith(
        "/boot/System.map-6.1.0-test: cannot be checked, because "
    )


def test_the_percpu_lines_of_the_log_are_kept(make_system: MakeSystem, capture: Capture) -> None:
    lines = [
        "setup_percpu: NR_CPUS:256 nr_cpumask_bits:2 nr_cpu_ids:2 nr_node_ids:1",
        "percpu: Embedded 53 pages/cpu s185496 r0 d31592 u1048576",
        "pcpu-alloc: s185496 r0 d31592 u1048576 alloc=1*2097152",
        "pcpu-alloc: [0] 0 1 ",
    ]
    log = "".join(f"6,{number},0,-;{line}\n" for number, line in enumerate(["quiet", *lines]))
    kept(make_system({"dev/kmsg": log}), capture)
    assert (capture.folder / "percpu.txt").read_text().splitlines() == lines


def test_a_log_that_was_overwritten_says_so(make_system: MakeSystem, capture: Capture) -> None:
    facts, _ = kept(make_system({"dev/kmsg": "6,9000,0,-;usb 1-1: new device\n"}), capture)
    assert "may have been overwritten" in facts["notes"]["percpu.txt"]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "s390x"])
def test_an_empty_machine_leaves_reasons_only(
    make_system: MakeSystem, capture: Capture, machine: str
) -> None:
    facts, names = kept(make_system({}, machine), capture)
    assert names == set()
    assert len(facts["notes"]) == 5


@pytest.mark.parametrize("packed", [b"", b"\x1f\x8b", gzip.compress(b"CONFIG_A=y\n", mtime=0)[:-9]])
def test_a_damaged_configuration_never_raises(
    make_system: MakeSystem, capture: Capture, packed: bytes
) -> None:
    kept(make_system({**RELEASE, "proc/config.gz": packed}), capture)


@pytest.mark.parametrize(
    ("machine", "config", "expected", "source"),
    [
        ("x86_64", "CONFIG_X86_INTERNODE_CACHE_SHIFT=12\nCONFIG_X86_L1_CACHE_SHIFT=6\n", 64,
         "CONFIG_X86_L1_CACHE_SHIFT=6"),
        ("loongarch64", "CONFIG_L1_CACHE_SHIFT=6\n", 64, "CONFIG_L1_CACHE_SHIFT=6"),
        ("aarch64", "CONFIG_ARM64=y\n", 64, "arch constant of aarch64"),
        ("ppc64le", "", 128, "arch constant of ppc64le"),
        ("s390x", "", 256, "arch constant of s390x"),
    ],
)  # fmt: skip
def test_the_compile_time_line_names_its_source(
    make_system: MakeSystem, machine: str, config: str, expected: int, source: str
) -> None:
    found: Any = cacheline(make_system({}, machine), config)
    assert found["compile_time_bytes"] == expected
    assert found["sources"]["compile_time"] == source


def test_an_unknown_compile_time_line_is_null(make_system: MakeSystem) -> None:
    found: Any = cacheline(make_system({}, "x86_64"), "")
    assert found["compile_time_bytes"] is None
    assert "L1_CACHE_SHIFT" in found["sources"]["compile_time"]


def test_the_hardware_line_is_the_largest_of_all_caches(make_system: MakeSystem) -> None:
    sizes = {(0, 0): "64\n", (0, 3): "128\n", (1, 0): "64\n", (1, 3): "128\n"}
    files = {LINE_SIZE.format(*place): size for place, size in sizes.items()}
    found: Any = cacheline(make_system(files, "aarch64"), "")
    assert found["hardware_bytes"] == 128
    assert found["sources"]["hardware"] == "/" + LINE_SIZE.format(0, 3)


def test_a_kernel_booted_elsewhere_is_not_taken_for_the_running_one(capture: Capture) -> None:
    folder = shared_kernel("tip")
    layout(replace(capture, options={"kernel_files": str(folder)}))
    facts = json.loads((capture.folder / "layout.json").read_text())
    assert f"{folder}/System.map: " in facts["notes"]["System.map"]


def test_neighbouring_kernels_are_told_apart(make_system: MakeSystem, capture: Capture) -> None:
    tip, cluster = (shared_kernel(name) / "System.map" for name in ("tip", "cluster"))
    system = make_system(
        {
            **RELEASE,
            "proc/kallsyms": tip.read_bytes(),
            "boot/System.map-6.1.0-test": cluster.read_bytes(),
            "lib/modules/6.1.0-test/System.map": tip.read_bytes(),
        }
    )
    kept(system, capture)
    assert (capture.folder / "System.map").read_bytes() == tip.read_bytes()


NOTE = b"\x04\0\0\0\x02\0\0\0\x05\0\0\0Xen\0\x01\x02\0\0"
BUILD_ID = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0" + bytes(range(20))


def test_the_build_id_is_found_among_other_notes(make_system: MakeSystem) -> None:
    assert build_id(make_system({"sys/kernel/notes": NOTE + BUILD_ID})) == bytes(range(20)).hex()


@pytest.mark.parametrize("notes", [b"", NOTE, BUILD_ID[:-1], b"\xff" * 64, b"\x04"])
def test_notes_without_a_whole_build_id_are_refused(make_system: MakeSystem, notes: bytes) -> None:
    with pytest.raises(Unavailable, match="no build id"):
        build_id(make_system({"sys/kernel/notes": notes}))
