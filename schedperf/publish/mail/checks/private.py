# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``private``: no host name, machine id, kernel parameter, user or path leaves the site.

Values of machines are private if ``schedperf publish`` leaves them out.
"""

import re

from schedperf.publish.culprit.figures import Evidence
from schedperf.publish.culprit.record import Check
from schedperf.publish.mail.checks.context import Context
from schedperf.publish.mail.draft import recorded_texts
from schedperf.publish.pages.host import private_values
from schedperf.publish.pages.private import PrivateStrings, find_places

_IN_CURRENT_FOLDER = re.compile(r"\./[^/]+")


def check(context: Context) -> Check:
    """Fail if the mail has a private string, or is about a private tree."""
    tree = context.evidence.culprit.tree
    secret = f"the tree {tree.name} is private" if tree and tree.private else None
    # A line may end within a value.
    shown = " ".join(context.message.content.decode("utf-8", "replace").split())
    return Check.of("private", secret, _name(context, shown), _place(context.evidence, shown))


def _name(context: Context, shown: str) -> str | None:
    # Names of accounts may be those of people in commits, so only values of machines are searched
    # for.
    names = {
        value
        for comparison in context.evidence.comparisons.values()
        for side in comparison.sides
        for value in private_values(side.host)
    }
    name = PrivateStrings(names, public=context.site.public).find(shown)
    if name is None:
        return None
    return (
        f"the mail contains {name!r}, which a recording has in a private field: record without it, "
        "or add it to public in mail.toml if it is also a common word"
    )


def _place(evidence: Evidence, shown: str) -> str | None:
    """Return why the mail has a private path or address; None if it has none.

    Only those in recorded texts are private; those in commits and of the site itself are public.
    """
    for text in recorded_texts(evidence):
        for place in find_places(text):
            if place in shown and not _IN_CURRENT_FOLDER.fullmatch(place):
                return f"the mail contains the path or address {place}: record a public command"
    return None
