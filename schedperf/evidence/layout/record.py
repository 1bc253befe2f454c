# SPDX-License-Identifier: GPL-2.0-or-later
"""The record of cache-line layouts: which entries share a line, what changed, and why.

A per-CPU section, a struct and the kernel's global variables are units; variables and fields are
their entries. Offsets and addresses count in bytes from the start of the unit: for the per-CPU
section of x86-64 up to 6.14 that is where ``System.map`` has address 0. Entries are called by the
name that base has. Long lists are cut; the counts are of everything.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from schedperf.model.comparison import BaseNew, MissingSide, SectionData

UnitKind = Literal["percpu", "struct", "globals"]
# Memory samples of this very comparison, what somebody measured on some machine, what the kernel's
# source demands, what follows from which code accesses what; best evidence first.
Grade = Literal["sampled", "measured", "stated", "inferred"]
Rule = Literal["contended", "separated", "joined", "spread", "group broken"]
CauseKind = Literal["inserted", "removed", "resized", "reordered", "realigned", "unexplained"]
Origin = Literal["given", "compile_time", "hardware", "assumed"]
RowKind = Literal["entry", "boundary", "gap", "hole"]
Mark = Literal["", "moved", "added", "removed", "renamed", "mates changed"]
# Who writes and who reads, seen from the CPU whose data it is.
Writer = Literal["rarely", "own", "remote"]
Reader = Literal["own", "remote"]

# How many of each list are kept; two unrelated kernels differ in thousands of pairs.
MOST_LISTED = 100

Pair = tuple[str, str]
Offset = Annotated[int, "bytes from the start of the unit"]
MaybeOffset = Annotated[int | None, "bytes from the start of the unit; null: not there"]
Bytes = Annotated[int | None, "null where unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LineBytes:
    """How long a cache line is, in bytes.

    :param compile_time: L1_CACHE_BYTES, which the kernel's alignments use
    :param hardware: what the machine's caches report
    """

    compile_time: Bytes
    hardware: Bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutLines:
    """By which lines the kernels are compared, and which kernels have others."""

    used: Annotated[int, "bytes"]
    from_: Origin
    differs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutMissingUnit:
    """A unit that cannot be seen, and why."""

    unit: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutKernel:
    """What is known of one kernel."""

    side: str
    label: str
    machine: str | None
    pointer_bytes: int | None
    line_bytes: LineBytes
    unknown: tuple[LayoutMissingUnit, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutEntryChange:
    """One entry of both sides whose line has other entries than before, or that straddles one."""

    derived: ClassVar[tuple[str, ...]] = ("keeps_offset",)

    name: str
    base_offset: Offset
    new_offset: Offset
    has_left: Annotated[bool, "it left its line; false: the other entries did"]
    lost: Annotated[tuple[str, ...], "entries that were on its lines in base only"]
    gained: Annotated[tuple[str, ...], "entries that are on its lines in new only"]
    straddles: Annotated[
        BaseNew[bool | None], "it lies on more lines than its size needs; null: size unknown"
    ]

    @property
    def keeps_offset(self) -> bool:
        """Whether the others came and went around it: what a comparison of offsets overlooks."""
        return self.base_offset == self.new_offset


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutRename:
    """One entry under two names."""

    base_name: str
    new_name: str
    commit: Annotated[str | None, "of the kernel, which renamed it; null: the rename is inferred"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutResize:
    """One entry of two known sizes."""

    name: str
    base_bytes: int
    new_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutEdit:
    """One difference that places other entries elsewhere.

    :param entry: what was inserted, removed, resized, reordered or realigned; where nothing that
        the sources show explains it, the first entry after the bytes that came or went
    :param entries: all that the edit is about, ``entry`` first: neighbours reordered as one
    :param base_bytes: bytes that the entry has in base: its size, its alignment where that
        changed, the gap in front of it where nothing explains it; None: it is not there, or unknown
    :param new_bytes: the same in new
    :param is_at_most: the sizes are unknown, and the bytes up to the next entry stand in for them
    """

    kind: CauseKind
    entry: str
    entries: tuple[str, ...]
    base_bytes: int | None
    new_bytes: int | None
    is_at_most: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutShift:
    """How far a cause moves entries that both sides have.

    :param entries: how many
    :param first: the first of them in new's order
    :param last: the last of them, after which padding absorbs the rest
    :param smallest: bytes, negative towards the start; alignment makes the bytes differ
    :param largest: bytes
    :param slide: whole lines, in bytes, that everything behind ``last`` slides by; 0: it stays
    """

    entries: int
    first: str
    last: str
    smallest: int
    largest: int
    slide: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutPairCounts:
    """How many pairs on a common line a cause explains."""

    separated: int
    joined: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutCause:
    """One edit, and every changed pair that comes back when it alone is undone.

    :param edits: usually one; several where only undoing all of them brings the pairs back; none
        where there are too many differences to separate
    :param separated: pairs that it separates, by base offset
    :param joined: pairs that it joins, by new offset
    :param shift: None where it moves no entry that both sides have
    :param together_with: entries of the causes that have to be undone as well, where it is not
        sufficient
    :param alternatives: entries of other edits of which each, undone alone, brings all these pairs
        back too: the kernel has room for one of them
    :param by_entry_alone: those of the pairs that undoing the first entry alone brings back, where
        the first edit is about several
    """

    derived: ClassVar[tuple[str, ...]] = ("kind", "entry")

    text: Annotated[str, "the cause in words"]
    edits: tuple[LayoutEdit, ...]
    shift: LayoutShift | None
    is_sufficient: Annotated[bool, "undoing it and nothing else brings all its pairs back"]
    together_with: tuple[str, ...]
    alternatives: tuple[str, ...]
    counts: LayoutPairCounts
    separated: tuple[Pair, ...]
    joined: tuple[Pair, ...]
    by_entry_alone: tuple[Pair, ...]

    @property
    def kind(self) -> CauseKind:
        """What the first edit is."""
        return self.edits[0].kind if self.edits else "unexplained"

    @property
    def entry(self) -> str | None:
        """What the first edit is about; None where the differences are too many."""
        return self.edits[0].entry if self.edits else None


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutAlarmEntry:
    """An entry that an alarm is about."""

    name: str
    base_offset: MaybeOffset
    new_offset: MaybeOffset


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutAlarm:
    """One change that may be felt.

    :param pairs: that share or shared a line, worst first; empty where it is about a whole set
    :param boundary: where the line begins that now separates the first pair; None where nothing is
        separated
    :param functions: which functions touch them, under the newest names
    :param paths: on which
    :param claim: one sentence without a full stop
    :param cause: the edit that explains the first pair; None where none does
    :param causes: how many edits explain a pair
    :param reference: who measured it, or where the rule comes from
    :param limits: what the alarm does not say, one sentence each
    """

    row: Annotated[str, "id of the alarm, for evidence: layout#ROW"]
    rule: Rule
    grade: Annotated[Grade, "how well it is known, best first"]
    unit: str
    line_bytes: int
    pairs: tuple[Pair, ...]
    entries: tuple[LayoutAlarmEntry, ...]
    boundary: MaybeOffset
    adjacent: Annotated[
        bool | None,
        "the separated pair still shares two adjacent lines; null: nothing separated",
    ]
    functions: tuple[str, ...]
    paths: tuple[str, ...]
    claim: str
    cause: LayoutCause | None
    causes: int
    effect: Annotated[str | None, "what somebody measured of exactly this"]
    reference: str
    hitm: Annotated[int | None, "samples that hit a modified line; null: not sampled"]
    limits: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What its entries are called."""
        return tuple(entry.name for entry in self.entries)


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutRegained:
    """Names that were measured to belong together and share a line again, or fewer lines."""

    unit: str
    names: tuple[str, ...]
    effect: str
    reference: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutPairRow:
    """A pair of entries on a common line that was separated or joined."""

    row: Annotated[str, "id of the pair, for evidence: layout#ROW"]
    a: str
    b: str
    a_base_offset: Offset
    b_base_offset: Offset
    a_new_offset: Offset
    b_new_offset: Offset
    is_alarm: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutTenant:
    """An entry that only one side has."""

    name: str
    offset: Offset
    size: Bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutUnitCounts:
    """How many entries, pairs on a common line and lines of a unit changed in which way."""

    entries_base: int
    entries_new: int
    common: int
    unsized: int
    added: int
    removed: int
    renamed: int
    resized: int
    moved: int
    mates_changed: int
    separated: int
    joined: int
    slid_lines: int
    straddles_begun: int
    straddles_ended: int
    alarms: int
    unknown_heat: int
    quiet: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutAdjacent:
    """What prefetchers of adjacent lines see, where that differs from what single lines show."""

    line_bytes: int
    separated: int
    joined: int
    still_together: tuple[Pair, ...]
    parted: tuple[Pair, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutNoise:
    """How many entries were left out, by what they are."""

    what: str
    base: int
    new: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutUnit:
    """How one unit changed.

    :param are_lines_certain: the unit starts at a multiple of the line length on both sides; False
        where it may not, so lines counted from its start may be others; None where unknown
    :param unknown_heat: entries that moved or were added and that no row of the table of hot
        variables knows
    :param quiet: entries that moved or were added, are known, and are in no alarm
    :param coverage_equal: both sides' sources see the same kinds of entries
    """

    unit: str
    kind: UnitKind
    is_unchanged: bool
    sources: Annotated[
        BaseNew[tuple[str, ...]], "where names come from, then where sizes come from"
    ]
    bytes: BaseNew[Bytes]
    alignment: BaseNew[Bytes]
    is_alignment_inferred: bool
    are_lines_certain: bool | None
    counts: LayoutUnitCounts
    separated: tuple[LayoutPairRow, ...]
    joined: tuple[LayoutPairRow, ...]
    entries: tuple[LayoutEntryChange, ...]
    added: tuple[LayoutTenant, ...]
    removed: tuple[LayoutTenant, ...]
    renamed: tuple[LayoutRename, ...]
    resized: tuple[LayoutResize, ...]
    causes: tuple[LayoutCause, ...]
    unknown_heat: tuple[str, ...]
    quiet: tuple[str, ...]
    adjacent: LayoutAdjacent | None
    coverage_equal: bool
    noise: tuple[LayoutNoise, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutRow:
    """One row of a drawing of cache lines."""

    kind: Annotated[RowKind, "gap: entries between that are not shown, counted in its name"]
    address: Offset
    letter: Annotated[str, "nm's: D global, d static; empty where there is none"] = ""
    type: str | None = None
    name: str = ""
    size: Bytes = None
    bits: Annotated[
        tuple[int, int] | None, "of a bit field its first bit, from the unit's start, and how many"
    ] = None
    mark: Mark = ""
    is_hot: Annotated[bool, "an alarm of this drawing is about it"] = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutUse:
    """Which functions touch an entry; nothing of it is known where it has no paths."""

    name: str
    paths: tuple[str, ...]
    written: Writer | None
    read: Reader | None
    functions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutColumn:
    """One kernel's lines in a drawing."""

    side: str
    label: str
    rows: tuple[LayoutRow, ...]
    lines: Annotated[tuple[Offset, ...], "first bytes of the lines that it is about"]
    bytes: Annotated[int | None, "of the whole unit; null where unknown"]
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutWindow:
    """Lines of one unit on every kernel that belong together."""

    unit: str
    kind: UnitKind
    alarms: Annotated[tuple[str, ...], "rows of the alarms that it shows"]
    inserted: tuple[str, ...]
    columns: tuple[LayoutColumn, ...]
    uses: Annotated[
        tuple[LayoutUse, ...],
        "which code accesses what is drawn, as far as the table of heat knows",
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutLeftOut:
    """A member of a hot set that is not to be moved, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutAdvice:
    """Where to declare the members of a hot set.

    :param order: the members that are to be declared one after the other, first to last
    :param after: the entry behind which; None: at the unit's start
    :param is_aligned: whether the first of them has to be ____cacheline_aligned
    :param lines_before: lines that the members of ``order`` are on now
    :param lines_after: lines that they are on in ``predicted``; never more
    :param fewest: no order needs fewer lines; ``lines_after`` is more where the neighbours would
        break a rule, or where a set is too large for all its orders to be tried
    :param moved: how many entries that are not of the set begin on another line than now
    :param joins: members that their own CPU writes, on a line with members that are read-mostly:
        allowed, since the line stays with that CPU, but to be known
    :param notes: what weakens it, one sentence each
    :param predicted: the lines of the set in the new layout
    """

    derived: ClassVar[tuple[str, ...]] = ("is_change",)

    about: Annotated[str, 'row of an alarm, or "hot": the set that was asked for']
    unit: str
    line_bytes: int
    order: tuple[str, ...]
    after: str | None
    is_aligned: bool
    lines_before: int
    lines_after: int
    fewest: int
    moved: int
    joins: tuple[Pair, ...]
    left_out: tuple[LayoutLeftOut, ...]
    notes: tuple[str, ...]
    predicted: tuple[LayoutRow, ...]
    uses: tuple[LayoutUse, ...]

    @property
    def is_change(self) -> bool:
        """Whether anything is to be moved at all."""
        return self.lines_after < self.lines_before


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutHotSet:
    """The members of a set that the user named, in one unit."""

    unit: str
    names: tuple[str, ...]
    line_bytes: int
    lines: Annotated[BaseNew[int], "on how many it is"]
    separated: tuple[Pair, ...]
    joined: tuple[Pair, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutCounts:
    """How many units and alarms a comparison has."""

    units: int
    unchanged_units: int
    alarms: int
    unknown_heat: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutComparison:
    """One new kernel against base.

    :param alarms: best evidence first
    :param advice: for the first alarm that an order of declarations can mend, and for the hot set
        that was named
    """

    side: str
    label: str
    is_unchanged: Annotated[bool, "no unit that was compared has a change"]
    alarms: tuple[LayoutAlarm, ...]
    regained: tuple[LayoutRegained, ...]
    hot: tuple[LayoutHotSet, ...]
    advice: tuple[LayoutAdvice, ...]
    units: tuple[LayoutUnit, ...]
    missing: tuple[LayoutMissingUnit, ...]
    counts: LayoutCounts
    notes: Annotated[tuple[str, ...], "what weakens this comparison, one sentence each"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout(SectionData):
    """Cache-line layouts of two or more kernels, each compared with the first.

    :param windows: drawings, those of alarms first
    """

    section: ClassVar[str] = "layout"
    version: ClassVar[int] = 2

    line_bytes: LayoutLines
    kernels: tuple[LayoutKernel, ...]
    notes: tuple[str, ...]
    comparisons: tuple[LayoutComparison, ...]
    windows: tuple[LayoutWindow, ...]
    missing: tuple[MissingSide, ...]

    @property
    def has_alarms(self) -> bool:
        """Whether a change of any side may be felt."""
        return any(compared.alarms for compared in self.comparisons)


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutMapCounts:
    """How many entries and lines a unit has; None where that cannot be known."""

    entries: int
    lines: int
    hot: int
    hot_lines: int
    holes: int | None
    hole_bytes: int | None
    padding: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutGroup:
    """A group of fields that the kernel itself marks, with its first and last byte."""

    name: str
    first: Offset
    last: Offset


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutUnitMap:
    """One unit of one kernel: the lines of what is hot, or of all of it.

    :param hot: what it is about, with what the table of hot variables knows of each
    :param is_named: ``hot`` was asked for by name
    """

    unit: str
    kind: UnitKind
    sources: tuple[str, ...]
    bytes: Bytes
    alignment: Bytes
    is_alignment_inferred: bool
    counts: LayoutMapCounts
    hot: tuple[LayoutUse, ...]
    is_named: bool
    groups: tuple[LayoutGroup, ...]
    rows: tuple[LayoutRow, ...]
    advice: tuple[LayoutAdvice, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutMap(SectionData):
    """The layout of one kernel, which ``schedperf layout`` shows and no comparison has."""

    section: ClassVar[str] = "layout-map"
    version: ClassVar[int] = 1
    has_alarms: ClassVar[bool] = False

    line_bytes: LayoutLines
    kernels: tuple[LayoutKernel, ...]
    notes: tuple[str, ...]
    maps: tuple[LayoutUnitMap, ...]
    missing: tuple[LayoutMissingUnit, ...]
