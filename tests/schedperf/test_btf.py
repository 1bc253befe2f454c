"""Per-CPU variables in BTF, of both byte orders, sound and damaged."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.captures.btf import BtfVariable, parse_percpu_section
from schedperf.captures.system_map import parse_percpu_symbols
from schedperf.errors import InputError

ROWS = [("sd_llc_id", 0x38, 4, 1), ("root_cpuacct_cpuusage", 0x08, 8, 0)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_variables_come_by_offset_in_either_byte_order(
    make_btf: Callable[..., bytes], order: str
) -> None:
    section = parse_percpu_section(make_btf(ROWS, order=order), "btf")
    assert section.size == 4096
    assert section.variables == (
        BtfVariable(offset=0x08, size=8, name="root_cpuacct_cpuusage", linkage="static"),
        BtfVariable(offset=0x38, size=4, name="sd_llc_id", linkage="global"),
    )


def test_a_longer_header_of_a_newer_kernel_is_skipped(make_btf: Callable[..., bytes]) -> None:
    data = make_btf(ROWS)
    longer = data[:4] + struct.pack("<I", 32) + data[8:24] + bytes(8) + data[24:]
    assert parse_percpu_section(longer, "btf") == parse_percpu_section(data, "btf")


def patched(data: bytes, offset: int, value: int) -> bytes:
    return data[:offset] + struct.pack("<I", value) + data[offset + 4 :]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda _: b"", "0 bytes are too few for BTF"),
        (lambda data: data[:23], "23 bytes are too few"),
        (lambda _: b"\x7fELF" * 10, "starts with 7f45, not with BTF's magic number"),
        (lambda data: data[:2] + b"\x02" + data[3:], "version 2 is not known"),
        (lambda data: data[:-1], "strings reach to byte"),
        (lambda data: patched(data, 4, 0), "header makes no sense"),
        (lambda data: patched(data, 8, 2**32 - 1), "types reach to byte"),
        (lambda data: patched(data, 12, 2**32 - 1), "types reach to byte"),
        (lambda data: patched(data, 12, 6), "header makes no sense"),
        (lambda data: patched(data, 12, 4), "type 1 is of unknown kind 0"),
        (lambda data: patched(data, 28, 31 << 24), "type 1 is of unknown kind 31"),
        (lambda data: patched(data, 28, 4 << 24 | 0xFFFF), "type 1 reaches beyond the types"),
        (lambda data: patched(data, 20, data[20] - 1), "name at .* does not end within 512 bytes"),
        (lambda data: patched(data, 20, 0), "name at .* of 0 bytes of strings"),
    ],
)
def test_damaged_files_get_one_clear_line(
    make_btf: Callable[..., bytes], damage: Callable[[bytes], bytes], problem: str
) -> None:
    with pytest.raises(InputError, match=f"^btf of base: .*{problem}") as caught:
        parse_percpu_section(damage(make_btf(ROWS)), "btf of base")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "chosen", "problem"),
    [
        ([], {"section": ".data"}, "no .data..percpu; the kernel is not SMP"),
        ([("x" * 10_000, 0, 8, 0)], {}, "does not end within 512 bytes"),
        ([("far", 4090, 8, 0)], {}, "a variable ends at byte 4098 of 4096"),
        ([("huge", 2**32 - 1, 2**32 - 1, 0)], {}, "ends at byte 8589934590"),
        ([("odd", 0, 8, 7)], {}, "unknown linkage 7"),
    ],
)
def test_implausible_sections_are_refused(
    make_btf: Callable[..., bytes], rows: list[object], chosen: dict[str, str], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        parse_percpu_section(make_btf(rows, **chosen), "btf")


def test_a_section_that_names_a_type_which_is_no_variable_is_refused(
    make_btf: Callable[..., bytes],
) -> None:
    data = make_btf(ROWS)
    at = data.index(struct.pack("<III", 18, 0x38, 4))
    with pytest.raises(InputError, match="names type 1, which is no variable"):
        parse_percpu_section(patched(data, at, 1), "btf")


@pytest.mark.property
@given(data=st.data())
def test_truncation_and_flipped_bits_never_leave_the_section(
    make_btf: Callable[..., bytes], data: st.DataObject
) -> None:
    damaged = bytearray(make_btf(ROWS, order=data.draw(st.sampled_from("<>"))))
    for bit in data.draw(st.lists(st.integers(0, len(damaged) * 8 - 1), max_size=4)):
        damaged[bit // 8] ^= 1 << bit % 8
    try:
        section = parse_percpu_section(bytes(damaged[: data.draw(st.integers(0, 2000))]), "btf")
    except InputError:
        return
    assert all(one.offset + one.size <= section.size for one in section.variables)


@pytest.mark.parametrize("kernel", ["tip", "cluster", "arm64-pseudo-nmi"])
def test_real_btf_agrees_with_the_system_map_of_its_build(
    real_kernel: Callable[[str], Path], kernel: str
) -> None:
    folder = real_kernel(kernel)
    section = parse_percpu_section((folder / "btf").read_bytes(), kernel)
    symbols = parse_percpu_symbols((folder / "System.map").read_bytes(), kernel).symbols
    places = {(symbol.name, symbol.offset) for symbol in symbols}
    letters = {symbol.name: symbol.letter for symbol in symbols}
    assert len(section.variables) > 290
    assert {(one.name, one.offset) for one in section.variables} <= places
    assert all(
        letters[one.name].isupper() == (one.linkage == "global") for one in section.variables
    )


def test_real_btf_agrees_with_what_bpftool_printed() -> None:
    folder = Path(__file__).resolve().parents[3] / "shared" / "data" / "btf"
    if not folder.exists():
        pytest.skip(f"no real BTF: {folder} does not exist")
    lines = (folder / "percpu-vars-6.18.44.tsv").read_text(encoding="utf-8").splitlines()[1:]
    expected = [(int(row[0], 16), int(row[1]), row[2], row[3]) for row in map(str.split, lines)]
    data = (folder / "vmlinux-6.18.44-x86_64-vm.btf").read_bytes()
    section = parse_percpu_section(data, "6.18")
    found = [(one.offset, one.size, one.linkage, one.name) for one in section.variables]
    assert sorted(found) == sorted(expected)
    # What the kernel's own boot message says: "percpu: Embedded 53 pages/cpu s185496".
    assert section.size == 185496
