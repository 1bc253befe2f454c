# SPDX-License-Identifier: GPL-2.0-or-later
"""Query an archive whether a mail arrived: public-inbox by HTTP, or a Maildir that gets a copy."""

import http
import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from email.parser import BytesHeaderParser
from email.policy import compat32
from pathlib import Path
from typing import Protocol, TypeVar
from xml.etree import ElementTree as ET

from schedperf.model.errors import InputError
from schedperf.publish.mail.maildir import list_messages
from schedperf.publish.mail.site import Archive

T = TypeVar("T")

_LIMIT_S = 30
_LARGEST_FEED = 1 << 22
_LARGEST_HEADER = 1 << 16
_ANSWERS = {http.HTTPStatus.NOT_FOUND, http.HTTPStatus.MULTIPLE_CHOICES}
# Printed by public-inbox after a Message-ID that the inbox does not have.
_ELSEWHERE = b"&gt;\nfound in "
_NOWHERE = b"&gt;\nnot found\n"
_UPDATED = "{http://www.w3.org/2005/Atom}updated"
_ENTRY = "{http://www.w3.org/2005/Atom}entry"


class Asked(Protocol):
    """An archive of mails; a query that fails raises InputError."""

    def holds(self, message_id: str) -> bool:
        """Return whether the archive has a message; its Message-ID has angle brackets."""

    def newest(self, now: datetime) -> datetime | None:
        """Return the date of the newest message up to ``now``; ``None`` without one.

        It is the date in the feed of a public-inbox, or the arrival time in a Maildir.
        """


def open_archive(settings: Archive | None) -> Asked | None:
    """Return the configured archive; ``None`` if there is none.

    :raises InputError: its URL is not http or https
    """
    if settings is None:
        return None
    if settings.url is not None:
        return _PublicInbox(settings.url)
    assert settings.maildir is not None
    return _Maildir(Path(settings.maildir))


class _PublicInbox:
    """A public-inbox: ``URL/MESSAGE-ID/`` is a message, ``URL/new.atom`` lists the newest ones."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        if not self._url.startswith(("https://", "http://")):
            raise InputError(f"mail.toml: archive.url: {url!r} (expected https://...); correct it")

    def holds(self, message_id: str) -> bool:
        name = urllib.parse.quote(message_id.strip("<>"), safe="@")
        url = f"{self._url}/{name}/"
        status, page = self._get(url)
        if status == http.HTTPStatus.MULTIPLE_CHOICES:
            # The page lists inboxes that have the message, or messages with similar Message-IDs.
            if _ELSEWHERE in page:
                return True
            if _NOWHERE not in page:
                raise InputError(f"{url}: page of an unknown form; look there yourself")
            return False
        return status == http.HTTPStatus.OK

    def newest(self, now: datetime) -> datetime | None:
        url = f"{self._url}/new.atom"
        status, feed = self._get(url)
        if status != http.HTTPStatus.OK:
            raise InputError(f"{url}: not found; check archive.url in mail.toml")
        # Entities are declared in a DOCTYPE, which no feed of public-inbox has.
        if b"<!DOCTYPE" in feed:
            raise InputError(f"{url}: not an Atom feed; check archive.url in mail.toml")
        try:
            entries = ET.fromstring(feed).iter(_ENTRY)  # noqa: S314 # as above
            dates = [_date(entry.findtext(_UPDATED, "")) for entry in entries]
        except (ET.ParseError, ValueError):
            raise InputError(f"{url}: invalid Atom feed; check archive.url in mail.toml") from None
        # A sender may write any date into its mail.
        return max((date for date in dates if date <= now), default=None)

    def _get(self, url: str) -> tuple[int, bytes]:
        """Return HTTP status and text of a page.

        :return: the status is that of success, 404 (not found) or 300 (other pages are suggested)
        :raises InputError: the server answers with another status, or not at all
        """
        try:
            with _open(url) as answer:
                if not isinstance(answer, urllib.error.HTTPError):
                    return answer.status, answer.read(_LARGEST_FEED)
                if answer.code not in _ANSWERS:
                    raise InputError(f"{url}: HTTP status {answer.code}; ask the archive later")
                return answer.code, answer.read(_LARGEST_FEED)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise InputError(f"{url}: no answer ({error}); ask the archive later") from None


def _open(url: str) -> http.client.HTTPResponse | urllib.error.HTTPError:
    """Return the answer to a request; that of an error status is an exception that can be read."""
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(url, timeout=_LIMIT_S)  # noqa: S310 # checked above
    except urllib.error.HTTPError as error:
        return error
    return answer


class _Maildir:
    """A Maildir that gets each mail, by ``archive.bcc`` or by the site's list."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def holds(self, message_id: str) -> bool:
        return message_id in self._collect(_message_id)

    def newest(self, now: datetime) -> datetime | None:
        dates = self._collect(lambda path: datetime.fromtimestamp(path.stat().st_mtime, UTC))
        return max((date for date in dates if date <= now), default=None)

    def _collect(self, read: Callable[[Path], T]) -> list[T]:
        """Return the results of a function for each file.

        :raises InputError: the Maildir cannot be read, or a file moves meanwhile
        """
        try:
            return [read(path) for path in list_messages(self._path)]
        except OSError as error:
            raise InputError(
                f"{self._path}: cannot be read: {(error.strerror or str(error)).lower()}; check "
                "archive.maildir in mail.toml, or ask later"
            ) from None


def _message_id(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(_LARGEST_HEADER)
    return str(BytesHeaderParser(policy=compat32).parsebytes(head)["Message-ID"] or "").strip()


def _date(text: str) -> datetime:
    date = datetime.fromisoformat(text.strip())
    if date.tzinfo is None:
        raise ValueError
    return date
