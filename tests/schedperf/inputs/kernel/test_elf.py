# SPDX-License-Identifier: GPL-2.0-or-later
"""vmlinux and modules: real ones that a compiler makes, and damaged ones."""

import io
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedperf.evidence.layout.sources import load_kernel
from schedperf.inputs.kernel.btf import Kind, parse_btf
from schedperf.inputs.kernel.elf import MOST_SECTIONS, ElfKernel, encode_btf, read_elf
from schedperf.model.errors import InputError

# What makes a kernel's image a kernel's image for us: sections and the marks around them.
SOURCE = """
#define PERCPU(part) __attribute__((section(".data..percpu" part)))
long runqueues PERCPU("") = 1;
static int sd_llc_id PERCPU("") = 2;
int sd_llc_size PERCPU("") = 3;
long nohz[4] = {1};
static int sched_clock_running = 1;
__attribute__((weak)) int arch_asym = 1;
char root_task_group[64];
int *_start(void) { return &sd_llc_id + sched_clock_running; }
"""
SCRIPT = """
SECTIONS {
  . = BASE;
  .data..percpu : { __per_cpu_start = .; *(.data..percpu) __per_cpu_end = .; }
  . = 0x400000;
  .text : { *(.text) }
  .notes : { *(.note.gnu.build-id) }
  . = 0x600000;
  .data : { _sdata = .; *(.data) _edata = .; }
  .bss : { __bss_start = .; *(.bss) __bss_stop = .; }
}
"""


def assert_one_line(message: str) -> None:
    assert message
    assert "\n" not in message


def read(data: bytes) -> ElfKernel:
    return read_elf(io.BytesIO(data), "vmlinux")


