# SPDX-License-Identifier: GPL-2.0-or-later
"""Check the header of a rendered mail against its metadata, and derive the envelope."""

import re
from collections.abc import Mapping
from email.errors import MessageError
from email.headerregistry import Address
from email.parser import BytesHeaderParser
from email.policy import default as policy
from typing import cast

from msgspec import Struct

from schedperf.model.errors import InputError
from schedperf.publish.mail.address import address_of
from schedperf.publish.mail.limits import recipients_of
from schedperf.publish.mail.message import Metadata
from schedperf.publish.mail.site import MailSite

_ONCE = ("From", "To", "Subject", "Date", "Message-ID")
# Header fields that address the mail or name its sender, besides those in the metadata.
_REFUSED = {"bcc", "sender", "return-path", "list-id", "delivered-to"}
_FIELD = re.compile(rb"([!-9;-~]+):([ \t].*)?")
_BREAKS = re.compile(rb"[\r\0]")
_LONGEST_LINE = 998


class Envelope(Struct, frozen=True, kw_only=True):
    """The sender and the recipients for a transport."""

    sender: str
    recipients: tuple[str, ...]


def envelope_of(metadata: Metadata, content: bytes, site: MailSite) -> Envelope:
    """Return the envelope of a mail; its recipients include the Bcc of the archive.

    :raises InputError: the header is malformed, or differs from the metadata or from mail.toml
    """
    check_header(metadata, content)
    sender = address_of(site.site.sender, "mail.toml: site.from")
    written = _addresses(_parse(content), "From")
    if written != {sender}:
        raise InputError(
            f"{metadata.id}: From is {', '.join(written)} (expected {sender}, as mail.toml says); "
            "correct mail.toml, or draft again"
        )
    copy = (site.archive.bcc,) if site.archive and site.archive.bcc else ()
    return Envelope(sender=sender, recipients=(*recipients_of(metadata), *copy))


def check_header(metadata: Metadata, content: bytes) -> None:
    """Check that the header is well-formed and agrees with the metadata.

    :raises InputError: it is malformed, e.g. by header injection, or differs from the metadata
    """
    _check_lines(metadata.id, content)
    header = _parse(content)
    message_id = header["Message-ID"].strip()
    if message_id != metadata.message_id:
        raise InputError(
            f"{metadata.id}: Message-ID is {message_id!r} (expected {metadata.message_id}); draft "
            "it again"
        )
    addresses = _addresses(header, "To") | _addresses(header, "Cc")
    if addresses != set(recipients_of(metadata)):
        raise InputError(
            f"{metadata.id}: To and Cc have other addresses than the metadata lists; draft it again"
        )


def _check_lines(where: str, content: bytes) -> None:
    head, separator, _ = content.partition(b"\n\n")
    malformed = f"{where}: malformed mail"
    if not separator or _BREAKS.search(content) or not head.isascii():
        raise InputError(
            f"{malformed}: carriage return, NUL or header that is not ASCII; draft it again"
        )
    if any(len(line) > _LONGEST_LINE for line in content.split(b"\n")):
        raise InputError(f"{malformed}: a line is longer than {_LONGEST_LINE} bytes; draft again")
    names = []
    for number, line in enumerate(head.split(b"\n")):
        field = _FIELD.fullmatch(line)
        if field:
            names.append(field[1].decode().lower())
        elif not (number and line[:1] in b" \t" and line.strip()):
            raise InputError(f"{malformed}: header line {number + 1} is invalid; draft it again")
    _check_names(malformed, names)


def _check_names(malformed: str, names: list[str]) -> None:
    for name in _ONCE:
        if names.count(name.lower()) != 1:
            raise InputError(
                f"{malformed}: {names.count(name.lower())} fields {name} (expected 1); draft again"
            )
    if names.count("cc") > 1:
        raise InputError(f"{malformed}: {names.count('cc')} fields Cc (expected 1); draft again")
    refused = [name for name in names if name in _REFUSED or name.startswith("resent-")]
    if refused:
        raise InputError(f"{malformed}: field {refused[0]} must not be set; draft it again")


def _parse(content: bytes) -> Mapping[str, str]:
    return cast("Mapping[str, str]", BytesHeaderParser(policy=policy).parsebytes(content))


def _addresses(header: Mapping[str, str], name: str) -> set[str]:
    try:
        field = header.get(name)
        boxes = cast("tuple[Address, ...]", getattr(field, "addresses", ()))
    except (MessageError, ValueError, IndexError, AttributeError):
        raise InputError(f"{name}: invalid addresses; draft the mail again") from None
    return {address_of(box.addr_spec, name) for box in boxes}
