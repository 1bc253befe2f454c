"""Benchmarks: every result with its interval and verdict, and why the undecided ones are so."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from schedperf.model import Comparison, Family, FamilySummary, Row, RunValue, Sweep
from schedperf_reports._interval_plot import Line, draw_intervals, draw_runs
from schedperf_reports._remarks import Remarks, advise, find_remarks, list_reasons, list_shared
from schedperf_reports._units import (
    MISSING,
    format_change,
    format_interval,
    format_number,
    format_p,
    format_share,
    scale_for,
)
from schedperf_reports._words import (
    DIRECTIONS,
    VERDICT_TONES,
    count_of,
    count_units,
    count_values,
    count_verdicts,
    describe_verdict,
    legend_of,
    name_rows,
)
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Items,
    Table,
    Text,
    Tone,
)
from schedperf_reports.sections import report_section

FAMILIES: dict[Family, str] = {
    "primary": "primary results",
    "secondary": "secondary results, which decide nothing",
    "diagnostic": "diagnostic results, which decide nothing",
}

# Rows of a table that a terminal lists, and reasons of undecided results.
MOST_ROWS = 40
MOST_REASONS = 12

COLUMNS = (
    Column(title="result"),
    Column(title="unit", priority=1),
    Column(title="base", align="right", priority=1),
    Column(title="new", align="right", priority=1),
    Column(title="change", align="right"),
    Column(title="95 % CI", align="right"),
    Column(title="n", align="right", priority=2),
    Column(title="verdict"),
    Column(title="q", align="right", priority=REFERENCE_PRIORITY),
    Column(title="test", priority=REFERENCE_PRIORITY + 1),
)


# What only a reader who checks the numbers asks for: column and the text of its cells.
DETAILS: Mapping[str, Callable[[Row], str]] = {
    "finds changes from": lambda row: format_share(row.mde),
    "more a side": lambda row: MISSING if row.more_runs is None else f"{row.more_runs}",
    "p": lambda row: format_p(row.p),
    "p of ranks": lambda row: format_p(row.p_rank),
    "change by ranks": lambda row: format_change(row.rank_ratio),
    "its 95 % interval": lambda row: format_interval(row.rank_low, row.rank_high),
    "ICC": lambda row: MISSING if row.icc is None else f"{row.icc:.2f}",
    "design effect": lambda row: (
        MISSING if row.design_effect is None else f"{row.design_effect:.2f}"
    ),
}


@report_section("benchmarks", title="Benchmarks", order=20)
def benchmarks(comparison: Comparison) -> Iterator[Block]:
    """Yield the tables, reasons and figures of each side and family, then every run's value."""
    if not comparison.rows:
        yield Text(text="no benchmark result to compare", tone="warning")
        return
    names = name_rows(comparison.rows)
    several = len(comparison.sides) > 2  # noqa: PLR2004 # base and one new
    for side in dict.fromkeys(row.side for row in comparison.rows):
        for family, words in FAMILIES.items():
            lines = [
                (names[place], row)
                for place, row in enumerate(comparison.rows)
                if (row.side, row.family) == (side, family)
            ]
            if lines:
                yield from _family(comparison, lines, f"{side}: {words}" if several else words)
    lines = list(zip(names.values(), comparison.rows, strict=True))
    yield from _details_table(lines)
    yield from _runs_table([line for line in lines if line[1].values_base or line[1].values_new])


def _family(comparison: Comparison, lines: Sequence[Line], title: str) -> Iterator[Block]:
    remarks = find_remarks(lines, told={one.text for one in comparison.caveats})
    headline = describe_verdict(comparison)
    yield _results_table(lines, title, comparison.sweeps, remarks, headline)
    side, family = lines[0][1].side, lines[0][1].family
    for one in comparison.families:
        if (one.side, one.family) == (side, family) and one.tested > 1:
            yield Text(text=_describe_family(one), tone="muted")
    items = (*list_reasons(lines, headline), *list_shared(remarks, len(lines)))
    if items:
        yield Items(items=items, limit=MOST_REASONS)
    for better in ("lower", "higher"):
        yield from _draw([line for line in lines if line[1].better == better])


def _describe_family(family: FamilySummary) -> str:
    changed = sum(family.verdicts.get(one, 0) for one in ("regression", "improvement"))
    if not changed:
        return f"{family.tested} results tested together, none changed"
    return (
        f"{family.tested} results tested together, {changed} changed, "
        f"at most {family.expected_false:.2g} of them by chance"
    )


