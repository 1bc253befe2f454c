# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw cache lines as rows of bytes: variables to scale, one side below the other.

::

    0x20200  A  [cpuusage][util_data][ … ][sd_llc_shared][id|size]
             B  [cpuusage][util_data][ … ][sd_llc_shared][cluster]
    ----------- 64 B boundary at 0x20240 --------------------------
    0x20240  A  [sd_llc]
             B  [share|id|size][sd_llc]

Corresponding lines of the sides form a group, so that equal bytes are aligned vertically. On a
narrow screen a line runs down the page, with its sides next to each other.

`evidence/layout/_graphic.py` and `evidence/c2c/_graphic.py` determine what is on the lines. The
template, style and script are `blocks/cachelines.*` of the templates.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from schedperf_reports.blocks import Block, Graphic, Spot, Tone
from schedperf_reports.words.quantities import format_share
from schedperf_reports.words.rows import side_place

OccupantKind = Literal["entry", "hole", "padding", "unnamed"]
RouteKind = Literal["move", "pair"]

# Overlapping variables, such as the members of a union, are stacked; more than this many would be
# unreadable.
MOST_LANES = 4
# Sizes for labels: letters side by side on one byte of a 64-byte line, and text lines in a row. A
# name with fewer than LEAST_LETTERS visible letters is unreadable. Variables with fewer bytes, or
# with shared ones, have no room for a word, nor have those below LEAST_TALL_BYTES on a narrow
# screen. No kernel name is as long as LONGEST_LABEL.
LEAST_WORD_BYTES, LEAST_TALL_BYTES = 3, 6
LONGEST_LABEL = 120
LETTERS_PER_BYTE, LABEL_ROWS, LEAST_LETTERS = 2.1, 2, 3

# All marks run straight across or down, so a style sheet draws them without images. Heights are in
# rem and widths in percent, so the drawing follows the screen and the font size. Heights in rem: a
# row has room for two lines of a name and a word below.
TITLE, SKIPPED, ROW, NOTE, TRACK, BELOW = 1.35, 1.3, 2.7, 1.1, 1.1, 0.25
# For a line that runs down a narrow screen: height of its head, and of one byte; four bytes hold a
# name.
HEAD, BYTE = 1.4, 0.36
# How far a bracket extends below its row, in rem, so that its label does not touch the row.
BRACKET = 0.6
# Percent of a narrow drawing's width: its margins, for brackets, and the gap between sides.
MARGIN, GAP = 4.0, 9.0
# Distance of marks in the gap, in percent.
STEP = 1.6
# Where marks of pairs meet a name, as fractions of its bytes; an arrow is in the middle.
PARTS = (0.3, 0.7, 0.15, 0.85)
# A reader cannot follow more arrows than this.
MOST_MOVES = 6


class Occupant(Struct, frozen=True, kw_only=True):
    """The variable or field at some bytes of one line.

    :param name: name of the variable or field; "" for other bytes
    :param kind: "entry" for a variable or field; "hole" and "padding" of a struct; "unnamed" for
        bytes of which no variable is known
    :param start: offset from the start of the line in bytes; a bit field may begin within a byte
    :param size: number of bytes on this line; may be 0
    :param is_sized: whether its size is known; if not, it is drawn up to the next variable
    :param before: whether it begins on an earlier line
    :param after: whether it continues on the next line
    :param word: how it changed: "moved"; "" if unchanged
    :param slid: by how many bytes it moved on the same line: "+16 B"; "" if it did not
    :param is_hot: whether it is the reason for the drawing
    :param facts: details shown on request, one sentence each
    :param reads: number of sampled loads; None if loads were not counted
    :param writes: number of sampled stores; None if stores were not counted
    :param heat: share of the line's contended samples, 0 to 1
    :param lane: index of its lane among ``lanes`` if several variables have the same bytes
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
        """Return whether ``word`` fits below its name; otherwise only its tooltip has it."""
        return self.size >= LEAST_WORD_BYTES and self.lanes == 1

    @property
    def is_tall(self) -> bool:
        """Return whether ``word`` fits beside its name on a narrow screen, where lines run down."""
        return self.size >= LEAST_TALL_BYTES

    @property
    def share(self) -> str:
        """Return its share of the line's contended samples: "97%"; "" if it has none."""
        return format_share(self.heat) if self.heat else ""

    @property
    def label(self) -> str:
        """Return its name for the drawing: of a path that is too long, the longest end that fits.

        Return "" if there is room for fewer than ``LEAST_LETTERS`` letters. The style sheet cuts a
        name that is still too long.
        """
        letters = int(self.size * LETTERS_PER_BYTE)
        if letters < LEAST_LETTERS:
            return ""
        room = letters * (LABEL_ROWS if self.lanes == 1 else 1)
        path = self.name.split(".")
        if room < len(self.name) and len(path) > 1:
            # The ends of paths distinguish fields better than their beginnings.
            ends = [f"…{'.'.join(path[index:])}" for index in range(1, len(path))]
            return next((end for end in ends if len(end) <= room), ends[-1])
        return f"{'…' * self.before}{self.name[:LONGEST_LABEL]}{'…' * self.after}"


