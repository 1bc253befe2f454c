# SPDX-License-Identifier: GPL-2.0-or-later
"""Define :class:`Culprit`, the record about the first bad commit of a regression.

Mails, pages and feeds about a commit use only the culprit and the comparisons that it refers to by
their ``id``.
"""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from schedperf.model.base_new import BASE, FIRST_NEW
from schedperf.model.rows import digest_of

SCHEMA = "schedperf/culprit/1"

# This many digits identify a commit, and this many the record, in mails and URLs.
COMMIT_DIGITS = 12
KEY_DIGITS = 8


_HASH = Meta(pattern=r"\A(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
CommitHash = Annotated[str, "hash, 40 or 64 hexadecimal digits", _HASH]
ComparisonId = Annotated[str, "id of the comparison", Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_PART_OF_ID = r"[!-;=?A-~]{1,200}"
_BARE_ID = f"{_PART_OF_ID}@{_PART_OF_ID}"
# A Message-ID, with or without its angle brackets.
MESSAGE_ID = f"(?:<{_BARE_ID}>|{_BARE_ID})"
Probability = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0)]
ElsewhereVerdict = Literal["regressed", "no regression", "unclear"]


class Trailer(Struct, frozen=True, kw_only=True):
    """One trailer of a commit: ``Signed-off-by: Name <address>``."""

    name: str
    value: str


class Commit(Struct, frozen=True, kw_only=True):
    """A commit, as git describes it."""

    commit: CommitHash
    subject: str
    author: Annotated[str | None, "name and e-mail address"] = None
    committer: Annotated[str | None, "name and e-mail address"] = None
    committed: Annotated[str | None, "date of the commit, ISO 8601"] = None
    trailers: tuple[Trailer, ...] = ()
    links: Annotated[tuple[str, ...], "values of the Link: trailers, first one first"] = ()
    name: Annotated[
        str | None, "what people call its kernel: v6.18, 6.19-rc2-00060-gabc; null if unknown"
    ] = None

    @property
    def shown(self) -> str:
        """Return its name in ranges, or its first 12 digits."""
        return self.name or self.commit[:COMMIT_DIGITS]


class Tree(Struct, frozen=True, kw_only=True):
    """A branch of a repository, at the commit that was measured."""

    name: Annotated[str, "e.g. tip/sched/core"]
    commit: Annotated[CommitHash | None, "its newest commit that was measured"] = None
    date: Annotated[str | None, "date of that commit, ISO 8601"] = None
    url: Annotated[str | None, "URL of the repository"] = None
    private: Annotated[bool, "true if nothing about it may be published"] = False


class Measured(Struct, frozen=True, kw_only=True):
    """One side of a comparison, measured against another side of it."""

    comparison: ComparisonId
    side: Annotated[str, "name of the side: new, new2 ..."] = FIRST_NEW
    before: Annotated[
        str, "name of the side that it is measured against: base, or the side before it"
    ] = BASE


class Retest(Struct, frozen=True, kw_only=True):
    """A second measurement of good and bad on boots of its own."""

    result: Measured
    found: Annotated[ComparisonId, "id of the comparison that first showed the regression"]


class BisectionStep(Struct, frozen=True, kw_only=True):
    """One tested commit of a bisection."""

    commit: CommitHash
    boots: Count
    probability: Annotated[
        Probability | None,
        "probability that it is the first bad commit, after this step or at the end of the search; "
        "null if unknown",
    ]
    untestable: Annotated[str | None, "why it has no result: it did not build, or not boot"] = None
    position: Annotated[
        Count | None, "commits of the range up to it, 0 for the good end; null if not recorded"
    ] = None
    change: Annotated[
        float | None, "its level / that of the good end - 1; null for this end, and if unknown"
    ] = None
    ci_low: Annotated[float | None, "lower bound of its 95% CI"] = None
    ci_high: Annotated[float | None, "upper bound of its 95% CI"] = None


class Bisection(Struct, frozen=True, kw_only=True):
    """How the first bad commit was found in a range of commits."""

    good: CommitHash
    bad: CommitHash
    steps: tuple[BisectionStep, ...]
    builds: Count
    boots: Count
    probability: Annotated[
        Probability | None, "probability that the first bad commit is right; null if not computed"
    ]
    neighbours_tested: Annotated[
        bool,
        "true if it and the commit before it were tested, so that neither this one nor the "
        "commit after it can be the first bad one",
    ]


class Revert(Struct, frozen=True, kw_only=True):
    """The commit reverted on top of the newest kernel."""

    result: Annotated[Measured | None, "null if it was not measured"] = None
    impossible: Annotated[str | None, "why it cannot be reverted: 'conflicts with ...'"] = None


class FeatureSwitch(Struct, frozen=True, kw_only=True):
    """A scheduler feature that turns the commit's change off, on one boot."""

    feature: Annotated[str, "e.g. PLACE_LAG"]
    result: Measured


class Elsewhere(Struct, frozen=True, kw_only=True):
    """The same commit on another machine, or in another tree.

    It may also be measured with another workload.

    :param tree: branch or tag of the measured kernel; None if it is that of the main measurement,
        or not recorded
    """

    result: Measured
    machine: Annotated[str, "e.g. 1-socket, 64-CPU EPYC"]
    tree: str | None = None
    backport: Annotated[
        CommitHash | None, "its hash there, if that tree has a backport of the commit"
    ] = None


class StepElsewhere(Struct, frozen=True, kw_only=True):
    """The result of a step on another machine, over the nights around the step."""

    machine: Annotated[str, "machine class"]
    change: Annotated[float | None, "new / reference - 1 since the step; null if unknown"] = None
    ci_low: Annotated[float | None, "lower bound of its 95% CI"] = None
    ci_high: Annotated[float | None, "upper bound of its 95% CI"] = None
    verdict: Annotated[
        ElsewhereVerdict,
        "no regression: the CI excludes half of the change of the step",
    ] = "unclear"


