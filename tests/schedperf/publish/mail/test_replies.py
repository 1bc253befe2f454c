# SPDX-License-Identifier: GPL-2.0-or-later
"""Replies and bounces make the bot quieter, and nothing else."""

from pathlib import Path

import pytest

from schedperf.model.errors import InputError
from schedperf.publish.mail.limits import silenced_threads, suspended_addresses
from schedperf.publish.mail.outbox import Outbox
from schedperf.publish.mail.replies import read_replies
from tests.mails import COMMIT, NOW, make_message, make_outbox

SENT = make_message(1)
LATER = make_message(2)
OTHER = make_message(commit="ffffffffffff")
SENT_ID = SENT.metadata.message_id


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    outbox = make_outbox(tmp_path / "outbox", SENT, LATER, OTHER)
    outbox.move(outbox.find("ab.7f3a91c2.report.1"), "sent", "schedperf mail send")
    return outbox


@pytest.fixture
def maildir(tmp_path: Path) -> Path:
    for folder in ("new", "cur", "tmp"):
        (tmp_path / "replies" / folder).mkdir(parents=True)
    return tmp_path / "replies"


def reply(
    body: str, *, references: str = SENT_ID, more: str = "", type_: str = "text/plain"
) -> bytes:
    return (
        "From: A. U. Thor <author@example.org>\nTo: schedperf@lab.example\nSubject: Re: x\n"
        f"Message-ID: <reply@example.org>\nReferences: {references}\n{more}"
        f"Content-Type: {type_}; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{body}"
    ).encode()


def hear(outbox: Outbox, maildir: Path, content: bytes, folder: str = "new") -> list[str]:
    (maildir / folder / "1").write_bytes(content)
    return [heard.effect for heard in read_replies(outbox, maildir, NOW)]


@pytest.mark.parametrize(
    "body",
    [
        "stop\n",
        '"Stop".\n',
        "“expected.”\n",
        "Stop.\r\n",
        "On Friday schedperf wrote:\n> text\n\n  EXPECTED\n",
        "Hello,\n\nplease stop\n\n-- \nA. U. Thor\n> Reply stop\n",
    ],
)
def test_one_word_silences_the_thread(outbox: Outbox, maildir: Path, body: str) -> None:
    told, withdrawn, noted = hear(outbox, maildir, reply(body))
    assert noted.endswith(f" replied to {SENT.metadata.id}")
    assert told.endswith(f"no more mails about {COMMIT}")
    assert withdrawn == f"{LATER.metadata.id} was held, now withdrawn"
    assert set(silenced_threads(outbox.decisions())) == {COMMIT}
    assert outbox.find(OTHER.metadata.id).state == "held"
    # Reading the same reply again changes nothing.
    assert list(read_replies(outbox, maildir, NOW)) == []
    assert [each.act for each in outbox.decisions()] == ["silence", "reply"]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "> stop\n",
        "stop sending nonsense\n",
        "Does it stop\nhere? It is not expected, is it?\n",
        'A person reads replies. Reply "stop" to end mails about this commit.\n',
        "approve\nsend\n",
    ],
)
def test_other_text_is_noted_only(outbox: Outbox, maildir: Path, body: str) -> None:
    [noted] = hear(outbox, maildir, reply(body))
    assert noted.endswith(f"<author@example.org> replied to {SENT.metadata.id}")
    assert [each.act for each in outbox.decisions()] == ["reply"]
    assert outbox.find(LATER.metadata.id).state == "held"


def test_a_reply_is_noted_once_with_its_date(outbox: Outbox, maildir: Path) -> None:
    dated = reply("I look at it.\n", more="Date: Wed, 25 Nov 2026 12:00:00 +0100\n")
    assert hear(outbox, maildir, dated)
    assert list(read_replies(outbox, maildir, NOW)) == []
    [noted] = outbox.decisions()
    assert (noted.id, noted.reply) == (SENT.metadata.id, "<reply@example.org>")
    assert noted.written == "2026-11-25T11:00:00+00:00"
    for date in ("never", "Fri, 31 Dec 9999 23:59:59 -2300", "x" * 9999):
        again = reply("text\n", more=f"Date: {date}\n").replace(
            b"<reply@", f"<{len(date)}@".encode()
        )
        assert hear(outbox, maildir, again)
        assert outbox.decisions()[-1].written is None


def test_few_replies_are_noted(outbox: Outbox, maildir: Path) -> None:
    for number in range(120):
        content = reply("text\n").replace(b"<reply@", f"<{number}@".encode())
        (maildir / "new" / f"{number}").write_bytes(content)
    assert len([*read_replies(outbox, maildir, NOW)]) == 100


def test_a_reply_to_an_unknown_mail_changes_nothing(outbox: Outbox, maildir: Path) -> None:
    assert hear(outbox, maildir, reply("stop\n", references="<other@example.org>")) == []
    assert hear(outbox, maildir, reply("stop\n", references="")) == []
    assert outbox.decisions() == ()


