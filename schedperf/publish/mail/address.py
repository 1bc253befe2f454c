# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse and check mail addresses; refuse header injection."""

import re
from email.errors import MessageError, ObsoleteHeaderDefect
from email.headerregistry import Address, HeaderRegistry
from typing import cast

from schedperf.model.errors import InputError
from schedperf.model.text import clean, clean_line

# Longest address, without its angle brackets (RFC 5321, 4.5.3.1.3).
_LONGEST_ADDRESS = 254
_LONGEST_MAILBOX = 1000
_SHOWN = 60

# The form that all mail servers accept; quoted local parts are rare, and can be used for injection.
_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_BREAK = re.compile(r"[\r\n\0]")

_parse_header = HeaderRegistry()


def parse_mailbox(text: str, where: str) -> Address:
    """Parse a single mailbox: ``Name <user@example.org>``, or an address alone.

    :param where: source of the text, for the error
    :raises InputError: it is not one mailbox, or could inject a header
    """
    expected = "(expected one, e.g. Name <user@example.org>)"
    shown = clean_line(text)[:_SHOWN]
    if _BREAK.search(text) or clean(text) != text or len(text) > _LONGEST_MAILBOX:
        raise InputError(
            f"{where}: mail address {shown!r} has a line break, a control character or more than "
            f"{_LONGEST_MAILBOX} characters {expected}; correct it"
        )
    mailboxes = _mailboxes(text)
    # A second at sign, even in a quoted name, can smuggle an address past a parser.
    if len(mailboxes) != 1 or text.count("@") != 1 or not _is_plain(mailboxes[0].addr_spec):
        raise InputError(f"{where}: invalid mail address {shown!r} {expected}; correct it")
    return mailboxes[0]


def address_of(text: str, where: str) -> str:
    """Return the address of a mailbox, without the name, in lower case.

    :param where: source of the text, for the error
    :raises InputError: as in :func:`parse_mailbox`
    """
    return parse_mailbox(text, where).addr_spec.lower()


def _mailboxes(text: str) -> tuple[Address, ...]:
    try:
        header = _parse_header("To", text)
    # The parser of Python 3.11 raises several kinds of errors for malformed text.
    except (MessageError, ValueError, IndexError, AttributeError):
        return ()
    # A dot in a name, as in "A. U. Thor", is obsolete syntax but common.
    if any(not isinstance(defect, ObsoleteHeaderDefect) for defect in header.defects):
        return ()
    return cast("tuple[Address, ...]", getattr(header, "addresses", ()))


def _is_plain(address: str) -> bool:
    return len(address) <= _LONGEST_ADDRESS and _ADDRESS.fullmatch(address) is not None
