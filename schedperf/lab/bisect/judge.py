# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge a range of commits by the boots that were made: the commit to boot next, or the result.

The range follows first parents. If a commit that is named is a merge, the branches that it merged
are searched in the same way, from the merge base to the tip, provided that they alone have its
change.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from schedperf.inputs.git import Commit, Repository
from schedperf.lab.bisect.document import (
    BisectDocument,
    Merge,
    MergedBranch,
    Searched,
    Unsearched,
    group_commits,
    make_document,
    make_unsearched,
)
from schedperf.lab.bisect.rule import MOST_BOOTS, Bisection
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

# Prior weight of a commit that touches none of the likely paths, 1 being that of one that does. It
# is not zero, because files elsewhere can cause a regression.
OUTSIDE_WEIGHT = 0.1
# The same for a commit that the user excludes, who may be wrong.
EXCLUDED_WEIGHT = 0.01


class Options(Struct, frozen=True, kw_only=True):
    """How a range is searched.

    :param paths: expect the cause in commits that touch one of these; empty if none is likelier
    :param boot_sd: standard deviation of the logarithms of boots of one kernel, from earlier boots
        of the machine; None to use that of the boots of the ends
    :param most_boots: boots of a range, or of a branch, after which its search is given up
    """

    paths: tuple[str, ...] = ()
    boot_sd: Annotated[float, Meta(gt=0.0)] | None = None
    most_boots: Annotated[int, Meta(ge=1)] = MOST_BOOTS


class Range(Struct, frozen=True, kw_only=True):
    """What is searched.

    :param commits: oldest first; from the good end to the bad end. Of a branch without a merge
        base, or with several, only the tip.
    :param likely: hashes of the commits with the full prior weight
    :param unlikely: hashes of the commits that the user excludes, with a hundredth of their weight
    :param read_branches: function that returns what a commit, given its hash, merges into one of
        its parents, given that hash
    """

    commits: Sequence[Commit]
    likely: Collection[str]
    options: Options
    read_branches: Callable[[str, str], Sequence["Range"]]
    unlikely: Collection[str] = ()


def read_range(repository: Repository, good: str, bad: str, options: Options) -> Range:
    """Read the commits of a range; branches are read when they are searched.

    :raises InputError: a commit is unknown, good is not on the first-parent history of bad, or no
        commit touches the paths
    """

    def make_range(commits: Sequence[Commit]) -> Range:
        likely = {each.hash for each in commits}
        if options.paths:
            likely &= repository.touching(commits[0].hash, commits[-1].hash, options.paths)
        return Range(commits=commits, likely=likely, options=options, read_branches=read_branches)

    @cache
    def read_branches(merge: str, parent: str) -> Sequence[Range]:
        return [*map(make_range, repository.branches(merge, parent))]

    span = make_range(repository.series(good, bad))
    if not span.likely:
        raise InputError(
            f"{', '.join(options.paths)}: not changed in {good}..{bad} (expected a path that a "
            "commit of the range changes); check the path"
        )
    return span


def find_inside(span: Range, repository: Repository, name: str) -> str:
    """Return the hash of a commit of a range or of its branches, but neither end of the range.

    The merge base of a branch may be older than the range.

    :param name: anything that git resolves
    :raises InputError: the commit is unknown, not in the history of the bad end, or an end
    """
    commit = repository.resolve(name)
    good, bad = span.commits[0].hash, span.commits[-1].hash
    if commit in {good, bad} or not repository.is_ancestor(commit, bad):
        raise InputError(
            f"{clean_line(name)}: not between good and bad (expected a commit of the range or of a "
            "branch that it merges, but neither good nor bad); leave it out, or name other ends"
        )
    return commit


def judge(
    span: Range,
    boots: Sequence[tuple[str, float]],
    untestable: Collection[str],
    *,
    reasons: Mapping[str, str] | None = None,
    is_final: bool = False,
) -> BisectDocument:
    """Return what the boots show, and the boots to make next.

    A boot counts in each searched range that has its commit.

    :param boots: hash of the commit and value of each, in the order in which they were made
    :param untestable: hashes of commits that cannot be tested; neither end is one of them
    :param reasons: why commits cannot be tested, by hash, where it is known
    :param is_final: whether no more boots can be made
    """
    searches, unsearched = _search(span, boots, untestable)
    booted = [commit for commit, _ in boots]
    return make_document(searches, unsearched, booted, reasons=reasons or {}, is_final=is_final)


def _search(
    span: Range, boots: Sequence[tuple[str, float]], untestable: Collection[str]
) -> tuple[list[Searched], list[MergedBranch]]:
    """Search the range, and the branches of each merge that is named in it or in a branch.

    :return: the searches, that of the range first; and the branches that cannot be searched
    """
    searches = []
    unsearched: list[MergedBranch] = []
    waiting: deque[tuple[Range, tuple[Merge, ...]]] = deque([(span, ())])
    while waiting:
        part, merges = waiting.popleft()
        reason = _reason_against(part, untestable)
        if reason is None:
            search = _replay(part, merges, boots, untestable)
            searches.append(search)
            waiting.extend(_find_branches(part, search))
        else:
            unsearched.append(make_unsearched(part.commits, merges[0], reason))
    return searches, unsearched


def _reason_against(part: Range, untestable: Collection[str]) -> Unsearched | None:
    """Return why a range cannot be searched; None if it can."""
    if len(part.commits) == 1:
        return "no-merge-base"
    ends = part.commits[0], part.commits[-1]
    return "untestable" if any(end.hash in untestable for end in ends) else None


def _replay(
    part: Range,
    merges: tuple[Merge, ...],
    boots: Sequence[tuple[str, float]],
    untestable: Collection[str],
) -> Searched:
    groups = group_commits(part.commits, untestable)
    weights = [sum(_weight(part, commit.hash) for commit in group) for group in groups]
    rises = merges[0].change.ratio > 1.0 if merges else None
    bisection = Bisection(
        np.array(weights),
        part.options.boot_sd,
        rises=rises,
        most_boots=part.options.most_boots,
    )
    indices = {group[-1].hash: index for index, group in enumerate(groups)}
    for commit, value in boots:
        if commit in indices:
            bisection.add(indices[commit], value)
    return Searched(groups=groups, bisection=bisection, merges=merges)


def _find_branches(part: Range, search: Searched) -> Iterator[tuple[Range, tuple[Merge, ...]]]:
    """Yield each branch of the merges that a search names, and the merges by which it came."""
    for step in search.bisection.steps:
        change = search.change_at(step)
        commits = (search.groups[step.commit - 1][-1], *search.groups[step.commit])
        for parent, merge in pairwise(commits):
            for branch in part.read_branches(merge.hash, parent.hash):
                yield branch, (Merge(commit=merge, change=change), *search.merges)


def _weight(part: Range, commit: str) -> float:
    weight = 1.0 if commit in part.likely else OUTSIDE_WEIGHT
    return weight * EXCLUDED_WEIGHT if commit in part.unlikely else weight
