# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw cache lines as rows of bytes: variables to scale, one side below the other.

::

    0x20200  A  [cpuusage][util_data][ … ][sd_llc_shared][id|size]
             B  [cpuusage][util_data][ … ][sd_llc_shared][cluster]
    ----------- 64 B boundary at 0x20240 --------------------------
    0x20240  A  [sd_llc]
             B  [share|id|size][sd_llc]

The same line of each side stands in one group, so what is above and below each other is on the
same bytes of it. On a narrow screen a line runs down the page, and its sides stand beside each
other.

`evidence/layout/_graphic.py` and `evidence/c2c/_graphic.py` say what is on the lines. The template,
style and script are `blocks/cachelines.*` of the templates.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from schedperf_reports.blocks import Block, Graphic, Spot, Tone
from schedperf_reports.words.rows import side_place
from schedperf_reports.words.units import format_share

OccupantKind = Literal["entry", "hole", "padding", "unnamed"]
RouteKind = Literal["move", "pair"]

# What overlaps, as the members of a union do, is stacked; more than so many would be unreadable.
MOST_LANES = 4
# What fits: letters beside each other on one byte of a line of 64, and lines of text in a row. Of
# less than LEAST_LETTERS beside each other nobody reads a name; what has fewer bytes, or
# shares them, has no room for a word, and below LEAST_TALL_BYTES none where a line runs down a
# narrow screen. No name of a kernel is as long as LONGEST_LABEL.
LEAST_WORD_BYTES, LEAST_TALL_BYTES = 3, 6
LONGEST_LABEL = 120
LETTERS_PER_BYTE, LABEL_ROWS, LEAST_LETTERS = 2.1, 2, 3

# All marks run straight across or down, so a style sheet draws them without any image. Heights are
# in rem and widths in per cent, so the drawing follows the screen and the size of the letters.
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


class Occupant(Struct, frozen=True, kw_only=True):
    """What has some bytes of one line.

    :param name: of the variable or field; "" of bytes that nobody has
    :param start: bytes from the line's first one; a bit field may begin within a byte
    :param size: bytes on this line; 0: it has none
    :param is_sized: False: its size is not known, and it is drawn up to what follows
    :param before: it began on an earlier line
    :param after: it goes on, on the next line
    :param word: what became of it: "moved"; "" where nothing did
    :param slid: by how many bytes it is elsewhere on the same line: "+16 B"; "" where it is not
    :param is_hot: it is the reason for the drawing
    :param facts: what is said of it when somebody asks, one sentence each
    :param reads: samples of loads; None where none were counted, as for ``writes``
    :param heat: part of the line's contended samples, 0 to 1
    :param lane: which of ``lanes`` it is in where several have the same bytes
    """

    name: str
    start: float
    size: float
    kind: OccupantKind = "entry"
    is_sized: bool = True
    before: bool = False
    after: bool = False
    word: str = ""
    slid: str = ""
    is_hot: bool = False
    facts: tuple[str, ...] = ()
    reads: int | None = None
    writes: int | None = None
    heat: float = 0.0
    lane: int = 0
    lanes: int = 1

    @property
    def has_room(self) -> bool:
        """Whether a word fits below its name; else its title alone says what became of it."""
        return self.size >= LEAST_WORD_BYTES and self.lanes == 1

    @property
    def is_tall(self) -> bool:
        """Whether a word fits beside its name on a narrow screen, where a line runs down."""
        return self.size >= LEAST_TALL_BYTES

    @property
    def share(self) -> str:
        """Its part of the line's contended samples: "97%"; "" where it has none."""
        return format_share(self.heat) if self.heat else ""

    @property
    def label(self) -> str:
        """As much of its name as fits, the end of a long path; "" where nothing fits."""
        letters = int(self.size * LETTERS_PER_BYTE)
        if letters < LEAST_LETTERS:
            return ""
        room = letters * (LABEL_ROWS if self.lanes == 1 else 1)
        path = self.name.split(".")
        if room < len(self.name) and len(path) > 1:
            # Ends of paths tell fields apart better than their beginnings.
            ends = [f"…{'.'.join(path[index:])}" for index in range(1, len(path))]
            return next((end for end in ends if len(end) <= room), ends[-1])
        return f"{'…' * self.before}{self.name[:LONGEST_LABEL]}{'…' * self.after}"


class LineRow(Struct, frozen=True, kw_only=True):
    """One line as one side has it.

    :param offset: of its first byte: "0x20240"; "" where the side has no such line
    :param note: what is said of it as a whole
    :param who: who touches which bytes, one line each; a drawing with marks has none
    """

    offset: str
    occupants: tuple[Occupant, ...] = ()
    note: str = ""
    who: tuple[str, ...] = ()

    @property
    def is_noted(self) -> bool:
        """Whether its note stands below it; of an empty line it stands in its place."""
        return bool(self.note and self.occupants)


