# SPDX-License-Identifier: GPL-2.0-or-later
"""What a report section may return: a headline, text, items, tables, drawings and graphics.

A block knows nothing of HTML, colour codes or widths. Meaning is carried by
words and by a tone; a format may colour the tone, never replace the words.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Tone = Literal["plain", "good", "bad", "warning", "muted", "strong"]
Align = Literal["left", "right"]

# Columns that only a reader who checks the numbers asks for.
REFERENCE_PRIORITY = 8
# Such columns say little alone, as the shares on each node, so a narrow terminal has all or none.
SET_PRIORITY = REFERENCE_PRIORITY + 2

_RULE = re.compile(r"-{3,} *(.*?) *-*$")


class Text(Struct, frozen=True, kw_only=True):
    """A paragraph.

    :param brief: whether a text of one screen has it
    """

    text: str
    tone: Tone = "plain"
    brief: bool = False


class Headline(Struct, frozen=True, kw_only=True):
    """The one sentence that a reader must not miss.

    :param word: what is said in one word: "regression"
    """

    word: str
    text: str
    tone: Tone = "plain"


class Item(Struct, frozen=True, kw_only=True):
    """One point of a list.

    :param detail: what a reader may skip; "" where there is nothing more
    :param evidence: rows of this report that prove it: ``("layout#sd_llc_id",)``
    :param commands: for a shell, quoted; a text shows them on lines that can be copied
    :param short: the item as a report of one screen has it; None: as it is
    """

    text: str
    detail: str = ""
    tone: Tone = "plain"
    evidence: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    short: "Item | None" = None


# Longest detail of an item in a text of one screen, in characters.
LONGEST_DETAIL = 90


def shorten_detail(item: Item, detail: str) -> Item:
    """Return the item with a short form that has this detail, if its own is too long."""
    if len(item.detail) <= LONGEST_DETAIL:
        return item
    return replace(item, short=replace(item, detail=detail))


class Items(Struct, frozen=True, kw_only=True):
    """A list of sentences.

    :param ordered: the first is the most important one, so they are numbered
    :param limit: how many a terminal shows before it says how many more there are; None: all
    :param brief: how many a text of one screen shows; 0: it leaves the list out
    :param whole: the items in full, for a text of everything; empty: they are
    """

    items: tuple[Item, ...]
    ordered: bool = False
    limit: int | None = None
    brief: int = 0
    whole: tuple[Item, ...] = ()


class Column(Struct, frozen=True, kw_only=True):
    """One column of a table.

    :param title: with its unit, where all cells share one
    :param priority: 0 is always shown; in a narrow terminal columns of the highest number go
        first, and those of ``REFERENCE_PRIORITY`` and more without a word
    :param with_next: goes together with the column to its right, as a unit with its number
    :param code: cells are names or values of the kernel or of a tool, so a fixed-width face suits
    :param explains: what the column says, for a reader who asks; "" where the title says it
    """

    title: str
    align: Align = "left"
    priority: int = 0
    with_next: bool = False
    code: bool = False
    explains: str = ""


class Cell(Struct, frozen=True, kw_only=True):
    """One cell of a table.

    :param sort: what a page sorts it by, in base units, where its text does not tell; NaN: as
        missing; None: its text, as a number where all of the column are: of "1.6 ms" 0.0016
    """

    text: str
    tone: Tone = "plain"
    sort: float | None = None


def is_spanning(row: Sequence[Cell]) -> bool:
    """Say whether a row is one text over all columns: only its first cell has text.

    It is a heading over the rows below it, or a note on the row above it.
    """
    return len(row) > 1 and row[0].text != "" and all(cell.text == "" for cell in row[1:])


def is_note(row: Sequence[Cell]) -> bool:
    """Say whether a row is a note on the row above it: a muted or a warning text."""
    return is_spanning(row) and row[0].tone in ("muted", "warning")


class Table(Struct, frozen=True, kw_only=True):
    """A table whose caption states what it shows.

    :param rows: one tuple of cells a row, as long as ``columns``
    :param limit: how many rows a terminal shows before it says how many more there are; None: all;
        0: a reference table, of which a terminal shows the caption alone
    :param anchors: an id per row, what stands after the # of the evidence that names this row;
        empty where nobody does
    :param quiet: for each row, whether a page hides it until it is asked for; empty: none
    :param quiet_word: what the hidden ones are: "unchanged"
    :param details: for each row, what it opens to on a page, () where to nothing; empty: none does
    :param brief: whether a text of one screen has it, without the quiet rows
    :param repeated: a text that is too narrow for all columns draws them in parts below each other,
        each of which begins with so many of the first columns; 0: columns are left out
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    limit: int | None = None
    anchors: tuple[str, ...] = ()
    quiet: tuple[bool, ...] = ()
    quiet_word: str = "unchanged"
    details: "tuple[tuple[Block, ...], ...]" = ()
    brief: bool = False
    repeated: int = 0


