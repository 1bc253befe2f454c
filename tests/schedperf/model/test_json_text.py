# SPDX-License-Identifier: GPL-2.0-or-later
"""JSON text: what it says is what was given, and lists of numbers take one line."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.model.json_text import write_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_it_says_what_was_given(value: object) -> None:
    assert json.loads(write_json(value)) == value


def test_a_list_of_numbers_takes_one_line() -> None:
    text = write_json({"low": [1, -2.5, None, 3e-7], "name": "a,\n 1"})
    assert text == '{\n "low": [1, -2.5, null, 3e-07],\n "name": "a,\\n 1"\n}\n'


def test_what_json_has_no_word_for_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(math.nan)