class LineGroup(Struct, frozen=True, kw_only=True):
    """The same line of all sides.

    :param title: names the boundary in front of it, or the line
    :param rows: one a side
    :param skipped: what is left out in front of it: "3 lines"; "" where nothing is
    """

    title: str
    rows: tuple[LineRow, ...]
    skipped: str = ""


class Badge(Struct, frozen=True, kw_only=True):
    """The badge of one side: "base", and how it is called."""

    name: str
    label: str

    @property
    def place(self) -> int:
        """The number of its colour and shape."""
        return side_place(self.name)


class LinePair(Struct, frozen=True, kw_only=True):
    """Two names that belong together, or apart.

    :param words: for each side what they are there: "together", "separated"; "" where it lacks one
    :param tones: of these
    :param text: the same as one sentence
    """

    names: tuple[str, str]
    words: tuple[str, ...]
    tones: tuple[Tone, ...]
    text: str


class LineMove(Struct, frozen=True, kw_only=True):
    """Neighbours that went to another line together.

    :param name: of the first of them
    :param side: place of the side where they went
    :param text: who they are and how far they went
    """

    name: str
    side: int
    text: str


class Segment(NamedTuple):
    """A straight mark: where it begins, and how far it goes across and down; per cent and rem."""

    left: float
    top: float
    width: float
    height: float


class Route(Struct, frozen=True, kw_only=True):
    """One mark of the drawing, for wide and for narrow screens.

    :param side: whose it is
    :param label: what stands on it, at ``at``; "" where nothing does
    :param head: where its arrow ends: (per cent, rem, "down" or "up"); None for a bracket
    :param narrow_head: the same, on a narrow screen always to the right
    """

    kind: RouteKind
    side: int
    tone: Tone
    label: str
    at: tuple[float, float]
    wide: tuple[Segment, ...]
    narrow: tuple[Segment, ...]
    head: tuple[float, float, str] | None = None
    narrow_head: tuple[float, float] | None = None


class Arrangement(Struct, frozen=True, kw_only=True):
    """Heights of all parts, in rem, and the marks.

    :param titles: of what stands in front of each group, with its tracks
    :param rows: of each row with what is below it, by group and side
    :param left_out: moves that have no arrow
    """

    titles: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]
    routes: tuple[Route, ...]
    left_out: int


class CacheLines(Graphic, frozen=True, kw_only=True):
    """Cache lines, who is on them, and what moved.

    :param line_bytes: length of a line
    :param sides: base first
    :param text: the same as blocks of text
    :param has_counts: occupants say how often they are read and written
    :param drawn: the index of the group that shows each row of the section
    """

    line_bytes: int
    sides: tuple[Badge, ...]
    groups: tuple[LineGroup, ...]
    pairs: tuple[LinePair, ...] = ()
    moves: tuple[LineMove, ...] = ()
    text: tuple[Block, ...] = ()
    has_counts: bool = False
    drawn: Mapping[str, int] = field(default_factory=dict)

    def spots(self) -> Mapping[str, Spot]:
        """Return the lines on which the rows are."""
        return {row: Spot(part=group) for row, group in self.drawn.items()}

    def shows_change(self) -> bool:
        """Return True: only lines on which something changed, or the hottest, are drawn."""
        return True

    def plain(self) -> tuple[Block, ...]:
        """Return the drawing as text."""
        return self.text

    def sheet(self) -> Arrangement:
        """Return where its rows and marks stand."""
        return lay_out(self)

    def kinds(self) -> set[str]:
        """Return what the key has to explain."""
        occupants = [
            occupant for group in self.groups for row in group.rows for occupant in row.occupants
        ]
        said: set[str] = {occupant.kind for occupant in occupants if occupant.kind != "entry"}
        said |= {occupant.word for occupant in occupants if occupant.word}
        said |= {"slid" for occupant in occupants if occupant.slid}
        said |= {"unsized" for occupant in occupants if not occupant.is_sized}
        return said | {"hot" for occupant in occupants if occupant.is_hot}


