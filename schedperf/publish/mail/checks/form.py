# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``form``: the mail is short plain text, all its figures are present, and its links work."""

import re
from collections.abc import Iterator

from schedperf.model.text import clean_line
from schedperf.publish.culprit.record import Check
from schedperf.publish.mail.checks.context import Context
from schedperf.publish.mail.draft import quoted_texts
from schedperf.publish.mail.lint import lint
from schedperf.publish.mail.message import Message
from schedperf.publish.mail.render.reproduce import printed_commands

_SHOWN = 80
_ADDRESS = re.compile(r"https?://[^\s<>\"]+")


def check(context: Context) -> Check:
    """Fail with the first problem that the linter finds, else of a command or a URL.

    A printed command has a problem if the parser of schedperf refuses it.

    URLs have a problem if the site publishes nothing, if they are not checked, or if one does not
    answer.
    """
    faults = lint(context.message.content, quoted_texts(context.evidence))
    return Check.of("form", *faults, *_commands(context), _links(context))


def _commands(context: Context) -> Iterator[str]:
    """Yield a problem for each placeholder of a point, and each command that schedperf refuses."""
    subject = context.message.metadata.subject
    body = context.message.content.decode().partition("\n\n")[2]
    rows = context.evidence.main.rows
    names = {part.partition("=")[0] for row in rows for part in row.point.split(",") if part}
    for name in sorted(names):
        if f"{{{name}}}" in f"{subject}\n{body}":
            yield f"placeholder {{{name}}} without its value: record the workload again"
    for line in printed_commands(body):
        problem = context.check_command(line) if context.check_command else None
        if problem is not None:
            yield f"schedperf refuses the printed command ({clean_line(problem)[:_SHOWN]})"


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
