# SPDX-License-Identifier: GPL-2.0-or-later
"""Report benchmark results: intervals, verdicts and the details of each result."""

from collections.abc import Iterator, Sequence

from schedperf.model.comparison import Comparison
from schedperf.model.row_groups import FamilySummary
from schedperf.model.rows import Family, Row
from schedperf_reports.blocks import Block, Cell, Column, Item, Items, Table, Text
from schedperf_reports.graphics.intervals import IntervalLine, Intervals
from schedperf_reports.results.side_by_side import draw_movers, draw_side_by_side
from schedperf_reports.results.sweep_plot import describe_sweep, is_point_of
from schedperf_reports.results.table import Results, build_results
from schedperf_reports.results.two_by_two import draw_two_by_two
from schedperf_reports.sections import report_section
from schedperf_reports.words.quantities import format_change, scale_for
from schedperf_reports.words.remarks import (
    Line,
    Remarks,
    explain_correction,
    find_remarks,
    list_reasons,
    list_shared,
)
from schedperf_reports.words.rows import (
    common_direction,
    count_of,
    count_verdicts,
    name_direction,
    name_rows,
    side_prefixes,
)
from schedperf_reports.words.sentences import describe_verdict

# Appended to the verdict counts of a family in a caption.
FAMILIES: dict[Family, str] = {
    "primary": "",
    "secondary": ", not used for the verdict",
    "informational": "",
}

# Reasons of inconclusive results that a terminal lists.
MOST_REASONS = 12

# Caveats of a side that explain why a result has no value on it.
REASONS_OF_ABSENCE = ("failed-runs", "work-not-done", "no-number", "incomplete")


@report_section("benchmarks", title="Benchmarks", chapter="benchmarks", order=10, is_brief=True)
def benchmarks(comparison: Comparison) -> Iterator[Block]:
    """Yield plot, table, reasons and sweeps of each side and family, then what is missing."""
    if not comparison.rows:
        yield Text(text="no benchmark result to compare", tone="warning")
        return
    names = name_rows(comparison.rows)
    lines = [(names[index], row) for index, row in enumerate(comparison.rows)]
    # A text of one screen shows the rows that decide the verdict.
    families = {row.family for row in comparison.rows}
    first = next(family for family in FAMILIES if family in families)
    for family in FAMILIES:
        of_all = draw_side_by_side(comparison, family, brief=family == first)
        if of_all is not None:
            yield of_all
            movers = draw_movers(comparison, family, brief=family == first)
            if movers is not None:
                yield movers
            members = [line for line in lines if line[1].family == family]
            yield from _remarks_of_all(comparison, members, is_brief=family == first)
    yield from draw_two_by_two(comparison.two_by_two)
    # On one screen, the table of all sides replaces the tables per side.
    are_brief = not comparison.side_by_side
    for side in dict.fromkeys(row.side for row in comparison.rows):
        for family in FAMILIES:
            members = [line for line in lines if (line[1].side, line[1].family) == (side, family)]
            if members:
                is_brief = are_brief and family == first
                yield from _family(comparison, members, is_brief=is_brief)
    yield from _missing(comparison, lines)


def _remarks_of_all(
    comparison: Comparison, lines: Sequence[Line], *, is_brief: bool
) -> Iterator[Items]:
    items: list[Item] = []
    prefixes = side_prefixes(comparison)
    for side in dict.fromkeys(row.side for _, row in lines):
        remarks = _remarks(comparison, [line for line in lines if line[1].side == side])
        single = [(text, name) for name, texts in remarks.notes.items() for text in texts]
        shared = [(text, count_of(len(names), "result")) for text, names in remarks.shared.items()]
        items += [
            Item(text=f"{prefixes[side]}{text} ({where})", tone="warning")
            for text, where in (*single, *shared)
        ]
    if items:
        yield Items(items=tuple(items), limit=MOST_REASONS, brief=len(items) if is_brief else 0)


def _remarks(comparison: Comparison, lines: Sequence[Line]) -> Remarks:
    return find_remarks(lines, printed={caveat.text for caveat in comparison.caveats})


