"""Cache lines as rows of bytes, who is on them drawn to scale, and each side below the other.

::

    0x20200  A  [cpuusage][util_data][ … ][sd_llc_shared][id|size]
             B  [cpuusage][util_data][ … ][sd_llc_shared][cluster]
    ----------- 64 B boundary at 0x20240 --------------------------
    0x20240  A  [sd_llc]
             B  [share|id|size][sd_llc]

The same line of each side stands in one group, so what is above and below each other is on the
same bytes of it. On a narrow screen a line runs down the page, and its sides stand beside each
other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from schedperf_reports.blocks import Block, Graphic, Tone
from schedperf_reports.graphics._line_routes import Sheet, lay_out
from schedperf_reports.words.rows import side_letter, side_place
from schedperf_reports.words.units import format_share

OccupantKind = Literal["entry", "hole", "padding", "unnamed"]

# What overlaps, as the members of a union do, is stacked; more than so many would be unreadable.
MOST_LANES = 4
# What fits: letters beside each other on one byte of a line of 64, and lines of text in a row. Of
# less than LEAST_LETTERS beside each other nobody reads a name; what has fewer bytes, or
# shares them, has no room for a word, and below LEAST_TALL_BYTES none where a line runs down a
# narrow screen. No name of a kernel is as long as LONGEST_LABEL.
LEAST_WORD_BYTES, LEAST_TALL_BYTES = 3, 6
LONGEST_LABEL = 120
LETTERS_PER_BYTE, LABEL_ROWS, LEAST_LETTERS = 2.1, 2, 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Occupant:
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
        """Its part of the line's contended samples: "97 %"; "" where it has none."""
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
            ends = [f"…{'.'.join(path[place:])}" for place in range(1, len(path))]
            return next((end for end in ends if len(end) <= room), ends[-1])
        return f"{'…' * self.before}{self.name[:LONGEST_LABEL]}{'…' * self.after}"


@dataclass(frozen=True, kw_only=True, slots=True)
class LineRow:
    """One line as one side has it.

    :param place: where it begins: "0x20240"; "" where the side has no such line
    :param note: what is said of it as a whole
    :param who: who touches which bytes, one line each; a drawing with marks has none
    """

    place: str
    occupants: tuple[Occupant, ...] = ()
    note: str = ""
    who: tuple[str, ...] = ()

    @property
    def is_noted(self) -> bool:
        """Whether its note stands below it; of an empty line it stands in its place."""
        return bool(self.note and self.occupants)


@dataclass(frozen=True, kw_only=True, slots=True)
class LineGroup:
    """The same line of all sides.

    :param title: names the boundary in front of it, or the line
    :param rows: one a side
    :param skipped: what is left out in front of it: "3 lines"; "" where nothing is
    """

    title: str
    rows: tuple[LineRow, ...]
    skipped: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LineSide:
    """One side: "base" and how it is called."""

    name: str
    label: str

    @property
    def letter(self) -> str:
        """The letter of its badge."""
        return side_letter(self.name)

    @property
    def place(self) -> int:
        """The number of its colour and shape."""
        return side_place(self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class LinePair:
    """Two names that belong together, or apart.

    :param words: for each side what they are there: "together", "separated"; "" where it lacks one
    :param tones: of these
    :param text: the same as one sentence
    """

    names: tuple[str, str]
    words: tuple[str, ...]
    tones: tuple[Tone, ...]
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LineMove:
    """Neighbours that went to another line together.

    :param name: of the first of them
    :param side: place of the side where they went
    :param text: who they are and how far they went
    """

    name: str
    side: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheLines(Graphic):
    """Cache lines, who is on them, and what moved.

    :param line_bytes: length of a line
    :param sides: base first
    :param text: the same as blocks of text
    :param has_counts: occupants say how often they are read and written
    """

    line_bytes: int
    sides: tuple[LineSide, ...]
    groups: tuple[LineGroup, ...]
    pairs: tuple[LinePair, ...] = ()
    moves: tuple[LineMove, ...] = ()
    text: tuple[Block, ...] = ()
    has_counts: bool = False

    def plain(self) -> tuple[Block, ...]:
        """Return the drawing as text."""
        return self.text

    def sheet(self) -> Sheet:
        """Return where its rows and marks stand."""
        return lay_out(self)

    def kinds(self) -> set[str]:
        """Return what the key has to explain."""
        found = [one for group in self.groups for row in group.rows for one in row.occupants]
        said: set[str] = {one.kind for one in found if one.kind != "entry"}
        said |= {one.word for one in found if one.word}
        said |= {"slid" for one in found if one.slid}
        said |= {"unsized" for one in found if not one.is_sized}
        return said | {"hot" for one in found if one.is_hot}


def stack(occupants: Iterable[Occupant]) -> tuple[tuple[Occupant, ...], int]:
    """Put occupants that have common bytes into lanes.

    :return: those that are drawn, in order of their bytes, and how many find no lane
    """
    given = sorted(occupants, key=lambda one: (one.start, -one.size))
    # What has no bytes overlaps nothing.
    drawn = [one for one in given if not one.size]
    crowd: list[Occupant] = []
    reach = 0.0
    left = 0
    for one in given:
        if not one.size:
            continue
        if crowd and one.start >= reach:
            drawn += _spread(crowd)
            crowd = []
        ends = _ends(crowd)
        lane = next((at for at, end in enumerate(ends) if end <= one.start), len(ends))
        if lane >= MOST_LANES:
            left += 1
            continue
        crowd.append(replace(one, lane=lane))
        reach = max(reach, one.start + one.size)
    drawn += _spread(crowd)
    return tuple(sorted(drawn, key=lambda one: (one.start, one.lane))), left


def _ends(crowd: Sequence[Occupant]) -> list[float]:
    # Where each lane is free again.
    count = 1 + max((one.lane for one in crowd), default=-1)
    return [max(one.start + one.size for one in crowd if one.lane == lane) for lane in range(count)]


def _spread(crowd: Sequence[Occupant]) -> list[Occupant]:
    lanes = len(_ends(crowd))
    return [replace(one, lanes=lanes) for one in crowd]
