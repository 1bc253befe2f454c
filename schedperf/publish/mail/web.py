# SPDX-License-Identifier: GPL-2.0-or-later
"""Query the archive for newer versions of a patch, and check whether URLs answer."""

import html
import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

from schedperf.publish.mail.checks.context import Answer

_LIMIT_S = 10.0
_LARGEST = 1 << 20
# The user agent, which servers log.
_AGENT = {"User-Agent": "schedperf"}
# http.client reports an invalid answer or URL by an exception that is not an OSError.
_NO_ANSWER = (OSError, http.client.HTTPException, ValueError)
_PREFIXES = re.compile(r"\A(?:\[[^]]*\] ?)*")
_NUMBER = re.compile(r"\bv(\d{1,3})\b", re.IGNORECASE)
_SUBJECT = re.compile(rb"^Subject: (.*(?:\r?\n[ \t].*)*)", re.MULTILINE)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL)


def is_reachable(address: str) -> Answer:
    """Return whether a URL exists.

    :return: "yes" for a success status, "no" for an error status, "unknown" if the server does not
        answer within 10 s, its answer is not HTTP, or the URL is invalid
    """
    try:
        request = urllib.request.Request(address, method="HEAD", headers=_AGENT)  # noqa: S310 # http(s) only
        with urllib.request.urlopen(request, timeout=_LIMIT_S):  # noqa: S310 # as above
            return "yes"
    except urllib.error.HTTPError:
        return "no"
    except _NO_ANSWER:
        return "unknown"


def asks_archive(url: str) -> Callable[[str], Answer]:
    """Return a function that checks whether a public-inbox has a newer version of a patch.

    The function takes the Message-ID of the patch. It returns "unknown" if the archive lacks the
    patch, or does not answer.

    :param url: URL of the archive
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
    """Return version and title of a patch; a subject without ``vN`` is version 1.

    >>> split_subject("[PATCH v3 2/4] sched/fair: Do it")
    (3, 'sched/fair: Do it')
    >>> split_subject("[RFC] [PATCH v2] sched: use cpu[0] of [x] groups")
    (2, 'sched: use cpu[0] of [x] groups')
    """
    line = " ".join(subject.split())
    title = _PREFIXES.sub("", line)
    number = _NUMBER.search(line.removesuffix(title))
    return (int(number[1]) if number else 1), title


def _get(address: str) -> bytes | None:
    """Return the first MiB of a URL; None for an error status, or without an HTTP answer."""
    try:
        request = urllib.request.Request(address, headers=_AGENT)  # noqa: S310 # http(s) only
        with urllib.request.urlopen(request, timeout=_LIMIT_S) as answer:  # noqa: S310 # as above
            content: bytes = answer.read(_LARGEST)
            return content
    except _NO_ANSWER:
        return None
