# SPDX-License-Identifier: GPL-2.0-or-later
"""The proof that kills send no mail twice: a small part of it, and that it notices errors."""

import pytest

from bench.outbox.__main__ import judge, main
from bench.outbox.trace import Traced
from bench.outbox.trial import Result, is_in_delivery


@pytest.mark.slow
def test_kills_send_no_mail_twice_and_lose_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--each", "1", "--step", "6", "--delivery", "10"]) == 0
    assert "kills during the delivery: 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("copies", "state", "has_newer", "problem"),
    [
        (1, "sent", True, None),
        (2, "sent", True, "sent twice"),
        (0, "sent", True, "lost"),
        (0, "sending", True, "left in sending"),
        (0, "sending", False, None),
        (1, "approved", False, "left in approved"),
    ],
)
def test_the_end_of_a_trial_is_judged(
    copies: int, state: str, *, has_newer: bool, problem: str | None
) -> None:
    result = Result(Traced((), killed=True, status=None), 1, copies, state)
    assert judge(result, has_newer=has_newer) == problem


def test_the_delivery_ends_with_the_answer_to_the_text() -> None:
    before = ("rename", "connect", *("sendto", "recvfrom") * 5)
    killed = {
        before[:1]: False,
        before[:2]: True,
        before: True,
        (*before, "sendto"): True,
        (*before, "sendto", "recvfrom"): False,
    }
    for calls, expected in killed.items():
        assert is_in_delivery(Traced(calls, killed=True, status=None)) is expected
        assert not is_in_delivery(Traced(calls, killed=False, status=0))
