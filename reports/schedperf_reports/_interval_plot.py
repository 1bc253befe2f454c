"""Two Plotly figures of benchmark rows: intervals against the margin, and each run.

Both show new / base on a logarithmic axis, so that twice and half are equally
far from no change; its ticks say per cent. Lines of one figure have one direction:
it can then say which way is worse.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from schedperf.model import Row, Verdict
from schedperf_reports._units import format_change, format_interval, format_number
from schedperf_reports.blocks import Figure

# More lines than this no reader follows; the table has all of them.
MOST_LINES = 60

# Pixels: of one line, and of axis and margins.
LINE_PIXELS = 38
FRAME_PIXELS = 84

# Room around the values, as a share of their range, and the smallest range shown (as a ratio):
# a change of half a per cent must not fill the page.
ROOM = 0.08
SMALLEST_RANGE = 1.05

MOST_TICKS = 7
# Distances between ticks, in per cent; beyond the last, ticks are powers of two.
TICK_STEPS = (1, 2, 5, 10, 20, 25, 50, 100)

# Ratios beyond are drawn at the edge; the table has the number.
LARGEST_RATIO = 1e6

LABEL_CHARACTERS = 36

# Marker and colour by verdict: the shape alone tells them apart.
MARKERS: dict[Verdict, tuple[str, str]] = {
    "regression": ("diamond", "var(--bad)"),
    "improvement": ("diamond", "var(--good)"),
    "no-change": ("circle", "var(--muted)"),
    "inconclusive": ("circle-open", "var(--warning)"),
    "invalid": ("x-thin-open", "var(--warning)"),
}

Line = tuple[str, Row]


def draw_intervals(lines: Sequence[Line], caption: str) -> Figure:
    """Draw one interval a line, the equivalence band behind it; all have a ratio and an interval.

    :param lines: the row's name and the row
    """
    shown = lines[:MOST_LINES]
    ends = [
        end for _, row in shown for end in (row.ci_low, row.ci_high, row.ratio) if end is not None
    ]
    bands = _bands(shown)
    ends += [band[key] for band in bands for key in ("x0", "x1")]
    return Figure(
        caption=_cut(caption, lines, "intervals"),
        figure={
            "data": [_interval_trace(verdict, shown) for verdict in MARKERS],
            "layout": _layout(shown, ends, {"shapes": [*bands, _no_change_line()]}),
        },
        height=FRAME_PIXELS + LINE_PIXELS * len(shown),
    )


def draw_runs(lines: Sequence[Line], caption: str) -> Figure:
    """Draw each run of both sides against base's mean; values are positive."""
    shown = lines[:MOST_LINES]
    base = _runs_trace(shown, is_base=True)
    new = _runs_trace(shown, is_base=False)
    ends = [value for trace in (base, new) for value in trace["x"]]
    layout = _layout(shown, ends, {"shapes": [_no_change_line()], "showlegend": True})
    return Figure(
        caption=_cut(caption, lines, "runs"),
        figure={"data": [base, new], "layout": layout},
        height=FRAME_PIXELS + LINE_PIXELS * len(shown),
    )


def _cut(caption: str, lines: Sequence[Line], what: str) -> str:
    if len(lines) <= MOST_LINES:
        return caption
    return f"{caption}; {what} of the first {MOST_LINES} of {len(lines)} results"


def _interval_trace(verdict: Verdict, lines: Sequence[Line]) -> dict[str, Any]:
    places = [place for place, (_, row) in enumerate(lines) if row.verdict == verdict]
    rows = [lines[place][1] for place in places]
    symbol, colour = MARKERS[verdict]
    ratios = [_bounded(row.ratio) for row in rows]
    above = [_bounded(row.ci_high) - ratio for row, ratio in zip(rows, ratios, strict=True)]
    below = [ratio - _bounded(row.ci_low) for row, ratio in zip(rows, ratios, strict=True)]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": verdict,
        "x": ratios,
        "y": places,
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": above,
            "arrayminus": below,
            "color": colour,
            "thickness": 2,
            "width": 5,
        },
        "marker": {"symbol": symbol, "size": 11, "color": colour, "line": _edge(symbol, colour)},
        "text": [_hover(lines[place][0], lines[place][1]) for place in places],
        "hoverinfo": "text",
        "showlegend": bool(rows),
    }


def _edge(symbol: str, colour: str) -> dict[str, object]:
    return {"width": 2 if symbol.endswith("open") else 0, "color": colour}


def _hover(name: str, row: Row) -> str:
    interval = format_interval(row.ci_low, row.ci_high)
    return f"{name}: {format_change(row.ratio)} (95 % interval {interval}), {row.verdict}"


