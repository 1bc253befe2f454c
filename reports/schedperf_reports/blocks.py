# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the blocks of report sections: headlines, text, items, tables, drawings and graphics.

A block contains no HTML, colour codes or widths. Its meaning is in its words; a format may use the
tone for colours, but colours never replace words. A *brief* text is the text report of one screen,
which ``schedperf compare`` prints without ``--all``.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Tone = Literal["plain", "good", "bad", "warning", "muted", "strong"]
Align = Literal["left", "right"]

# Columns with this priority or more matter only to readers who check the numbers.
REFERENCE_PRIORITY = 8
# Columns of a set, such as the shares on each node, mean little alone, so a narrow terminal shows
# all or none.
SET_PRIORITY = REFERENCE_PRIORITY + 2

_RULE = re.compile(r"-{3,} *(.*?) *-*$")


class Text(Struct, frozen=True, kw_only=True):
    """A paragraph.

    :param brief: whether a brief text includes it
    """

    text: str
    tone: Tone = "plain"
    brief: bool = False


class Headline(Struct, frozen=True, kw_only=True):
    """The most important sentence of a report.

    :param word: what precedes the sentence: a verdict, "regression", or the label of a side
    :param text: the sentence
    :param has_clauses: whether semicolons separate its clauses; a page shows those after the first
        one in smaller type
    """

    word: str
    text: str
    tone: Tone = "plain"
    has_clauses: bool = False


class Item(Struct, frozen=True, kw_only=True):
    """One point of a list.

    :param detail: optional further text; "" for none
    :param evidence: sections or rows of this report that support it: ``("layout#sd_llc_id",)``
    :param commands: shell commands, quoted; a text shows them on lines that can be copied
    :param short: a short form for a brief text; None to use the item itself
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
    """Return the item; if its detail is too long for a brief text, with a short form.

    :param detail: detail of the short form
    """
    if len(item.detail) <= LONGEST_DETAIL:
        return item
    return replace(item, short=replace(item, detail=detail))


class Items(Struct, frozen=True, kw_only=True):
    """A list of sentences.

    :param ordered: whether the items are numbered, because the first is the most important one
    :param limit: number of items that a text shows, followed by the number of the others; None for
        all
    :param brief: number of items in a brief text; 0 to leave the list out
    :param whole: the full items, for a complete text report; empty if ``items`` are complete
    """

    items: tuple[Item, ...]
    ordered: bool = False
    limit: int | None = None
    brief: int = 0
    whole: tuple[Item, ...] = ()


class Column(Struct, frozen=True, kw_only=True):
    """One column of a table.

    :param title: heading, with the unit if all cells share one
    :param priority: 0 is dropped last; a narrow terminal drops columns with the highest number
        first, and lists the dropped ones, except those of ``REFERENCE_PRIORITY`` or more; columns
        of ``SET_PRIORITY`` are dropped together
    :param with_next: whether it is kept or dropped together with the column to its right, as a
        number with its unit
    :param as_heading: whether a text without room for the column prints each value once, above the
        rows with it
    :param code: whether cells are names or values of the kernel or of a tool, to be shown in a
        fixed-width font
    :param explains: explanation of the column on request; "" if the title is enough
    """

    title: str
    align: Align = "left"
    priority: int = 0
    with_next: bool = False
    as_heading: bool = False
    code: bool = False
    explains: str = ""


class Cell(Struct, frozen=True, kw_only=True):
    """One cell of a table.

    :param sort: sort key on a page, in base units; NaN for missing; None to sort by the text, as a
        number if all cells of the column are numbers ("1.6 ms" as 0.0016)
    """

    text: str
    tone: Tone = "plain"
    sort: float | None = None


def is_spanning(row: Sequence[Cell]) -> bool:
    """Return whether a row is one text over all columns: only its first cell has text.

    Such a row is a heading for the rows below it, or a note on the row above it.
    """
    return len(row) > 1 and row[0].text != "" and all(cell.text == "" for cell in row[1:])


def is_note(row: Sequence[Cell]) -> bool:
    """Return whether a spanning row is a note on the row above it: its tone is muted or warning."""
    return is_spanning(row) and row[0].tone in ("muted", "warning")


class Table(Struct, frozen=True, kw_only=True):
    """A table whose caption states what it shows.

    :param rows: one tuple of cells per row, as long as ``columns``
    :param limit: number of rows that a terminal shows, followed by the number of the others; None
        for all; 0 for a reference table, of which a terminal shows only the caption
    :param anchors: an id per row: the part after the # in evidence that refers to this row, "" for
        a row without one; empty if no row has one
    :param quiet: for each row, whether a page hides it until the reader expands it; empty if none
    :param quiet_word: word for the hidden rows: "unchanged"
    :param details: for each row, its details on a page, or (); empty if no row has details
    :param brief: whether a brief text includes it, without the quiet rows
    :param repeated: number of first columns that each part repeats if a narrow text splits the
        table into parts; 0 to drop columns instead
    :raises ValueError: a row has more or fewer cells than there are columns
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

    def __post_init__(self) -> None:
        wrong = next((row for row in self.rows if len(row) != len(self.columns)), None)
        if wrong is not None:
            titles = ", ".join(column.title for column in self.columns)
            raise ValueError(
                f"{self.caption}: a row has {len(wrong)} cells (expected {len(self.columns)}: "
                f"{titles})"
            )


