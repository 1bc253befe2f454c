# SPDX-License-Identifier: GPL-2.0-or-later
"""Decide which parts of a page are folded: those without a change.

Parts with a change stay open: a bold, good or bad cell in a table, a coloured cell or bar in a
drawing, or a drawing of cache lines. Folded rows are in a ``noscript`` element: a browser that runs
scripts sees plain text, and one that does not shows the table.
"""

from collections.abc import Iterable, Iterator, Sequence

from schedperf_reports.blocks import Block, Graphic, Items, Table, is_spanning
from schedperf_reports.graphics.panels import Panel, Panels
from schedperf_reports.words.rows import count_of
from schedperf_reports.words.states import State

# Chapters whose sections are evidence, or the basis of it.
FOLDED_CHAPTERS = ("scheduler", "profile", "memory", "environment")
CHANGE_TONES = ("strong", "good", "bad")


def is_unchanged(blocks: Sequence[Block], state: State | None) -> bool:
    """Return whether a section shows no change.

    With a count of changes in ``state``, the count must be 0, and no drawing may show a change;
    without a count, no block may show a change.
    """
    if state is None or state.changed is None:
        return not has_change(blocks)
    return state.changed == 0 and not any(
        has_change((block,)) for block in blocks if isinstance(block, Graphic)
    )


def has_change(blocks: Iterable[Block]) -> bool:
    """Return whether any of the blocks, or of their inner blocks, shows a change."""
    return any(map(_shows_change, blocks))


def _shows_change(block: Block) -> bool:
    if isinstance(block, Table):
        rows = (row for row in block.rows if not is_spanning(row))
        return any(cell.tone in CHANGE_TONES for row in rows for cell in row)
    return isinstance(block, Graphic) and (block.shows_change() or has_change(block.inner()))


def is_folded_table(table: Table) -> bool:
    """Return whether a table is folded: a reference table, or a table of changes that shows none.

    A table has ``quiet``, the unchanged rows that a page hides, only if it can show changes.
    """
    return table.limit == 0 or (bool(table.quiet) and not has_change((table,)))


def count_rows(blocks: Iterable[Block]) -> str:
    """Describe the content of a folded section that counts no changes: ``12 rows, 3 items``."""
    shown = list(_without_folds(blocks))
    tables = [block for block in shown if isinstance(block, Table)]
    counts = {
        "row": sum(not is_spanning(row) for table in tables for row in table.rows),
        "item": sum(len(block.items) for block in shown if isinstance(block, Items)),
    }
    return ", ".join(count_of(number, noun) for noun, number in counts.items() if number)


def _without_folds(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Panel | Panels):
            yield from _without_folds(block.inner())
