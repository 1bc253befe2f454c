# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose who gets a mail: the author, the people of the trailers, maintainers and lists.

Only addresses that the site allows get one, at most ten people and three lists; the site's own list
always. A trailer that could inject a header refuses the mail.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from email.headerregistry import Address

from msgspec import Struct

from schedperf.culprit.record import Commit
from schedperf.mail.address import parse_mailbox
from schedperf.mail.site import MailSite
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

MOST_PEOPLE = 10
MOST_LISTS = 3
# A line of a header has 78 columns.
_LONGEST_ADDRESS = 70
_TRAILERS = ("signed-off-by", "reviewed-by")
# Behind an address: a hash sign or a bracket and a remark.
_COMMENT = re.compile(r"(?<=>)\s+[#\[(][^\r\n]*\Z")
# A line of get_maintainer.pl: "Name <address> (maintainer:SCHEDULER)"
_ROLE = re.compile(r"(?P<mailbox>.+?)\s+\((?P<role>[^()]*(?:\([^()]*\))?[^()]*)\)\s*\Z")
_MAINTAINS = ("maintainer", "supporter")
_LIST = "open list"


class Maintainers(Struct, frozen=True, kw_only=True):
    """What get_maintainer.pl prints about a commit."""

    people: tuple[Address, ...] = ()
    lists: tuple[Address, ...] = ()


class Recipients(Struct, frozen=True, kw_only=True):
    """Who gets a mail.

    :param left_out: one line per address that does not, with the reason
    """

    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    left_out: tuple[str, ...]

    def is_public(self, site: MailSite) -> bool:
        """Return whether someone outside of the site's domain gets the mail."""
        own = {site.site.domain.lower(), _domain(parse_mailbox(site.site.list, "site.list"))}
        return any(_domain(address) not in own for address in (*self.to, *self.cc))


def own_list(site: MailSite) -> Recipients:
    """Return the site's own list alone."""
    return Recipients(to=(parse_mailbox(site.site.list, "site.list"),), cc=(), left_out=())


def choose_recipients(commit: Commit, site: MailSite, maintainers: Maintainers) -> Recipients:
    """Return who gets a mail about a commit.

    :raises InputError: a trailer is not a mail address, or could inject a header
    """
    own = parse_mailbox(site.site.list, "site.list")
    parsed = {where: _parse_person(text, where) for where, text in _people_of(commit)}
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


def parse_maintainers(lines: Iterable[str]) -> Maintainers:
    """Return maintainers and open lists; reviewers and closed lists are left out.

    :raises InputError: a line has an invalid address
    """
    people, lists = [], []
    for line in lines:
        matched = _ROLE.fullmatch(line)
        if matched is None:
            continue
        role = matched["role"].lower()
        if role.startswith(_MAINTAINS):
            people.append(parse_mailbox(matched["mailbox"], "get_maintainer.pl"))
        elif role.startswith(_LIST) and not re.search("moderated|subscriber", role):
            lists.append(parse_mailbox(matched["mailbox"], "get_maintainer.pl"))
    return Maintainers(people=tuple(people), lists=tuple(lists))


def _people_of(commit: Commit) -> Iterator[tuple[str, str]]:
    """Yield author, committer and the people of the trailers, each with where it is from."""
    if commit.author:
        yield "author", commit.author
    if commit.committer:
        yield "committer", commit.committer
    for number, trailer in enumerate(commit.trailers, 1):
        if trailer.name.lower() in _TRAILERS:
            name = clean_line(trailer.name)
            yield f"trailer {number}, {name}", _COMMENT.sub("", trailer.value)


def _parse_person(text: str, where: str) -> Address | None:
    """Return a mailbox; None for a text that is not one but could not inject a header either.

    Commits cannot be corrected any more: some have ``root@(none)``, or a name alone.

    :raises InputError: it could
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
    """Return the first allowed addresses, and why the others are left out."""
    chosen: list[Address] = []
    left_out: list[str] = []
    for address in addresses:
        text = address.addr_spec
        if any(_same(address, each) for each in (*chosen, *taken)):
            continue
        if not site.allows(text):
            reason = "not allowed by mail.toml"
        elif len(text) > _LONGEST_ADDRESS:
            reason = f"longer than {_LONGEST_ADDRESS} characters"
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
