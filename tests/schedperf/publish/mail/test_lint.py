# SPDX-License-Identifier: GPL-2.0-or-later
"""The lint finds what lists refuse and what readers stumble over."""

import pytest

from schedperf.publish.mail.lint import lint
from tests.schedperf.publish.mail.checks.cases import make_context

CONTENT = make_context().message.content


def added(paragraph: str) -> bytes:
    """Return the mail with one more paragraph."""
    return changed("\n\nA person reads", f"\n\n{paragraph}\n\nA person reads")


def changed(old: str, new: str) -> bytes:
    assert old.encode() in CONTENT
    return CONTENT.replace(old.encode(), new.encode(), 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (added("x" * 79), "79 columns"),
        (added("x\n" * 100), "lines (expected at most 100)"),
        (
            added(f"{'x' * 77}\n" * 160),
            "bytes (expected at most 12000)",
        ),
        (added("µs"), "body not in ASCII"),
        (added("a\rb"), "carriage return"),
        (added("The mean is nan."), "'nan'"),
        (added("The mean is None."), "'None'"),
        (added("Empty:"), "empty section 'Empty:'"),
        (added("+3 % more"), "blank before a percent sign"),
        (added("[+1.0 .. +2.0%]"), "interval"),
        (added("This is within noise."), "significant"),
        (added("#regzbot ^introduced 123"), "regzbot"),
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
    assert lint(added("#regzbot introduced: 0123456789ab")) == []


def test_quoted_texts_may_say_anything() -> None:
    content = changed("Wake the previous CPU first", "this walk is None within noise")
    assert lint(content) != []
    assert lint(content, ["sched/fair: this walk is None within noise"]) == []
