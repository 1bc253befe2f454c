# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``form``: the mail is short plain text, all its figures are present, and its links work."""

import re

from schedperf.publish.culprit.record import Check
from schedperf.publish.mail.checks.context import Context
from schedperf.publish.mail.draft import quoted_texts
from schedperf.publish.mail.lint import lint
from schedperf.publish.mail.message import Message

_ADDRESS = re.compile(r"https?://[^\s<>\"]+")


def check(context: Context) -> Check:
    """Fail with the first problem that the linter finds, else with a problem of the site's URLs.

    URLs have a problem if the site publishes nothing, if they are not checked, or if one does not
    answer.
    """
    faults = lint(context.message.content, quoted_texts(context.evidence))
    return Check.of("form", *faults, _links(context))


def _links(context: Context) -> str | None:
    """Return the problem of the site's own URLs; None if all answer.

    URLs of other sites are not checked.
    """
    base = context.site.site.base_url
    text = context.message.content.decode()
    links = [each for each in _ADDRESS.findall(text) if base and each.startswith(base)]
    if not base:
        return "nothing is published: set base_url in mail.toml, and run schedperf publish"
    if context.is_reachable is None:
        return "links not checked: draft with --check-links"
    for each in links:
        if context.is_reachable(each) != "yes":
            return f"{each} does not answer: run schedperf publish, and upload"
    return None


def check_digest(message: Message) -> Check:
    """Fail with the first problem of a digest, which is sent only to the site's own list."""
    return Check.of("form", *lint(message.content))
