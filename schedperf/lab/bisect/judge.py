# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge a range of commits by the boots that were made: the commit to boot next, or the result."""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Struct

from schedperf.inputs.git import Commit, Repository
from schedperf.lab.bisect.document import BisectDocument, group_commits, make_document
from schedperf.lab.bisect.rule import Bisection
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

# Prior weight of a commit that touches none of the likely paths, 1 being that of one that does. It
# is not zero, because files elsewhere can cause a regression.
OUTSIDE_WEIGHT = 0.1
# The same for a commit that the user excludes, who may be wrong.
EXCLUDED_WEIGHT = 0.01


class Range(Struct, frozen=True, kw_only=True):
    """What is searched.

    :param commits: oldest first; from the good end to the bad end
    :param likely: hashes of the commits with the full prior weight
    :param unlikely: hashes of the commits that the user excludes, with a hundredth of their weight
    :param boot_sd: standard deviation of the logarithms of boots of one kernel, from earlier boots
        of the machine; None to use that of the boots of the ends
    """

    commits: Sequence[Commit]
    likely: Collection[str]
    boot_sd: float | None
    unlikely: Collection[str] = ()


def read_range(
    repository: Repository, good: str, bad: str, paths: Sequence[str], boot_sd: float | None
) -> Range:
    """Read the commits of a range.

    :param paths: expect the cause in commits that touch one of these; empty if none is likelier
    :raises InputError: a commit is unknown, good is not on the first-parent history of bad, or no
        commit touches the paths
    """
    commits = repository.series(good, bad)
    likely = repository.touching(good, bad, paths) if paths else {each.hash for each in commits}
    return Range(commits=commits, likely=likely, boot_sd=boot_sd)


def find_inside(span: Range, repository: Repository, name: str) -> str:
    """Return the hash of a commit between the ends of a range.

    :param name: anything that git resolves
    :raises InputError: the commit is unknown, not in the range, or an end of it
    """
    commit = repository.resolve(name)
    if commit not in {each.hash for each in span.commits[1:-1]}:
        raise InputError(
            f"{clean_line(name)}: not between good and bad (expected a commit of the range, but "
            "neither of its ends); leave it out, or name other ends"
        )
    return commit


def judge(
    span: Range,
    boots: Sequence[tuple[str, float]],
    untestable: Collection[str],
    *,
    is_final: bool = False,
) -> BisectDocument:
    """Return what the boots show, and the boots to make next.

    :param boots: hash of the commit and value of each, in the order in which they were made
    :param untestable: hashes of commits that cannot be tested; neither end is one of them
    :param is_final: whether no more boots can be made
    """
    groups = group_commits(span.commits, untestable)
    weights = [sum(_weight(span, commit.hash) for commit in group) for group in groups]
    bisection = Bisection(np.array(weights), span.boot_sd)
    indices = {group[-1].hash: index for index, group in enumerate(groups)}
    not_used: Counter[str] = Counter()
    for commit, value in boots:
        if commit in indices:
            bisection.add(indices[commit], value)
        else:
            not_used[commit] += 1
    return make_document(groups, bisection, not_used, is_final=is_final)


def _weight(span: Range, commit: str) -> float:
    weight = 1.0 if commit in span.likely else OUTSIDE_WEIGHT
    return weight * EXCLUDED_WEIGHT if commit in span.unlikely else weight