def _results_table(
    lines: Sequence[Line], title: str, sweeps: Sequence[Sweep], remarks: Remarks, headline: str
) -> Table:
    groups: dict[tuple[str, str, str], list[Line]] = {}
    for name, row in lines:
        groups.setdefault((row.side, row.workload, row.metric), []).append((name, row))
    many = Counter(metric for _, _, metric in groups)
    units = {row.replication for _, row in lines}
    rows: list[tuple[Cell, ...]] = []
    for (side, workload, metric), members in groups.items():
        heading = f"{metric} ({workload})" if many[metric] > 1 else metric
        if len(members) > 1:
            # Points of one metric stand below its name: a terminal has no room to repeat it.
            rows.append(_spanning(heading, "strong"))
        for name, row in members:
            shown = f"  {row.point or 'no parameter'}" if len(members) > 1 else name
            rows.append(_result_row(shown, row, with_unit=len(units) > 1))
            rows += [_spanning(f"    {note}", "warning") for note in remarks.notes.get(name, ())]
            if row.reason not in headline and (advice := advise(row)):
                rows.append(_spanning(f"    {advice}", "muted"))
        for sweep in sweeps:
            if (sweep.side, sweep.workload, sweep.metric) == (side, workload, metric):
                rows += _sweep_rows(sweep)
    legend = legend_of([row for _, row in lines])
    counted = f"; n counts {min(units)}" if len(units) == 1 else ""
    return Table(
        caption=f"{title}; {legend}{counted}", columns=COLUMNS, rows=tuple(rows), limit=MOST_ROWS
    )


def _spanning(text: str, tone: Tone) -> tuple[Cell, ...]:
    return (Cell(text=text, tone=tone), *(Cell(text=""),) * (len(COLUMNS) - 1))


def _result_row(name: str, row: Row, *, with_unit: bool) -> tuple[Cell, ...]:
    scale = scale_for(row.unit, row.base, row.new)
    tone = VERDICT_TONES[row.verdict]
    return (
        Cell(text=name),
        Cell(text=f"{DIRECTIONS[row.better]} {scale.unit}".rstrip()),
        Cell(text=scale.format(row.base)),
        Cell(text=scale.format(row.new)),
        Cell(text=format_change(row.ratio), tone=tone),
        Cell(text=format_interval(row.ci_low, row.ci_high)),
        Cell(text=count_units(row) if with_unit else count_values(row)),
        Cell(text=row.verdict, tone=tone),
        Cell(text=format_p(row.q), tone="muted"),
        Cell(text=row.method, tone="muted"),
    )


def _sweep_rows(sweep: Sweep) -> Iterator[tuple[Cell, ...]]:
    if sweep.geomean_ratio is not None:
        empty = Cell(text="")
        yield (
            Cell(text="  geomean", tone="muted"),
            *(empty,) * 3,
            Cell(text=format_change(sweep.geomean_ratio)),
            Cell(text=format_interval(sweep.ci_low, sweep.ci_high)),
            *(empty,) * (len(COLUMNS) - 6),
        )
    told = [
        *([sweep.shape] if sweep.shape else []),
        *([f"first at {sweep.first_point}"] if sweep.first_point else []),
        *([f"p = {format_p(sweep.p)}"] if sweep.p is not None else []),
    ]
    if told:
        yield _spanning(f"  all points: {'; '.join(told)}", "muted")


def _draw(lines: Sequence[Line]) -> Iterator[Block]:
    drawn = [
        (name, row)
        for name, row in lines
        if row.ratio is not None and row.ci_low is not None and row.ci_high is not None
    ]
    if not drawn:
        return
    rows = [row for _, row in drawn]
    worse = "right" if rows[0].better == "lower" else "left"
    counts = count_verdicts(rows, rows[0].family)
    yield draw_intervals(
        drawn, f"{counts}; bars are 95 % intervals, {worse} is worse, the shaded band is no change"
    )
    with_runs = [(name, row) for name, row in drawn if row.values_base and row.values_new]
    if with_runs:
        yield draw_runs(with_runs, f"each run against the mean of base, {worse} is worse")


def _details_table(lines: Sequence[Line]) -> Iterator[Table]:
    # What no row of a comparison has is no column: ICC without boots, ranks with three runs.
    written = {title: [write(row) for _, row in lines] for title, write in DETAILS.items()}
    shown = {title: texts for title, texts in written.items() if set(texts) != {MISSING}}
    if shown:
        yield Table(
            caption=f"how sure each result is, {count_of(len(lines), 'result')}",
            columns=(
                Column(title="result"),
                *(Column(title=title, align="right") for title in shown),
            ),
            rows=tuple(
                (Cell(text=name), *(Cell(text=texts[place]) for texts in shown.values()))
                for place, (name, _) in enumerate(lines)
            ),
            limit=0,
        )


def _runs_table(lines: Sequence[Line]) -> Iterator[Table]:
    # A published mean and a count of failures have no runs to show.
    if lines:
        yield Table(
            caption=f"each run's value, {count_of(len(lines), 'result')}",
            columns=(
                Column(title="result"),
                Column(title="unit"),
                Column(title="A base"),
                Column(title="B new"),
            ),
            rows=tuple(_runs_row(name, row) for name, row in lines),
            limit=0,
        )


def _runs_row(name: str, row: Row) -> tuple[Cell, ...]:
    values = [run.value for run in (*row.values_base, *row.values_new)]
    scale = scale_for(row.unit, *values)

    def join(runs: Sequence[RunValue]) -> str:
        return "  ".join(format_number(run.value / scale.factor) for run in runs) or MISSING

    return (
        Cell(text=name),
        Cell(text=scale.unit),
        Cell(text=join(row.values_base)),
        Cell(text=join(row.values_new)),
    )
