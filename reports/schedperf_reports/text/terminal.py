# SPDX-License-Identifier: GPL-2.0-or-later
"""Convert blocks to rich renderables: plain aligned columns, no boxes, words instead of colour.

The text is the same with and without colour, so that a pipe loses nothing.
"""

import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text as Styled

from schedperf.model.text import clean_beginnings
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Drawing,
    DrawingLine,
    Graphic,
    Headline,
    Item,
    Items,
    Table,
    Text,
    Tone,
    is_spanning,
    words_of_rule,
)
from schedperf_reports.text.column_widths import GAP, choose_columns, share_columns
from schedperf_reports.text.commands import wrap_command
from schedperf_reports.words.clean import clean
from schedperf_reports.words.quantities import MISSING

STYLES: dict[Tone, str] = {
    "plain": "",
    "good": "cyan",
    "bad": "bold red",
    "warning": "yellow",
    "muted": "dim",
    "strong": "bold",
}

# Below this width, not even a result and its verdict fit side by side.
NARROWEST = 40

INDENT = 2

# Maximum length of a name on a terminal; other formats show the full name.
LONGEST_TEXT = 2000
LONGEST_CELL = 240
LONGEST_COMMAND = 4000

# Untrusted names may begin with more blanks than a line has room for.
DEEPEST_INDENT = 8

# A value that all rows share can be printed once, so such a column is dropped before others.
COMMON_PRIORITY = REFERENCE_PRIORITY - 1

# Separator between a name and its mark in a drawing, and the minimum number of letters of a name.
MARK = "  <- "
FEWEST_LETTERS = 12

# If a column of a drawing is narrower than this, common names are cut, so columns are stacked
# instead.
NARROWEST_COLUMN = 34
# As wide as a column of a stacked drawing.
WIDEST_STACKED = 56


def draw_block(block: Block, width: int, *, see: str) -> RenderableType | None:
    """Return the renderable of a block for a width in columns.

    Return None for a graphic whose plain blocks are empty: a terminal does not show it.

    :param see: option that shows the omitted rows: "--html or --json"; "" if there is none
    """
    match block:
        case Text() | Table(limit=0):
            return _indent(_paragraph(block, see))
        case Headline():
            return _draw_headline(block)
        case Items():
            return _draw_items(block, width, see)
        case Table():
            draw = _draw_parts if block.repeated else _draw_table
            return draw(block, width, see)
        case Drawing():
            return _draw_drawing(block, width)
        case Graphic():
            plain = [draw_block(inner, width, see=see) for inner in block.plain()]
            shown = [item for item in plain if item is not None]
            return Group(*shown) if shown else None


def _styled(text: str, tone: Tone, limit: int = LONGEST_TEXT) -> Styled:
    return Styled(_clean(text, limit), style=STYLES[tone])


def _clean(text: str, limit: int = LONGEST_CELL) -> str:
    return clean(text, limit=limit)


def _indent(content: RenderableType, columns: int = INDENT) -> RenderableType:
    return Padding(content, (0, 0, 0, columns), expand=False)


def _draw_headline(block: Headline) -> RenderableType:
    word = _styled(f"{block.word}: ", block.tone)
    return word.append_text(_styled(block.text, "strong"))


def _more(number: int, see: str) -> Styled:
    return _styled(f"… {number} more, see {see}" if see else f"… {number} more", "muted")


def _draw_items(block: Items, width: int, see: str) -> RenderableType:
    shown = block.items[: block.limit]
    parts: list[RenderableType] = []
    for number, item in enumerate(shown, 1):
        grid = Grid.grid(padding=(0, 1, 0, 0))
        mark = f"{number}.".rjust(len(f"{len(shown)}.")) if block.ordered else "-"
        grid.add_row(Styled(mark), _draw_item(item))
        parts += [_indent(grid), *_draw_commands(item, width)]
    hidden = len(block.items) - len(shown)
    return Group(*parts, *([_indent(_more(hidden, see))] if hidden else []))


def _draw_item(item: Item) -> RenderableType:
    see = f"see {', '.join(dict.fromkeys(item.evidence))}" if item.evidence else ""
    text = _styled(item.text, item.tone)
    if not item.detail:
        return text.append_text(_styled(f" [{see}]", "muted")) if see else text
    notes = "; ".join(filter(None, (item.detail, see)))
    return Group(text, _styled(notes, "muted"))


def _draw_commands(item: Item, width: int) -> Iterator[Styled]:
    # A word of a command and a quoted text must not be broken; they may exceed the width.
    blanks = " " * INDENT
    for command in item.commands:
        for line in wrap_command(clean(command, limit=LONGEST_COMMAND), width - INDENT):
            yield Styled(f"{blanks}{line}", no_wrap=True, overflow="ignore")


