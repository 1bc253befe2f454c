# SPDX-License-Identifier: GPL-2.0-or-later
"""Small mails and an outbox's mail.toml, for tests of sending; they render nothing."""

from datetime import UTC, datetime
from pathlib import Path

from schedperf.publish.culprit.record import Check
from schedperf.publish.mail.message import Kind, Message, Metadata
from schedperf.publish.mail.outbox import Outbox
from schedperf.publish.mail.site import MailSite, read_site

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
COMMIT = "0123456789ab"
DOMAIN = "lab.example"
LIST = f"sched-perf@{DOMAIN}"
BOT = f"schedperf@{DOMAIN}"
FAILED = Check(name="retested", passed=False, reason="no retest; record one")

SITE = f"""\
allow = ["author@example.org", "regressions@lists.linux.dev", "@lists.example"]
[site]
name = "Example lab"
domain = "{DOMAIN}"
from = "schedperf <{BOT}>"
contact = "perf-team@{DOMAIN}"
list = "{LIST}"
"""


def make_site(folder: Path, more: str = "") -> MailSite:
    """Write mail.toml to a folder, and return what it says."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mail.toml").write_text(SITE + more)
    return read_site(folder)


def make_message(
    number: int = 1,
    *,
    commit: str | None = COMMIT,
    kind: Kind = "report",
    to: tuple[str, ...] = ("A. U. Thor <author@example.org>",),
    cc: tuple[str, ...] = (LIST,),
    body: str = "Commit 0123456789ab increases hackbench run time by 21.8%.\n-- \nschedperf\n",
    references: str = "",
    checks: tuple[Check, ...] = (),
    benchmark_class: str = "application",
) -> Message:
    """Return a rendered mail; each number is another mail about the same commit."""
    id_ = f"schedperf.1.{commit or 'digest'}.7f3a91c2.{kind}.{number}"
    copies = f"Cc: {', '.join(cc)}\n" if cc else ""
    head = (
        f"From: schedperf <{BOT}>\nTo: {', '.join(to)}\n{copies}"
        f"Subject: sched/fair: {commit}: hackbench 21.8% regression\n"
        f"Date: Fri, 27 Nov 2026 11:00:00 +0000\nMessage-ID: <{id_}@{DOMAIN}>\n{references}"
        "MIME-Version: 1.0\nContent-Type: text/plain; charset=us-ascii\n"
        "Content-Transfer-Encoding: 7bit\n"
    )
    metadata = Metadata(
        kind=kind,
        subject=f"sched/fair: {commit}: hackbench 21.8% regression",
        message_id=f"<{id_}@{DOMAIN}>",
        to=to,
        cc=cc,
        public=any("lists" in address for address in (*to, *cc)),
        culprit="7f3a91c2",
        commit=commit,
        fingerprint=None,
        rendered="2026-11-27T11:00:00+00:00",
        checks=checks,
        benchmark_class=benchmark_class,
    )
    return Message(metadata=metadata, content=f"{head}\n{body}".encode())


def make_outbox(folder: Path, *messages: Message, state: str = "held") -> Outbox:
    """Return an outbox that has some mails, held or approved."""
    outbox = Outbox(folder)
    for message in messages:
        outbox.hold(message, now=NOW)
        if state == "approved":
            outbox.move(outbox.find(message.metadata.id), "approved", "person", now=NOW)
    return outbox
