# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf mail: what a person does with an outbox, against a real mail server."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.cli import main
from tests.mails import FAILED, make_message, make_outbox, make_site
from tests.smtp_server import smtp_server

RunCli = Callable[..., subprocess.CompletedProcess[str]]
MESSAGE = make_message()
PUBLIC = make_message(2, cc=("linux-kernel@lists.example",), checks=(FAILED,))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_site(tmp_path / "outbox")
    make_outbox(tmp_path / "outbox", MESSAGE, PUBLIC)
    return tmp_path / "outbox"


@pytest.fixture
def mail(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*args: str) -> tuple[int, str]:
        status = main(["mail", *args, "--outbox", str(folder)])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


Mail = Callable[..., tuple[int, str]]


def test_from_held_to_sent(mail: Mail, folder: Path) -> None:
    assert mail("approve", "report.1")[0] == 0
    with smtp_server() as server:
        make_site(
            folder,
            f'[transport]\nkind="smtp"\nhost="127.0.0.1"\nport={server.port}\nsecurity="none"\n',
        )
        status, printed = mail("send")
        assert (status, printed) == (0, f"{MESSAGE.metadata.id}: sent\n")
        assert mail("send") == (0, "")
    assert len(server.delivered) == 1
    status, printed = mail("why", "report.1")
    assert [line.split()[1] for line in printed.splitlines()[2:]] == [
        "held", "approved", "sending", "sent"
    ]  # fmt: skip
    status, printed = mail("why", "report.2")
    assert f"  {MESSAGE.metadata.id} about this commit is sent; withdraw this one\n" in printed


def test_list(mail: Mail, folder: Path) -> None:
    status, printed = mail("list")
    assert status == 0
    assert printed == (
        f"held       {MESSAGE.metadata.id}  {MESSAGE.metadata.subject}\n"
        "           all checks passed\n"
        f"held       {PUBLIC.metadata.id}  {PUBLIC.metadata.subject}\n"
        "           checks that failed: retested\n"
    )
    (folder / "held" / "notes").touch()
    status, printed = mail("list")
    assert status == 1
    assert "held/notes: not a mail of the outbox" in printed


def test_list_says_why_an_approved_mail_waits(mail: Mail, folder: Path) -> None:
    mail("approve", "report.1")
    assert mail("list")[1].splitlines()[1].startswith("held ")
    settings = (folder / "mail.toml").read_text()
    (folder / "mail.toml").write_text(f"{settings}\n[quota]\nper_day = 0\n")
    assert mail("list")[1].splitlines()[1] == (
        "           waits: per_day is 0 in mail.toml, so nothing is sent"
    )
    (folder / "mail.toml").write_text("[")
    status, printed = mail("list")
    assert status == 0
    assert printed.splitlines()[1].startswith("           waits: ")


def test_show(mail: Mail) -> None:
    assert mail("show", "report.1") == (0, MESSAGE.content.decode())


def test_why(mail: Mail) -> None:
    status, printed = mail("why", "report.2")
    assert status == 0
    assert "  retested: no retest; record one\n" in printed
    assert "  2026-11-27T12:00:00+00:00  held by schedperf\n" in printed


def test_no_option_skips_the_checks(mail: Mail, run_cli: RunCli) -> None:
    status, printed = mail("approve", "report.2")
    assert status == 2
    assert printed.count("\n") == 1
    assert "must pass (retested: no retest; record one)" in printed
    options = run_cli("mail", "approve", "--help").stdout
    assert "--force" not in options
    assert "--no-" not in options


def test_without_a_transport_a_person_sends_the_file(mail: Mail) -> None:
    mail("approve", "report.1")
    status, printed = mail("send")
    assert status == 1
    assert "waits for a person: mail.toml has no [transport]" in printed
    assert mail("resolve", "report.1", "--arrived") == (0, f"{MESSAGE.metadata.id}: sent\n")


def test_without_a_server_the_next_send_tries_again(mail: Mail, folder: Path) -> None:
    mail("approve", "report.1")
    with smtp_server() as server:
        transport = f'kind="smtp"\nhost="127.0.0.1"\nport={server.port}\nsecurity="none"\n'
    make_site(folder, f"[transport]\n{transport}")
    status, printed = mail("send")
    assert status == 1
    assert f"{MESSAGE.metadata.id}: not sent, the next send tries again: server: " in printed
    assert mail("list")[1].startswith(f"approved   {MESSAGE.metadata.id}")


def test_withdraw(mail: Mail) -> None:
    assert mail("withdraw", "report.1", "--reason", "fixed\nalready")[0] == 0
    assert "withdrawn by" in mail("why", "report.1")[1]
    assert mail("approve", "report.1")[0] == 2


def test_a_refused_mail_is_an_exit_status(mail: Mail, folder: Path) -> None:
    mail("approve", "report.1")
    with smtp_server({"DATA": "554 spam"}) as server:
        make_site(
            folder,
            f'[transport]\nkind="smtp"\nhost="127.0.0.1"\nport={server.port}\nsecurity="none"\n',
        )
        assert mail("send") == (1, f"{MESSAGE.metadata.id}: refused: server: 554 spam\n")


def test_replies_are_read_before_anything_is_sent(mail: Mail, folder: Path) -> None:
    replies = folder.parent / "replies"
    for name in ("new", "cur", "tmp"):
        (replies / name).mkdir(parents=True)
    (replies / "new" / "1").write_text(
        f"From: author@example.org\nIn-Reply-To: {MESSAGE.metadata.message_id}\n\nstop\n"
    )
    mail("approve", "report.1")
    (folder / "mail.toml").write_text(
        f'replies = "{replies}"\n' + (folder / "mail.toml").read_text()
    )
    status, printed = mail("send")
    assert status == 0
    assert "author@example.org replied 'stop': no more mails about 0123456789ab" in printed
    assert "silenced   0123456789ab by author@example.org" in mail("list")[1]
    assert mail("replies", str(replies)) == (0, "")


@pytest.mark.parametrize(
    "args", [["list"], ["show", "x"], ["why", "x"], ["approve", "x"], ["send"], ["replies", "x"]]
)
def test_no_outbox_is_one_line(args: list[str], run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("mail", *args, "--outbox", tmp_path / "missing")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "no outbox there" in done.stderr
