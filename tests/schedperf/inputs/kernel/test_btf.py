# SPDX-License-Identifier: GPL-2.0-or-later
"""BTF of both byte orders: types, sections, split BTF; sound and damaged."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.inputs.kernel.btf import (
    Btf,
    BtfVariable,
    Kind,
    needs_base,
    parse_btf,
    parse_percpu_section,
)
from schedperf.inputs.kernel.system_map import parse_percpu_symbols
from schedperf.model.errors import InputError
from tests.shared_data import shared


def assert_one_line(message: str) -> None:
    assert message
    assert "\n" not in message


ROWS = [("sd_llc_id", 0x38, 4, 1), ("root_cpuacct_cpuusage", 0x08, 8, 0)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_variables_come_by_offset_in_either_byte_order(
    make_btf: Callable[..., bytes], order: str
) -> None:
    section = parse_percpu_section(make_btf(ROWS, order=order), "btf")
    assert section.size == 4096
    assert section.variables == (
        BtfVariable(
            offset=0x08, size=8, name="root_cpuacct_cpuusage", linkage="static", type="int"
        ),
        BtfVariable(offset=0x38, size=4, name="sd_llc_id", linkage="global", type="int"),
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
        (lambda _: b"", "truncated BTF header .0 bytes, expected 24."),
        (lambda data: data[:23], "truncated BTF header .23 bytes"),
        (lambda _: b"\x7fELF" * 10, "invalid BTF magic 7f45 .expected eb9f."),
        (lambda data: data[:2] + b"\x02" + data[3:], "unknown BTF version 2 "),
        (lambda data: data[:-1], "strings end at byte"),
        (lambda data: patched(data, 4, 0), "invalid BTF header"),
        (lambda data: patched(data, 8, 2**32 - 1), "types end at byte"),
        (lambda data: patched(data, 12, 2**32 - 1), "types end at byte"),
        (lambda data: patched(data, 12, 6), "invalid BTF header"),
        (lambda data: patched(data, 12, 4), "type 1 has unknown kind 0"),
        (lambda data: patched(data, 28, 31 << 24), "type 1 has unknown kind 31"),
        (lambda data: patched(data, 28, 4 << 24 | 0xFFFF), "type 1 ends after the type section"),
        (
            lambda data: patched(data, 20, data[20] - 1),
            "name at offset .* is longer than 512 bytes",
        ),
        (lambda data: patched(data, 20, 0), "invalid name offset .* .expected less than 0."),
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
        ([], {"section": ".data"}, "no .data..percpu section .the kernel is not SMP"),
        ([("x" * 10_000, 0, 8, 0)], {}, "is longer than 512 bytes"),
        ([("far", 4090, 8, 0)], {}, "ends at byte 4098 .expected at most 4096."),
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
    with pytest.raises(InputError, match=r"contains type 1 \(expected a variable\)"):
        parse_percpu_section(patched(data, at, 1), "btf")


def draw_damaged(make_btf: Callable[..., bytes], data: st.DataObject) -> bytes:
    """Draw BTF of either byte order, some bits of which may be flipped."""
    damaged = bytearray(make_btf(ROWS, order=data.draw(st.sampled_from("<>"))))
    for bit in data.draw(st.lists(st.integers(0, len(damaged) * 8 - 1), max_size=4)):
        damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


@pytest.mark.property
@given(data=st.data())
def test_truncation_and_flipped_bits_never_leave_the_section(
    make_btf: Callable[..., bytes], data: st.DataObject
) -> None:
    damaged = draw_damaged(make_btf, data)
    try:
        section = parse_percpu_section(damaged[: data.draw(st.integers(0, 2000))], "btf")
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
    folder = shared("data/btf")
    lines = (folder / "percpu-vars-6.18.44.tsv").read_text(encoding="utf-8").splitlines()[1:]
    expected = [(int(row[0], 16), int(row[1]), row[2], row[3]) for row in map(str.split, lines)]
    data = (folder / "vmlinux-6.18.44-x86_64-vm.btf").read_bytes()
    section = parse_percpu_section(data, "6.18")
    found = [(one.offset, one.size, one.linkage, one.name) for one in section.variables]
    assert sorted(found) == sorted(expected)
    # What the kernel's own boot message says: "percpu: Embedded 53 pages/cpu s185496".
    assert section.size == 185496


@pytest.fixture
def every_kind(make_btf: Callable[..., bytes]) -> Btf:
    """Return BTF with one type of every kind."""
    return parse_btf(make_btf(ROWS), "btf")


def test_types_of_every_kind_are_spelled_as_c_has_them(every_kind: Btf) -> None:
    spelled = {type_id: every_kind.spell(type_id) for type_id in (0, 1, 2, 3, 4, 7, 12, 14, 16)}
    assert spelled == {
        0: "void",
        1: "int",
        2: "int *",
        3: "int[8]",
        4: "struct loop",
        7: "struct forward",
        12: "int (int)",
        14: "double",
        16: "int",
    }


def test_types_are_found_by_name_and_kind(every_kind: Btf) -> None:
    assert every_kind.find("loop", Kind.STRUCT) == [4]
    assert every_kind.find("loop", Kind.UNION) == []
    assert every_kind.find("sd_llc_id", Kind.VAR) == [18]
    assert every_kind.has_name("schedule")
    assert not every_kind.has_name("sched")
    assert len(every_kind) == 20


def test_sizes_go_through_arrays_and_typedefs(every_kind: Btf) -> None:
    assert [every_kind.size(type_id) for type_id in (0, 1, 3, 4, 5, 17)] == [0, 4, 32, 8, 8, 8]


@pytest.mark.parametrize("type_id", [8, 9, 10])
def test_types_that_refer_to_themselves_are_refused(every_kind: Btf, type_id: int) -> None:
    with pytest.raises(InputError, match="^btf: type [0-9]+ is circular"):
        every_kind.size(type_id)


def test_a_type_that_does_not_exist_is_refused(every_kind: Btf) -> None:
    with pytest.raises(InputError, match="^btf: unknown type id 99 .expected at most 20."):
        every_kind.name(99)


def blob(words: list[int], strings: bytes, *, order: str = "<", more: bytes = b"") -> bytes:
    """Write BTF; ``more`` is the table of kinds' lengths, which stands behind the strings."""
    types = struct.pack(f"{order}{len(words)}I", *words)
    length = 32 if more else 24
    header = struct.pack(
        order + "HBBIIIII", 0xEB9F, 1, 0, length, 0, len(types), len(types), len(strings)
    )
    if more:
        header += struct.pack(order + "II", len(types) + len(strings), len(more))
    return header + types + strings + more


