# SPDX-License-Identifier: GPL-2.0-or-later
"""Untrusted JSON becomes the dataclass that describes it, or one line says what is wrong where."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from schedperf.inputs.bundle.json import (
    MAX_JSON_DEPTH,
    MAX_JSON_INTEGER,
    MOST_JSON_VALUES,
    Count,
    Sentence,
    decode,
)
from schedperf.model.errors import BundleError


class Row(Struct, frozen=True, kw_only=True):
    """A part with a rule that no type can say."""

    event: Literal["fork", "exec"] | None
    count: Count
    of: Count = MAX_JSON_INTEGER - 1

    def __post_init__(self) -> None:
        """Refuse parts that are more than the whole."""
        if self.count > self.of:
            raise ValueError(f"{self.count} of {self.of}")


class Record(Struct, frozen=True, kw_only=True):
    """One of each kind of value."""

    rows: Annotated[tuple[Row, ...], Meta(max_length=2)] = ()
    by_cpu: Mapping[Annotated[int, Meta(ge=0, lt=8192)], Row | None] | None = None
    seconds: Annotated[float, Meta(gt=0)] = 1.0
    name: Annotated[str, Meta(max_length=50)] = ""
    is_on: bool = False
    why: Sentence | None = None


def read(content: Any) -> Record:
    return decode(json.dumps(content).encode(), Record, "a.tar: x.json")


def test_what_fits_is_a_dataclass_with_tuples_and_numbers_as_keys() -> None:
    row = {"event": "fork", "count": 3}
    found = read({"rows": [row], "by_cpu": {"0": row, "12": None}, "seconds": 2, "later": {}})
    assert found.rows == (Row(event="fork", count=3),)
    assert found.by_cpu == {0: Row(event="fork", count=3), 12: None}
    assert (found.seconds, found.name) == (2.0, "")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([], "$ is [] (expected object, got array)"),
        ({"rows": None}, "$.rows is null (expected array, got null)"),
        ({"rows": [{}]}, "$.rows[0].event is missing"),
        ({"rows": [{"event": "vfork", "count": 1}]},
         '$.rows[0].event is "vfork" (expected "exec" or "fork")'),
        ({"rows": [{"event": None, "count": -1}]}, "$.rows[0].count is -1 (expected int >= 0)"),
        ({"rows": [{"event": None, "count": True}]},
         "$.rows[0].count is true (expected int, got bool)"),
        ({"rows": [{"event": None, "count": 1.5}]},
         "$.rows[0].count is 1.5 (expected int, got float)"),
        ({"rows": [{"event": None, "count": 3, "of": 2}]}, "$.rows[0]: 3 of 2"),
        ({"rows": [1, 2, 3]}, "$.rows is [1, 2, 3] (expected array of length <= 2)"),
        ({"by_cpu": {"0": {"event": "x", "count": 1}}},
         '$.by_cpu[...].event is invalid (expected "exec" or "fork")'),
        ({"by_cpu": {"9999": None}}, "key in $.by_cpu is invalid (expected int <= 8191)"),
        ({"by_cpu": {"00": None}}, "key in $.by_cpu is invalid (expected int, got str)"),
        ({"by_cpu": {"+1": None}}, "key in $.by_cpu is invalid (expected int, got str)"),
        ({"by_cpu": {"-0": None}}, 'invalid JSON: invalid key "-0"'),
        ({"seconds": 0}, "$.seconds is 0 (expected float > 0.0)"),
        ({"why": ["x"]}, '$.why is ["x"] (expected str)'),
        ({"name": "x" * 90}, f'$.name is "{"x" * 38}… (expected str of length <= 50)'),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line_with_the_place(content: Any, problem: str) -> None:
    with pytest.raises(BundleError) as caught:
        read(content)
    assert str(caught.value).startswith(f"a.tar: x.json: {problem}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "expecting value"),
        (b'{"seconds": NaN}', "invalid number NaN"),
        (b'{"seconds": -Infinity}', "invalid number -Infinity"),
        (b'{"seconds": 1e999}', "number too large"),
        (b'{"later": %d}' % MAX_JSON_INTEGER, "number too large"),
        (b'{"later": ' + b"9" * 5000 + b"}", "exceeds the limit"),
        (b'{"later": ' + b"[" * MAX_JSON_DEPTH + b"]" * MAX_JSON_DEPTH + b"}", "nested too deeply"),
        (b"[" * MAX_JSON_DEPTH + b"1" + b"]" * MAX_JSON_DEPTH, "nested too deeply"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"name": "\xff"}', "invalid UTF-8"),
        (b'{"seconds": 1, "seconds": 1}', 'duplicate key "seconds"'),
        (b'{"later": [{"a": {"b": 1, "b": []}}]}', 'duplicate key "b"'),
        (b'{"\\u001b[31m": 1, "\\u001b[31m": 1}', 'duplicate key "\\u001b[31m"'),
        (b'{"later": [' + b"[]," * MOST_JSON_VALUES + b"0]}", "too many values"),
    ],
)
def test_what_no_json_of_ours_holds_is_refused_anywhere(text: bytes, problem: str) -> None:
    with pytest.raises(BundleError, match=rf"^a\.tar: invalid JSON: .*{re.escape(problem)}"):
        decode(text, Record, "a.tar")


def test_bytes_of_a_name_that_are_no_text_are_replaced() -> None:
    assert read({"name": "a\udcffb"}).name == "a\N{REPLACEMENT CHARACTER}b"


def test_a_sentence_is_cut_and_nothing_else() -> None:
    found = read({"why": "x" * 1000, "name": "y" * 40})
    assert (found.why, found.name) == (f"{'x' * 299}…", "y" * 40)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda child: (
        st.lists(child, max_size=3)
        | st.dictionaries(st.sampled_from(["rows", "by_cpu", "event", "count", "0", "`"]), child)
    ),
    max_leaves=8,
)


@pytest.mark.property
@given(content=_JSON)
def test_any_json_is_a_record_or_one_line(content: Any) -> None:
    try:
        found = read(content)
    except BundleError as error:
        assert "\n" not in str(error)  # noqa: PT017 # most are refused
    else:
        assert isinstance(found, Record)
