# SPDX-License-Identifier: GPL-2.0-or-later
"""Report time and power together: the first result of a workload at each point, with its power.

Power comes from results in W and from the energy counters, as the mean power of a run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.energy.record import Energy, EnergyRow, leading_rows
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.sections import data_of
from schedperf.model.units import Scale, scale_for
from schedperf.model.verdict import CHANGED, count_units
from schedperf_reports.blocks import Block, Cell, Column, Table, Tone
from schedperf_reports.graphics.axes import Axis, word_axis
from schedperf_reports.graphics.chart import Chart, Panel, Point, Series
from schedperf_reports.graphics.ratio_axis import bounded, fit_axis
from schedperf_reports.results.sweep_plot import varied_parameter
from schedperf_reports.sections import report_section
from schedperf_reports.words.quantities import format_change, format_interval

WATT = "W"
# A table of one line adds nothing to the results.
FEWEST_POINTS = 2
# Lines of a mail: one per point, and one with its CIs.
MAIL_ROWS = 48
HEIGHT = 110
MARK = "*"


class _Value(Struct, frozen=True, kw_only=True):
    """A result or a power at one point, base against new."""

    base: float
    new: float
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    is_changed: bool
    n: str

    @property
    def interval(self) -> str:
        """Return the CI of the change."""
        return format_interval(self.ci_low, self.ci_high)


class _Measured(Struct, frozen=True, kw_only=True):
    """One quantity of a workload at each point.

    :param name: "hackbench time", "power of package-0"
    :param values: value by point; points that lack it on a side are left out
    :param is_result: whether it was printed by the benchmark or given in a table, not measured by
        the machine
    """

    name: str
    unit: str
    values: Mapping[str, _Value]
    is_result: bool

    @property
    def short(self) -> str:
        """Return "time", "power" or "result"; the caption has the full name."""
        return {"s": "time", WATT: "power"}.get(self.unit, "result")

    def scale(self, points: Sequence[str]) -> Scale:
        """Return the unit in which the values at some points are printed."""
        ends = [
            end for point in points for end in (self.values[point].base, self.values[point].new)
        ]
        return scale_for(self.unit, *ends)


@report_section(
    "time_and_power",
    title="Time and power",
    chapter="benchmarks",
    order=20,
    is_brief=True,
    mail_rows=MAIL_ROWS,
    is_optional=True,
)
def time_and_power(comparison: Comparison) -> Iterator[Block]:
    """Yield a table and a chart for each side, workload and power meter.

    Yield nothing without power, and without at least two points that have a result and power.
    """
    for side in comparison.sides[1:]:
        rows = [row for row in comparison.rows if row.side == side.name]
        for workload in dict.fromkeys(row.workload for row in rows):
            result = _result_of([row for row in rows if row.workload == workload])
            for power in _powers_of(comparison, side.name, workload):
                points = [] if result is None else [*filter(power.values.get, result.values)]
                if result is not None and len(points) >= FEWEST_POINTS:
                    heading = f"{workload}, {side.name} vs base"
                    yield _table(heading, points, (result, power))
                    yield _chart(heading, points, (result, power))


def _result_of(rows: Sequence[Row]) -> _Measured | None:
    # The first primary result; a time, if there is one.
    primary = [row for row in rows if row.family == "primary" and row.unit != WATT]
    ordered = sorted(primary, key=lambda row: row.unit != "s")
    return (
        _of_rows([row for row in ordered if row.metric == ordered[0].metric]) if ordered else None
    )


def _powers_of(comparison: Comparison, side: str, workload: str) -> Iterator[_Measured]:
    results = [
        row
        for row in comparison.rows
        if (row.side, row.workload, row.unit) == (side, workload, WATT)
    ]
    for metric in dict.fromkeys(row.metric for row in results):
        yield _of_rows([row for row in results if row.metric == metric])
    data = data_of(comparison.sections, Energy)
    counted = [] if data is None else leading_rows(data.rows)
    powers = [
        row
        for row in counted
        if (row.side, row.workload, row.basis, row.unit) == (side, workload, "time", WATT)
    ]
    for domain in dict.fromkeys(row.domain for row in powers):
        of_domain = [row for row in powers if row.domain == domain]
        yield _Measured(
            name=f"power of {domain}",
            unit=WATT,
            values=dict(_values((row, bool(row.changed)) for row in of_domain)),
            is_result=False,
        )


def _of_rows(rows: Sequence[Row]) -> _Measured:
    return _Measured(
        name=rows[0].metric,
        unit=rows[0].unit,
        values=dict(_values((row, row.verdict in CHANGED) for row in rows)),
        is_result=True,
    )


def _values(rows: Iterable[tuple[Row | EnergyRow, bool]]) -> Iterator[tuple[str, _Value]]:
    for row, is_changed in rows:
        if row.base is not None and row.new is not None:
            yield (
                row.point,
                _Value(
                    base=row.base,
                    new=row.new,
                    ratio=row.ratio,
                    ci_low=row.ci_low,
                    ci_high=row.ci_high,
                    is_changed=is_changed,
                    n=count_units(row.n_base, row.n_new, row.replication),
                ),
            )


def _table(heading: str, points: Sequence[str], measured: Sequence[_Measured]) -> Table:
    parameter, names = varied_parameter(points)
    scales = [each.scale(points) for each in measured]
    pairs = list(zip(measured, scales, strict=True))
    what = " and ".join(f"{each.name} in {scale.unit}" for each, scale in pairs)
    return Table(
        caption=f"{heading}: {what}; {MARK}: significant",
        columns=(
            Column(title=parameter),
            *(column for _, scale in pairs for column in _columns(scale.unit)),
        ),
        rows=tuple(
            line
            for name, point in zip(names, points, strict=True)
            for line in _lines(name, point, pairs)
        ),
        # Omitted unless the user provided power values.
        brief=all(each.is_result for each in measured),
    )


def _columns(unit: str) -> tuple[Column, ...]:
    titles = (f"base [{unit}]", f"new [{unit}]", "change")
    return tuple(Column(title=title, align="right") for title in titles)


def _lines(
    name: str, point: str, measured: Sequence[tuple[_Measured, Scale]]
) -> Iterator[tuple[Cell, ...]]:
    values = [(each.short, each.values[point], scale) for each, scale in measured]
    cells = [cell for _, value, scale in values for cell in _cells(value, scale)]
    yield (Cell(text=name), *cells)
    intervals = ", ".join(f"{title} {value.interval}" for title, value, _ in values)
    counts = ", ".join(dict.fromkeys(value.n for _, value, _ in values))
    note = Cell(text=f"  95% CI: {intervals}; n = {counts}", tone="muted")
    yield (note, *(Cell(text="") for _ in cells))


def _cells(value: _Value, scale: Scale) -> tuple[Cell, ...]:
    tone: Tone = "strong" if value.is_changed else "plain"
    mark = MARK if value.is_changed else ""
    return (
        Cell(text=scale.format(value.base), tone=tone, sort=value.base),
        Cell(text=scale.format(value.new), tone=tone, sort=value.new),
        Cell(text=f"{mark}{format_change(value.ratio)}", tone=tone, sort=value.ratio),
    )


def _chart(heading: str, points: Sequence[str], measured: Sequence[_Measured]) -> Chart:
    parameter, names = varied_parameter(points)
    panels = [_panel(each, points, word_axis(names, parameter)) for each in measured]
    changes = " and of ".join(each.name for each in measured)
    return Chart(
        caption=f"{heading}: change of {changes}; bars are 95% CIs",
        sides=(),
        panels=tuple(panels),
    )


def _panel(measured: _Measured, points: Sequence[str], axis: Axis) -> Panel:
    drawn = tuple(
        Point(
            x=float(index),
            y=bounded(value.ratio),
            low=None if value.ci_low is None else bounded(value.ci_low),
            high=None if value.ci_high is None else bounded(value.ci_high),
            title=f"{point}: {measured.name} {format_change(value.ratio)} {value.interval}",
        )
        for index, point in enumerate(points)
        if (value := measured.values[point]).ratio is not None
    )
    ends = [end for each in drawn for end in (each.y, each.low, each.high) if end is not None]
    return Panel(
        height=HEIGHT,
        x=axis,
        y=replace(fit_axis([1.0, *ends]), title=measured.name),
        series=(Series(side="", parts=(drawn,), has_line=False),),
    )
