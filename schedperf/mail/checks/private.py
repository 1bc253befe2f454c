# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``private``: no host name, machine id, kernel parameter, user or path leaves the site.

Values of machines are private if ``schedperf publish`` leaves them out.
"""

import re

from schedperf.culprit.record import Check
from schedperf.mail.checks.context import Context
from schedperf.publish.host import private_values
from schedperf.publish.private import PrivateStrings

_PATH = re.compile(r"/(?:home|root|mnt|srv|tmp)/[^/\s]+")


def check(context: Context) -> Check:
    """Fail if the mail has a private string, or is about a private tree."""
    tree = context.evidence.culprit.tree
    secret = f"the tree {tree.name} is private" if tree and tree.private else None
    text = context.message.content.decode("utf-8", "replace")
    return Check.of("private", secret, _found(context, text))


def _found(context: Context, text: str) -> str | None:
    path = _PATH.search(text)
    if path is not None:
        return f"the mail contains the path {path[0]}: record with a public command"
    # Names of accounts may be those of people in commits, so only values of machines are searched.
    names = {
        value
        for comparison in context.evidence.comparisons.values()
        for side in comparison.sides
        for value in private_values(side.host)
    }
    # A line may end within a value.
    name = PrivateStrings(names, public=context.site.public).find(" ".join(text.split()))
    if name is None:
        return None
    return (
        f"the mail contains {name!r}, which a recording has in a private field: record without it, "
        "or add it to public in mail.toml if it is also a common word"
    )
