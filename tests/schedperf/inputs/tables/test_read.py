# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.inputs.tables.read: what a table may hold, and one clear line for everything else."""

import codecs
import hashlib
import math
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from schedperf.inputs.tables.names import is_table
from schedperf.inputs.tables.read import (
    LARGEST_BYTES,
    MOST_ROWS,
    MOST_SIDES,
    open_table,
    read_table,
)
from schedperf.model.errors import InputError

HEADER = "workload,point,metric,unit,better,value"
ROW = "tbench,clients=8,throughput,MB/s,higher,2232.73"

Write = Callable[..., Path]
Put = Callable[[bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a table of lines: ``write("workload,…", "tbench,…")``."""

    def write(*lines: str, end: str = "\n") -> Path:
        path = tmp_path / "a.csv"
        path.write_bytes("".join(f"{line}{end}" for line in lines).encode())
        return path

    return write


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Write bytes where a table should be."""

    def put(content: bytes) -> Path:
        path = tmp_path / "a.csv"
        path.write_bytes(content)
        return path

    return put


def problem(path: Path) -> str:
    """Return the message without the directory of the test."""
    with pytest.raises(InputError) as caught:
        read_table(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(str(path.parent) + "/")


def test_a_table_of_runs_has_one_row_a_line(write: Write) -> None:
    runs = read_table(write("# tbench", "# of a friend", "", HEADER, ROW, "", ROW))
    assert list(runs.columns) == [*HEADER.split(","), "status", "resolution"]
    assert runs["value"].tolist() == [2232.73, 2232.73]
    assert runs["point"].tolist() == ["clients=8"] * 2
    assert runs["status"].tolist() == ["ok", "ok"]
    assert runs["value"].dtype == np.float64


def test_every_column_is_read(write: Write) -> None:
    header = (
        "note,side,workload,point,metric,unit,better,value,mean,cv,n,order,round,boot,run,"
        "resolution,family,status,claimed,claimed_mean"
    )
    runs = read_table(
        write(
            header,
            'why,A,t,"b=2, a=1",m,,HIGHER,1.5,,,,7,3,0,2.0,0.1,diagnostic,OK,-10.7%,1.5',
            ",B,t,,m,s,lower,,2e3,1.75%,4,,,,,,,,,",
            ",B,t,a=1,m,s,lower,,,,,,,,,,,timeout,,",
        )
    )
    first, second, third = runs.astype(object).where(runs.notna(), None).to_dict("records")
    assert first == {
        "side": "A", "workload": "t", "point": "a=1,b=2", "metric": "m", "unit": "",
        "better": "higher", "value": 1.5, "mean": None, "cv": None, "n": None, "order": 7.0,
        "round": 3.0, "boot": 0.0, "run": 2.0, "resolution": 0.1, "family": "informational",
        "status": "ok", "claimed": "-10.7%", "claimed_mean": "1.5",
    }  # fmt: skip
    assert second["value"] is None
    assert (second["mean"], second["cv"], second["n"]) == (2000.0, 0.0175, 4.0)
    assert (second["family"], second["claimed"]) == ("primary", None)
    assert (third["status"], third["value"]) == ("timeout", None)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_delimiters_and_line_ends_of_spreadsheets_are_understood(
    write: Write, delimiter: str, end: str
) -> None:
    lines = [line.replace(",", delimiter) for line in (HEADER, ROW)]
    runs = read_table(write("# 1,5; 2", *lines, end=end))
    assert runs["value"].tolist() == [2232.73]


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ],
)
def test_byte_order_marks_are_understood(put: Put, mark: bytes, encoding: str) -> None:
    text = f"{HEADER}\n{ROW.replace('tbench', 'tbänch')}\n"
    assert read_table(put(mark + text.encode(encoding)))["workload"].tolist() == ["tbänch"]


def test_quoted_text_may_hold_the_delimiter_a_quote_and_a_line_end(write: Write) -> None:
    row = '"hackbench ""a"", b\nc",,time,s,lower,0.5'
    assert read_table(write(HEADER, row))["workload"].tolist() == ['hackbench "a", b\nc']


@pytest.mark.parametrize(
    ("text", "fraction"),
    [
        ("0.0175", 0.0175),
        ("1.75%", 0.0175),
        ("±1.75 %", 0.0175),
        ("+/-1.75%", 0.0175),
        ("150%", 1.5),
        ("0", 0.0),
        ("", None),
    ],
)
def test_a_spread_is_a_fraction_or_a_percentage(
    write: Write, text: str, fraction: float | None
) -> None:
    path = write("workload,metric,unit,better,mean,cv", f"t,m,s,lower,2.5,{text}")
    [cv] = read_table(path)["cv"]
    assert cv == pytest.approx(fraction) if fraction is not None else pd.isna(cv)


def test_what_pandas_writes_is_read_back_unchanged(write: Write, tmp_path: Path) -> None:
    header = "side,workload,point,metric,unit,better,value,round,boot,resolution,claimed"
    first = read_table(write(header, 'A,t,"a=1,b=2",m,s,lower,0.1,3,,0.001,~-8%'))
    again = tmp_path / "again.csv"
    first.to_csv(again, index=False)
    pd.testing.assert_frame_equal(read_table(again), first)


def test_a_table_knows_its_sides_and_its_digest(write: Write) -> None:
    path = write(f"side,{HEADER}", f"tip,{ROW}", f"new,{ROW}", f"tip,{ROW}")
    table = open_table(path)
    assert table.sides == ("tip", "new")
    assert table.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert open_table(write(HEADER, ROW)).sides == ()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.csv", True), ("A.CSV", True), ("a.tsv", True), ("a.tar", False), ("csv", False)],
)
def test_a_table_is_told_by_its_name(name: str, expected: bool) -> None:  # noqa: FBT001
    assert is_table(Path(name)) is expected


