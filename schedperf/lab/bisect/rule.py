# SPDX-License-Identifier: GPL-2.0-or-later
"""Search the first bad commits of a range: which commit to boot next, and when to name one.

The search measures both ends, then boots the commit that divides the probability in halves, until
one commit has a probability of 99%. Then this commit and its parent are booted, interleaved: if
these fresh boots show the same change, the commit is named, and both parts of the range are
searched for further causes.
Everything follows from the boots and their order::

    bisection = Bisection(np.ones(512))
    while bisection.visit is not None:
        bisection.add(bisection.visit.commit, boot_and_measure(bisection.visit.commit))

``bench/bisect`` measures how often the named commits are right.
"""

import math
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from statistics import fmean
from typing import Literal, TypeVar

from msgspec import Struct

from schedperf.lab.bisect.checks import do_ends_differ, pooled_sd
from schedperf.lab.bisect.posterior import Boots, Floats, choose_commit, split_probabilities
from schedperf.stats.looks import CHECK, judge_boots

# Probability from which a commit is checked on fresh boots.
SURE = 0.99
# By default, a search of a range is given up after this many boots, first boots included.
MOST_BOOTS = 140
# Boots per visit: installing a kernel takes longer than booting it once more.
VISIT = 2
# Boots per end, without first boots, after which the ends are compared. Ends of the whole range get
# more if they do not differ: with 8 boots, a change of 3% at a boot sd of 2% is missed half the
# time.
END_BOOTS = 8
_LOOKS_AT_ENDS = (END_BOOTS, 12, 16)

Phase = Literal["ends", "search", "check"]
Result = TypeVar("Result")
Search = Generator["Visit", None, Result]


class Visit(Struct, frozen=True, kw_only=True):
    """The next boots to make.

    :param commit: index of the commit
    :param boots: number of boots
    :param phase: what they are for: to compare the ends, to search, or to check ``suspect``
    :param suspect: index of the commit whose probability is at least ``SURE``; None before
    """

    commit: int
    boots: int
    phase: Phase
    suspect: int | None = None


class Check(Struct, frozen=True, kw_only=True):
    """The last look at fresh boots of a commit and its parent.

    :param boots: number of boots per side
    :param p: one-sided, of the change that the search expects
    :param is_passed: whether ``p`` is below the level of the look
    """

    boots: int
    p: float
    is_passed: bool


class Step(Struct, frozen=True, kw_only=True):
    """A commit that changes the result, reproduced on fresh boots.

    :param commit: its index; its parent has the index before
    :param probability: at the end of the search, before the check
    """

    commit: int
    probability: float
    check: Check


class Withheld(Struct, frozen=True, kw_only=True):
    """A part of the range that differs at its ends, but in which no commit is named.

    :param first: index of its good end
    :param last: index of its bad end
    :param commit: index of the most probable commit
    :param probability: at the end of the search, before the check
    :param check: the check that failed; None if the boots were used up before
    """

    first: int
    last: int
    commit: int
    probability: float
    check: Check | None


