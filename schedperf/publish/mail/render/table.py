# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the table of a mail: one line per result, its change and CI, the tip and the revert.

::

      G    parent   commit    change           95% CI     tip  tip+revert
     16     1.737    2.117    +21.8%  [+16.1%, +27.9%]  2.109       1.741
"""

import os.path
from collections.abc import Callable, Sequence

from schedperf.model.rows import Row
from schedperf.model.units import Scale, scale_for
from schedperf.publish.culprit.figures import (
    Evidence,
    badness,
    is_interleaved,
    is_worse,
    show_change,
    show_interval,
)
from schedperf.publish.mail.plain import COLUMNS, INDENT, cut, cut_middle, spell, wrap
from schedperf.publish.mail.render.replicates import count_replicates

MOST_ROWS = 24
# A result in a table with several metrics takes two lines.
MOST_MIXED_ROWS = 16
_LONGEST_WORKLOAD = 120
_LONGEST_NAME = 60
# Number of columns: the label, both sides, the change and its CI.
_OWN_CELLS = 5
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


def draw_table(evidence: Evidence, link: str | None) -> list[str]:
    """Return the lines of the table with its caption, and the A/A line if A/A was measured.

    The table has at most 24 results, or 16 if it has several metrics; the others are counted.

    :param link: URL of all results; None if they are not published
    :raises InputError: a text is not allowed in mails
    """
    rows = _chosen(evidence)
    comparison = evidence.main
    count = count_replicates(rows, interleaved=is_interleaved(comparison, rows))
    about = f"{count}; change is relative to the {_base(evidence)}."
    shown = _first(evidence, rows, MOST_ROWS)
    drawn = _one_metric(evidence, shown, about)
    if drawn is None:
        shown = _first(evidence, rows, MOST_MIXED_ROWS)
        drawn = _mixed(evidence, shown, about)
    left = len(rows) - len(shown)
    if left:
        where = f", see {link}" if link else " in the comparison"
        drawn.append(f"{left} more result{'s' * (left > 1)}{where}")
    return [*drawn, *_a_a(evidence, rows)]


def _chosen(evidence: Evidence) -> list[Row]:
    """Return all rows: in the order of the sweep if they are at most 24 rows of one metric.

    Otherwise, regressions come first, and the largest change for the worse is first among them.
    """
    rows = evidence.rows(evidence.culprit.main)
    is_sweep = len({(row.metric, row.unit) for row in rows}) == 1
    if is_sweep and len(rows) <= MOST_ROWS:
        return rows
    return sorted(rows, key=lambda row: (is_worse(row), badness(row)), reverse=True)


def _first(evidence: Evidence, rows: Sequence[Row], most: int) -> list[Row]:
    """Return the first ``most`` rows.

    If the improvement that the subject names is not among them, it replaces the last one.
    """
    shown = list(rows[:most])
    best = evidence.improvements()[:1]
    return shown if all(row in shown for row in best) else [*shown[:-1], *best]


def _base(evidence: Evidence) -> str:
    return "last good commit" if evidence.culprit.is_range else "parent"


def _titles(evidence: Evidence) -> tuple[str, str]:
    return ("good", "bad") if evidence.culprit.is_range else ("parent", "commit")


def _others(evidence: Evidence) -> list[tuple[str, Callable[[Row], Row | None]]]:
    """Return the titles of the columns of further kernels: tip and revert, if measured.

    Each has a function that returns the kernel's result for a row; None if it lacks that result.
    """
    culprit = evidence.culprit
    revert = culprit.revert.result if culprit.revert else None
    # If the tip was measured, the revert is applied to it.
    columns = (("tip", culprit.tip), ("tip+revert" if culprit.tip else "revert", revert))
    return [
        (title, lambda row, measured=measured: evidence.row_like(measured, row))  # type: ignore[misc]
        for title, measured in columns
        if measured is not None
    ]


def _one_metric(evidence: Evidence, rows: Sequence[Row], about: str) -> list[str] | None:
    """Return a table with metric, unit and direction in its caption.

    :return: None if the rows have several metrics or equal labels, or the table is too wide
    """
    first = rows[0]
    if any(
        (row.metric, row.unit, row.better) != (first.metric, first.unit, first.better)
        for row in rows
    ):
        return None
    common, option, labels = label_rows(rows)
    scale = scale_for(first.unit, *(value for row in rows for value in (row.base, row.new)))
    cells = [
        [label, *figures]
        for label, figures in zip(labels, _cells(evidence, rows, scale), strict=True)
    ]
    lines = _align([[option, *_head(evidence)], *cells])
    if len(set(labels)) < len(labels) or max(map(len, lines)) > COLUMNS:
        return None
    what = [cut(text, _LONGEST_WORKLOAD) for text in (common, first.metric) if text]
    caption = f"{', '.join([*what, name_unit(scale)])}, {_direction(first)}."
    return [*wrap(spell(caption, where="result")), *wrap(about), "", *lines]


def label_rows(rows: Sequence[Row]) -> tuple[str, str, list[str]]:
    """Return the common prefix of the row names, the option that varies, and the rest of each name.

    For ``hackbench -g 1`` and ``hackbench -g 4``, these are ``hackbench -g ...``, ``-g``, and ``1``
    and ``4``. The option is "" if the prefix does not end with one. A single row has its whole name
    as the prefix, and "" as its label.

    :raises InputError: the option or a label is not ASCII
    """
    names = [[*row.workload.split(), *row.point.split()] for row in rows]
    if len(rows) == 1:
        return " ".join(names[0]), "", [""]
    common = os.path.commonprefix(names)  # noqa: RUF071 # of lists of words
    labels = [spell(" ".join(name[len(common) :]), where="result") for name in names]
    option = common[-1] if common and common[-1].startswith("-") else ""
    return " ".join([*common, "..."]), spell(option, where="result"), labels


def name_point(row: Row, rows: Sequence[Row]) -> str:
    """Return what distinguishes a row from the others: ``-g 16``; "" for a single row.

    :param rows: all rows, including ``row``
    :raises InputError: as in :func:`label_rows`
    """
    _, option, labels = label_rows(rows)
    label = labels[rows.index(row)]
    return f"{option} {label}".strip() if label else ""


def _direction(row: Row) -> str:
    return "better direction unknown" if row.better == "unknown" else f"{row.better} is better"


def name_unit(scale: Scale) -> str:
    """Return the unit of a scale in words: ``seconds``; an unknown unit is returned as it is."""
    return _UNITS.get(scale.unit, scale.unit)


def _head(evidence: Evidence) -> list[str]:
    return [*_titles(evidence), "change", "95% CI", *(title for title, _ in _others(evidence))]


def _cells(evidence: Evidence, rows: Sequence[Row], scale: Scale) -> list[list[str]]:
    """Format the figures of each row, with the same number of decimals in all values."""
    values = [[row.base, row.new, *_other_values(evidence, row)] for row in rows]
    texts = iter(scale.format_alike([value for each in values for value in each]))
    shown = [[next(texts) for _ in each] for each in values]
    return [
        [base, new, *_change(row), *others]
        for row, (base, new, *others) in zip(rows, shown, strict=True)
    ]


def _change(row: Row) -> tuple[str, str]:
    assert row.ratio is not None
    return show_change(row.ratio), show_interval(row)


def _other_values(evidence: Evidence, row: Row) -> list[float | None]:
    others = [get(row) for _, get in _others(evidence)]
    return [other.new if other else None for other in others]


def _align(lines: Sequence[Line]) -> list[str]:
    """Pad the cells of each column to one width; the first line is the head.

    Figures are aligned to the right, and so are labels if all of them are numbers.
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    pad = str.rjust if all(line[0].isdecimal() for line in lines[1:]) else str.ljust
    aligned = []
    for label, *figures in lines:
        first = [pad(label, widths[0])] if widths[0] else []
        rest = [figure.rjust(width) for figure, width in zip(figures, widths[1:], strict=True)]
        aligned.append(f"{INDENT}{'  '.join([*first, *rest])}")
    return aligned