def test_without_a_workload_the_name_of_the_file_is_it(write: Write) -> None:
    path = write("metric,unit,value", "time,s,1.5")
    assert read_table(path)["workload"].tolist() == ["a"]
    assert open_table(path, "hackbench").runs["workload"].tolist() == ["hackbench"]


@pytest.mark.parametrize(
    ("unit", "better"),
    [("s", "lower"), ("us/op", "lower"), ("ns per message", "lower"), ("MB/s", "higher"),
     ("ops/s", "higher"), ("transactions per second", "higher"), ("MiBps", "higher"),
     ("tps", "higher")],
)  # fmt: skip
def test_a_unit_determines_the_direction(unit: str, better: str, write: Write) -> None:
    table = read_table(write("metric,unit,better,value", f"rate,{unit},,1", f"rate,{unit},,2"))
    assert table["better"].tolist() == [better, better]
    assert read_table(write("metric,unit,value", f"rate,{unit},1"))["better"].tolist() == [better]


@pytest.mark.parametrize(
    "unit", ["", "1/s", "faults/s", "count", "%", "W", "ss", "s/s", "misses/op"]
)
def test_a_direction_is_asked_for_where_the_unit_does_not_tell(unit: str, write: Write) -> None:
    found = problem(write("metric,unit,value", f"rate,{unit},1"))
    assert found == (
        f"a.csv:2: unit {unit!r} does not determine whether higher or lower is better; "
        "add `better` (higher or lower)"
    )