class Bisection:
    """The state of a search, after boots in the order in which they were made.

    :param weights: prior weight of each commit of the range, shape (commits,); positive; the first
        one, of the good end, has no effect
    :param sd: standard deviation of the logarithms of boots of one kernel, from earlier boots of
        the machine; None to use that of the ends of each range
    :param rises: whether the bad end must have larger (or smaller) values than the good end; None
        for either
    :param most_boots: boots of a range, first boots included, after which its search is given up

    :ivar most_boots: see above
    :ivar history: commit and value of each boot, in the order in which they were made
    :ivar searched: probability of each commit at the end of the last search of a part with it
    :ivar visit: the next boots to make; None if the search is over
    :ivar steps: the commits that are named, in the order in which they were found
    :ivar withheld: the parts of the range in which a cause was not found
    :ivar first: index of the good end of the part that is searched
    :ivar last: index of its bad end
    """

    def __init__(
        self,
        weights: Floats,
        sd: float | None = None,
        *,
        rises: bool | None = None,
        most_boots: int = MOST_BOOTS,
    ) -> None:
        self._weights = weights
        self._sd = sd
        self._rises = rises
        self.most_boots = most_boots
        self.history: list[tuple[int, float]] = []
        self.searched: dict[int, float] = {}
        self._made: Counter[int] = Counter()
        self._kept: dict[int, list[float]] = {}
        self.steps: list[Step] = []
        self.withheld: list[Withheld] = []
        self.first, self.last = 0, len(weights) - 1
        self._search = self._search_part(0, self.last, _LOOKS_AT_ENDS, rises=rises)
        self.visit = next(self._search, None)

    def add(self, commit: int, value: float) -> None:
        """Add a boot. The first one of each commit only counts, because it is often different.

        :param commit: index of the commit, which may be another than that of ``visit``
        :param value: positive
        """
        self.history.append((commit, value))
        self._made[commit] += 1
        if self._made[commit] > 1:
            self._kept.setdefault(commit, []).append(math.log(value))
        self.visit = next(self._search, None)

    def copy(self) -> "Bisection":
        """Return a search in the same state, to which other boots can be added."""
        search = Bisection(self._weights, self._sd, rises=self._rises, most_boots=self.most_boots)
        for commit, value in self.history:
            search.add(commit, value)
        return search

    def spent(self, first: int, last: int) -> int:
        """Return the number of boots of the commits from one to another, first boots included."""
        return sum(made for commit, made in self._made.items() if first <= commit <= last)

    def boots(self, commit: int) -> Sequence[float]:
        """Return the logarithms of the values of a commit, without its first boot."""
        return self._kept.get(commit, ())

    def probabilities(self) -> Floats | None:
        """Return the probability of each commit after ``first``, up to ``last``.

        :return: shape (last - first,); None if an end has fewer than two boots besides its first
        """
        if min(len(self.boots(self.first)), len(self.boots(self.last))) < VISIT:
            return None
        return self._posterior(self.first, self.last)

    def _posterior(self, first: int, last: int) -> Floats:
        sd = self._sd or pooled_sd(self.boots(first), self.boots(last))
        return split_probabilities(self._part(first, last), self._weights[first + 1 : last + 1], sd)

    def _part(self, first: int, last: int) -> Boots:
        return {commit: boots for commit, boots in self._kept.items() if first <= commit <= last}

    def _search_part(
        self, first: int, last: int, looks: Sequence[int], *, rises: bool | None = None
    ) -> Search[None]:
        """Search a part of the range, then the parts on both sides of the commit that is named.

        :param looks: boots per end after which the ends are compared
        :param rises: direction in which they must differ; None for either
        """
        if first == last:
            return
        self.first, self.last = first, last
        for boots in looks:
            yield from self._boot({first: boots, last: boots}, VISIT, "ends")
            if do_ends_differ(self.boots(first), self.boots(last), rises=rises):
                break
        else:
            return
        while (probabilities := self._posterior(first, last)).max() < SURE:
            if self.spent(first, last) >= self.most_boots:
                break
            commit = choose_commit(probabilities, first, self._kept)
            yield self._visit(commit, VISIT, "search")
        self.searched.update(enumerate(map(float, probabilities), first + 1))
        commit, probability = first + 1 + int(probabilities.argmax()), float(probabilities.max())
        check = (yield from self._check(first, commit, last)) if probability >= SURE else None
        if check is None or not check.is_passed:
            self.withheld.append(
                Withheld(
                    first=first, last=last, commit=commit, probability=probability, check=check
                )
            )
            return
        self.steps.append(Step(commit=commit, probability=probability, check=check))
        yield from self._search_part(first, commit - 1, (END_BOOTS,))
        yield from self._search_part(commit, last, (END_BOOTS,))

    def _check(self, first: int, commit: int, last: int) -> Search[Check]:
        """Boot a commit and its parent, interleaved, until a look passes; return the last look."""
        part = self._part(first, last).items()
        before = fmean(value for each, boots in part if each < commit for value in boots)
        after = fmean(value for each, boots in part if each >= commit for value in boots)
        used = {each: len(self.boots(each)) for each in (commit - 1, commit)}
        while True:
            fresh = (self.boots(each)[n:] for each, n in used.items())
            judged = judge_boots(CHECK, *fresh, seen=after - before)
            if judged.wants is None:
                break
            targets = {each: n + judged.wants for each, n in used.items()}
            yield from self._boot(targets, 1, "check", commit)
        assert judged.last is not None
        is_passed = judged.result == "reproduced"
        return Check(boots=judged.last.boots, p=judged.last.p, is_passed=is_passed)

    def _boot(
        self, targets: Mapping[int, int], boots: int, phase: Phase, suspect: int | None = None
    ) -> Search[None]:
        """Ask for boots of the commit that lacks most, until each has as many as ``targets``."""
        lacking = {commit: n - len(self.boots(commit)) for commit, n in targets.items()}
        while max(lacking.values()) > 0:
            yield self._visit(max(lacking, key=lacking.__getitem__), boots, phase, suspect)
            lacking = {commit: n - len(self.boots(commit)) for commit, n in targets.items()}

    def _visit(self, commit: int, boots: int, phase: Phase, suspect: int | None = None) -> Visit:
        # The first boot of a build is not used.
        is_new = not self._made[commit]
        return Visit(commit=commit, boots=boots + is_new, phase=phase, suspect=suspect)
