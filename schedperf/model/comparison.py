# SPDX-License-Identifier: GPL-2.0-or-later
"""Define :class:`Comparison`, the record that the analysis writes and all reports read.

Everything a report shows is in here, and nothing else is: HTML, mail, terminal
and JSON are four drawings of the same frozen values, so they cannot disagree.
Missing is ``None``, never 0. Values are in base units (s, B, 1/s, count).
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from msgspec import Struct

from schedperf.model.caveats import Caveat

SCHEMA = "schedperf/compare/2"

# Names of the first two sides.
BASE = "base"
FIRST_NEW = "new"

# So many digits tell the rows of all comparisons of a site apart.
KEY_DIGITS = 12

# Of imported metrics whose format does not state it: "unknown".
Better = Literal["higher", "lower", "unknown"]
# Kernel developers expect of a microbenchmark a larger change than of an application.
BenchmarkClass = Literal["micro", "semi", "application"]
Family = Literal["primary", "secondary", "informational"]
Verdict = Literal["regression", "improvement", "no-change", "inconclusive", "invalid"]
Severity = Literal["treatment", "blocking", "noted", "ignored"]
Origin = Literal["kernel", "owner", "unknown"]
SectionStatus = Literal["ok", "absent", "not-applicable", "failed"]
Replication = Literal["runs", "boots", "rounds"]
Bearing = Literal["reason", "against", "effect", "unseen"]

Value_co = TypeVar("Value_co", covariant=True)
Result = TypeVar("Result")


class BaseNew(Struct, Generic[Value_co], frozen=True, kw_only=True):
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


class GitSource(Struct, frozen=True, kw_only=True):
    """The commit that a side's kernel was built from, as given to the recorder."""

    tree: Annotated[str | None, "URL of the repository"]
    ref: Annotated[str | None, "branch or tag"]
    commit: str
    subject: str | None
    author: Annotated[str | None, "name and e-mail address of the author"]
    committed: Annotated[str | None, "date of the commit, ISO 8601"]
    describe: Annotated[str | None, "output of git describe"]
    dirty: Annotated[bool, "true if the work tree had uncommitted changes"]
    committer: Annotated[str | None, "name and e-mail address of the committer"] = None
    patches: Annotated[tuple[str, ...], "patches that were applied on top of the commit"] = ()
    links: Annotated[tuple[str, ...], "values of the commit's Link: trailers"] = ()
    build_id: Annotated[
        str | None, "build id of the vmlinux, equal to the running kernel's; null if not given"
    ] = None


class Program(Struct, frozen=True, kw_only=True):
    """A program or script that a workload runs."""

    name: Annotated[str, "base name of the file"]
    version: Annotated[str | None, "as it prints it; null if unknown"]
    sha256: str


class Recording(Struct, frozen=True, kw_only=True):
    """One command that recorded runs; the boots of one command are one recording."""

    command: Annotated[tuple[str, ...], "the command line, one word per item"]
    minutes: Annotated[float | None, "its duration; null if unknown"]
    programs: tuple[Program, ...]


