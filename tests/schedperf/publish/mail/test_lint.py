# SPDX-License-Identifier: GPL-2.0-or-later
"""The lint finds what lists refuse and what readers stumble over."""

import pytest

from schedperf.publish.mail.lint import lint
from tests.schedperf.publish.mail.checks.cases import make_context

CONTENT = make_context().message.content


def changed(old: str, new: str) -> bytes:
    assert old.encode() in CONTENT
    return CONTENT.replace(old.encode(), new.encode(), 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (changed(".config: identical.", "x" * 79), "79 columns"),
        (changed(".config: identical.", "x\n" * 100), "lines (expected at most 100)"),
        (changed(".config: identical.", f"{'x' * 77}\n" * 160), "bytes (expected at most 12000)"),
        (changed(".config: identical.", "µs"), "body not in ASCII"),
        (changed(".config: identical.", "a\rb"), "carriage return"),
        (changed(".config: identical.", "The mean is nan."), "'nan'"),
        (changed(".config: identical.", "The mean is None."), "'None'"),
        (changed(".config: identical.", "Empty:"), "empty section 'Empty:'"),
        (changed(".config: identical.", "+3 % more"), "blank before a percent sign"),
        (changed(".config: identical.", "[+1.0 .. +2.0%]"), "interval"),
        (changed(".config: identical.", "This is within noise."), "significant"),
        (changed(".config: identical.", "#regzbot ^introduced 123"), "regzbot"),
        (changed("text/plain", "text/html"), "content type text/html"),
        (changed("Subject: ", f"Subject: {'x' * 60} "), "subject of"),
        (changed("From: schedperf", "From: schedpérf"), "header not in ASCII"),
        (b"\xff\xfe", "invalid header"),
        (CONTENT.replace(b"95% CI", b"range"), "no CI in the first 20 lines"),
    ],
)
def test_faults(content: bytes, said: str) -> None:
    assert any(said in fault for fault in lint(content)), lint(content)


def test_a_mail_in_order_has_none() -> None:
    assert lint(CONTENT) == []
    assert lint(changed(".config: identical.", "#regzbot introduced: 0123456789ab")) == []


def test_quoted_texts_may_say_anything() -> None:
    content = changed("Wake the previous CPU first", "this walk is None within noise")
    assert lint(content) != []
    assert lint(content, ["sched/fair: this walk is None within noise"]) == []
