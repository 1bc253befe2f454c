"""The first screen of a text: of each block what a reader needs first, or nothing.

Warnings stand before what is harmless. What is left out is counted where it would stand, with the
option that shows it, and what all rows of a table have in common is said once above them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Headline,
    Item,
    Items,
    Table,
    Text,
    Tone,
    is_note,
    is_spanning,
)

# Rows of one table that one screen has room for, beside those of the others.
MOST_ROWS = 12
# Of the commands of one list; a line has 78.
COMMAND_CHARACTERS = 400
# Of a remark on an item, save those on what is ranked first or forbids a comparison; a line and a
# half.
LONGEST_DETAIL = 100
# A line has to say how many are left out, so leaving out fewer gains nothing.
FEWEST_HIDDEN = 3
# With more rows or items than have room, those that a reader acts on stay.
TONE_ORDER: Sequence[Tone] = ("bad", "good", "warning", "strong", "plain", "muted")
WARNING_TONES: Sequence[Tone] = ("bad", "warning")


def shorten(blocks: Iterable[Block], *, see: str) -> Iterator[Block]:
    """Yield what the first screen has of a section's blocks.

    :param see: what shows the rest: "--all"; "" where nobody can ask for it
    """
    for block in blocks:
        match block:
            case Headline() | Text(brief=True):
                yield block
            case Items(brief=number) if number:
                yield _shorten_items(block, number)
            case Table(brief=True):
                yield from _shorten_table(block, see)


def _shorten_items(block: Items, number: int) -> Items:
    items = tuple(_merge(block))
    if block.ordered:
        return replace(block, items=items, limit=number)
    ranked = sorted(items, key=lambda item: item.tone not in WARNING_TONES)
    # What is harmless needs no line that says that it is there.
    hidden = [item for item in ranked[number:] if item.tone in WARNING_TONES]
    return replace(block, items=(*ranked[:number], *hidden), limit=number)


def _merge(block: Items) -> Iterator[Item]:
    # The first commands are the ones to type; those of the others are shown while there is room.
    # What is ranked says where it is proved; other remarks have no line for that.
    room = COMMAND_CHARACTERS
    for number, item in enumerate(block.items):
        is_first = block.ordered and number == 0
        has_room = is_first or item.tone == "bad" or len(item.detail) <= LONGEST_DETAIL
        text = f"{item.text} ({item.detail})" if item.detail and has_room else item.text
        room -= sum(map(len, item.commands))
        commands = item.commands if number == 0 or room >= 0 else ()
        evidence = item.evidence if block.ordered else ()
        yield replace(item, text=text, detail="", evidence=evidence, commands=commands)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    # One row with the notes on it, and the heading that it stands below. A mean of other rows is
    # no result, so where rows open to details it has none.
    rows: tuple[tuple[Cell, ...], ...]
    heading: tuple[Cell, ...] | None
    is_quiet: bool
    is_result: bool

    def rank(self) -> int:
        return min(TONE_ORDER.index(cell.tone) for cell in self.rows[0])


def _shorten_table(table: Table, see: str) -> Iterator[Block]:
    entries = list(_entries(table))
    loud = [entry for entry in entries if not entry.is_quiet]
    quiet = sum(entry.is_quiet and entry.is_result for entry in entries)
    are_hidden = quiet >= FEWEST_HIDDEN
    wanted = loud if are_hidden else entries
    kept = _most_telling(wanted)
    hidden = {
        "more": len(wanted) - len(kept),
        f"{'more ' if kept else ''}{table.quiet_word}": quiet if are_hidden else 0,
    }
    told = " and ".join(f"{number} {word}" for word, number in hidden.items() if number)
    if kept:
        yield _table_of(table, kept)
    else:
        told = f"{table.caption}: {told}" if told else table.caption
    if told:
        yield Text(text=f"{told} (list: {see})" if see else told, tone="muted")


def _most_telling(entries: Sequence[_Entry]) -> list[_Entry]:
    # In their own order, as many as have room.
    ranked = sorted(range(len(entries)), key=lambda place: entries[place].rank())
    return [entries[place] for place in sorted(ranked[:MOST_ROWS])]


def _table_of(table: Table, entries: Sequence[_Entry]) -> Table:
    rows = tuple(_with_headings(entries))
    shown, common = _common(table.columns, [row for row in rows if not is_spanning(row)])
    return Table(
        caption=f"{table.caption}; in all rows: {common}" if common else table.caption,
        columns=tuple(table.columns[place] for place in shown),
        rows=tuple(tuple(row[place] for place in shown) for row in rows),
    )


def _entries(table: Table) -> Iterator[_Entry]:
    heading: tuple[Cell, ...] | None = None
    quiet = table.quiet or (False,) * len(table.rows)
    are_results = tuple(map(bool, table.details)) or (True,) * len(table.rows)
    place = 0
    while place < len(table.rows):
        first = place
        place += 1
        if is_spanning(table.rows[first]) and not is_note(table.rows[first]):
            heading = table.rows[first]
            continue
        while place < len(table.rows) and is_note(table.rows[place]):
            place += 1
        # What stands below a heading is indented.
        heading = heading if table.rows[first][0].text.startswith(" ") else None
        yield _Entry(
            rows=table.rows[first:place],
            heading=heading,
            is_quiet=quiet[first],
            is_result=are_results[first],
        )


def _with_headings(entries: Iterable[_Entry]) -> Iterator[tuple[Cell, ...]]:
    heading: tuple[Cell, ...] | None = None
    for entry in entries:
        if entry.heading is not None and entry.heading is not heading:
            yield entry.heading
        heading = entry.heading
        yield from entry.rows


def _common(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> tuple[list[int], str]:
    # The columns that tell rows apart, and in words what the others say of all of them.
    shown: list[int] = []
    common: list[str] = []
    for place, column in enumerate(columns):
        if column.priority >= REFERENCE_PRIORITY:
            continue
        texts = [row[place].text for row in rows if row[place].text]
        if column.priority == 0 or len(texts) == 1 or len(set(texts)) > 1:
            shown.append(place)
        elif texts:
            common.append(f"{column.title} {texts[0]}".strip())
    return shown, ", ".join(common)