class SideSummary(Struct, frozen=True, kw_only=True):
    """One side of a comparison: a bundle or a table.

    :param name: "base", "new", then "new2", "new3" …
    :param label: the label in the bundle
    :param path: the file's name as the user gave it
    :param digest: SHA-256 over all captured members; equal if the data are equal
    :param boots: None if a table of numbers does not record it
    :param runs_clean: None if a table of published means does not record it
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
        str | None, "name and version of the recording program; null if not recorded"
    ]
    source: Annotated[
        GitSource | None, "commit of the kernel; null if not given to the recorder"
    ] = None
    machine_class: Annotated[
        str | None,
        "class of machines with comparable results: the name that the site gives and a hash of the "
        "fields of host.json that block comparisons; null without host.json",
    ] = None
    imported: Annotated[
        str | None, "format that the side was imported from, e.g. mmtests; null if recorded"
    ] = None
    recordings: Annotated[
        tuple[Recording, ...], "the commands that recorded it; empty if not recorded"
    ] = ()
    runs_discarded: Annotated[
        int, "runs that did not measure what they should and are not used, as caveats explain"
    ] = 0


class Difference(Struct, frozen=True, kw_only=True):
    """One field of host.json (or of the workload) that is not equal on two sides.

    :param path: dotted path in host.json: ``cpu.microcode``; ``setup`` and ``workload`` are what
        the recorder was given
    :param origin: of a field that kernels have a default of, if the kernels differ: "kernel" if it
        is their default, "owner" if an administrator set it, "unknown" if that is not
        recorded; else None
    """

    path: str
    side: str
    base: object
    new: object
    severity: Severity
    reason: str
    origin: Origin | None = None

    @property
    def is_part_of_change(self) -> bool:
        """Is it a default that differs because the kernels do?"""
        return self.severity == "treatment" and self.origin in ("kernel", "unknown")


class OptionDifference(Struct, frozen=True, kw_only=True):
    """One option of the kernel's configuration that is not equal on two sides.

    :param name: ``CONFIG_PREEMPT``
    :param base: as in the file: ``y``, ``250``, ``"text"``; None if not set
    :param toolchain: it describes the compiler, another tool or the name of the build
    """

    side: str
    name: str
    base: str | None
    new: str | None
    toolchain: bool = False


class Comparability(Struct, frozen=True, kw_only=True):
    """Whether the sides are comparable, and their differences.

    :param compared: number of compared fields
    :param options: differing options of the kernel's configuration, if the bundles contain it
    :param equal: dotted paths of the fields of host.json that are equal on all sides; empty if a
        side has no host.json
    """

    comparable: bool
    compared: int
    differences: tuple[Difference, ...]
    options: tuple[OptionDifference, ...] = ()
    equal: tuple[str, ...] = ()

    derived: ClassVar[tuple[str, ...]] = ("part_of_change",)

    @property
    def part_of_change(self) -> tuple[str, ...]:
        """Return the fields whose defaults differ because the kernels do."""
        paths = (each.path for each in self.differences if each.is_part_of_change)
        return tuple(dict.fromkeys(paths))


class Source(Struct, frozen=True, kw_only=True):
    """The line of output that a number was read from.

    :param member: member of the bundle: "boots/0/runs/003/stdout"; or the file of a table
    :param line: line number, counted from 1
    :param text: the printed line; a long line is cut
    """

    member: str
    line: int
    text: str


class RunValue(Struct, frozen=True, kw_only=True):
    """One run's value of one metric; fields that a table of numbers does not record are None.

    :param source: the last of the lines that it was computed from; None if not recorded
    """

    boot: int | None
    run: int
    order: int | None
    round: int | None
    value: float
    source: Source | None = None


class RowNumbers(Struct, frozen=True, kw_only=True):
    """The numbers and the verdict of one metric of one point, base against one new side.

    :param n_base: number of independent values; None if a published mean does not record it
    :param base: geometric mean of the runs (arithmetic if a value is not positive; median of
        maxima), in ``unit``
    :param ratio: new / base; None if undefined
    :param ci_low: lower bound of the 95% CI of ``ratio``
    :param q: p, corrected for all rows of the family in this comparison
    :param mde: the smallest detectable change, as a fraction (80% power)
    :param more_runs: how many more independent units per side would decide the row; None if it is
        decided, or if the number is unknown
    :param method: the test by name: "Welch t on logs"
    :param replication: unit of replication: what ``n_base`` and ``n_new`` count
    :param icc: share of the variance that is between boots; None with one boot
    :param design_effect: variance inflation from runs of one boot being alike; 1 for none
    :param p_rank: p of the exact rank test; None with fewer than five runs per side or six pairs
    :param rank_ratio: Hodges-Lehmann shift as a ratio, with its exact 95% CI
    :param p_t: p of the t test of the means; ``p`` is the larger of ``p_t`` and ``p_rank`` where
        ``method`` names both
    :param p_rank_min: the smallest p that the rank test can have with so few values
    :param same_as: metric of the same runs whose measurement this row repeats, e.g. as its
        reciprocal; it is tested once, and both rows have its ``q``
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
    p_t: float | None = None
    p_rank_min: float | None = None
    same_as: str | None = None
    caveats: tuple[Caveat, ...]

    @property
    def question(self) -> tuple[str, str, str, str, Better]:
        """What is measured, on any side: workload, point, metric, unit and direction."""
        return self.workload, self.point, self.metric, self.unit, self.better

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of these numbers, of which a row is made."""
        return {name: getattr(self, name) for name in RowNumbers.__struct_fields__}


class Row(RowNumbers, frozen=True, kw_only=True):
    """One metric of one point, base against one new side.

    :param margin: half-width of the equivalence band as a fraction: 0.03
    :param reason: why the row has this verdict, one sentence with its numbers
    :param reason_plain: the reason without the row's numbers and without the runs needed
    :param reason_short: the first part of the reason, without advice
    :param definition: one sentence: what the metric measures, and which mean, sum or percentile it
        is; None if the benchmark's parser does not define it
    :param class_: class of the benchmark: microbenchmark, semi-synthetic or application; None if
        its parser does not state it
    """

    margin: float
    reason: str
    reason_plain: str
    reason_short: str
    values_base: tuple[RunValue, ...]
    values_new: tuple[RunValue, ...]
    definition: str | None = None
    class_: BenchmarkClass | None = None

    derived: ClassVar[tuple[str, ...]] = ("key",)

    @property
    def key(self) -> str:
        """Return an identifier of what was measured, equal on all sides: 12 hexadecimal digits."""
        return digest_of([self.workload, self.point, self.metric])[:KEY_DIGITS]


class Sweep(Struct, frozen=True, kw_only=True):
    """All points of one metric of one workload together.

    :param geomean_ratio: geometric mean of the rows' ratios, with its 95% CI
    :param p: p of the null hypothesis that no point changed
    :param shape: how the change depends on the parameter: "grows with groups"; None if unknown
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


