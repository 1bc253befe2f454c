# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``form``: the mail is plain text of a bounded size, without empty figures, links answer."""

import re

from schedperf.culprit.record import Check
from schedperf.mail.checks.context import Context
from schedperf.mail.draft import quoted_texts
from schedperf.mail.lint import lint
from schedperf.mail.message import Message

_ADDRESS = re.compile(r"https?://[^\s<>\"]+")


def check(context: Context) -> Check:
    """Fail with the first fault that the lint finds, or an address that does not answer."""
    faults = lint(context.message.content, quoted_texts(context.evidence))
    return Check.of("form", *faults, _links(context))


def _links(context: Context) -> str | None:
    """Ask for the addresses of the site; those of others are not ours to mend."""
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
    """Fail with the first fault of a digest, which goes to the site's own list only."""
    return Check.of("form", *lint(message.content))
