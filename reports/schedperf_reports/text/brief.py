# SPDX-License-Identifier: GPL-2.0-or-later
"""Shorten a report to one screen of text: the most important part of each block, or nothing.

Warnings come before harmless remarks. Omitted items are counted in place, with the option that
shows them. Values that all rows of a table share are printed once above the table.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.text import join_names
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Drawing,
    Headline,
    Item,
    Items,
    Table,
    Text,
    Tone,
    is_note,
    is_spanning,
)
from schedperf_reports.words.quantities import MISSING

# Rows of one table that fit on one screen together with other tables.
MOST_ROWS = 12
# Items of a ranked list that are shown in full: one step with its commands, or two reasons.
FULL_STEPS = 1
FULL_REASONS = 2
# Commands of a step: one that records and one that compares, or one that checks and one that
# records.
MOST_COMMANDS = 2
# Remarks of one section, not counting those that forbid a comparison.
MOST_REMARKS = 3
# A line must state the number of omitted rows, so omitting fewer saves nothing.
FEWEST_HIDDEN = 3
# If not all rows or items fit, the actionable ones stay.
TONE_ORDER: Sequence[Tone] = ("bad", "good", "warning", "strong", "plain", "muted")
WARNING_TONES: Sequence[Tone] = ("bad", "warning")


def shorten(blocks: Iterable[Block], *, see: str) -> Iterator[Block]:
    """Yield the part of a section's blocks that the first screen shows.

    :param blocks: blocks of one section, with graphics replaced by their plain blocks
    :param see: option that shows the rest: "--all"; "" if there is none
    """
    yield from _join_headings(_shorten_all(list(blocks), see))


def _shorten_all(blocks: Sequence[Block], see: str) -> Iterator[Block]:
    room = _room_for_remarks(blocks)
    hidden: list[Item] = []
    for block in blocks:
        match block:
            case Headline() | Text(brief=True) | Drawing(brief=True):
                yield block
            case Items(brief=number, ordered=True) if number:
                yield replace(block, items=tuple(_shorten_ranked(block.items, see)), limit=number)
            case Items(brief=number) if number:
                shown, left = _choose_remarks(block, room)
                room -= len(shown)
                hidden += left
                if shown:
                    yield Items(items=tuple(_shorten_remark(item, see) for item in shown))
            case Table(brief=True):
                yield from _shorten_table(block, see)
    if hidden:
        yield Items(items=tuple(hidden), limit=0)


def _join_headings(blocks: Iterable[Block]) -> Iterator[Block]:
    # A heading over a single remark becomes the start of its line.
    heading: Text | None = None
    for block in blocks:
        if heading is not None:
            match block:
                case Items(items=(Item(commands=()) as item,), ordered=False, limit=None):
                    yield replace(heading, text=f"{heading.text}: {item.text}", tone=item.tone)
                    heading = None
                    continue
            yield heading
        heading = block if isinstance(block, Text) and block.tone == "strong" else None
        if heading is None:
            yield block
    if heading is not None:
        yield heading


def _room_for_remarks(blocks: Iterable[Block]) -> int:
    lists = [block for block in blocks if isinstance(block, Items) and not block.ordered]
    requested = sum(min(block.brief, len(block.items)) for block in lists)
    # Items next to the headline are essential, and a line that counts one omitted item saves
    # nothing.
    has_headline = any(isinstance(block, Headline) for block in blocks)
    return requested if has_headline or requested == MOST_REMARKS + 1 else MOST_REMARKS


def _choose_remarks(block: Items, room: int) -> tuple[list[Item], list[Item]]:
    # Shown and counted items; harmless remarks are not even counted.
    ranked = sorted(block.items, key=lambda item: item.tone not in WARNING_TONES)
    candidates, others = ranked[: block.brief], ranked[block.brief :]
    shown = [item for index, item in enumerate(candidates) if index < room or item.tone == "bad"]
    left = [item for item in candidates if item not in shown]
    return shown, left + [item for item in others if item.tone in WARNING_TONES]


def _shorten_remark(item: Item, see: str) -> Item:
    # A remark that forbids a comparison states the remedy, or where it is described.
    if item.tone == "bad":
        said = item.detail or (f"see {see}" if see and item.evidence else "")
        return replace(item, text=_with_detail(item.text, said), detail="", evidence=())
    return replace(item.short or item, detail="", evidence=())


def _shorten_ranked(items: Sequence[Item], see: str) -> Iterator[Item]:
    full = FULL_STEPS if items[0].commands else FULL_REASONS
    items = [item.short or item for item in items]
    above = Item(text="")
    for item in items[:full]:
        # Text that repeats the item above is left out.
        text = _with_detail(item.text, item.detail if item.detail != above.detail else "")
        evidence = item.evidence if item.evidence != above.evidence else ()
        commands = tuple(_shorten_commands(item.commands, see))
        yield Item(text=text, tone=item.tone, evidence=evidence, commands=commands)
        above = item
    yield from (Item(text=item.text, tone=item.tone) for item in items[full:])


def _shorten_commands(commands: Sequence[str], see: str) -> Iterator[str]:
    more = len(commands) - MOST_COMMANDS
    if more <= 1:
        # A line that counts one omitted item saves nothing.
        yield from commands
        return
    yield from commands[:MOST_COMMANDS]
    # A shell that is given all of the lines treats this one as a comment.
    yield f"# … {more} more commands{f', see {see}' if see else ''}"


def _with_detail(text: str, detail: str) -> str:
    return f"{text} ({detail})" if detail else text


class _Entry(Struct, frozen=True, kw_only=True):
    # One row with its notes, and the heading above it. A mean is not a result, so in tables whose
    # rows have details, it has none.
    rows: tuple[tuple[Cell, ...], ...]
    heading: tuple[Cell, ...] | None
    is_quiet: bool
    is_result: bool

    def rank(self) -> tuple[bool, int]:
        # The mean of all results stands in for omitted results; the mean of a sweep does so less.
        is_mean_of_all = not self.is_result and self.heading is None
        return not is_mean_of_all, min(TONE_ORDER.index(cell.tone) for cell in self.rows[0])


def _shorten_table(table: Table, see: str) -> Iterator[Block]:
    entries = list(_entries(table))
    loud = [entry for entry in entries if not entry.is_quiet]
    quiet = sum(entry.is_quiet and entry.is_result for entry in entries)
    are_hidden = quiet >= FEWEST_HIDDEN
    candidates = loud if are_hidden else entries
    kept = _most_telling(candidates)
    hidden = {
        "more": len(candidates) - len(kept),
        f"{'more ' if kept else ''}{table.quiet_word}": quiet if are_hidden else 0,
    }
    summary = join_names(f"{number} {word}" for word, number in hidden.items() if number)
    if kept:
        yield _table_of(table, kept)
    else:
        summary = f"{table.caption}: {summary}" if summary else table.caption
    if summary:
        yield Text(text=f"{summary} (list: {see})" if see else summary, tone="muted")


def _most_telling(entries: Sequence[_Entry]) -> list[_Entry]:
    # As many as fit, in their original order.
    ranked = sorted(range(len(entries)), key=lambda index: entries[index].rank())
    return [entries[index] for index in sorted(ranked[:MOST_ROWS])]


def _table_of(table: Table, entries: Sequence[_Entry]) -> Table:
    rows = tuple(_with_headings(entries))
    shown, common = _common(table.columns, [row for row in rows if not is_spanning(row)])
    return Table(
        caption=f"{table.caption}; in all rows: {common}" if common else table.caption,
        columns=tuple(table.columns[index] for index in shown),
        rows=tuple(tuple(row[index] for index in shown) for row in rows),
        repeated=table.repeated,
    )


def _entries(table: Table) -> Iterator[_Entry]:
    heading: tuple[Cell, ...] | None = None
    quiet = table.quiet or (False,) * len(table.rows)
    are_results = tuple(map(bool, table.details)) or (True,) * len(table.rows)
    index = 0
    while index < len(table.rows):
        first = index
        index += 1
        if is_spanning(table.rows[first]) and not is_note(table.rows[first]):
            heading = table.rows[first]
            continue
        while index < len(table.rows) and _continues(table.rows[index]):
            index += 1
        # Text below a heading is indented.
        heading = heading if table.rows[first][0].text.startswith(" ") else None
        yield _Entry(
            rows=table.rows[first:index],
            heading=heading,
            is_quiet=quiet[first],
            is_result=are_results[first],
        )


def _continues(row: Sequence[Cell]) -> bool:
    # A note, or a continuation of the row above, which has no name.
    return is_note(row) or not row[0].text


def _with_headings(entries: Iterable[_Entry]) -> Iterator[tuple[Cell, ...]]:
    heading: tuple[Cell, ...] | None = None
    for entry in entries:
        if entry.heading is not None and entry.heading is not heading:
            yield entry.heading
        heading = entry.heading
        yield from entry.rows


def _common(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> tuple[list[int], str]:
    # The columns that distinguish rows, and a text with what all rows share in the other columns.
    shown: list[int] = []
    common: list[str] = []
    optional = [
        index for index, column in enumerate(columns) if 0 < column.priority < REFERENCE_PRIORITY
    ]
    # A mean has none of these. An empty cell of any other row is a value: counts have no unit.
    full = [row for row in rows if any(row[index].text for index in optional)]
    for index, column in enumerate(columns):
        if column.priority >= REFERENCE_PRIORITY:
            continue
        texts = [row[index].text for row in full]
        if column.priority == 0 or len(set(texts)) > 1 or (len(texts) == 1 and texts[0]):
            shown.append(index)
        elif texts and texts[0] not in ("", MISSING):
            common.append(f"{column.title} {texts[0]}".strip())
    return shown, ", ".join(common)