def _draw_parts(block: Table, width: int, see: str) -> RenderableType:
    texts = [[row[index].text for row in block.rows] for index in range(len(block.columns))]
    titles = [column.title for column in block.columns]
    spanned = [row[0].text for row in block.rows if is_spanning(row)]
    widths = [
        max(cell_len(_clean(text)) for text in (title, *column) if text not in spanned)
        for title, column in zip(titles, texts, strict=True)
    ]
    parts = share_columns(widths, block.repeated, width - INDENT)
    drawn: list[RenderableType] = []
    for number, columns in enumerate(parts):
        part = _part_of(block, columns, is_last=number == len(parts) - 1)
        drawn += [""] if number else []
        drawn.append(_draw_table(replace(part, caption="") if number else part, width, see))
    return Group(*drawn)


def _part_of(block: Table, columns: Sequence[int], *, is_last: bool) -> Table:
    rows = [tuple(row[index] for index in columns) for row in block.rows[: block.limit]]
    hidden = block.rows[len(rows) :] if is_last else ()
    cut = [tuple(row[index] for index in columns) for row in hidden]
    return replace(
        block,
        columns=tuple(block.columns[index] for index in columns),
        # A continuation line may be empty for these sides.
        rows=(*(row for row in rows if any(cell.text for cell in row)), *cut),
        limit=sum(any(cell.text for cell in row) for row in rows),
        repeated=0,
    )


def _draw_table(block: Table, width: int, see: str) -> RenderableType:
    hidden = len(block.rows) - len(block.rows[: block.limit])
    clean_rows = [[_clean_cell(cell) for cell in row] for row in block.rows[: block.limit]]
    columns = [replace(column, title=_clean(column.title)) for column in block.columns]
    plain_rows = [row for row in clean_rows if not is_spanning(row)]
    common = _common_texts(columns, plain_rows)
    ranked = [
        replace(column, priority=COMMON_PRIORITY) if index in common else column
        for index, column in enumerate(columns)
    ]
    kept = choose_columns(ranked, plain_rows, width - INDENT)
    once = ", ".join(filter(None, (said for at, said in common.items() if at not in kept)))
    caption = f"{block.caption}; in all rows: {once}" if once else block.caption
    parts: list[RenderableType] = [_styled(caption, "strong")] if caption else []
    grid = _make_grid(columns, kept, show_header=True)
    headed = [
        index
        for index, column in enumerate(columns)
        if column.as_heading and index not in kept and index not in common
    ]
    for index in headed:
        clean_rows = list(_under_headings(clean_rows, index, columns[index].title))
    for row in clean_rows:
        if is_spanning(row):
            if grid.row_count or grid.show_header:
                parts.append(grid)
            parts.append(_draw_spanning(row[0]))
            grid = _make_grid(columns, kept, show_header=False)
        else:
            grid.add_row(
                *(Styled(row[index].text, style=STYLES[row[index].tone]) for index in kept)
            )
    parts += [grid] if grid.row_count or grid.show_header else []
    printed = kept.keys() | common.keys() | set(headed)
    parts += [*([_more(hidden, see)] if hidden else []), *_left_out(columns, printed)]
    return _indent(Group(*parts))


def _common_texts(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> dict[int, str]:
    # For each column that may be dropped, by index, the value that all of many rows share; "" if
    # there is none.
    common: dict[int, str] = {}
    for index, column in enumerate(columns):
        texts = {row[index].text for row in rows}
        text = texts.pop() if len(texts) == 1 and len(rows) > 1 else ""
        if text and 0 < column.priority < REFERENCE_PRIORITY:
            common[index] = "" if text == MISSING else f"{column.title} {text}".strip()
    return common


def _under_headings(rows: Sequence[list[Cell]], index: int, title: str) -> Iterator[list[Cell]]:
    # Rows with the same text in a column are grouped below one heading; rows with notes keep their
    # order.
    texts = list(dict.fromkeys(row[index].text for row in rows if not is_spanning(row)))
    if not any(map(is_spanning, rows)):
        rows = sorted(rows, key=lambda row: texts.index(row[index].text))
    last = None
    for row in rows:
        if not is_spanning(row) and row[index].text != last:
            last = row[index].text
            yield [
                Cell(text=f"{title}: {last or MISSING}", tone="muted"),
                *(Cell(text="") for _ in row[1:]),
            ]
        yield row


def _draw_spanning(cell: Cell) -> RenderableType:
    # Lines after the first are indented.
    words = cell.text.lstrip(" ")
    depth = min(len(cell.text) - len(words), DEEPEST_INDENT)
    return _indent(Styled(words, style=STYLES[cell.tone]), depth)


def _left_out(columns: Sequence[Column], printed: Collection[int]) -> Iterator[Styled]:
    missed = [
        column.title
        for index, column in enumerate(columns)
        if index not in printed and column.priority < REFERENCE_PRIORITY
    ]
    if missed:
        yield _styled(f"columns not shown at this width: {', '.join(missed)}", "muted")


def _make_grid(columns: Sequence[Column], kept: Mapping[int, int], *, show_header: bool) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=show_header)
    for index, columns_wide in kept.items():
        column = columns[index]
        # Right-aligned cells are numbers, and a cut number would be wrong.
        grid.add_column(
            Styled(column.title, style=STYLES["muted"]),
            justify=column.align,
            width=columns_wide,
            no_wrap=column.align == "right",
            overflow="ellipsis",
        )
    return grid


