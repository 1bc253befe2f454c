# SPDX-License-Identifier: GPL-2.0-or-later
"""Which parts of a page are one line until they are opened: those without a change.

What shows a change stays open: a bold, good or bad cell in a table, a coloured cell or bar in a
drawing, a drawing of cache lines. The rows of what is folded are in a ``noscript`` element, which
is plain text for a browser that runs scripts and the table itself for one that does not.
"""

from collections.abc import Iterable, Iterator, Sequence

from schedperf_reports.blocks import Block, Graphic, Items, Table, is_spanning
from schedperf_reports.graphics.panels import Panel, Panels
from schedperf_reports.words.rows import count_of
from schedperf_reports.words.states import State

# Chapters whose sections are evidence, or what it rests on.
FOLDED_CHAPTERS = ("scheduler", "profile", "memory", "environment")
CHANGE_TONES = ("strong", "good", "bad")


def is_unchanged(blocks: Sequence[Block], state: State | None) -> bool:
    """Return whether a section shows no change, by its count, and else by what is drawn."""
    if state is None or state.changed is None:
        return not has_change(blocks)
    return state.changed == 0 and not any(
        has_change((block,)) for block in blocks if isinstance(block, Graphic)
    )


def has_change(blocks: Iterable[Block]) -> bool:
    """Return whether any of the blocks, or of those in them, shows a change."""
    return any(map(_shows_change, blocks))


def _shows_change(block: Block) -> bool:
    if isinstance(block, Table):
        rows = (row for row in block.rows if not is_spanning(row))
        return any(cell.tone in CHANGE_TONES for row in rows for cell in row)
    return isinstance(block, Graphic) and (block.shows_change() or has_change(block.inner()))


def is_folded_table(table: Table) -> bool:
    """Return whether a table is one line: a reference, or one that could show changes but has none.

    A table of which a page hides the unchanged rows could.
    """
    return table.limit == 0 or (bool(table.quiet) and not has_change((table,)))


def count_rows(blocks: Iterable[Block]) -> str:
    """Return what a folded section has, where nothing was counted: ``12 rows, 3 items``."""
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