def _family(comparison: Comparison, lines: Sequence[Line], *, is_brief: bool) -> Iterator[Block]:
    side, family = lines[0][1].side, lines[0][1].family
    is_first = side == comparison.rows[0].side
    prefix = side_prefixes(comparison)[side]
    rows = [row for _, row in lines]
    headline = describe_verdict(comparison)
    summaries = [each for each in comparison.families if (each.side, each.family) == (side, family)]
    # The table of all sides shows them.
    remarks = _remarks(comparison, [] if comparison.side_by_side else lines)
    results = Results(
        title=f"{prefix}{count_verdicts(rows, family)}{FAMILIES[family]}",
        side=side,
        lines=lines,
        anchor_prefix="" if is_first else f"{side}: ",
        sweeps=comparison.sweeps,
        geomeans=[geomean for each in summaries for geomean in each.geomeans],
        remarks=remarks,
        headline=headline,
        brief=is_brief,
    )
    table, drawn = build_results(results)
    yield from _plot(prefix, rows, drawn)
    yield table
    for each in summaries:
        if each.tested > 1:
            yield Text(text=_describe_family(each), tone="muted")
    yield from explain_correction(
        [(f"{name} {format_change(row.ratio)}", row) for name, row in lines]
    )
    items = (*list_reasons(lines, headline), *list_shared(remarks, len(lines)))
    if items:
        yield Items(items=items, limit=MOST_REASONS)
    yield from _sweeps(comparison, lines, prefix)


def _plot(prefix: str, rows: Sequence[Row], lines: Sequence[IntervalLine]) -> Iterator[Intervals]:
    if not any(row.ratio is not None for row in rows):
        return
    better = common_direction(rows)
    if better is None:
        direction = "each row states which direction is better"
    elif better == "unknown":
        direction = name_direction(better)
    else:
        direction = f"{'right' if better == 'lower' else 'left'} is worse"
    counts = count_verdicts(rows, rows[0].family)
    yield Intervals(
        caption=f"{prefix}{counts}; bars are 95% CIs; {direction}; "
        "the shaded band is the equivalence margin",
        lines=tuple(lines),
        better=better,
    )


def _describe_family(family: FamilySummary) -> str:
    changed = sum(family.verdicts.get(verdict, 0) for verdict in ("regression", "improvement"))
    if not changed:
        return f"no significant change in {family.tested} results (corrected for multiple testing)"
    return (
        f"{changed} of {family.tested} results changed significantly (corrected for multiple "
        "testing); "
        f"at most {family.expected_false:.2g} false positives expected"
    )


def _sweeps(comparison: Comparison, lines: Sequence[Line], prefix: str) -> Iterator[Block]:
    for sweep in comparison.sweeps:
        rows = [row for _, row in lines if is_point_of(row, sweep)]
        yield from describe_sweep(sweep, rows, prefix)


def _missing(comparison: Comparison, lines: Sequence[Line]) -> Iterator[Table]:
    absent = [(name, row) for name, row in lines if (row.n_base == 0) != (row.n_new == 0)]
    if absent:
        yield Table(
            caption=f"{count_of(len(absent), 'result')} missing in base or new",
            columns=(
                Column(title="result"),
                Column(title="missing in"),
                Column(title="recorded value", align="right"),
                Column(title="why"),
            ),
            rows=tuple(_missing_row(comparison, name, row) for name, row in absent),
        )


def _missing_row(comparison: Comparison, name: str, row: Row) -> tuple[Cell, ...]:
    side = "base" if row.n_base == 0 else row.side
    value = row.new if row.n_base == 0 else row.base
    scale = scale_for(row.unit, value)
    reasons = [
        caveat.text
        for caveat in comparison.caveats
        if caveat.code in REASONS_OF_ABSENCE and caveat.numbers.get("side") == side
    ]
    return (
        Cell(text=name),
        Cell(text=side),
        Cell(text=f"{scale.format(value)} {scale.unit}".rstrip(), sort=value),
        Cell(
            text="; ".join(reasons) or f"no value in the output of any run of {side}",
            tone="warning",
        ),
    )
