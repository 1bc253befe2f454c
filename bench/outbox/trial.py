# SPDX-License-Identifier: GPL-2.0-or-later
"""Try to send one mail by processes that are killed, until its state changes no more."""

import io
import mailbox
import os
import random
import smtplib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from bench.outbox.trace import Traced, run_traced
from schedperf.cli import main
from schedperf.commands import mail as command

# Imported before the child is forked, which then makes the system calls of the command only.
from schedperf.publish.mail import approval, archive, replies, send, transports  # noqa: F401 # as above
from schedperf.publish.mail.message import Message, Metadata
from schedperf.publish.mail.outbox import Outbox

START = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
DELAY = timedelta(minutes=30)
MINUTE = timedelta(minutes=1)
# Number of messages to the server for two recipients: EHLO, MAIL, RCPT, RCPT, DATA, the text.
_TEXT = 6

_CONFIGURATION = """\
allow = ["author@example.org"]
[site]
name = "Example lab"
domain = "lab.example"
from = "schedperf <schedperf@lab.example>"
contact = "perf-team@lab.example"
list = "sched-perf@lab.example"
[archive]
maildir = "{archive}"
delay_minutes = 30
[transport]
kind = "smtp"
host = "127.0.0.1"
port = {port}
security = "none"
"""


class Server:
    """The SMTP server aiosmtpd in a process of its own.

    :param folder: Maildir of the received mails
    """

    def __init__(self, folder: Path) -> None:
        self._maildir = mailbox.Maildir(folder)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.outbox.server", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._events = self._process.stdout
        self.port = int(self._events.readline())

    def settle(self) -> None:
        """Wait until all connections that were opened before are closed."""
        with smtplib.SMTP("127.0.0.1", self.port) as probe:
            assert probe.sock is not None
            own = str(probe.sock.getsockname()[1])
        # Connections are accepted in their order, so ours is the last to be opened.
        clients: set[str] = set()
        is_last = False
        while clients or not is_last:
            event, client = self._events.readline().split()
            if event == "open":
                clients.add(client)
                is_last = is_last or client == own
            else:
                clients.discard(client)

    def received(self) -> list[str]:
        """Return the Message-ID of each mail, in no particular order."""
        return [message["Message-ID"] for message in self._maildir]

    def forget(self) -> None:
        self._maildir.clear()

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    try:
        # What smtplib imports late is then not among the system calls of the child.
        server.settle()
        yield server
    finally:
        server.stop()


class Result(NamedTuple):
    """How a trial ended.

    :param first: what the first process did
    :param kills: number of processes that were killed
    :param copies: how often the server got the mail
    :param state: state of the mail in the outbox at the end
    """

    first: Traced
    kills: int
    copies: int
    state: str


class Trial:
    """A mail in an outbox and an archive of its own.

    The clock is simulated: the trial sets the time of each process.

    :param folder: directory for the outbox and the archive
    :param has_newer: whether the archive gets a message after the delay
    """

    def __init__(
        self, folder: Path, server: Server, random_: random.Random, *, has_newer: bool
    ) -> None:
        self._server = server
        self._random = random_
        self._has_newer = has_newer
        self._archive = folder / "archive"
        for name in ("new", "cur", "tmp"):
            (self._archive / name).mkdir(parents=True)
        self._outbox = Outbox(folder / "outbox")
        self._outbox.hold(_message(), now=START)
        self._outbox.move(self._outbox.mails()[0], "approved", "person", now=START)
        (self._outbox.path / "mail.toml").write_text(
            _CONFIGURATION.format(archive=self._archive, port=server.port)
        )
        self._pending: list[datetime] = []
        self._copies = 0

    def run(self, kill_before: int | None, most_kills: int) -> Result:
        """Run ``schedperf mail send`` with kills, then three times without, after the delay.

        :param kill_before: system call before which the first process is killed, as in
            :func:`run_traced`
        :param most_kills: maximum number of killed processes
        """
        self._server.forget()
        self._put("before", START - MINUTE)
        now = START
        first = self._send(now, kill_before)
        kills = int(first.killed)
        while kills < most_kills and self._random.random() < 1 / 2:
            # The next process runs before or after the mail is archived.
            now += self._random.random() * DELAY
            kills += self._send(now, self._random.randrange(len(first.calls) + 1)).killed
        for _ in range(3):
            now += DELAY + 2 * MINUTE
            if self._has_newer:
                self._put(f"newer-{now:%H%M}", now - MINUTE)
            self._send(now, None)
        return Result(first, kills, self._copies, self._outbox.mails()[0].state)

    def _send(self, now: datetime, kill_before: int | None) -> Traced:
        """Run ``schedperf mail send`` at a simulated time; return its system calls and its end.

        Then count the copies on the server.
        """
        for position, when in enumerate(self._pending):
            if when <= now:
                self._put(f"copy-{position}", when, _message().content)

        def child() -> int:
            command._now = lambda: now  # noqa: SLF001 # the clock of the child
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                return main(["mail", "send", "--outbox", str(self._outbox.path)])

        traced = run_traced(child, kill_before)
        self._server.settle()
        copies = len(self._server.received())
        # Each copy is archived after a random part of the delay.
        self._pending += [now + self._random.random() * DELAY for _ in range(copies - self._copies)]
        self._copies = copies
        return traced

    def _put(self, name: str, when: datetime, content: bytes = b"Message-ID: <a@b>\n\n") -> None:
        path = self._archive / "new" / name
        path.write_bytes(content)
        os.utime(path, (when.timestamp(), when.timestamp()))


def is_in_delivery(traced: Traced) -> bool:
    """Return whether a process was killed after ``connect`` and before the answer to the text."""
    calls = traced.calls
    if not traced.killed or "connect" not in calls:
        return False
    sent = [position for position, name in enumerate(calls) if name == "sendto"]
    return len(sent) < _TEXT or "recvfrom" not in calls[sent[_TEXT - 1] :]


def _message() -> Message:
    subject = "sched/fair: 0123456789ab: hackbench 21.8% regression"
    metadata = Metadata(
        kind="report",
        subject=subject,
        message_id="<schedperf.1.0123456789ab.7f3a91c2.report.1@lab.example>",
        to=("author@example.org",),
        cc=("sched-perf@lab.example",),
        public=False,
        culprit="7f3a91c2",
        commit="0123456789ab",
        fingerprint=None,
        rendered=START.isoformat(),
        checks=(),
    )
    text = (
        "From: schedperf <schedperf@lab.example>\nTo: author@example.org\n"
        f"Cc: sched-perf@lab.example\nSubject: {subject}\n"
        f"Date: Fri, 27 Nov 2026 12:00:00 +0000\nMessage-ID: {metadata.message_id}\n\n"
        "Commit 0123456789ab increases hackbench run time by 21.8%.\n"
    )
    return Message(metadata=metadata, content=text.encode())
