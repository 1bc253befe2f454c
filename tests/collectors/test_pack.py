# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder as one file."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import schedperf_collectors
from schedperf.cli import main
from schedperf.commands import _zipapp
from schedperf.commands._zipapp import build_zipapp
from schedperf.inputs.bundle.open import open_bundle
from schedperf_collectors.bpf.objects import compile_all

pytestmark = pytest.mark.system

EMPTY_ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/"}


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "collect.pyz"
    assert main(["pack", str(path)]) == 0
    return path


def python_of(version: str) -> str:
    """Return an interpreter of this version, or skip."""
    for folder in (Path.home() / ".pyenv/versions").glob(f"{version}.*"):
        if (folder / "bin" / "python").exists():
            return str(folder / "bin" / "python")
    found = shutil.which(f"python{version}")
    if found is None:
        pytest.skip(f"no Python {version} here")
    return found


def test_it_is_executable_and_records_without_anything_else(packed: Path, tmp_path: Path) -> None:
    command = [str(packed), "record", "-o", "b.tar", "-n", "1", "--with", "none", "--", "true"]
    done = subprocess.run(command, cwd=tmp_path, env=EMPTY_ENVIRONMENT, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert len(open_bundle(tmp_path / "b.tar").runs) == 2


def test_it_says_its_version_and_help(packed: Path) -> None:
    def out(*arguments: str) -> str:
        return subprocess.run(
            [str(packed), *arguments],
            env=EMPTY_ENVIRONMENT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert out("--version") == f"schedperf {schedperf_collectors.__version__}\n"
    for name in ("record", "ab", "doctor"):
        assert name in out("--help")
        assert f"collect.pyz {name}" in out(name, "--help")


def test_a_slip_is_one_clear_line(packed: Path) -> None:
    for arguments in ([], ["reckord"], ["record"], ["record", "--no-such-option"]):
        done = subprocess.run([str(packed), *arguments], capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr.startswith("schedperf: error: ")
        assert done.stderr.count("\n") == 1


def test_equal_sources_make_equal_files(packed: Path, tmp_path: Path) -> None:
    # Bytecode comes from a cache in one process, and is made in the other.
    subprocess.run(
        [sys.executable, "-m", "schedperf", "pack", str(tmp_path / "again.pyz")],
        env={**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONHASHSEED": "1"},
        capture_output=True,
        check=True,
    )
    assert (tmp_path / "again.pyz").read_bytes() == packed.read_bytes()
    with zipfile.ZipFile(packed) as archive:
        of_this_machine = str(Path(schedperf_collectors.__file__).parent).encode()
        assert [name for name in archive.namelist() if of_this_machine in archive.read(name)] == []


def test_it_is_kept_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = tmp_path / "schedperf" / "recorder"
    first = build_zipapp()
    [kept] = cache.iterdir()
    assert kept.read_bytes() == first
    kept.write_bytes(b"as it was kept")
    assert build_zipapp() == b"as it was kept"


def test_another_python_or_source_makes_another_file_and_few_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = tmp_path / "schedperf" / "recorder"
    cache.mkdir(parents=True)
    for number in range(9):
        path = cache / f"old-{number}.pyz"
        path.touch()
        os.utime(path, (number, number))
    before = build_zipapp()
    monkeypatch.setattr(sys, "version", "3.11.0 another build")
    assert build_zipapp() == before
    names = sorted(path.name for path in cache.iterdir())
    assert names[2:] == ["old-7.pyz", "old-8.pyz"]
    assert [(cache / name).read_bytes() for name in names[:2]] == [before, before]
    module = tmp_path / "module.py"
    module.write_text("packs in another way\n")
    monkeypatch.setattr(_zipapp, "__file__", str(module))
    build_zipapp()
    assert len({*cache.iterdir()} - {cache / name for name in names}) == 1


def test_it_starts_with_bytecode_and_no_source_is_compiled(packed: Path) -> None:
    program = (
        "import runpy, sys; sys.argv = ['recorder', '--help']\n"
        "sys.addaudithook(lambda name, given: name == 'compile' and print('compiled', given[1]))\n"
        f"runpy.run_path({str(packed)!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    compiled = re.findall(r"^compiled (.*)", done.stdout, re.MULTILINE)
    # dataclasses and namedtuples compile texts, which have no file.
    assert [name for name in compiled if "schedperf_collectors" in name] == []
    assert "record" in done.stdout


def test_it_holds_the_package_and_nothing_else(packed: Path) -> None:
    package = Path(schedperf_collectors.__file__).parent
    with zipfile.ZipFile(packed) as archive:
        names = set(archive.namelist())
    # Programs in C, their headers, what clang has made of those for libbpf, and shell scripts.
    files = {str(file.relative_to(package)) for file in package.rglob("*.[pchs]*")}
    sources = {name for name in files if name.endswith((".py", ".c", ".h", ".sh"))}
    compiled = {name.replace(".bpf.c", ".bpf.o") for name in files if name.endswith(".bpf.c")}
    wanted = sources | (compiled if shutil.which("clang") else set())
    wanted |= {f"{name}c" for name in sources if name.endswith(".py")}
    assert names == {"__main__.py", *(f"{package.name}/{name}" for name in wanted)}


def test_without_clang_it_says_so_in_one_line_and_works(tmp_path: Path) -> None:
    path = tmp_path / "collect.pyz"
    done = subprocess.run(
        [sys.executable, "-m", "schedperf", "pack", str(path)],
        env={"PATH": str(tmp_path), "HOME": "/"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    size, without = done.stderr.splitlines()
    assert "needs Python 3.9 or newer" in size
    assert "does not contain compiled BPF programs (" in without
    assert "clang is not installed); run `apt-get install clang` and pack again" in without
    command = [sys.executable, str(path), "--version"]
    said = subprocess.run(command, env=EMPTY_ENVIRONMENT, capture_output=True, text=True)
    assert said.stdout == f"schedperf {schedperf_collectors.__version__}\n"


def test_packed_programs_are_those_that_compile_here(packed: Path) -> None:
    if shutil.which("clang") is None:
        pytest.skip("needs clang")
    with zipfile.ZipFile(packed) as archive:
        for name, data in compile_all().items():
            assert archive.read(f"schedperf_collectors/bpf/{name}") == data


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8"])
def test_an_old_python_says_so_in_one_line(packed: Path, version: str) -> None:
    command = [python_of(version), str(packed), "doctor"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(f"schedperf: error: unsupported Python {version}.")
    assert done.stderr.endswith(" (expected 3.9 or newer); run the recorder with another Python\n")
    assert done.stderr.count("\n") == 1


def test_python_3_9_records(packed: Path, tmp_path: Path) -> None:
    command = [
        python_of("3.9"), str(packed), "ab", "-o", "s", "-n", "1", "--warmup", "0",
        "--new-setup", "true", "--", "sleep", "0.05",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    bundle = open_bundle(tmp_path / "s-new.tar")
    assert not [entry for entry in bundle.captures if entry.status == "failed"]


def test_a_place_that_cannot_be_written_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "no" / "collect.pyz"
    assert main(["pack", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"schedperf: error: {path}: cannot be written (no such file or directory); choose another "
        "path\n"
    )


def test_a_full_disk_leaves_the_older_file(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = small_disk / "collect.pyz"
    path.write_bytes(b"older")
    (small_disk / "filler").write_bytes(bytes((6 << 20) - (100 << 10)))
    assert main(["pack", str(path)]) == 2
    assert "collect.pyz: cannot be written (no space left on device)" in capsys.readouterr().err
    assert path.read_bytes() == b"older"
    assert sorted(item.name for item in small_disk.iterdir()) == ["collect.pyz", "filler"]
