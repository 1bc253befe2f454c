# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the commits of a record from a git repository, or from a bundle."""

import re
from collections.abc import Sequence

from msgspec import Struct

from schedperf.inputs.git import Repository
from schedperf.model.errors import InputError
from schedperf.model.sides import GitSource
from schedperf.model.text import clean_line, cut
from schedperf.publish.culprit.record import COMMIT_DIGITS, Commit, Trailer

_FORM = "%s%x00%an <%ae>%x00%cn <%ce>%x00%cI%x00%P%x00%(trailers:only=true,unfold=true)"
# Maximum number of trailers; a commit of the kernel has up to about 60.
MOST_TRAILERS = 200
_LONGEST_VALUE = 1000
# Addresses in Link: trailers that end with the Message-ID of the patch.
_POSTED = re.compile(
    r"https?://(?:lore\.kernel\.org/(?:r|all|lkml)|patch\.msgid\.link)/([^/\s<>]+@[^/\s<>]+)/?\Z"
)


class Ends(Struct, frozen=True, kw_only=True):
    """The last known good and the first known bad commit.

    :param is_range: whether commits lie between them; None if unknown
    """

    good: Commit
    bad: Commit
    is_range: bool | None


def read_ends(repository: Repository, good: str, bad: str) -> Ends:
    """Return the commits for two revision names.

    :raises InputError: one does not exist, both are the same, or good is not an ancestor of bad
    """
    first, last = repository.resolve(good), repository.resolve(bad)
    if first == last:
        raise InputError(
            f"--good {good}, --bad {bad}: both are {first[:COMMIT_DIGITS]} (expected two commits)"
        )
    if not repository.is_ancestor(first, last):
        raise InputError(
            f"--good {good}: not an ancestor of {bad} (expected an older commit); name a commit in "
            "its history"
        )
    parents = repository.show(last, "%P").split()
    return Ends(
        good=read_commit(repository, first),
        bad=read_commit(repository, last),
        is_range=first not in parents,
    )


def read_commit(repository: Repository, commit: str) -> Commit:
    """Return a commit as git describes it, without control characters.

    Texts are cut after 1000 characters, and trailers after the first 200.

    :param commit: its hash
    :raises InputError: git cannot read it
    """
    subject, author, committer, date, _, trailers = repository.show(commit, _FORM).split("\0", 5)
    parsed = [*map(_parse_trailer, trailers.splitlines()[:MOST_TRAILERS])]
    kept = tuple(each for each in parsed if each is not None)
    return Commit(
        commit=commit,
        subject=_line(subject),
        author=_line(author),
        committer=_line(committer),
        committed=_line(date),
        trailers=kept,
        links=tuple(each.value for each in kept if each.name.lower() == "link"),
    )


def commit_of(source: GitSource | None, name: str, where: str) -> Commit:
    """Return a commit as a bundle records it, without trailers other than ``Link:``.

    :param source: the commit of one side of a comparison; None if it is not recorded
    :param name: hash, or the first digits of it
    :param where: option, for messages
    :raises InputError: the commit or its subject is not recorded, or it is another commit
    """
    problem = f"{where} {clean_line(name)[:40]}"
    if source is None or source.subject is None:
        raise InputError(
            f"{problem}: the comparison does not record this commit and its subject; give "
            "--repo DIR, or record with --source"
        )
    if not name or not source.commit.startswith(name):
        raise InputError(
            f"{problem}: the comparison is of {source.commit[:COMMIT_DIGITS]} (expected the same "
            "commit); name that one, or give --repo DIR"
        )
    return Commit(
        commit=source.commit,
        subject=_line(source.subject),
        author=source.author and _line(source.author),
        committer=source.committer and _line(source.committer),
        committed=source.committed and _line(source.committed),
        links=tuple(map(_line, source.links)),
    )


def posted_in(links: Sequence[str]) -> str | None:
    """Return the Message-ID, with angle brackets, of the last link to a posted patch.

    :param links: values of ``Link:`` trailers
    :return: None if no link is the address of a posted patch
    """
    matches = [match for link in links if (match := _POSTED.match(link))]
    return f"<{matches[-1][1]}>" if matches else None


def _parse_trailer(line: str) -> Trailer | None:
    name, colon, value = line.partition(":")
    if not colon or not name.strip() or not value.strip():
        return None
    return Trailer(name=_line(name), value=_line(value))


def _line(text: str) -> str:
    # A commit address with a line break becomes an invalid address, to which no mail is sent.
    return cut("".join(filter(str.isprintable, clean_line(text))), _LONGEST_VALUE)
