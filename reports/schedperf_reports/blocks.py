"""What a report section may return: a headline, text, items, tables, drawings and figures.

A block knows nothing of HTML, colour codes or widths. Meaning is carried by
words and by a tone; a format may colour the tone, never replace the words.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Tone = Literal["plain", "good", "bad", "warning", "muted", "strong"]
Align = Literal["left", "right"]

# Columns that only a reader who checks the numbers asks for.
REFERENCE_PRIORITY = 8

_RULE = re.compile(r"-{3,} *(.*?) *-*$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A paragraph."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """The one sentence that a reader must not miss.

    :param word: what is said in one word: "regression"
    """

    word: str
    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One point of a list.

    :param detail: what a reader may skip; "" where there is nothing more
    :param evidence: rows of this report that prove it: ``("layout#sd_llc_id",)``
    """

    text: str
    detail: str = ""
    tone: Tone = "plain"
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Items:
    """A list of sentences.

    :param ordered: the first is the most important one, so they are numbered
    :param limit: how many a terminal shows before it says how many more there are; None: all
    """

    items: tuple[Item, ...]
    ordered: bool = False
    limit: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of a table.

    :param title: with its unit, where all cells share one
    :param priority: 0 is always shown; in a narrow terminal columns of the highest number go
        first, and those of ``REFERENCE_PRIORITY`` and more without a word
    :param code: cells are names or values of the kernel or of a tool, so a fixed-width face suits
    """

    title: str
    align: Align = "left"
    priority: int = 0
    code: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One cell of a table."""

    text: str
    tone: Tone = "plain"


def is_spanning(row: Sequence[Cell]) -> bool:
    """Say whether a row is one text over all columns: only its first cell has text.

    It is a heading over the rows below it, or a note on the row above it.
    """
    return len(row) > 1 and row[0].text != "" and all(cell.text == "" for cell in row[1:])


def is_note(row: Sequence[Cell]) -> bool:
    """Say whether a row is a note on the row above it: a muted or a warning text."""
    return is_spanning(row) and row[0].tone in ("muted", "warning")


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table whose caption states what it shows.

    :param rows: one tuple of cells a row, as long as ``columns``
    :param limit: how many rows a terminal shows before it says how many more there are; None: all;
        0: a reference table, of which a terminal shows the caption alone
    :param anchors: an id per row, what stands after the # of the evidence that names this row;
        empty where nobody does
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    limit: int | None = None
    anchors: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawingLine:
    """One line of a drawing, with a tone for the whole line.

    Text that begins with three dashes is a rule across the column, with the words after them.
    """

    text: str
    tone: Tone = "plain"


def words_of_rule(text: str) -> str | None:
    """Return the words of a rule in a drawing, "" where it has none; None for any other line."""
    found = _RULE.match(text)
    return None if found is None else found[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """Lines of text in a fixed-width face, one column a side, base first.

    :param titles: one over each column
    :param columns: the lines of each; all have as many, an empty line where a side has nothing
    """

    caption: str
    titles: tuple[str, ...]
    columns: tuple[tuple[DrawingLine, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A Plotly figure, for formats that can draw one; the caption states the finding.

    The same numbers must also stand in a table of the section: a figure is
    never the only place where something is said.

    :param figure: ``{"data": […], "layout": {…}}`` without a template, JSON values only. A colour
        may name one of the page's, which follow light and dark: ``var(--base)``, ``--new``,
        ``--good``, ``--bad``, ``--warning``, ``--ink``, ``--muted``, ``--band``. Labels are plain
        text: a ``<`` in them is shown as it stands
    :param height: pixels
    """

    caption: str
    figure: Mapping[str, object]
    height: int


Block = Headline | Text | Items | Table | Drawing | Figure
