# SPDX-License-Identifier: GPL-2.0-or-later
"""Patch, report and follow-up are one thread for b4, in whatever order they arrive.

They go through real mail servers into a Maildir, which public-inbox-watch reads, and from
public-inbox-httpd to b4. Each order of arrival has an inbox of its own: the outbox sends the report
before the follow-up, and servers on the way may deliver them in another order.
"""

import itertools
import os
import smtplib
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from aiosmtpd.handlers import Mailbox

from schedperf.cli import main
from schedperf.publish.mail.archive import open_archive
from schedperf.publish.mail.message import Message
from schedperf.publish.mail.outbox import Outbox
from schedperf.publish.mail.site import Archive
from tests.mails import LIST, NOW, make_message, make_outbox, make_site
from tests.public_inbox import make_home, running, running_httpd
from tests.smtp_server import Server, port_of_server, smtp_server

pytestmark = [pytest.mark.slow, pytest.mark.system]

LIMIT_S = 120
ORDERS = tuple(itertools.permutations(range(3)))


class Thread(NamedTuple):
    """A patch, the report about it and the mail that it is fixed.

    Inboxes of one server know each other's messages, so each has a thread of its own.
    """

    patch: Message
    report: Message
    fixed: Message


def make_thread(number: int) -> Thread:
    commit = f"{number:012x}"
    patch = make_message(commit=f"{number + 100:012x}", to=(LIST,), cc=(), body="A change.\n")
    first = patch.metadata.message_id
    report = make_message(commit=commit, references=f"In-Reply-To: {first}\nReferences: {first}\n")
    second = report.metadata.message_id
    fixed = make_message(
        commit=commit,
        kind="fixed",
        body="Commit fedcba987654 fixes it.\n",
        references=f"In-Reply-To: {second}\nReferences: {first}\n {second}\n",
    )
    return Thread(patch, report, fixed)


class Inbox(NamedTuple):
    """An inbox, the port of the server that fills it, and the mails that shall arrive.

    :param sent: the patch, and what a server got from the outbox: report and follow-up
    """

    name: str
    port: int
    thread: Thread
    sent: tuple[bytes, ...]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_home(tmp_path / "home", monkeypatch, "public-inbox-watch")


def make_inbox(home: Path, number: int, port: int, maildir: Path) -> Inbox:
    """Make an inbox that is filled from a Maildir; send a thread from an outbox."""
    name = f"order{number}"
    folder = home / name
    address = (name, str(folder / "inbox"), f"http://127.0.0.1/{name}", f"{name}@lab.example")
    subprocess.run(["public-inbox-init", "-V2", *address], check=True, capture_output=True)
    with (home / "config").open("a") as config:
        config.write(f'[publicinbox "{name}"]\nwatch = maildir:{maildir}\n')
    thread = make_thread(number)
    outbox = make_outbox(folder / "outbox", thread.report, thread.fixed)
    with smtp_server() as server:
        send_all(outbox, server)
    sent = (cast("bytes", envelope.content) for envelope in server.delivered)
    return Inbox(name, port, thread, (thread.patch.content, *sent))


def send_all(outbox: Outbox, server: Server) -> None:
    """Approve and send the held mails, the report first, to a mail server."""
    address = f'host="127.0.0.1"\nport={server.port}\nsecurity="none"\n'
    make_site(outbox.path, f'[transport]\nkind="smtp"\n{address}')
    for kind in ("report", "fixed"):
        assert main(["mail", "approve", f"{kind}.1", "--outbox", str(outbox.path)]) == 0
        assert main(["mail", "send", "--outbox", str(outbox.path)]) == 0
        assert outbox.find(f"{kind}.1").state == "sent"


def deliver(inbox: Inbox, position: int) -> None:
    """Pass a mail of the thread on to the list."""
    with smtplib.SMTP("127.0.0.1", inbox.port, "localhost") as server:
        server.sendmail("author@example.org", [LIST], inbox.sent[position])


def wait_for(url: str, message_id: str) -> None:
    archive = open_archive(Archive(url=url))
    assert archive is not None
    end = time.monotonic() + LIMIT_S
    while not archive.holds(message_id):
        assert time.monotonic() < end, f"{url} has no {message_id}"
        time.sleep(0.1)
    assert archive.newest(NOW.replace(year=2100)) is not None


def test_one_thread_in_whatever_order(home: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        inboxes = []
        for number in range(len(ORDERS)):
            maildir = home / f"maildir{number}"
            port = stack.enter_context(port_of_server(Mailbox(maildir)))
            inboxes.append(make_inbox(home, number, port, maildir))
        url = stack.enter_context(running_httpd())
        stack.enter_context(running("public-inbox-watch"))
        for position in range(3):
            arriving = [
                (inbox, order[position]) for inbox, order in zip(inboxes, ORDERS, strict=True)
            ]
            for inbox, index in arriving:
                deliver(inbox, index)
            for inbox, index in arriving:
                wait_for(f"{url}/{inbox.name}", inbox.thread[index].metadata.message_id)
        for inbox in inboxes:
            check_thread(inbox, f"{url}/{inbox.name}", tmp_path / f"b4-{inbox.name}")


def check_thread(inbox: Inbox, url: str, folder: Path) -> None:
    folder.mkdir()
    mask = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "b4.midmask",
        "GIT_CONFIG_VALUE_0": f"{url}/%s",
    }
    done = subprocess.run(
        ["b4", "-n", "mbox", "-o", folder, inbox.thread.fixed.metadata.message_id.strip("<>")],
        capture_output=True,
        text=True,
        env={**os.environ, **mask},
    )
    assert "3 messages in the thread" in done.stderr + done.stdout
    (mbox,) = folder.glob("*.mbx")
    text = mbox.read_text()
    for mail in inbox.thread:
        assert text.count(f"\nMessage-ID: {mail.metadata.message_id}\n") == 1
        # Nothing on the way changed the text.
        assert mail.content.decode().partition("\n\n")[2].strip() in text
