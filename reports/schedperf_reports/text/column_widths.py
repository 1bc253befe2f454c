# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose the columns of a table that fit a terminal, and their widths."""

import math
from collections.abc import Sequence

from rich.cells import cell_len

from schedperf_reports.blocks import SET_PRIORITY, Cell, Column

# Blanks between two columns.
GAP = 2

# A column of text may become as narrow as its longest word; a longer word than this is cut, and a
# column narrower than this is never wrapped.
LONGEST_UNCUT_WORD = 24
NARROWEST_TEXT = 12
# Share of the names in a column that fit completely; longer ones are cut to save columns.
UNCUT_NAMES = 0.8


def choose_columns(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int
) -> dict[int, int]:
    """Return the width of each shown column, by its index.

    If not all columns fit without wrapping, those that can be headings above the rows are left out.
    Then columns with the highest priority number are dropped until the others fit; a set is dropped
    as a whole, and a column ``with_next`` together with the one to its right. If a word such as a
    verdict would still be cut, number columns are dropped from the right, except the first. Columns
    of text share the remaining width, even if it is less than their longest words need.

    :param rows: rows of cells, as long as ``columns``, without rows of one text
    :param width: columns of the terminal
    """
    texts = [
        [column.title, *(row[index].text for row in rows)] for index, column in enumerate(columns)
    ]
    natural = [max(map(cell_len, column)) for column in texts]
    floors = [
        wide if column.align == "right" else min(wide, max(_room_for(column, text), NARROWEST_TEXT))
        for column, text, wide in zip(columns, texts, natural, strict=True)
    ]
    kept = list(range(len(columns)))
    if _total(natural, kept) > width:
        kept = [index for index in kept if not columns[index].as_heading]
    while _total(floors, kept) > width:
        numbers = [index for index in kept if columns[index].align == "right"]
        droppable = [index for index in kept if columns[index].priority > 0] or numbers[1:]
        if not droppable:
            break
        last = max(droppable, key=lambda index: (columns[index].priority, index))
        gone = _dropped_with(last, columns)
        kept = [index for index in kept if index not in gone]
    texts_kept = [index for index in kept if columns[index].align == "left"]
    while _total(floors, kept) > width and any(floors[index] > 1 for index in texts_kept):
        floors[max(texts_kept, key=lambda index: floors[index])] -= 1
    return _share(kept, natural, floors, width)


def share_columns(widths: Sequence[int], repeated: int, width: int) -> list[list[int]]:
    """Split columns into parts that fit, each starting with the first columns.

    >>> share_columns([9, 5, 12, 12, 12], 2, 50)
    [[0, 1, 2, 3], [0, 1, 4]]

    :param widths: width of each column
    :param repeated: number of first columns that each part repeats
    :return: indices of the columns of each part; a part with one column besides the repeated ones
        may be too wide
    """
    first = list(range(repeated))
    parts: list[list[int]] = []
    for index in range(repeated, len(widths)):
        if parts and _total(widths, [*parts[-1], index]) <= width:
            parts[-1].append(index)
        else:
            parts.append([*first, index])
    return parts or [first]


def _dropped_with(last: int, columns: Sequence[Column]) -> set[int]:
    """Return the indices of a column and of those that are dropped together with it.

    :param last: index of the column
    """
    gone = {last}
    if columns[last].priority == SET_PRIORITY:
        gone |= {i for i, column in enumerate(columns) if column.priority == SET_PRIORITY}
    if last > 0 and columns[last - 1].with_next:
        gone.add(last - 1)
    return gone


def _room_for(column: Column, texts: Sequence[str]) -> int:
    # The longest word, or the longest of most names. Leading blanks stay when a text is wrapped.
    words = sorted(
        max((cell_len(word) for word in text.split()), default=0) + len(text) - len(text.lstrip())
        for text in texts
    )
    is_of_names = column.code and not any(" " in text for text in texts)
    last = math.ceil(UNCUT_NAMES * len(words)) if is_of_names else len(words)
    return min(words[last - 1], LONGEST_UNCUT_WORD)


def _total(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[index] for index in kept) + GAP * (len(kept) - 1)


def _share(
    kept: Sequence[int], natural: Sequence[int], floors: Sequence[int], width: int
) -> dict[int, int]:
    # Start from the minimum widths, and always widen the narrowest column that is still cut.
    widths = {index: floors[index] for index in kept}
    spare = width - _total(floors, kept)
    while spare > 0:
        wanting = [index for index in kept if widths[index] < natural[index]]
        if not wanting:
            break
        widths[min(wanting, key=lambda index: widths[index])] += 1
        spare -= 1
    return {index: max(columns, 1) for index, columns in widths.items()}
