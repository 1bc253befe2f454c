"""Moves between nodes over the time of the runs: a line of blocks a side, and a figure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from schedperf.quantities import RATE_DIGITS, format_number
from schedperf_reports._rate_tables import titled
from schedperf_reports.blocks import Block, Cell, Column, Figure, Table

Series = Mapping[str, Any]

# An eighth of a character each; none at all is a dot.
BLOCKS = "▁▂▃▄▅▆▇█"
NOTHING = "·"
COLOURS = {"base": "var(--base)"}
COLOUR_OF_OTHERS = "var(--new)"
HEIGHT_PIXELS = 220

COLUMNS = (
    Column(title="event"),
    Column(title="side"),
    Column(title="moves a second", align="right"),
    Column(title="most", align="right", priority=1),
    Column(title=f"from the beginning to the end, {NOTHING} is none", code=True),
)


def describe_series(series: Sequence[Series], place: str) -> Iterator[Block]:
    """Yield a table of one workload and point, and a figure of each event; both for the page.

    :param place: workload and point; "" where there is one
    :param series: of all sides that are shown, base first
    """
    by_event: dict[str, list[Series]] = {}
    for one in series:
        by_event.setdefault(one["event"], []).append(one)
    event, found = max(by_event.items(), key=lambda one: max(fmean(of["rates"]) for of in one[1]))
    most = f"most of them {event}s: {_each(found, fmean)} a second"
    yield Table(
        caption=titled(place, f"moves between nodes over the time of the runs, {most}"),
        columns=COLUMNS,
        rows=tuple(_line(one, found) for found in by_event.values() for one in found),
        limit=0,
    )
    for event, found in by_event.items():
        yield _figure(event, found, place)


def _line(one: Series, beside: Sequence[Series]) -> tuple[Cell, ...]:
    largest = max(max(other["rates"]) for other in beside)
    texts = (
        one["event"],
        one["side"],
        format_number(fmean(one["rates"]), RATE_DIGITS),
        format_number(max(one["rates"]), RATE_DIGITS),
        draw_blocks(one["rates"], largest),
    )
    return tuple(Cell(text=text) for text in texts)


def draw_blocks(rates: Sequence[float], largest: float) -> str:
    """Draw numbers as a line of characters.

    >>> draw_blocks([0.0, 1.0, 4.0, 8.0], 8.0)
    '·▁▄█'

    :param largest: has the highest block; above 0
    """
    return "".join(
        BLOCKS[min(len(BLOCKS) - 1, max(0, round(rate / largest * len(BLOCKS)) - 1))]
        if rate > 0.0
        else NOTHING
        for rate in rates
    )


def _figure(event: str, series: Sequence[Series], place: str) -> Figure:
    told = (
        f"{event}s from one node to another, a second, over the time of a run: in the mean "
        f"{_each(series, fmean)}, at most {_each(series, max)}"
    )
    return Figure(
        caption=titled(place, told),
        figure={
            "data": [_trace(one) for one in series],
            "layout": {
                "xaxis": {"title": {"text": "% of the run"}, "range": [0, 100]},
                "yaxis": {"rangemode": "tozero", "automargin": True},
                "margin": {"l": 8, "r": 16, "t": 28, "b": 48},
                "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
                "showlegend": True,
            },
        },
        height=HEIGHT_PIXELS,
    )


def _each(series: Sequence[Series], of: Callable[[Sequence[float]], float]) -> str:
    # Base first: "12.1 -> 14.8".
    return " -> ".join(format_number(of(one["rates"]), RATE_DIGITS) for one in series)


def _trace(one: Series) -> dict[str, Any]:
    bins = len(one["rates"])
    return {
        "type": "scatter",
        "mode": "lines",
        "name": one["side"],
        "x": [100.0 * (place + 0.5) / bins for place in range(bins)],
        "y": list(one["rates"]),
        "line": {
            "shape": "hvh",
            "color": COLOURS.get(one["side"], COLOUR_OF_OTHERS),
            "dash": "solid" if one["side"] in COLOURS else "dash",
        },
    }
