# SPDX-License-Identifier: GPL-2.0-or-later
"""A table of pairs is read, or refused in one line that names the line."""

from pathlib import Path

import pytest

from schedperf.compare.many import pairs
from schedperf.compare.many.pairs import Pair, read_pairs
from schedperf.model.errors import InputError


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "pairs.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_pairs_have_names_or_numbers(tmp_path: Path) -> None:
    text = "\ufeffnew,base,name,note\r\nn.tar,b.tar,first,x\r\ns3://a/n,s3://a/b,\r\n"
    assert read_pairs(write(tmp_path, text)) == (
        Pair(name="first", base="b.tar", new="n.tar"),
        Pair(name="2", base="s3://a/b", new="s3://a/n"),
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "no column base"),
        ("base,other\na,b\n", "no column new"),
        ("base,new\n", "no pairs"),
        ("base,new\na,\n", ":2: no new"),
        ("base,new\na\n", ":2: no new"),
        ("base,new\na,b\0c\n", ":2: "),
        ("base,new,name\na,b,../x\n", ":2: invalid name '../x'"),
        ("base,new,name\na,b,.hidden\n", ":2: invalid name"),
        ("base,new,name\na,b,\x1b[31m\n", ":2: invalid name '[31m'"),
        ("base,new,name\na,b,x\na,b,x\n", ":3: name x occurs twice"),
        ("base,new,name\na,b,2\na,b,\n", ":3: name 2 occurs twice"),
        ('base,new\n"a,b\n', "unexpected end of data"),
        (b"base,new\n\xff,b\n", "invalid UTF-8"),
        ("base,new\n" + "a" * 200_000 + ",b\n", "field larger than field limit"),
    ],
)
def test_an_invalid_table_is_one_line(tmp_path: Path, content: str | bytes, problem: str) -> None:
    with pytest.raises(InputError) as error:
        read_pairs(write(tmp_path, content))
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_the_number_of_pairs_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "MOST_PAIRS", 2)
    assert len(read_pairs(write(tmp_path, "base,new\n" + "a,b\n" * 2))) == 2
    with pytest.raises(InputError, match="more than 2 pairs"):
        read_pairs(write(tmp_path, "base,new\n" + "a,b\n" * 3))
