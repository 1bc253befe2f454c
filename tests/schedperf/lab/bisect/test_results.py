# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.bisect.results: tables of boots that somebody else made."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.lab.bisect.results import MOST_BYTES, read_results, resolve_results
from schedperf.model.errors import InputError

HEADER = "commit,boot,value\n"
KNOWN = {"v1": "1" * 40, "1111111": "1" * 40, "v2": "2" * 40}
Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes boots.csv."""

    def write_content(content: str | bytes) -> Path:
        path = tmp_path / "boots.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_content


def resolve(name: str) -> str:
    if name not in KNOWN:
        raise InputError(f"{name}: no such commit")
    return KNOWN[name]


def read(path: Path) -> list[tuple[str, float]]:
    return resolve_results(read_results(path), resolve)


def test_boots_have_the_order_of_the_lines(write: Write) -> None:
    path = write(f"{HEADER}v2,1,8.5\nv1,1,9\n\n1111111,2,9.25e0\n v2 , 4 , 8.75 \n")
    assert read(path) == [("2" * 40, 8.5), ("1" * 40, 9.0), ("1" * 40, 9.25), ("2" * 40, 8.75)]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_columns_may_have_any_order_and_others_are_not_read(write: Write, newline: str) -> None:
    lines = ("value,when,commit,boot", '9.5,"a, b",v1,1')
    assert read(write("\ufeff" + newline.join(lines))) == [("1" * 40, 9.5)]


def test_the_names_of_the_columns_alone_are_no_boots(write: Write) -> None:
    assert read(write(HEADER)) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", r"boots\.csv:1: no column commit, boot, value \(expected commit,boot,value\)"),
        ("commit,value\nv1,9\n", r"boots\.csv:1: no column boot "),
        ("v1,1,9\nv1,2,9\n", r"boots\.csv:1: no column commit, boot, value"),
        (f"{HEADER}v1,1,0\n", r"boots\.csv:2: invalid value '0' \(expected a number above 0"),
        (f"{HEADER}v1,1,9\nv1,2,-3\n", r"boots\.csv:3: invalid value '-3'"),
        (f"{HEADER}v1,1,nan\n", "invalid value 'nan'"),
        (f"{HEADER}v1,1,inf\n", "invalid value 'inf'"),
        (f"{HEADER}v1,1,1e999\n", "invalid value '1e999'"),
        (f"{HEADER}v1,1,fast\n", "invalid value 'fast'"),
        (f"{HEADER}v1,1,1_000\n", "invalid value '1_000'"),
        (f"{HEADER}v1,1\n", "invalid value ''"),
        (f"{HEADER}v1,one,9\n", r"boots\.csv:2: invalid boot 'one' \(expected a whole number"),
        (f"{HEADER}v1,-1,9\n", "invalid boot '-1'"),
        (f"{HEADER}v1,1.5,9\n", "invalid boot '1.5'"),
        (f"{HEADER}v1,1,9\ngone,1,9\n", r"boots\.csv:3: gone: no such commit"),
        (f"{HEADER}v1,1,9\nv1,1,9\n", r"boots\.csv:3: boot 1 of 'v1' after its boot 1 in line 2"),
        (f"{HEADER}v1,1,9\n1111111,1,9\n", "boot 1 of '1111111' after its boot 1 in line 2"),
        (f"{HEADER}v1,2,9\nv1,1,9\n", r"boot 1 of 'v1' after its boot 2 in line 2 .* in the order"),
        (f'{HEADER}"v1,1,9\n', r"boots\.csv:2: unexpected end of data"),
        (f"{HEADER}v1,1,\x1b[31m9\n", r"invalid value '\[31m9'"),
        (f"{HEADER}{'x' * 200_000},1,9\n", "field larger than field limit"),
        (b"commit,boot,value\n\xff,1,9\n", "byte 18 is not UTF-8"),
        (HEADER + "v1,1,9\n" * (MOST_BYTES // 7), "larger than 1048576 bytes; keep the lines"),
    ],
)
def test_bad_input_is_one_line(write: Write, content: str | bytes, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as error:
        read(write(content))
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: no such file"):
        read(tmp_path / "boots.csv")
    with pytest.raises(InputError, match="cannot be read: is a directory"):
        read(tmp_path)


@pytest.mark.property
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "boots.csv"
    path.write_bytes(HEADER.encode() + content)
    try:
        values = [value for _, value in read(path)]
    except InputError as error:
        message = str(error)
    else:
        message = ""
        assert all(value > 0.0 for value in values)
    assert not re.search(r"[\x00-\x1f]", message)
