# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of cache-line layouts: which entries share a line, what changed, and why.

The units are the per-CPU section, structs and the kernel's global variables; their entries are
variables and fields. Offsets and addresses are in bytes from the start of the unit, which for the
per-CPU section of x86-64 up to 6.14 is address 0 of ``System.map``. Entries have their name in
base. The record of ``schedperf layout`` has every entry; that of ``schedperf compare`` lists at
most ``MOST_LISTED`` of a kind, and its counts include everything.
"""

from typing import Annotated, ClassVar, Literal

from msgspec import Struct, field

from schedperf.model.base_new import BaseNew
from schedperf.model.sections import MissingSide, SectionData

UnitKind = Literal["percpu", "struct", "globals"]
# Evidence for an alarm, best first: memory samples of this comparison, a published measurement,
# annotations in the kernel's source, the accesses in the kernel's source.
Grade = Literal["sampled", "measured", "stated", "inferred"]
Rule = Literal["contended", "separated", "joined", "spread", "group broken"]
CauseKind = Literal["inserted", "removed", "resized", "reordered", "realigned", "unexplained"]
Origin = Literal["given", "compile_time", "hardware", "assumed"]
RowKind = Literal["entry", "boundary", "gap", "hole"]
Mark = Literal["", "moved", "added", "removed", "renamed", "mates changed"]
# Which CPUs write and read: the CPU that owns the data, or other CPUs.
Writer = Literal["rarely", "own", "remote"]
Reader = Literal["own", "remote"]

# Most items of each list of a comparison; two unrelated kernels differ in thousands of pairs.
MOST_LISTED = 100

Pair = tuple[str, str]
Offset = Annotated[int, "offset from the start of the section or struct, in bytes"]
MaybeOffset = Annotated[
    int | None,
    "offset from the start of the section or struct, bytes; null if the entry does not exist",
]
Bytes = Annotated[int | None, "size of the entry in bytes; null if unknown"]


class LineBytes(Struct, frozen=True, kw_only=True):
    """Cache line size, in bytes.

    :param compile_time: L1_CACHE_BYTES, which the kernel's alignments use; None if unknown
    :param hardware: what the machine's caches report; None if unknown
    """

    compile_time: Bytes
    hardware: Bytes


class LayoutLines(Struct, frozen=True, kw_only=True):
    """Cache line size used for the comparison, and kernels with another size.

    :param from_: source of the size that is used
    :param differs: a clause for each kernel and size: "base is compiled for 128-byte lines"
    """

    used: Annotated[int, "cache line size, bytes"]
    from_: Origin = field(name="from")
    differs: tuple[str, ...]


class LayoutMissingUnit(Struct, frozen=True, kw_only=True):
    """A unit with unknown layout, and the reason."""

    unit: str
    reason: str


class LayoutKernel(Struct, frozen=True, kw_only=True):
    """One kernel: its architecture, line size and unknown units."""

    side: str
    label: str
    machine: str | None
    pointer_bytes: int | None
    line_bytes: LineBytes
    unknown: tuple[LayoutMissingUnit, ...]
    notes: tuple[str, ...]


class LayoutEntryChange(Struct, frozen=True, kw_only=True):
    """An entry of both kernels that shares a line with other entries than before, or straddles.

    An entry straddles if it spans more lines than its size needs. It is listed if it straddles on
    one side only.
    """

    derived: ClassVar[tuple[str, ...]] = ("keeps_offset",)

    name: str
    base_offset: Offset
    new_offset: Offset
    has_left: Annotated[
        bool, "true if the entry moved to another line; false if only the other entries moved"
    ]
    lost: Annotated[
        tuple[str, ...], "entries on the same cache line as this entry in base but not in new"
    ]
    gained: Annotated[
        tuple[str, ...], "entries on the same cache line as this entry in new but not in base"
    ]
    straddles: Annotated[
        BaseNew[bool | None],
        "true if the entry spans more lines than its size needs; null if the size is unknown",
    ]

    @property
    def keeps_offset(self) -> bool:
        """Whether the entry has the same offset in base and in new.

        If so, other entries moved to or from its lines, were added or removed there, or a size
        changed.
        """
        return self.base_offset == self.new_offset


class LayoutRename(Struct, frozen=True, kw_only=True):
    """An entry with different names in base and new."""

    base_name: str
    new_name: str
    commit: Annotated[
        str | None, "kernel commit that renamed the entry; null if the rename is inferred"
    ]


class LayoutResize(Struct, frozen=True, kw_only=True):
    """An entry with different sizes in base and new."""

    name: str
    base_bytes: int
    new_bytes: int


class LayoutEdit(Struct, frozen=True, kw_only=True):
    """One difference that moves other entries.

    :param entry: entry that was inserted, removed, resized, reordered or realigned; if the edit is
        unexplained, the first entry after the added or removed bytes
    :param entries: all entries of the edit, ``entry`` first; neighbours reordered together are one
        edit
    :param base_bytes: size of all ``entries`` in base; if the edit is "realigned", the alignment of
        the entry; if it is "unexplained", the padding in front of it; None if it is "inserted"
    :param new_bytes: the same in new; None if the edit is "removed"
    :param is_at_most: True if a size is unknown and the bytes up to the next entry are used instead
    """

    kind: CauseKind
    entry: str
    entries: tuple[str, ...]
    base_bytes: int | None
    new_bytes: int | None
    is_at_most: bool


class LayoutShift(Struct, frozen=True, kw_only=True):
    """Distance by which a cause moves entries that both kernels have.

    :param entries: number of moved entries
    :param first: first moved entry, in the order of new
    :param last: last moved entry; after it, padding absorbs the shift, or reduces it to whole lines
        (``slide``)
    :param smallest: smallest distance, bytes, negative towards the start; differs from ``largest``
        because of alignment
    :param largest: largest distance, bytes
    :param slide: whole lines, in bytes, by which all entries after ``last`` move; 0 if they stay
    """

    entries: int
    first: str
    last: str
    smallest: int
    largest: int
    slide: int


class LayoutPairCounts(Struct, frozen=True, kw_only=True):
    """Number of separated and joined pairs that a cause explains."""

    separated: int
    joined: int


class LayoutCause(Struct, frozen=True, kw_only=True):
    """One edit, and every changed pair that undoing it alone restores.

    :param edits: usually one; several if only undoing all of them restores the pairs; none for the
        pairs that no edits explain, e.g. because there are too many differences
    :param separated: pairs that it separates, by base offset
    :param joined: pairs that it joins, by new offset
    :param shift: None if it moves no entry that both kernels have
    :param together_with: entries of other causes that must also be undone if undoing this one is
        not sufficient
    :param alternatives: entries of other edits, each of which restores all these pairs if undone
        alone: the line has space for one of them
    :param by_entry_alone: pairs that undoing only ``entry``, without the other entries of the first
        edit, restores
    """

    derived: ClassVar[tuple[str, ...]] = ("kind", "entry")

    text: Annotated[str, "description of the cause, e.g. sd_cluster (inserted, 8 bytes)"]
    edits: tuple[LayoutEdit, ...]
    shift: LayoutShift | None
    is_sufficient: Annotated[
        bool, "true if undoing only these edits restores all pairs in `separated` and `joined`"
    ]
    together_with: tuple[str, ...]
    alternatives: tuple[str, ...]
    counts: LayoutPairCounts
    separated: tuple[Pair, ...]
    joined: tuple[Pair, ...]
    by_entry_alone: tuple[Pair, ...]

    @property
    def kind(self) -> CauseKind:
        """Kind of the first edit; "unexplained" without edits."""
        return self.edits[0].kind if self.edits else "unexplained"

    @property
    def entry(self) -> str | None:
        """Entry of the first edit; None without edits."""
        return self.edits[0].entry if self.edits else None


class LayoutAlarmEntry(Struct, frozen=True, kw_only=True):
    """An entry named by an alarm."""

    name: str
    base_offset: MaybeOffset
    new_offset: MaybeOffset


class LayoutAlarm(Struct, frozen=True, kw_only=True):
    """One layout change that may affect performance.

    :param pairs: pairs that share or shared a line; empty for a cacheline group, and for a set of
        which no pair was separated
    :param boundary: start of the line that now separates the first pair; None if nothing is
        separated
    :param functions: functions that access the entries, by their names in new's kernel, or in the
        record of ``schedperf layout`` by their newest names
    :param paths: paths on which all entries are accessed or, if there are none, any of them
    :param claim: one sentence without a full stop
    :param cause: a cause of the first pair, else of another pair; None if none is known
    :param causes: number of known causes of the pairs
    :param reference: source of the measurement or of the rule
    :param limits: what the alarm does not show, one sentence each
    """

    row: Annotated[str, "id of the alarm; evidence refers to it as layout#ROW"]
    rule: Rule
    grade: Annotated[
        Grade, "strength of the evidence, from sampled (strongest) to inferred (weakest)"
    ]
    unit: str
    line_bytes: int
    pairs: tuple[Pair, ...]
    entries: tuple[LayoutAlarmEntry, ...]
    boundary: MaybeOffset
    adjacent: Annotated[
        bool | None,
        "true if the first separated pair is still within one aligned block of two cache lines; "
        "null if no pair is separated",
    ]
    functions: tuple[str, ...]
    paths: tuple[str, ...]
    claim: str
    cause: LayoutCause | None
    causes: int
    effect: Annotated[
        str | None, "published effect of this change, with the machine; null if not published"
    ]
    reference: str
    hitm: Annotated[
        int | None,
        "number of sampled loads of the entries, counting only loads that hit a "
        "modified line; null if not sampled",
    ]
    limits: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its entries."""
        return tuple(entry.name for entry in self.entries)