class LineRow(Struct, frozen=True, kw_only=True):
    """One line on one side.

    :param offset: offset of its first byte: "0x20240"; "" if the side has no such line
    :param note: note on the whole line; "" for none
    :param who: for each byte range, who accesses it, one text line each; empty in a drawing of a
        layout
    """

    offset: str
    occupants: tuple[Occupant, ...] = ()
    note: str = ""
    who: tuple[str, ...] = ()

    @property
    def is_noted(self) -> bool:
        """Return whether its note is below it; an empty line shows the note in its place."""
        return bool(self.note and self.occupants)


class LineGroup(Struct, frozen=True, kw_only=True):
    """Corresponding lines of all sides.

    :param title: name of the boundary before it, or of the line
    :param rows: one row per side
    :param skipped: text about lines that are left out before it: "3 lines not drawn"; "" for none
    """

    title: str
    rows: tuple[LineRow, ...]
    skipped: str = ""


class Badge(Struct, frozen=True, kw_only=True):
    """The badge of one side: its role, such as "base", and its label."""

    name: str
    label: str

    @property
    def place(self) -> int:
        """Return the index of the side's colour and shape."""
        return side_place(self.name)


class LinePair(Struct, frozen=True, kw_only=True):
    """Two variables, marked as to whether they share a line.

    :param words: their state on each side: "together" or "apart" on base; "kept together", "kept
        apart", "joined" or "separated" on other sides; "" if the side lacks one of them
    :param tones: tone of each state
    :param text: the same as one sentence
    """

    names: tuple[str, str]
    words: tuple[str, ...]
    tones: tuple[Tone, ...]
    text: str


class LineMove(Struct, frozen=True, kw_only=True):
    """Neighbouring variables that moved to another line together.

    :param name: name of the first of them
    :param side: index of the side on which they moved
    :param text: their names, and how far they moved
    """

    name: str
    side: int
    text: str


class Segment(NamedTuple):
    """A straight mark: ``left`` and ``width`` in percent, ``top`` and ``height`` in rem."""

    left: float
    top: float
    width: float
    height: float


class Route(Struct, frozen=True, kw_only=True):
    """One mark of the drawing, for wide and for narrow screens.

    :param side: index of the side that it belongs to
    :param label: label of the mark
    :param at: position of the label: (percent, rem)
    :param wide: its parts on a wide screen
    :param narrow: its parts on a narrow screen
    :param head: end of the arrow of a move: (percent, rem, "down" or "up"); None for a pair
    :param narrow_head: end of the arrow of a move on a narrow screen, where it points to the right:
        (percent, rem); None for a pair
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

    :param titles: height of the title of each group, with its tracks
    :param rows: height of each row with its notes, by group and side
    :param left_out: number of moves without an arrow
    """

    titles: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]
    routes: tuple[Route, ...]
    left_out: int


