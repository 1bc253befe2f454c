# SPDX-License-Identifier: GPL-2.0-or-later
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.inputs.kernel.kallsyms import (
    NO_SYMBOL,
    address_of,
    parse_kernel_symbols,
    without_modules,
)
from schedperf.inputs.kernel.symbol_lines import MOST_LINES
from schedperf.model.errors import InputError

KALLSYMS = """\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T srso_alias_untrain_ret
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000400 t $x
ffffffff81000800 t finish_task_switch.isra.0
ffffffff81000900 T schedule
ffffffff81003000 D init_task
ffffffffc0001000 t nf_ct_get_tuple\t[nf_conntrack]
ffffffffc0001100 T nf_ct_put\t[nf_conntrack]
ffffffffc0009000 t bpf_prog_1\t[bpf]
"""


def name_at(text: str, address: int, *, slide: int = 0) -> str | None:
    symbol = parse_kernel_symbols(text, "kallsyms", slide=slide).find(address)
    return symbol.name if symbol else None


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (0, None),
        (0xFFFFFFFF80FFFFFF, None),
        (0xFFFFFFFF81000000, "srso_alias_untrain_ret"),
        (0xFFFFFFFF810007FF, "srso_alias_untrain_ret"),
        (0xFFFFFFFF81000800, "finish_task_switch.isra.0"),
        (0xFFFFFFFF81000900, "schedule"),
        (0xFFFFFFFF81002FFF, "schedule"),
        (0xFFFFFFFFC00010FF, "nf_ct_get_tuple"),
        (0xFFFFFFFFFFFFFFFF, None),
    ],
)
def test_an_address_belongs_to_the_symbol_in_front_of_it(address: int, name: str | None) -> None:
    assert name_at(KALLSYMS, address) == name


def test_the_last_symbol_of_the_kernel_or_a_module_ends_with_the_next_page() -> None:
    symbols = parse_kernel_symbols(KALLSYMS, "kallsyms")
    assert symbols.find(0xFFFFFFFF81003FFF) is not None
    assert symbols.find(0xFFFFFFFF81004000) is None
    assert symbols.find(0xFFFFFFFFC0002FFF) is not None
    assert symbols.find(0xFFFFFFFFC0003000) is None


def test_many_addresses_are_looked_up_at_once() -> None:
    symbols = parse_kernel_symbols(KALLSYMS, "kallsyms")
    addresses = [0, *(0xFFFFFFFF80FFF000 + step for step in range(0, 0x6000, 0x80)), (1 << 64) - 1]
    for address, index in zip(
        addresses, symbols.find_all(np.array(addresses, np.uint64)).tolist(), strict=True
    ):
        assert symbols.find(address) == (None if index == NO_SYMBOL else symbols[index])


def test_symbols_of_modules_name_their_module() -> None:
    symbols = parse_kernel_symbols(KALLSYMS, "kallsyms")
    in_module, in_kernel = symbols.find(0xFFFFFFFFC0001101), symbols.find(0xFFFFFFFF81000900)
    assert in_module is not None
    assert (in_module.name, in_module.module) == ("nf_ct_put", "nf_conntrack")
    assert in_kernel is not None
    assert in_kernel.module is None


@pytest.mark.parametrize(
    ("aliases", "best"),
    [
        (["W weak_name", "t local"], "local"),
        (["t static_name", "T name"], "name"),
        (["T ___name", "T __name"], "__name"),
        (["T name", "T longer_name"], "longer_name"),
        (["T bbbb", "T aaaa"], "aaaa"),
        (["T __pi___x86_indirect_thunk_rax", "T __x86_indirect_thunk_rax"],
         "__x86_indirect_thunk_rax"),
    ],
)  # fmt: skip
def test_of_aliases_the_best_is_chosen_in_any_order(aliases: list[str], best: str) -> None:
    for order in (aliases, aliases[::-1]):
        text = "".join(f"ffffffff81000000 {alias}\n" for alias in order)
        assert name_at(text, 0xFFFFFFFF81000000) == best


@pytest.mark.parametrize(
    "text",
    [
        "81000000 T first\n81000100 T second",
        "81000000 T first\r\n0000000081000100 T second\r\n",
        "  81000000\tT first \n81000100  T\tsecond\t\n",
        "81000000 T first\n81000080 Tt other\n81000090 ? other\n81000100 T second\n",
    ],
    ids=["short addresses", "other ends of lines", "other blanks", "no type of code"],
)
def test_what_stands_around_the_fields_of_a_line_varies(text: str) -> None:
    assert name_at(text, 0x810000FF) == "first"
    assert name_at(text, 0x81000100) == "second"
    assert name_at(text, 0x80FFFFFF) is None


def test_a_slide_moves_every_symbol() -> None:
    assert name_at(KALLSYMS, 0xFFFFFFFF91000900, slide=0x10000000) == "schedule"
    assert name_at(KALLSYMS, 0xFFFFFFFF81000900, slide=0x10000000) is None
    assert name_at(KALLSYMS, 0xFFFFFFFF71000900, slide=-0x10000000) == "schedule"


def test_the_address_of_one_symbol_is_found_by_its_whole_name() -> None:
    assert address_of(KALLSYMS, "_text") == 0xFFFFFFFF81000000
    assert address_of(KALLSYMS, "text") is None
    assert address_of("x T _text\n", "_text") is None


def test_modules_can_be_left_out() -> None:
    left = parse_kernel_symbols(without_modules(KALLSYMS), "kallsyms")
    assert left.find(0xFFFFFFFFC0001101) is None
    assert left.find(0xFFFFFFFF81000900) is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "System.map: no function symbols; use the complete file"),
        ("ffffffff81000000 r data\n", "System.map: no function symbols; use the complete file"),
        ("0000000000000000 T _text\n" * 2, "System.map: all addresses are hidden; capture as root"),
        (
            "ffffffff81000000 T a\nfoo\n",
            "System.map:2: invalid line 'foo' (expected `ADDRESS TYPE NAME`, as in /proc/",
        ),
        ("xyz T a\n", "System.map:1: invalid line 'xyz T a'"),
        ("-1 T a\n", "System.map:1: invalid line '-1 T a'"),
        ("1" * 99 + " T a\n", "System.map:1: invalid line '1111"),
        ("ffffffff81000000 T " + "a" * 600 + "\n", "System.map:1: invalid line 'ffffffff810"),
    ],
)
def test_what_is_no_symbol_table_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_kernel_symbols(text, "System.map")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.property
class TestOrder:
    """The order of the lines does not matter, and a symbol is found at its own address."""

    @given(data=st.data())
    def test_shuffled_lines_give_the_same_symbols(self, data: st.DataObject) -> None:
        lines = data.draw(st.permutations(KALLSYMS.splitlines()))
        symbols = parse_kernel_symbols("\n".join(lines), "kallsyms")
        plain = parse_kernel_symbols(KALLSYMS, "kallsyms")
        address = data.draw(st.sampled_from([int(line[:16], 16) for line in lines]))
        offset = data.draw(st.integers(-16, 0x3000))
        assert symbols.find(address + offset) == plain.find(address + offset)


def test_a_table_of_more_lines_than_any_kernel_has_is_refused() -> None:
    with pytest.raises(
        InputError, match=f"^kallsyms: [0-9]+ lines .expected at most {MOST_LINES}."
    ):
        parse_kernel_symbols(KALLSYMS + "\n" * MOST_LINES, "kallsyms")
