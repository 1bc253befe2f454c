# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf mail``: draft, approve and send mails about regressions."""

import getpass
import importlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedperf.model.errors import InputError
from schedperf.model.text import clean, clean_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedperf.publish.mail.outbox import Contents, Decision, Mail, Outbox
    from schedperf.publish.mail.site import MailSite

_RESULTS = {"waits": "waits for a person", "failed": "not sent, the next send tries again"}
# Replies to a mail that the list shows.
_MOST_REPLIES = 3
_DRAFT = "schedperf.commands._mail_draft"
_HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}

EPILOG = """\b
Examples:
  schedperf mail list
  schedperf mail why 7f3a91c2.report.1
  schedperf mail approve 7f3a91c2.report.1
  schedperf mail send
\b
A mail is held until a person approves it, and no transport is configured at
first: docs/mail.md describes mail.toml.
"""


class _Subcommands(click.Group):
    """The subcommands; ``draft`` is imported on demand, because it renders."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "draft"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "draft":
            command: click.Command | None = importlib.import_module(_DRAFT).command
        else:
            command = super().get_command(ctx, cmd_name)
        if command is not None:
            command.context_settings.update(_HELP_OPTIONS)
        return command


@click.group(name="mail", cls=_Subcommands, epilog=EPILOG)
def command() -> None:
    """Draft, approve and send mails about regressions.

    Mails are files in an outbox, with one folder per state: held, approved, sending, sent, refused
    and withdrawn.
    """


OUTBOX = click.option(
    "--outbox",
    "folder",
    metavar="FOLDER",
    default="outbox",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Use this outbox.",
)
ID = click.argument("mail_id", metavar="ID")


@command.command(name="list")
@OUTBOX
def list_(folder: Path) -> int:
    """List the mails, what holds them, replies of people with their age, and what they silenced.

    The exit status is 1 if the outbox has a problem, such as a foreign file.
    """
    outbox = _open(folder)
    contents: Contents = outbox.read()
    decisions = outbox.decisions()
    for mail in contents.mails:
        click.echo(f"{mail.state:<9}  {mail.id}  {clean_line(mail.metadata.subject)}")
        if reason := _waits_for(outbox, folder, mail):
            click.echo(f"{'':<9}  {reason}")
        for line in _replies_to(mail, decisions):
            click.echo(f"{'':<9}  {line}")
    if not contents.mails:
        click.echo(f"{folder}: no mails", err=True)
    for line in _quiet(outbox):
        click.echo(line)
    for problem in contents.problems:
        click.echo(problem, err=True)
    return int(bool(contents.problems))


@command.command()
@ID
@OUTBOX
def show(mail_id: str, folder: Path) -> None:
    """Print a mail, as it is or will be sent.

    ID may be a part of the ID that no other mail has.
    """
    outbox = _open(folder)
    mail = outbox.find(mail_id)
    click.echo(clean(_content(outbox, mail).decode(errors="replace")), nl=False)


@command.command()
@ID
@OUTBOX
def why(mail_id: str, folder: Path) -> None:
    """Print what holds a mail, what would satisfy it, and its history."""
    outbox = _open(folder)
    mail = outbox.find(mail_id)
    click.echo(f"{mail.id}: {mail.state}")
    is_settled = mail.state in {"sent", "withdrawn"}
    reasons = [] if is_settled else _reasons(outbox, _site(folder), mail)
    for reason in reasons:
        click.echo(f"  {clean_line(reason)}")
    if not reasons and mail.state == "held":
        click.echo("  all checks passed: schedperf mail approve")
    click.echo("history:")
    for step in mail.history:
        reason = f": {clean_line(step.reason)}" if step.reason else ""
        click.echo(f"  {step.when}  {step.state} by {clean_line(step.who)}{reason}")


@command.command()
@ID
@click.option("--regzbot", is_flag=True, help="Ask the kernel's regression tracker to track it.")
@OUTBOX
def approve(mail_id: str, folder: Path, *, regzbot: bool) -> None:
    """Approve a held mail: schedperf mail send will send it.

    A mail to a public list must pass all checks; no option skips them. --regzbot adds a paragraph
    for the tracker and Cc regressions@lists.linux.dev, not for micro-benchmarks.
    """
    from schedperf.publish.mail import approval  # noqa: PLC0415 # --help stays fast

    outbox = _open(folder)
    mail = outbox.find(mail_id)
    mail = approval.approve(outbox, _site(folder), mail, _who(), _now(), regzbot=regzbot)
    click.echo(f"{mail.id}: approved; schedperf mail send sends it", err=True)


@command.command()
@ID
@click.option("--reason", metavar="TEXT", default="", help="Record why.")
@OUTBOX
def withdraw(mail_id: str, reason: str, folder: Path) -> None:
    """Withdraw a mail that was not sent."""
    from schedperf.publish.mail import approval  # noqa: PLC0415 # --help stays fast

    outbox = _open(folder)
    mail = approval.withdraw(outbox, outbox.find(mail_id), _who(), _now(), clean_line(reason))
    click.echo(f"{mail.id}: withdrawn", err=True)


@command.command()
@ID
@click.option(
    "--arrived/--not-arrived",
    required=True,
    default=None,
    help="What you found in the archive of the list: it arrived, or did not.",
)
@OUTBOX
def resolve(mail_id: str, folder: Path, *, arrived: bool) -> None:
    """Record whether a mail whose sending was interrupted arrived.

    A mail that did not arrive is sent again by the next schedperf mail send.
    """
    from schedperf.publish.mail import approval  # noqa: PLC0415 # --help stays fast

    outbox = _open(folder)
    mail = approval.resolve(outbox, outbox.find(mail_id), _who(), _now(), arrived=arrived)
    click.echo(f"{mail.id}: {mail.state}", err=True)


@command.command()
@click.argument("path", metavar="PATH", type=click.Path(path_type=Path))
@OUTBOX
def replies(path: Path, folder: Path) -> None:
    """Read replies: "stop" or "expected" silences a thread.

    PATH is a Maildir, or a git clone of a public-inbox; it is only read. The word must be a line of
    its own. A bounce suspends the address.
    """
    outbox = _open(folder)
    _apply_replies(outbox, path)
    _settle_steps(outbox, _site(folder))


@command.command()
@OUTBOX
def send(folder: Path) -> int:
    """Send the approved mails, each once.

    Replies are read first, if mail.toml says where they are. An interrupted attempt is repeated
    only if the archive shows that the mail did not arrive; otherwise it waits for a person. The
    exit status is 1 if a mail was refused, waits for a person, or was not sent because the
    transport or the archive failed; it is 0 if the server only asked for a later retry.
    """
    from schedperf.publish.mail.archive import open_archive  # noqa: PLC0415 # --help stays fast
    from schedperf.publish.mail.send import Sender  # noqa: PLC0415 # as above
    from schedperf.publish.mail.transports import open_transport  # noqa: PLC0415 # as above

    outbox, site = _open(folder), _site(folder)
    if site.replies is not None:
        _apply_replies(outbox, Path(site.replies))
    sender = Sender(outbox, site, open_transport(site), open_archive(site.archive), _now())
    is_done = True
    for sent in sender.send():
        is_done = is_done and sent.result not in {"refused", "failed", "waits"}
        reason = f": {clean_line(sent.reason)}" if sent.reason else ""
        click.echo(f"{sent.id}: {_RESULTS.get(sent.result, sent.result)}{reason}")
    _settle_steps(outbox, site)
    return int(not is_done)


def _apply_replies(outbox: "Outbox", path: Path) -> None:
    from schedperf.publish.mail.replies import read_replies  # noqa: PLC0415 # --help stays fast

    for heard in read_replies(outbox, path, _now()):
        click.echo(f"{clean_line(heard.file)}: {clean_line(heard.effect)}")


def _settle_steps(outbox: "Outbox", site: "MailSite") -> None:
    """Give steps the states that follow from mails and replies, if mail.toml names a store."""
    from schedperf.publish.mail.states import settle_steps  # noqa: PLC0415 # --help stays fast

    if site.store is None:
        return
    store, decisions = Path(site.store), outbox.decisions()
    for line in settle_steps(
        store, outbox.mails(), decisions, lambda text: click.echo(text, err=True)
    ):
        click.echo(clean_line(line))


def _content(outbox: "Outbox", mail: "Mail") -> bytes:
    return outbox.held_content(mail) if mail.state == "held" else outbox.content(mail)


def _reasons(outbox: "Outbox", site: "MailSite", mail: "Mail") -> list[str]:
    """Return one line for each reason why a mail is not sent, with what would resolve it.

    The reasons are failed checks, and those of :func:`_obstacles`.

    :raises InputError: as :func:`_obstacles`
    """
    from schedperf.publish.mail.approval import failed_checks  # noqa: PLC0415 # --help stays fast

    return [*failed_checks(mail.metadata), *_obstacles(outbox, site, mail)]


def _obstacles(outbox: "Outbox", site: "MailSite", mail: "Mail") -> list[str]:
    """Return one line for each reason that would keep the next `send` from sending a mail.

    :raises InputError: an address is invalid, or the outbox has a problem
    """
    from schedperf.publish.mail.limits import obstacles, over_quota  # noqa: PLC0415 # --help stays fast

    return [
        *obstacles(outbox, site, mail.metadata, _content(outbox, mail), _now()),
        *over_quota(mail.metadata, site, outbox.mails(), _now()),
    ]


def _waits_for(outbox: "Outbox", folder: Path, mail: "Mail") -> str:
    """Return what `mail list` prints below a mail; "" for nothing.

    It is why an approved mail waits, the checks that a held mail failed, or the result of the last
    attempt to send the mail.
    """
    if mail.state == "approved":
        try:
            obstacles = _obstacles(outbox, _site(folder), mail)
        except InputError as error:
            obstacles = [str(error)]
        if obstacles:
            return f"waits: {clean_line(obstacles[0].partition(';')[0])}"
    return _held_by(mail)


def _replies_to(mail: "Mail", decisions: "Sequence[Decision]") -> list[str]:
    """Return one line for each of the last replies of people to a mail, with its age."""
    now = _now()
    lines = []
    for each in decisions:
        if each.act == "reply" and each.id == mail.id:
            days = max(0, (now - datetime.fromisoformat(each.written or each.when)).days)
            age = "today" if not days else f"{days} day{'s' * (days != 1)} ago"
            lines.append(f"reply of {clean_line(each.who)}, {age}")
    left = len(lines) - _MOST_REPLIES
    earlier = f"{left} earlier repl{'y' if left == 1 else 'ies'}"
    return [*([earlier] if left > 0 else []), *lines[-_MOST_REPLIES:]]


def _held_by(mail: "Mail") -> str:
    from schedperf.publish.mail.approval import failed_checks  # noqa: PLC0415 # --help stays fast

    if mail.state == "held":
        names = [line.partition(":")[0] for line in failed_checks(mail.metadata)]
        return f"checks that failed: {', '.join(names)}" if names else "all checks passed"
    was_tried = mail.state in {"sending", "refused"} or (
        mail.state == "approved" and any(step.state == "sending" for step in mail.history[-2:-1])
    )
    return clean_line(mail.last.reason) if was_tried else ""


def _quiet(outbox: "Outbox") -> list[str]:
    from schedperf.publish.mail.limits import (  # noqa: PLC0415 # --help stays fast
        silenced_threads,
        suspended_addresses,
    )

    decisions = outbox.decisions()
    return [
        *(
            f"silenced   {clean_line(thread)} by {clean_line(who)}"
            for thread, who in silenced_threads(decisions).items()
        ),
        *(
            f"suspended  {clean_line(address)}"
            for address in sorted(suspended_addresses(decisions))
        ),
    ]


def _open(folder: Path) -> "Outbox":
    from schedperf.publish.mail.outbox import Outbox  # noqa: PLC0415 # --help stays fast

    if not folder.is_dir():
        raise InputError(f"{folder}: no outbox there; check --outbox, or draft a mail first")
    return Outbox(folder)


def _site(folder: Path) -> "MailSite":
    from schedperf.publish.mail.site import read_site  # noqa: PLC0415 # --help stays fast

    return read_site(folder)


def _who() -> str:
    try:
        return getpass.getuser()
    # The user ID has no entry in /etc/passwd.
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _now() -> datetime:
    return datetime.now(UTC)
