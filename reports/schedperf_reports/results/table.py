# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of a family's results, and the interval plot beside it."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.model.comparison import Replication, Row, Sweep, Verdict
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Table,
    Tone,
    is_spanning,
)
from schedperf_reports.graphics.intervals import FARTHEST_END, IntervalLine
from schedperf_reports.results.details import describe_result
from schedperf_reports.results.sweep_plot import is_point_of, words_of_shape
from schedperf_reports.words.remarks import Line, Remarks, advise
from schedperf_reports.words.rows import (
    DIRECTIONS,
    VERDICT_TONES,
    common_direction,
    count_units,
    count_values,
    describe_directions,
    say_direction,
)
from schedperf_reports.words.units import (
    WIDEST_INTERVAL,
    format_change,
    format_interval,
    format_p,
    is_wide,
    scale_for,
)

# Rows that a terminal lists.
MOST_ROWS = 40

EMPTY = Cell(text="")
# Commands and points of which a mean is told.
_FEWEST_MEASURED = 2


class Geomean(Struct, frozen=True, kw_only=True):
    """A mean of ratios.

    :param count: of the results in it
    :param ci_low: lower bound of an interval that holds the mean in at least 95% of cases
    """

    count: int
    ratio: float
    ci_low: float
    ci_high: float


class Results(Struct, frozen=True, kw_only=True):
    """What a table of results is made of.

    :param title: "primary results"
    :param lines: the row's name and the row
    :param anchor_prefix: what its anchors begin with: "new2: ", "" for the first side
    :param sweeps: of these and other results
    :param headline: what the report says first, so that no row need say it again
    :param brief: whether a text of one screen has the table
    """

    title: str
    side: str
    lines: Sequence[Line]
    anchor_prefix: str
    sweeps: Sequence[Sweep]
    remarks: Remarks
    headline: str
    brief: bool

    @property
    def has_units(self) -> bool:
        """Whether each row must say what its n counts."""
        return len({row.replication for _, row in self.lines}) > 1

    @property
    def is_one_way(self) -> bool:
        """Whether the same direction is better in all rows."""
        return common_direction([row for _, row in self.lines]) is not None

    @property
    def is_marked(self) -> bool:
        """Whether each row must say which direction is better."""
        return describe_directions([row for _, row in self.lines]) is None


class _Entry(Struct, frozen=True, kw_only=True):
    # One row of the table with its details. A mean or a result has a ratio to draw.
    cells: tuple[Cell, ...]
    is_quiet: bool
    name: str = ""
    anchor: str = ""
    row: Row | None = None
    mean: tuple[float, float | None, float | None] | None = None
    details: tuple[Block, ...] = ()


def build_results(results: Results) -> tuple[Table, tuple[IntervalLine, ...]]:
    """Return the table, and a line for each of its rows with a result or a mean."""
    entries = list(_entries(results))
    rows = [row for _, row in results.lines]
    units = {row.replication for row in rows}
    counted = "" if results.has_units else f"; n counts {COUNTED[min(units)]}"
    directions = describe_directions(rows)
    direction = f"; {directions}" if directions else ""
    wide = f"; {EXPLAIN_WIDE}" if any(is_wide(row.ci_low, row.ci_high) for row in rows) else ""
    table = Table(
        caption=f"{results.title}{direction}{counted}{wide}",
        columns=_columns(results.side),
        rows=tuple(entry.cells for entry in entries),
        limit=MOST_ROWS,
        anchors=tuple(entry.anchor for entry in entries),
        quiet=tuple(entry.is_quiet for entry in entries),
        details=tuple(entry.details for entry in entries),
        brief=results.brief,
    )
    return table, tuple(_lines(entries))


COUNTED: Mapping[Replication, str] = {
    "runs": "runs",
    "boots": "boots",
    "rounds": "interleaved pairs",
}

# Short, because it is part of the table's caption on the first screen.
EXPLAIN_WIDE = f"too wide: ends of the CI differ by more than a factor of {WIDEST_INTERVAL:g}"
MEAN = (
    "geometric mean of the runs; arithmetic mean if a run has a value of 0 or less; of maxima "
    "the median"
)

