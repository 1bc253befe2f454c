# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose the recipients of a mail about a commit.

They are its author, its committer, the people of its Signed-off-by and Reviewed-by trailers, the
maintainers of the changed files and their lists, and the site's own list. Of these, only addresses
that the site allows get the mail: at most ten people and three lists, of which the site's own list
is the first. A name or an address that could inject a header is an error.
"""

import re
from collections.abc import Iterator, Sequence
from email.headerregistry import Address

from msgspec import Struct

from schedperf.model.errors import InputError
from schedperf.model.text import clean_line
from schedperf.publish.culprit.record import Commit, Culprit
from schedperf.publish.mail.address import parse_mailbox
from schedperf.publish.mail.site import LONGEST_RECIPIENT, MailSite

MOST_PEOPLE = 10
MOST_LISTS = 3
_TRAILERS = ("signed-off-by", "reviewed-by")
# A remark after an address: a hash sign or a bracket and text.
_COMMENT = re.compile(r"(?<=>)\s+[#\[(][^\r\n]*\Z")


class Maintainers(Struct, frozen=True, kw_only=True):
    """The maintainers of the files that a commit changes, and the open lists about them."""

    people: tuple[Address, ...] = ()
    lists: tuple[Address, ...] = ()


class Recipients(Struct, frozen=True, kw_only=True):
    """The recipients of a mail.

    :param left_out: one line per address that is left out, with the reason
    """

    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    left_out: tuple[str, ...]

    def is_public(self, site: MailSite) -> bool:
        """Return whether a recipient is outside of the domains of the site and of its own list."""
        own = {site.site.domain.lower(), _domain(parse_mailbox(site.site.list, "site.list"))}
        return any(_domain(address) not in own for address in (*self.to, *self.cc))


def own_list(site: MailSite) -> Recipients:
    """Return the recipients of a mail that is sent only to the site's own list."""
    return Recipients(to=(parse_mailbox(site.site.list, "site.list"),), cc=(), left_out=())


def recipients_of_record(culprit: Culprit, site: MailSite, maintainers: Maintainers) -> Recipients:
    """Return who gets a mail about a record.

    Until the first bad commit is known, that is the site's own list only: nobody is responsible
    for a range of commits.

    :raises InputError: as :func:`choose_recipients`
    """
    return own_list(site) if culprit.is_range else choose_recipients(culprit.bad, site, maintainers)


def choose_recipients(commit: Commit, site: MailSite, maintainers: Maintainers) -> Recipients:
    """Return who gets a mail about a commit: the author in To, all others in Cc.

    If the author gets no mail, To has the site's own list.

    :raises InputError: the author, the committer or a trailer could inject a header
    """
    own = parse_mailbox(site.site.list, "site.list")
    parsed = {where: parse_person(text, where) for where, text in _people_of(commit)}
    people = [*filter(None, parsed.values()), *maintainers.people]
    chosen, left_out = _choose(people, site, MOST_PEOPLE, "people", [own])
    left_out += [f"{where}: no mail address" for where, person in parsed.items() if not person]
    lists, lists_left_out = _choose([own, *maintainers.lists], site, MOST_LISTS, "lists", chosen)
    author = parsed.get("author")
    to = [each for each in chosen if author is not None and _same(each, author)]
    cc = [each for each in (*chosen, *lists) if each not in to]
    if not to:
        to, cc = [own], [each for each in cc if not _same(each, own)]
    return Recipients(to=tuple(to), cc=tuple(cc), left_out=(*left_out, *lists_left_out))


def _people_of(commit: Commit) -> Iterator[tuple[str, str]]:
    """Yield the source and the text of each person: author, committer, and two kinds of trailers.

    These are Signed-off-by and Reviewed-by; all other trailers are left out. The source, such as
    ``trailer 2, Reviewed-by``, is for messages.
    """
    if commit.author:
        yield "author", commit.author
    if commit.committer:
        yield "committer", commit.committer
    for number, trailer in enumerate(commit.trailers, 1):
        if trailer.name.lower() in _TRAILERS:
            name = clean_line(trailer.name)
            yield f"trailer {number}, {name}", _COMMENT.sub("", trailer.value)


def parse_person(text: str, where: str) -> Address | None:
    """Return a mailbox; None for a text that is not a mailbox but cannot inject a header.

    Invalid mailboxes such as ``root@(none)``, or a name alone, occur in commits and cannot be
    corrected.

    :raises InputError: it could inject a header
    """
    try:
        return parse_mailbox(text, where)
    except InputError:
        if text.count("@") > 1 or not text.isprintable():
            raise
        return None


def _choose(
    addresses: Sequence[Address], site: MailSite, most: int, what: str, taken: Sequence[Address]
) -> tuple[list[Address], list[str]]:
    """Return the first ``most`` allowed addresses, and a line with the reason per omitted address.

    :param what: what the addresses are, for the reasons: people or lists
    :param taken: addresses that get the mail already; these are skipped without a reason
    """
    chosen: list[Address] = []
    left_out: list[str] = []
    for address in addresses:
        text = address.addr_spec
        if any(_same(address, each) for each in (*chosen, *taken)):
            continue
        if not site.allows(text):
            reason = "not allowed by mail.toml"
        elif len(text) > LONGEST_RECIPIENT:
            reason = f"longer than {LONGEST_RECIPIENT} characters"
        elif len(chosen) == most:
            reason = f"more than {most} {what}"
        else:
            chosen.append(address)
            continue
        left_out.append(f"{text}: {reason}")
    return chosen, list(dict.fromkeys(left_out))


def _same(first: Address, second: Address) -> bool:
    return first.addr_spec.lower() == second.addr_spec.lower()


def _domain(address: Address) -> str:
    return address.domain.lower()
