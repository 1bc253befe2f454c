# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the table of the results of a side and family, and the lines of its interval plot."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.model.row_groups import Geomean, Sweep
from schedperf.model.rows import Replication, Row, Verdict
from schedperf.model.units import Scale
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Table,
    Tone,
)
from schedperf_reports.graphics.intervals import FARTHEST_END, IntervalLine
from schedperf_reports.results.details import describe_result
from schedperf_reports.results.sweep_plot import is_point_of, words_of_shape
from schedperf_reports.words.quantities import (
    WIDEST_INTERVAL,
    format_change,
    format_interval,
    format_p,
    is_wide,
    scale_for,
)
from schedperf_reports.words.remarks import Line, Remarks, advise
from schedperf_reports.words.rows import (
    VERDICT_TONES,
    common_direction,
    count_units,
    count_values,
    describe_directions,
    name_direction,
)

# Rows that a terminal lists.
MOST_ROWS = 40

EMPTY = Cell(text="")
# Largest number in the unit of the smallest: 98760 ms.
LARGEST_IN_UNIT = 1e5


class Results(Struct, frozen=True, kw_only=True):
    """The input of a table of results.

    :param title: beginning of the caption: "3 results: 1 regression, 2 no-change"
    :param side: name of the new side
    :param lines: the row's name and the row
    :param anchor_prefix: prefix of its anchors: "new2: "; "" for the first side
    :param sweeps: sweeps of these and other results
    :param geomeans: geometric means of these results
    :param remarks: notes on the rows, which are printed below them
    :param headline: the report's headline, which rows need not repeat
    :param brief: whether a brief text includes the table
    """

    title: str
    side: str
    lines: Sequence[Line]
    anchor_prefix: str
    sweeps: Sequence[Sweep]
    geomeans: Sequence[Geomean]
    remarks: Remarks
    headline: str
    brief: bool

    @property
    def has_units(self) -> bool:
        """Return whether each row must state the unit of its n."""
        return len({row.replication for _, row in self.lines}) > 1

    @property
    def is_one_way(self) -> bool:
        """Return whether the same direction is better in all rows."""
        return common_direction([row for _, row in self.lines]) is not None

    @property
    def is_marked(self) -> bool:
        """Return whether each row must state which direction is better."""
        return describe_directions([row for _, row in self.lines]) is None


def build_results(results: Results) -> tuple[Table, tuple[IntervalLine, ...]]:
    """Return the table, and a line of the interval plot for each row with a result or a mean."""
    columns = _columns(results.side)
    entries = list(_entries(results))
    rows = [row for _, row in results.lines]
    units = {row.replication for row in rows}
    legend = (
        describe_directions(rows),
        None if results.has_units else f"n = {COUNTED[min(units)]}",
        EXPLAIN_WIDE if any(is_wide(row.ci_low, row.ci_high) for row in rows) else None,
    )
    listed = "; ".join(filter(None, legend))
    table = Table(
        caption=_with_legend(results.title, listed, is_single=len(rows) == 1),
        columns=tuple(column.header for column in columns),
        rows=tuple(entry.cells(columns) for entry in entries),
        limit=MOST_ROWS,
        anchors=tuple(entry.anchor for entry in entries),
        quiet=tuple(entry.is_quiet for entry in entries),
        details=tuple(entry.details for entry in entries),
        brief=results.brief,
    )
    return table, tuple(_lines(entries))


def _with_legend(title: str, legend: str, *, is_single: bool) -> str:
    if not legend:
        return title
    return f"{title} ({legend})" if is_single else f"{title}; {legend}"


COUNTED: Mapping[Replication, str] = {
    "runs": "runs",
    "boots": "boots",
    "rounds": "pairs",
}

# Short, because it is part of the table's caption on the first screen.
EXPLAIN_WIDE = f"too wide: ends of the CI differ by more than a factor of {WIDEST_INTERVAL:g}"
MEAN = (
    "geometric mean of the runs; arithmetic mean if a run has a value of 0 or less; of maxima "
    "the median"
)
EXPLAIN_VERDICT = (
    "regression, improvement: change of at least 1%, significant after "
    "multiple-testing correction (also if within the equivalence margin); no-change: "
    "otherwise, if the 90% CI is within the margin; inconclusive: neither a change nor "
    "equivalence shown; invalid: base and new are not comparable"
)


class _Result(Struct, frozen=True, kw_only=True):
    # :param label: its name, or its point below a heading
    label: str
    row: Row
    scale: Scale
    has_unit: bool

    @property
    def tone(self) -> Tone:
        return VERDICT_TONES[self.row.verdict]


class _Mean(Struct, frozen=True, kw_only=True):
    label: str
    ratio: float
    ci_low: float | None
    ci_high: float | None


