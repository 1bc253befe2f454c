# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``quota``: 53 issues in two days (react_on_rails#3755), or a mail after a stop, is held."""

from msgspec.structs import replace

from schedperf.publish.mail.checks.quota import check
from schedperf.publish.mail.outbox import Decision, Mail, State
from schedperf.publish.mail.site import Quota
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.checks.cases import make_context, make_mail
from tests.schedperf.publish.mail.records import make_site


def make_earlier(when: str, state: State = "sent") -> Mail:
    """Return another mail to the same people."""
    mail = make_mail(make_context(), state, when)
    return mail._replace(
        metadata=replace(mail.metadata, message_id=f"<{mail.id}.{when}@lab.example>")
    )


SENT = make_earlier("2026-11-27T06:00:00+00:00")


def test_two_a_day() -> None:
    assert "quota of 2 mails per day is used up" in failure(
        check(make_context(earlier=[SENT, SENT]))
    )
    assert check(make_context(earlier=[SENT])).passed


def test_two_per_recipient_and_week() -> None:
    old = make_earlier("2026-11-23T06:00:00+00:00")
    assert "per week is used up for ada@kernel.example" in failure(
        check(make_context(earlier=[old, old]))
    )
    site = make_site(quota=Quota(per_recipient_and_week=3))
    assert check(make_context(site=site, earlier=[old, old])).passed
    ancient = make_earlier("2026-10-01T06:00:00+00:00")
    assert check(make_context(earlier=[ancient, ancient])).passed


def test_held_mails_do_not_count() -> None:
    held = make_earlier("2026-11-27T06:00:00+00:00", "held")
    assert check(make_context(earlier=[held, held, held])).passed


def test_stop_silences_the_thread() -> None:
    stop = Decision(
        act="silence", when="2026-11-26T06:00:00+00:00", who="ada", thread="0123456789ab"
    )
    assert "were silenced by a reply (ada)" in failure(check(make_context(decisions=[stop])))
    assert check(make_context(decisions=[replace(stop, thread="999999999999")])).passed


def test_a_suspended_address() -> None:
    bounce = Decision(
        act="suspend", when="2026-11-26T06:00:00+00:00", who="bounce", address="Ada@kernel.example"
    )
    assert "mails to ada@kernel.example bounced" in failure(check(make_context(decisions=[bounce])))
