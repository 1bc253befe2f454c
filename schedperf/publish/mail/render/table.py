# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the tables of a mail: one line per result, its change and CI, the tip and the revert.

::

    hackbench -p -l 4000 -g N (version 2.5), seconds, lower is better. Mean of 4
    boots per kernel x 2 runs, interleaved. Parent c07cac21ad45.

       N  parent  commit  change            95% CI    tip  tip+revert
      16   1.736   2.105  +21.3%  [+19.7%, +22.8%]  2.117       1.732

A sweep is one table, with a column per parameter that varies. Several metrics of one command are
one table, too, with a column for their names.
"""

import os.path
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.model.rows import Row
from schedperf.model.units import Scale, scale_for
from schedperf.model.worse import is_worse
from schedperf.publish.culprit.figures import (
    Evidence,
    badness,
    is_interleaved,
    name_benchmark,
    show_change,
    show_interval,
)
from schedperf.publish.culprit.record import COMMIT_DIGITS, Measured
from schedperf.publish.culprit.workloads import command_of, is_alike, vary
from schedperf.publish.mail.plain import COLUMNS, INDENT, cut, spell, wrap
from schedperf.publish.mail.render.replicates import count_replicates, describe_order

MOST_ROWS = 24
MOST_TABLES = 3
# Names of the columns of a sweep whose parameters the command contains.
_LETTERS = "NMK"
_LONGEST_WORKLOAD = 110
_LONGEST_NAME = 60
_LONGEST_LABEL = 24
# Values of such different sizes have scales of their own.
_WIDE = 1000.0
_UNITS = {
    "": "count",
    "k": "thousands",
    "M": "millions",
    "G": "billions",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "/s": "per second",
    "k/s": "thousands per second",
    "M/s": "millions per second",
    "G/s": "billions per second",
}

Line = Sequence[str]


class Columns(Struct, frozen=True, kw_only=True):
    """What the columns of a table are about.

    :param main: the measurement of both sides and of the change
    :param titles: of both sides
    :param others: further kernels: title, and a function that returns the kernel's result for a
        row, or None
    """

    main: Measured
    titles: tuple[str, str]
    others: tuple[tuple[str, Callable[[Row], Row | None]], ...]


class Group(Struct, frozen=True, kw_only=True):
    """Results that one table shows.

    :param words: of the command in the caption
    :param heads: titles of the label columns; () for a single result
    :param labels: of each result, as many as ``heads``
    :param metric: what all rows measure; "" if it is a column
    """

    rows: tuple[Row, ...]
    words: tuple[str, ...]
    heads: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    metric: str


def report_columns(evidence: Evidence) -> Columns:
    """Return the columns of a report: tip and revert are left out if they were not measured."""
    culprit = evidence.culprit
    revert = culprit.revert.result if culprit.revert else None
    # If the tip was measured, the revert is applied to it.
    measured = (("tip", culprit.tip), ("tip+revert" if culprit.tip else "revert", revert))
    return Columns(
        main=culprit.main,
        titles=("good", "bad") if culprit.is_range else ("parent", "commit"),
        others=tuple((title, _reader(evidence, each)) for title, each in measured if each),
    )


def fix_columns(evidence: Evidence, fix: Measured) -> Columns:
    """Return the columns of a mail about a fix: the fix against the parent, beside the commit."""
    main = evidence.culprit.main
    title = "bad" if evidence.culprit.is_range else "commit"
    return Columns(
        main=fix,
        titles=("good" if evidence.culprit.is_range else "parent", "fix"),
        others=((title, _reader(evidence, main)),),
    )


def _reader(evidence: Evidence, measured: Measured) -> Callable[[Row], Row | None]:
    return lambda row: evidence.row_like(measured, row)


def draw_tables(evidence: Evidence, columns: Columns, link: str | None) -> list[str]:
    """Return the lines of the tables with their captions, and the A/A line if A/A was measured.

    They have at most 24 results in three tables; the others are counted. Results of other commands
    are shown only if they changed.

    :param link: URL of all results; None if they are not published
    :raises InputError: a text is not allowed in mails
    """
    groups = _groups(evidence, columns.main)
    lines: list[str] = []
    left, room = 0, MOST_ROWS
    for number, group in enumerate(groups):
        kept = _kept(evidence, group, room) if number < MOST_TABLES else None
        if kept is None:
            left += len(group.rows)
            continue
        left += len(group.rows) - len(kept.rows)
        room -= len(kept.rows)
        lines += [*([""] if lines else []), *_draw(evidence, kept, columns, is_first=number == 0)]
    if left:
        where = f", see {link}" if link else " in the comparison"
        lines.append(f"{left} more result{'s' * (left > 1)}{where}")
    return [*lines, *_a_a(evidence)]


def _groups(evidence: Evidence, main: Measured) -> list[Group]:
    """Return the groups of the results, that of the regression that decided first.

    Those of the same command follow, then others that changed.
    """
    headline = evidence.headline()
    rows = evidence.rows(main)
    own = next((row for row in rows if row.question == headline.question), None)
    in_order = [
        row for row in _in_order(evidence, main) if is_alike(row, headline) or _has_changed(row)
    ]
    sweeps: dict[object, list[Row]] = {}
    for row in in_order:
        sweeps.setdefault(_sweep_of(row), []).append(row)
    groups: list[Group] = []
    single: dict[object, list[Row]] = {}
    for of_sweep in sweeps.values():
        group = _sweep(of_sweep) if len(of_sweep) > 1 else None
        if group is None:
            for row in of_sweep:
                single.setdefault(command_of(row).shown, []).append(row)
        else:
            groups.append(group)
    groups += [_metrics(of_one) for of_one in single.values()]
    return sorted(
        groups,
        key=lambda group: (
            own not in group.rows,
            not any(is_alike(row, headline) for row in group.rows),
            -max(map(badness, group.rows)),
        ),
    )


def _in_order(evidence: Evidence, main: Measured) -> list[Row]:
    order = {row.question: index for index, row in enumerate(evidence.comparison(main).rows)}
    return sorted(evidence.rows(main), key=lambda row: order.get(row.question, 0))


def _has_changed(row: Row) -> bool:
    return is_worse(row) or row.verdict == "improvement"


def _sweep_of(row: Row) -> object:
    words = command_of(row).shown
    names = tuple(word.partition("=")[0] for word in command_of(row).rest)
    return name_benchmark(row.workload), len(words), names, row.metric, row.unit, row.better


def _sweep(rows: Sequence[Row]) -> Group | None:
    """Return the table of a sweep; None if it is none, or has more than three parameters."""
    commands = [command_of(row) for row in rows]
    words = [command.shown for command in commands]
    places = vary(words)
    if places is None or not 0 < len(places) <= len(_LETTERS):
        return None
    letters = iter(_LETTERS)
    caption, heads = list(words[0]), []
    for place in places:
        is_named = place >= len(commands[0].words)
        name = caption[place].partition("=")[0] if is_named else next(letters)
        heads.append(cut(spell(name, where="result"), _LONGEST_LABEL))
        caption[place] = "" if is_named else name
    labels = tuple(
        tuple(
            cut(spell(_label(each[place], head), where="result"), _LONGEST_LABEL)
            for place, head in zip(places, heads, strict=True)
        )
        for each in words
    )
    if len(set(labels)) < len(labels):
        return None
    return Group(
        rows=tuple(rows),
        words=tuple(filter(None, caption)),
        heads=tuple(heads),
        labels=labels,
        metric=rows[0].metric,
    )


def _label(word: str, head: str) -> str:
    return word.removeprefix(f"{head}=")


def _metrics(rows: Sequence[Row]) -> Group:
    """Return the table of one command, with a column for the metrics if they are several."""
    words = command_of(rows[0]).shown
    if len(rows) == 1:
        return Group(rows=(rows[0],), words=words, heads=(), labels=((),), metric=rows[0].metric)
    ordered = sorted(rows, key=lambda row: (is_worse(row), badness(row)), reverse=True)
    return Group(
        rows=tuple(ordered),
        words=words,
        heads=("metric",),
        labels=tuple((name,) for name in _short_metrics(ordered)),
        metric="",
    )


def _short_metrics(rows: Sequence[Row]) -> list[str]:
    """Return the metrics without the words that all of them begin with."""
    names = [spell(row.metric, where="metric").split() for row in rows]
    common = len(os.path.commonprefix(names))  # noqa: RUF071 # of lists of words
    common = min(common, *(len(name) - 1 for name in names))
    return [" ".join(name[max(common, 0) :]) for name in names]


def _kept(evidence: Evidence, group: Group, room: int) -> Group | None:
    """Return a group with at most so many results; None without room.

    What decided, and the improvement that the subject names, are kept.
    """
    if room <= 0:
        return None
    if len(group.rows) <= room:
        return group
    first = [evidence.headline().question, *(row.question for row in evidence.improvements()[:1])]
    ranked = sorted(
        range(len(group.rows)),
        key=lambda index: (
            group.rows[index].question in first,
            is_worse(group.rows[index]),
            badness(group.rows[index]),
        ),
        reverse=True,
    )
    shown = sorted(ranked[:room], key=lambda index: badness(group.rows[index]), reverse=True)
    return Group(
        rows=tuple(group.rows[index] for index in shown),
        words=group.words,
        heads=group.heads,
        labels=tuple(group.labels[index] for index in shown),
        metric=group.metric,
    )


def _draw(evidence: Evidence, group: Group, columns: Columns, *, is_first: bool) -> list[str]:
    scales = _scales(group.rows)
    lines = _fit(group, columns, scales)
    is_one_unit = len({scale.unit for scale in scales}) == 1
    return [*_caption(evidence, group, columns, scales, is_first=is_first, has_unit=is_one_unit),
            "", *lines]  # fmt: skip


def _scales(rows: Sequence[Row]) -> list[Scale]:
    """Return the scale of each row: one for all rows if they have one unit and similar sizes."""
    values = [abs(value) for row in rows for value in (row.base, row.new) if value]
    is_wide = bool(values) and max(values) >= _WIDE * min(values)
    if len({row.unit for row in rows}) > 1 or is_wide:
        return [scale_for(row.unit, row.base, row.new) for row in rows]
    scale = scale_for(rows[0].unit, *(value for row in rows for value in (row.base, row.new)))
    return [scale] * len(rows)


def _caption(
    evidence: Evidence,
    group: Group,
    columns: Columns,
    scales: Sequence[Scale],
    *,
    is_first: bool,
    has_unit: bool,
) -> list[str]:
    row = group.rows[0]
    command = cut(spell(" ".join(group.words), where="workload"), _LONGEST_WORKLOAD)
    name = command or "unknown command"
    is_time = row.metric == f"{name_benchmark(row.workload)} time"
    metric = "" if is_time else cut(spell(group.metric, where="metric"), _LONGEST_NAME)
    directions = {each.better for each in group.rows}
    parts = [
        f"{name}{_of_program(evidence, columns, row)}",
        metric,
        name_unit(scales[0]) if has_unit else "",
        _direction(row) if len(directions) == 1 else "",
    ]
    sentences = [f"{', '.join(filter(None, parts))}."]
    if is_first:
        comparison = evidence.comparison(columns.main)
        order = describe_order(interleaved=is_interleaved(comparison, group.rows))
        good = evidence.culprit.good.commit[:COMMIT_DIGITS]
        base = f"Good is {good}." if evidence.culprit.is_range else f"Parent {good}."
        sentences += [f"Mean of {count_replicates(row)}, {order}.", base]
        if "number of" in sentences[1]:
            sentences[1] = f"{count_replicates(row).capitalize()}, {order}."
    return wrap(spell(" ".join(sentences), where="result"))


def _of_program(evidence: Evidence, columns: Columns, row: Row) -> str:
    """Return the version of the program, or the tool that ran it: `` (version 2.5)``."""
    side = evidence.side(columns.main)
    if side.imported is not None:
        return f" of {cut(spell(side.imported, where='format'), _LONGEST_LABEL)}"
    name = name_benchmark(row.workload).partition(" ")[0]
    programs: Mapping[str, str | None] = {
        program.name: program.version
        for recording in side.recordings
        for program in recording.programs
    }
    version = cut(spell(programs.get(name) or "", where="version"), _LONGEST_LABEL)
    if not version:
        return ""
    return f" (version {version})" if version[0].isdigit() else f" ({version})"


def _fit(group: Group, columns: Columns, scales: Sequence[Scale]) -> list[str]:
    """Return the lines of a table that has at most 78 columns.

    Further kernels are left out if it is too wide, because the text above the table has them. If
    that is not enough, the labels are shortened at their ends.
    """
    for others in (columns.others, ()):
        figures = [[*columns.titles, "change", "95% CI", *(title for title, _ in others)]]
        figures += _cells(group.rows, scales, others)
        for longest in (10 * COLUMNS, _LONGEST_LABEL):
            labels = [[cut(each, longest) for each in row] for row in _labels(group, scales)]
            lines = _align(labels, figures)
            if max(map(len, lines)) <= COLUMNS and _are_different(labels):
                return lines
    return _above(_labels(group, scales), figures)


def _labels(group: Group, scales: Sequence[Scale]) -> list[list[str]]:
    """Return the label cells, the head first; the units follow the labels if they differ."""
    head, rows = [*group.heads], [[*labels] for labels in group.labels]
    if len({scale.unit for scale in scales}) > 1:
        head = [*head, "unit"]
        rows = [
            [*labels, spell(scale.unit, where="unit")]
            for labels, scale in zip(rows, scales, strict=True)
        ]
    return [head, *rows]


def _are_different(labels: Sequence[Line]) -> bool:
    rows = labels[1:]
    return len(set(map(tuple, rows))) == len(rows)


def _above(labels: Sequence[Line], figures: Sequence[Line]) -> list[str]:
    """Return a table whose labels are on lines of their own, because they are too long."""
    head, *rows = _align([[] for _ in figures], figures)
    named = [cut(", ".join(filter(None, label)), COLUMNS - len(INDENT)) for label in labels[1:]]
    drawn = [head]
    for name, row in zip(named, rows, strict=True):
        drawn += [f"{INDENT}{name}", row] if name else [row]
    return drawn


def _cells(
    rows: Sequence[Row],
    scales: Sequence[Scale],
    others: Sequence[tuple[str, Callable[[Row], Row | None]]],
) -> list[list[str]]:
    """Format the figures of each row; those of one scale have the same number of decimals."""
    values = []
    for row in rows:
        further = [get(row) for _, get in others]
        values.append([row.base, row.new, *(each.new if each else None for each in further)])
    texts = _format(values, scales)
    return [
        [base, new, *_change(row), *further]
        for row, (base, new, *further) in zip(rows, texts, strict=True)
    ]


def _format(
    values: Sequence[Sequence[float | None]], scales: Sequence[Scale]
) -> Iterator[Sequence[str]]:
    if all(scale == scales[0] for scale in scales):
        texts = iter(scales[0].format_alike([value for each in values for value in each]))
        for each in values:
            yield [next(texts) for _ in each]
    else:
        for each, scale in zip(values, scales, strict=True):
            yield scale.format_alike(each)


def _change(row: Row) -> tuple[str, str]:
    assert row.ratio is not None
    return show_change(row.ratio), show_interval(row)


def _align(labels: Sequence[Line], figures: Sequence[Line]) -> list[str]:
    """Pad the cells of each column to one width; the first line is the head.

    Figures are aligned to the right, and so are labels that are numbers.
    """
    columns = [*zip(*labels, strict=True)]
    pads = [
        str.rjust if all(cell.isdecimal() for cell in column[1:]) else str.ljust
        for column in columns
    ]
    widths = [max(map(len, column)) for column in columns]
    right = [max(map(len, column)) for column in zip(*figures, strict=True)]
    aligned = []
    for label, cells in zip(labels, figures, strict=True):
        first = [pad(cell, width) for pad, cell, width in zip(pads, label, widths, strict=True)]
        rest = [cell.rjust(width) for cell, width in zip(cells, right, strict=True)]
        aligned.append(f"{INDENT}{'  '.join([*first, *rest])}".rstrip())
    return aligned


def _direction(row: Row) -> str:
    return "better direction unknown" if row.better == "unknown" else f"{row.better} is better"


def name_unit(scale: Scale) -> str:
    """Return the unit of a scale in words: ``seconds``; an unknown unit is returned as it is."""
    return _UNITS.get(scale.unit, scale.unit)


def name_point(row: Row, rows: Sequence[Row]) -> str:
    """Return what distinguishes a row from others of its metric: ``-g 16``; "" if nothing does.

    :param rows: all rows, including ``row``
    :raises InputError: a label is not ASCII
    """
    alike = [command_of(each).shown for each in rows if _sweep_of(each) == _sweep_of(row)]
    places = vary(alike) if len(alike) > 1 else None
    own = command_of(row).shown
    parts = []
    for place in places or ():
        before = own[place - 1]
        is_value = before.startswith("-") and place < len(command_of(row).words)
        parts.append(f"{before} {own[place]}" if is_value else own[place])
    return spell(" ".join(parts), where="result")


def _a_a(evidence: Evidence) -> list[str]:
    """Return the lines about A/A (same kernel on both sides) for the regression that decided.

    :return: [] if A/A was not measured
    """
    headline = evidence.headline()
    row = evidence.row_like(evidence.culprit.a_a, headline)
    if row is None or row.ratio is None or row.ci_low is None or row.ci_high is None:
        return []
    name = name_point(headline, evidence.rows(evidence.culprit.main))
    which = f", {cut(name, _LONGEST_NAME)}" if name else ""
    text = f"A/A (parent against parent{which}): {show_change(row.ratio)} {show_interval(row)}"
    return wrap(spell(text, where="A/A"))