class _ResultColumn(Struct, frozen=True):
    # :param of_mean: what a mean of results has in this column
    header: Column
    of_result: Callable[[_Result], Cell]
    of_mean: Callable[[_Mean], Cell] = lambda _: EMPTY


def _columns(side: str) -> tuple[_ResultColumn, ...]:
    return (
        _ResultColumn(
            Column(title="result"),
            lambda result: Cell(text=result.label),
            lambda mean: Cell(text=mean.label, tone="muted"),
        ),
        _ResultColumn(
            # No number is shown without its unit.
            Column(title="unit", priority=1, with_next=True, explains="unit of base and new"),
            lambda result: Cell(text=result.scale.unit),
        ),
        _ResultColumn(
            Column(title="base", align="right", priority=1, explains=MEAN),
            lambda result: Cell(text=result.scale.format(result.row.base), sort=result.row.base),
        ),
        _ResultColumn(
            Column(title=side, align="right", priority=2, explains=MEAN),
            lambda result: Cell(text=result.scale.format(result.row.new), sort=result.row.new),
        ),
        _ResultColumn(
            Column(title="change", align="right", explains=f"change of {side} vs base"),
            lambda result: Cell(
                text=format_change(result.row.ratio), tone=result.tone, sort=result.row.ratio
            ),
            lambda mean: Cell(text=format_change(mean.ratio), sort=mean.ratio),
        ),
        _ResultColumn(
            Column(
                title="95% CI",
                align="right",
                explains="95% CI of the change, per row (not corrected for multiple testing); too "
                f"wide: the ends differ by more than a factor of {WIDEST_INTERVAL:g}",
            ),
            lambda result: _interval_cell(result.row),
            _interval_cell,
        ),
        _ResultColumn(
            Column(
                title="n",
                align="right",
                priority=3,
                explains="sample size: runs or boots of base+new, or number of interleaved pairs",
            ),
            lambda result: Cell(
                text=(count_units if result.has_unit else count_values)(result.row),
                sort=result.row.n_new,
            ),
        ),
        _ResultColumn(
            Column(title="verdict", explains=EXPLAIN_VERDICT),
            lambda result: Cell(
                text=result.row.verdict,
                tone=result.tone,
                sort=VERDICT_PLACES[result.row.verdict],
            ),
        ),
        _ResultColumn(
            Column(
                title="q",
                align="right",
                priority=REFERENCE_PRIORITY,
                explains="p after correction for multiple testing",
            ),
            lambda result: Cell(text=format_p(result.row.q), tone="muted", sort=result.row.q),
        ),
        _ResultColumn(
            Column(
                title="test",
                priority=REFERENCE_PRIORITY + 1,
                explains="statistical test from which p and CI are computed",
            ),
            lambda result: Cell(text=result.row.method, tone="muted"),
        ),
    )


def _interval_cell(of: Row | _Mean) -> Cell:
    return Cell(text=format_interval(of.ci_low, of.ci_high), sort=of.ci_low)


class _Entry(Struct, frozen=True, kw_only=True):
    # One row of the table with its details: a result, a mean, or a text over all columns.
    of: _Result | _Mean | Cell
    is_quiet: bool
    name: str = ""
    anchor: str = ""
    details: tuple[Block, ...] = ()

    def cells(self, columns: Sequence[_ResultColumn]) -> tuple[Cell, ...]:
        if isinstance(self.of, Cell):
            return self.of, *(EMPTY,) * (len(columns) - 1)
        if isinstance(self.of, _Mean):
            return tuple(column.of_mean(self.of) for column in columns)
        return tuple(column.of_result(self.of) for column in columns)


def _entries(results: Results) -> Iterator[_Entry]:
    groups: dict[tuple[str, str], list[Line]] = {}
    for name, row in results.lines:
        groups.setdefault((row.workload, row.metric), []).append((name, row))
    many = Counter(metric for _, metric in groups)
    for (workload, metric), members in groups.items():
        heading = f"{metric} ({workload})" if many[metric] > 1 else metric
        swept = [sweep for sweep in results.sweeps if is_point_of(members[0][1], sweep)]
        yield from _group(results, heading, members, swept)
    yield from _means(results, {_sweep_size(sweep, results) for sweep in results.sweeps})


def _sweep_size(sweep: Sweep, results: Results) -> int:
    has_mean = sweep.geomean_ratio is not None
    return sum(has_mean and is_point_of(row, sweep) for _, row in results.lines)


