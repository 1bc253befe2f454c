# SPDX-License-Identifier: GPL-2.0-or-later
"""Report PELT updates: their rate, their contexts, and their duration."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from schedperf.evidence.pelt.record import (
    CrossCheck,
    Interval,
    Pelt,
    PeltHistogram,
    PeltProbe,
    PeltRow,
    PeltSide,
    UnseenFunction,
)
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf.model.text import join_names
from schedperf_reports.blocks import Block, Cell, Column, Item, Items, Table, Text
from schedperf_reports.rates.cells import (
    COMPARED,
    MEANS,
    QUIET_WORD,
    RUNS_COLUMN,
    Shown,
    compared_cells,
    describe_rate,
    gather_twins,
    lead,
    move_n_to_caption,
    runs_cell,
    state_of,
    tone_of,
)
from schedperf_reports.rates.cpu_maps import cpu_maps
from schedperf_reports.rates.details import opened
from schedperf_reports.rates.histograms import mirror_of, write_time
from schedperf_reports.rates.tables import by_subject, notes_below, state_changes, titled
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.quantities import MISSING, format_number, format_share, scale_for
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.states import State

MOST_UNSEEN = 6
# Functions whose durations are drawn; each takes as many lines as two drawings.
MOST_DRAWN = 2
# Rows that a terminal shows; the page has all.
_MOST_ROWS = 12
# Denominators, best first; nodes and contexts are shown for the best available one.
_PER = ("wakeup", "operation", "second")
_DURATIONS = {
    "mean": "mean",
    "trimmed": "mean (slowest 1% trimmed)",
    "p50": "median",
    "p99": "p99",
}
# A smaller share needs more than two decimals.
_SMALLEST_SHARE = 0.001

# Rows of nodes and contexts that a page shows if none changed.
_LEAST_SHOWN = 5

_FUNCTION = Column(title="function", code=True)
_TIME_PER_CALL = "time per call; median and p99 include probe overhead"

_NS = 1e-9
_Kind = Literal["linear_ns", "log2_ns"]
# The finest first.
_KINDS: tuple[_Kind, ...] = ("linear_ns", "log2_ns")
# Lower edge in ns, upper edge (None if open), and the calls of each side.
_Bin = tuple[int, int | None, tuple[int, ...]]
_BIN_COLUMNS = (
    Column(title="from", align="right"),
    Column(title="below", align="right"),
    Column(title="base calls", align="right"),
    Column(title="base", align="right", priority=1),
    Column(title="new calls", align="right"),
    Column(title="new", align="right", priority=1),
)


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, Pelt)
    return None if data is None else state_of(data.rows, _name_of)


@report_section(
    "pelt",
    title="PELT updates",
    chapter="scheduler",
    order=30,
    is_analysis=True,
    state=_state,
)
def pelt(comparison: Comparison) -> Iterator[Block]:
    """Show calls and durations of each function, then what was not measured."""
    data = record_of(comparison, Pelt)
    if isinstance(data, Text):
        yield data
        return
    rows = data.rows
    yield from lead(rows, _name_of)
    for text in merge_sides([_describe_side(side) for side in data.sides]):
        yield Text(text=text, tone="muted")
    for point, subject, of_point in by_subject(rows):
        yield from _describe_point(point, subject, of_point, data)
    yield from cpu_maps(comparison, data.cpus)
    yield from _unseen(data.unseen)
    yield from _cross_checks(data.cross_checks)
    yield from _notes(data)


def _describe_side(side: PeltSide) -> str:
    parts = [f"{side.side}: {count_of(side.runs, 'run')}"]
    by_mechanism: dict[str, list[str]] = {}
    for function, mechanisms in side.mechanisms.items():
        if mechanisms:
            by_mechanism.setdefault(join_names(mechanisms), []).append(function)
    parts += [f"{name} on {', '.join(names)}" for name, names in by_mechanism.items()]
    sampling = [number for number in side.sampling if number > 1]
    if sampling:
        parts.append(f"1 in {join_names(map(str, sampling))} calls timed")
    if side.probe is not None:
        parts.append(_describe_probe(side.probe))
    if side.missing and not side.markers:
        parts.append("contexts not recorded")
    elif side.missing:
        unmarked = (f"{context} ({reason})" for context, reason in side.missing.items())
        parts.append(f"contexts not recorded: {', '.join(unmarked)}")
    return "; ".join(parts)


def _describe_probe(probe: PeltProbe) -> str:
    empty = _cost(probe.empty_ns, probe.empty_ci)
    pair = _cost(probe.pair_ns, probe.pair_ci)
    reads = _cost(probe.reads_ns, probe.reads_ci)
    own = "" if probe.reads_ns is None else f"; the measured time includes {reads} of overhead"
    text = f"probe overhead per call: {empty} (empty probe), {pair} (timing probe){own}"
    has_intervals = any((probe.empty_ci, probe.pair_ci, probe.reads_ci))
    return (
        f"{text} (in brackets: range that covers the 95% CIs of all runs)"
        if has_intervals
        else text
    )


def _cost(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return "unknown"
    ends = "" if interval is None else f" [{', '.join(map(format_number, interval))}]"
    return f"{format_number(value)} ns{ends}"


def _describe_point(
    point: tuple[str, str, str], subject: str, rows: Sequence[PeltRow], data: Pelt
) -> Iterator[Block]:
    yield _calls_table(rows, titled(subject, "calls"))
    parts = _parts_table(rows, subject)
    if parts is not None:
        yield parts
    common, timed = _split_remarks([row for row in rows if row.what != "calls"])
    durations = _durations_table(timed, titled(subject, _TIME_PER_CALL))
    if durations is not None:
        yield durations
        yield _shares_table(timed, titled(subject, "share of CPU time"))
        yield from (Text(text=text, tone="warning") for text in common)
        yield from _draw(point, data)


def _split_remarks(rows: Sequence[PeltRow]) -> tuple[Sequence[str], Sequence[PeltRow]]:
    # Remarks common to all rows are printed once below their tables.
    common = [
        text
        for text in (rows[0].remarks if rows else ())
        if all(text in row.remarks for row in rows)
    ]
    return common, [
        replace(row, remarks=tuple(text for text in row.remarks if text not in common))
        for row in rows
    ]


def _draw(point: tuple[str, str, str], data: Pelt) -> Iterator[Block]:
    side, *where = point
    histograms = {
        (histogram.function, histogram.side): histogram
        for histogram in data.histograms
        if (histogram.workload, histogram.point) == tuple(where)
    }
    of_point = [bins for bins in data.bins if (bins.side, bins.workload, bins.point) == point]
    for drawn, bins in enumerate(of_point):
        function = bins.function
        mirror = mirror_of(
            bins,
            function,
            what="time per call, lower edge of the bin",
            events="calls",
            note="includes probe overhead",
        )
        # A terminal draws only the first functions; the table of bins lists all.
        yield mirror if drawn < MOST_DRAWN else replace(mirror, words=())
        pair = [
            histograms[key] for name in ("base", side) if (key := (function, name)) in histograms
        ]
        if len(pair) == 2 and _common_kinds(pair):  # noqa: PLR2004 # both sides
            yield _bins_table(pair, function)


def _unseen(entries: Sequence[UnseenFunction]) -> Iterator[Block]:
    # One sentence per function and reason: the sides usually have the same reason.
    sides_of: dict[tuple[str, str], list[str]] = {}
    for unseen in entries:
        reasons = "; ".join(f"{way.mechanism}: {way.reason}" for way in unseen.tried)
        sides_of.setdefault((unseen.function, reasons or "no probe was tried"), []).append(
            unseen.side
        )
    if sides_of:
        yield Items(
            items=tuple(
                Item(
                    text=f"{function} not measured on {join_names(dict.fromkeys(sides))}: "
                    f"{reasons}",
                    tone="warning",
                )
                for (function, reasons), sides in sides_of.items()
            ),
            limit=MOST_UNSEEN,
        )


def _cross_checks(entries: Sequence[CrossCheck]) -> Iterator[Block]:
    for check in entries:
        yield Text(
            text=f"{check.function} in {check.side}: the probe counted {check.calls} calls, a "
            f"breakpoint {check.breakpoint}"
            f"{'' if check.agrees else '; one of the two missed calls'}",
            tone="muted" if check.agrees else "warning",
        )


def _notes(data: Pelt) -> Iterator[Block]:
    yield from notes_below(
        merge_sides([*(missing.reason for missing in data.missing), *data.notes])
    )
    text = f"calls on all CPUs; {MEANS}; neither direction is better"
    yield Text(text=text, tone="muted")


def _name_of(row: PeltRow) -> str:
    """Return the name of a row: ``update_cfs_group, mean time per call``."""
    what = "calls" if row.what == "calls" else "share of CPU time"
    what = f"{_DURATIONS[row.what]} time per call" if row.what in _DURATIONS else what
    where = _where(row)
    return f"{row.function}, {what}{f', {where}' if where else ''}"


def _calls_table(rows: Sequence[PeltRow], caption: str) -> Table:
    """Return the calls of each function on all CPUs."""
    calls = [row for row in rows if row.what == "calls" and not _where(row)]
    return _table(
        caption,
        (_FUNCTION, Column(title="per"), *COMPARED, RUNS_COLUMN),
        gather_twins(calls),
        lambda shown: (
            shown.row.function,
            describe_rate(shown)[0],
            *_changes(shown),
            runs_cell(shown.row),
        ),
    )


def _parts_table(rows: Sequence[PeltRow], subject: str) -> Table | None:
    """Return the calls of each function by node and by context; None if not recorded.

    :param subject: beginning of the caption; may be ""
    """
    split = [row for row in rows if row.what == "calls" and _where(row)]
    best = next((per for per in _PER if any(row.per == per for row in split)), None)
    by_work = {row.context for row in split if row.per == best}
    # Calls that are driven by a clock are shown per second only.
    chosen = [row for row in split if row.per == best or row.context not in by_work]
    if not chosen:
        return None
    table = _table(
        titled(subject, f"calls per {best} by node and by context"),
        (_FUNCTION, Column(title="where"), *COMPARED, RUNS_COLUMN),
        [Shown(row) for row in sorted(chosen, key=lambda row: not row.changed)],
        lambda shown: (
            shown.row.function,
            f"{_where(shown.row)}{'' if shown.row.per == best else f', per {shown.row.per}'}",
            *_changes(shown),
            runs_cell(shown.row),
        ),
    )
    quiet = [
        index >= _LEAST_SHOWN and is_plain
        for index, is_plain in enumerate(row[0].tone != "strong" for row in table.rows)
    ]
    return replace(table, quiet=tuple(quiet), quiet_word=QUIET_WORD)


def _where(row: PeltRow) -> str:
    return row.context if row.node is None else f"node {row.node}"


def _durations_table(rows: Sequence[PeltRow], caption: str) -> Table | None:
    """Return the time per call; None if no call was timed."""
    timed = [row for row in rows if row.what in _DURATIONS and row.node is None]
    if not timed:
        return None
    return _table(
        caption,
        (
            _FUNCTION,
            Column(title="call"),
            *COMPARED,
            Column(title="uncorrected", align="right", priority=2),
            Column(title="resolution", align="right", priority=3),
            RUNS_COLUMN,
        ),
        [Shown(row) for row in timed],
        lambda shown: (
            shown.row.function,
            _DURATIONS[shown.row.what],
            *_changes(shown),
            _as_read(shown.row),
            _resolution(shown.row),
            runs_cell(shown.row),
        ),
    )


def _shares_table(rows: Sequence[PeltRow], caption: str) -> Table:
    """Return the share of CPU time of each function, with the range over nodes, if recorded."""
    shares = [row for row in rows if row.what == "share"]
    has_nodes = any(row.node is not None for row in shares)
    # With several nodes the range over nodes matters most; a narrow page shows that of new.
    base, new, change, interval = COMPARED
    nodes = (
        Column(title="base by node", align="right", priority=1),
        Column(title="new by node", align="right"),
    )
    compared = (replace(base, priority=2), replace(new, priority=2), change, interval)
    return _table(
        caption,
        (
            _FUNCTION,
            *(compared if has_nodes else COMPARED),
            *(nodes if has_nodes else ()),
            RUNS_COLUMN,
        ),
        [Shown(row) for row in shares if row.node is None],
        lambda shown: (
            shown.row.function,
            *_changes(shown),
            *(_ranges(shown.row, shares) if has_nodes else ()),
            runs_cell(shown.row),
        ),
    )


def _kind(row: PeltRow) -> str:
    if row.context:
        return "per-context rows"
    return f"{'call' if row.what == 'calls' else 'duration'} rows"


def _table(
    caption: str,
    columns: tuple[Column, ...],
    rows: Sequence[Shown[PeltRow]],
    describe: Callable[[Shown[PeltRow]], tuple[str | Cell, ...]],
) -> Table:
    # A remark on several rows is printed below the first one only.
    printed: set[str] = set()
    lines: list[tuple[tuple[Cell, ...], str, tuple[Block, ...]]] = []
    for shown in rows:
        row = shown.row
        cells = [
            cell if isinstance(cell, Cell) else Cell(text=cell, tone=tone_of(row))
            for cell in describe(shown)
        ]
        lines.append((tuple(cells), row.row, opened(shown, kind=_kind(row))))
        for note in _duration_notes(row):
            if note not in printed:
                printed.add(note)
                rest = [Cell(text="")] * (len(columns) - 1)
                lines.append(((Cell(text=note, tone="warning"), *rest), "", ()))
    table = Table(
        caption=state_changes(caption, rows, _name_of),
        columns=columns,
        rows=tuple(cells for cells, _, _ in lines),
        limit=_MOST_ROWS,
        anchors=tuple(anchor for _, anchor, _ in lines),
        details=tuple(details for _, _, details in lines),
    )
    return move_n_to_caption(table)


def _duration_notes(row: PeltRow) -> Iterator[str]:
    if row.status == "invalid":
        yield f"{row.function}: invalid, not compared: {row.reason}"
    yield from row.remarks


def _write(row: PeltRow, value: float | None) -> str:
    # Shares of CPU time are small and need more digits.
    if value is None:
        return MISSING
    if row.what == "share":
        return f"{_percent(value)}%"
    scale = scale_for("s", row.base, row.new)
    return f"{scale.format(value)} {scale.unit}"


def _percent(share: float) -> str:
    percent = 100.0 * share
    return f"{percent:.2f}" if abs(share) >= _SMALLEST_SHARE else f"{percent:.2g}"


def _changes(shown: Shown[PeltRow]) -> tuple[Cell, ...]:
    row = shown.row
    if row.what == "share":
        return compared_cells(shown, (_write(row, row.base), _write(row, row.new)))
    return compared_cells(shown)


def _ranges(row: PeltRow, shares: Sequence[PeltRow]) -> tuple[str, ...]:
    # The range over nodes, as "12.68 - 20.22%".
    nodes = [share for share in shares if share.node is not None and share.function == row.function]
    return tuple(
        _range_of([value for value in of_side if value is not None])
        for of_side in ([node.base for node in nodes], [node.new for node in nodes])
    )


def _range_of(shares: Sequence[float]) -> str:
    return f"{_percent(min(shares))} - {_percent(max(shares))}%" if shares else MISSING


def _as_read(row: PeltRow) -> str:
    if row.read_base is None and row.read_new is None:
        return MISSING
    return f"{_write(row, row.read_base)}, {_write(row, row.read_new)}"


def _resolution(row: PeltRow) -> str:
    widths = [width for width in (row.resolution_base, row.resolution_new) if width is not None]
    if not widths:
        return MISSING
    scale = scale_for("s", max(widths))
    return f"{scale.format(max(widths))} {scale.unit}"


def _bins_table(histograms: Sequence[PeltHistogram], function: str) -> Table:
    """Return the table of the bins that are not empty on both sides.

    :param histograms: that of base, then that of a new side; they have a common kind of bins
    """
    totals = [sum(histogram.log2_ns) for histogram in histograms]
    rows = []
    for kind in _common_kinds(histograms):
        for low, high, counts in _bins_of(histograms, kind):
            if any(counts):
                cells = [write_time(low * _NS), "open" if high is None else write_time(high * _NS)]
                for count, total in zip(counts, totals, strict=True):
                    cells += [str(count), format_share(count / total)]
                rows.append(tuple(Cell(text=text) for text in cells))
    return Table(
        caption=f"{function}: {totals[0]} calls in base, {totals[1]} in new, by time per call; "
        "the same calls in linear bins, then in log2 bins",
        columns=_BIN_COLUMNS,
        rows=tuple(rows),
        limit=0,
    )


def _common_kinds(histograms: Sequence[PeltHistogram]) -> list[_Kind]:
    """Return the kinds of bins with equal edges and some calls on all sides; the finest first."""
    return [
        kind
        for kind in _KINDS
        if all(_edges(histogram, kind) == _edges(histograms[0], kind) for histogram in histograms)
        and all(any(_counts(histogram, kind)) for histogram in histograms)
    ]


def _bins_of(histograms: Sequence[PeltHistogram], kind: _Kind) -> list[_Bin]:
    counts = zip(*(_counts(histogram, kind) for histogram in histograms), strict=True)
    return [
        (low, high, of_sides)
        for (low, high), of_sides in zip(_edges(histograms[0], kind), counts, strict=True)
    ]


def _counts(histogram: PeltHistogram, kind: _Kind) -> tuple[int, ...]:
    return histogram.linear_ns if kind == "linear_ns" else histogram.log2_ns


def _edges(histogram: PeltHistogram, kind: _Kind) -> list[tuple[int, int | None]]:
    number, step = len(_counts(histogram, kind)), histogram.linear_step_ns
    if kind == "linear_ns":
        lows = [index * step for index in range(number)]
    else:
        lows = [0, *(2**index for index in range(1, number))]
    highs: list[int | None] = [*lows[1:], None]
    return list(zip(lows, highs, strict=True))