def _clean_cell(cell: Cell) -> Cell:
    return replace(cell, text=_clean(cell.text))


def _draw_drawing(block: Drawing, width: int) -> RenderableType:
    sides = [
        [_draw_title(title), *lines]
        for title, lines in zip(block.titles, block.columns, strict=True)
    ]
    beside = 1 if block.stacked else max(1, (width - INDENT + GAP) // (NARROWEST_COLUMN + GAP))
    # A rule over the whole width would be longer than any name.
    wide = min(width - INDENT, WIDEST_STACKED) if block.stacked else width - INDENT
    parts: list[RenderableType] = [_styled(block.caption, "strong")]
    for first in range(0, len(sides), beside):
        parts += [""] if first else []
        parts += _draw_beside(sides[first : first + beside], wide, min(beside, len(sides)))
    return _indent(Group(*parts))


def _draw_beside(
    sides: Sequence[Sequence[DrawingLine]], width: int, columns: int
) -> Iterator[RenderableType]:
    # Rows that are empty on all these sides belong to the sides above or below.
    each = (width - GAP * (columns - 1)) // columns
    for row in zip(*sides, strict=True):
        if any(line.text.strip() for line in row):
            yield Styled(" " * GAP, no_wrap=True).join(_fit(line, each) for line in row)


def _draw_title(title: str) -> DrawingLine:
    return DrawingLine(text=title, tone="muted")


def _fit(line: DrawingLine, columns: int) -> Styled:
    text = clean(line.text, limit=LONGEST_CELL)
    words = words_of_rule(text)
    if words is not None:
        text = f" {words}".rjust(columns, "-") if words else "-" * columns
    if cell_len(text) > columns:
        text = _shorten(text, columns)
    return Styled(set_cell_size(text, columns), style=STYLES[line.tone], no_wrap=True)


def _shorten(text: str, columns: int) -> str:
    # The beginning and the end of a name and its remark are more informative than its middle.
    name, arrow, said = text.partition(MARK)
    room = columns - len(arrow + said) - 1
    if room < FEWEST_LETTERS or cell_len(text) > len(text):
        return set_cell_size(text, columns - 1) + "…"
    front = room // 2
    return f"{name[:front]}…{name[front - room :]}{arrow}{said}"


def draw_section(
    blocks: Iterable[Block], title: str | None, width: int, *, see: str, is_dense: bool = False
) -> Iterator[RenderableType]:
    """Yield a section's renderables: its title, then the blocks, with blank lines between them.

    Paragraphs that follow each other have no blank line between them. A section of one paragraph is
    one line with its title.

    :param title: heading of the section; None for no heading
    :param see: option that shows the omitted rows: "--html or --json"; "" if there is none
    :param is_dense: whether only tables are preceded by a blank line
    """
    shown = [
        (block, drawn)
        for block in blocks
        if (drawn := draw_block(block, width, see=see)) is not None
    ]
    if title is not None:
        heading = Styled(clean(title, limit=LONGEST_CELL), style=STYLES["strong"])
        if len(shown) == 1 and _is_paragraph(only := shown[0][0]):
            yield Styled.assemble(heading, ": ", _paragraph(only, see))
            return
        yield heading
    previous: Block | None = None
    for block, drawn in shown:
        if previous is not None and not _are_close(previous, block, is_dense=is_dense):
            yield ""
        yield drawn
        previous = block


def _are_close(above: Block, below: Block, *, is_dense: bool) -> bool:
    if is_dense:
        return not isinstance(below, Table)
    return _is_paragraph(above) and _is_paragraph(below)


def _is_paragraph(block: Block) -> TypeGuard[Text | Table]:
    # Of a reference table, only the caption is shown.
    return isinstance(block, Text) or (isinstance(block, Table) and block.limit == 0)


def _paragraph(block: Text | Table, see: str) -> Styled:
    if isinstance(block, Text):
        return _styled(block.text, block.tone)
    return _styled(f"{block.caption} (see {see})" if see else block.caption, "muted")


def write_text(drawn: Iterable[RenderableType], width: int, *, colour: bool) -> str:
    """Return the renderables as lines of text without trailing blanks.

    Lines that a CI system would interpret as its commands, such as ``::error::``, are changed so
    that it does not.
    """
    written = io.StringIO()
    # Colour is the caller's decision, whatever the environment variables.
    console = Console(
        file=written,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    for part in drawn:
        console.print(part, crop=False)
    lines = written.getvalue().split("\n")[:-1]
    return clean_beginnings("".join(f"{line.rstrip()}\n" for line in lines))