def _group(
    results: Results, heading: str, members: Sequence[Line], sweeps: Sequence[Sweep]
) -> Iterator[_Entry]:
    all_quiet = all(row.verdict == "no-change" for _, row in members)
    direction = f" ({name_direction(members[0][1].better)})" if results.is_marked else ""
    if len(members) > 1:
        # Points of one metric are listed below its name, which saves width on a terminal.
        yield _Entry(of=Cell(text=f"{heading}{direction}", tone="strong"), is_quiet=all_quiet)
    common = _common_scale([row for _, row in members])
    for name, row in members:
        is_quiet = row.verdict == "no-change"
        yield _Entry(
            of=_Result(
                label=f"  {row.point or 'no parameter'}"
                if len(members) > 1
                else f"{name}{direction}",
                row=row,
                scale=common or scale_for(row.unit, row.base, row.new),
                has_unit=results.has_units,
            ),
            is_quiet=is_quiet,
            name=name,
            anchor=f"{results.anchor_prefix}{name}",
            details=describe_result(name, row),
        )
        for note in results.remarks.notes.get(name, ()):
            yield _Entry(of=Cell(text=f"    {note}", tone="warning"), is_quiet=is_quiet)
        if (advice := advise(row)) and advice not in results.headline:
            yield _Entry(of=Cell(text=f"    {advice}", tone="muted"), is_quiet=is_quiet)
    for sweep in sweeps:
        yield from _sweep_entries(sweep, heading, results.anchor_prefix, is_quiet=all_quiet)


# Sort order of verdicts: regressions first.
VERDICT_PLACES: Mapping[Verdict, float] = {
    verdict: float(position) for position, verdict in enumerate(VERDICT_TONES)
}


def _common_scale(rows: Sequence[Row]) -> Scale | None:
    # Numbers below each other share the unit of the smallest, unless the largest is then too long.
    sizes = [abs(value) for row in rows for value in (row.base, row.new) if value]
    scale = scale_for(rows[0].unit, min(sizes, default=None))
    has_one_unit = len({row.unit for row in rows}) == 1
    is_short = max(sizes, default=0.0) < LARGEST_IN_UNIT * scale.factor
    return scale if has_one_unit and is_short else None


def _sweep_entries(sweep: Sweep, heading: str, prefix: str, *, is_quiet: bool) -> Iterator[_Entry]:
    if sweep.geomean_ratio is not None:
        name = f"{heading}, geomean"
        yield _Entry(
            of=_Mean(
                label="  geomean",
                ratio=sweep.geomean_ratio,
                ci_low=sweep.ci_low,
                ci_high=sweep.ci_high,
            ),
            is_quiet=is_quiet,
            name=name,
            anchor=f"{prefix}{name}",
        )
    facts = [
        *words_of_shape(sweep),
        *([f"p = {format_p(sweep.p)}"] if sweep.p is not None else []),
    ]
    if facts:
        text = f"  all parameter values: {'; '.join(facts)}"
        yield _Entry(of=Cell(text=text, tone="muted"), is_quiet=is_quiet)


def _says_nothing(geomean: Geomean, rows: Sequence[Row]) -> bool:
    # No row is decided, and the CI spans several times the mean.
    is_open = all(row.verdict in ("inconclusive", "invalid") for row in rows)
    return is_open and geomean.ci_high / geomean.ci_low > FARTHEST_END**2


def _means(results: Results, sizes: set[int]) -> Iterator[_Entry]:
    # Metrics with opposite better directions have no common mean. A single sweep already has its
    # mean.
    is_one_way = results.is_one_way
    for geomean in results.geomeans:
        rows = [row for _, row in results.lines if row.better == geomean.better]
        if len(rows) in sizes or _says_nothing(geomean, rows):
            continue
        counted = (
            f"all {geomean.count}"
            if geomean.count == len(rows)
            else f"{geomean.count} of {len(rows)}"
        )
        direction = "" if is_one_way else f", {name_direction(geomean.better)}"
        name = f"geomean of {counted} results{direction}"
        yield _Entry(
            of=_Mean(
                label=name, ratio=geomean.ratio, ci_low=geomean.ci_low, ci_high=geomean.ci_high
            ),
            is_quiet=False,
            name=name,
            anchor=f"{results.anchor_prefix}{results.title}, {name}",
        )


def _lines(entries: Sequence[_Entry]) -> Iterator[IntervalLine]:
    rows = [entry.of.row for entry in entries if isinstance(entry.of, _Result)]
    is_one_way = common_direction(rows) is not None
    for number, entry in enumerate(entries):
        if isinstance(entry.of, Cell):
            continue
        row, drawn = (
            (entry.of.row, entry.of.row) if isinstance(entry.of, _Result) else (None, entry.of)
        )
        yield IntervalLine(
            name=entry.name,
            row=number,
            anchor=entry.anchor,
            verdict=None if row is None else row.verdict,
            ratio=drawn.ratio,
            ci_low=drawn.ci_low,
            ci_high=drawn.ci_high,
            margin=None if row is None else row.margin,
            mark="" if row is None or is_one_way else name_direction(row.better),
        )