class CacheLines(Graphic, frozen=True, kw_only=True):
    """Cache lines, the variables on them, and the moves.

    :param line_bytes: length of a line
    :param sides: base first
    :param text: text blocks with the same content; empty if the section has such blocks
    :param has_counts: whether read and write counts are shown
    :param drawn: by row of the section, the index of the group that shows it
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
        """Return, by row of the section, the group of lines that shows it."""
        return {row: Spot(part=group) for row, group in self.drawn.items()}

    def shows_change(self) -> bool:
        """Return True: a report of a comparison draws only changed lines, or the hottest ones."""
        return True

    def plain(self) -> tuple[Block, ...]:
        """Return the drawing as text."""
        return self.text

    def sheet(self) -> Arrangement:
        """Return the positions of rows and marks."""
        return lay_out(self)

    def kinds(self) -> set[str]:
        """Return the kinds of marks that the key must explain."""
        occupants = [
            occupant for group in self.groups for row in group.rows for occupant in row.occupants
        ]
        said: set[str] = {occupant.kind for occupant in occupants if occupant.kind != "entry"}
        said |= {occupant.word for occupant in occupants if occupant.word}
        said |= {"slid" for occupant in occupants if occupant.slid}
        said |= {"unsized" for occupant in occupants if not occupant.is_sized}
        return said | {"hot" for occupant in occupants if occupant.is_hot}


def stack(occupants: Iterable[Occupant]) -> tuple[tuple[Occupant, ...], int]:
    """Put occupants with overlapping bytes into different lanes.

    :return: the drawn occupants in order of their bytes, and the number of those without a lane
    """
    given = sorted(occupants, key=lambda entry: (entry.start, -entry.size))
    # An occupant without bytes overlaps nothing.
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
    # The byte at which each lane becomes free.
    count = 1 + max((occupant.lane for occupant in crowd), default=-1)
    return [
        max(occupant.start + occupant.size for occupant in crowd if occupant.lane == lane)
        for lane in range(count)
    ]


def _spread(crowd: Sequence[Occupant]) -> list[Occupant]:
    lanes = len(_ends(crowd))
    return [replace(occupant, lanes=lanes) for occupant in crowd]


class _Spot(NamedTuple):
    # The position of a name: its group, its side, and its bytes as fractions of the line.
    group: int
    side: int
    start: float
    size: float
    # The fraction of its bytes at which a mark meets it, so that several marks stay apart.
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
    """Return the heights of all rows, and the positions of the marks of moves and pairs."""
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
                # For names that span several lines, where they are closest.
                left, right = min(
                    ((left, right) for left in spots_of_pair[0] for right in spots_of_pair[1]),
                    key=lambda both: abs(both[0].group - both[1].group),
                )
                part = PARTS[(number - 1) % len(PARTS)]
                first, last = (spot._replace(part=part) for spot in sorted((left, right)))
                yield _Link("pair", first, last, pair.tones[side], f"{number} {word}")


class _Heights:
    # All heights of one drawing; each mark that runs across has its own track.

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
        """Return a mark from line to line: down to its track, along the track, and down again."""
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
        """Return the bracket that joins two entries of one cache line.

        It is below the row; in a narrow drawing, beside the column.

        :param number: index of the link among those within a line
        """
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
        # Beside the column: to the left of base, to the right of any other side.
        start, end = self._tall(link.start), self._tall(link.end)
        left, right = self._column(link.start.side)
        edge, reach = (left, -1.0) if link.start.side == 0 else (right, 1.0)
        away = edge + reach * (1.2 + 1.1 * (number % 3))
        return _along(edge, away, start), _down(away, start, end), _along(edge, away, end)


def column_width(sides: int) -> float:
    """Return the width of one side on a narrow screen, in percent."""
    return (100.0 - 2.0 * MARGIN - GAP * (sides - 1)) / sides


def _head(group: LineGroup) -> float:
    return TITLE + (SKIPPED if group.skipped else 0.0)


def _track(link: _Link) -> int:
    # The track is before the target line if the mark goes down, after it if the mark goes up.
    is_down = link.end.group > link.start.group
    return link.end.group if is_down else link.end.group + 1


def _numbered(places: Sequence[object]) -> list[int]:
    # The index of each mark at its position.
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