class LayoutRegained(Struct, frozen=True, kw_only=True):
    """Variables measured to be faster together that share a line again, or need fewer lines."""

    unit: str
    names: tuple[str, ...]
    effect: str
    reference: str


class LayoutPairRow(Struct, frozen=True, kw_only=True):
    """A pair of entries that started or stopped sharing a line."""

    row: Annotated[str, "id of the pair; evidence refers to it as layout#ROW"]
    a: str
    b: str
    a_base_offset: Offset
    b_base_offset: Offset
    a_new_offset: Offset
    b_new_offset: Offset
    is_alarm: bool


class LayoutTenant(Struct, frozen=True, kw_only=True):
    """An entry that only one kernel has."""

    name: str
    offset: Offset
    size: Bytes


class LayoutUnitCounts(Struct, frozen=True, kw_only=True):
    """Number of changed entries, pairs and lines of a unit, by kind of change.

    :param entries_base: all entries of base
    :param common: entries that both sides have
    :param unsized: common entries whose size is unknown on a side
    :param moved: entries that moved to another line, away from or towards other entries
    :param mates_changed: common entries that share a line with other common entries than before
    :param separated: pairs that share a line in base and none in new
    :param joined: pairs that share a line in new and none in base
    :param slid_lines: lines of base that kept their entries but moved within the unit
    :param straddles_begun: entries that span more lines than their size needs in new only
    :param straddles_ended: the same in base only
    :param unknown_heat: entries that moved or were added and are not in the table of hot variables
    :param quiet: entries that moved or were added, are in the table, and are in no alarm
    """

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