class DrawingLine(Struct, frozen=True, kw_only=True):
    """One line of a drawing, with a tone for the whole line.

    Text that begins with three dashes is a rule across the column, with the words after them.
    """

    text: str
    tone: Tone = "plain"


def words_of_rule(text: str) -> str | None:
    """Return the words of a rule in a drawing, "" where it has none; None for any other line."""
    rule = _RULE.match(text)
    return None if rule is None else rule[1]


class Drawing(Struct, frozen=True, kw_only=True):
    """Lines of text in a fixed-width face, one column a side, base first.

    :param titles: one over each column
    :param columns: the lines of each; all have as many, an empty line where a side has nothing
    :param places: the colour and shape of each column's side, by ``_words.side_place``; () where
        columns are no sides
    :param stacked: columns are below each other, and their lines are not aligned
    :param brief: whether a text of one screen has it
    """

    caption: str
    titles: tuple[str, ...]
    columns: tuple[tuple[DrawingLine, ...], ...]
    places: tuple[int, ...] = ()
    stacked: bool = False
    brief: bool = False


class Spot(Struct, frozen=True, kw_only=True):
    """Where in a graphic a row of its section is drawn.

    :param part: a number behind the element id of the graphic; None: the graphic itself
    :param state: the state in the address that shows it; "" where none does
    :param shows: what a link there says: "flame graph: update_load_avg"; "": the name of the row
    """

    part: int | None = None
    state: str = ""
    shows: str = ""


class Graphic(Struct, frozen=True, kw_only=True):
    """A drawing that a page has a template for; other formats show its plain blocks.

    Each kind is a subclass. The page draws it with the template ``blocks/KIND.html.j2``, KIND being
    the class's name in lower case, with ``blocks/KIND.css`` and ``blocks/KIND.js`` where there are.

    :param caption: states the finding
    """

    caption: str

    def plain(self) -> "tuple[Block, ...]":
        """Return what says the same in words; () where other blocks of the section do."""
        return ()

    def inner(self) -> "tuple[Block, ...]":
        """Return the blocks that the page draws inside of it."""
        return self.plain()

    def data(self) -> object:
        """Return what its script needs, JSON values only; None where it needs nothing."""
        return None

    def shows_change(self) -> bool:
        """Return whether it marks a change itself; a page folds what shows none."""
        return False

    def spots(self) -> Mapping[str, Spot]:
        """Return where it draws which rows: those that stand after the # of evidence.

        A page links such evidence to the drawing; its template then has the element id
        ``KIND-SECTION-NUMBER``, and its script the state ``f.SECTION-NUMBER``.
        """
        return {}

    def cited(self) -> tuple[str, ...]:
        """Return the evidence that it links to: ``("layout#sd_llc_id",)``; its template has ids."""
        return ()


Block = Headline | Text | Items | Table | Drawing | Graphic