def _mixed(evidence: Evidence, rows: Sequence[Row], about: str) -> list[str]:
    """Return a table of several metrics, with the name of each above its figures."""
    scales = [scale_for(row.unit, row.base, row.new) for row in rows]
    cells = [
        ["", *_cells(evidence, [row], scale)[0]] for row, scale in zip(rows, scales, strict=True)
    ]
    lines = [["", *_head(evidence)], *cells]
    figures = _align(lines)
    if max(map(len, figures)) > COLUMNS:
        # Tip and revert are left out because the text above the table has them.
        figures = _align([line[:_OWN_CELLS] for line in lines])
    drawn = [figures[0]]
    for row, scale, line in zip(rows, scales, figures[1:], strict=True):
        about_row = f", {name_unit(scale)}, {_direction(row)}"
        workload = ", ".join(filter(None, (row.workload, row.point)))
        name = spell(f"{row.metric} ({workload})", where="result")
        drawn += [f"{cut_middle(name, COLUMNS - len(about_row))}{about_row}", line]
    return [*wrap(about), "", *drawn]


def _a_a(evidence: Evidence, rows: Sequence[Row]) -> list[str]:
    """Return the lines about A/A (same kernel on both sides) for the largest regression.

    :param rows: all results, of which the table may show only a part
    :return: [] if A/A was not measured
    """
    headline = evidence.headline()
    row = evidence.row_like(evidence.culprit.a_a, headline)
    if row is None or row.ratio is None or row.ci_low is None or row.ci_high is None:
        return []
    name = name_point(headline, rows) or row.point
    which = f", {cut(name, _LONGEST_NAME)}" if name else ""
    text = f"A/A (parent against parent{which}): {show_change(row.ratio)} {show_interval(row)}"
    return wrap(spell(text, where="A/A"))
