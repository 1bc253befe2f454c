# SPDX-License-Identifier: GPL-2.0-or-later
r"""Draw blocks as GitHub-flavoured Markdown; untrusted text is escaped.

>>> print(escape("update_cfs_group *is* <b>slower</b>, see [x](y)"))
update_cfs_group \*is\* \<b>slower\</b>, see \[x](y)
>>> print(escape("ask @torvalds at https://example.org"))
ask `@torvalds` at `https://example.org`
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from schedperf_reports.blocks import (
    Block,
    Cell,
    Drawing,
    Headline,
    Item,
    Items,
    Table,
    Text,
    is_note,
    is_spanning,
)
from schedperf_reports.text.commands import wrap_command
from schedperf_reports.text.terminal import LONGEST_COMMAND, draw_block, write_text
from schedperf_reports.words.clean import clean

# Maximum length of a name, as in the text for a terminal.
LONGEST_TEXT = 2000

# Maximum width of a drawing with its sides next to each other, in columns.
DRAWING_COLUMNS = 100

# Characters that begin emphasis, code, a link, an image, HTML or an entity. An underscore between
# letters begins nothing.
_SPECIAL = re.compile(r"[\\`*~<\[&]|(?<![^\W_])_|_(?![^\W_])")

# Characters that begin a list, a heading, a quotation or a rule at the start of a line.
_BEGINS_BLOCK = tuple("#>+=-")
_NUMBER_OF_LIST = re.compile(r"\d{1,9}(?=[.)])")

# Words that GitHub converts even after a backslash: mentions and addresses, links, issue numbers,
# commit hashes, emoji and formulas. It leaves them alone in a code span.
_ACTIVE = re.compile(
    r"@|://|www\.|#\d|GH-\d|:[\w+-]+:|\$|(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])", re.IGNORECASE
)


def escape(text: str) -> str:
    """Escape one line for Markdown, so that it is shown unchanged, without links and mentions."""
    words = clean(text, limit=LONGEST_TEXT).split()
    return " ".join(
        code(word) if _ACTIVE.search(word) else _SPECIAL.sub(r"\\\g<0>", word) for word in words
    )


def _escape_line(text: str) -> str:
    # A text at the start of a line must not begin a list or a heading either.
    line = escape(text)
    number = _NUMBER_OF_LIST.match(line)
    if number is not None:
        return f"{number[0]}\\{line[number.end() :]}"
    return f"\\{line}" if line.startswith(_BEGINS_BLOCK) else line


def code(text: str) -> str:
    """Return a text as a code span; "" for an empty text."""
    line = clean(text, limit=LONGEST_TEXT).strip()
    if not line:
        return ""
    fence = _fence(line, shortest=1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _fence(text: str, *, shortest: int) -> str:
    # Longer than any sequence of backticks in the text, so that none of them ends the span.
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(shortest, longest + 1)


def draw_section(blocks: Sequence[Block], title: str | None) -> Iterator[str]:
    """Yield a section's paragraphs, without the empty lines between them.

    :param blocks: blocks, with graphics replaced by their plain blocks
    :param title: heading of the section; None for no heading
    """
    if title is not None:
        yield f"## {escape(title)}"
    for block in blocks:
        yield from _draw(block)


def _draw(block: Block) -> Iterator[str]:
    match block:
        case Headline():
            yield f"# {escape(block.word)}: {escape(block.text)}"
        case Text():
            yield _escape_line(block.text)
        case Items():
            yield "\n".join(_draw_items(block))
        case Table(limit=0):
            yield _escape_line(block.caption)
        case Table():
            yield from _draw_table(block)
        case Drawing():
            drawn = draw_block(block, DRAWING_COLUMNS, see="")
            assert drawn is not None
            text = write_text([drawn], DRAWING_COLUMNS, colour=False)
            fence = _fence(text, shortest=3)
            yield f"{fence}text\n{text}{fence}"


def _draw_items(block: Items) -> Iterator[str]:
    for number, item in enumerate(block.items[: block.limit], 1):
        mark = f"{number}." if block.ordered else "-"
        yield f"{mark} {_draw_item(item)}"
        yield from _draw_commands(item, " " * (len(mark) + 1))
    hidden = len(block.items[block.limit :]) if block.limit is not None else 0
    if hidden:
        yield f"- … {hidden} more"


def _draw_item(item: Item) -> str:
    see = [f"see {', '.join(dict.fromkeys(item.evidence))}"] if item.evidence else []
    notes = "; ".join(filter(None, (item.detail, *see)))
    return _escape_line(f"{item.text} ({notes})" if notes else item.text)


def _draw_commands(item: Item, indent: str) -> Iterator[str]:
    lines = [
        line
        for command in item.commands
        for line in wrap_command(clean(command, limit=LONGEST_COMMAND), DRAWING_COLUMNS)
    ]
    if lines:
        fence = _fence("\n".join(lines), shortest=3)
        yield from (f"{indent}{line}" for line in (f"{fence}sh", *lines, fence))


def _draw_table(block: Table) -> Iterator[str]:
    yield f"**{escape(block.caption)}**"
    shown = block.rows[: block.limit]
    lines = [
        _join(escape(column.title) for column in block.columns),
        _join("---:" if column.align == "right" else "---" for column in block.columns),
        *(_draw_row(block, row) for row in shown if not is_note(row)),
    ]
    yield "\n".join(lines)
    notes = list(_notes(shown))
    hidden = len(block.rows) - len(shown)
    notes += [f"- … {hidden} more"] if hidden else []
    if notes:
        yield "\n".join(notes)


def _draw_row(block: Table, row: Sequence[Cell]) -> str:
    if is_spanning(row):
        return _join([f"**{escape(row[0].text)}**", *("" for _ in row[1:])])
    return _join(
        code(cell.text) if column.code else escape(cell.text)
        for column, cell in zip(block.columns, row, strict=True)
    )


def _notes(rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    # A sentence does not fit into a cell of one column, so it is printed below, with the row's
    # name.
    heading, name = "", ""
    for row in rows:
        text = row[0].text
        if is_note(row):
            label = ": ".join(filter(None, (name, text.strip())))
            yield f"- {_escape_line(label)}"
        elif is_spanning(row):
            heading, name = text.strip(), text.strip()
        else:
            is_below = text.startswith(" ") and heading
            name = f"{heading} {text.strip()}" if is_below else text.strip()


def _join(cells: Iterable[str]) -> str:
    # Markdown splits a row into cells first, even inside of code spans.
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
