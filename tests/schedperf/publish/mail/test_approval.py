# SPDX-License-Identifier: GPL-2.0-or-later
"""What a person decides: approve, withdraw, resolve."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.model.errors import InputError
from schedperf.publish.culprit.record import Check
from schedperf.publish.mail.approval import approve, resolve, withdraw
from schedperf.publish.mail.message import Message
from schedperf.publish.mail.outbox import Decision, Outbox
from schedperf.publish.mail.regzbot import LIST, add_regzbot
from schedperf.publish.mail.send import Sender
from schedperf.publish.mail.site import MailSite
from schedperf.publish.mail.transports import Accepted
from tests.mails import COMMIT, FAILED, NOW, make_message, make_outbox, make_site

MESSAGE = make_message()
ID = MESSAGE.metadata.id


@pytest.fixture
def site(tmp_path: Path) -> MailSite:
    return make_site(tmp_path / "outbox")


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return make_outbox(tmp_path / "outbox", MESSAGE)


def test_approve_records_who_and_when(outbox: Outbox, site: MailSite) -> None:
    mail = approve(outbox, site, outbox.find(ID), "person", NOW)
    assert mail.state == "approved"
    assert outbox.content(outbox.find(ID)) == MESSAGE.content
    (decision,) = outbox.decisions()
    assert (decision.act, decision.who, decision.id) == ("approve", "person", ID)
    assert (mail.last.who, mail.last.reason) == ("person", "")


def test_a_failed_check_holds_a_mail_to_a_public_list(tmp_path: Path, site: MailSite) -> None:
    cc = ("linux-kernel@lists.example",)
    public, private = make_message(1, cc=cc, checks=(FAILED,)), make_message(2, checks=(FAILED,))
    outbox = make_outbox(tmp_path / "outbox", public, private)
    with pytest.raises(InputError, match=r"1 check failed.*retested: no retest; record one"):
        approve(outbox, site, outbox.find("report.1"), "person", NOW)
    assert outbox.find("report.1").state == "held"
    assert outbox.decisions() == ()
    assert approve(outbox, site, outbox.find("report.2"), "person", NOW).state == "approved"


def test_an_old_draft_to_a_public_list_is_checked_again(tmp_path: Path, site: MailSite) -> None:
    public, own = make_message(1, cc=("linux-kernel@lists.example",)), make_message(2)
    outbox = make_outbox(tmp_path / "outbox", public, own)
    fortnight = NOW + timedelta(days=14)
    with pytest.raises(InputError, match=r"drafted 14 days ago \(expected at most 14\); withdraw"):
        approve(outbox, site, outbox.find("report.1"), "person", fortnight)
    assert approve(outbox, site, outbox.find("report.2"), "person", fortnight).state == "approved"
    almost = fortnight - timedelta(hours=1)
    approve(outbox, site, outbox.find("report.1"), "person", almost)
    sent = {
        each.id: each.reason
        for each in Sender(outbox, site, lambda _, __: Accepted(), None, fortnight).send()
    }
    assert sent[own.metadata.id] == ""
    assert sent[public.metadata.id].startswith("drafted 14 days ago")


def test_a_refused_report_is_not_sent_after_another_in_its_place(
    tmp_path: Path, site: MailSite
) -> None:
    outbox = make_outbox(tmp_path / "outbox", MESSAGE, make_message(2))
    outbox.move(outbox.find(ID), "refused", "schedperf mail send", "554 spam")
    assert approve(outbox, site, outbox.find(ID), "person", NOW).state == "approved"
    second = approve(outbox, site, outbox.find("report.2"), "person", NOW - timedelta(hours=1))
    sender = Sender(outbox, site, lambda _, __: Accepted(), None, NOW)
    results = {each.id: (each.result, each.reason) for each in sender.send()}
    assert results[second.id] == ("sent", "")
    assert results[ID] == ("waits", f"{second.id} about this commit is sent; withdraw this one")
    outbox.move(outbox.find(ID), "refused", "schedperf mail send", "554 spam")
    with pytest.raises(InputError, match=r"report\.2 about this commit is sent; withdraw this"):
        approve(outbox, site, outbox.find(ID), "person", NOW)


def test_a_reply_is_approved_after_its_report_was_sent(tmp_path: Path, site: MailSite) -> None:
    report = make_message()
    parent = f"In-Reply-To:\n {report.metadata.message_id}\n"
    outbox = make_outbox(tmp_path / "outbox", report, make_message(kind="again", references=parent))
    with pytest.raises(InputError, match=r"answers .*report\.1, which is held; send that one"):
        approve(outbox, site, outbox.find("again.1"), "person", NOW)
    outbox.move(outbox.find("report.1"), "sent", "person", now=NOW)
    assert approve(outbox, site, outbox.find("again.1"), "person", NOW).state == "approved"


def test_a_quota_of_the_day_of_the_draft_does_not_hold_a_mail(
    tmp_path: Path, site: MailSite
) -> None:
    quota = Check(name="quota", passed=False, reason="quota of 2 mails per day is used up")
    cc = ("linux-kernel@lists.example",)
    outbox = make_outbox(tmp_path / "outbox", make_message(1, cc=cc, checks=(quota,)))
    assert approve(outbox, site, outbox.find(ID), "person", NOW).state == "approved"


def test_what_the_site_or_a_reply_forbids(tmp_path: Path, site: MailSite) -> None:
    other = make_message(1, cc=("other@example.com",))
    outbox = make_outbox(tmp_path / "outbox", other, make_message(2))
    with pytest.raises(InputError, match="may not be written to"):
        approve(outbox, site, outbox.find("report.1"), "person", NOW)
    when = NOW.isoformat()
    outbox.decide(Decision(act="suspend", when=when, who="x", address="author@example.org"))
    with pytest.raises(InputError, match="mails to author@example.org bounced"):
        approve(outbox, site, outbox.find("report.2"), "person", NOW)
    outbox.decide(Decision(act="silence", when=when, who="A. U. Thor", thread=COMMIT))
    with pytest.raises(InputError, match="silenced by a reply"):
        approve(outbox, site, outbox.find("report.2"), "person", NOW)


@pytest.mark.parametrize(
    "injected",
    [
        b"Bcc: x@y.z\n",
        b"Sender: x@y.z\n",
        b"Resent-To: x@y.z\n",
        b"To: x@y.z\n",
        b"List-Id: <x>\n",
        b"not a field\n",
        b" \n",
        b"X: \xff\n",
        b"X: a\rBcc: x@y.z\n",
        b"X: \0\n",
        b"X: " + b"x" * 1000 + b"\n",
    ],
)
def test_header_injection_is_refused(tmp_path: Path, site: MailSite, injected: bytes) -> None:
    message = replace(MESSAGE, content=injected + MESSAGE.content)
    outbox = make_outbox(tmp_path / "other", message)
    with pytest.raises(InputError, match="draft") as error:
        approve(outbox, site, outbox.find(ID), "person", NOW)
    assert "\n" not in str(error.value)
    assert outbox.find(ID).state == "held"


def test_the_header_must_say_what_the_metadata_says(tmp_path: Path, site: MailSite) -> None:
    for number, (old, new) in enumerate(
        [
            (b"author@example.org", b"other@example.org"),
            (b"<schedperf.1.0123", b"<schedperf.1.9999"),
            (b"From: schedperf <schedperf@", b"From: schedperf <other@"),
            (b"\n\n", b"\n"),
        ]
    ):
        changed = replace(MESSAGE, content=MESSAGE.content.replace(old, new, 1))
        outbox = make_outbox(tmp_path / str(number), changed)
        with pytest.raises(InputError, match="draft"):
            approve(outbox, site, outbox.find(ID), "person", NOW)


def test_regzbot(outbox: Outbox, site: MailSite) -> None:
    mail = approve(outbox, site, outbox.find(ID), "person", NOW, regzbot=True)
    content = outbox.content(outbox.find(ID)).decode()
    assert f"\n\n#regzbot introduced: {COMMIT}\n\n-- \nschedperf\n" in content
    assert f"Cc: sched-perf@lab.example,\n {LIST}\nSubject:" in content
    assert (mail.metadata.cc[-1], mail.metadata.public) == (LIST, True)
    assert len({step.sha256 for step in mail.history}) == 2


def test_regzbot_without_cc_and_signature() -> None:
    message = make_message(cc=(), body="Text.\n\n\n")
    metadata, content = add_regzbot(message.metadata, message.content)
    assert content.endswith(f"\n\nText.\n\n#regzbot introduced: {COMMIT}\n".encode())
    assert f"\nCc: {LIST}\nSubject:" in content.decode()
    assert add_regzbot(metadata, content) == (metadata, content)


def test_regzbot_makes_a_mail_public(tmp_path: Path, site: MailSite) -> None:
    outbox = make_outbox(tmp_path / "other", make_message(checks=(FAILED,)))
    with pytest.raises(InputError, match="must pass"):
        approve(outbox, site, outbox.find(ID), "person", NOW, regzbot=True)
    # The person may still approve it without regzbot.
    assert approve(outbox, site, outbox.find(ID), "person", NOW).state == "approved"


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (make_message(benchmark_class="micro"), "class is micro"),
        (make_message(kind="fixed"), "not for kind fixed"),
        (make_message(commit=None, kind="digest"), "--regzbot is for"),
    ],
)
def test_regzbot_is_refused(tmp_path: Path, site: MailSite, message: Message, problem: str) -> None:
    outbox = make_outbox(tmp_path / "other", message)
    with pytest.raises(InputError, match=problem):
        approve(outbox, site, outbox.mails()[0], "person", NOW, regzbot=True)


@pytest.mark.parametrize("regzbot", [False, True])
def test_an_interrupted_approval_is_completed(
    outbox: Outbox,
    site: MailSite,
    regzbot: bool,  # noqa: FBT001 # a parameter of the test
) -> None:
    mail = outbox.find(ID)
    metadata, final = add_regzbot(mail.metadata, MESSAGE.content)
    outbox.replace(mail, metadata, final, "person", "regzbot's paragraph was added")
    # Killed between the two files: the mail is still the old one.
    (outbox.path / "held" / f"{ID}.eml").write_bytes(MESSAGE.content)
    approve(outbox, site, outbox.find(ID), "person", NOW, regzbot=regzbot)
    assert outbox.content(outbox.find(ID)) == final


def test_withdraw(outbox: Outbox, site: MailSite) -> None:
    mail = withdraw(outbox, outbox.find(ID), "person", NOW, "fixed already")
    assert (mail.state, mail.last.reason) == ("withdrawn", "fixed already")
    with pytest.raises(InputError, match="cannot approve a mail that is withdrawn"):
        approve(outbox, site, mail, "person", NOW)


def test_resolve(tmp_path: Path, outbox: Outbox) -> None:
    with pytest.raises(InputError, match="cannot resolve a mail that is held"):
        resolve(outbox, outbox.find(ID), "person", NOW, arrived=True)
    outbox = make_outbox(tmp_path / "more", make_message(1), make_message(2), state="approved")
    for number in ("report.1", "report.2"):
        mail = outbox.move(outbox.find(number), "sending", "schedperf mail send")
        with pytest.raises(InputError, match="cannot withdraw a mail that is sending"):
            withdraw(outbox, mail, "person", NOW)
    assert resolve(outbox, outbox.find("report.1"), "x", NOW, arrived=True).state == "sent"
    assert resolve(outbox, outbox.find("report.2"), "x", NOW, arrived=False).state == "approved"
    assert [decision.act for decision in outbox.decisions()] == ["arrived", "not-arrived"]


def test_a_mail_that_is_being_sent_is_not_resolved(outbox: Outbox) -> None:
    mail = outbox.move(outbox.find(ID), "sending", "schedperf mail send")
    with (
        outbox.sending_alone(),
        pytest.raises(InputError, match="another schedperf mail command"),
    ):
        resolve(Outbox(outbox.path), mail, "person", NOW, arrived=True)
