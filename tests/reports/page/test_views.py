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


def test_data_of_graphics_are_json_without_nan() -> None:
    data = {"x": [1, float("nan"), float("inf")], "text": ("a<b>\u202ec\x1b",), "n": None}
    assert make_safe(data) == {"x": [1, None, None], "text": ["a<b>c"], "n": None}