BAD_HEADERS = {
    "a misspelt column": (
        f"{HEADER},resolutoin",
        "a.csv:1: unknown column 'resolutoin' (did you mean `resolution`?)",
    ),
    "a column of nothing we know": (f"{HEADER},zebra", "unknown column 'zebra' (expected one of"),
    "columns unknown and missing": (
        "point,foo,unti,bar",
        (
            "a.csv:1: unknown columns 'foo', 'unti', 'bar' (did you mean `unit`?); missing "
            "columns `metric`, `unit`, `value` (one row per run) or `mean` (summaries); add these "
            "columns"
        ),
    ),
    "an empty column": (f"{HEADER},,", "unknown column ''"),
    "a column twice": (f"{HEADER},Value", "column `value` given twice; remove one"),
    "no number": (
        "workload,metric,unit,better",
        "missing columns `value` (one row per run) or `mean` (summaries); add these columns",
    ),
    "three columns missing": (
        "workload,better",
        "missing columns `metric`, `unit`, `value` (one row per run) or `mean` (summaries); add",
    ),
    "prose": ("Dear list, the numbers are below.", "unknown columns 'dear list', 'the numbers are"),
    "a very long name": ("x" * 100_000, "…' (expected"),
    "an escape": ("\x1b]0;pwned\x07", r"unknown column '\x1b]0;pwned\x07'"),
}


@pytest.mark.parametrize("case", BAD_HEADERS)
def test_a_header_that_is_not_understood_is_refused(case: str, write: Write) -> None:
    header, message = BAD_HEADERS[case]
    found = problem(write(header, ROW))
    assert message in found
    assert found.startswith("a.csv:1: ")
    assert len(found) < 400


def test_all_missing_columns_of_the_only_table_are_named_at_once(write: Write) -> None:
    for header, missing in (
        ("workload,better,value", "missing columns `metric`, `unit`, `side` (or give a second"),
        ("metric,unit,better", "`value` (one row per run) or `mean` (summaries), `side` (or give"),
        ("metric,unit,value,sied", "'sied' (did you mean `side`?); missing columns `side` (or"),
    ):
        path = write(header, ROW)
        with pytest.raises(InputError) as caught:
            open_table(path, is_only=True)
        assert missing in str(caught.value)
        assert "(or give a second table)" not in problem(path)
    # What else such a table can be compared with is said where it is compared.
    assert open_table(write(HEADER, ROW), is_only=True).sides == ()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_a_last_line_without_an_end_may_be_cut(put: Put, end: str, blank: str) -> None:
    whole = end.join((HEADER, ROW, ROW, ""))
    assert open_table(put(f"{whole}{blank}".encode())).caveats == ()
    cut = put(whole[: -len(end) - 1].encode())
    [found] = open_table(cut).caveats
    assert found.text == (
        f"line 3 of {cut}, the last one, has no end of line, so the file may be cut: {ROW[:-1]}"
    )


BAD_FIELDS = {
    "a decimal comma": (
        "value",
        "12,5",
        "value: invalid number '12,5' (expected a number, e.g. 12.5",
    ),
    "text": ("value", "fast", "value: invalid number 'fast'"),
    "half a number": ("value", "1.", "value: invalid number '1.' (expected a number, e.g. 12.5"),
    "half a count": ("run", "3.", "run: invalid count '3.' (expected a whole number"),
    "nan": ("value", "nan", "value: invalid number 'nan'"),
    "infinity": ("value", "inf", "value: invalid number 'inf'"),
    "a number beyond floats": ("value", "1e999", "value: invalid number '1e999' (expected at most"),
    "a formula": ("value", "=1+1", "value: invalid number '=1+1'"),
    "a separator": ("value", "1_000", "value: invalid number '1_000'"),
    "other digits": ("value", "\u0663", "value: invalid number"),
    "hexadecimal": ("value", "0x10", "value: invalid number '0x10'"),
    "an unknown direction": (
        "better",
        "up",
        "better: unknown value 'up' (expected higher or lower",
    ),
    "no metric": ("metric", "", "metric: the field is empty; fill in a value"),
    "no workload": ("workload", " ", "workload: the field is empty; fill in a value"),
    "an unnamed parameter": (
        "point",
        "8",
        "point: invalid parameter '8' (expected NAME=VALUE, e.g. clients=8",
    ),
    "no value": ("point", "a=", "point: invalid parameter 'a='"),
    "a comma too many": ("point", "a=1,", "point: invalid parameter ''"),
    "a parameter twice": ("point", "a=1,a=2", "point: parameter 'a' given twice"),
    "a family": ("family", "main", "family: unknown value 'main' (expected primary or secondary"),
    "half a run": ("run", "1.5", "run: invalid count '1.5' (expected a whole number"),
    "a run before the first": ("run", "-1", "run: invalid count '-1' (expected a whole number"),
    "a round": ("round", "x", "round: invalid count 'x'"),
    "a step of nothing": ("resolution", "0", "resolution: invalid resolution '0'"),
    "a claim": ("claimed", "much", "claimed: invalid claim 'much' (expected a change in percent"),
    "a mean": ("claimed_mean", "1e5", "claimed_mean: invalid mean '1e5' (expected a number"),
    "a novel": ("unit", "s" * 1001, "`unit` has 1001 characters (expected at most 1000"),
}