class DrawingLine(Struct, frozen=True, kw_only=True):
    """One line of a drawing, with a tone for the whole line.

    A text that begins with three dashes is a horizontal rule, labelled with the words after them.
    """

    text: str
    tone: Tone = "plain"


def words_of_rule(text: str) -> str | None:
    """Return the label of a rule in a drawing ("" without one); None for any other line."""
    rule = _RULE.match(text)
    return None if rule is None else rule[1]


class Drawing(Struct, frozen=True, kw_only=True):
    """Lines of text in a fixed-width font, usually one column per side, base first.

    :param titles: heading of each column
    :param columns: the lines of each column; all columns have the same number of lines
    :param places: index of the colour and shape of each column's side, see
        ``words.rows.side_place``; () if columns are not sides
    :param stacked: whether columns are below each other; their lines are then not aligned
    :param brief: whether a brief text includes it
    """

    caption: str
    titles: tuple[str, ...]
    columns: tuple[tuple[DrawingLine, ...], ...]
    places: tuple[int, ...] = ()
    stacked: bool = False
    brief: bool = False


class Spot(Struct, frozen=True, kw_only=True):
    """The position in a graphic at which a row of its section is drawn.

    :param part: a suffix of the graphic's element id; None for the graphic itself
    :param state: the state of the graphic's script, written to the URL, that shows the row; "" if
        there is none
    :param shows: text of a link to it: "flame graph: update_load_avg"; "" to use the name of the
        row
    """

    part: int | None = None
    state: str = ""
    shows: str = ""


class Graphic(Struct, frozen=True, kw_only=True):
    """A drawing for which a page has a template; other formats render its plain blocks.

    Each kind is a subclass. The page draws it with the template ``blocks/KIND.html.j2``, where KIND
    is the class's name in lower case, and with ``blocks/KIND.css`` and ``blocks/KIND.js`` if they
    exist.

    :param caption: the finding in one sentence
    """

    caption: str

    def plain(self) -> "tuple[Block, ...]":
        """Return blocks with the same content in words.

        Return () if other blocks of the section already have this content.
        """
        return ()

    def inner(self) -> "tuple[Block, ...]":
        """Return the blocks that the page draws inside of the graphic."""
        return self.plain()

    def data(self) -> object:
        """Return the data for its script, JSON values only; None if the script needs none."""
        return None

    def shows_change(self) -> bool:
        """Return whether the graphic shows a change; a page folds a graphic that shows none."""
        return False

    def spots(self) -> Mapping[str, Spot]:
        """Return the position of each row in the graphic, by the part after the # in evidence.

        A page links such evidence to the drawing: to the element id ``KIND-SECTION-NUMBER`` of the
        template, with the state ``f.SECTION-NUMBER`` of the script.
        """
        return {}

    def cited(self) -> tuple[str, ...]:
        """Return the evidence that the graphic links to, in the order of the template's links."""
        return ()


Block = Headline | Text | Items | Table | Drawing | Graphic