INT = [1, 1 << 24, 4, 32]


def test_bit_fields_are_read_in_both_encodings() -> None:
    strings = b"\0int\0a\0b\0flags\0"
    # The member says it, or an integer of 3 bits that begin at bit 2 of its bytes does.
    new = blob([*INT, 9, 0x84000001, 4, 5, 1, 3 << 24 | 2], strings)
    narrow = [0, 1 << 24, 4, 2 << 16 | 3]
    old = blob([*INT, *narrow, 9, 0x04000002, 8, 5, 2, 0, 7, 1, 32], strings)
    member = parse_btf(new, "btf").members(2)[0]
    assert (member.name, member.bit_offset, member.bit_size) == ("a", 2, 3)
    found = [(one.bit_offset, one.bit_size) for one in parse_btf(old, "btf").members(3)]
    assert found == [(2, 3), (32, None)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_split_btf_goes_on_where_its_base_ends(order: str) -> None:
    base = parse_btf(blob(INT, b"\0int\0", order=order), "vmlinux")
    strings = b"nf_conn\0use\0"
    module = blob([5, 4 << 24 | 1, 4, 13, 1, 0], strings, order=order)
    assert needs_base(module)
    btf = parse_btf(module, "nf", base)
    assert btf.find("nf_conn", Kind.STRUCT) == [2]
    assert btf.find("int", Kind.INT) == [1]
    assert [(one.name, btf.spell(one.type_id)) for one in btf.members(2)] == [("use", "int")]
    assert (btf.has_name("int"), btf.end_id, btf.name(1)) == (True, 3, "int")


def test_split_btf_without_its_base_or_with_a_wrong_one_is_refused() -> None:
    module = blob([5, 4 << 24 | 1, 4, 13, 1, 0], b"nf_conn\0use\0")
    with pytest.raises(InputError, match="^nf: split BTF of a module; put the BTF"):
        parse_btf(module, "nf")
    foreign = parse_btf(blob(INT, b"\0int\0", order=">"), "vmlinux")
    with pytest.raises(InputError, match="^nf: byte order differs from that of vmlinux"):
        parse_btf(module, "nf", foreign)
    assert not needs_base(b"damaged")


def test_kinds_of_the_future_are_skipped_where_the_file_has_their_lengths() -> None:
    future = [0, 20 << 24 | 2, 0, 7, 7, 7, 7, 7]
    table = bytes(4 * 20) + bytes([4, 8, 0, 0])
    btf = parse_btf(blob([*future, *INT], b"\0int\0", more=table), "btf")
    assert btf.find("int", Kind.INT) == [2]
    assert btf.spell(1) == "?"
    with pytest.raises(InputError, match="type 1 has unknown kind 20"):
        parse_btf(blob([*future, *INT], b"\0int\0"), "btf")


def test_more_types_than_the_kernel_loads_are_refused() -> None:
    with pytest.raises(InputError, match="1048576 types .expected at most 1048575."):
        parse_btf(blob([0, 16 << 24, 4] * (1 << 20), b"\0"), "btf")


def test_all_sections_of_variables_are_read(make_btf: Callable[..., bytes]) -> None:
    btf = parse_btf(make_btf(ROWS, section=".data"), "btf")
    assert btf.section_names() == [".data"]
    section = btf.section(".data")
    assert section is not None
    assert [one.name for one in section.variables] == ["root_cpuacct_cpuusage", "sd_llc_id"]
    assert btf.section(".bss") is None


def test_function_pointers_and_qualifiers_are_spelled(real_kernel: Callable[[str], Path]) -> None:
    btf = parse_btf((real_kernel("tip") / "btf").read_bytes(), "tip")
    (sched_class,) = btf.find("sched_class", Kind.STRUCT)
    spelled = {one.name: btf.spell(one.type_id) for one in btf.members(sched_class)}
    assert spelled["enqueue_task"] == "void (*)(struct rq *, struct task_struct *, int)"
    assert spelled["yield_task"] == "void (*)(struct rq *)"
    (domain,) = btf.find("sched_domain", Kind.STRUCT)
    spelled = {one.name: btf.spell(one.type_id) for one in btf.members(domain)}
    assert spelled["span"] == "long unsigned int[0]"
    (group,) = btf.find("task_group", Kind.STRUCT)
    spelled = {one.name: btf.spell(one.type_id) for one in btf.members(group)}
    assert spelled["se"] == "struct sched_entity **"
    assert btf.pointer_bytes == 8


@pytest.mark.property
@given(data=st.data())
def test_damaged_blobs_answer_every_question_or_refuse(
    make_btf: Callable[..., bytes], data: st.DataObject
) -> None:
    damaged = draw_damaged(make_btf, data)
    try:
        btf = parse_btf(damaged, "btf")
    except InputError:
        return
    for type_id in range(btf.end_id + 1):
        for ask in (btf.name, btf.spell, btf.size, btf.resolve, btf.reference):
            try:
                ask(type_id)
            except InputError as error:
                assert_one_line(str(error))
