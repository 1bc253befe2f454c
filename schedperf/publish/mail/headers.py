# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the header of a mail, with a Message-ID derived from its record, kind and number.

The standard library would encode or fold a long Message-ID in References, which breaks threads. So
this module writes the lines, and :func:`parse` reads them back with the strict policy of the
standard library.
"""

import re
import textwrap
from collections.abc import Sequence
from datetime import datetime
from email import policy
from email.errors import MessageError
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import format_datetime

from schedperf.model.errors import InputError
from schedperf.publish.culprit.record import MESSAGE_ID
from schedperf.publish.mail.message import Kind
from schedperf.publish.mail.plain import COLUMNS, cut
from schedperf_collectors import __version__

# Maximum length of a subject's text, so that the line "Subject: …" has 78 characters.
SUBJECT_COLUMNS = 69
# A reply prepends this to the subject of the report, which may need a second line.
REPLY = "Re: "
# Longest Message-ID that public-inbox accepts.
_LONGEST_ID = 244
# Maximum length of a line of addresses, after "From: " and before the comma.
_ROOM = COLUMNS - len("From: ,")
_LONGEST_NAME = 60
_STRICT = policy.default.clone(raise_on_defect=True)


def local_part(commit: str, key: str, kind: Kind, number: int) -> str:
    """Return the part of a Message-ID before the @: the name of the mail in the outbox.

    :param commit: first or last bad commit, 12 digits
    :param key: key of the record
    :param number: number of the mail among those of its kind about the record
    """
    return f"schedperf.1.{commit}.{key}.{kind}.{number}"


def message_id(local: str, domain: str) -> str:
    """Return a Message-ID with its angle brackets.

    :raises InputError: it has more than 244 characters, or invalid ones such as spaces
    """
    text = f"<{local}@{domain}>"
    if len(text) > _LONGEST_ID or not re.fullmatch(MESSAGE_ID, text):
        raise InputError(
            f"site.domain: Message-ID of {len(text)} characters (expected at most {_LONGEST_ID}, "
            "without spaces); use a shorter domain"
        )
    return text


def check_id(text: str, where: str) -> str:
    """Validate the Message-ID of another mail and return it with its angle brackets.

    :param text: the Message-ID, with or without its angle brackets
    :param where: source of the text, for the error
    :raises InputError: it is not a Message-ID, or has more than 244 characters
    """
    if not re.fullmatch(MESSAGE_ID, text) or len(text) > _LONGEST_ID:
        raise InputError(
            f"{where}: invalid Message-ID {text[:60]!r} (expected e.g. <20261121.1@lab.example>); "
            "copy it from the archive"
        )
    return f"<{text.strip('<>')}>"


def write_header(
    *,
    sender: Address,
    to: Sequence[Address],
    cc: Sequence[Address],
    subject: str,
    id: str,  # noqa: A002 # the header's name
    parents: Sequence[str],
    date: datetime,
    kind: Kind,
    key: str,
    is_ascii: bool,
) -> str:
    """Return the header lines, without the empty line that ends the header.

    :param subject: at most 69 characters of ASCII, after ``Re:`` in a reply
    :param parents: Message-IDs of the thread, the answered mail last; () for a new thread
    :param key: key of the record, or of the digest
    """
    lines = [
        _addresses("From", [sender]),
        _addresses("To", to),
        *([_addresses("Cc", cc)] if cc else []),
        *textwrap.wrap(f"Subject: {subject}", COLUMNS, subsequent_indent=" "),
        f"Date: {format_datetime(date)}",
        _ids("Message-ID", [id]),
        *_thread(parents),
        "Auto-Submitted: auto-generated",
        f"X-Schedperf-Report: {key}",
        f"X-Schedperf-Kind: {kind}",
        f"X-Schedperf-Version: {__version__}",
        "MIME-Version: 1.0",
        f"Content-Type: text/plain; charset={'us-ascii' if is_ascii else 'utf-8'}",
        f"Content-Transfer-Encoding: {'7bit' if is_ascii else '8bit'}",
    ]
    return "\n".join(lines)


def parse(content: bytes) -> EmailMessage:
    """Parse a mail strictly.

    :raises InputError: a header is malformed
    """
    try:
        # The default message factory of this policy is EmailMessage.
        message = BytesParser(policy=_STRICT).parsebytes(content)
        for name in message:
            # Headers are parsed lazily, on access.
            assert message[name] is not None
    except (MessageError, ValueError, IndexError, AttributeError, KeyError) as error:
        raise InputError(f"mail: invalid header ({type(error).__name__}: {error})") from None
    return message


def _thread(parents: Sequence[str]) -> list[str]:
    if not parents:
        return []
    return [_ids("In-Reply-To", parents[-1:]), _ids("References", parents)]


def _ids(name: str, ids: Sequence[str]) -> str:
    """Return a header with one Message-ID per line, because they cannot be folded."""
    space = " " if len(f"{name}: {ids[0]}") <= COLUMNS else "\n "
    return f"{name}:{space}{f'{chr(10)} '.join(ids)}"


def _addresses(name: str, addresses: Sequence[Address]) -> str:
    """Return a header with one address per line; names that are not ASCII become encoded words."""
    return f"{name}: " + ",\n ".join(_mailbox(address) for address in addresses)


def _mailbox(address: Address) -> str:
    """Return a mailbox; the name has a line of its own if both do not fit on one line."""
    name = cut(address.display_name, _LONGEST_NAME)
    if not name:
        return address.addr_spec
    if name.isascii():
        quoted = str(Address(display_name=name, addr_spec="a@b")).removesuffix(" <a@b>")
    else:
        quoted = Header(name, "utf-8", maxlinelen=_ROOM).encode(linesep="\n")
    one = f"{quoted} <{address.addr_spec}>"
    return one if len(one) <= _ROOM else f"{quoted}\n <{address.addr_spec}>"
