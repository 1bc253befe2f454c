# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``form``: a count that differs between title and table, base64, ``nan``, dead links."""

import base64

import pytest
from msgspec.structs import replace

from schedperf.publish.mail.checks.form import check
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.checks.cases import make_context
from tests.schedperf.publish.mail.records import make_evidence, make_row


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"hackbench 21.8% regression", b"hackbench 12.8% regression", "figure 12.8%"),
        (b"21.8% slower [95%", b"nan slower [95%", "'nan'"),
        (b"+8.9%", b"+8.9 %", "blank before a percent sign"),
        (b"Wake the previous CPU first", b"Wake " + b"x" * 90, "columns"),
        (b"0123456789ab:", b"ba9876543210:", "commit ba9876543210"),
        (b"charset=us-ascii", b"charset=iso-8859-1", ""),
    ],
)
def test_faults_of_peers(old: bytes, new: bytes, said: str) -> None:
    context = make_context()
    content = context.message.content.replace(old, new)
    assert content != context.message.content
    result = check(replace(context, message=replace(context.message, content=content)))
    assert said in failure(result) if said else result.passed


def test_base64_is_held() -> None:
    context = make_context()
    header, _, body = context.message.content.partition(b"\n\n")
    header = header.replace(b"Encoding: 7bit", b"Encoding: base64")
    content = header + b"\n\n" + base64.encodebytes(body)
    result = check(replace(context, message=replace(context.message, content=content)))
    assert "base64" in failure(result)


def test_links_must_answer() -> None:
    assert "does not answer" in failure(check(make_context(is_reachable=lambda _: "no")))
    assert "does not answer" in failure(check(make_context(is_reachable=lambda _: "unknown")))
    assert "not checked" in failure(check(make_context(is_reachable=None)))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"-- hackbench", b"-- hackbench {groups}", "{groups} has no values"),
        (b"--boots 8", b"--boots eight", "schedperf refuses the printed command"),
        (b" -- hackbench -p -l 4000 -g 16", b"", "no workload after --"),
        (b"schedperf ab -o", b"schedperf run -o", "expected schedperf ab"),
        (b"--boots 8", b"--boots '8", "No closing quotation"),
    ],
)
def test_a_command_that_schedperf_refuses_is_held(old: bytes, new: bytes, said: str) -> None:
    context = make_context()
    content = context.message.content.replace(old, new)
    assert content != context.message.content
    result = check(replace(context, message=replace(context.message, content=content)))
    assert said in failure(result)


def test_a_placeholder_of_a_point_is_held() -> None:
    evidence = make_evidence(make_row(workload="hackbench -g {groups}", point="groups=16"))
    context = make_context(evidence)
    assert check(context).passed
    content = context.message.content.replace(b"  hackbench -g 16", b"  hackbench -g {groups}")
    result = check(replace(context, message=replace(context.message, content=content)))
    assert "placeholder {groups} without its value" in failure(result)