class Step(Struct, frozen=True, kw_only=True):
    """The change of one side from the side before it.

    :param ratio: this side / the side before it, with its 95% CI
    :param p: of the test that rows have; None if nothing was tested
    :param p_corrected: p by Holm, corrected for the steps of all results of the family
    :param significant: ``p_corrected`` is below 5%, and a comparison of the two sides alone finds
        a change
    """

    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None = None
    p_corrected: float | None = None
    significant: bool = False


class SideCell(Struct, frozen=True, kw_only=True):
    """The result of one side, beside those of the others.

    :param n: number of independent values; None if not recorded
    :param value: mean of the runs, in the unit of the result; None if it has no value
    :param ratio: this side / base with its 95% CI; None for base
    :param verdict: of the row of this side; None for base
    :param step: change from the side before it; None for base, and if one of the two is invalid
    """

    side: str
    n: int | None
    value: float | None
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    verdict: Verdict | None
    step: Step | None


class SideBySide(Struct, frozen=True, kw_only=True):
    """One metric of one point on all sides of a comparison of three or more.

    :param cells: one per side, base first
    :param best: side with the largest significant improvement, base if others regressed and none
        improved; by the means alone if no side has a CI; None if no change is significant
    :param worst: the same for regressions
    """

    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    family: Family
    cells: tuple[SideCell, ...]
    best: str | None
    worst: str | None


class SettingEffect(Struct, frozen=True, kw_only=True):
    """The effect of a setting on one kernel.

    :param ratio: with the new setting / with the base setting, with its 95% CI
    :param verdict: of this effect alone
    """

    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    verdict: Verdict


class Interaction(Struct, frozen=True, kw_only=True):
    """Whether a setting has another effect on a new kernel than on base, for one result.

    :param kernel: name of the new kernel
    :param n: number of boots (or rounds) of each kernel
    :param effects: of the setting on each kernel
    :param ratio: effect on the new kernel / effect on base, with its 95% CI
    :param q: p, corrected for all results of the family
    :param verdict: "regression": the setting is worse on the new kernel than on base
    """

    kernel: str
    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    family: Family
    n: BaseNew[int | None]
    effects: BaseNew[SettingEffect]
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    q: float | None
    verdict: Verdict
    reason: str
    method: str
    caveats: tuple[Caveat, ...]


class TwoByTwo(Struct, frozen=True, kw_only=True):
    """The interaction of two settings and two or more kernels, which all sides together cross.

    :param kernels: base first; each other one is compared with it
    :param replication: what ``n`` counts: each unit has runs of both settings
    """

    kernels: tuple[str, ...]
    settings: BaseNew[str]
    replication: Replication
    results: tuple[Interaction, ...]


class Mover(Struct, frozen=True, kw_only=True):
    """A significant step: the side, e.g. the patch, at which a result changes.

    :param before: the side before it
    :param ratio: this side / the side before it, with its 95% CI
    :param p_corrected: as in :class:`Step`
    """

    side: str
    before: str
    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    family: Family
    ratio: float
    ci_low: float | None
    ci_high: float | None
    p_corrected: float | None


class FamilySummary(Struct, frozen=True, kw_only=True):
    """How many rows of a family have each verdict.

    :param tested: number of rows with a p
    :param corrected_for: number of rows with a p on all new sides, for which p is corrected
    :param expected_false: largest expected number of false positives among the changed rows
    """

    family: Family
    side: str
    rows: int
    tested: int
    corrected_for: int
    expected_false: float
    verdicts: Mapping[Verdict, int]


