# SPDX-License-Identifier: GPL-2.0-or-later
"""Write a search as the log of ``git bisect``, which ``git bisect replay`` reads.

A replay ends at the named commit::

    # bad: [92d5c1b0…] sched: change 16
    # good: [1f0fb1a7…] sched: change 0
    git bisect start '--first-parent' '92d5c1b0…' '1f0fb1a7…'
    # level 99.57 [99.12, 100], probability 0.000, 9 boots
    # good: [db6b5f80…] sched: change 9
    git bisect good db6b5f80…
    # first bad commit: [416f1697…] sched: change 11

``git bisect`` knows one first bad commit. Of several named ones, the log has the one with the
largest change, in the part of the range, or of a merged branch, between those before and after it.
"""

import math
from collections.abc import Iterator, Sequence

from schedperf.inputs.git import Commit
from schedperf.lab.bisect.document import BisectDocument, NamedCommit
from schedperf.lab.bisect.tested import BootedCommit
from schedperf.model.text import clean_line
from schedperf_reports.bisection.words import describe_tested


def write_git_log(document: BisectDocument) -> str:
    """Return the log of a search; without a named commit, only the ends are good and bad."""
    return "".join(f"{clean_line(line)}\n" for line in _lines(document))


def _lines(document: BisectDocument) -> Iterator[str]:
    named = max(document.named, key=lambda step: abs(math.log(step.change.ratio)), default=None)
    part = document.tested if named is None else _part_of(document, named.commits[-1])
    tested = part if named is None else _around(part, document.steps_in(part), named.commits[-1])
    good, bad = (tested[0].commit, tested[-1].commit) if named else (document.good, document.bad)
    yield _comment("bad", bad)
    yield _comment("good", good)
    yield f"git bisect start '--first-parent' '{bad.hash}' '{good.hash}'"
    for commit in document.untestable:
        yield from _verdict("skip", commit)
    inside = [each for each in tested if each.commit not in (good, bad)]
    if named is None:
        yield f"# no commit is named: {document.status}"
        yield from map(_remark, inside)
    else:
        yield from _decided(inside, tested[_index_of(tested, named.commits[-1])].position)
        yield from _answer(named)


def _part_of(document: BisectDocument, named: Commit) -> Sequence[BootedCommit]:
    """Return the tested commits of the range or of the branch that has a named commit."""
    parts = (document.tested, *(branch.tested for branch in document.branches))
    return next(part for part in parts if any(each.commit == named for each in part[1:]))


def _around(
    part: Sequence[BootedCommit], steps: Sequence[int], named: Commit
) -> Sequence[BootedCommit]:
    """Return the tested commits between the steps before and after a named commit.

    :param steps: indices of the steps of this part, that of the named commit included
    """
    index = _index_of(part, named)
    first = max((step for step in steps if step < index), default=0)
    last = min((step for step in steps if step > index), default=len(part))
    return part[first:last]


def _decided(tested: Sequence[BootedCommit], first_bad: int) -> Iterator[str]:
    # The last bad commit of a log is the one that git keeps, so they are listed newest first.
    older = [each for each in tested if each.position < first_bad]
    newer = [each for each in tested if each.position >= first_bad]
    for verdict, commits in (("good", older), ("bad", reversed(newer))):
        for each in commits:
            yield _remark(each)
            yield from _verdict(verdict, each.commit)


def _index_of(tested: Sequence[BootedCommit], commit: Commit) -> int:
    return next(i for i, each in enumerate(tested) if each.commit == commit)


def _answer(named: NamedCommit) -> Iterator[str]:
    if len(named.commits) == 1:
        yield _comment("first bad commit", named.commits[-1])
        return
    yield "# only skipped commits left to test"
    for commit in named.commits:
        yield _comment("possible first bad commit", commit)


def _verdict(verdict: str, commit: Commit) -> Iterator[str]:
    yield _comment(verdict, commit)
    yield f"git bisect {verdict} {commit.hash}"


def _comment(word: str, commit: Commit) -> str:
    return f"# {word}: [{commit.hash}] {commit.subject}"


def _remark(tested: BootedCommit) -> str:
    return f"# {describe_tested(tested)}"