FIRST_COLUMNS = (
    Column(title="result"),
    # No number is shown without its unit.
    Column(title="unit", priority=1, with_next=True, explains="unit of base and new"),
    Column(title="base", align="right", priority=1, explains=MEAN),
)
LAST_COLUMNS = (
    Column(
        title="95% CI",
        align="right",
        explains="95% CI of the change, per row (not corrected for multiple testing); too wide: "
        f"the ends differ by more than a factor of {WIDEST_INTERVAL:g}",
    ),
    Column(
        title="n",
        align="right",
        priority=3,
        explains="sample size: runs or boots of base+new, or number of interleaved pairs",
    ),
    Column(
        title="verdict",
        explains="regression, improvement: change of at least 1%, significant after "
        "multiple-testing correction (also if within the equivalence margin); no-change: "
        "otherwise, if the 90% CI is within the margin; inconclusive: neither a change nor "
        "equivalence shown; invalid: base and new are not comparable",
    ),
    Column(
        title="q",
        align="right",
        priority=REFERENCE_PRIORITY,
        explains="p after correction for multiple testing",
    ),
    Column(
        title="test",
        priority=REFERENCE_PRIORITY + 1,
        explains="statistical test from which p and CI are computed",
    ),
)


def _columns(side: str) -> tuple[Column, ...]:
    return (
        *FIRST_COLUMNS,
        Column(title=side, align="right", priority=2, explains=MEAN),
        Column(title="change", align="right", explains=f"change of {side} vs base"),
        *LAST_COLUMNS,
    )


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
    direction = f" ({say_direction(members[0][1].better)})" if results.is_marked else ""
    if len(members) > 1:
        # Points of one metric are listed below its name, which saves width on a terminal.
        yield _spanning(f"{heading}{direction}", "strong", is_quiet=all_quiet)
    for name, row in members:
        is_quiet = row.verdict == "no-change"
        yield _Entry(
            cells=_result_cells(
                f"  {row.point or 'no parameter'}" if len(members) > 1 else f"{name}{direction}",
                row,
                with_unit=results.has_units,
            ),
            is_quiet=is_quiet,
            name=name,
            anchor=f"{results.anchor_prefix}{name}",
            row=row,
            details=describe_result(name, row),
        )
        for note in results.remarks.notes.get(name, ()):
            yield _spanning(f"    {note}", "warning", is_quiet=is_quiet)
        if (advice := advise(row)) and advice not in results.headline:
            yield _spanning(f"    {advice}", "muted", is_quiet=is_quiet)
    for sweep in sweeps:
        yield from _sweep_entries(sweep, heading, results.anchor_prefix, is_quiet=all_quiet)


def _spanning(text: str, tone: Tone, *, is_quiet: bool) -> _Entry:
    others = len(_columns("new")) - 1
    return _Entry(cells=(Cell(text=text, tone=tone), *(EMPTY,) * others), is_quiet=is_quiet)


# Sort order of verdicts: regressions first.
VERDICT_PLACES: Mapping[Verdict, float] = {
    verdict: float(position) for position, verdict in enumerate(VERDICT_TONES)
}


def _result_cells(name: str, row: Row, *, with_unit: bool) -> tuple[Cell, ...]:
    scale = scale_for(row.unit, row.base, row.new)
    tone = VERDICT_TONES[row.verdict]
    return (
        Cell(text=name),
        Cell(text=scale.unit),
        Cell(text=scale.format(row.base), sort=row.base),
        Cell(text=scale.format(row.new), sort=row.new),
        Cell(text=format_change(row.ratio), tone=tone, sort=row.ratio),
        Cell(text=format_interval(row.ci_low, row.ci_high), sort=row.ci_low),
        Cell(text=count_units(row) if with_unit else count_values(row), sort=row.n_new),
        Cell(text=row.verdict, tone=tone, sort=VERDICT_PLACES[row.verdict]),
        Cell(text=format_p(row.q), tone="muted", sort=row.q),
        Cell(text=row.method, tone="muted"),
    )


def _mean_cells(
    name: str, ratio: float, ends: tuple[float | None, float | None]
) -> tuple[Cell, ...]:
    return (
        Cell(text=name, tone="muted"),
        *(EMPTY,) * 3,
        Cell(text=format_change(ratio), sort=ratio),
        Cell(text=format_interval(*ends), sort=ends[0]),
        *(EMPTY,) * 4,
    )


