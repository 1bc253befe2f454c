# SPDX-License-Identifier: GPL-2.0-or-later
"""Render the output of ``schedperf c2c``: sources, contended lines, readers and writers."""

from collections.abc import Iterator, Mapping

from schedperf.evidence.c2c.record import C2cDocument, C2cSampledLine, C2cSource, Observable
from schedperf.model.text import join_names
from schedperf_reports.blocks import Block, Headline, Text
from schedperf_reports.evidence.c2c._bytes import GRADES, seen_bytes_table
from schedperf_reports.evidence.c2c._pairs import ATTRIBUTION, seen_pairs_table
from schedperf_reports.evidence.c2c._point import MEANINGS, describe_point
from schedperf_reports.evidence.c2c._tables import seen_table, word_of
from schedperf_reports.words.quantities import MISSING, format_share
from schedperf_reports.words.rows import count_of, merge_sides

_TOTALS: Mapping[Observable, tuple[str, str]] = {
    "hitm": ("load_remote_hitm", "load_local_hitm"),
    "ibs": ("load_remote_hitm", "load_local_hitm"),
    "peer": ("load_hit_remote_peer", "load_hit_local_peer"),
    "unknown": ("load_remote_hitm", "load_local_hitm"),
}


def describe_memory(data: C2cDocument, limit: int) -> Iterator[Block]:
    """Yield the sources of the samples, and their contended lines: of one source, or compared.

    :param limit: maximum number of lines; two sources have as many more that only one of them has
    """
    compared, sides = data.comparison, data.sides
    if compared is None:
        yield _headline(sides[0])
        yield from _damage(sides[0])
        yield from _describe_alone(sides[0], limit)
        yield from (Text(text=note, tone="muted") for note in sides[0].notes)
        return
    for side in sides:
        yield from _damage(side)
    if len({side.observable for side in sides}) > 1:
        yield Text(text=f"rates not compared: {compared.reason}", tone="warning")
        for side in sides:
            yield from _describe_alone(side, limit)
        notes = list(compared.notes)
    else:
        for side in sides:
            yield Text(text=f"{side.side}: {side.label}, {_events(side)}")
        yield from describe_point(compared, limit)
        notes = []
    notes = [*notes, *(f"{side.side}: {note}" for side in sides for note in side.notes)]
    yield from (Text(text=note, tone="muted") for note in merge_sides(notes))


def _damage(side: C2cSource) -> Iterator[Block]:
    name = "" if side.side is None else f"{side.side}: "
    for sentence in side.damage:
        yield Text(text=f"{name}damaged text: {sentence}", tone="warning")


def _headline(side: C2cSource) -> Headline:
    lines = [line for line in side.lines if _contended(line)]
    what = word_of((side.observable,))
    counts = [side.totals.get(key) for key in _TOTALS[side.observable]]
    total = sum(filter(None, counts))
    least = "at least " if None in counts else ""
    if not lines and total:
        return Headline(
            word="lines unknown",
            text=f"{least}{total} {what}s in the totals, but the input contains no complete table "
            "of cache lines",
        )
    if not lines and None in counts:
        text = f"the input does not contain the number of {what}s"
        return Headline(word="not known", text=text)
    if not lines:
        text = f"0 {what}s in the samples; the notes below list what was not measured"
        return Headline(word="no contended line sampled", text=text)
    first = max(lines, key=_contended)
    listed = sum(map(_contended, lines))
    share = _contended(first) / max(total, listed)
    # A text report may contain the table without the totals.
    of_what = f"all {what}s" if total and not least else f"the {what}s on the listed lines"
    called = f"{first.name} ({first.key})" if first.name else first.key
    return Headline(
        word=count_of(len(lines), "contended line"),
        text=f"{format_share(share)} of {of_what} are on {called}",
        tone="strong",
    )


def _contended(line: C2cSampledLine) -> int:
    return line.remote + line.local


def _describe_alone(side: C2cSource, limit: int) -> Iterator[Block]:
    yield Text(text=_describe_samples(side))
    yield Text(text=MEANINGS[side.observable], tone="muted")
    lines = side.lines[:limit]
    if lines:
        yield seen_table(side, lines)
    yield from (seen_bytes_table(side, line) for line in lines if line.accesses)
    if any(access.name for line in lines for access in line.accesses):
        yield GRADES
    pairs = [seen_pairs_table(side, line) for line in lines if line.pairs]
    if pairs:
        yield from pairs
        yield ATTRIBUTION


def _name(side: C2cSource) -> str:
    name = "" if side.side is None else f"{side.side}: "
    runs = f", {count_of(side.runs, 'run')} of {side.point}" if side.point else ""
    return f"{name}{side.label}{runs}"


def _events(side: C2cSource) -> str:
    return join_names(side.events) or "unknown event"


def _describe_samples(side: C2cSource) -> str:
    totals, word = side.totals, word_of((side.observable,))
    remote, local = _TOTALS[side.observable]
    counts = {
        "samples": "total_records", f"remote {word}s": remote, f"local {word}s": local,
        "loads": "load_operations", "stores": "store_operations",
    }  # fmt: skip
    facts = [f"{totals.get(key, MISSING)} {title}" for title, key in counts.items()]
    if side.period is not None:
        facts.append(f"sampling period {side.period}")
    if side.ldlat is not None:
        facts.append(f"sampled loads: latency of {side.ldlat} cycles or more")
    facts.append(f"{side.line_bytes}-byte lines")
    return f"{_name(side)}: {_events(side)}; {', '.join(facts)}"
