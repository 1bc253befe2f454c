"""Benchmarks: every result with its interval and verdict, and why the undecided ones are so."""

from collections import Counter
from collections.abc import Iterator, Sequence

from schedperf.model import Comparison, Family, Row, RunValue, Sweep
from schedperf_reports._interval_plot import Line, draw_intervals, draw_runs
from schedperf_reports._units import (
    MISSING,
    format_change,
    format_interval,
    format_number,
    scale_for,
)
from schedperf_reports._words import (
    DIRECTIONS,
    VERDICT_TONES,
    count_of,
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
    Item,
    Items,
    Table,
    Text,
)
from schedperf_reports.sections import report_section

FAMILIES: dict[Family, str] = {
    "primary": "primary results",
    "secondary": "secondary results, which decide nothing",
    "diagnostic": "diagnostic results, which decide nothing",
}

# Results of a family that a terminal lists, and reasons of undecided ones.
MOST_ROWS = 40
MOST_REASONS = 12

COLUMNS = (
    Column(title="result"),
    Column(title="unit", priority=1),
    Column(title="base", align="right", priority=1),
    Column(title="new", align="right", priority=1),
    Column(title="change", align="right"),
    Column(title="95 % interval", align="right"),
    Column(title="n", align="right", priority=2),
    Column(title="verdict"),
    Column(title="q", align="right", priority=REFERENCE_PRIORITY),
    Column(title="test", priority=REFERENCE_PRIORITY + 1),
)


@report_section("benchmarks", title="Benchmarks", order=20)
def benchmarks(comparison: Comparison) -> Iterator[Block]:
    """Yield table, reasons and figures for each new side and family."""
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
                title = f"{side}: {words}" if several else words
                yield _results_table(lines, title, comparison.sweeps)
                yield from _undecided(lines, describe_verdict(comparison))
                for better in ("lower", "higher"):
                    yield from _draw([line for line in lines if line[1].better == better])
    yield _runs_table(list(zip(names.values(), comparison.rows, strict=True)))


def _undecided(lines: Sequence[Line], headline: str) -> Iterator[Block]:
    undecided = [line for line in lines if line[1].verdict in ("inconclusive", "invalid")]
    is_told = len(undecided) == 1 and undecided[0][1].reason in headline
    if undecided and not is_told:
        yield Items(
            items=tuple(
                Item(text=f"{name}: {row.verdict}: {row.reason}") for name, row in undecided
            ),
            limit=MOST_REASONS,
        )


def _results_table(lines: Sequence[Line], title: str, sweeps: Sequence[Sweep]) -> Table:
    groups: dict[tuple[str, str, str], list[Line]] = {}
    for name, row in lines:
        groups.setdefault((row.side, row.workload, row.metric), []).append((name, row))
    many = Counter(metric for _, _, metric in groups)
    rows: list[tuple[Cell, ...]] = []
    for (side, workload, metric), members in groups.items():
        key = (side, workload, metric)
        swept = [one for one in sweeps if (one.side, one.workload, one.metric) == key]
        heading = f"{metric} ({workload})" if many[metric] > 1 else metric
        rows += _group_rows(heading, members, swept)
    legend = legend_of([row for _, row in lines])
    return Table(caption=f"{title}; {legend}", columns=COLUMNS, rows=tuple(rows), limit=MOST_ROWS)


def _group_rows(
    heading: str, lines: Sequence[Line], sweeps: Sequence[Sweep]
) -> list[tuple[Cell, ...]]:
    if len(lines) == 1:
        return [_result_row(*lines[0])]
    # Points of one metric stand below its name, since a terminal has no room to repeat it.
    return [
        (Cell(text=heading, tone="strong"), *(Cell(text=""),) * (len(COLUMNS) - 1)),
        *(_result_row(f"  {row.point or 'no parameter'}", row) for _, row in lines),
        *(_sweep_row(one) for one in sweeps if len(one.points) > 1),
    ]


def _result_row(name: str, row: Row) -> tuple[Cell, ...]:
    scale = scale_for(row.unit, row.base, row.new)
    tone = VERDICT_TONES[row.verdict]
    return (
        Cell(text=name),
        Cell(text=f"{DIRECTIONS[row.better]} {scale.unit}".rstrip()),
        Cell(text=scale.format(row.base)),
        Cell(text=scale.format(row.new)),
        Cell(text=format_change(row.ratio), tone=tone),
        Cell(text=format_interval(row.ci_low, row.ci_high)),
        Cell(text=f"{row.n_base}+{row.n_new}"),
        Cell(text=row.verdict, tone=tone),
        Cell(text=MISSING if row.q is None else f"{row.q:.2g}", tone="muted"),
        Cell(text=row.method, tone="muted"),
    )


def _sweep_row(sweep: Sweep) -> tuple[Cell, ...]:
    empty = Cell(text="")
    return (
        Cell(text="  geomean", tone="muted"),
        empty,
        empty,
        empty,
        Cell(text=format_change(sweep.geomean_ratio)),
        Cell(text=format_interval(sweep.ci_low, sweep.ci_high)),
        *(empty,) * (len(COLUMNS) - 6),
    )


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


def _runs_table(lines: Sequence[Line]) -> Table:
    return Table(
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
