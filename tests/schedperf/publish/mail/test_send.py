# SPDX-License-Identifier: GPL-2.0-or-later
"""Sending: once, what is settled after an interruption, and what holds a mail back."""

import os
import resource
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.model.errors import InputError
from schedperf.publish.mail.archive import open_archive
from schedperf.publish.mail.envelope import Envelope
from schedperf.publish.mail.outbox import Decision, Outbox
from schedperf.publish.mail.send import Sender, Sent
from schedperf.publish.mail.site import Archive, MailSite
from schedperf.publish.mail.transports import (
    Accepted,
    Deliver,
    Failed,
    Outcome,
    Postponed,
    Refused,
    Unknown,
)
from tests.mails import COMMIT, NOW, make_message, make_outbox, make_site

MESSAGE = make_message()
ID = MESSAGE.metadata.id
MINUTE = timedelta(minutes=1)


class Transport:
    """Answer as the test asks, and keep what was sent."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.sent: list[bytes] = []

    def __call__(self, content: bytes, envelope: Envelope) -> Outcome:
        assert envelope.recipients
        self.sent.append(content)
        return self.outcome


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return make_outbox(tmp_path / "outbox", MESSAGE, state="approved")


@pytest.fixture
def site(tmp_path: Path) -> MailSite:
    for folder in ("new", "cur", "tmp"):
        (tmp_path / "archive" / folder).mkdir(parents=True)
    return replace(
        make_site(tmp_path / "outbox"), archive=Archive(maildir=str(tmp_path / "archive"))
    )


def send(
    outbox: Outbox, site: MailSite, deliver: Deliver | None, now: datetime = NOW
) -> list[Sent]:
    return list(Sender(outbox, site, deliver, open_archive(site.archive), now).send())


def archive(site: MailSite, content: bytes, when: datetime, name: str = "1") -> None:
    assert site.archive is not None
    assert site.archive.maildir is not None
    path = Path(site.archive.maildir) / "new" / name
    path.write_bytes(content)
    os.utime(path, (when.timestamp(), when.timestamp()))


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Accepted(), "sent"),
        (Accepted("x: 550 no"), "sent"),
        (Refused("554 spam"), "refused"),
        (Postponed("450 later"), "approved"),
        (Failed("connection refused"), "approved"),
        (Unknown("connection lost"), "sending"),
    ],
)
def test_an_outcome_gives_a_state(
    outbox: Outbox, site: MailSite, outcome: Outcome, state: str
) -> None:
    transport = Transport(outcome)
    (sent,) = send(outbox, site, transport)
    mail = outbox.find(ID)
    assert mail.state == state
    assert mail.last.reason == sent.reason
    assert transport.sent == [MESSAGE.content]
    send(outbox, site, transport)
    # What is unknown is never sent again without an answer of the archive.
    assert len(transport.sent) == (2 if state == "approved" else 1)


def test_without_a_transport_nothing_moves(outbox: Outbox, site: MailSite) -> None:
    (sent,) = send(outbox, site, None)
    assert sent.result == "waits"
    assert "resolve --arrived" in sent.reason
    assert outbox.find(ID).state == "approved"


def test_held_mails_are_not_sent(tmp_path: Path, site: MailSite) -> None:
    outbox = make_outbox(tmp_path / "outbox", make_message(2))
    transport = Transport(Accepted())
    assert send(outbox, site, transport) == []
    assert transport.sent == []


def interrupted(outbox: Outbox) -> None:
    outbox.move(outbox.find(ID), "sending", "schedperf mail send", now=NOW)


def test_found_in_the_archive(outbox: Outbox, site: MailSite) -> None:
    interrupted(outbox)
    archive(site, MESSAGE.content, NOW + MINUTE)
    transport = Transport(Accepted())
    assert send(outbox, site, transport, NOW + 2 * MINUTE) == [
        Sent(id=ID, result="sent", reason="found in the archive")
    ]
    assert transport.sent == []


@pytest.mark.parametrize("newest", [None, -1, 0, 29])
@pytest.mark.parametrize("later", [1, 31, 100_000])
def test_not_found_does_not_count_without_a_newer_message(
    outbox: Outbox, site: MailSite, newest: int | None, later: int
) -> None:
    interrupted(outbox)
    if newest is not None:
        archive(site, b"Message-ID: <other@example.org>\n\n", NOW + newest * MINUTE)
    transport = Transport(Accepted())
    (sent,) = send(outbox, site, transport, NOW + later * MINUTE)
    assert sent.result == "waits"
    assert outbox.find(ID).state == "sending"
    assert transport.sent == []


def test_not_found_beside_a_newer_message_is_sent_again(outbox: Outbox, site: MailSite) -> None:
    interrupted(outbox)
    archive(site, b"Message-ID: <other@example.org>\n\n", NOW + 30 * MINUTE)
    transport = Transport(Accepted())
    first, second = send(outbox, site, transport, NOW + 31 * MINUTE)
    assert (first.result, second.result) == ("approved", "sent")
    assert transport.sent == [MESSAGE.content]


def test_a_clock_that_jumps_sends_nothing_again(outbox: Outbox, site: MailSite) -> None:
    # The clock was a year behind at the attempt; the archive had newer messages all the time.
    archive(site, b"Message-ID: <other@example.org>\n\n", NOW)
    past = NOW - timedelta(days=365)
    mail = outbox.find(ID)
    outbox.move(mail, "sending", "schedperf mail send", now=past, archived_until=NOW.isoformat())
    transport = Transport(Accepted())
    assert send(outbox, site, transport, NOW + 20 * MINUTE)[0].result == "waits"
    # A mail that claims to be from the future proves nothing.
    archive(site, b"Message-ID: <future@example.org>\n\n", NOW + timedelta(days=9), "2")
    assert send(outbox, site, transport, NOW + 40 * MINUTE)[0].result == "waits"
    # The clock was set back behind the attempt.
    assert send(outbox, site, transport, past - MINUTE)[0].result == "waits"
    assert transport.sent == []


def test_without_an_archive_a_person_decides(outbox: Outbox, site: MailSite) -> None:
    interrupted(outbox)
    transport = Transport(Accepted())
    later = NOW + timedelta(days=365)
    (sent,) = send(outbox, replace(site, archive=None), transport, later)
    assert sent.result == "waits"
    assert sent.reason.startswith("interrupted, and mail.toml names no archive; look for it")
    assert transport.sent == []


def test_nothing_is_sent_while_the_archive_does_not_answer(outbox: Outbox, site: MailSite) -> None:
    transport = Transport(Accepted())
    broken = replace(site, archive=Archive(maildir="/no/such/maildir"))
    (sent,) = send(outbox, broken, transport)
    assert sent.result == "failed"
    assert "cannot be read" in sent.reason
    interrupted(outbox)
    assert send(outbox, broken, transport)[0].result == "waits"
    assert transport.sent == []


def test_one_problem_of_the_folders_stops_all(outbox: Outbox, site: MailSite) -> None:
    (outbox.path / "sent" / "notes.txt").write_text("text")
    transport = Transport(Accepted())
    with pytest.raises(InputError, match="not a mail of the outbox"):
        send(outbox, site, transport)
    assert transport.sent == []


def test_changed_bytes_are_not_sent(outbox: Outbox, site: MailSite) -> None:
    (outbox.path / "approved" / f"{ID}.eml").write_bytes(MESSAGE.content + b"more\n")
    transport = Transport(Accepted())
    with pytest.raises(InputError, match="the file changed after it was approved"):
        send(outbox, site, transport)
    assert transport.sent == []


def test_two_senders_at_once(outbox: Outbox, site: MailSite) -> None:
    def again(content: bytes, envelope: Envelope) -> Outcome:  # noqa: ARG001 # a transport
        with pytest.raises(InputError, match="another schedperf mail command"):
            send(Outbox(outbox.path), site, Transport(Accepted()))
        return Accepted()

    assert [sent.result for sent in send(outbox, site, again)] == ["sent"]


def test_a_silenced_thread_is_withdrawn(outbox: Outbox, site: MailSite) -> None:
    outbox.decide(Decision(act="silence", when=NOW.isoformat(), who="A. U. Thor", thread=COMMIT))
    transport = Transport(Accepted())
    assert send(outbox, site, transport)[0].result == "withdrawn"
    assert transport.sent == []


def test_quotas(tmp_path: Path, site: MailSite) -> None:
    commits = [f"{number:012x}" for number in range(5)]
    messages = [make_message(commit=commit, to=(f"{commit}@lists.example",)) for commit in commits]
    outbox = make_outbox(tmp_path / "more", *messages, state="approved")
    transport = Transport(Accepted())
    results = [sent.result for sent in send(outbox, site, transport)]
    assert results == ["sent", "sent", "approved", "approved", "approved"]
    # A clock that was set back does not renew the quota.
    assert len(_sent(send(outbox, site, transport, NOW - timedelta(days=9)))) == 0
    assert len(_sent(send(outbox, site, transport, NOW + timedelta(days=1)))) == 2
    assert len(_sent(send(outbox, site, transport, NOW + timedelta(days=2)))) == 1


def test_a_quota_of_zero_stops_all(outbox: Outbox, site: MailSite) -> None:
    stopped = replace(site, quota=replace(site.quota, per_day=0))
    (sent,) = send(outbox, stopped, Transport(Accepted()))
    assert sent.result == "approved"
    assert sent.reason == "per_day is 0 in mail.toml, so nothing is sent; increase it"


def test_quota_of_a_recipient(tmp_path: Path, site: MailSite) -> None:
    commits = [f"{number:012x}" for number in range(3)]
    outbox = make_outbox(
        tmp_path / "more", *(make_message(commit=commit) for commit in commits), state="approved"
    )
    generous = replace(site, quota=replace(site.quota, per_day=9))
    transport = Transport(Accepted())
    results = send(outbox, generous, transport)
    assert [sent.result for sent in results] == ["sent", "sent", "approved"]
    assert "2 mails per week is used up for author@example.org" in results[-1].reason
    assert len(_sent(send(outbox, generous, transport, NOW + timedelta(days=8)))) == 1


def test_mails_that_a_person_sent_count(tmp_path: Path, site: MailSite) -> None:
    commits = [f"{number:012x}" for number in range(3)]
    messages = [make_message(commit=commit, to=(f"{commit}@lists.example",)) for commit in commits]
    outbox = make_outbox(tmp_path / "more", *messages, state="approved")
    for mail in outbox.mails()[:2]:
        outbox.move(mail, "sent", "person", "arrived", now=NOW)
    assert _sent(send(outbox, site, Transport(Accepted()))) == []
    assert len(_sent(send(outbox, site, Transport(Accepted()), NOW + timedelta(days=1)))) == 1


def _sent(results: list[Sent]) -> list[Sent]:
    return [sent for sent in results if sent.result == "sent"]


@pytest.mark.parametrize("address", ["other@example.com", "regressions@vger.kernel.org"])
def test_addresses_that_are_not_allowed(tmp_path: Path, site: MailSite, address: str) -> None:
    outbox = make_outbox(tmp_path / "more", make_message(cc=(address,)), state="approved")
    transport = Transport(Accepted())
    (sent,) = send(outbox, site, transport)
    assert sent.result == "waits"
    assert sent.reason == f"{address} may not be written to; add it to allow in mail.toml"
    assert transport.sent == []


def test_a_reply_waits_for_the_report(tmp_path: Path, site: MailSite) -> None:
    report = make_message()
    parent = f"In-Reply-To: {report.metadata.message_id}\n"
    reply = make_message(kind="again", references=parent)
    outbox = make_outbox(tmp_path / "more", report, reply)
    outbox.move(outbox.find("again.1"), "approved", "person", now=NOW)
    transport = Transport(Accepted())
    (sent,) = send(outbox, site, transport)
    assert sent.result == "waits"
    assert sent.reason == f"answers {report.metadata.id}, which is held; send that one first"
    assert transport.sent == []
    outbox.move(outbox.find("report.1"), "approved", "person", now=NOW - MINUTE)
    assert [each.result for each in send(outbox, site, transport)] == ["sent", "sent"]
    assert transport.sent == [report.content, reply.content]


class Disk:
    """A disk that a test fills: no file of this process may hold a byte more."""

    def fill(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def empty(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.empty()


def test_nothing_is_sent_if_the_disk_is_full(outbox: Outbox, site: MailSite, disk: Disk) -> None:
    transport = Transport(Accepted())
    disk.fill()
    with pytest.raises(InputError, match="cannot be written: file too large"):
        send(outbox, site, transport)
    disk.empty()
    assert transport.sent == []
    assert outbox.find(ID).state == "approved"


def test_a_disk_that_is_full_after_the_delivery_sends_nothing_twice(
    outbox: Outbox, site: MailSite, disk: Disk
) -> None:
    transport = Transport(Accepted())

    def deliver(content: bytes, envelope: Envelope) -> Outcome:
        disk.fill()
        return transport(content, envelope)

    with pytest.raises(InputError, match="cannot be written: file too large"):
        send(outbox, site, deliver)
    disk.empty()
    assert outbox.find(ID).state == "sending"
    archive(site, MESSAGE.content, NOW + MINUTE)
    assert send(outbox, site, transport, NOW + 2 * MINUTE)[0].result == "sent"
    assert transport.sent == [MESSAGE.content]
