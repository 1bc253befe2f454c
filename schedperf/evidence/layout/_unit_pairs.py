"""One unit of two kernels, with all that the comparison found."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from schedperf.evidence.layout.changes import CoTenancy, UnitChange
from schedperf.evidence.layout.cotenancy import Spans, comparable_spans
from schedperf.evidence.layout.difference import compare_units
from schedperf.evidence.layout.matching import Matching, match_entries
from schedperf.evidence.layout.model import Unit
from schedperf.evidence.layout.ranking import Ranking, rank_change
from schedperf.evidence.layout.windows import Sheet


@dataclass(frozen=True, kw_only=True)
class UnitPair:
    """One unit of base and of new.

    :param units: base's and new's
    :param prefix: of the ids of its pairs: "" or "new2/"
    """

    units: tuple[Unit, Unit]
    change: UnitChange
    ranking: Ranking
    prefix: str

    @property
    def name(self) -> str:
        """What the unit is called."""
        return self.change.name

    @cached_property
    def matching(self) -> Matching:
        """Which entry is which."""
        return match_entries(*self.units)

    @cached_property
    def spans(self) -> Spans:
        """The bytes of every entry, as base calls them."""
        return comparable_spans(self.matching, *self.units)

    @cached_property
    def sheets(self) -> tuple[Sheet, Sheet]:
        """Both units with their lines, each under its own names."""
        line_bytes = self.change.lines.line_bytes
        return Sheet(self.units[0], line_bytes), Sheet(self.units[1], line_bytes)

    @cached_property
    def new_names(self) -> Mapping[str, str]:
        """How new calls those entries that have another name in base."""
        own = self.sheets[1].entries
        return {
            called.name: entry.name
            for entry, called in zip(own, self.matching.new, strict=True)
            if entry.name != called.name
        }


def compare_pair(
    base: Unit, new: Unit, line_bytes: int, hitm: Mapping[str, int] | None, prefix: str
) -> UnitPair:
    """Compare and rank one unit.

    :param hitm: memory samples of new by entry; None: nobody sampled
    :raises InputError: units beyond what kernels have
    """
    if _is_equal(base, new):
        # Two builds of one source share most units, and the globals alone take a second.
        change = _unchanged(base, new, line_bytes)
        ranking = Ranking(unit=base.name, alarms=(), regained=(), unknown_heat=(), quiet=())
    else:
        change = compare_units(base, new, line_bytes)
        ranking = rank_change(change, base, new, hitm=hitm)
    return UnitPair(units=(base, new), change=change, ranking=ranking, prefix=prefix)


def _is_equal(base: Unit, new: Unit) -> bool:
    # Nothing that could make a difference differs: not what is there, nor who has seen it.
    one, other = (
        (unit.kind, unit.size, unit.alignment, unit.groups, unit.sources, unit.entries)
        for unit in (base, new)
    )
    return one == other


def _unchanged(base: Unit, new: Unit, line_bytes: int) -> UnitChange:
    alignment = base.alignment
    return UnitChange(
        name=base.name,
        kind=base.kind,
        entries_base=len(base.entries),
        entries_new=len(new.entries),
        common=len(base.entries),
        unsized=tuple(sorted(entry.name for entry in base.entries if entry.size is None)),
        added=(),
        removed=(),
        renamed=(),
        resized=(),
        is_coverage_equal=True,
        lines=_nothing(line_bytes),
        line_pairs=_nothing(2 * line_bytes),
        causes=(),
        are_lines_certain=None if alignment is None else alignment % line_bytes == 0,
        noise={
            what: (base.noise.get(what, 0), new.noise.get(what, 0))
            for what in sorted(base.noise.keys() | new.noise.keys())
        },
        notes=tuple(dict.fromkeys((*base.notes, *new.notes))),
    )


def _nothing(line_bytes: int) -> CoTenancy:
    return CoTenancy(line_bytes=line_bytes, entries=(), separated=(), joined=(), slid_lines=0)
