"""Durations of calls as a table of bins, for those who check the numbers."""

from collections.abc import Sequence
from typing import Literal

from schedperf.evidence.pelt.record import PeltHistogram
from schedperf_reports.blocks import Cell, Column, Table
from schedperf_reports.rates.histograms import write_time
from schedperf_reports.words.units import format_share

NS = 1e-9

Kind = Literal["linear_ns", "log2_ns"]
# The finest first.
KINDS: tuple[Kind, ...] = ("linear_ns", "log2_ns")
# Lower edge in ns, the upper one (None: open), and the calls of each side.
Bin = tuple[int, int | None, tuple[int, ...]]

COLUMNS = (
    Column(title="from", align="right"),
    Column(title="below", align="right"),
    Column(title="base calls", align="right"),
    Column(title="base", align="right", priority=1),
    Column(title="new calls", align="right"),
    Column(title="new", align="right", priority=1),
)


def bins_table(histograms: Sequence[PeltHistogram], function: str) -> Table:
    """Return every bin that is not empty.

    :param histograms: of base and of a new side, as the section has them
    """
    totals = [sum(one.log2_ns) for one in histograms]
    rows = []
    for kind in common_kinds(histograms):
        for low, high, counts in _bins_of(histograms, kind):
            if any(counts):
                cells = [write_time(low * NS), "open" if high is None else write_time(high * NS)]
                for count, total in zip(counts, totals, strict=True):
                    cells += [str(count), format_share(count / total)]
                rows.append(tuple(Cell(text=text) for text in cells))
    return Table(
        caption=f"{function}: {' and '.join(map(str, totals))} calls in base and new, by bin; "
        "linear bins first, then the same calls in log2",
        columns=COLUMNS,
        rows=tuple(rows),
        limit=0,
    )


def common_kinds(histograms: Sequence[PeltHistogram]) -> list[Kind]:
    """Return which kinds of bins have equal edges, and calls, on all sides; the finest first."""
    return [
        kind
        for kind in KINDS
        if all(_edges(one, kind) == _edges(histograms[0], kind) for one in histograms)
        and all(any(_counts(one, kind)) for one in histograms)
    ]


def _bins_of(histograms: Sequence[PeltHistogram], kind: Kind) -> list[Bin]:
    counts = zip(*(_counts(one, kind) for one in histograms), strict=True)
    return [
        (low, high, of_sides)
        for (low, high), of_sides in zip(_edges(histograms[0], kind), counts, strict=True)
    ]


def _counts(histogram: PeltHistogram, kind: Kind) -> tuple[int, ...]:
    return histogram.linear_ns if kind == "linear_ns" else histogram.log2_ns


def _edges(histogram: PeltHistogram, kind: Kind) -> list[tuple[int, int | None]]:
    number, step = len(_counts(histogram, kind)), histogram.linear_step_ns
    if kind == "linear_ns":
        lows = [index * step for index in range(number)]
    else:
        lows = [0, *(2**index for index in range(1, number))]
    highs: list[int | None] = [*lows[1:], None]
    return list(zip(lows, highs, strict=True))
