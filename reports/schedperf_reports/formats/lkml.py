# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the result as plain text for a mailing list: ASCII, 72 columns except for long commands.

::

    result                  base          new              change [95% CI]
    hackbench -g 16  1.737s +-2%  2.117s +-3%  +21.8% [+16.1%, +27.9%] n=8

Readers of a mail or a cover letter cannot use options, so the text mentions none.
"""

import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath

from msgspec.structs import replace
from rich.console import RenderableType
from rich.text import Text as Styled

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row, SideStatistics
from schedperf.model.sections import Bearing
from schedperf.model.sides import SideSummary
from schedperf.model.text import ASCII, clean, clean_line, cut
from schedperf.model.units import MISSING, SIGNIFICANT_DIGITS, Scale, scale_for
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Drawing,
    Graphic,
    Headline,
    Item,
    Items,
    Table,
    Text,
)
from schedperf_reports.evidence.account import TITLE as TIME_TITLE
from schedperf_reports.evidence.account import time_lines
from schedperf_reports.formats import Options, output_format
from schedperf_reports.rates.cells import PER_COLUMN
from schedperf_reports.results.benchmarks import FAMILIES
from schedperf_reports.results.side_by_side import draw_movers, draw_side_by_side
from schedperf_reports.results.two_by_two import draw_two_by_two
from schedperf_reports.sections import ReportSection, shown_sections
from schedperf_reports.text.column_widths import GAP
from schedperf_reports.text.terminal import INDENT, draw_section, write_text
from schedperf_reports.verdict.comparable import describe_machines, has_machines, name_kernel
from schedperf_reports.verdict.findings import (
    EFFECTS,
    NOT_A_CAUSE,
    NOTHING_DECIDED,
    absent_sections,
    in_short,
)
from schedperf_reports.verdict.source import describe_source
from schedperf_reports.words.quantities import format_change, format_interval, is_wide
from schedperf_reports.words.rows import (
    count_values,
    describe_directions,
    has_changed,
    merge_caveats,
    name_rows,
    name_side,
    name_with_role,
)

# A reply that quotes it twice ("> > ") still fits into 76 columns.
WIDTH = 72
MOST_RESULTS = 24
MOST_TIMES = 4
MOST_FINDINGS = 3
# Number of commands that recorded the sides, and characters of each: mails limit a line to 998.
MOST_RECORDINGS = 4
LONGEST_COMMAND = 900
# Number formats from wide to narrow, so that a result fits on a line: complete, with deviations as
# whole percentages, and with three digits.
SHORTEST = 2
FEW_DIGITS = 3
# Columns of evidence; q and columns for reference are left out.
MOST_PRIORITY = 2
# Digits of a digest that identify a recording.
DIGEST_DIGITS = 16
# Base and one new side.
PAIR = 2
# Caveats that no number of the text shows: unchecked fields, runs without a result, and results of
# another scheduler.
STATED = (
    "imported",
    "discarded-runs",
    "failed-runs",
    "work-not-done",
    "mixed-runs",
    "partial-scheduler",
)

# How others can add results.
FOR_REPORTERS = "results of another machine: docs/for-reporters.md of schedperf"

_CUT = re.compile(r"\S{0,2}…")


@output_format("lkml", drawings="never")
def lkml(comparison: Comparison, _options: Options) -> str:
    """Return plain text for a mailing list: the numbers and their basis, ASCII, 72 columns.

    Only a line with one long word of a command, such as a quoted text, is longer.
    """
    drawn = write_text(_draw(comparison), WIDTH, colour=False)
    # A name that was cut to a column keeps its length.
    return _CUT.sub(lambda cut: "." * len(cut[0]), drawn)


def to_ascii(text: str) -> str:
    """Return a text in ASCII; a character without an equivalent becomes "?".

    >>> to_ascii("base → new ±2%, naïve …")
    'base -> new +-2%, naive ...'
    """
    # Normalization also turns full-width characters into ASCII, e.g. a number sign into "#".
    spelled = clean(unicodedata.normalize("NFKD", text.translate(ASCII)))
    letters = "".join(letter for letter in spelled if not unicodedata.combining(letter))
    return letters.encode("ascii", "replace").decode()


def _draw(comparison: Comparison) -> Iterator[RenderableType]:
    for index, (title, blocks) in enumerate(_parts(comparison)):
        if index:
            yield ""
        if title is None and index:
            # The results are the widest lines.
            yield _draw_flush(map(_spell, blocks))
            continue
        yield from draw_section(map(_spell, blocks), title, WIDTH, see="", is_dense=True)


def _draw_flush(blocks: Iterable[Block]) -> Styled:
    """Indent blocks by one column.

    In a mailbox file, a line that begins with "From " starts a new mail, so no line begins at
    column 0.
    """
    wide = WIDTH + INDENT - 1
    text = write_text(draw_section(blocks, None, wide, see="", is_dense=True), wide, colour=False)
    lines = [line[INDENT - 1 :] for line in text.splitlines()]
    return Styled("\n".join(lines), no_wrap=True, overflow="ignore")


def _spell(block: Block) -> Block:
    # Done before lines are wrapped and columns aligned, because "->" is wider than an arrow.
    match block:
        case Text() | Headline():
            return replace(block, text=to_ascii(block.text))
        case Items():
            items = (replace(item, text=to_ascii(item.text)) for item in block.items)
            return replace(block, items=tuple(items))
        case Drawing():
            lines = (
                tuple(replace(line, text=to_ascii(line.text)) for line in column)
                for column in block.columns
            )
            return replace(
                block,
                caption=to_ascii(block.caption),
                titles=tuple(map(to_ascii, block.titles)),
                columns=tuple(lines),
            )
        case Table():
            titles = (replace(each, title=to_ascii(each.title)) for each in block.columns)
            rows = (
                tuple(replace(cell, text=to_ascii(cell.text)) for cell in row) for row in block.rows
            )
            return replace(
                block, caption=to_ascii(block.caption), columns=tuple(titles), rows=tuple(rows)
            )
    return block


def _parts(comparison: Comparison) -> Iterator[tuple[str | None, Iterable[Block]]]:
    sections = shown_sections(comparison)
    # The verdict, which comes first, and what differs between the sides.
    above = sections[0].describe(comparison)
    yield None, (block for block in above if isinstance(block, (Headline, Items, Text)))
    if comparison.rows:
        yield None, _results(comparison)
    else:
        drawings = tuple(_drawings(sections, comparison))
        if drawings:
            yield "Cache lines", drawings
    times = time_lines(comparison)
    if times:
        yield TIME_TITLE, (replace(times, limit=MOST_TIMES),)
    # With several sides, each side would have its own tables.
    if len(comparison.sides) == PAIR:
        for section in sections:
            table = _evidence(section, comparison)
            if table is not None:
                yield section.title, (table,)
    findings = tuple(_findings(comparison))
    if findings:
        effects_only = {each.bearing for each in comparison.findings} == {"effect"}
        has_reasons = has_changed(comparison) and not effects_only
        yield "Reasons" if has_reasons else "Findings", findings
    yield "Recordings", _recordings(comparison)


def _drawings(sections: Iterable[ReportSection], comparison: Comparison) -> Iterator[Drawing]:
    for section in sections:
        for block in section.describe(comparison):
            plain = block.plain() if isinstance(block, Graphic) else (block,)
            yield from (each for each in plain if isinstance(each, Drawing) and each.brief)


def _results(comparison: Comparison) -> tuple[Block, ...]:
    family = next(family for family in FAMILIES if any(r.family == family for r in comparison.rows))
    of_all = draw_side_by_side(comparison, family, brief=True)
    if of_all is not None:
        movers = draw_movers(comparison, family, brief=True)
        named = () if movers is None else (movers,)
        return (*of_all.plain(), *named, *draw_two_by_two(comparison.two_by_two))
    rows = [row for row in comparison.rows if row.family == family]
    return (_pair_results(comparison, rows),)


def _pair_results(comparison: Comparison, rows: Sequence[Row]) -> Table:
    base, new = map(name_side, comparison.sides)
    directions = describe_directions(rows)
    deviation = "+-: CV of the runs"
    titles = ("result", base, new, "change [95% CI]")
    return Table(
        caption=f"{deviation}; {directions}" if directions else deviation,
        columns=tuple(
            Column(title=title, align="right" if index else "left")
            for index, title in enumerate(titles)
        ),
        rows=tuple(_rows(rows, titles)),
        limit=MOST_RESULTS,
    )


Line = tuple[str, ...]


def _rows(rows: Sequence[Row], titles: Line) -> Iterator[tuple[Cell, ...]]:
    names = _name_results(rows)
    for shortness in range(SHORTEST + 1):
        lines = [_line(names[index], row, shortness) for index, row in enumerate(rows)]
        widths = [max(map(len, column)) for column in zip(titles, *lines, strict=True)]
        if sum(widths) + GAP * (len(widths) - 1) <= WIDTH - 1:
            yield from map(_cells, lines)
            return
    for index, row in enumerate(rows):
        yield _cells((names[index], *("" for _ in titles[1:])))
        yield _cells(_line("  ", row))


def _name_results(rows: Sequence[Row]) -> Mapping[int, str]:
    """Return a unique name for each result, by its index.

    The name is the command with the parameters if this is unique, else that of :func:`name_rows`.
    """
    names = name_rows(rows)
    metrics: dict[str, set[str]] = {}
    for row in rows:
        metrics.setdefault(row.workload, set()).add(row.metric)
    commands = {
        index: _name_command(row)
        for index, row in enumerate(rows)
        if len(metrics[row.workload]) == 1
    }
    counts = Counter((rows[index].side, command) for index, command in commands.items())
    told_apart = {
        index: command
        for index, command in commands.items()
        if command and counts[rows[index].side, command] == 1
    }
    return {**names, **told_apart}


def _name_command(row: Row) -> str:
    """Return the program and the options that parameters set: ``hackbench -g 16``.

    Return "" if the command does not use all parameters of the point, or if the point has none.
    """
    values = dict(part.split("=", 1) for part in row.point.split(",") if "=" in part)
    words = row.workload.split()
    filled: list[str] = []
    for before, word in pairwise(words):
        used = [name for name in values if f"{{{name}}}" in word]
        text = word
        for name in used:
            text = text.replace(f"{{{name}}}", values.pop(name))
        if used:
            filled += [before, text] if before.startswith("-") else [text]
    return " ".join((PurePath(words[0]).name, *filled)) if filled and not values else ""


def _line(name: str, row: Row, shortness: int = 0) -> Line:
    scale = scale_for(row.unit, row.base, row.new)
    return (
        name,
        _mean(row.base, row.statistics_base, scale, shortness),
        _mean(row.new, row.statistics_new, scale, shortness),
        f"{_change(row)} n={count_values(row)}",
    )


def _cells(texts: Line) -> tuple[Cell, ...]:
    return tuple(Cell(text=text) for text in texts)


def _change(row: Row) -> str:
    wide = is_wide(row.ci_low, row.ci_high)
    interval = "[too wide]" if wide else format_interval(row.ci_low, row.ci_high)
    return f"{format_change(row.ratio)} {interval}"


def _mean(
    mean: float | None, statistics: SideStatistics | None, scale: Scale, shortness: int
) -> str:
    if mean is None:
        return MISSING
    # The change has the digits that are omitted here.
    digits = FEW_DIGITS if shortness == SHORTEST else SIGNIFICANT_DIGITS
    text = f"{scale.format(mean, digits)}{scale.unit}"
    if statistics is None or statistics.cv is None:
        return text
    deviation = 100.0 * statistics.cv
    return f"{text} +-{deviation:.{int(deviation < 1.0 and not shortness)}f}%"


def _evidence(section: ReportSection, comparison: Comparison) -> Table | None:
    blocks = section.describe(comparison) if section.mail_rows else ()
    table = next((block for block in blocks if isinstance(block, Table) and block.rows), None)
    if table is None:
        return None
    rows = _of_one_denominator(table)[: section.mail_rows]
    shown = [
        index
        for index, column in enumerate(table.columns)
        if column.priority < MOST_PRIORITY or _is_common(index, column, rows)
    ]
    return replace(
        table,
        columns=tuple(table.columns[index] for index in shown),
        rows=tuple(tuple(row[index] for index in shown) for row in rows),
        limit=None,
    )


def _of_one_denominator(table: Table) -> Sequence[Sequence[Cell]]:
    """Return the rows with the same denominator as the first row.

    A mail has no room for a column of denominators. A table without this column keeps all rows.
    """
    per = next((i for i, column in enumerate(table.columns) if column is PER_COLUMN), None)
    return [row for row in table.rows if per is None or row[per].text == table.rows[0][per].text]


def _is_common(index: int, column: Column, rows: Sequence[Sequence[Cell]]) -> bool:
    # The caption states a text that is the same in all rows, such as the unit of rates.
    has_text = column.align == "left" and column.priority < REFERENCE_PRIORITY
    return has_text and len({row[index].text for row in rows}) == 1


def _findings(comparison: Comparison) -> Iterator[Block]:
    reasons = tuple(_items(comparison, "reason"))
    if reasons:
        yield Items(items=reasons, ordered=True)
        yield Text(text=NOT_A_CAUSE if has_changed(comparison) else NOTHING_DECIDED)
    effects = tuple(_items(comparison, "effect"))
    if effects:
        yield Text(text=f"{EFFECTS}:")
        yield Items(items=effects)
    unseen = (in_short(each) for each in comparison.findings if each.bearing == "unseen")
    absent = absent_sections(comparison) if has_machines(comparison.sides) else []
    titles = "; ".join(section.title for section in absent)
    for text in dict.fromkeys(filter(None, (*unseen, titles))):
        yield Text(text=f"not measured: {text}")


def _items(comparison: Comparison, bearing: Bearing) -> Iterator[Item]:
    findings = [each for each in comparison.findings if each.bearing == bearing]
    of_side = {side.name: f"{name_side(side)}: " for side in comparison.sides}
    several = len(comparison.sides) > PAIR
    for each in findings[:MOST_FINDINGS]:
        yield Item(text=f"{of_side[each.side] if several else ''}{in_short(each)}")


def _recordings(comparison: Comparison) -> Iterator[Block]:
    machines = describe_machines(comparison.sides)
    yield Text(text=f"machine: {machines}" if machines else "machine not recorded")
    sides = map(_recording, comparison.sides)
    yield Items(items=(*sides, *_caveats(comparison), Item(text=FOR_REPORTERS)))
    recorded = dict.fromkeys(
        _spell_command(each.command) for side in comparison.sides for each in side.recordings
    )
    # Readers do not have the files, but can make their own recording.
    text = "record and compare with:" if recorded else "compare with:"
    commands = (*list(recorded)[:MOST_RECORDINGS], _spell_command(comparison.command))
    yield Items(items=(Item(text=text, commands=commands),))


def _spell_command(words: Sequence[str]) -> str:
    text = to_ascii(clean_line(shlex.join(words)))
    return to_ascii(cut(text, LONGEST_COMMAND))


def _caveats(comparison: Comparison) -> Iterator[Item]:
    caveats = (caveat for caveat in comparison.caveats if caveat.code in STATED)
    for each in merge_caveats(caveats):
        yield Item(text=each.text)


def _recording(side: SideSummary) -> Item:
    kernel = name_kernel(side)
    parts = (
        "" if kernel is None else f"kernel {kernel}",
        "" if side.source is None else describe_source(side.source),
        side.path,
        side.recorded_by or "unknown recorder",
        f"sha256 of the data {side.digest[:DIGEST_DIGITS]}...",
    )
    return Item(text=f"{name_with_role(side)}: {', '.join(filter(None, parts))}")
