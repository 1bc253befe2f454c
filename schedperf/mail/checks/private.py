# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``private``: no host name, machine id, kernel parameter, user or path leaves the site."""

import re
from collections.abc import Iterator

from schedperf.culprit.record import Check
from schedperf.mail.checks.context import Context, judge
from schedperf.model.comparison import SideSummary

_SYSTEM = ("hostname", "machine_id_sha256", "boot_id")
# Shorter words are in every text.
_SHORTEST = 4
_PATH = re.compile(r"/(?:home|root|mnt|srv|tmp)/[^/\s]+")


def check(context: Context) -> Check:
    """Fail if the mail has a private string, or is about a private tree."""
    tree = context.evidence.culprit.tree
    secret = f"the tree {tree.name} is private" if tree and tree.private else None
    text = context.message.content.decode("utf-8", "replace")
    return judge("private", secret, _found(context, text))


def _found(context: Context, text: str) -> str | None:
    lower = text.lower()
    for comparison in context.evidence.comparisons.values():
        for side in comparison.sides:
            for what, string in _private_strings(side):
                if re.search(rf"(?<![\w.-]){re.escape(string.lower())}(?![\w-])", lower):
                    return (
                        f"the mail contains the {what} of {side.name}: rename it and record again"
                    )
    path = _PATH.search(text)
    return f"the mail contains the path {path[0]}: record with a public command" if path else None


def _private_strings(side: SideSummary) -> Iterator[tuple[str, str]]:
    system, kernel = side.host.get("system"), side.host.get("kernel")
    if isinstance(system, dict):
        for key in _SYSTEM:
            value = system.get(key)
            if isinstance(value, str) and len(value) >= _SHORTEST:
                yield key, value
    words = kernel.get("cmdline") if isinstance(kernel, dict) else None
    for word in words.split() if isinstance(words, str) else ():
        if "=" in word:
            yield "kernel command line", word
    if side.path.startswith("/"):
        yield "path", side.path
