"""The text of ``perf c2c report`` as a profile: only what the text says, and what it cannot."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from schedperf.evidence.c2c._samples import CONTENDED
from schedperf.evidence.c2c.blindness import least_latency
from schedperf.evidence.c2c.model import Access, Line, MemoryProfile
from schedperf.evidence.c2c.perf_text import TOTALS_TITLES, C2cText, C2cTextLine, OffsetRow
from schedperf.evidence.c2c.record import Observable
from schedperf.evidence.c2c.totals import shared_key, snake

# perf prints percentages with two digits behind the point: up to here each is of one number only.
EXACT_COUNT = 10_000
USUAL_LINE_BYTES = 64

_STORES = ("store_l1_hit", "store_l1_miss", "store_na")


def profile_of_text(text: C2cText) -> MemoryProfile:
    """Return what a report says.

    Lines have no names and are not put together, since the text has no layout. ``reads`` of an
    offset are perf's loads: its records less its stores, where the text has records by offset.
    """
    observable = _observable(text)
    totals = {
        snake(words) if title == TOTALS_TITLES[0] else shared_key(words): number
        for (title, words), number in text.totals.items()
    }
    return MemoryProfile(
        observable=observable,
        is_text=True,
        event=text.events,
        period=None,
        ldlat=least_latency(text.events),
        line_bytes=USUAL_LINE_BYTES * (2 if text.is_double else 1),
        totals=totals,
        lines=tuple(_line(line, observable) for line in text.lines),
        notes=tuple(_notes(text)),
    )


def _observable(text: C2cText) -> Observable:
    events = " ".join(text.events)
    if "ibs_op" in events:
        return "ibs"
    has_peer = any("lcl_peer" in line.counts for line in text.lines)
    return "peer" if "arm_spe" in events or has_peer or text.sorted_on == "Peer Snoop" else "hitm"


def _notes(text: C2cText) -> Iterator[str]:
    yield "from text: no names of data, and copies of per-CPU lines are lines of their own"
    yield "from text: it does not say which CPU read and which wrote, so sharing is not judged"
    yield "from text: it does not say which commands ran"
    if any("loads" in line.counts for line in text.lines):
        yield (
            "from text: records and loads are perf's, which counts a remote HITM of some machines "
            "twice; the text does not say how often"
        )
    if text.lines and not any(row.records for line in text.lines for row in line.rows):
        yield "from text: it has no loads by offset, so reads of offsets are not known"
    if text.sorted_on is not None:
        yield "from text: perf left out lines with less than 0.05 or 0.1 % of all contended loads"
    if any(count >= EXACT_COUNT for line in text.lines for count in line.counts.values()):
        yield (
            f"from text: numbers of offsets are made of percentages with two digits, so those of "
            f"lines with {EXACT_COUNT} or more are not exact"
        )
    if not text.lines:
        yield "from text: there is no table of lines in it; give the report without --stats"
    if text.unreadable:
        yield f"from text: {text.unreadable} rows do not fit their columns and are left out"


def _line(line: C2cTextLine, observable: Observable) -> Line:
    offsets: dict[int, list[OffsetRow]] = {}
    for row in line.rows:
        offsets.setdefault(row.offset, []).append(row)
    return Line(
        key=f"{line.address:#x}",
        address=line.address,
        copies=None,
        name=None,
        records=line.counts.get("records", 0),
        counts=line.counts,
        sharing=None,
        false_share=None,
        accesses=tuple(
            _access(offset, rows, line.counts, observable)
            for offset, rows in sorted(offsets.items())
        ),
    )


def _access(
    offset: int, rows: Sequence[OffsetRow], counts: Mapping[str, int], observable: Observable
) -> Access:
    def count(row: OffsetRow, names: Sequence[str]) -> int:
        return sum(round(row.shares.get(name, 0.0) * counts.get(name, 0)) for name in names)

    near, far = CONTENDED[observable]
    local, remote = (sum(count(row, (name,)) for row in rows) for name in (near, far))
    symbols: Counter[str] = Counter()
    writing: Counter[str] = Counter()
    for row in rows:
        if row.symbol is not None:
            samples = row.records
            if samples is None:
                samples = count(row, (near, far, *_STORES))
            name = row.symbol.partition("] ")[2] or row.symbol
            symbols[name] += samples
            writing[name] += count(row, _STORES)
    writes = sum(count(row, _STORES) for row in rows)
    return Access(
        offset=offset,
        size=None,
        name=None,
        grade=None,
        reads=_reads(rows, writes, at_least=local + remote),
        writes=writes,
        local=local,
        remote=remote,
        readers=None,
        writers=None,
        nodes=None,
        symbols=symbols,
        writing_symbols=+writing,
        commands=None,
        mean_weight=None,
    )


def _reads(rows: Sequence[OffsetRow], writes: int, *, at_least: int) -> int | None:
    # Stores are made of rounded percentages; what is left of the records is no less than what is
    # known of the loads.
    records = [row.records for row in rows if row.records is not None]
    return max(sum(records) - writes, at_least) if len(records) == len(rows) else None
