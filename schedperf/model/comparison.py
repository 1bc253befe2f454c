# SPDX-License-Identifier: GPL-2.0-or-later
"""The one record between analysis and reports: :class:`Comparison`.

Everything a report shows is in here, and nothing else is: HTML, mail, terminal
and JSON are four drawings of the same frozen values, so they cannot disagree.
Missing is ``None``, never 0. Values are in base units (s, B, 1/s, count).
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from schedperf.model.caveats import Caveat

SCHEMA = "schedperf/compare/2"

# So many digits tell the rows of all comparisons of a site apart.
KEY_DIGITS = 12

Better = Literal["higher", "lower"]
Family = Literal["primary", "secondary", "informational"]
Verdict = Literal["regression", "improvement", "no-change", "inconclusive", "invalid"]
Severity = Literal["treatment", "blocking", "noted", "ignored"]
SectionStatus = Literal["ok", "absent", "failed"]
Replication = Literal["runs", "boots", "rounds"]
Bearing = Literal["reason", "against", "unseen"]

Value_co = TypeVar("Value_co", covariant=True)
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseNew(Generic[Value_co]):
    """The same of base and of the new side that is compared with it."""

    base: Value_co
    new: Value_co

    def __iter__(self) -> Iterator[Value_co]:
        """Yield the value of base, then that of new."""
        yield self.base
        yield self.new

    def of(self, side: str) -> Value_co:
        """Return the value of base, or that of the new side under any other name."""
        return self.base if side == "base" else self.new

    def items(self) -> Iterator[tuple[str, Value_co]]:
        """Yield ``("base", value)``, then ``("new", value)``."""
        yield "base", self.base
        yield "new", self.new

    def map(self, function: Callable[[Value_co], Result]) -> "BaseNew[Result]":
        """Return what the function makes of the value of each side."""
        return BaseNew(base=function(self.base), new=function(self.new))


def digest_of(values: Sequence[object]) -> str:
    """Return the SHA-256 of values that JSON can hold, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class GitSource:
    """The commit that a side's kernel was built from, as given to the recorder."""

    tree: Annotated[str | None, "URL of the repository"]
    ref: Annotated[str | None, "branch or tag"]
    commit: str
    subject: str | None
    author: Annotated[str | None, "name and address"]
    committed: Annotated[str | None, "date of the commit, ISO 8601"]
    describe: Annotated[str | None, "as git describe prints it"]
    dirty: Annotated[bool, "had the work tree changes that are in no commit?"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SideSummary:
    """One bundle or table, as a reader must know it.

    :param name: "base", "new", then "new2", "new3" …
    :param label: what the bundle calls itself
    :param path: the file's name as the user gave it
    :param digest: SHA-256 over all captured members; equal digests are equal data
    :param boots: None where a table of numbers does not say
    :param runs_clean: None where a table of published means does not say
    :param host: the first boot's host.json, without its raw dumps
    """

    name: str
    label: str
    path: str
    digest: str
    created: str | None
    complete: bool
    boots: int | None
    runs_clean: int | None
    runs_instrumented: int
    runs_failed: int
    host: Mapping[str, object]
    recorded_by: Annotated[
        str | None, "program that recorded it, with its version; null where that is not recorded"
    ]
    source: Annotated[GitSource | None, "null where not given to the recorder"] = None
    machine_class: Annotated[
        str | None, "the same for machines whose results compare; null where no site names it"
    ] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One field of host.json (or of the workload) that is not equal on two sides.

    :param path: dotted path in host.json: ``cpu.microcode``
    """

    path: str
    side: str
    base: object
    new: object
    severity: Severity
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionDifference:
    """One option of the kernel's configuration that is not equal on two sides.

    :param name: ``CONFIG_PREEMPT``
    :param base: as the file has it: ``y``, ``250``, ``"text"``; None where it is not set
    """

    side: str
    name: str
    base: str | None
    new: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparability:
    """What the comparability gate found.

    :param compared: how many fields were looked at
    :param options: of the kernel's configuration, as far as the bundles hold it
    """

    comparable: bool
    compared: int
    differences: tuple[Difference, ...]
    options: tuple[OptionDifference, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where a number was printed.

    :param member: of the bundle: "boots/0/runs/003/stdout"; of a table of numbers its file
    :param line: counted from 1
    :param text: the line as it was printed, a long one cut
    """

    member: str
    line: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunValue:
    """One run's value of one metric; what a table of numbers does not say of it is None.

    :param source: the last of the lines that it was made of; None where not recorded
    """

    boot: int | None
    run: int
    order: int | None
    round: int | None
    value: float
    source: Source | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RowNumbers:
    """The numbers and the verdict of one metric of one point, base against one new side.

    :param n_base: independent values; None where a published mean does not say
    :param base: geometric mean of the runs (arithmetic where a value is not positive), in ``unit``
    :param ratio: new / base; None where it has no meaning
    :param ci_low: lower end of the 95% CI of ``ratio``
    :param q: p after the correction for all rows of the family in this comparison
    :param mde: the smallest change, as a fraction, that as many runs find with 80% power
    :param more_runs: how many more independent units per side would decide the row; None where it
        is decided, or where that is unknown
    :param method: the test by name: "Welch t on logs"
    :param replication: what ``n_base`` and ``n_new`` count, the unit that is independent
    :param icc: share of the variance that is between boots; None with one boot
    :param design_effect: by how much runs of one boot repeat each other: 1 is not at all
    :param p_rank: of the exact Mann-Whitney test; None with fewer than five a side
    :param rank_ratio: Hodges and Lehmann's shift as a ratio, with its exact 95% CI
    """

    side: str
    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    family: Family
    n_base: int | None
    n_new: int | None
    base: float | None
    new: float | None
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    q: float | None
    verdict: Verdict
    mde: float | None
    more_runs: int | None
    method: str
    replication: Replication
    icc: float | None
    design_effect: float | None
    p_rank: float | None
    rank_ratio: float | None
    rank_low: float | None
    rank_high: float | None
    caveats: tuple[Caveat, ...]

    @property
    def question(self) -> tuple[str, str, str, str, str]:
        """What is asked, whatever the side: workload, point, metric, unit and direction."""
        return self.workload, self.point, self.metric, self.unit, self.better

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of these numbers, of which a row is made."""
        return {field.name: getattr(self, field.name) for field in fields(RowNumbers)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Row(RowNumbers):
    """One metric of one point, base against one new side.

    :param margin: half-width of the equivalence band as a fraction: 0.03
    :param reason: one sentence that says why this verdict, with its numbers
    :param reason_plain: the same without the row's numbers and the number of runs that it needs
    :param reason_short: its first part, without advice
    :param definition: one sentence: what the metric measures, and of what it is the mean, sum or
        percentile; None where the benchmark's parser does not say
    """

    margin: float
    reason: str
    reason_plain: str
    reason_short: str
    values_base: tuple[RunValue, ...]
    values_new: tuple[RunValue, ...]
    definition: str | None = None

    derived: ClassVar[tuple[str, ...]] = ("key",)

    @property
    def key(self) -> str:
        """Name what was measured, whatever the side: 12 hexadecimal digits of a SHA-256."""
        return digest_of([self.workload, self.point, self.metric])[:KEY_DIGITS]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """All points of one metric of one workload together.

    :param geomean_ratio: geometric mean of the rows' ratios, with its 95% CI
    :param p: of the hypothesis that no point changed
    :param shape: how the change goes with the parameter: "grows with groups"; None without one
    :param first_point: the first point whose verdict is a change
    """

    side: str
    workload: str
    metric: str
    points: tuple[str, ...]
    geomean_ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    shape: str | None
    first_point: str | None
    method: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FamilySummary:
    """How many rows of a family got which verdict.

    :param tested: rows with a p; the correction is for so many
    :param expected_false: how many of the rows called changed may be so by chance, at most
    """

    family: Family
    side: str
    rows: int
    tested: int
    expected_false: float
    verdicts: Mapping[Verdict, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One explained fact.

    :param evidence: what proves it: ``("layout#sd_llc_id",)``
    :param value: size of the change in ``unit``; None where it is a yes-or-no fact
    :param n: runs (or builds) on each side that it rests on
    :param replication: "5+5 runs", "1 build per side"
    :param attribution: how far it explains the verdict: "correlated; causation not shown"
    :param edges: how many kinds of evidence of one thing moved together; 1 is one fact alone
    :param bearing: "reason" may explain the verdict, "against" went the other way, and "unseen"
        says what could not be looked at
    """

    id: str
    side: str
    claim: str
    metric: str
    value: float | None
    ci: tuple[float, float] | None
    unit: str
    better: Better | None
    n: tuple[int, int]
    evidence: tuple[str, ...]
    replication: str
    attribution: str
    edges: int = 1
    bearing: Bearing = "reason"


@dataclass(frozen=True, kw_only=True, slots=True)
class SectionData:
    """What one analysis found; each kind of evidence has a subclass in its ``record.py``.

    :cvar section: name of the section in :attr:`Comparison.sections`
    :cvar version: last part of the name of its schema
    """

    section: ClassVar[str]
    version: ClassVar[int]

    @classmethod
    def schema_id(cls) -> str:
        """Return the name of the section's schema: ``schedperf/section/layout/1``."""
        return f"schedperf/section/{cls.section}/{cls.version}"


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingSide:
    """A side that a section has nothing of."""

    side: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """The result of one analysis: what it found, or why there is nothing.

    :param schema: ``schedperf/section/layout/1``
    :param reason: why it is absent or failed; None when ok
    :param data: None unless ok
    """

    schema: str
    status: SectionStatus
    reason: str | None
    data: SectionData | None

    @classmethod
    def of(cls, data: SectionData) -> "Section":
        """Return the result of an analysis that found something."""
        return cls(schema=data.schema_id(), status="ok", reason=None, data=data)

    @classmethod
    def without(cls, record: type[SectionData], status: SectionStatus, reason: str) -> "Section":
        """Return the result of an analysis that found nothing."""
        return cls(schema=record.schema_id(), status=status, reason=reason, data=None)


Data = TypeVar("Data", bound=SectionData)


def data_of(sections: Mapping[str, Section], kind: type[Data]) -> Data | None:
    """Return what the analysis of this kind found; None where it found nothing or failed."""
    section = sections.get(kind.section)
    data = None if section is None else section.data
    return data if isinstance(data, kind) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Overall:
    """The verdict of the whole comparison.

    :param reason_short: the reason's first part, without the word for its kind
    :param exit_status: what ``schedperf compare`` exits with, before ``--strict``
    """

    verdict: Verdict
    reason: str
    reason_short: str
    exit_status: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NextStep:
    """What to do next, the most useful first.

    :param id: of the rule that advises it: "more-runs"
    :param what: what it does, in a few words
    :param why: what is missing without it
    :param commands: for a shell, one each, quoted; words in capitals are for the reader to replace
    """

    id: str
    what: str
    why: str
    commands: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Everything that was found out about two or more bundles.

    :param command: the command line that makes this again, one word per item; () where unknown
    """

    schema: str
    id: Annotated[str, "SHA-256 over the schema, the digests of the sides and the options"]
    tool_version: str
    sides: tuple[SideSummary, ...]
    comparability: Comparability
    rows: tuple[Row, ...]
    sweeps: tuple[Sweep, ...]
    families: tuple[FamilySummary, ...]
    findings: tuple[Finding, ...]
    sections: Mapping[str, Section]
    caveats: tuple[Caveat, ...]
    overall: Overall
    next_steps: tuple[NextStep, ...] = ()
    command: tuple[str, ...] = ()

    def section(self, kind: type[Data]) -> Data | None:
        """Return what the analysis of this kind found; None where it found nothing or failed.

        ``comparison.section(schedperf.Schedstat).rows``
        """
        return data_of(self.sections, kind)