def _sweep_entries(sweep: Sweep, heading: str, prefix: str, *, is_quiet: bool) -> Iterator[_Entry]:
    if sweep.geomean_ratio is not None:
        ends = (sweep.ci_low, sweep.ci_high)
        name = f"{heading}, geomean"
        yield _Entry(
            cells=_mean_cells("  geomean", sweep.geomean_ratio, ends),
            is_quiet=is_quiet,
            name=name,
            anchor=f"{prefix}{name}",
            mean=(sweep.geomean_ratio, *ends),
        )
    facts = [
        *words_of_shape(sweep),
        *([f"p = {format_p(sweep.p)}"] if sweep.p is not None else []),
    ]
    if facts:
        yield _spanning(f"  all parameter values: {'; '.join(facts)}", "muted", is_quiet=is_quiet)


def _says_nothing(geomean: Geomean, rows: Sequence[Row]) -> bool:
    # No row is decided, and the CI spans several times the mean.
    is_open = all(row.verdict in ("inconclusive", "invalid") for row in rows)
    return is_open and geomean.ci_high / geomean.ci_low > FARTHEST_END**2


def _means(results: Results, sizes: set[int]) -> Iterator[_Entry]:
    # Metrics where lower is better and metrics where higher is better have no common mean. A single
    # sweep already has its mean.
    is_one_way = results.is_one_way
    for better in DIRECTIONS:
        rows = [row for _, row in results.lines if row.better == better]
        geomean = geomean_of(rows)
        if geomean is None or len(rows) in sizes or _says_nothing(geomean, rows):
            continue
        counted = (
            f"all {geomean.count}"
            if geomean.count == len(rows)
            else f"{geomean.count} of {len(rows)}"
        )
        name = f"geomean of {counted} results{'' if is_one_way else f', {say_direction(better)}'}"
        yield _Entry(
            cells=_mean_cells(name, geomean.ratio, (geomean.ci_low, geomean.ci_high)),
            is_quiet=False,
            name=name,
            anchor=f"{results.anchor_prefix}{results.title}, {name}",
            mean=(geomean.ratio, geomean.ci_low, geomean.ci_high),
        )


def _lines(entries: Sequence[_Entry]) -> Iterator[IntervalLine]:
    is_one_way = common_direction([entry.row for entry in entries if entry.row]) is not None
    for number, entry in enumerate(entries):
        if is_spanning(entry.cells):
            continue
        row = entry.row
        ratio, low, high = entry.mean or (
            (None, None, None) if row is None else (row.ratio, row.ci_low, row.ci_high)
        )
        yield IntervalLine(
            name=entry.name,
            row=number,
            anchor=entry.anchor,
            verdict=None if row is None else row.verdict,
            ratio=ratio,
            ci_low=low,
            ci_high=high,
            margin=None if row is None else row.margin,
            mark="" if row is None or is_one_way else say_direction(row.better),
        )


def geomean_of(rows: Sequence[Row]) -> Geomean | None:
    """Return the geometric mean of the ratios of rows with an interval.

    None where fewer than two commands or points were measured: percentiles of one distribution have
    no mean that says anything.

    Results of one run vary together, so their half-widths (in logarithms) add up, which is the most
    that they can make; those of different commands or points were measured apart, so the squares of
    theirs do. Each half-width has the quantile of its own degrees of freedom, which is at least
    that of the mean's: the interval is wider than it need be, never narrower.
    """
    counted = [row for row in rows if _is_counted(row)]
    if len({(row.workload, row.point) for row in counted}) < _FEWEST_MEASURED:
        return None
    halves: dict[tuple[str, str], float] = {}
    total = 0.0
    for row in counted:
        assert row.ratio is not None
        assert row.ci_low is not None
        assert row.ci_high is not None
        key = (row.workload, row.point)
        halves[key] = halves.get(key, 0.0) + math.log(row.ci_high / row.ci_low) / 2.0
        total += math.log(row.ratio)
    half = math.hypot(*halves.values()) / len(counted)
    mean = total / len(counted)
    return Geomean(
        count=len(counted),
        ratio=math.exp(mean),
        ci_low=math.exp(mean - half),
        ci_high=math.exp(mean + half),
    )


def _is_counted(row: Row) -> bool:
    """Say whether a row is comparable and has an interval of its ratio."""
    has_interval = bool(row.ratio and row.ci_low and row.ci_high)
    return has_interval and row.verdict != "invalid"
