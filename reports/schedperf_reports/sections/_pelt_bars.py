"""Durations of calls as text bars, a column a side, and as a table of bins."""

from collections.abc import Mapping, Sequence
from typing import Any

from schedperf_reports._units import format_share, scale_for
from schedperf_reports.blocks import Cell, Column, Drawing, DrawingLine, Table

NS = 1e-9
# Lines of a drawing; more bins are joined.
MOST_BARS = 12
# A label, a bar, a share and two blanks are 36 columns: two such columns fit into piped text.
LABEL_WIDTH, BAR_WIDTH, SHARE_WIDTH = 9, 17, 8
# Of the calls of a side: the last line has at least so many of them.
FEWEST_LAST = 0.005
# Of the calls of a side, beyond the linear bins: then log2 bins show more.
MOST_BEYOND = 0.01

Histogram = Mapping[str, Any]
# Lower edge in ns, the upper one (None: open), and the calls of each side.
Bin = tuple[int, int | None, tuple[int, ...]]

COLUMNS = (
    Column(title="from", align="right"),
    Column(title="below", align="right"),
    Column(title="base calls", align="right"),
    Column(title="base", align="right"),
    Column(title="new calls", align="right"),
    Column(title="new", align="right"),
)


def draw_bars(histograms: Sequence[Histogram], names: Sequence[str], function: str) -> Drawing:
    """Return the histograms of one function side by side, in equal bins.

    :param histograms: of base and of a new side, as the section has them; none is empty, and they
        have a kind of bins in common
    """
    totals = [sum(one["log2_ns"]) for one in histograms]
    bins = _joined(_trimmed(_choose(histograms), totals))
    shares = [[counts[side] / total for _, _, counts in bins] for side, total in enumerate(totals)]
    longest = max(max(of_side) for of_side in shares)
    return Drawing(
        caption=f"{function}: calls by duration, each line from its own up to the next one's; "
        "the probe's own reading is part of it",
        titles=tuple(f"{name}: {total} calls" for name, total in zip(names, totals, strict=True)),
        columns=tuple(
            tuple(_line(one[0], share, longest) for one, share in zip(bins, of_side, strict=True))
            for of_side in shares
        ),
    )


def bins_table(histograms: Sequence[Histogram], function: str) -> Table:
    """Return every bin that is not empty, for those who check the numbers."""
    totals = [sum(one["log2_ns"]) for one in histograms]
    rows = []
    for kind in common_kinds(histograms):
        for low, high, counts in _bins_of(histograms, kind):
            if any(counts):
                cells = [_edge(low), "open" if high is None else _edge(high)]
                for count, total in zip(counts, totals, strict=True):
                    cells += [str(count), format_share(count / total)]
                rows.append(tuple(Cell(text=text) for text in cells))
    return Table(
        caption=f"{function}: calls in each bin, linear bins first, then the same calls in log2",
        columns=COLUMNS,
        rows=tuple(rows),
        limit=0,
    )


def common_kinds(histograms: Sequence[Histogram]) -> list[str]:
    """Return which kinds of bins have equal edges, and calls, on all sides; the finest first."""
    return [
        kind
        for kind in ("linear_ns", "log2_ns")
        if all(_edges(one, kind) == _edges(histograms[0], kind) for one in histograms)
        and all(any(one[kind]) for one in histograms)
    ]


def _choose(histograms: Sequence[Histogram]) -> list[Bin]:
    # Linear bins are finer, where nearly all calls are in them.
    beyond = max(one["linear_ns"][-1] / sum(one["log2_ns"]) for one in histograms)
    kinds = common_kinds(histograms)
    return _bins_of(histograms, kinds[0 if beyond <= MOST_BEYOND else -1])


def _bins_of(histograms: Sequence[Histogram], kind: str) -> list[Bin]:
    counts = zip(*(one[kind] for one in histograms), strict=True)
    return [
        (low, high, of_sides)
        for (low, high), of_sides in zip(_edges(histograms[0], kind), counts, strict=True)
    ]


def _edges(histogram: Histogram, kind: str) -> list[tuple[int, int | None]]:
    number, step = len(histogram[kind]), histogram["linear_step_ns"]
    if kind == "linear_ns":
        lows = [place * step for place in range(number)]
    else:
        lows = [0, *(2**place for place in range(1, number))]
    highs: list[int | None] = [*lows[1:], None]
    return list(zip(lows, highs, strict=True))


def _trimmed(bins: Sequence[Bin], totals: Sequence[int]) -> list[Bin]:
    # A few calls that took very long would make all other bins coarse; they join the last one.
    first = next(place for place, (_, _, counts) in enumerate(bins) if any(counts))
    rests = list(zip(*(counts for _, _, counts in bins), strict=True))
    last = first
    for place in range(first, len(bins)):
        rest = [sum(of_side[place:]) / total for of_side, total in zip(rests, totals, strict=True)]
        if max(rest) >= FEWEST_LAST:
            last = place
    whole = tuple(sum(of_side[last:]) for of_side in rests)
    return [*bins[first:last], (bins[last][0], None, whole)]


def _joined(bins: Sequence[Bin]) -> list[Bin]:
    each = -(-len(bins) // MOST_BARS)
    groups = [bins[start : start + each] for start in range(0, len(bins), each)]
    return [
        (group[0][0], group[-1][1], tuple(map(sum, zip(*(one[2] for one in group), strict=True))))
        for group in groups
    ]


def _line(low: int, share: float, longest: float) -> DrawingLine:
    bar = "#" * round(BAR_WIDTH * share / longest) or ("." if share else "")
    text = f"{_edge(low):>{LABEL_WIDTH}} {bar:<{BAR_WIDTH}} {format_share(share):>{SHARE_WIDTH}}"
    return DrawingLine(text=text)


def _edge(ns: int) -> str:
    scale = scale_for("s", ns * NS)
    return f"{scale.format(ns * NS)} {scale.unit}" if ns else "0 ns"
