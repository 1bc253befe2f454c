# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``fresh``: the commit is recent, and neither superseded nor undone."""

from datetime import UTC, datetime, timedelta

from schedperf.publish.culprit.record import Check
from schedperf.publish.mail.checks.context import Context

OLDEST = timedelta(days=90)


def check(context: Context) -> Check:
    """Fail if the commit is outdated, or if that is unknown; a mail about a fix always passes.

    A posted patch is outdated if the archive has a newer version of its series. Any other commit is
    outdated if it was committed more than 90 days ago, if a fix or a revert is known, or if the
    newest kernel of the tree has no regression. That kernel must have been measured.

    :raises InputError: the record has no regression, or a comparison is missing
    """
    culprit = context.evidence.culprit
    if context.message.metadata.kind == "fixed":
        return Check.of("fresh")
    if culprit.is_open_patch and culprit.links.posted:
        return Check.of("fresh", _newer_version(context, culprit.links.posted))
    return Check.of("fresh", _age(context), _undone(context))


def _newer_version(context: Context, posted: str) -> str | None:
    if context.has_newer_version is None:
        return "not checked for a newer version of the series: set patches in mail.toml"
    match context.has_newer_version(posted):
        case "no":
            return None
        case "yes":
            return "the archive has a newer version of the series: measure that one"
        case _:
            return (
                "not checked for a newer version of the series: the archive does not have the "
                "patch, or does not answer"
            )


def _age(context: Context) -> str | None:
    committed = context.evidence.culprit.bad.committed
    if committed is None:
        return "date of the commit not recorded: make the record with --repo"
    try:
        date = datetime.fromisoformat(committed)
    except ValueError:
        return "date of the commit is invalid: make the record with --repo"
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    days = (context.now - date).days
    if context.now - date > OLDEST:
        return f"committed {days} days ago (expected at most {OLDEST.days}): write yourself"
    return None


def _undone(context: Context) -> str | None:
    culprit = context.evidence.culprit
    if culprit.fixed_by is not None:
        return f"fixed by {culprit.fixed_by.commit[:12]}: send --kind fixed if it was reported"
    if context.undone_by is None:
        return (
            "not checked whether the tree reverts or fixes the commit: draft with --repo, whose "
            "HEAD has the commit"
        )
    if context.undone_by:
        return f"reverted or fixed by {context.undone_by[0][:12]}: measure the newest kernel"
    tip = context.evidence.row_like(culprit.tip, context.evidence.headline())
    if tip is None:
        return "the newest kernel of the tree was not measured: measure it"
    if tip.verdict != "regression":
        return f"the newest kernel of the tree is {tip.verdict}: nothing to report"
    return None
