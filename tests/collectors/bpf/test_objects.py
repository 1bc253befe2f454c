# SPDX-License-Identifier: GPL-2.0-or-later
"""BPF objects: packed, kept or compiled, and always the same."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import schedperf_collectors
from schedperf_collectors.bpf import objects as _bpf_object
from schedperf_collectors.bpf.objects import (
    FLAGS,
    compile_all,
    compile_object,
    compile_sources,
    list_sources,
    read_object,
)
from schedperf_collectors.contract import Unavailable

PACKAGE = Path(schedperf_collectors.__file__).parent
PROGRAMS = PACKAGE / "bpf"
VMLINUX_BTF = Path("/sys/kernel/btf/vmlinux")
ELF_MAGIC = b"\x7fELF"

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang"),
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory; the directory itself is made when something is kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "schedperf" / "bpf"


@pytest.fixture
def package_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package's sources that objects are read from."""
    # A module of one name is imported once.
    folder = tmp_path / f"programs_{os.urandom(8).hex()}"
    folder.mkdir()
    for name in list_sources():
        shutil.copy(PROGRAMS / name, folder)
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(_bpf_object, "PACKAGE", folder.name)
    return folder


def test_every_program_compiles_to_an_object(cache: Path) -> None:
    objects = compile_all()
    names = (
        "account", "placement", "balance", "timers", "pelt", "run_queues", "wakeup_latency",
        "locks", "off_cpu",
    )  # fmt: skip
    assert set(objects) == {f"{name}.bpf.o" for name in names}
    assert all(data.startswith(ELF_MAGIC) for data in objects.values())
    assert len(list(cache.iterdir())) == len(objects)


def test_what_was_compiled_is_kept_and_read_again(cache: Path) -> None:
    first = compile_object("placement")
    [kept] = cache.iterdir()
    assert kept.read_bytes() == first
    kept.write_bytes(b"as it was kept")
    assert compile_object("placement") == b"as it was kept"


def test_what_another_user_put_there_is_not_loaded(cache: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a file away")
    compiled = compile_object("placement")
    [kept] = cache.iterdir()
    kept.write_bytes(b"from someone else")
    os.chown(kept, 65534, 65534)
    assert compile_object("placement") == compiled


def test_an_empty_file_in_the_cache_is_compiled_again(cache: Path) -> None:
    compiled = compile_object("placement")
    [kept] = cache.iterdir()
    kept.write_bytes(b"")
    assert compile_object("placement") == compiled


def test_without_a_place_to_keep_it_is_compiled_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compile_object("placement") == compile_object("placement")


def test_another_source_is_another_object(cache: Path, package_with: Path) -> None:
    compile_object("placement")
    header = package_with / "placement.h"
    header.write_text(header.read_text() + "\nstatic const int unused = 1;\n")
    compile_object("placement")
    assert len(list(cache.iterdir())) == 2


def test_equal_sources_make_equal_objects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    objects = []
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        objects.append(compile_object("placement"))
    assert objects[0] == objects[1]


def test_a_packed_object_needs_no_clang(
    package_with: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    packed = compile_object("placement") + b"packed"
    (package_with / "placement.bpf.o").write_bytes(packed)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert read_object("placement") == packed
    assert cache.exists()


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", b"\x7fELF\x02\x09" + bytes(58)])
def test_an_object_for_other_machines_is_compiled_here(
    package_with: Path, cache: Path, damage: bytes
) -> None:
    (package_with / "placement.bpf.o").write_bytes(damage)
    assert read_object("placement").startswith(ELF_MAGIC)
    assert cache.exists()


def test_without_clang_the_reason_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Unavailable, match="and clang is not installed"):
        read_object("placement")


def test_what_clang_refuses_is_said_in_one_line() -> None:
    with pytest.raises(Unavailable) as refused:
        compile_sources("bad", {"bad.bpf.c": b"int x = ;\n"})
    assert refused.value.reason == "clang: exit status 1: bad.bpf.c:1:9: error: expected expression"


@pytest.mark.parametrize(
    "name", ["account", "placement", "run_queues", "wakeup_latency", "locks", "off_cpu"]
)
def test_the_types_are_those_of_the_running_kernel(tmp_path: Path, name: str) -> None:
    if not VMLINUX_BTF.exists() or shutil.which("bpftool") is None:
        pytest.skip("needs bpftool and a kernel with BTF")
    command = ["bpftool", "btf", "dump", "file", str(VMLINUX_BTF), "format", "c"]
    dumped = subprocess.run(command, capture_output=True, check=True)
    (tmp_path / "vmlinux.h").write_bytes(dumped.stdout)
    flags = [*FLAGS, "-DUSE_VMLINUX_H", "-Wall", "-Werror", f"-I{tmp_path}"]
    source = str(PROGRAMS / f"{name}.bpf.c")
    command = ["clang", *flags, "-c", source, "-o", str(tmp_path / f"{name}.bpf.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_clang_has_nothing_to_warn_of(tmp_path: Path) -> None:
    for source in PROGRAMS.glob("*.bpf.c"):
        command = [
            "clang",
            *FLAGS,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-c",
            str(source),
            "-o",
            "/dev/null",
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_sources_are_found_inside_a_zip(tmp_path: Path, cache: Path) -> None:
    program = tmp_path / "program.pyz"
    code = (
        f"import sys; sys.path.insert(0, {str(program)!r})\n"
        "from schedperf_collectors.bpf.objects import read_object\n"
        "print(len(read_object('placement')))\n"
    )
    shutil.make_archive(str(tmp_path / "program"), "zip", PACKAGE.parent, PACKAGE.name)
    (tmp_path / "program.zip").rename(program)
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == f"{len(compile_object('placement'))}\n", done.stderr
    assert len(list(cache.iterdir())) == 1
