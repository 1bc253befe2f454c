# SPDX-License-Identifier: GPL-2.0-or-later
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.inputs.kernel.kallsyms import NO_SYMBOL
from schedperf.inputs.kernel.user_symbols import parse_user_symbols
from schedperf.model.errors import InputError
from schedperf_collectors.contract import VDSO
from schedperf_collectors.symbols import read_file, symbols_of

HEAD = {
    "format": "schedperf-symbols/1",
    "build_id": "93ac61ec",
    "path": "/usr/lib/libc.so.6",
    "table": ".dynsym",
    "functions": 3,
    "reason": None,
}
LINES = "1000 20 first\n1020 0 second\n1100 8 type:.eq.struct { F int }\n"


def table(lines: str = LINES, **head: object) -> bytes:
    return f"{json.dumps({**HEAD, **head})}\n{lines}".encode()


@pytest.mark.parametrize(
    ("offset", "name"),
    [
        (0xFFF, None),
        (0x1000, "first"),
        (0x101F, "first"),
        (0x1020, "second"),
        (0x10FF, "second"),
        (0x1107, "type:.eq.struct { F int }"),
        (0x1108, None),
        ((1 << 64) - 1, None),
    ],
)
def test_an_offset_lies_in_the_function_that_has_it(offset: int, name: str | None) -> None:
    symbols = parse_user_symbols(table(), "libc.sym")
    index = symbols.find(np.array([offset], np.uint64)).tolist()[0]
    assert (None if index == NO_SYMBOL else symbols.names[index]) == name


def test_what_the_collector_writes_is_read() -> None:
    found = read_file(VDSO)
    assert found.build_id is not None
    symbols = parse_user_symbols(symbols_of(found.build_id, VDSO), VDSO)
    assert list(symbols.names) == [one.name for one in found.functions]
    assert symbols.starts.tolist() == [one.offset for one in found.functions]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "x: invalid JSON"),
        (b"{}", "x: $.format is missing"),
        (table(format="schedperf-symbols/2"), "x: unknown format 'schedperf-symbols/2' (expected"),
        (table("", reason="no such file"), "x: no such file"),
        (table(functions=4),
         "x: contains 3 functions (expected 4, as in its first line); copy the file again"),
        (table("1000 20 a\n1000 20 b\n1200 8 c\n"), "x: functions are not sorted"),
        (table("1000 20 a\nx 20 b\n1200 8 c\n"), "x:3: invalid line 'x 20 b'"),
        (table("1000 20\n1010 20 b\n1200 8 c\n"), "x:2: invalid line '1000 20'"),
        (table("-5 20 a\n1010 20 b\n1200 8 c\n"), "x:2: invalid line '-5 20 a'"),
        (table(f"{1 << 63:x} 20 a\n1010 20 b\n1200 8 c\n"), "x:2: invalid line '80000"),
        (table("1000 20 " + "n" * 600 + "\n1010 20 b\n1200 8 c\n"), "x:2: invalid line '1000"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_one_clear_line(content: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_user_symbols(content, "x")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.property
@given(end=st.integers(0, len(table()) - 1))
def test_a_table_that_is_cut_off_is_refused(end: int) -> None:
    with pytest.raises(InputError):
        parse_user_symbols(table()[:end], "x")