def stack(occupants: Iterable[Occupant]) -> tuple[tuple[Occupant, ...], int]:
    """Put occupants that have common bytes into lanes.

    :return: those that are drawn, in order of their bytes, and how many find no lane
    """
    given = sorted(occupants, key=lambda entry: (entry.start, -entry.size))
    # What has no bytes overlaps nothing.
    drawn = [occupant for occupant in given if not occupant.size]
    crowd: list[Occupant] = []
    reach = 0.0
    left = 0
    for occupant in given:
        if not occupant.size:
            continue
        if crowd and occupant.start >= reach:
            drawn += _spread(crowd)
            crowd = []
        ends = _ends(crowd)
        lane = next((at for at, end in enumerate(ends) if end <= occupant.start), len(ends))
        if lane >= MOST_LANES:
            left += 1
            continue
        crowd.append(replace(occupant, lane=lane))
        reach = max(reach, occupant.start + occupant.size)
    drawn += _spread(crowd)
    return tuple(sorted(drawn, key=lambda entry: (entry.start, entry.lane))), left


def _ends(crowd: Sequence[Occupant]) -> list[float]:
    # Where each lane is free again.
    count = 1 + max((occupant.lane for occupant in crowd), default=-1)
    return [
        max(occupant.start + occupant.size for occupant in crowd if occupant.lane == lane)
        for lane in range(count)
    ]


def _spread(crowd: Sequence[Occupant]) -> list[Occupant]:
    lanes = len(_ends(crowd))
    return [replace(occupant, lanes=lanes) for occupant in crowd]


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
    kind: RouteKind
    start: _Spot
    end: _Spot
    tone: Tone
    label: str


def lay_out(drawing: CacheLines) -> Arrangement:
    """Return where everything is."""
    spots = _spots(drawing)
    moves, left_out = _moves(drawing, spots)
    pairs = list(_pairs(drawing, spots))
    across = [link for link in (*moves, *pairs) if link.start.group != link.end.group]
    within = [link for link in pairs if link.start.group == link.end.group]
    heights = _Heights(drawing, across, within)
    routes = [heights.across(link, number) for number, link in enumerate(across)]
    routes += [heights.within(link, number) for number, link in enumerate(within)]
    return Arrangement(
        titles=heights.titles, rows=heights.rows, routes=tuple(routes), left_out=left_out
    )


def _spots(drawing: CacheLines) -> dict[tuple[int, str], list[_Spot]]:
    spots: dict[tuple[int, str], list[_Spot]] = {}
    for number, group in enumerate(drawing.groups):
        for side, row in enumerate(group.rows):
            for occupant in row.occupants:
                if occupant.kind == "entry":
                    start, size = (
                        occupant.start / drawing.line_bytes,
                        occupant.size / drawing.line_bytes,
                    )
                    spot = _Spot(number, side, start, size)
                    spots.setdefault((side, occupant.name), []).append(spot)
    return spots


_Spots = dict[tuple[int, str], list[_Spot]]


def _moves(drawing: CacheLines, spots: _Spots) -> tuple[list[_Link], int]:
    links = [
        _Link("move", old[0], new[0], "plain", move.text)
        for move in drawing.moves
        if (old := spots.get((0, move.name))) and (new := spots.get((move.side, move.name)))
        if old[0].group != new[0].group
    ]
    return links[:MOST_MOVES], len(links[MOST_MOVES:])


def _pairs(drawing: CacheLines, spots: _Spots) -> Iterator[_Link]:
    for number, pair in enumerate(drawing.pairs, 1):
        for side, word in enumerate(pair.words):
            spots_of_pair = [spots.get((side, name), []) for name in pair.names]
            if word and all(spots_of_pair):
                # Of those that reach over several lines, where they come closest.
                left, right = min(
                    ((left, right) for left in spots_of_pair[0] for right in spots_of_pair[1]),
                    key=lambda both: abs(both[0].group - both[1].group),
                )
                part = PARTS[(number - 1) % len(PARTS)]
                first, last = (spot._replace(part=part) for spot in sorted((left, right)))
                yield _Link("pair", first, last, pair.tones[side], f"{number} {word}")


class _Heights:
    # All heights of one drawing; each mark that runs across has a track of its own.

    def __init__(
        self, drawing: CacheLines, across: Sequence[_Link], within: Sequence[_Link]
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


def _head(group: LineGroup) -> float:
    return TITLE + (SKIPPED if group.skipped else 0.0)


def _track(link: _Link) -> int:
    # In front of the line where a mark goes down to, behind the one where it goes up to.
    is_down = link.end.group > link.start.group
    return link.end.group if is_down else link.end.group + 1


def _numbered(places: Sequence[object]) -> list[int]:
    # The how manieth of its place each one is.
    seen: Counter[object] = Counter()
    numbers = []
    for value in places:
        numbers.append(seen[value])
        seen[value] += 1
    return numbers


def _down(left: float, top: float, bottom: float) -> Segment:
    return Segment(left, min(top, bottom), 0.0, abs(bottom - top))


def _along(left: float, right: float, top: float) -> Segment:
    return Segment(min(left, right), top, abs(right - left), 0.0)