class LayoutAdjacent(Struct, frozen=True, kw_only=True):
    """Changes per pair of adjacent lines (prefetchers), if they differ from those per line.

    :param line_bytes: size of a block of two lines, aligned to its size, which an adjacent-line
        prefetcher fetches as a whole
    :param separated: number of pairs of entries that share a block in base and none in new
    :param joined: number of pairs of entries that share a block in new and none in base
    :param still_together: pairs of entries that no longer share a line, but still share a block
    :param parted: the pairs that ``separated`` counts
    """

    line_bytes: int
    separated: int
    joined: int
    still_together: tuple[Pair, ...]
    parted: tuple[Pair, ...]


class LayoutNoise(Struct, frozen=True, kw_only=True):
    """Number of entries left out, by kind."""

    what: str
    base: int
    new: int


class LayoutUnit(Struct, frozen=True, kw_only=True):
    """How one unit changed.

    :param are_lines_certain: True if the unit starts at a multiple of the line size on both sides;
        False if it may not, so that line boundaries may be elsewhere; None if unknown
    :param unknown_heat: entries that moved or were added and are not in the table of hot variables
    :param quiet: entries that moved or were added, are in the table, and are in no alarm
    :param coverage_equal: the sources of both sides contain the same kinds of entries
    """

    unit: str
    kind: UnitKind
    is_unchanged: bool
    sources: Annotated[
        BaseNew[tuple[str, ...]],
        "source of the entry names, followed by the source of the sizes if it is a different one",
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
    only_read: Annotated[
        tuple[Pair, ...],
        "separated pairs that are used together but raise no alarm, because according to the "
        "table of hot variables and memory samples neither entry is written at run time",
    ]
    causes: tuple[LayoutCause, ...]
    unknown_heat: tuple[str, ...]
    quiet: tuple[str, ...]
    adjacent: LayoutAdjacent | None
    coverage_equal: bool
    noise: tuple[LayoutNoise, ...]
    notes: tuple[str, ...]


class LayoutRow(Struct, frozen=True, kw_only=True):
    """One row of a drawing of cache lines."""

    kind: Annotated[
        RowKind, "kind of row; gap: entries that are not shown (`name` contains their number)"
    ]
    address: Offset
    letter: Annotated[str, "symbol type as in nm: D global, d static; empty if unknown"] = ""
    type: str | None = None
    name: str = ""
    size: Bytes = None
    bits: Annotated[
        tuple[int, int] | None,
        "first bit (from the start of the struct) and number of bits; null if not a bit field",
    ] = None
    mark: Mark = ""
    is_hot: Annotated[bool, "true if an alarm in this drawing concerns the entry"] = False


class LayoutUse(Struct, frozen=True, kw_only=True):
    """Functions that access an entry; the entry is not in the table if `paths` is empty.

    :param paths: paths of the scheduler on which it is accessed: "wakeup", "tick" …
    :param written: which CPUs write it; None if it is not in the table
    :param read: which CPUs read it; None if it is not in the table
    :param functions: "FILE:FUNCTION"
    """

    name: str
    paths: tuple[str, ...]
    written: Writer | None
    read: Reader | None
    functions: tuple[str, ...]


class LayoutColumn(Struct, frozen=True, kw_only=True):
    """The lines of one kernel in a drawing.

    :param reason: why this kernel's unit is unknown; None if it is known
    """

    side: str
    label: str
    rows: tuple[LayoutRow, ...]
    lines: Annotated[tuple[Offset, ...], "start offset of each cache line shown, bytes"]
    bytes: Annotated[int | None, "size of the section or struct, bytes; null if unknown"]
    reason: str | None


class LayoutWindow(Struct, frozen=True, kw_only=True):
    """Corresponding lines of one unit in every kernel.

    :param inserted: entries in this drawing that a new kernel has and base lacks
    """

    unit: str
    kind: UnitKind
    alarms: Annotated[tuple[str, ...], "ids of the alarms in this drawing"]
    inserted: tuple[str, ...]
    columns: tuple[LayoutColumn, ...]
    uses: Annotated[
        tuple[LayoutUse, ...],
        "code that accesses the entries shown, from the table of hot variables",
    ]


class LayoutLeftOut(Struct, frozen=True, kw_only=True):
    """A member of a hot set that the advice does not move, and the reason."""

    name: str
    reason: str


class LayoutAdvice(Struct, frozen=True, kw_only=True):
    """Where to declare the members of a hot set.

    :param order: members to declare one after the other, first to last
    :param after: entry to declare them after; None if at the start of the unit
    :param is_aligned: whether the first member must be ____cacheline_aligned
    :param lines_before: number of lines that the members of ``order`` occupy now
    :param lines_after: number of lines that they occupy in ``predicted``; never more than now
    :param fewest: lower bound for any order; ``lines_after`` is higher if the neighbours would
        break a rule, or if the set is too large to try all orders
    :param moved: number of entries outside the set that move to another line
    :param joins: pairs of a member written by its own CPU and a read-mostly member on one line,
        which is allowed because the line stays with that CPU
    :param notes: limits of the advice, one sentence each
    :param predicted: the lines of the set in the new layout
    """

    derived: ClassVar[tuple[str, ...]] = ("is_change",)

    about: Annotated[str, 'id of an alarm, or "hot" for the set given with --hot']
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
        """Whether the advice needs fewer lines than the current order."""
        return self.lines_after < self.lines_before


class LayoutHotSet(Struct, frozen=True, kw_only=True):
    """The members of a set given with ``--hot`` that are in one unit."""

    unit: str
    names: tuple[str, ...]
    line_bytes: int
    lines: Annotated[BaseNew[int], "number of cache lines that the set occupies"]
    separated: tuple[Pair, ...]
    joined: tuple[Pair, ...]


class LayoutCounts(Struct, frozen=True, kw_only=True):
    """Number of units and alarms of a comparison."""

    units: int
    unchanged_units: int
    alarms: int
    unknown_heat: int


class LayoutComparison(Struct, frozen=True, kw_only=True):
    """One new kernel compared with base.

    :param alarms: best evidence first
    :param advice: for the first alarm about entries that should share lines, and for the set given
        with ``--hot``
    """

    side: str
    label: str
    is_unchanged: Annotated[bool, "true if all compared sections and structs are unchanged"]
    alarms: tuple[LayoutAlarm, ...]
    regained: tuple[LayoutRegained, ...]
    hot: tuple[LayoutHotSet, ...]
    advice: tuple[LayoutAdvice, ...]
    units: tuple[LayoutUnit, ...]
    missing: tuple[LayoutMissingUnit, ...]
    counts: LayoutCounts
    notes: Annotated[tuple[str, ...], "limitations of this comparison, one sentence each"]


class Layout(SectionData, frozen=True, kw_only=True):
    """Cache-line layouts of two or more kernels, each compared with the first.

    :param windows: drawings, those of alarms first
    """

    section: ClassVar[str] = "layout"
    version: ClassVar[int] = 2
    table: ClassVar[str] = "comparisons.alarms"

    line_bytes: LayoutLines
    kernels: tuple[LayoutKernel, ...]
    notes: tuple[str, ...]
    comparisons: tuple[LayoutComparison, ...]
    windows: tuple[LayoutWindow, ...]
    missing: tuple[MissingSide, ...]

    @property
    def has_alarms(self) -> bool:
        """Whether any side has an alarm."""
        return any(compared.alarms for compared in self.comparisons)


class LayoutMapCounts(Struct, frozen=True, kw_only=True):
    """Number of entries and lines of a unit; None if unknown.

    :param hot: hot entries
    :param hot_lines: lines on which the hot entries begin
    :param holes: gaps between the fields of a struct; None for variables, or if a size is unknown
    :param hole_bytes: their total size; None as for ``holes``
    :param padding: bytes after the last field of a struct; None as for ``holes``
    """

    entries: int
    lines: int
    hot: int
    hot_lines: int
    holes: int | None
    hole_bytes: int | None
    padding: int | None


class LayoutGroup(Struct, frozen=True, kw_only=True):
    """A ``__cacheline_group`` of the kernel, with its first and last byte."""

    name: str
    first: Offset
    last: Offset


class LayoutUnitMap(Struct, frozen=True, kw_only=True):
    """One unit of one kernel: the lines of its hot entries, or all lines.

    :param hot: the hot entries, with their row of the table of hot variables
    :param is_named: True if ``hot`` was given with ``--hot``
    :param rows: empty for a struct that is only counted
    :param advice: for ``hot`` if it was given with ``--hot``; else empty
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


class LayoutMap(SectionData, frozen=True, kw_only=True):
    """The layout of one kernel, as ``schedperf layout`` shows it."""

    section: ClassVar[str] = "layout-map"
    version: ClassVar[int] = 1
    table: ClassVar[str] = "maps.rows"
    has_alarms: ClassVar[bool] = False

    line_bytes: LayoutLines
    kernels: tuple[LayoutKernel, ...]
    notes: tuple[str, ...]
    maps: tuple[LayoutUnitMap, ...]
    missing: tuple[LayoutMissingUnit, ...]
