# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels from whatever is at hand: files, directories, bundles, and what is none of these."""

import gzip
import lzma
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.evidence.layout.record import LineBytes
from schedperf.evidence.layout.sources import HOT_GROUP, SCHEDULER_STRUCTS, load_kernel, plain_name
from schedperf.model.errors import InputError
from tests.shared_data import shared

MAP = """\
0000000000000000 D __per_cpu_start
0000000000000008 d root_cpuacct_cpuusage
0000000000000010 d warned.12
0000000000000018 d warned.13
0000000000000020 d do_fork._alloc_tag_cntr
0000000000000038 D const_sd_llc_id
0000000000000038 D sd_llc_id
0000000000001000 D __per_cpu_end
ffffffff81000000 T __x64_sys_read
ffffffff82e00000 D _sdata
ffffffff82e00040 D nohz
ffffffff82e00080 d key.1
ffffffff82e00088 d key.2
ffffffff82e01000 D _edata
ffffffff84000000 B _end
"""
ROWS = [("root_cpuacct_cpuusage", 0x08, 8, 0), ("sd_llc_id", 0x38, 4, 1)]


@pytest.fixture
def folder(tmp_path: Path, make_btf: Callable[..., bytes]) -> Path:
    """Return a directory with the files of one kernel."""
    folder = tmp_path / "tip"
    folder.mkdir()
    (folder / "System.map").write_text(MAP)
    (folder / "btf").write_bytes(make_btf(ROWS))
    (folder / "config").write_text("CONFIG_X86_64=y\nCONFIG_X86_L1_CACHE_SHIFT=7\n")
    return folder


def test_names_of_the_symbol_table_and_sizes_and_types_of_btf_are_joined(folder: Path) -> None:
    kernel = load_kernel(folder, structs=["loop"])
    unit = kernel.units["percpu"]
    found = [(one.name, one.offset, one.size, one.type, one.aliases) for one in unit.entries]
    assert found == [
        ("root_cpuacct_cpuusage", 0x08, 8, "int", ()),
        ("warned", 0x10, None, None, ()),
        ("warned#2", 0x18, None, None, ()),
        ("sd_llc_id", 0x38, 4, "int", ("const_sd_llc_id",)),
    ]
    assert unit.sources == ("System.map", "BTF")
    assert unit.noise == {"allocation counters": 1}
    assert (kernel.label, kernel.machine) == ("tip", "x86_64")
    assert kernel.line_bytes == LineBytes(compile_time=128, hardware=None)
    assert "contains itself" in kernel.unknown["struct loop"]


def test_globals_leave_out_what_has_no_name_of_its_own(folder: Path) -> None:
    unit = load_kernel(folder).units["globals"]
    assert [(one.name, one.offset, one.size) for one in unit.entries] == [("nohz", 0x40, None)]
    assert unit.noise == {"static variables with a duplicate name": 2}


def test_a_symbol_table_alone_knows_no_sizes_and_no_structs(folder: Path) -> None:
    kernel = load_kernel(folder / "System.map", structs=["rq"], label="base")
    assert {one.size for one in kernel.units["percpu"].entries} == {None}
    assert kernel.units["percpu"].sources == ("System.map",)
    assert kernel.unknown == {"struct rq": "struct layouts need BTF or DWARF, not a symbol table"}
    assert (kernel.label, kernel.machine, kernel.pointer_bytes) == ("base", "x86_64", 8)
    assert kernel.is_big_endian is None
    assert kernel.line_bytes.compile_time == 64
    assert "the cache line size is not recorded; 64 bytes are assumed" in kernel.notes[0]


def test_btf_alone_says_how_much_it_does_not_describe(folder: Path) -> None:
    kernel = load_kernel(folder / "btf", structs=["no_such"])
    unit = kernel.units["percpu"]
    assert [(one.name, one.letter) for one in unit.entries] == [
        ("root_cpuacct_cpuusage", "d"),
        ("sd_llc_id", "D"),
    ]
    assert unit.notes[0].startswith("BTF describes 12 of 4096 bytes of the per-CPU section; ")
    assert "BTF has no addresses of global variables" in kernel.unknown["globals"]
    assert "unknown struct no_such" in kernel.unknown["struct no_such"]


