# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose the columns of a table that fit a terminal, and their widths."""

from collections.abc import Sequence

from rich.cells import cell_len

from schedperf_reports.blocks import SET_PRIORITY, Cell, Column

# Blanks between two columns.
GAP = 2

# A column of text may become as narrow as its longest word, but a word longer than this is cut,
# and what is shorter than this in all is never wrapped.
LONGEST_UNCUT_WORD = 24
NARROWEST_TEXT = 12


def choose_columns(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int
) -> dict[int, int]:
    """Choose which columns are shown and how wide each is, by index.

    Columns of the highest priority number go until the others fit, those of a set together, and a
    column ``with_next`` with the one to its right. Where a word would be cut all the same, as that
    of a verdict, numbers go from the right, save the first of them. Columns of text then share what
    is left, be it less than their longest words take.
    """
    texts = [
        [column.title, *(row[index].text for row in rows)] for index, column in enumerate(columns)
    ]
    natural = [max(map(cell_len, column)) for column in texts]
    floors = [
        wide if column.align == "right" else min(wide, max(_longest_word(text), NARROWEST_TEXT))
        for column, text, wide in zip(columns, texts, natural, strict=True)
    ]
    kept = list(range(len(columns)))
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
    """Divide columns into parts that fit, each with the first columns in front.

    >>> share_columns([9, 5, 12, 12, 12], 2, 50)
    [[0, 1, 2, 3], [0, 1, 4]]
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
    """Return the columns that go if this one does."""
    gone = {last}
    if columns[last].priority == SET_PRIORITY:
        gone |= {i for i, column in enumerate(columns) if column.priority == SET_PRIORITY}
    if last > 0 and columns[last - 1].with_next:
        gone.add(last - 1)
    return gone


def _longest_word(texts: Sequence[str]) -> int:
    # The blanks in front of a text stay where it is wrapped.
    words = (
        cell_len(word) + len(text) - len(text.lstrip()) for text in texts for word in text.split()
    )
    return min(max(words, default=0), LONGEST_UNCUT_WORD)


def _total(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[index] for index in kept) + GAP * (len(kept) - 1)


def _share(
    kept: Sequence[int], natural: Sequence[int], floors: Sequence[int], width: int
) -> dict[int, int]:
    # Widen from the least widths, always the narrowest column that is still cut.
    widths = {index: floors[index] for index in kept}
    spare = width - _total(floors, kept)
    while spare > 0:
        wanting = [index for index in kept if widths[index] < natural[index]]
        if not wanting:
            break
        widths[min(wanting, key=lambda index: widths[index])] += 1
        spare -= 1
    return {index: max(columns, 1) for index, columns in widths.items()}
