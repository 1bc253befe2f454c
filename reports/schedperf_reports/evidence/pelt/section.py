"""PELT updates: how often load averages were updated, from where, and what that took."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from schedperf.evidence.pelt.record import (
    CrossCheck,
    Interval,
    Pelt,
    PeltProbe,
    PeltRow,
    PeltSide,
    UnseenFunction,
)
from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Block, Item, Items, Text
from schedperf_reports.evidence.pelt._tables import (
    bins_table,
    calls_table,
    common_kinds,
    durations_table,
    name_of,
    parts_table,
    shares_table,
)
from schedperf_reports.rates.cells import MEANS, lead
from schedperf_reports.rates.cpu_maps import cpu_maps
from schedperf_reports.rates.histograms import mirror_of
from schedperf_reports.rates.tables import by_subject, notes_below, titled
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.units import format_number

MOST_UNSEEN = 6
# Functions whose durations are drawn; each has two drawings' worth of lines.
MOST_DRAWN = 2


@report_section("pelt", title="PELT updates", chapter="scheduler", order=30, is_analysis=True)
def pelt(comparison: Comparison) -> Iterator[Block]:
    """Show calls and durations of each function, then what nothing could see."""
    data = record_of(comparison, Pelt)
    if isinstance(data, Text):
        yield data
        return
    rows = data.rows
    yield from lead(rows, name_of)
    for text in merge_sides([_describe_side(side) for side in data.sides]):
        yield Text(text=text, tone="muted")
    for point, subject, found in by_subject(rows):
        yield from _describe_point(point, subject, found, data)
    yield from cpu_maps(comparison, data.cpus)
    yield from _unseen(data.unseen)
    yield from _cross_checks(data.cross_checks)
    yield from _notes(data)


def _describe_side(side: PeltSide) -> str:
    parts = [f"{side.side}: {count_of(side.runs, 'run')}"]
    by_mechanism: dict[str, list[str]] = {}
    for function, mechanisms in side.mechanisms.items():
        if mechanisms:
            by_mechanism.setdefault(" and ".join(mechanisms), []).append(function)
    parts += [f"{name} on {', '.join(names)}" for name, names in by_mechanism.items()]
    sampling = [number for number in side.sampling if number > 1]
    if sampling:
        parts.append(f"1 in {' and '.join(map(str, sampling))} calls timed")
    if side.probe is not None:
        parts.append(_describe_probe(side.probe))
    if side.missing and not side.markers:
        parts.append("contexts could not be marked")
    elif side.missing:
        unmarked = (f"{context} ({reason})" for context, reason in side.missing.items())
        parts.append(f"contexts that could not be marked: {', '.join(unmarked)}")
    return "; ".join(parts)


def _describe_probe(probe: PeltProbe) -> str:
    empty = _cost(probe.empty_ns, probe.empty_ci)
    pair = _cost(probe.pair_ns, probe.pair_ci)
    reads = _cost(probe.reads_ns, probe.reads_ci)
    own = "" if probe.reads_ns is None else f" and reads {reads} itself"
    text = f"to a call an empty probe adds {empty}, the one that takes the time {pair}{own}"
    has_intervals = any((probe.empty_ci, probe.pair_ci, probe.reads_ci))
    return f"{text} (ranges: what the 95 % intervals of all runs span)" if has_intervals else text


def _cost(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return "an unknown time"
    ends = "" if interval is None else f" ({'..'.join(map(format_number, interval))})"
    return f"{format_number(value)} ns{ends}"


def _describe_point(
    point: tuple[str, str, str], subject: str, rows: Sequence[PeltRow], data: Pelt
) -> Iterator[Block]:
    yield calls_table(rows, titled(subject, "calls"))
    parts = parts_table(rows, subject)
    if parts is not None:
        yield parts
    common, timed = _split_remarks([row for row in rows if row.what != "calls"])
    durations = durations_table(timed, titled(subject, "what a call takes; quantiles as read"))
    if durations is not None:
        yield durations
        yield shares_table(timed, titled(subject, "share of CPU time"))
        yield from (Text(text=text, tone="warning") for text in common)
        yield from _draw(point, data)


def _split_remarks(rows: Sequence[PeltRow]) -> tuple[Sequence[str], Sequence[PeltRow]]:
    # What is said of all rows stands once below their tables; the rows keep the rest.
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
        (one.function, one.side): one
        for one in data.histograms
        if (one.workload, one.point) == tuple(where)
    }
    found = [one for one in data.bins if (one.side, one.workload, one.point) == point]
    for drawn, one in enumerate(found):
        function = one.function
        mirror = mirror_of(
            one,
            function,
            what="a call takes from",
            events="calls",
            note="the probe's own reading is part of it",
        )
        # A terminal has room for the first ones; the table of bins says the same of all.
        yield mirror if drawn < MOST_DRAWN else replace(mirror, words=())
        pair = [
            histograms[key] for name in ("base", side) if (key := (function, name)) in histograms
        ]
        if len(pair) == 2 and common_kinds(pair):  # noqa: PLR2004 # both sides
            yield bins_table(pair, function)


def _unseen(entries: Sequence[UnseenFunction]) -> Iterator[Block]:
    # One sentence a reason: most functions fail for the same one, and on all sides.
    told: dict[tuple[str, str], list[str]] = {}
    for one in entries:
        reasons = "; ".join(f"{way.mechanism}: {way.reason}" for way in one.tried)
        told.setdefault((one.function, reasons or "nothing was tried"), []).append(one.side)
    if told:
        yield Items(
            items=tuple(
                Item(
                    text=f"could not see {function} on {' and '.join(dict.fromkeys(sides))}: "
                    f"{reasons}",
                    tone="warning",
                )
                for (function, reasons), sides in told.items()
            ),
            limit=MOST_UNSEEN,
        )


def _cross_checks(entries: Sequence[CrossCheck]) -> Iterator[Block]:
    for one in entries:
        yield Text(
            text=f"{one.function} of {one.side}: {one.calls} calls, "
            f"{one.breakpoint} by breakpoint"
            f"{'' if one.agrees else '; one of the two missed calls'}",
            tone="muted" if one.agrees else "warning",
        )


def _notes(data: Pelt) -> Iterator[Block]:
    yield from notes_below(merge_sides([*(one.reason for one in data.missing), *data.notes]))
    text = f"calls of the whole machine; {MEANS}; more is neither better nor worse"
    yield Text(text=text, tone="muted")