def test_btf_of_another_build_gives_no_sizes(folder: Path, make_btf: Callable[..., bytes]) -> None:
    (folder / "btf").write_bytes(make_btf([(name, 0x400 + at, 8, 0) for name, at, _, _ in ROWS]))
    unit = load_kernel(folder).units["percpu"]
    assert "are from different builds, so BTF's sizes are not used" in unit.notes[0]
    assert {one.size for one in unit.entries} == {None}


def test_variables_that_only_btf_has_are_added(folder: Path) -> None:
    text = MAP.replace("0000000000000038 D sd_llc_id\n", "").replace("const_sd", "const_other")
    rows = [(f"v{number}", 0x100 + 8 * number, 8, 0) for number in range(20)]
    lines = "".join(f"{at:016x} d {name}\n" for name, at, _, _ in rows[:-1])
    (folder / "System.map").write_text(lines + text)
    (folder / "btf").write_bytes(_btf_of(folder, rows))
    found = {one.name: one.size for one in load_kernel(folder).units["percpu"].entries}
    assert found["v19"] == 8


def _btf_of(folder: Path, rows: list[tuple[str, int, int, int]]) -> bytes:
    # What the fixture wrote has two variables of one width; this has all of them.
    words, strings = [1, 1 << 24, 4, 32], b"\0int\0"
    for name, _, _, linkage in rows:
        words += [len(strings), 14 << 24, 1, linkage]
        strings += name.encode() + b"\0"
    words += [len(strings), 15 << 24 | len(rows), 4096]
    words += [word for number, row in enumerate(rows) for word in (2 + number, row[1], row[2])]
    types = struct.pack(f"<{len(words)}I", *words)
    strings += b".data..percpu\0"
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings))
    assert folder.exists()
    return header + types + strings


def test_a_damaged_file_beside_a_sound_one_is_a_note(folder: Path) -> None:
    (folder / "btf").write_bytes(b"\x9f\xeb")
    kernel = load_kernel(folder, structs=["rq"])
    assert kernel.notes == ("btf of tip: truncated BTF header (2 bytes, expected 24)",)
    assert kernel.unknown["struct rq"] == "btf of tip: damaged BTF"
    assert "percpu" in kernel.units


def test_a_system_map_without_its_last_symbol_may_be_cut(tmp_path: Path) -> None:
    path = tmp_path / "map"
    path.write_text(MAP)
    whole = load_kernel(path)
    assert not [note for note in whole.notes if "cut" in note]
    cut = (MAP.partition("ffffffff82e01000")[0], MAP[:-2])
    for text in cut:
        path.write_text(text)
        kernel = load_kernel(path)
        assert kernel.units["percpu"] == whole.units["percpu"]
        assert kernel.notes[0] == f"{path}: symbol _end is missing, so the file may be cut"
    # The last line need not end, and kallsyms is what the running kernel prints.
    path.write_text(MAP[:-1])
    (tmp_path / "kallsyms").write_text(cut[0])
    for name in ("map", "kallsyms"):
        assert load_kernel(tmp_path / name).notes == whole.notes


def test_the_hot_part_is_a_group(tmp_path: Path) -> None:
    (tmp_path / "map").write_text(
        "ffffffff834f5000 D __per_cpu_hot_start\nffffffff834f5000 D __per_cpu_start\n"
        "ffffffff834f5018 D current_task\nffffffff834f503b D __per_cpu_hot_pad\n"
        "ffffffff834f6000 D __per_cpu_end\n"
    )
    assert load_kernel(tmp_path / "map").units["percpu"].groups == {HOT_GROUP: (0, 0x3A)}


def test_kernels_that_are_not_smp_have_their_variables_among_the_globals() -> None:
    kernel = load_kernel(shared("data/sysmap/System.map-x86_64-up-stali"))
    assert "the kernel is not SMP" in kernel.unknown["percpu"]
    assert "runqueues" in {one.name for one in kernel.units["globals"].entries}


