"""Moves between nodes over the time of the runs: a line of blocks a side, and a figure."""

from collections.abc import Iterator, Sequence

from schedperf.evidence.placement.record import MeanRow, SeriesRow
from schedperf.model.units import RATE_DIGITS, format_number
from schedperf_reports.blocks import Block, Cell, Column, Figure, Table
from schedperf_reports.rates.tables import titled
from schedperf_reports.words.rows import count_of

# An eighth of a character each; none at all is a dot.
BLOCKS = "▁▂▃▄▅▆▇█"
NOTHING = "·"
# Of one run there is no interval.
UNKNOWN = "-"
COLOURS = {"base": "var(--base)"}
COLOUR_OF_OTHERS = "var(--new)"
HEIGHT_PIXELS = 220

COLUMNS = (
    Column(title="event"),
    Column(title="side"),
    Column(title="moves a second", align="right"),
    Column(title="95 % CI", align="right"),
    Column(title="most", align="right", priority=1),
    Column(title="n", align="right", priority=1),
    Column(title=f"from the beginning to the end, {NOTHING} is none", code=True),
)


def describe_series(series: Sequence[SeriesRow], where: str) -> Iterator[Block]:
    """Yield a table of one workload and point, and a figure of each event; both for the page.

    :param where: workload and point; "" where there is one
    :param series: of all sides that are shown, base first
    """
    by_event: dict[str, list[SeriesRow]] = {}
    for one in series:
        by_event.setdefault(one.event, []).append(one)
    event, found = max(by_event.items(), key=lambda one: max(of.mean for of in one[1]))
    most = f"most of them {event}s: {_means(found)}"
    yield Table(
        caption=titled(where, f"moves between nodes over the time of the runs, {most}"),
        columns=COLUMNS,
        rows=tuple(_line(one, found) for found in by_event.values() for one in found),
        limit=0,
    )
    for event, found in by_event.items():
        yield _figure(event, found, where)


def _line(one: SeriesRow, beside: Sequence[SeriesRow]) -> tuple[Cell, ...]:
    largest = max(max(other.rates) for other in beside)
    texts = (
        one.event,
        one.side,
        _rate(one.mean),
        _interval(one),
        _rate(max(one.rates)),
        count_values(one),
        draw_blocks(one.rates, largest),
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


def _figure(event: str, series: Sequence[SeriesRow], where: str) -> Figure:
    most = " -> ".join(_rate(max(one.rates)) for one in series)
    told = (
        f"{event}s from one node to another over the time of a run, {_means(series)}, at most "
        f"{most}; bars are 95 % intervals of each part of the run"
    )
    return Figure(
        caption=titled(where, told),
        figure={
            "data": [_trace(one) for one in series],
            "layout": {
                "xaxis": {"title": {"text": "% of the run"}, "range": [0, 100]},
                "yaxis": {
                    "title": {"text": "moves a second"},
                    "rangemode": "tozero",
                    "automargin": True,
                },
                "margin": {"l": 8, "r": 16, "t": 28, "b": 48},
                "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
                "showlegend": True,
            },
        },
        height=HEIGHT_PIXELS,
    )


def _means(series: Sequence[SeriesRow]) -> str:
    # Base first: "12.1 (11.2..13) -> 14.8 (14..15.6) a second (95 % CI; n = 5 + 5 runs)".
    means = " -> ".join(
        _rate(one.mean) + ("" if one.ci_low is None else f" ({_interval(one)})") for one in series
    )
    has_interval = any(one.ci_low is not None for one in series)
    return f"{means} a second ({'95 % CI; ' if has_interval else ''}{count_sides(series)})"


def count_sides(sides: Sequence[MeanRow]) -> str:
    """Say what the means of the sides rest on: ``n = 5 + 5 runs``, ``n = 5 runs + 2 boots``."""
    if len({one.replication for one in sides}) > 1:
        return f"n = {' + '.join(count_values(one) for one in sides)}"
    counts = [*(str(one.n) for one in sides[:-1]), count_values(sides[-1])]
    return f"n = {' + '.join(counts)}"


def count_values(one: MeanRow) -> str:
    """Say how many values a mean rests on: ``1 run``, ``2 boots``."""
    return count_of(one.n, one.replication.removesuffix("s"))


def _interval(one: SeriesRow) -> str:
    if one.ci_low is None or one.ci_high is None:
        return UNKNOWN
    return f"{_rate(one.ci_low)}..{_rate(one.ci_high)}"


def _rate(rate: float) -> str:
    return format_number(rate, RATE_DIGITS)


def _trace(one: SeriesRow) -> dict[str, object]:
    bins = len(one.rates)
    colour = COLOURS.get(one.side, COLOUR_OF_OTHERS)
    ends = list(zip(one.rates, one.rates_low, one.rates_high, strict=True))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": one.side,
        "x": [100.0 * (index + 0.5) / bins for index in range(bins)],
        "y": list(one.rates),
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [0 if high is None else high - mean for mean, _, high in ends],
            "arrayminus": [0 if low is None else mean - low for mean, low, _ in ends],
            "color": colour,
            "thickness": 1,
            "width": 2,
        },
        "line": {
            "shape": "hvh",
            "color": colour,
            "dash": "solid" if one.side in COLOURS else "dash",
        },
    }
