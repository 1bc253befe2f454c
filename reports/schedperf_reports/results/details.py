# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the details of a result: all runs, the test, and the source of the numbers."""

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby

from schedperf.model.rows import Row, RunValue
from schedperf.model.verdict import describe_boot_sd, name_units
from schedperf_reports.blocks import Block, Cell, Column, Item, Items, Table, Text
from schedperf_reports.results.run_figures import (
    RowRuns,
    draw_runs,
    scale_of,
    sides_of,
)
from schedperf_reports.words.quantities import (
    MISSING,
    format_change,
    format_interval,
    format_number,
    format_p,
    format_share,
)
from schedperf_reports.words.rows import count_units, describe_n, name_direction

# With fewer runs on each side a plot shows no more than the numbers.
FEWEST_DRAWN = 2

# Values in one row of the table of runs; more would be cut off on a phone.
RUNS_A_ROW = 10


def _describe_test(row: Row) -> str:
    return f"{row.method}, {count_units(row)}"


def _describe_p(row: Row) -> str:
    corrected = "" if row.q is None else f"; q = {format_p(row.q)}, corrected for multiple testing"
    return MISSING if row.p is None else f"{format_p(row.p)}{corrected}"


def _describe_t(row: Row) -> str:
    return MISSING if row.p_t is None else f"p = {format_p(row.p_t)}"


def _describe_same(row: Row) -> str:
    return MISSING if row.same_as is None else f"{row.same_as}: tested once"


def _describe_more_runs(row: Row) -> str:
    if row.more_runs is None:
        return MISSING
    # A pair has a run of each side.
    each = "" if row.replication == "rounds" else " per side"
    return f"{row.more_runs} {name_units(row.more_runs, row.replication)}{each}"


def _describe_ranks(row: Row) -> str:
    if row.p_rank is None:
        return MISSING
    interval = format_interval(row.rank_low, row.rank_high)
    floor = "" if row.p_rank_min is None else f" (smallest possible: {format_p(row.p_rank_min)})"
    return f"p = {format_p(row.p_rank)}{floor}, {format_change(row.rank_ratio)} {interval}"


def _describe_boots(row: Row) -> str:
    if row.boot_sd is not None:
        return f"one boot per side; {describe_boot_sd(row.boot_sd)}"
    if row.icc is None:
        return MISSING
    effect = "" if row.design_effect is None else f", design effect {row.design_effect:.2f}"
    return f"{format_share(row.icc)} of the variance is between boots (ICC){effect}"


# Statistics for readers who check a result: label and text of each.
FIGURES: Mapping[str, Callable[[Row], str]] = {
    "test": _describe_test,
    "p": _describe_p,
    "equivalence margin": lambda row: f"+-{format_share(row.margin)}",
    "smallest detectable change (80% power)": lambda row: format_share(row.mde),
    "additional values needed for a verdict": _describe_more_runs,
    "t test": _describe_t,
    "rank or permutation test": _describe_ranks,
    "same measurement as": _describe_same,
    "boots": _describe_boots,
}


def describe_result(name: str, row: Row) -> tuple[Block, ...]:
    """Return the details of a result: reason, plot, values of the runs, statistics and origin.

    With one run per side there is no plot, and without runs there are no values.

    :param name: the row's name
    """
    return (
        Text(text=row.reason, tone="strong"),
        *_drawn(row),
        *_runs_table(name, row),
        _figures_table(name, row),
        Items(items=tuple(_origin(row))),
    )


def _drawn(row: Row) -> Iterator[Block]:
    # A published mean and a count of failures have no runs to show.
    sides = sides_of(row)
    if sides and max(len(side.runs) for side in sides) >= FEWEST_DRAWN:
        yield draw_runs(row)


def _runs_table(name: str, row: Row) -> Iterator[Table]:
    scale = scale_of(row)
    runs = [run for side in sides_of(row) for run in side.runs]
    is_log = all(run.value > 0.0 for run in runs)
    rows = [cells for side in sides_of(row) for cells in _boot_rows(side, scale.factor)]
    if rows:
        unit = f" in {scale.unit}" if scale.unit else ""
        is_ordered = all(run.order is not None for run in runs)
        how = "in time order" if is_ordered else "time order not recorded"
        yield Table(
            caption=f"{name}{unit}, per run, {how}",
            columns=(
                Column(title="side"),
                Column(title="boot", align="right"),
                Column(title="mean", align="right", explains=_explain_mean(is_log=is_log)),
                Column(title="values", explains="value of each run, earliest run first"),
                Column(
                    title="order",
                    explains="position of each run in time among all runs of all sides",
                ),
            ),
            rows=tuple(rows),
        )


def _explain_mean(*, is_log: bool) -> str:
    return f"{'geometric' if is_log else 'arithmetic'} mean of all runs of the side in this boot"


def _boot_rows(side: RowRuns, factor: float) -> Iterator[tuple[Cell, ...]]:
    means = {each.boot: each.mean for each in side.statistics.boots}
    for boot, group in groupby(side.in_time(), key=lambda run: run.boot):
        runs = list(group)
        for first in range(0, len(runs), RUNS_A_ROW):
            some = runs[first : first + RUNS_A_ROW]
            yield (
                Cell(text=side.name),
                Cell(text=MISSING if boot is None else f"{boot}"),
                Cell(text=format_number(means[boot] / factor), sort=means[boot]),
                Cell(text=" ".join(format_number(run.value / factor) for run in some)),
                Cell(text=_places(some)),
            )


def _places(runs: list[RunValue]) -> str:
    # Consecutive numbers are printed as a range.
    positions = [run.order for run in runs]
    orders = [order for order in positions if order is not None]
    if len(orders) < len(positions):
        return MISSING
    if len(orders) > 1 and orders == list(range(orders[0], orders[-1] + 1)):
        return f"{orders[0]} to {orders[-1]}"
    return " ".join(map(str, orders))


def _figures_table(name: str, row: Row) -> Table:
    figures = {title: write(row) for title, write in FIGURES.items()}
    return Table(
        caption=f"{name}: {row.verdict}, {_how_sure(row)}",
        columns=(Column(title="figure"), Column(title="value")),
        rows=tuple(
            (Cell(text=title), Cell(text=text))
            for title, text in figures.items()
            if text != MISSING
        ),
    )


def _how_sure(row: Row) -> str:
    # The first questions of a reader who checks a verdict.
    p_value = f"p = {format_p(row.p)}, " if row.p is not None else ""
    return f"{p_value}{describe_n(row)}"


def _origin(row: Row) -> Iterator[Item]:
    # The definition comes first because engineers ask for it first.
    direction = name_direction(row.better)
    if row.definition is None:
        yield Item(text=f"{row.metric}: {direction}; no definition recorded")
    else:
        yield Item(text=f"{row.metric}: {row.definition.rstrip('.')}; {direction}")
    point = f" at {row.point}" if row.point else ""
    yield Item(text=f"command: {row.workload}{point}")
    for name, runs in (("base", row.values_base), (row.side, row.values_new)):
        source = next((run.source for run in runs if run.source is not None), None)
        if source is not None:
            yield Item(
                text=f"output of {name}: {source.text.strip()}",
                detail=f"{source.member}, line {source.line}",
            )
    for caveat in row.caveats:
        yield Item(text=caveat.text, tone="warning")
