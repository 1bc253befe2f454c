# SPDX-License-Identifier: GPL-2.0-or-later
"""Finished and open searches in ranges of commits whose levels are known."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import replace

from schedperf.inputs.git import Commit
from schedperf.lab.bisect.document import BisectDocument
from schedperf.lab.bisect.judge import Options, Range, judge

HOSTILE = (
    "</script><img src=x onerror='window.pwned=1'> \u202egnirts \x1b[31m $x^2$ " + "long " * 99
)
CAUSE = 20


def make_commits(number: int = 33, subject: str = "sched: change") -> list[Commit]:
    """Return commits with the subjects ``sched: change 0`` and so on, oldest first."""
    return [Commit(hash=f"{i + 1:040x}"[::-1], subject=f"{subject} {i}") for i in range(number)]


@contextmanager
def no_estimates() -> Iterator[None]:
    """Leave out what a search still needs: its simulations take most of the time of a search."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("schedperf.lab.bisect.document.estimate_left", lambda _: None)
        yield


class Branch(Struct, frozen=True, kw_only=True):
    """A branch that a commit of the range merges.

    :param merge: hash of this commit
    :param commits: from the merge base, a commit of the range, to the tip
    :param alike: index of the commit of the range that has the level of each of these commits
    """

    merge: str
    commits: Sequence[Commit]
    alike: Sequence[int]


class Search:
    """A simulated machine, and the boots that were made on it.

    :param steps: new / old of the commits that change the result, by their indices
    :param untestable: indices of commits
    """

    def __init__(
        self,
        commits: Sequence[Commit],
        steps: Mapping[int, float],
        untestable: Collection[int] = (),
        sd: float = 0.01,
        branch: Branch | None = None,
    ) -> None:
        self.boots: list[tuple[str, float]] = []
        self._range = Range(
            commits=commits,
            likely={each.hash for each in commits},
            options=Options(),
            read_branches=self._read_branches,
        )
        self._branch = branch
        self._indices = {each.hash: i for i, each in enumerate(commits)}
        if branch is not None:
            inside = zip(branch.commits[1:], branch.alike[1:], strict=True)
            self._indices |= {each.hash: i for each, i in inside}
        self._untestable = {commits[index].hash for index in untestable}
        self._steps, self._sd = steps, sd
        self._made: Counter[str] = Counter()
        self._generator = np.random.default_rng(3)

    def _read_branches(self, merge: str, _parent: str) -> Sequence[Range]:
        if self._branch is None or self._branch.merge != merge:
            return ()
        commits = self._branch.commits
        return (replace(self._range, commits=commits, likely={each.hash for each in commits}),)

    def boot(self, commit: Commit, times: int) -> None:
        """Boot a commit; its first boot is 5% low."""
        index = self._indices[commit.hash]
        level = 100.0 * math.prod(ratio for step, ratio in self._steps.items() if step <= index)
        for _ in range(times):
            noise = math.exp(self._sd * self._generator.standard_normal())
            first = 1.0 if self._made[commit.hash] else 0.95
            self.boots.append((commit.hash, level * noise * first))
            self._made[commit.hash] += 1

    def judge(self, *, is_final: bool = False) -> BisectDocument:
        """Return what the boots so far show."""
        return judge(self._range, self.boots, self._untestable, is_final=is_final)

    def finish(self, most_boots: int = 1000) -> BisectDocument:
        """Make the boots that are asked for, until none are, or this many are made."""
        with no_estimates():
            while (visit := self.judge().next) is not None and len(self.boots) < most_boots:
                self.boot(visit.commit, visit.boots)
        return self.judge()


def in_a_branch() -> BisectDocument:
    """Return a search that names a commit of a branch that the commit ``CAUSE`` merges."""
    commits = make_commits()
    inside = [
        Commit(hash=f"{100 + i:040x}"[::-1], subject=f"sched: topic {i}") for i in range(1, 6)
    ]
    branch = Branch(
        merge=commits[CAUSE].hash,
        commits=[commits[CAUSE - 2], *inside],
        alike=(0, 0, 0, CAUSE, CAUSE, CAUSE),
    )
    return Search(commits, {CAUSE: 0.92}, branch=branch).finish()


def named(**settings: object) -> BisectDocument:
    """Return a search that names the commit with the index ``CAUSE``, with a change of -8%."""
    return Search(make_commits(**settings), {CAUSE: 0.92}).finish()  # type: ignore[arg-type] # of make_commits
