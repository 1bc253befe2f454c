# SPDX-License-Identifier: GPL-2.0-or-later
"""The weekly digest: weak and empty cases are lines, and hostile states are refused."""

import json

import pytest

from schedperf.model.errors import InputError
from schedperf.publish.mail.checks.form import check_digest
from schedperf.publish.mail.headers import parse
from schedperf.publish.mail.nights import NightSummary, directions_of, read_night
from schedperf.publish.mail.render.digest import draft_digest
from tests.schedperf.publish.mail.checks.cases import make_context, make_mail
from tests.schedperf.publish.mail.records import NOW, SWEEP, make_comparison, make_site, no_change

NIGHT = {"schema": "schedperf/night/1", "id": "2026-11-26", "machine": "2x48", "job": "hackbench"}


def night(**fields: object) -> bytes:
    return json.dumps({**NIGHT, **fields}).encode()


def test_a_week() -> None:
    nights = [
        read_night(night(outcome="no change"), "state.json"),
        read_night(night(id="2026-11-27", failed=True, outcome="new: did not boot"), "state.json"),
        read_night(night(id="2026-11-28"), "state.json"),
    ]
    mails = [make_mail(make_context(), "held")]
    message = draft_digest([make_comparison(*SWEEP)], nights, mails, make_site(), NOW)
    assert check_digest(message).passed, check_digest(message)
    assert message.metadata.subject == "[schedperf] 2026 week 48: 2 regressions, 1 of 3 nights"
    assert message.metadata.to == ("sched-perf@lab.example",)
    assert not message.metadata.public
    body = message.content.decode().partition("\n\n")[2]
    assert body == (
        "  tracked     3 results on 1 machine in 1 comparison; 0 inconclusive or\n"
        "              invalid\n"
        "  sensitivity median smallest detectable change 3% (80% power)\n"
        "  regressed   +21.8% [+16.1%, +27.9%] hackbench time (hackbench -p -l 4000\n"
        "              -g 16), n = 8+8 boots\n"
        "              +8.9% [+6.0%, +11.9%] hackbench time (hackbench -p -l 4000\n"
        "              -g 4), n = 8+8 boots\n"
        "  retested    0 suspected regressions, 0 reproduced\n"
        "  balance     no change found by the nights\n"
        "  lost        2x48, hackbench, 2026-11-27: new: did not boot\n"
        "              2x48, hackbench, 2026-11-28: unfinished\n"
        "  mails       1 held, 0 approved, 0 sent\n"
        "-- \nschedperf, run by Example lab, perf-team@lab.example\n"
    )


def test_an_empty_week_is_a_digest_too() -> None:
    message = draft_digest([], [], [], make_site(), NOW)
    assert check_digest(message).passed
    assert message.metadata.subject == "[schedperf] 2026 week 48: no results, 0 comparisons"
    text = message.content.decode()
    assert "smallest detectable change unknown" in text
    assert "  retested    no nights of the last 7 days were given\n" in text
    assert "  lost        no nights of the last 7 days were given\n" in text
    message = draft_digest([make_comparison(no_change())], [], [], make_site(), NOW)
    assert message.metadata.subject == "[schedperf] 2026 week 48: no regressions, 1 comparison"
    found = draft_digest([], [read_night(night(outcome="x"), "state.json")], [], make_site(), NOW)
    assert "  lost        0\n" in found.content.decode()


def states(*verdicts: str | None) -> list[NightSummary]:
    """Return old nights, the newest first."""
    return [
        read_night(night(id=f"2026-09-{30 - back}", verdict=verdict, outcome="x"), "state.json")
        for back, verdict in enumerate(verdicts)
    ]


def test_changes_of_all_nights_are_counted_and_those_of_the_week_listed() -> None:
    nights = states(*["regression"] * 17, "no-change", None)
    assert directions_of(nights) == [True] * 17
    text = " ".join(draft_digest([], nights, [], make_site(), NOW).content.decode().split())
    assert "no results, 0 comparisons" in text
    assert "17 regressions and 0 improvements among the last changes that" in text
    assert "run A/A comparisons" in text
    nights = states("improvement", "regression", "regression", "inconclusive")
    assert directions_of(nights) == [True, True, False]
    text = " ".join(draft_digest([], nights, [], make_site(), NOW).content.decode().split())
    assert "2 regressions and 1 improvement among the last changes that" in text
    assert "A/A" not in text


def test_retests() -> None:
    retests = ("regression", "no-change", None, "regression")
    nights = [
        read_night(night(verdict="regression", retest=retest, outcome="x"), "state.json")
        for retest in retests
    ]
    text = draft_digest([], nights, [], make_site(), NOW).content.decode()
    assert "  retested    4 suspected regressions, 2 reproduced; 1 not retested\n" in text


def test_one_digest_a_week() -> None:
    first = draft_digest([], [], [], make_site(), NOW)
    again = draft_digest([make_comparison()], [], [], make_site(), NOW)
    assert first.metadata.message_id == again.metadata.message_id
    assert parse(first.content)["Message-ID"].startswith("<schedperf.1.2026-w48.")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"schema": "schedperf/night/2", "id": "x", "machine": "x", "job": "x"}',
        night(machine=5),
        night(job="x" * 10_000),
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_damaged_states_are_refused(content: bytes) -> None:
    with pytest.raises(InputError) as refused:
        read_night(content, "state.json")
    assert str(refused.value).startswith("state.json")
    assert len(str(refused.value).splitlines()) == 1


def test_hostile_names_are_refused_or_cleaned() -> None:
    cleaned = read_night(night(outcome="a\r\nBcc: x@y \x1b[31m" + "x" * 500), "state.json")
    message = draft_digest([], [cleaned, cleaned], [], make_site(), NOW)
    assert check_digest(message).passed
    with pytest.raises(InputError, match="expected ASCII"):
        draft_digest([], [read_night(night(machine="机"), "state.json")], [], make_site(), NOW)
