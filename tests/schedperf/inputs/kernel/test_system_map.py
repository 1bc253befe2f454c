# SPDX-License-Identifier: GPL-2.0-or-later
"""The per-CPU section and the global variables of System.map, nm and kallsyms."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.inputs.kernel.symbol_lines import MOST_LINES
from schedperf.inputs.kernel.system_map import (
    PercpuSymbol,
    is_symbol_table,
    parse_global_symbols,
    parse_percpu_symbols,
)
from schedperf.model.errors import InputError
from tests.shared_data import shared

ZERO_BASED = b"""\
0000000000000000 D __per_cpu_start
0000000000000000 D fixed_percpu_data
00000000000001ea A kexec_control_code_size
0000000000020208 d root_cpuacct_cpuusage
0000000000020238 D sd_llc_id
0000000000034000 D __per_cpu_end
ffffffff81000000 T _text
ffffffff83447000 D __per_cpu_load
"""
RELATIVE = b"""\
ffff800009000000 T _text
ffff80000965c000 D __per_cpu_load
ffff80000965c000 D __per_cpu_hot_start
ffff80000965c000 D __per_cpu_start
ffff80000965c000 D this_cpu_vector
ffff80000965c03b D __per_cpu_hot_pad
ffff80000967c208 d root_cpuacct_cpuusage
ffff80000967c238 D sd_llc_id
ffff800009690000 D __per_cpu_end
ffff800009690000 d not_per_cpu
ffff800009691000 D __kvm_nvhe___per_cpu_start
ffff800009691010 d __kvm_nvhe_arm64_ssbd
ffff800009692ee0 D __kvm_nvhe___per_cpu_end
"""


def offsets(text: bytes) -> dict[str, int]:
    return {symbol.name: symbol.offset for symbol in parse_percpu_symbols(text, "map").symbols}


def test_both_eras_give_offsets_from_the_start_of_the_section() -> None:
    zero_based, relative = offsets(ZERO_BASED), offsets(RELATIVE)
    assert zero_based == {
        "fixed_percpu_data": 0,
        "root_cpuacct_cpuusage": 0x20208,
        "sd_llc_id": 0x20238,
    }
    assert relative == {
        "this_cpu_vector": 0,
        "root_cpuacct_cpuusage": 0x20208,
        "sd_llc_id": 0x20238,
    }
    assert parse_percpu_symbols(RELATIVE, "map").size == 0x34000


def test_the_type_letter_is_kept() -> None:
    symbols = parse_percpu_symbols(ZERO_BASED, "map").symbols
    assert symbols[1] == PercpuSymbol(offset=0x20208, letter="d", name="root_cpuacct_cpuusage")


def test_lines_may_come_in_any_order() -> None:
    backwards = b"".join(reversed(RELATIVE.splitlines(keepends=True)))
    assert offsets(backwards) == offsets(RELATIVE)


def test_kallsyms_of_a_section_at_zero_marks_the_variables_absolute() -> None:
    kallsyms = (
        b"0000000000000000 A fixed_percpu_data\n0000000000000000 A __per_cpu_start\n"
        b"0000000000020238 A sd_llc_id\n0000000000034000 A __per_cpu_end\n"
        b"ffffffff81000000 T _text\nffffffffc0201000 t crc32c_intel_digest\t[crc32c_intel]\n"
    )
    assert offsets(kallsyms) == {"fixed_percpu_data": 0, "sd_llc_id": 0x20238}


def test_symbols_of_modules_do_not_belong_to_the_section() -> None:
    text = ZERO_BASED + b"0000000000020300 d module_variable\t[module]\n"
    assert offsets(text) == offsets(ZERO_BASED)


def test_32_bit_addresses_are_read() -> None:
    text = b"c1000000 T _text\nc1a00000 D __per_cpu_start\nc1a00040 d x\nc1a01000 D __per_cpu_end\n"
    assert offsets(text) == {"x": 0x40}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "no per-CPU symbols"),
        (b"\xff\x00" * 500, "no per-CPU symbols"),
        (b"ffffffff81000000 T _text\n", "CONFIG_KALLSYMS_ALL"),
        (ZERO_BASED[:120], "symbol __per_cpu_end is missing; use the complete file"),
        (
            ZERO_BASED.replace(b"__per_cpu_start", b"x"),
            "symbol __per_cpu_start is missing; use the complete file",
        ),
        (
            b"0000000000000000 A __per_cpu_start\n0000000000000000 A __per_cpu_end\n",
            "kptr_restrict",
        ),
        (
            b"ffffffff816e6000 D __per_cpu_end\nffffffff816e6000 D __per_cpu_start\n",
            "the kernel is not SMP",
        ),
        (
            b"0000000000000040 D __per_cpu_start\n0000000000000000 D __per_cpu_end\n",
            "invalid per-CPU section from __per_cpu_start 0000000000000040",
        ),
        (
            b"00000000 D __per_cpu_start\n0000000000000040 D __per_cpu_end\n",
            "copy the file again",
        ),
        (ZERO_BASED + b"0000000000000100 sd_llc\n", "invalid line '0000000000000100 sd_llc'"),
        (ZERO_BASED + b"0000000000000100 D " + b"x" * 10_000 + b"\n", "invalid line"),
        (
            ZERO_BASED + b"".join(b"%016x d v%d\n" % (i, i) for i in range(1, 50_001)),
            "expected at most 50000",
        ),
    ],
)
def test_what_holds_no_section_gets_one_clear_line(text: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        parse_percpu_symbols(text, "System.map of base")
    assert str(caught.value).startswith("System.map of base: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.property
@given(cut=st.integers(0, len(RELATIVE)), flip=st.integers(0, len(RELATIVE) * 8 - 1))
def test_damaged_text_is_refused_or_stays_inside_its_section(cut: int, flip: int) -> None:
    damaged = bytearray(RELATIVE)
    damaged[flip // 8] ^= 1 << flip % 8
    try:
        section = parse_percpu_symbols(bytes(damaged[:cut]), "map")
    except InputError:
        return
    assert all(0 <= symbol.offset < section.size for symbol in section.symbols)


@pytest.mark.parametrize(
    ("kernel", "variables", "size", "llc_id"),
    [
        ("tip", 357, 0x34000, 0x20238),
        ("cluster", 359, 0x34000, 0x20244),
        ("arm64-pseudo-nmi", 291, 0x14F68, 0x29CC),
    ],
)
def test_real_system_maps_are_read(
    real_kernel: Callable[[str], Path], kernel: str, variables: int, size: int, llc_id: int
) -> None:
    text = (real_kernel(kernel) / "System.map").read_bytes()
    section = parse_percpu_symbols(text, kernel)
    assert (len(section.symbols), section.size) == (variables, size)
    assert offsets(text)["sd_llc_id"] == llc_id


def test_system_maps_of_other_times_are_read_or_refused() -> None:
    folder = shared("data/sysmap")
    for name, variables in (("x86_64-4.2-loki", 267), ("arm64-4.14-nabu", 199)):
        text = (folder / f"System.map-{name}").read_bytes()
        assert len(parse_percpu_symbols(text, name).symbols) == variables
    with pytest.raises(InputError, match="the kernel is not SMP"):
        offsets((folder / "System.map-x86_64-up-stali").read_bytes())


def test_a_table_of_more_lines_than_any_kernel_has_is_refused() -> None:
    with pytest.raises(InputError, match=f"^map: [0-9]+ lines .expected at most {MOST_LINES}."):
        parse_percpu_symbols(ZERO_BASED + b"\n" * MOST_LINES, "map")


HOT = b"""\
ffffffff834f5000 D __per_cpu_start
ffffffff834f5000 D __per_cpu_hot_start
ffffffff834f5018 D const_current_task
ffffffff834f5018 D current_task
ffffffff834f503b D __per_cpu_hot_pad
ffffffff834f5040 D __per_cpu_hot_end
ffffffff834f5040 d later
ffffffff834f6000 D __per_cpu_end
"""
WITH_GLOBALS = b"""\
ffffffff82e00010 D _sdata
ffffffff82e00010 D init_task
ffffffff82e00fc0 d warned.12
ffffffff82e01000 d warned.13
ffffffff82e01040 V weak_one
ffffffff82e01044 T not_data
ffffffff82e02000 D _edata
ffffffff82e03000 d between
ffffffff82e04000 B __bss_start
ffffffff82e04040 b nohz
ffffffff82e04080 b module_one\t[module]
ffffffff82e05000 B __bss_stop
ffffffff82e05000 B behind
"""


def test_the_hot_part_is_found_by_its_marks() -> None:
    section = parse_percpu_symbols(HOT, "map")
    assert section.hot == (0, 0x3A)
    assert [one.name for one in section.symbols] == ["const_current_task", "current_task", "later"]
    # Where no variable is hot, the marks enclose nothing.
    assert parse_percpu_symbols(RELATIVE.replace(b"65c03b", b"65c000"), "map").hot is None


def test_globals_count_from_the_page_where_data_begins() -> None:
    found = parse_global_symbols(WITH_GLOBALS, "map")
    assert found.size == 0x5000
    assert [(one.offset, one.letter, one.name) for one in found.symbols] == [
        (0x10, "D", "init_task"),
        (0xFC0, "d", "warned.12"),
        (0x1000, "d", "warned.13"),
        (0x1040, "V", "weak_one"),
        (0x4040, "b", "nohz"),
    ]


def test_output_of_nm_with_sizes_is_read() -> None:
    table = WITH_GLOBALS.replace(b"82e04040 b", b"82e04040 0000000000000020 b")
    table += b"                 U undefined\n                 w __weak_hook\n"
    sizes = {one.name: one.size for one in parse_global_symbols(table, "nm").symbols}
    assert (sizes["nohz"], sizes["init_task"]) == (0x20, None)
    percpu = RELATIVE.replace(b"967c238 D", b"967c238 0000000000000004 D")
    assert [one.size for one in parse_percpu_symbols(percpu, "nm").symbols] == [None, None, 4]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "no _sdata, _edata, __bss_start or __bss_stop"),
        (b"ffffffff81000000 T _text\n", "CONFIG_KALLSYMS_ALL"),
        (
            b"0000000000000000 D _sdata\n0000000000000000 D _edata\n",
            "all addresses are hidden; capture as root",
        ),
        (
            b"ffffffffffffffff B The real System.map is in the linux-image-6.1.0-9-dbg package\n",
            "stub without symbols; install linux-image-6.1.0-9-dbg",
        ),
        (
            b"ffffffffffffffff B The real System.map is in the linux-image-<version>-dbg package\n",
            "stub without symbols; install linux-image-<version>-dbg for",
        ),
        (WITH_GLOBALS + b"ffffffff82e01050 garbage\n", "invalid line"),
        (WITH_GLOBALS.replace(b"82e02000 D", b"72e02000 D"), None),
    ],
)
def test_what_holds_no_globals_gets_one_clear_line(text: bytes, problem: str | None) -> None:
    if problem is None:
        # .data makes no sense, and .bss is still there.
        assert [one.name for one in parse_global_symbols(text, "map").symbols] == ["nohz"]
        return
    with pytest.raises(InputError, match=f"^map: .*{problem}") as caught:
        parse_global_symbols(text, "map")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("parse", [parse_percpu_symbols, parse_global_symbols])
def test_a_stub_names_the_package_that_has_the_real_file(parse: Callable[..., object]) -> None:
    stub = b"ffffffffffffffff B The real System.map is in the linux-image-6.1-dbg package\n"
    with pytest.raises(
        InputError, match="^map: stub without symbols; install linux-image-6.1-dbg for"
    ):
        parse(stub, "map")
    assert is_symbol_table(stub)


def test_kallsyms_without_addresses_says_why() -> None:
    hidden = b"0000000000000000 T _text\n0000000000000000 t do_one\n"
    with pytest.raises(InputError, match="all addresses are hidden"):
        parse_percpu_symbols(hidden, "kallsyms")


def test_what_a_symbol_table_is_its_content_says() -> None:
    for table in (ZERO_BASED, RELATIVE, WITH_GLOBALS, b"                 U x\n" + RELATIVE):
        assert is_symbol_table(table)
    for other in (b"", b"\x9f\xeb\x01\0", b"55aa8000-55aa9000 r--p 00000000\n", b"deadbeef\n"):
        assert not is_symbol_table(other)


@pytest.mark.property
@given(cut=st.integers(0, len(WITH_GLOBALS)), flip=st.integers(0, len(WITH_GLOBALS) * 8 - 1))
def test_damaged_globals_are_refused_or_stay_inside(cut: int, flip: int) -> None:
    damaged = bytearray(WITH_GLOBALS)
    damaged[flip // 8] ^= 1 << flip % 8
    try:
        found = parse_global_symbols(bytes(damaged[:cut]), "map")
    except InputError:
        return
    assert all(0 <= one.offset < found.size for one in found.symbols)


def test_real_globals_have_the_schedulers_variables(real_kernel: Callable[[str], Path]) -> None:
    text = (real_kernel("tip") / "System.map").read_bytes()
    found = {one.name: one.offset for one in parse_global_symbols(text, "tip").symbols}
    assert {"nohz", "root_task_group", "def_root_domain", "sched_clock_running"} <= found.keys()
    assert found["init_task"] > 0