@pytest.mark.parametrize("case", BAD_FIELDS)
def test_a_field_that_is_not_understood_is_refused_with_its_line(case: str, write: Write) -> None:
    column, text, message = BAD_FIELDS[case]
    columns = dict(zip(HEADER.split(","), ROW.split(","), strict=True)) | {column: text}
    row = ",".join(f'"{field}"' for field in columns.values())
    found = problem(write("# numbers", ",".join(columns), "", row))
    assert found.startswith("a.csv:4: ")
    assert message in found
    assert len(found) < 400


BAD_SUMMARIES = {
    "a value and a mean": (
        "1,1,,",
        "both `value` and `mean` are set (expected `value` for one run",
    ),
    "a spread of a run": ("1,,1%,", "`cv` or `n` set without `mean`"),
    "a count of a run": ("1,,,3", "`cv` or `n` set without `mean`"),
    "no number": (",,,", "no number in `value` or `mean`; add the number, or set `status`"),
    "a spread above 1": (",5,1.75,", "cv: '1.75' is 175% (expected"),
    "a negative spread": (",5,-1%,", "cv: invalid CV '-1%'"),
    "no spread": (
        ",5,small,",
        "cv: invalid CV 'small' (expected a percentage or fraction, e.g. 1.75% or 0.0175",
    ),
    "no run": (",5,1%,0", "n: invalid count 0 (expected 1 or more); leave the field empty"),
    "half a run": (",5,1%,2.5", "n: invalid count '2.5'"),
}


@pytest.mark.parametrize("case", BAD_SUMMARIES)
def test_a_row_is_a_run_or_a_summary(case: str, write: Write) -> None:
    fields, message = BAD_SUMMARIES[case]
    path = write("workload,metric,unit,better,value,mean,cv,n", f"t,m,s,lower,{fields}")
    assert problem(path).startswith(f"a.csv:2: {message}")


@pytest.mark.parametrize("other", [",6", "5,"])
def test_a_summary_stands_alone_on_its_side(write: Write, other: str) -> None:
    header = "side,workload,metric,unit,better,value,mean"
    rows = ["A,t,m,s,lower,,5", "B,t,m,s,lower,,5", "", f"A,t,m,s,lower,{other}"]
    assert problem(write(header, *rows)).startswith("a.csv:5: second row for a side with a `mean`")
    assert len(read_table(write(header, *rows[:2]))) == 2


