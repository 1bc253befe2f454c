"""Where the rows of a drawing of cache lines stand, and how its marks run between them.

All marks run straight across or down, so a style sheet draws them without any image. Heights are in
rem and widths in per cent, so the drawing follows the screen and the size of the letters.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple

from schedperf_reports.blocks import Tone

if TYPE_CHECKING:
    # What it lays out imports this module.
    from schedperf_reports.graphics.cache_lines import CacheLines, LineGroup

# Heights in rem. A row has room for two lines of a name and a word below.
TITLE, SKIPPED, ROW, NOTE, TRACK, BELOW = 1.35, 1.3, 2.7, 1.1, 1.1, 0.25
# Of a line that runs down a narrow screen: its head, and one byte, four of which hold a name.
HEAD, BYTE = 1.4, 0.36
# How far a bracket reaches below its row, in rem: its label stays clear of the row.
BRACKET = 0.6
# Per cent of a narrow drawing's width: its margins, for brackets, and the gap between sides.
MARGIN, GAP = 4.0, 9.0
# Marks in the gap stand so far apart, in per cent.
STEP = 1.6
# Where pairs meet a name, in parts of its bytes; an arrow has the middle.
PARTS = (0.3, 0.7, 0.15, 0.85)
# More arrows than somebody follows with the eyes.
MOST_MOVES = 6

Kind = Literal["move", "pair"]


class Segment(NamedTuple):
    """A straight mark: where it begins, and how far it goes across and down; per cent and rem."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """One mark of the drawing, for wide and for narrow screens.

    :param side: whose it is
    :param label: what stands on it, at ``at``; "" where nothing does
    :param head: where its arrow ends: (per cent, rem, "down" or "up"); None for a bracket
    :param narrow_head: the same, on a narrow screen always to the right
    """

    kind: Kind
    side: int
    tone: Tone
    label: str
    at: tuple[float, float]
    wide: tuple[Segment, ...]
    narrow: tuple[Segment, ...]
    head: tuple[float, float, str] | None = None
    narrow_head: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """Heights of all parts, in rem, and the marks.

    :param titles: of what stands in front of each group, with its tracks
    :param rows: of each row with what is below it, by group and side
    :param left_out: moves that have no arrow
    """

    titles: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]
    routes: tuple[Route, ...]
    left_out: int


class _Spot(NamedTuple):
    # Where a name is: its group, its side, and its bytes in parts of the line.
    group: int
    side: int
    start: float
    size: float
    # At which part of its bytes a mark meets it, so that several marks keep apart.
    part: float = 0.5

    @property
    def at(self) -> float:
        return self.start + self.part * self.size


class _Link(NamedTuple):
    kind: Kind
    start: _Spot
    end: _Spot
    tone: Tone
    label: str


def lay_out(drawing: "CacheLines") -> Sheet:
    """Return where everything is."""
    spots = _spots(drawing)
    moves, left_out = _moves(drawing, spots)
    pairs = list(_pairs(drawing, spots))
    across = [link for link in (*moves, *pairs) if link.start.group != link.end.group]
    within = [link for link in pairs if link.start.group == link.end.group]
    heights = _Heights(drawing, across, within)
    routes = [heights.across(link, number) for number, link in enumerate(across)]
    routes += [heights.within(link, number) for number, link in enumerate(within)]
    return Sheet(titles=heights.titles, rows=heights.rows, routes=tuple(routes), left_out=left_out)


def _spots(drawing: "CacheLines") -> dict[tuple[int, str], list[_Spot]]:
    spots: dict[tuple[int, str], list[_Spot]] = {}
    for number, group in enumerate(drawing.groups):
        for side, row in enumerate(group.rows):
            for one in row.occupants:
                if one.kind == "entry":
                    start, size = one.start / drawing.line_bytes, one.size / drawing.line_bytes
                    spot = _Spot(number, side, start, size)
                    spots.setdefault((side, one.name), []).append(spot)
    return spots


_Spots = dict[tuple[int, str], list[_Spot]]


def _moves(drawing: "CacheLines", spots: _Spots) -> tuple[list[_Link], int]:
    links = [
        _Link("move", old[0], new[0], "plain", move.text)
        for move in drawing.moves
        if (old := spots.get((0, move.name))) and (new := spots.get((move.side, move.name)))
        if old[0].group != new[0].group
    ]
    return links[:MOST_MOVES], len(links[MOST_MOVES:])


def _pairs(drawing: "CacheLines", spots: _Spots) -> Iterator[_Link]:
    for number, pair in enumerate(drawing.pairs, 1):
        for side, word in enumerate(pair.words):
            found = [spots.get((side, name), []) for name in pair.names]
            if word and all(found):
                # Of those that reach over several lines, where they come closest.
                one, other = min(
                    ((one, other) for one in found[0] for other in found[1]),
                    key=lambda both: abs(both[0].group - both[1].group),
                )
                part = PARTS[(number - 1) % len(PARTS)]
                first, last = (spot._replace(part=part) for spot in sorted((one, other)))
                yield _Link("pair", first, last, pair.tones[side], f"{number} {word}")


class _Heights:
    # All heights of one drawing; each mark that runs across has a track of its own.

    def __init__(
        self, drawing: "CacheLines", across: Sequence[_Link], within: Sequence[_Link]
    ) -> None:
        self._sides = len(drawing.sides)
        self._line_bytes = drawing.line_bytes
        self._tracks = _numbered([_track(link) for link in across])
        self._levels = _numbered([(link.start.group, link.start.side) for link in within])
        tracks = Counter(map(_track, across))
        levels = Counter((link.start.group, link.start.side) for link in within)
        self.titles = tuple(
            _head(group) + TRACK * tracks[number] for number, group in enumerate(drawing.groups)
        )
        self.rows = tuple(
            tuple(
                ROW + BELOW + TRACK * levels[number, side] + (NOTE if row.is_noted else 0.0)
                for side, row in enumerate(group.rows)
            )
            for number, group in enumerate(drawing.groups)
        )
        wholes = [title + sum(rows) for title, rows in zip(self.titles, self.rows, strict=True)]
        self._tops = [0.0, *accumulate(wholes)]
        tall = [_head(group) + HEAD + BYTE * self._line_bytes for group in drawing.groups]
        self._tall_tops = [0.0, *accumulate(tall)]
        self._heads = [_head(group) for group in drawing.groups]

    def _row_top(self, spot: _Spot) -> float:
        above = sum(self.rows[spot.group][: spot.side])
        return self._tops[spot.group] + self.titles[spot.group] + above

    def across(self, link: _Link, number: int) -> Route:
        """Return a mark from line to line: down to its track, along it, and down again."""
        start, end = link.start, link.end
        is_down = end.group > start.group
        strip = _track(link)
        track = self._tops[strip] + self._heads[strip] + TRACK * (self._tracks[number] + 0.5)
        leave = self._row_top(start) + (ROW if is_down else 0.0)
        arrive = self._row_top(end) + (0.0 if is_down else ROW)
        left, right = 100.0 * start.at, 100.0 * end.at
        wide = (_down(left, leave, track), _along(left, right, track), _down(right, track, arrive))
        narrow, narrow_head = self._narrow_across(link, number)
        is_move = link.kind == "move"
        return Route(
            kind=link.kind,
            side=end.side,
            tone=link.tone,
            label=link.label,
            at=((left + right) / 2.0, track),
            wide=wide,
            narrow=narrow,
            head=(right, arrive, "down" if is_down else "up") if is_move else None,
            narrow_head=narrow_head if is_move else None,
        )

    def within(self, link: _Link, number: int) -> Route:
        """Return a bracket below one row."""
        start, end = link.start, link.end
        top = self._row_top(start) + ROW
        middle = top + BRACKET + TRACK * self._levels[number]
        left, right = sorted((100.0 * start.at, 100.0 * end.at))
        return Route(
            kind=link.kind,
            side=start.side,
            tone=link.tone,
            label=link.label,
            at=((left + right) / 2.0, middle),
            wide=(_down(left, top, middle), _along(left, right, middle), _down(right, top, middle)),
            narrow=self._bracket(link, number),
        )

    def _tall(self, spot: _Spot) -> float:
        top = self._tall_tops[spot.group] + self._heads[spot.group] + HEAD
        return top + BYTE * self._line_bytes * spot.at

    def _column(self, side: int) -> tuple[float, float]:
        width = column_width(self._sides)
        left = MARGIN + side * (width + GAP)
        return left, left + width

    def _narrow_across(
        self, link: _Link, number: int
    ) -> tuple[tuple[Segment, ...], tuple[float, float]]:
        if link.kind == "pair":
            return self._bracket(link, number), (0.0, 0.0)
        start, end = self._tall(link.start), self._tall(link.end)
        right, left = self._column(0)[1], self._column(link.end.side)[0]
        middle = left - GAP / 2.0 + STEP * (number % 3 - 1)
        across = (_along(right, middle, start), _down(middle, start, end))
        return (*across, _along(middle, left, end)), (left, end)

    def _bracket(self, link: _Link, number: int) -> tuple[Segment, ...]:
        # Beside the column: on the left of base, on the right of any other.
        start, end = self._tall(link.start), self._tall(link.end)
        left, right = self._column(link.start.side)
        edge, reach = (left, -1.0) if link.start.side == 0 else (right, 1.0)
        away = edge + reach * (1.2 + 1.1 * (number % 3))
        return _along(edge, away, start), _down(away, start, end), _along(edge, away, end)


def column_width(sides: int) -> float:
    """Return how wide one side is on a narrow screen, in per cent."""
    return (100.0 - 2.0 * MARGIN - GAP * (sides - 1)) / sides


def _head(group: "LineGroup") -> float:
    return TITLE + (SKIPPED if group.skipped else 0.0)


def _track(link: _Link) -> int:
    # In front of the line where a mark goes down to, behind the one where it goes up to.
    is_down = link.end.group > link.start.group
    return link.end.group if is_down else link.end.group + 1


def _numbered(places: Sequence[object]) -> list[int]:
    # The how manieth of its place each one is.
    seen: Counter[object] = Counter()
    numbers = []
    for place in places:
        numbers.append(seen[place])
        seen[place] += 1
    return numbers


def _down(left: float, top: float, bottom: float) -> Segment:
    return Segment(left, min(top, bottom), 0.0, abs(bottom - top))


def _along(left: float, right: float, top: float) -> Segment:
    return Segment(min(left, right), top, abs(right - left), 0.0)
