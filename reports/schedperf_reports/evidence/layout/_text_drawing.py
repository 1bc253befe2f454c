# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw cache lines as text: a column per kernel, a row per name."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from schedperf.evidence.layout.record import LayoutColumn, LayoutRow, LayoutWindow
from schedperf_reports.blocks import Drawing, DrawingLine, Tone
from schedperf_reports.words.rows import side_place

# Two columns, two borders and a gap of two make the 78 columns of piped text.
COLUMN_WIDTH = 37
# Kernels whose equal variables are aligned.
MOST_BESIDE = 2
# Names that a caption lists; further ones are counted.
MOST_NAMES = 4

_NOTHING = DrawingLine(text="")
_MATES_CHANGED = "mates changed"


def draw_window(window: LayoutWindow, line_bytes: int) -> Drawing:
    """Return the drawing of one part of a unit: two kernels side by side, more below each other."""
    columns = window.columns
    is_alone = len(columns) == 1
    is_stacked = len(columns) > MOST_BESIDE
    rows = (
        [*zip_longest(*(column.rows for column in columns))]
        if is_stacked
        else align([column.rows for column in columns])
    )
    # If variables moved, were added or removed, changed neighbours are not marked.
    silent = "" if _has_only(window, _MATES_CHANGED) else _MATES_CHANGED
    lines = [
        [draw_row(row[at], line_bytes, is_alone=is_alone, silent=silent) for row in rows]
        for at in range(len(columns))
    ]
    for column, drawn in zip(columns, lines, strict=True):
        if column.reason:
            drawn[:1] = [DrawingLine(text=f"({column.reason})", tone="muted")]
    # A missing unit has one row, the reason.
    height = max(map(len, lines), default=0)
    return Drawing(
        caption=_caption(window),
        titles=tuple(_title(column) for column in columns),
        columns=tuple((*drawn, *[_NOTHING] * (height - len(drawn))) for drawn in lines),
        places=tuple(side_place(column.side) for column in columns),
        stacked=is_stacked,
    )


def _title(column: LayoutColumn) -> str:
    side, label = column.side, column.label
    return side if side == label else f"{side}: {label}"


def draw_map(column: LayoutColumn, line_bytes: int, caption: str) -> Drawing:
    """Return one kernel's rows as a drawing of one column, with types and sizes."""
    lines = tuple(draw_row(row, line_bytes, is_alone=True) for row in column.rows)
    places = (side_place(column.side),)
    return Drawing(caption=caption, titles=(column.label,), columns=(lines,), places=places)


def _has_only(window: LayoutWindow, mark: str) -> bool:
    marks = {row.mark for column in window.columns for row in column.rows}
    return marks <= {mark, ""}


def _caption(window: LayoutWindow) -> str:
    addresses = [row.address for column in window.columns for row in column.rows]
    start = f" from offset {min(addresses):x}" if addresses else ""
    names = window.inserted
    came = f"; inserted here: {list_names(names, len(names))}" if names else ""
    return f"{call_unit(window.unit)}{start}{came}"


def call_unit(unit: str) -> str:
    """Return the name of a unit for sentences.

    >>> call_unit("percpu"), call_unit("struct rq")
    ('per-CPU section', 'struct rq')
    """
    return {"percpu": "per-CPU section", "globals": "global variables"}.get(unit, unit)


def list_names(names: Sequence[str], total: int, most: int = MOST_NAMES) -> str:
    """Return the first names and the number of further ones.

    >>> list_names(["sd_llc", "sd_llc_id", "sd_numa"], 9, 2)
    'sd_llc, sd_llc_id and 7 more'

    :param total: number of all names, some of which ``names`` may lack
    :param most: maximum number of listed names
    """
    shown = names[:most]
    more = total - len(shown)
    return f"{', '.join(shown)} and {more} more" if more else ", ".join(shown)


def align(columns: Sequence[Sequence[LayoutRow]]) -> list[list[LayoutRow | None]]:
    """Align equal entries of several columns, keeping the order of each column.

    :return: rows with one element per column; None for no entry
    """
    rows: list[list[LayoutRow | None]] = [[entry] for entry in columns[0]]
    keys = _keys(columns[0])
    for count, column in enumerate(columns[1:], 1):
        rows, keys = _add_column(rows, keys, column, count)
    return rows


_Key = tuple[str, str]


def _add_column(
    rows: list[list[LayoutRow | None]], keys: list[_Key], column: Sequence[LayoutRow], count: int
) -> tuple[list[list[LayoutRow | None]], list[_Key]]:
    names = _keys(column)
    matcher = SequenceMatcher(None, keys, names, autojunk=False)
    wider: list[list[LayoutRow | None]] = []
    wider_keys: list[_Key] = []
    for _, first, last, new_first, new_last in matcher.get_opcodes():
        beside = zip_longest(rows[first:last], column[new_first:new_last])
        wider += [[*(row or [None] * count), entry] for row, entry in beside]
        named = zip_longest(keys[first:last], names[new_first:new_last])
        wider_keys += [key or name or ("", "") for key, name in named]
    return wider, wider_keys


def _keys(rows: Sequence[LayoutRow]) -> list[_Key]:
    # A boundary, a gap or a hole belongs to the entry after it.
    keys: list[_Key] = []
    following = ""
    for row in reversed(rows):
        is_entry = row.kind == "entry"
        following = row.name if is_entry else following
        keys.append((row.kind, following))
    return keys[::-1]


def draw_row(
    row: LayoutRow | None, line_bytes: int, *, is_alone: bool, silent: str = ""
) -> DrawingLine:
    """Return the line for one row of a column.

    :param row: the row; None for an empty line
    :param is_alone: whether there is room for its type and size
    :param silent: a mark that is not printed; "" to print all
    """
    if row is None:
        return _NOTHING
    if row.kind == "boundary":
        rule = f" {line_bytes} B cacheline boundary".rjust(COLUMN_WIDTH, "-")
        return DrawingLine(text=rule, tone="muted")
    if row.kind == "gap":
        return DrawingLine(text=f"      … {row.name}", tone="muted")
    if row.kind == "hole":
        return DrawingLine(text=f"{row.address:x} (hole, {row.size} bytes)", tone="muted")
    mark: str = row.mark if row.mark != silent else ""
    if is_alone and row.is_hot:
        mark = mark or "hot"
    tone: Tone = "warning" if mark else "strong" if row.is_hot else "plain"
    shown = f"  <- {mark}" if mark else ""
    return DrawingLine(text=" ".join(_words(row, is_alone=is_alone)) + shown, tone=tone)


def _words(row: LayoutRow, *, is_alone: bool) -> Iterator[str]:
    # The name comes first, because long rows are cut at the end.
    yield f"{row.address:x}"
    if row.letter:
        yield row.letter
    yield row.name
    if row.bits:
        yield f":{row.bits[1]}"
    if is_alone and row.type:
        yield f" {row.type}"
    if is_alone and row.size is not None and not row.bits:
        yield f"({row.size})"