class SeenStep(Struct, frozen=True, kw_only=True):
    """A lasting change of a series in a history, which the regression explains."""

    step: Annotated[str, "identity of the step in the history", Meta(pattern=r"\A[!-~]{1,100}\Z")]
    series: Annotated[str, "key of its series"]
    machine_class: str
    workload: str
    point: str
    metric: str
    unit: str
    night: Annotated[str, "the first night after the change"]
    change: Annotated[float | None, "as it was first seen, a fraction; null if unknown"] = None
    ci_low: Annotated[float | None, "lower bound of its 95% CI"] = None
    ci_high: Annotated[float | None, "upper bound of its 95% CI"] = None
    nights: Annotated[Count, "nights of the series that have a result"] = 0
    false_alarms: Annotated[Count, "steps of the series that were not reproduced, or invalid"] = 0
    elsewhere: Annotated[
        tuple[StepElsewhere, ...], "the same result on other machines; () if not measured"
    ] = ()


class Check(Struct, frozen=True, kw_only=True):
    """One condition for a mail to a public list."""

    name: str
    passed: bool
    reason: Annotated[str, "what would satisfy it; empty if it passed"] = ""

    @classmethod
    def of(cls, name: str, *problems: str | None) -> "Check":
        """Return a check that failed with the first problem as the reason, or passed without one.

        :param problems: None and "" are no problems
        """
        reason = next((problem for problem in problems if problem), "")
        return cls(name=name, passed=not reason, reason=reason)


class Links(Struct, frozen=True, kw_only=True):
    """Where more is published; addresses are relative to ``base_url`` of the site.

    Only ``page`` is an address; the others are Message-IDs.
    """

    posted: Annotated[
        str | None, "Message-ID of the patch while it is a posted, unmerged series"
    ] = None
    report: Annotated[str | None, "Message-ID of the first mail about the commit"] = None
    page: Annotated[
        str | None, "published page of the record: r/KEY/, or r/KEY/N/ of version N"
    ] = None


class Culprit(Struct, frozen=True, kw_only=True):
    """The first bad commit of a regression, or the range in which it is."""

    schema: str = SCHEMA
    good: Annotated[Commit, "the parent of the first bad commit, or the last good one known"]
    bad: Annotated[Commit, "the first bad commit, or the first bad one known"]
    is_range: Annotated[bool, "true if commits between good and bad were not tested"]
    benchmark: Annotated[str, "what shows the regression: hackbench"]
    tree: Tree | None
    merged: Annotated[bool | None, "true if the commit is in a public tree; null if unknown"] = None
    main: Annotated[Measured, "the measurement that texts report"]
    comparisons: Annotated[tuple[ComparisonId, ...], "ids of all comparisons, the main one first"]
    retest: Retest | None = None
    bisection: Bisection | None = None
    tip: Annotated[Measured | None, "the newest kernel of the tree, against good"] = None
    fix: Annotated[Measured | None, "the kernel with the fix, against good"] = None
    fixed_by: Commit | None = None
    revert: Revert | None = None
    feature_switch: FeatureSwitch | None = None
    forced_alignment: Annotated[
        Measured | None, "both kernels rebuilt with all functions aligned to 64 bytes"
    ] = None
    a_a: Annotated[Measured | None, "good against good"] = None
    regressed_on: tuple[Elsewhere, ...] = ()
    no_change_on: tuple[Elsewhere, ...] = ()
    steps: Annotated[
        tuple[SeenStep, ...],
        "steps of a history with this place and cause, the first one names the record; () without "
        "a history",
    ] = ()
    checks: Annotated[
        tuple[Check, ...], "what the record lacks, or has, for a mail to a public list"
    ] = ()
    links: Links = Links()

    derived: ClassVar[tuple[str, ...]] = ("id", "key")

    @property
    def measurements(self) -> tuple[Measured, ...]:
        """Return every measurement that the record refers to, the main one first."""
        alone = (self.main, self.tip, self.fix, self.forced_alignment, self.a_a)
        within = (
            self.retest,
            self.revert,
            self.feature_switch,
            *self.regressed_on,
            *self.no_change_on,
        )
        results = (*alone, *(each.result for each in within if each is not None))
        return tuple(each for each in results if each is not None)

    @property
    def is_open_patch(self) -> bool:
        """Return whether the commit is a patch that is not merged.

        If it is unknown whether the commit is merged, a posted patch counts as not merged.
        """
        return self.merged is False or (self.merged is None and self.links.posted is not None)

    @property
    def id(self) -> str:
        """Return the first 12 digits of the commit, or of the bad end of a range."""
        return self.bad.commit[:COMMIT_DIGITS]

    @property
    def key(self) -> str:
        """Return the key of the record in URLs and Message-IDs: 8 hexadecimal digits.

        It follows from the first step of the record, so that it stays when the range becomes
        smaller; without a step, from the commits and the benchmark.
        """
        if self.steps:
            return digest_of(["step", self.steps[0].step])[:KEY_DIGITS]
        what = f"{self.good.commit}..{self.bad.commit}" if self.is_range else self.bad.commit
        return digest_of([what, self.benchmark])[:KEY_DIGITS]

    @property
    def range_name(self) -> str:
        """Return the commits as texts name them: ``v6.18..6.19-rc2-00060-gabc``, or the bad one."""
        return f"{self.good.shown}..{self.bad.shown}" if self.is_range else self.id
