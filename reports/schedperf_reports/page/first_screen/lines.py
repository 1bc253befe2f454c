# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw cache lines on the first screen of a report that has layouts and no results.

The drawing is a small version of that in the section: a row per side, the lines next to each other,
with the hot variables as numbers.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from schedperf_reports.blocks import Block
from schedperf_reports.graphics.cache_lines import CacheLines, LineGroup, Occupant

# Number of lines next to each other, and percent of the width between them.
MOST_BESIDE = 2
GAP = 3.0
# Number of variables with a number.
MOST_NAMES = 6


class Box(Struct, frozen=True, kw_only=True):
    """One hot variable on one line; position and width are in percent of the drawing's width.

    :param number: its number in the key
    :param title: its name, and how it changed
    :param is_changed: whether it was added, or is on another line than in base
    """

    left: float
    width: float
    number: str
    title: str
    is_changed: bool


class SideOfLines(Struct, frozen=True, kw_only=True):
    """The lines on one side.

    :param place: index of the side's colour and shape
    """

    label: str
    place: int
    boxes: tuple[Box, ...]


class Lines(Struct, frozen=True, kw_only=True):
    """The first lines of a drawing, of all sides.

    :param frames: position and width of each line in percent, and its name
    :param key: the number and name of each hot variable
    :param words: description of the drawing for screen readers
    """

    sides: tuple[SideOfLines, ...]
    frames: tuple[tuple[float, float, str], ...]
    key: tuple[tuple[str, str], ...]
    words: str


def draw_lines(blocks: Sequence[Block]) -> Lines | None:
    """Return a small version of the first cache-line drawing of several sides among some blocks.

    Return None if there is none, or if its first lines have no hot variable.
    """
    drawings = (block for block in blocks if isinstance(block, CacheLines) and len(block.sides) > 1)
    drawing = next(drawings, None)
    if drawing is None:
        return None
    groups = drawing.groups[:MOST_BESIDE]
    names = list(dict.fromkeys(one.name for one in _hot(groups)))[:MOST_NAMES]
    if not names:
        return None
    width = (100.0 - GAP * (len(groups) - 1)) / len(groups)
    starts = [(width + GAP) * number for number in range(len(groups))]
    sides = tuple(
        SideOfLines(
            label=side.label,
            place=side.place,
            boxes=tuple(
                _box(one, names, start, width / drawing.line_bytes)
                for start, group in zip(starts, groups, strict=True)
                for one in group.rows[index].occupants
                if one.name in names
            ),
        )
        for index, side in enumerate(drawing.sides)
    )
    frames = tuple(
        (start, width, _title(group)) for start, group in zip(starts, groups, strict=True)
    )
    numbered = tuple((str(number), name) for number, name in enumerate(names, start=1))
    return Lines(sides=sides, frames=frames, key=numbered, words=drawing.caption)


def _hot(groups: Sequence[LineGroup]) -> Iterator[Occupant]:
    for group in groups:
        for row in group.rows:
            yield from (one for one in row.occupants if one.is_hot and one.name)


def _title(group: LineGroup) -> str:
    return next((f"line {row.offset}" for row in group.rows if row.offset), "")


def _box(one: Occupant, names: Sequence[str], start: float, scale: float) -> Box:
    return Box(
        left=start + one.start * scale,
        width=one.size * scale,
        number=str(names.index(one.name) + 1),
        title="; ".join((one.name, *([one.word] if one.word else []))),
        is_changed=bool(one.word),
    )
