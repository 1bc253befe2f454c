# SPDX-License-Identifier: GPL-2.0-or-later
"""Ask the archive for newer versions of a patch, and servers whether an address answers."""

import html
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

from schedperf.mail.checks.context import Answer

_LIMIT_S = 10.0
_LARGEST = 1 << 20
# The program, not a browser, in the log of the server.
_AGENT = {"User-Agent": "schedperf"}
_NUMBER = re.compile(r"\bv(\d{1,3})\b", re.IGNORECASE)
_SUBJECT = re.compile(rb"^Subject: (.*(?:\r?\n[ \t].*)*)", re.MULTILINE)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL)


def is_reachable(address: str) -> Answer:
    """Say whether an address answers with a success."""
    try:
        request = urllib.request.Request(address, method="HEAD", headers=_AGENT)  # noqa: S310 # http(s) only
        with urllib.request.urlopen(request, timeout=_LIMIT_S):  # noqa: S310 # as above
            return "yes"
    except urllib.error.HTTPError:
        return "no"
    except (OSError, ValueError):
        return "unknown"


def asks_archive(url: str) -> Callable[[str], Answer]:
    """Return a function that says whether a public-inbox has a newer version of a patch.

    :param url: of the archive
    """

    def has_newer_version(message_id: str) -> Answer:
        identity = urllib.parse.quote(message_id.strip("<>"), safe="@")
        raw = _get(f"{url.rstrip('/')}/{identity}/raw")
        subject = _SUBJECT.search(raw) if raw else None
        if subject is None:
            return "unknown"
        version, title = split_subject(subject[1].decode("utf-8", "replace"))
        query = urllib.parse.urlencode({"q": f's:"{title}"', "x": "A"})
        feed = _get(f"{url.rstrip('/')}/?{query}")
        if feed is None:
            return "unknown"
        titles = map(html.unescape, _TITLE.findall(feed.decode("utf-8", "replace")))
        versions = [split_subject(text) for text in titles]
        return "yes" if any(v > version and t == title for v, t in versions) else "no"

    return has_newer_version


def split_subject(subject: str) -> tuple[int, str]:
    """Return version and title of a patch.

    >>> split_subject("[PATCH v3 2/4] sched/fair: Do it")
    (3, 'sched/fair: Do it')
    """
    line = " ".join(subject.split())
    prefix, _, title = line.rpartition("] ") if line.startswith("[") else ("", "", line)
    number = _NUMBER.search(prefix)
    return (int(number[1]) if number else 1), title


def _get(address: str) -> bytes | None:
    """Return the content of an address; None if it does not answer."""
    try:
        request = urllib.request.Request(address, headers=_AGENT)  # noqa: S310 # http(s) only
        with urllib.request.urlopen(request, timeout=_LIMIT_S) as answer:  # noqa: S310 # as above
            content: bytes = answer.read(_LARGEST)
            return content
    except (OSError, ValueError):
        return None