def _runs_trace(lines: Sequence[Line], *, is_base: bool) -> dict[str, Any]:
    offset, symbol, colour = (
        (-0.16, "square-open", "var(--base)") if is_base else (0.16, "circle-open", "var(--new)")
    )
    ratios: list[float] = []
    heights: list[float] = []
    texts: list[str] = []
    for place, (name, row) in enumerate(lines):
        assert row.base is not None
        for run in row.values_base if is_base else row.values_new:
            ratios.append(_bounded(run.value / row.base))
            heights.append(place + offset)
            value = f"{format_number(run.value)} {row.unit}"
            boot = "" if run.boot is None else f"boot {run.boot} "
            texts.append(f"{name}, {boot}run {run.run}: {value}")
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "A base" if is_base else "B new",
        "x": ratios,
        "y": heights,
        "marker": {"symbol": symbol, "size": 8, "color": colour, "line": _edge(symbol, colour)},
        "text": texts,
        "hoverinfo": "text",
    }


def _bands(lines: Sequence[Line]) -> list[dict[str, Any]]:
    # The test is symmetric on the logarithmic scale, and so is the band.
    bands = []
    for margin, group in groupby(enumerate(lines), key=lambda line: line[1][1].margin):
        places = [place for place, _ in group]
        band = {
            "type": "rect",
            "layer": "below",
            "x0": 1.0 / (1.0 + margin),
            "x1": 1.0 + margin,
            "y0": places[0] - 0.5,
            "y1": places[-1] + 0.5,
            "fillcolor": "var(--band)",
            "line": {"width": 0},
        }
        bands.append(band)
    return bands


def _no_change_line() -> dict[str, object]:
    return {
        "type": "line",
        "layer": "between",
        "yref": "paper",
        "x0": 1,
        "x1": 1,
        "y0": 0,
        "y1": 1,
        "line": {"color": "var(--muted)", "width": 1},
    }


def _layout(
    lines: Sequence[Line], ends: Iterable[float], more: dict[str, object]
) -> dict[str, object]:
    low, high = _range(ends)
    ticks = choose_ticks(low, high)
    better = lines[0][1].better
    left, right = ("better", "worse") if better == "lower" else ("worse", "better")
    names = [
        name if len(name) <= LABEL_CHARACTERS else f"{name[: LABEL_CHARACTERS - 1]}…"
        for name, _ in lines
    ]
    return {
        "xaxis": {
            "type": "log",
            "range": [math.log10(low), math.log10(high)],
            "tickvals": ticks,
            "ticktext": [_tick_text(tick) for tick in ticks],
            "title": {"text": f"← {left}   change of new against base   {right} →"},
            "zeroline": False,
        },
        "yaxis": {
            "tickvals": list(range(len(lines))),
            "ticktext": names,
            "range": [len(lines) - 0.5, -0.5],
            "automargin": True,
            "zeroline": False,
            "showgrid": False,
            "fixedrange": True,
        },
        "margin": {"l": 8, "r": 16, "t": 28, "b": 48},
        "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
        "hovermode": "closest",
        **more,
    }


def _bounded(ratio: float | None) -> float:
    assert ratio is not None
    return min(max(ratio, 1.0 / LARGEST_RATIO), LARGEST_RATIO)


def _range(ends: Iterable[float]) -> tuple[float, float]:
    logs = [math.log(_bounded(end)) for end in ends] + [0.0]
    low, high = min(logs), max(logs)
    lacking = math.log(SMALLEST_RANGE) - (high - low)
    room = ROOM * (high - low) + max(lacking, 0.0) / 2
    return math.exp(low - room), math.exp(high + room)


def choose_ticks(low: float, high: float) -> list[float]:
    """Return ratios to mark between two ratios: round per cents, or powers of two when far apart.

    >>> [round(100 * (tick - 1)) for tick in choose_ticks(0.97, 1.43)]
    [0, 10, 20, 30, 40]
    """
    for step in TICK_STEPS:
        first = math.ceil(round(100.0 * (low - 1.0) / step, 9))
        last = math.floor(round(100.0 * (high - 1.0) / step, 9))
        if last - first < MOST_TICKS:
            return [1.0 + step * number / 100.0 for number in range(first, last + 1)]
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    stride = 1 + (last - first) // MOST_TICKS
    return [2.0**power for power in range(first, last + 1) if power % stride == 0]


def _tick_text(ratio: float) -> str:
    percent = 100.0 * (ratio - 1.0)
    return "0" if ratio == 1.0 else f"{percent:+.3g} %"
