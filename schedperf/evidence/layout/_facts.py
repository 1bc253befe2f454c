"""One change of a unit with both of its sides and the table: what the rules of alarms look at."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from schedperf.evidence.layout._packing import Block, fewest_lines
from schedperf.evidence.layout.changes import UnitChange
from schedperf.evidence.layout.cotenancy import Span, spans_of
from schedperf.evidence.layout.heat import HeatTable, Together, Use
from schedperf.evidence.layout.model import Unit
from schedperf.evidence.layout.record import Pair

# Memory samples of one entry, below which nothing is concluded: the error of a count of 10 is
# already a third of it (Poisson, 1/sqrt(10)).
FEWEST_HITM = 10
# Bytes that a variable of unknown size is taken to have where a set's fewest lines are counted: a
# pointer's.
USUAL_BYTES = 8


class Facts:
    """One change with both units and the table; every name is base's where base has it.

    :ivar lines: of base and of new: the lines of every entry, by name
    """

    def __init__(
        self,
        change: UnitChange,
        base: Unit,
        new: Unit,
        table: HeatTable,
        hitm: Mapping[str, int] | None,
    ) -> None:
        self.change, self.table = change, table
        self.units = (base, new)
        self.line_bytes = change.lines.line_bytes
        self._called = {rename.new_name: rename.base_name for rename in change.renamed}
        self.spans = (self._spans(base, {}), self._spans(new, self._called))
        self.lines = tuple(
            {name: self._lines(span) for name, span in spans.items()} for spans in self.spans
        )
        self._hitm = None
        if hitm is not None:
            self._hitm = {self._called.get(name, name): count for name, count in hitm.items()}
        self._uses: dict[str, Use | None] = {}

    def _spans(self, unit: Unit, called: Mapping[str, str]) -> dict[str, Span]:
        entries = sorted(unit.entries, key=lambda entry: entry.offset)
        spans = spans_of(entries, unit.kind, unit.size)
        return {called.get(name, name): span for name, span in spans.items()}

    def _lines(self, span: Span) -> frozenset[int]:
        first, last = span.lines(self.line_bytes)
        # Lines between the first and the last are its own, so the two are all that can be shared.
        return frozenset((first, last))

    def use(self, name: str) -> Use | None:
        """Return what the table knows of an entry."""
        if name not in self._uses:
            self._uses[name] = self.table.find(self.change.name, name)
        return self._uses[name]

    def samples(self, names: tuple[str, ...]) -> int | None:
        """Return how many samples hit entries that another CPU had modified; None: not sampled."""
        if self._hitm is None:
            return None
        return sum(self._hitm.get(name, 0) for name in names)

    def are_sampled(self, names: tuple[str, ...]) -> bool:
        """Whether samples say enough of these entries to count more than the table."""
        return (self.samples(names) or 0) >= FEWEST_HITM

    def contended(self) -> tuple[str, ...]:
        """Return entries that samples say are contended in new, worst first."""
        counts = self._hitm or {}
        enough = [name for name, count in counts.items() if count >= FEWEST_HITM]
        return tuple(sorted(enough, key=lambda name: (-counts[name], name)))

    def boundary(self, pair: Pair) -> int:
        """Return where the line of the later one of a pair begins in new."""
        return max(min(self.lines[1][name]) for name in pair) * self.line_bytes

    def joined(self) -> Iterator[Pair]:
        """Yield pairs on one line in new and not in base, with those of an added entry.

        Two that came together had no line to be joined on before.
        """
        yield from self.change.lines.joined
        tenants: dict[int, list[str]] = defaultdict(list)
        for name, lines in self.lines[1].items():
            for line in lines:
                tenants[line].append(name)
        added, seen = {entry.name for entry in self.change.added}, set[frozenset[str]]()
        for name in sorted(added & self.lines[1].keys()):
            for line in sorted(self.lines[1][name]):
                for other in tenants[line]:
                    pair = frozenset((name, other))
                    if other not in added and pair not in seen:
                        seen.add(pair)
                        yield other, name

    def members(self, group: Together, side: int) -> tuple[str, ...]:
        """Return which entries of a side are in a measured set, by offset."""
        if group.unit != self.change.name:
            return ()
        names = []
        for name in self.spans[side]:
            use = self.use(name)
            if use and use.unit == group.unit and use.name in group.names:
                names.append(name)
        return tuple(sorted(names, key=lambda name: (self.spans[side][name].start, name)))

    def keeps_offset(self, name: str) -> bool:
        """Is an entry where it was?"""
        base, new = (spans.get(name) for spans in self.spans)
        return base is not None and new is not None and base.start == new.start

    def lines_of(self, names: tuple[str, ...], side: int) -> int:
        """Return on how many lines entries of a side are."""
        lines = set[int]()
        for name in names:
            first, last = self.spans[side][name].lines(self.line_bytes)
            lines.update(range(first, last + 1))
        return len(lines)

    def fewest(self, names: tuple[str, ...], side: int) -> int:
        """Return how few lines entries of a side could be on; an unknown size is a pointer's."""
        blocks, taken = [], set[int]()
        for name in names:
            span = self.spans[side][name]
            # Fields of a union are the same bytes.
            if span.start not in taken:
                taken.add(span.start)
                size = max(span.end - span.start, 1) if span.is_sized else USUAL_BYTES
                alignment = min(size & -size, span.start & -span.start or size & -size, 8)
                blocks.append(Block(name=name, size=size, alignment=alignment))
        return fewest_lines(blocks, self.line_bytes).lines

    def regained(self) -> Iterator[tuple[Together, tuple[str, ...]]]:
        """Yield the measured sets whose members are on fewer lines in new than in base."""
        for group in self.table.together:
            both = tuple(name for name in self.members(group, 1) if name in self.spans[0])
            if len(both) > 1 and self.lines_of(both, 1) < self.lines_of(both, 0):
                yield group, both