def test_a_reply_deep_in_the_thread_and_in_reply_to(outbox: Outbox, maildir: Path) -> None:
    assert hear(outbox, maildir, reply("stop\n", references=f"<a@b>\n {SENT_ID}\n <c@d>"), "cur")


def test_in_reply_to_alone(outbox: Outbox, maildir: Path) -> None:
    more = f"In-Reply-To: {SENT_ID}\n"
    assert hear(outbox, maildir, reply("stop\n", references="", more=more))


@pytest.mark.parametrize(
    "more",
    [
        "Auto-Submitted: auto-replied\n",
        "Precedence: bulk\n",
        "Precedence: junk\n",
        "Return-Path: <>\n",
    ],
)
def test_automatic_replies_are_ignored(outbox: Outbox, maildir: Path, more: str) -> None:
    assert hear(outbox, maildir, reply("stop\n", more=more)) == []
    assert outbox.decisions() == ()


def test_a_list_is_not_an_automatic_reply(outbox: Outbox, maildir: Path) -> None:
    assert hear(outbox, maildir, reply("stop\n", more="Precedence: list\nAuto-Submitted: no\n"))


def test_html(outbox: Outbox, maildir: Path) -> None:
    quoted = "<blockquote><p>stop</p></blockquote><p>thanks</p>"
    assert len(hear(outbox, maildir, reply(quoted, type_="text/html"))) == 1
    assert silenced_threads(outbox.decisions()) == {}
    page = "<html><body><div>stop</div><blockquote>text</blockquote></body></html>"
    assert hear(outbox, maildir, reply(page, type_="text/html"))


def bounce(recipient: str, action: str = "failed", message_id: str = SENT_ID) -> bytes:
    return (
        "From: MAILER-DAEMON@mx.example\nReturn-Path: <>\nAuto-Submitted: auto-replied\n"
        'Content-Type: multipart/report; report-type=delivery-status; boundary="b"\n\n'
        "--b\nContent-Type: text/plain\n\nstop\n"
        "--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example\n\n"
        f"Final-Recipient: rfc822; {recipient}\nAction: {action}\nStatus: 5.1.1\n\n"
        "Final-Recipient: rfc822; sched-perf@lab.example\nAction: delayed\nStatus: 4.0.0\n\n"
        f"--b\nContent-Type: text/rfc822-headers\n\nMessage-ID: {message_id}\n--b--\n"
    ).encode()


def test_a_bounce_suspends_the_address(outbox: Outbox, maildir: Path) -> None:
    effects = hear(outbox, maildir, bounce("Author@example.org"))
    assert effects == ["bounced: no more mails to author@example.org"]
    assert suspended_addresses(outbox.decisions()) == {"author@example.org"}
    assert silenced_threads(outbox.decisions()) == {}
    assert list(read_replies(outbox, maildir, NOW)) == []


@pytest.mark.parametrize(
    "report",
    [
        bounce("author@example.org", "delayed"),
        bounce("author@example.org", message_id="<other@example.org>"),
        bounce("someone@else.example"),
    ],
)
def test_other_reports_change_nothing(outbox: Outbox, maildir: Path, report: bytes) -> None:
    assert hear(outbox, maildir, report) == []
    assert outbox.decisions() == ()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 1000,
        b"\xff\xfe" * 1000,
        b"From: x\nContent-Type: text/plain; charset=no-such\n\nstop",
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\n" * 2000,
        b"Subject: =?utf-8?b?" + b"x" * 10_000 + b"\n\nstop",
        b"From: " + b"(" * 10_000 + b"\nReferences: " + b"<" * 100_000 + b"\n\nstop\n",
        reply("stop\n")[:120],
        reply("st\u202eop\n\x1b[31mstop\x1b[0m\n"),
    ],
)
def test_hostile_mails_change_nothing(outbox: Outbox, maildir: Path, content: bytes) -> None:
    hear(outbox, maildir, content)
    assert {each.act for each in outbox.decisions()} <= {"reply"}


def test_what_is_shown_of_a_sender_is_clean(outbox: Outbox, maildir: Path) -> None:
    hostile = reply("stop\n").replace(b"A. U. Thor", b"\x1b[31m\xe2\x80\xae\tx" + b"y" * 10_000)
    effect, *_ = hear(outbox, maildir, hostile)
    assert effect.isprintable()
    assert len(effect) < 200


def test_a_large_mail_is_named(outbox: Outbox, maildir: Path) -> None:
    assert hear(outbox, maildir, reply("x" * (5 << 20))) == [
        "not readable as a mail; read it yourself"
    ]


def test_no_maildir(outbox: Outbox, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a Maildir with new/ and cur/"):
        list(read_replies(outbox, tmp_path / "missing", NOW))