BAD_FILES = {
    "nothing": (b"", "a.csv:1: empty table (expected a header with column names)"),
    "comments": (b"# a\n# b\n", "empty table"),
    "a header": (f"# a\n{HEADER}\n".encode(), "a.csv:2: header without rows"),
    "a bundle": (b"boots/0/host.json\0\0", "a.csv:1: contains a NUL byte; save the table as text"),
    "a NUL byte further on": (f"{HEADER}\n{ROW}\n\0".encode(), "a.csv:3: contains a NUL byte"),
    "Latin-1": (f"{HEADER}\ntb\xe4nch".encode("latin-1"), "a.csv:2: invalid UTF-8"),
    "half of UTF-16": (codecs.BOM_UTF16_LE + b"abc", "invalid UTF-8"),
    "a row that was cut off": (
        f"{HEADER}\n{ROW}\ntbench,clients".encode(),
        "a.csv:3: 2 fields (expected 6, as in the header); quote fields that contain a comma",
    ),
    "a row that is too long": (f"{HEADER}\n{ROW},5".encode(), "a.csv:2: 7 fields (expected 6"),
    "a quote that never ends": (f'{HEADER}\n{ROW}\n"tbench'.encode(), "a.csv:3: cannot be parsed"),
    "text behind a quote": (f'{HEADER}\n"a"b,,m,s,lower,1'.encode(), "a.csv:2: cannot be parsed"),
    "an enormous field": (f"{HEADER}\n{'x' * 200_000}".encode(), "a.csv:2: cannot be parsed"),
    "a late comment": (
        f"{HEADER}\n#{ROW}".encode(),
        "a.csv:2: comments are only allowed above the header",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_is_no_table_is_refused(case: str, put: Put) -> None:
    content, message = BAD_FILES[case]
    assert message in problem(put(content))


def test_a_line_number_counts_the_lines_of_the_file(write: Write) -> None:
    quoted = '"a\n\nb",,m,s,lower,1'
    assert problem(write("#", HEADER, quoted, "", quoted, "x")).startswith("a.csv:10: 1 field")


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    assert "cannot be read: no such file" in problem(tmp_path / "absent.csv")
    assert "cannot be read: is a directory (expected a CSV file" in problem(tmp_path)
    os.mkfifo(tmp_path / "fifo.csv")
    assert "not a regular file" in problem(tmp_path / "fifo.csv")
    assert "cannot be read: file name too long" in problem(tmp_path / ("x" * 500))


def test_an_enormous_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    assert problem(path) == f"a.csv: larger than {LARGEST_BYTES} bytes; split the file"


def test_rows_without_end_are_refused(put: Put) -> None:
    path = put(f"{HEADER}\n".encode() + f"{ROW}\n".encode() * (MOST_ROWS + 1))
    assert f"more than {MOST_ROWS} rows; split the table" in problem(path)


def test_sides_without_end_are_refused(write: Write) -> None:
    rows = [f"side {number},{ROW}" for number in range(MOST_SIDES + 1)]
    message = problem(write(f"side,{HEADER}", *rows))
    assert message == (
        f"a.csv: {MOST_SIDES + 1} sides (expected at most {MOST_SIDES}); split the table"
    )


def test_damage_never_ends_in_anything_but_a_table_or_one_line(put: Put) -> None:
    chance = random.Random(5)  # noqa: S311 # damage, not a secret
    whole = f'# a\n{HEADER},claimed\n{ROW},-1%\n"x ""y""","a=1,b=2",m,s,lower,1e3,\n'.encode()
    outcomes = set()
    for _ in range(2000):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        del damaged[chance.randint(0, 4 * len(damaged)) :]
        try:
            outcomes.add("empty" if read_table(put(bytes(damaged))).empty else "table")
        except InputError as error:
            outcomes.add("lines" if "\n" in str(error) else "one line")
    assert outcomes == {"table", "one line"}


def test_a_missing_resolution_is_the_last_digit_of_the_longest_number(write: Write) -> None:
    header = "workload,metric,unit,better,value,resolution"
    lines = ["a,t,s,lower,1.5,", "a,t,s,lower,1.25,", "a,t,s,lower,2,0.5", "a,n,count,lower,7,"]
    runs = read_table(write(header, *lines))
    assert runs["resolution"].tolist() == pytest.approx([0.01, 0.01, 0.5, math.nan], nan_ok=True)
