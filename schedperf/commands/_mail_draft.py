# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf mail draft``: render a mail, check it, and hold it in the outbox."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from schedperf.commands.mail import OUTBOX
from schedperf.model.errors import InputError
from schedperf.publish.mail.message import Kind
from schedperf_collectors.machine.new_files import open_unplanted

if TYPE_CHECKING:
    from schedperf.history.questions.balance import Balance
    from schedperf.publish.culprit.figures import Evidence
    from schedperf.publish.culprit.record import Check
    from schedperf.publish.mail.message import Message
    from schedperf.publish.mail.outbox import Mail, Outbox
    from schedperf.publish.mail.site import MailSite

REPLIES_AND_REPORT = tuple(kind for kind in get_args(Kind) if kind != "digest")

EPILOG = """\b
Examples:
  schedperf mail draft culprit/culprit.json --repo linux
  schedperf mail draft culprit/culprit.json --kind fixed -o -
  schedperf mail draft --digest --store history --week 2026-W48
"""


@click.command(name="draft", epilog=EPILOG)
@click.argument(
    "files", metavar="[CULPRIT] [COMPARISON]...", nargs=-1, type=click.Path(path_type=Path)
)
@click.option(
    "--kind",
    type=click.Choice(REPLIES_AND_REPORT),
    default="report",
    show_default=True,
    help="Draft the report, or a reply to it.",
)
@click.option("--digest", is_flag=True, help="Draft the digest of a week of a store.")
@click.option(
    "--store",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Read this store: for the digest, and for the check balance.  [default: store in "
    "mail.toml]",
)
@click.option(
    "--week",
    metavar="WEEK",
    help="Draft the digest of this week, e.g. 2026-W48, Monday to Sunday.  [default: that of "
    "yesterday]",
)
@click.option(
    "--repo",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Ask this kernel repository for maintainers, reverts and fixes.",
)
@click.option(
    "--maintainers-from",
    "maintainers_from",
    metavar="REF",
    help="Read MAINTAINERS of this commit of --repo, whose authors you trust.  [default: the "
    "newest release of mainline before the last good commit]",
)
@click.option("--check-links", is_flag=True, help="Check that the published pages answer.")
@OUTBOX
@click.option("-o", "--output", metavar="FILE", help="Write the mail to this file (- for stdout).")
def command(
    files: tuple[Path, ...],
    *,
    kind: Kind,
    digest: bool,
    store: Path | None,
    week: str | None,
    repo: Path | None,
    maintainers_from: str | None,
    check_links: bool,
    folder: Path,
    output: str | None,
) -> None:
    """Render, check and hold a mail about a first bad commit.

    CULPRIT is the record that `schedperf culprit` writes; its comparisons are found beside it, or
    are given. Nothing is sent: a person approves the mail. Each failed check says what would
    satisfy it.
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.publish.mail.outbox import Outbox  # noqa: PLC0415
    from schedperf.publish.mail.site import read_site  # noqa: PLC0415

    if maintainers_from is not None and repo is None:
        raise click.UsageError("--maintainers-from: given without --repo; add --repo DIR")
    site = read_site(folder)
    outbox = Outbox(folder)
    now = datetime.now(UTC).replace(microsecond=0)
    store = store or (None if site.store is None else Path(site.store))
    if week is not None and not digest:
        raise click.UsageError("--week: given without --digest; add --digest")
    if digest:
        message = _draft_digest(files, store, week, outbox=outbox, site=site, now=now)
    else:
        message = _draft(
            files,
            kind,
            outbox,
            site,
            now,
            store=store,
            repo=repo,
            maintainers_from=maintainers_from,
            check_links=check_links,
        )
    if output is not None:
        _write(output, message.content)
        _print_checks(message.metadata.checks)
    else:
        _hold(outbox, message)


def _draft_digest(
    files: Sequence[Path],
    store: Path | None,
    week: str | None,
    *,
    outbox: "Outbox",
    site: "MailSite",
    now: datetime,
) -> "Message":
    """Return the digest of a week of a store, with its checks.

    :param files: none may be given
    :param week: None for that of yesterday
    """
    from schedperf.history.questions.history import open_history  # noqa: PLC0415
    from schedperf.history.questions.week import parse_week, read_week  # noqa: PLC0415
    from schedperf.publish.mail.checks.balance import check_balance  # noqa: PLC0415
    from schedperf.publish.mail.checks.form import check_digest  # noqa: PLC0415
    from schedperf.publish.mail.draft import with_checks  # noqa: PLC0415
    from schedperf.publish.mail.render.digest import draft_digest  # noqa: PLC0415

    if files:
        raise click.UsageError(f"--digest: given with {files[0]}; give --store DIR only")
    if store is None:
        raise click.UsageError("--digest: given without --store; add --store DIR")
    dates = parse_week(week, now.date())
    with open_history(store) as history:
        shown = read_week(history, dates, now.date())
    message = draft_digest(shown, outbox.mails(), site, now)
    return with_checks(message, [check_digest(message), check_balance(shown.balance)])


def _read_balance(store: Path | None) -> "Balance | None":
    from schedperf.history.questions.balance import read_balance  # noqa: PLC0415
    from schedperf.history.questions.history import open_history  # noqa: PLC0415

    if store is None:
        return None
    with open_history(store) as history:
        return read_balance(history)


def _draft(
    files: Sequence[Path],
    kind: Kind,
    outbox: "Outbox",
    site: "MailSite",
    now: datetime,
    *,
    store: Path | None,
    repo: Path | None,
    maintainers_from: str | None,
    check_links: bool,
) -> "Message":
    from schedperf.commands._printed import check_command  # noqa: PLC0415
    from schedperf.publish.mail.checks import run_checks  # noqa: PLC0415
    from schedperf.publish.mail.checks.context import Context  # noqa: PLC0415
    from schedperf.publish.mail.draft import Request, draft, find_report, with_checks  # noqa: PLC0415
    from schedperf.publish.mail.recipients import Maintainers, recipients_of_record  # noqa: PLC0415
    from schedperf.publish.mail.repository import ask_maintainers, find_undoing  # noqa: PLC0415
    from schedperf.publish.mail.web import asks_archive, is_reachable  # noqa: PLC0415

    evidence = _load(files)
    good, bad = evidence.culprit.good, evidence.culprit.bad
    tree = evidence.culprit.tree.name if evidence.culprit.tree else None
    mails = outbox.mails()
    maintainers = (
        ask_maintainers(repo, good.commit, bad.commit, maintainers_from) if repo else Maintainers()
    )
    recipients = recipients_of_record(evidence.culprit, site, maintainers)
    for line in recipients.left_out:
        click.echo(f"left out: {line}", err=True)
    report = find_report(evidence.culprit, mails)
    request = Request(
        evidence=evidence,
        kind=kind,
        site=site,
        recipients=recipients,
        now=now,
        earlier=mails,
        report=outbox.content(report) if report and kind != "report" else None,
    )
    message = draft(request)
    context = Context(
        message=message,
        evidence=evidence,
        site=site,
        now=now,
        earlier=mails,
        decisions=outbox.decisions(),
        has_newer_version=asks_archive(site.patches) if site.patches else None,
        is_reachable=is_reachable if check_links else None,
        check_command=check_command,
        undone_by=find_undoing(repo, bad.commit, tree) if repo else None,
        balance=_read_balance(store),
    )
    return with_checks(message, run_checks(context))


def _load(files: Sequence[Path]) -> "Evidence":
    """Read the record and its comparisons: the given ones, and those in the same directory.

    :param files: the record, then comparisons
    :raises InputError: no file is given, one cannot be read, or the record does not refer to one
    """
    from schedperf.publish.culprit.figures import Evidence  # noqa: PLC0415
    from schedperf.publish.culprit.files import (  # noqa: PLC0415
        find_comparisons,
        load_comparison,
        load_culprit,
    )

    if not files:
        raise InputError("mail draft: no CULPRIT (expected the record of schedperf culprit new)")
    culprit = load_culprit(files[0])
    given = {}
    for path in files[1:]:
        comparison = load_comparison(path)
        if comparison.id not in culprit.comparisons:
            raise InputError(
                f"{path}: {files[0]} does not refer to this comparison; leave it out, or add it by "
                "schedperf culprit add"
            )
        given[comparison.id] = comparison
    left = {each for each in culprit.comparisons if each not in given}
    found = find_comparisons(files[0].parent, left) if left else {}
    return Evidence(culprit=culprit, comparisons={**given, **found})


def _hold(outbox: "Outbox", message: "Message") -> None:
    metadata = message.metadata
    earlier: Mail | None = next((each for each in outbox.mails() if each.id == metadata.id), None)
    if earlier is not None:
        is_final = earlier.state in {"sending", "sent"}
        advice = (
            "it is sent once"
            if is_final
            else f"to draft it again: schedperf mail withdraw {metadata.id}"
        )
        click.echo(f"{metadata.id}: already {earlier.state}; {advice}", err=True)
        return
    outbox.hold(message)
    click.echo(f"{outbox.path / 'held' / metadata.id}.eml: held; {metadata.subject}")
    _print_checks(metadata.checks)


def _print_checks(checks: Sequence["Check"]) -> None:
    for check in checks:
        if not check.passed:
            click.echo(f"  {check.name}: {check.reason}", err=True)


def _write(output: str, content: bytes) -> None:
    if output == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        with open(output, "wb", opener=open_unplanted) as file:
            file.write(content)
    except OSError as error:
        raise InputError(f"{output}: {(error.strerror or str(error)).lower()}") from None
