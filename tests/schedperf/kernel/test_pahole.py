"""BTF that the installed pahole makes of DWARF."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from schedperf.kernel.btf import Kind, parse_btf
from schedperf.kernel.pahole import encode_btf
from schedperf.model.errors import InputError

pytestmark = pytest.mark.system

LIMIT_BYTES = 1 << 20


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """Compile a struct with debug information; skip where a tool is missing."""
    missing = [program for program in ("gcc", "pahole") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed; apt-get install gcc dwarves")
    (tmp_path / "k.c").write_text(
        "struct rq { int nr; long clock __attribute__((aligned(64))); } runqueues;\n"
    )
    subprocess.run(["gcc", "-g", "-c", "k.c", "-o", "-k.o"], cwd=tmp_path, check=True)
    return tmp_path / "-k.o"


def test_dwarf_becomes_btf_that_our_reader_reads(compiled: Path) -> None:
    btf = parse_btf(encode_btf(compiled, "vmlinux", limit_bytes=LIMIT_BYTES), "vmlinux")
    (rq,) = btf.find("rq", Kind.STRUCT)
    assert btf.size(rq) == 128
    assert [(one.name, one.bit_offset) for one in btf.members(rq)] == [("nr", 0), ("clock", 512)]


def test_a_path_that_looks_like_an_option_is_a_path(
    compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(compiled.parent)
    assert encode_btf(Path("-k.o"), "vmlinux", limit_bytes=LIMIT_BYTES)


def test_a_file_that_pahole_cannot_read_gets_one_line(compiled: Path) -> None:
    compiled.write_bytes(compiled.read_bytes()[:100])
    with pytest.raises(InputError, match="^vmlinux: pahole made 0 bytes") as caught:
        encode_btf(compiled, "vmlinux", limit_bytes=LIMIT_BYTES)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_more_than_the_limit_is_refused(compiled: Path) -> None:
    with pytest.raises(InputError, match="^vmlinux: pahole made [0-9]+ bytes of BTF"):
        encode_btf(compiled, "vmlinux", limit_bytes=10)


def test_without_pahole_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    with pytest.raises(InputError, match="^vmlinux: .* pahole is not installed; apt-get install"):
        encode_btf(tmp_path / "vmlinux", "vmlinux", limit_bytes=LIMIT_BYTES)