class Finding(Struct, frozen=True, kw_only=True):
    """One finding: a change that may explain the verdict.

    :param clause: the fact in one clause
    :param change: size of the change and its interval, as the text behind the clause
    :param details: further facts, the meaning and advice, as the text behind the change
    :param evidence: rows of the sections that support it: ``("layout#sd_llc_id",)``
    :param value: size of the change in ``unit``; None for a finding without a size
    :param n: number of runs (or builds) of each side
    :param replication: "5+5 runs", "1 build per side"
    :param attribution: how far it explains the verdict: "correlated; causation not shown"
    :param support: evidence beyond correlation, in one clause: "grade C: …", "published
        measurement: …"; "" without any
    :param edges: number of kinds of evidence that changed together; 1 for a single kind
    :param bearing: "reason" may explain the verdict, "against" changed in the opposite direction,
        "effect" is a further effect of the change, as the energy used, which cannot explain the
        verdict, and "unseen" is about what was not measured
    """

    derived: ClassVar[tuple[str, ...]] = ("claim",)

    id: str
    side: str
    clause: str
    metric: str
    value: float | None
    ci: tuple[float, float] | None
    unit: str
    better: Better | None
    n: tuple[int, int]
    evidence: tuple[str, ...]
    replication: str
    attribution: str
    change: str = ""
    details: str = ""
    support: str = ""
    edges: int = 1
    bearing: Bearing = "reason"

    @property
    def claim(self) -> str:
        """Return the whole finding as one sentence."""
        return f"{self.clause}{self.change}{self.details}"


class SectionData(Struct, frozen=True, kw_only=True):
    """The data of one analysis; each kind of evidence has a subclass in its ``record.py``.

    :cvar section: name of the section in :attr:`Comparison.sections`
    :cvar version: last part of the name of its schema
    :cvar collector: whose captures it analyses; "" if it needs no warning of collector overhead
    """

    section: ClassVar[str]
    version: ClassVar[int]
    collector: ClassVar[str] = ""

    @classmethod
    def schema_id(cls) -> str:
        """Return the name of the section's schema: ``schedperf/section/layout/1``."""
        return f"schedperf/section/{cls.section}/{cls.version}"


class MissingSide(Struct, frozen=True, kw_only=True):
    """A side without data in a section, and the reason."""

    side: str
    reason: str


class Section(Struct, frozen=True, kw_only=True):
    """The result of one analysis: its data, or why it has none.

    :param schema: ``schedperf/section/layout/1``
    :param status: "absent" if the recordings lack what it looks at; "not-applicable" if they are
        about something else, e.g. have no load: reports do not mention it
    :param reason: why it has no data; None when ok
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


class Overall(Struct, frozen=True, kw_only=True):
    """The verdict of the whole comparison.

    :param reason_short: the reason's first part, without the word for its kind
    :param exit_status: what ``schedperf compare`` exits with, before ``--strict``
    """

    verdict: Verdict
    reason: str
    reason_short: str
    exit_status: int


class NextStep(Struct, frozen=True, kw_only=True):
    """One suggested next step.

    :param id: name of the rule that suggests it: "more-runs"
    :param what: what to do, in a few words
    :param why: the reason
    :param commands: shell commands, quoted; the reader replaces words in capitals
    :param conditions: what must be done before the commands can run
    """

    id: str
    what: str
    why: str
    commands: tuple[str, ...]
    conditions: tuple[str, ...] = ()


class Comparison(Struct, frozen=True, kw_only=True):
    """The comparison of two or more bundles or tables.

    :param side_by_side: the results of three or more sides, a column per side; () for two
    :param two_by_two: None if the sides do not cross kernels with two settings
    :param movers: significant steps of three or more sides: primary results first, then the largest
    :param command: command line that reproduces the comparison, one word per item; () if unknown
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
    side_by_side: tuple[SideBySide, ...] = ()
    movers: tuple[Mover, ...] = ()
    two_by_two: TwoByTwo | None = None
    next_steps: tuple[NextStep, ...] = ()
    command: tuple[str, ...] = ()

    def section(self, kind: type[Data]) -> Data | None:
        """Return what the analysis of this kind found; None where it found nothing or failed.

        ``comparison.section(schedperf.Schedstat).rows``
        """
        return data_of(self.sections, kind)
