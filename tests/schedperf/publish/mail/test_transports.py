# SPDX-License-Identifier: GPL-2.0-or-later
"""The transports, against a real mail server, real programs and a real Maildir."""

import mailbox
import socket
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.model.errors import InputError
from schedperf.publish.mail.envelope import envelope_of
from schedperf.publish.mail.site import CommandTransport, MaildirTransport, MailSite, Transport
from schedperf.publish.mail.transports import (
    Accepted,
    Failed,
    Outcome,
    Postponed,
    Refused,
    Unknown,
    open_transport,
)
from tests.mails import BOT, LIST, make_message, make_site
from tests.smtp_server import make_certificate, smtp_server

MESSAGE = make_message(body="Text.\n.\n..\n-- \nschedperf\n")


@pytest.fixture
def site(tmp_path: Path) -> MailSite:
    return make_site(tmp_path / "outbox")


def deliver(site: MailSite, transport: Transport) -> Outcome:
    send = open_transport(replace(site, transport=transport))
    assert send is not None
    return send(MESSAGE.content, envelope_of(MESSAGE.metadata, MESSAGE.content, site))


def test_nothing_is_sent_without_a_transport(site: MailSite) -> None:
    assert open_transport(site) is None


def test_smtp(site: MailSite) -> None:
    with smtp_server() as server:
        assert deliver(site, server.settings()) == Accepted()
    (envelope,) = server.delivered
    assert (envelope.mail_from, envelope.rcpt_tos) == (BOT, ["author@example.org", LIST])
    assert envelope.content == MESSAGE.content.replace(b"\n", b"\r\n")
    # Not the name of this machine, which servers write into the mail.
    assert server.clients == ["lab.example"]


@pytest.mark.parametrize(
    ("answers", "outcome", "reason", "delivered"),
    [
        ({"MAIL": "550 spam"}, Refused, "550 spam", 0),
        ({"MAIL": "451 later"}, Postponed, "451 later", 0),
        ({"MAIL": "drop"}, Failed, "server", 0),
        ({"RCPT": "550 unknown user"}, Refused, "author@example.org: 550 unknown user", 0),
        ({"RCPT": "450 greylisted"}, Postponed, "450 greylisted", 0),
        ({LIST: "450 greylisted"}, Postponed, "450 greylisted", 0),
        ({"author@example.org": "550 no"}, Accepted, "author@example.org: 550 no", 1),
        ({"DATA": "554 spam"}, Refused, "554 spam", 0),
        ({"DATA": "452 disk full"}, Postponed, "452 disk full", 0),
        ({"DATA": "drop"}, Unknown, "connection lost", 0),
        ({"DATA": "take and drop"}, Unknown, "connection lost", 1),
    ],
)
def test_answers_of_a_server(
    site: MailSite, answers: dict[str, str], outcome: type, reason: str, delivered: int
) -> None:
    with smtp_server(answers) as server:
        result = deliver(site, server.settings())
    assert isinstance(result, outcome)
    assert reason in str(result)
    assert len(server.delivered) == delivered


def test_no_server(site: MailSite) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with smtp_server() as server:
            assert isinstance(deliver(site, server.settings(port=port)), Failed)


def test_a_certificate_is_verified(site: MailSite, tmp_path: Path) -> None:
    certificate, both = make_certificate(tmp_path)
    login = tmp_path / "login"
    login.write_text("bot\nsecret\n")
    login.chmod(0o600)
    with smtp_server(certificate=both) as server:
        secure = {"security": "starttls", "login_file": str(login)}
        untrusted = deliver(site, server.settings(**secure))
        assert isinstance(untrusted, Failed)
        assert "certificate verify failed" in untrusted.reason
        other_name = server.settings(host="localhost", ca_file=str(certificate), **secure)
        assert isinstance(deliver(site, other_name), Failed)
        assert not server.delivered
        assert deliver(site, server.settings(ca_file=str(certificate), **secure)) == Accepted()
        login.write_text("bot\nwrong\n")
        refused = deliver(site, server.settings(ca_file=str(certificate), **secure))
        assert isinstance(refused, Failed)
        assert "secret" not in str(refused)
    assert len(server.delivered) == 1


def test_a_password_is_its_owners(site: MailSite, tmp_path: Path) -> None:
    login = tmp_path / "login"
    login.write_text("bot\nsecret\n")
    with smtp_server() as server:
        settings = server.settings(security="starttls", login_file=str(login))
        login.chmod(0o640)
        with pytest.raises(InputError, match="others may read this password; run: chmod 600"):
            deliver(site, settings)
        login.chmod(0o600)
        with pytest.raises(InputError, match="a login without TLS shows the password"):
            deliver(site, replace(settings, security="none"))
        for content in ("", "bot", "bot\n\n", "bot\nsecret\nmore\n", "bot\nse\rcret", "b\0t\nx"):
            login.write_text(content, newline="")
            with pytest.raises(InputError, match="expected two lines") as error:
                deliver(site, settings)
            assert "secret" not in str(error.value)


def test_plain_text_leaves_this_machine_never(site: MailSite) -> None:
    with smtp_server() as server, pytest.raises(InputError, match="for this machine only"):
        deliver(site, server.settings(host="mail.example.org"))


@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        ("import sys; sys.exit(0)", Accepted),
        ("import sys; sys.exit('unknown user')", Refused),
        ("import sys; sys.exit(67)", Refused),
        ("import sys; sys.exit(75)", Unknown),
        ("import os; os.kill(os.getpid(), 9)", Unknown),
        ("import time; time.sleep(600)", Unknown),
    ],
)
def test_commands(site: MailSite, program: str, outcome: type) -> None:
    limit_s = 0.2 if "sleep" in program else 60
    transport = CommandTransport(argv=(sys.executable, "-S", "-c", program), limit_s=limit_s)
    assert isinstance(deliver(site, transport), outcome)


def test_a_command_gets_the_mail(site: MailSite, tmp_path: Path) -> None:
    out = tmp_path / "mail"
    assert deliver(site, CommandTransport(argv=("sh", "-c", f"cat > {out}"))) == Accepted()
    assert out.read_bytes() == MESSAGE.content


def test_a_missing_command(site: MailSite) -> None:
    result = deliver(site, CommandTransport(argv=("/no/such/program",)))
    assert result == Failed("/no/such/program: no such file or directory")


def test_maildir(site: MailSite, tmp_path: Path) -> None:
    folder = tmp_path / "maildir"
    assert deliver(site, MaildirTransport(path=str(folder))) == Accepted()
    (mail,) = mailbox.Maildir(folder)
    assert mail["Message-ID"] == MESSAGE.metadata.message_id
    (file,) = (folder / "new").iterdir()
    assert file.read_bytes() == MESSAGE.content
    assert isinstance(deliver(site, MaildirTransport(path="/dev/null/maildir")), Failed)
