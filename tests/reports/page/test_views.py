# SPDX-License-Identifier: GPL-2.0-or-later
"""What the templates get: ids of anchors, and the numbers and labels of charts."""

import re

from schedperf_reports.page.views import make_safe
from schedperf_reports.words.anchors import anchor_id


def test_anchors_of_odd_texts_differ_and_are_short() -> None:
    odd = ["a b", "a-b", "a\tb", "a<b", "x" * 500, "x" * 501, "\ud800"]
    ids = [anchor_id("layout", text) for text in odd]
    assert len(set(ids)) == len(odd)
    assert max(map(len, ids)) < 150
    assert not any(re.search(r"[\s<>\"'&]", one) for one in ids)


def test_charts_are_json_without_markup_and_without_nan() -> None:
    data = {"x": [1, float("nan"), float("inf")], "text": ("a<b>\u202ec\x1b",), "n": None}
    assert make_safe(data, is_chart=True) == {"x": [1, None, None], "text": ["a&lt;b>c"], "n": None}
    assert make_safe(data) == {"x": [1, None, None], "text": ["a<b>c"], "n": None}


def test_numbers_of_charts_are_as_long_as_can_be_seen() -> None:
    data = {"x": [0.30000000000000004, 1.23456789e-9, 123456789.0, 123456789]}
    assert make_safe(data, is_chart=True) == {"x": [0.3, 1.23457e-09, 123457000.0, 123456789]}
    assert make_safe(data) == data
