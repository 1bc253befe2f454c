# SPDX-License-Identifier: GPL-2.0-or-later
"""The Plotly figure of one result's runs: how they are spread, and in which order they came.

Values are in the unit that the result is shown in, and nothing else of a run is in a figure:
a page has hundreds of them.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, geometric_mean, median
from typing import Any

from schedperf.model.comparison import Row, RunValue
from schedperf.model.units import Scale
from schedperf_reports.blocks import Figure
from schedperf_reports.results.side_traces import side_colour, side_dash, side_symbol
from schedperf_reports.words.rows import count_of
from schedperf_reports.words.units import MISSING, format_change, format_number, scale_for

# A figure is some hundred pixels wide: more digits cannot be seen.
DIGITS = 5

HEIGHT = 480  # Pixels.

# Where the panels are, from the top: each run, shares of the runs, runs in time; as shares of the
# height. The first two have one axis.
SPREAD_PANEL = (0.74, 1.0)
SHARE_PANEL = (0.42, 0.7)
TIME_PANEL = (0.0, 0.27)

# Halves of fewer runs say nothing about a trend.
FEWEST_IN_TREND = 4

COUNTED = re.compile(r"(\d+) of (\d+)", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowRuns:
    """The runs of one side of a row.

    :param name: "base", "new2"
    """

    name: str
    runs: tuple[RunValue, ...]

    def in_time(self) -> list[RunValue]:
        """Return the runs in the order of time, where they have one."""
        return sorted(self.runs, key=_moment)


def _moment(run: RunValue) -> tuple[int, int]:
    return (run.run, run.run) if run.order is None else (run.order, run.run)


def sides_of(row: Row) -> tuple[RowRuns, ...]:
    """Return the sides of a row that have runs, base first."""
    both = (("base", row.values_base), (row.side, row.values_new))
    return tuple(RowRuns(name=name, runs=runs) for name, runs in both if runs)


def scale_of(row: Row) -> Scale:
    """Return the unit that a row and its runs are shown in."""
    return scale_for(row.unit, row.base, row.new)


def mean_of_runs(values: Sequence[float], *, is_log: bool) -> float:
    """Return the mean that results have: geometric where all of their values are positive."""
    return geometric_mean(values) if is_log else fmean(values)


def draw_runs(row: Row) -> Figure:
    """Draw each run with a box over its side, the share of runs up to each value, and their order.

    The runs of one boot are joined by a line.
    """
    scale = scale_of(row)
    sides = sides_of(row)
    cut = _place_of_modes(row, sides)
    traces = [draw(side, scale) for draw in (_box, _shares, _in_time) for side in sides]
    sentences = (_describe_spread(sides, scale, is_cut=cut is not None), _describe_order(sides))
    return Figure(
        caption="; ".join(sentences),
        figure={"data": traces, "layout": _layout(sides, scale, cut)},
        height=HEIGHT,
    )


def _layout(sides: Sequence[RowRuns], scale: Scale, cut: float | None) -> dict[str, Any]:
    has_order = all(run.order is not None for side in sides for run in side.runs)
    across = "time order of all runs" if has_order else "run number"
    plain = {"automargin": True, "zeroline": False}
    shares = {"range": [0, 1.04], "tickformat": ".0%", "nticks": 4, "title": {"text": "runs up to"}}
    return {
        "xaxis": {"title": {"text": scale.unit}, "anchor": "y2", "zeroline": False},
        "yaxis": {"domain": SPREAD_PANEL, "autorange": "reversed", "automargin": True},
        "yaxis2": {"domain": SHARE_PANEL, **plain, **shares},
        "xaxis2": {"title": {"text": across}, "anchor": "y3", "zeroline": False},
        "yaxis3": {
            "domain": TIME_PANEL,
            "anchor": "x2",
            "nticks": 4,
            "title": {"text": scale.unit},
            **plain,
        },
        "shapes": [] if cut is None else [_cut_line(cut / scale.factor)],
        "showlegend": False,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 44},
        "hovermode": "closest",
    }


def _scaled(values: Sequence[float], scale: Scale) -> list[float]:
    return [float(f"{value / scale.factor:.{DIGITS}g}") for value in values]


def _box(side: RowRuns, scale: Scale) -> dict[str, Any]:
    return {
        "type": "box",
        "orientation": "h",
        "name": side.name,
        "x": _scaled([run.value for run in side.runs], scale),
        "boxpoints": "all",
        "pointpos": 0,
        "jitter": 0.7,
        "marker": {"symbol": side_symbol(side.name), "color": side_colour(side.name), "size": 6},
        "line": {"color": side_colour(side.name), "width": 1.5},
        "fillcolor": "rgba(0,0,0,0)",
        "hoverinfo": "x",
    }


def _shares(side: RowRuns, scale: Scale) -> dict[str, Any]:
    # Plotly counts the height up by itself, so only the values are on the page.
    step = 1.0 / len(side.runs)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": side.name,
        "x": sorted(_scaled([run.value for run in side.runs], scale)),
        "y0": step,
        "dy": step,
        "yaxis": "y2",
        "line": {
            "shape": "hv",
            "color": side_colour(side.name),
            "dash": side_dash(side.name),
        },
    }


def _cut_line(value: float) -> dict[str, object]:
    return {
        "type": "line",
        "yref": "paper",
        "x0": value,
        "x1": value,
        "y0": SHARE_PANEL[0],
        "y1": 1,
        "line": {"color": "var(--warning)", "width": 1.5, "dash": "dot"},
    }


def _place_of_modes(row: Row, sides: Sequence[RowRuns]) -> float | None:
    # The statistics say how many runs were in the slower mode: the edge lies beyond so many. Where
    # they counted boots or rounds, it is not known of single runs.
    numbers = next((caveat.numbers for caveat in row.caveats if caveat.code == "modes"), None)
    if numbers is None or len(sides) < 2:  # noqa: PLR2004 # base and new
        return None
    counts = [COUNTED.fullmatch(str(numbers.get(key))) for key in ("base", "new")]
    if any(count is None for count in counts):
        return None
    slow = sum(int(count[1]) for count in counts if count is not None)
    values = sorted(run.value for side in sides for run in side.runs)
    total = sum(int(count[2]) for count in counts if count is not None)
    edge = total - slow if row.better == "lower" else slow
    if total != len(values) or not 0 < edge < total:
        return None
    return (values[edge - 1] + values[edge]) / 2.0


def _describe_spread(sides: Sequence[RowRuns], scale: Scale, *, is_cut: bool) -> str:
    medians = ", ".join(
        f"{side.name} {_median(side, scale)} {scale.unit} ({count_of(len(side.runs), 'run')})"
        for side in sides
    )
    parts = [f"median {medians}"]
    if len(sides) == 2:  # noqa: PLR2004 # base and new
        base, new = sides
        parts.append(f"{new.name} is above {base.name} in {_say_above(base.runs, new.runs)}")
    if is_cut:
        parts.append("dotted line: boundary between the two modes of the distribution")
    return "; ".join(parts)


def _median(side: RowRuns, scale: Scale) -> str:
    return format_number(median(run.value for run in side.runs) / scale.factor)


def _say_above(base: Sequence[RunValue], new: Sequence[RunValue]) -> str:
    # Interleaved runs are compared within their pair.
    rounds = [{run.round: run.value for run in runs} for runs in (base, new)]
    are_paired = None not in rounds[0] and rounds[0].keys() == rounds[1].keys()
    if are_paired and len(rounds[0]) == len(base) == len(new):
        above = sum(rounds[1][number] > value for number, value in rounds[0].items())
        return f"{above} of {count_of(len(base), 'interleaved pair')}"
    return f"{100 * _share_above(base, new):.0f}% of all pairs (one run of each side)"


def _share_above(base: Sequence[RunValue], new: Sequence[RunValue]) -> float:
    # Ties count half: Vargha & Delaney, "A critique and improvement of the CL common language
    # effect size statistics", J. Educ. Behav. Stat. 25 (2000).
    ordered = sorted(run.value for run in base)
    below = sum(bisect_left(ordered, run.value) + bisect_right(ordered, run.value) for run in new)
    return below / (2.0 * len(base) * len(new))


def _in_time(side: RowRuns, scale: Scale) -> dict[str, Any]:
    places: list[int | None] = []
    values: list[float | None] = []
    boots: list[str] = []
    for boot, group in groupby(side.in_time(), key=lambda run: run.boot):
        runs = list(group)
        gap = bool(places)
        places += [*([None] if gap else []), *(_moment(run)[0] for run in runs)]
        values += [*([None] if gap else []), *_scaled([run.value for run in runs], scale)]
        boots += [*([""] if gap else []), *(_boot_name(boot) for _ in runs)]
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": side.name,
        "x": places,
        "y": values,
        "xaxis": "x2",
        "yaxis": "y3",
        "marker": {"symbol": side_symbol(side.name), "size": 7, "color": side_colour(side.name)},
        "line": {"color": side_colour(side.name), "width": 1},
    }
    # Boots are named only if there are several.
    return trace if len(set(boots)) == 1 else trace | {"text": boots}


def _boot_name(boot: int | None) -> str:
    return "" if boot is None else f"boot {boot}"


def _describe_order(sides: Sequence[RowRuns]) -> str:
    trends = "; ".join(f"{side.name} {_trend(side)}" for side in sides)
    joined = any(len({run.boot for run in side.runs}) > 1 for side in sides)
    return f"drift of the mean (no CI): {trends}" + (
        "; lines connect runs of the same boot" if joined else ""
    )


def trend_of(side: RowRuns) -> float | None:
    """Return the mean of a side's later half over that of its earlier half; None for few runs.

    With an odd number of runs the middle run is left out.
    """
    values = [run.value for run in side.in_time()]
    half = len(values) // 2
    if len(values) < FEWEST_IN_TREND:
        return None
    is_log = min(values) > 0.0
    early, late = (mean_of_runs(part, is_log=is_log) for part in (values[:half], values[-half:]))
    return late / early if early else None


def name_halves(side: RowRuns) -> str:
    """Return which runs :func:`trend_of` compares: ``last 2 of 5 runs vs first 2``."""
    half = len(side.runs) // 2
    return f"last {half} of {len(side.runs)} runs vs first {half}"


def _trend(side: RowRuns) -> str:
    trend, boots = trend_of(side), _count_boots(side)
    if trend is None:
        return f"{MISSING}{f' ({boots})' if boots else ''}"
    return f"{format_change(trend)} ({name_halves(side)}{f', {boots}' if boots else ''})"


def _count_boots(side: RowRuns) -> str:
    boots = {run.boot for run in side.runs} - {None}
    return count_of(len(boots), "boot") if boots else ""