def link_kernel(folder: Path, *options: str, base: int = 0x800000, script: str = SCRIPT) -> bytes:
    """Compile and link (``-c``: compile only) a file like vmlinux; skip without a compiler."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed; apt-get install gcc")
    (folder / "k.c").write_text(SOURCE)
    (folder / "k.ld").write_text(script.replace("BASE", hex(base)))
    command = ["gcc", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-Wl,--build-id=0xc0ffee"]
    linking = ["-c"] if "-c" in options else ["-Wl,-T,k.ld", "-Wl,-z,norelro"]
    more = [option for option in options if option != "-c"]
    if "-c" in options:
        command = ["gcc"]
    subprocess.run(
        [*command, *linking, *more, "k.c", "-o", "out"], cwd=folder, check=True,
        capture_output=True,
    )  # fmt: skip
    return (folder / "out").read_bytes()


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    """Compile and link: ``build(base=0)``; skip where there is no compiler."""
    return partial(link_kernel, tmp_path_factory.mktemp("elf"))


@pytest.mark.parametrize("base", [0, 0x800000])
def test_variables_of_both_eras_have_offsets_and_sizes(
    build: Callable[..., bytes], base: int
) -> None:
    elf = read(build(base=base))
    assert elf.percpu is not None
    found = {one.name: (one.offset, one.size, one.letter) for one in elf.percpu.symbols}
    assert found == {
        "runqueues": (0, 8, "D"),
        "sd_llc_id": (8, 4, "d"),
        "sd_llc_size": (12, 4, "D"),
    }
    assert elf.percpu.size == 16


def test_globals_of_data_and_bss_are_found(build: Callable[..., bytes]) -> None:
    elf = read(build())
    assert elf.global_variables is not None
    found = {one.name: (one.size, one.letter) for one in elf.global_variables.symbols}
    assert found["nohz"] == (32, "D")
    assert found["sched_clock_running"] == (4, "d")
    assert found["arch_asym"] == (4, "V")
    assert found["root_task_group"] == (64, "B")
    assert not {"_start", "_edata", "runqueues"} & found.keys()


def test_the_machine_and_the_build_id_are_read(build: Callable[..., bytes]) -> None:
    elf = read(build())
    assert elf.machine is not None
    assert (elf.is_module, elf.is_big_endian, elf.has_dwarf) == (False, False, False)
    assert elf.build_id == "c0ffee"
    assert read(build("-g")).has_dwarf


def test_a_module_has_per_cpu_variables_and_no_places_of_globals(
    build: Callable[..., bytes],
) -> None:
    module = read(build("-c"))
    assert module.is_module
    assert module.percpu is not None
    assert {one.name for one in module.percpu.symbols} >= {"runqueues", "sd_llc_id"}
    assert module.global_variables is None
    assert "until the module is loaded" in module.problems["globals"]


def test_a_stripped_file_says_so(build: Callable[..., bytes]) -> None:
    elf = read(build("-s"))
    assert (elf.percpu, elf.global_variables) == (None, None)
    assert elf.problems["percpu"] == "vmlinux: no symbols (stripped)"


def test_a_file_without_variables_says_so(build: Callable[..., bytes], tmp_path: Path) -> None:
    assert build()
    (tmp_path / "empty.c").write_text("")
    subprocess.run(["gcc", "-c", "empty.c", "-o", "empty.o"], cwd=tmp_path, check=True)
    elf = read((tmp_path / "empty.o").read_bytes())
    assert elf.percpu is None
    assert elf.problems["percpu"] == "vmlinux: no variable symbols"
    with pytest.raises(InputError, match="empty.o: no variable symbols"):
        load_kernel(tmp_path / "empty.o")


def test_a_kernel_that_is_not_smp_says_so(build: Callable[..., bytes]) -> None:
    script = SCRIPT.replace("*(.data..percpu)", "").replace("*(.data)", "*(.data) *(.data..percpu)")
    elf = read(build(script=script))
    assert elf.percpu is None
    assert elf.problems["percpu"] == "vmlinux: no per-CPU section (the kernel is not SMP)"
    assert elf.global_variables is not None
    assert "runqueues" in {one.name for one in elf.global_variables.symbols}


def test_the_btf_of_both_kinds_is_found(
    build: Callable[..., bytes], make_btf: Callable[..., bytes], tmp_path: Path
) -> None:
    (tmp_path / "vmlinux").write_bytes(build())
    (tmp_path / "btf").write_bytes(make_btf([]))
    added = [f"--add-section={name}=btf" for name in (".BTF", ".BTF.base")]
    subprocess.run(["objcopy", *added, "vmlinux"], cwd=tmp_path, check=True)
    elf = read((tmp_path / "vmlinux").read_bytes())
    assert elf.btf == elf.btf_base == make_btf([])


def header(*, order: str = "<", **fields: int) -> bytes:
    """Write the header of an ELF file of a 64-bit s390 machine, or of what is named."""
    known = {"type": 2, "machine": 22, "shoff": 0, "shentsize": 64, "shnum": 0, "shstrndx": 0}
    known |= fields
    ident = b"\x7fELF" + bytes([2, 1 if order == "<" else 2, 1]) + bytes(9)
    return ident + struct.pack(
        order + "HHIQQQIHHHHHH", known["type"], known["machine"], 1, 0, 0, known["shoff"], 0,
        64, 0, 0, known["shentsize"], known["shnum"], known["shstrndx"],
    )  # fmt: skip


def test_big_endian_files_are_read() -> None:
    elf = read(header(order=">"))
    assert (elf.machine, elf.is_big_endian, elf.pointer_bytes) == ("s390x", True, 8)
    assert read(header(machine=21)).machine == "ppc64le"
    assert read(header(machine=21, order=">")).machine == "ppc64"
    assert read(header(machine=183)).machine == "arm64"
    assert read(header(machine=9999)).machine is None


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "invalid ELF file"),
        (b"MZ" * 50, "invalid ELF file"),
        (b"\x7fELF", "invalid ELF headers"),
        (header()[:40], "invalid ELF headers"),
        (b"\x7fELF\x09\x09" + bytes(58), "invalid ELF headers"),
        (header(shoff=64, shnum=60_000) + bytes(64), "60000 sections"),
        (header(shoff=1 << 60, shnum=3), "3 sections|invalid ELF headers"),
        (header(shoff=64, shnum=1, shstrndx=9) + bytes(64), "invalid ELF headers"),
        # A section count that stands in the first section, as for more than 65,280.
        (
            header(shoff=64) + struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1 << 50, 0, 0, 0, 0),
            "sections .expected at most",
        ),
    ],
)
def test_what_is_no_sound_file_gets_one_clear_line(data: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=f"^vmlinux: .*({problem})") as caught:
        read(data)
    assert "\n" not in str(caught.value)


def test_more_sections_than_any_kernel_has_are_refused() -> None:
    count = MOST_SECTIONS + 1
    with pytest.raises(InputError, match=f"{count} sections"):
        read(header(shoff=64, shnum=count) + bytes(64 * count))


@pytest.fixture(scope="module")
def sound(build: Callable[..., bytes]) -> bytes:
    """Return a sound file, compiled once."""
    return build()


@pytest.mark.property
@given(cut=st.integers(0, 20_000), flips=st.lists(st.integers(0, 160_000), max_size=6))
@example(cut=20_000, flips=[])
def test_truncation_and_flipped_bits_give_one_line_or_a_kernel(
    sound: bytes, cut: int, flips: list[int]
) -> None:
    damaged = bytearray(sound[:cut])
    for bit in flips:
        if bit // 8 < len(damaged):
            damaged[bit // 8] ^= 1 << bit % 8
    try:
        elf = read(bytes(damaged))
    except InputError as error:
        assert_one_line(str(error))
        return
    if elf.percpu is not None:
        assert all(one.offset < elf.percpu.size for one in elf.percpu.symbols)


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
    with pytest.raises(InputError, match="^vmlinux: pahole wrote 0 bytes") as caught:
        encode_btf(compiled, "vmlinux", limit_bytes=LIMIT_BYTES)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_more_than_the_limit_is_refused(compiled: Path) -> None:
    with pytest.raises(InputError, match="^vmlinux: pahole wrote [0-9]+ bytes of BTF"):
        encode_btf(compiled, "vmlinux", limit_bytes=10)


def test_without_pahole_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    with pytest.raises(InputError, match="^vmlinux: .* pahole is not installed; run `apt-get"):
        encode_btf(tmp_path / "vmlinux", "vmlinux", limit_bytes=LIMIT_BYTES)