def test_a_bundle_is_a_kernel(
    folder: Path, tmp_path: Path, make_bundle: Callable[..., Path]
) -> None:
    facts = '{"cacheline": {"compile_time_bytes": 64, "hardware_bytes": 128}}'
    files = {
        "boots/0/layout/System.map": MAP,
        "boots/0/layout/btf": (folder / "btf").read_bytes(),
        "boots/0/layout/layout.json": facts,
    }
    path = make_bundle(tmp_path / "base.tar.xz", label="base", runs=[{"time_s": 1}], files=files)
    kernel = load_kernel(path)
    assert kernel.label == "base"
    assert kernel.line_bytes == LineBytes(compile_time=64, hardware=128)
    assert [one.size for one in kernel.units["percpu"].entries] == [8, None, None, 4]


def test_boots_of_one_bundle_with_different_layouts_are_noted(
    tmp_path: Path, make_bundle: Callable[..., Path]
) -> None:
    files = {
        "boots/0/layout/System.map": MAP,
        "boots/1/layout/System.map": MAP.replace("0038 D sd_llc_id", "003c D sd_llc_id"),
    }
    runs = [{"time_s": 1, "boot": 0}, {"time_s": 1, "boot": 1}]
    path = make_bundle(tmp_path / "base.tar", label="base", runs=runs, files=files)
    notes = load_kernel(path).notes
    assert "boot 1 of base has a different per-CPU layout than boot 0; boot 0 is shown" in notes


def test_a_bundle_without_a_layout_says_so(
    tmp_path: Path, make_bundle: Callable[..., Path]
) -> None:
    path = make_bundle(tmp_path / "base.tar", runs=[{"time_s": 1}])
    with pytest.raises(InputError, match="base.tar: no System.map, kallsyms or BTF"):
        load_kernel(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty file"),
        (b"\0" * 5000, "starts with 00000000"),
        (b"some text\nand more\n", "starts with 736f6d65"),
        (b"MZ" + bytes(5000), "boot image without symbols"),
        (bytes(0x202) + b"HdrS", "boot image without symbols"),
        (b"\x7fELF" + bytes(60), "invalid ELF headers"),
        (b"\x9f\xeb\x01\0", "truncated BTF header .4 bytes"),
        (gzip.compress(MAP.encode(), mtime=0), "invalid tar archive|before the first member"),
        (
            b"ffffffffffffffff B The real System.map is in the linux-image-6.1-dbg package\n",
            "stub without symbols; install linux-image-6.1-dbg",
        ),
        (b"0000000000000000 T _text\n", "all addresses are hidden"),
        (b"ffffffff81000000 T _text\n", "no per-CPU symbols .missing in kallsyms without"),
        pytest.param(
            MAP.encode() + b"ffffffff81000000 T x\n" * 2_000_000,
            "lines .expected at most 2000000.",
            id="too-many-lines",
        ),
    ],
)
def test_what_tells_nothing_gets_one_clear_line(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{path}: .*({problem})") as caught:
        load_kernel(path)
    assert "\n" not in str(caught.value)


def test_what_is_no_file_gets_one_clear_line(tmp_path: Path) -> None:
    for path, problem in (
        (tmp_path / "absent", "no such file"),
        (Path("/dev/zero"), "unsupported file type"),
        (tmp_path, "no kernel files found .expected vmlinux, System.map"),
    ):
        with pytest.raises(InputError, match=problem):
            load_kernel(path)


def test_a_folder_with_two_kernels_is_refused(tmp_path: Path) -> None:
    for release in ("6.1", "6.2"):
        (tmp_path / f"System.map-{release}").write_text(MAP)
    with pytest.raises(
        InputError, match=r"2 files match System.map-\* \(expected 1\); give a directory with one"
    ):
        load_kernel(tmp_path)
    (tmp_path / "System.map-6.2").unlink()
    assert "percpu" in load_kernel(tmp_path).units


def test_split_btf_finds_its_kernel_beside_it(
    tmp_path: Path, make_btf: Callable[..., bytes]
) -> None:
    base = make_btf(ROWS)
    (tmp_path / "vmlinux").write_bytes(base)
    strings = b"nf_conn\0use\0"
    begin = struct.unpack_from("<I", base, 20)[0]
    types = struct.pack("<6I", begin, 4 << 24 | 1, 4, begin + 8, 1, 0)
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 24, 24, len(strings))
    (tmp_path / "nf_conntrack").write_bytes(header + types + strings)
    kernel = load_kernel(tmp_path / "nf_conntrack", structs=["nf_conn"])
    assert [one.name for one in kernel.units["struct nf_conn"].entries] == ["use"]
    (tmp_path / "vmlinux").unlink()
    with pytest.raises(InputError, match="split BTF of a module; put the BTF of its kernel"):
        load_kernel(tmp_path / "nf_conntrack", structs=["nf_conn"])


@pytest.mark.system
def test_dwarf_gives_structs_where_there_is_no_btf(tmp_path: Path) -> None:
    missing = [program for program in ("gcc", "pahole") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed; apt-get install gcc dwarves")
    (tmp_path / "k.c").write_text("struct rq { int nr; long clock; } runqueues;\n")
    subprocess.run(["gcc", "-g", "-c", "k.c", "-o", "vmlinux"], cwd=tmp_path, check=True)
    kernel = load_kernel(tmp_path / "vmlinux", structs=["rq"])
    assert [one.name for one in kernel.units["struct rq"].entries] == ["nr", "clock"]
    subprocess.run(["gcc", "-c", "k.c", "-o", "vmlinux"], cwd=tmp_path, check=True)
    with pytest.raises(InputError, match="module without per-CPU variables"):
        load_kernel(tmp_path / "vmlinux", structs=["rq"])


@pytest.mark.parametrize(
    ("kernel", "machine", "line"), [("tip", "x86_64", 64), ("arm64-pseudo-nmi", "arm64", 64)]
)
def test_all_sources_of_a_real_kernel_agree(
    real_kernel: Callable[[str], Path], kernel: str, machine: str, line: int
) -> None:
    folder = real_kernel(kernel)
    whole = load_kernel(folder)
    by_map, by_btf = load_kernel(folder / "System.map"), load_kernel(folder / "btf")
    assert {one.machine for one in (whole, by_map, by_btf)} == {machine}
    assert {one.line_bytes.compile_time for one in (whole, by_map, by_btf)} == {line}
    places = {
        one: {(entry.name, entry.offset) for entry in kernel.units["percpu"].entries}
        for one, kernel in (("whole", whole), ("map", by_map), ("btf", by_btf))
    }
    assert places["btf"] <= places["whole"] == places["map"]
    assert whole.units["struct rq"] == by_btf.units["struct rq"]
    assert whole.notes == ()


def test_the_structs_of_the_scheduler_are_there(real_kernel: Callable[[str], Path]) -> None:
    kernel = load_kernel(real_kernel("tip"))
    assert {f"struct {name}" for name in SCHEDULER_STRUCTS} <= kernel.units.keys()


def test_what_the_compiler_appended_is_no_part_of_a_name() -> None:
    names = ("warned.12", "x.llvm.123", "y.lto_priv.0", "z.__uniq.77", "a.b", "plain", ".1")
    assert list(map(plain_name, names)) == ["warned", "x", "y", "z", "a.b", "plain", ".1"]


@pytest.mark.parametrize(("suffix", "pack"), [("xz", lzma.compress), ("gz", gzip.compress)])
def test_a_compressed_module_is_not_taken_for_a_bundle(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"ext4.ko.{suffix}"
    path.write_bytes(pack(b"\x7fELF" + bytes(100)))
    with pytest.raises(InputError, match=r"ext4.ko.\w+: compressed module .*; unpack it first"):
        load_kernel(path)
