# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the text of ``perf c2c report --stdio`` of perf 4.1 to 6.16.

::

    =================================================
               Shared Data Cache Line Table
    =================================================
    #
    #        ----------- Cacheline ----------      Tot  ------- Load Hitm -------    Total
    # Index             Address  Node  PA cnt     Hitm    Total  LclHitm  RmtHitm  records
    # .....  ..................  ....  ......  .......  .......  .......  .......  .......
    #
          0  0xffff88810a2c4100     0     395   83.87%     1040      520      520     1715

The dotted ruler under two rows of titles defines the columns, because symbols contain spaces and
the set of columns depends on the version. Rows that do not match the ruler are counted and skipped.
If lines were truncated, e.g. by a terminal, the last column is not used, because its numbers may
lack digits; if the lines of ``=`` are shorter than perf's, totals may lack digits too and are
omitted. Unknown columns are ignored.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from msgspec import Struct

from schedperf.evidence.c2c.blindness import kernel_not_measured, least_latency
from schedperf.evidence.c2c.lines import CONTENDED
from schedperf.evidence.c2c.model import Access, Line, MemoryProfile
from schedperf.evidence.c2c.record import Observable
from schedperf.evidence.c2c.totals import shared_key, snake
from schedperf.evidence.c2c.unquote import BANNER, unquoted_lines
from schedperf.model.errors import InputError
from schedperf.model.perf_event import parse_event

# A report of 1,000 lines with 20 rows each has 5 MB.
LARGEST_BYTES = 64 << 20
MOST_ROWS = 100_000
# Upper limit on the width of a row.
LONGEST_LINE = 4000
# Largest number of columns; perf's widest table has 30.
MOST_COLUMNS = 100

_BANNER = re.compile(BANNER)
# All versions print this number of "=", and no total is wider.
_BANNER_WIDTH = 49
# perf prints events of a PMU as "PMU/terms/modifiers".
_CUT_EVENT = re.compile(r"[\w.-]+/[^/]*")
_RULER = re.compile(r"#\s*\.{3}[. ]*")
_DASHES = re.compile(r"\s*-{20,}\s*")
_GROUP = re.compile(r"-+ +([^-].*?) +-+|\S+(?: \S+)*")
# perf's labels contain no colon.
_TOTAL = re.compile(r" {2}(\S[^:]*): +(\d{1,19})")
_INFO = re.compile(r"([^:]*): (.+)")
_ADDRESS = re.compile(r"0x[0-9a-f]{1,16}")
_SYMBOL_CELL = re.compile(r"\s*(\S+(?: \S+)*)")

TOTALS_TITLES = ("Trace Event Information", "Global Shared Cache Line Event Information")
DETAILS_TITLE = "c2c details"
LINES_TITLE = "Shared Data Cache Line Table"
_SORT_DETAIL = "Cachelines sort on"
# "groupping" in old versions.
_LAST_DETAIL = "Cacheline data group"
OFFSETS_TITLE = "Shared Cache Line Distribution Pareto"
_TITLES_OF_PARTS = frozenset({*TOTALS_TITLES, DETAILS_TITLE, LINES_TITLE, OFFSETS_TITLE})

# Titles of the columns of a line: upper and lower row, in lower case.
_LINE_COLUMNS: Mapping[tuple[str, str], str] = {
    ("", "index"): "index",
    ("cacheline", "address"): "address",
    ("", "cacheline"): "address",
    ("double-cacheline", "address"): "address",
    ("total", "records"): "records",
    ("total", "loads"): "loads",
    ("total", "stores"): "store",
    ("store reference", "total"): "store",
    ("load hitm", "lclhitm"): "lcl_hitm",
    ("load hitm", "rmthitm"): "rmt_hitm",
    ("llc load hitm", "lcl"): "lcl_hitm",
    ("llc load hitm", "rmt"): "rmt_hitm",
    ("load peer", "local"): "lcl_peer",
    ("load peer", "remote"): "rmt_peer",
    ("stores", "l1hit"): "store_l1_hit",
    ("stores", "l1miss"): "store_l1_miss",
    ("stores", "n/a"): "store_na",
    ("store reference", "l1hit"): "store_l1_hit",
    ("store reference", "l1miss"): "store_l1_miss",
    ("core load hit", "fb"): "load_fb_hit",
    ("core load hit", "l1"): "load_l1_hit",
    ("core load hit", "l2"): "load_l2_hit",
    ("llc load hit", "lclhit"): "load_llc_hit",
    ("llc load hit", "lclhitm"): "lcl_hitm",
    ("llc load hit", "llc"): "load_llc_hit",
    ("llc load hit", "rmt"): "rmt_hit",
    ("rmt load hit", "rmthit"): "rmt_hit",
    ("rmt load hit", "rmthitm"): "rmt_hitm",
    ("load dram", "lcl"): "lcl_dram",
    ("load dram", "rmt"): "rmt_dram",
}
# Columns that are required for the counts of a line; of the columns of contended loads, one pair
# suffices.
_NEEDED = frozenset({"index", "address", "records", "store"})
_TITLES = {"index": "Index", "address": "Address", "records": "Total records", "store": "Stores"}
_NEEDED_PAIRS = (frozenset({"lcl_hitm", "rmt_hitm"}), frozenset({"lcl_peer", "rmt_peer"}))
# The last columns of complete tables; the title of the node column continues after "Node".
_LAST_COLUMNS = frozenset({("load dram", "rmt"), ("llc load hit", "rmt")})
_LAST_OF_OFFSETS = "node"
# Columns of an offset: percentages of the line's numbers, then all others.
_SHARE_COLUMNS: Mapping[tuple[str, str], str] = {
    ("hitm", "rmthitm"): "rmt_hitm",
    ("hitm", "lclhitm"): "lcl_hitm",
    ("hitm", "rmt"): "rmt_hitm",
    ("hitm", "lcl"): "lcl_hitm",
    ("peer snoop", "rmt"): "rmt_peer",
    ("peer snoop", "lcl"): "lcl_peer",
    ("store refs", "l1 hit"): "store_l1_hit",
    ("store refs", "l1 miss"): "store_l1_miss",
    ("store refs", "n/a"): "store_na",
}
_ROW_COLUMNS: Mapping[tuple[str, str], str] = {
    ("data address", "offset"): "offset",
    ("cl", "off"): "offset",
    ("total", "records"): "records",
    ("", "code address"): "code",
}
# perf adapts the width of this and all later columns to each row, but prints the ruler once.
_SYMBOL = "symbol"
# perf prints percentages with two decimals: up to this total, each percentage identifies one count.
_EXACT_COUNT = 10_000
_USUAL_LINE_BYTES = 64

# Totals of contended loads: Intel and AMD, then Arm.
_HITMS = ("load_local_hitm", "load_remote_hitm")
_PEERS = ("load_hit_local_peer", "load_hit_remote_peer")
# perf's event for records that are not samples.
_NO_SAMPLES = "dummy"
_STORES = ("store_l1_hit", "store_l1_miss", "store_na")
_CONTENDED_COUNTS = ("lcl_hitm", "rmt_hitm", "lcl_peer", "rmt_peer")
_LONGEST_INDEX = 9
# perf prints two decimals of each percentage.
_WHOLE = 0.98


class OffsetRow(NamedTuple):
    """The accesses of one instruction to one offset of a line.

    :param offset: bytes from the start of the line
    :param shares: fraction of the line's count, 0 to 1, by counter; perf's NaN is omitted
    :param records: None if the report has no such column
    :param symbol: with perf's mark: "[k] update_cfs_group"; without a symbol, the code address;
        None if the report has neither
    """

    offset: int
    shares: Mapping[str, float]
    records: int | None
    symbol: str | None


class C2cTextLine(Struct, frozen=True, kw_only=True):
    """One cache line of a report.

    :param counts: by counter of ``perf c2c``: ``rmt_hitm``, ``store_l1_hit`` …
    :param rows: its offsets; empty if perf printed none
    """

    address: int
    counts: Mapping[str, int]
    rows: tuple[OffsetRow, ...]

    @property
    def has_all_offsets(self) -> bool:
        """Whether the percentages of each kind of access add up to 100%, within rounding.

        False if there are no offsets.
        """
        kinds = {name for row in self.rows for name in row.shares if self.counts.get(name)}
        return bool(self.rows) and all(
            sum(row.shares.get(name, 0.0) for row in self.rows) > _WHOLE for name in kinds
        )


class C2cText(Struct, frozen=True, kw_only=True):
    """A whole report.

    :param totals: numbers by perf's part and label: ("Trace Event Information", "Total records");
        empty if they may lack digits
    :param events: as perf printed them; empty if a name may be cut
    :param sorted_on: "Total HITMs", "Peer Snoop" …; None if not printed
    :param lines: in the order of the report
    :param is_double: True if two adjacent lines are counted as one (``--double-cl``)
    :param damage: what was left out because the text is damaged, one sentence each
    """

    totals: Mapping[tuple[str, str], int]
    events: tuple[str, ...]
    sorted_on: str | None
    lines: tuple[C2cTextLine, ...]
    is_double: bool
    damage: tuple[str, ...]


def is_c2c_text(text: str) -> bool:
    """Return whether a text contains output of ``perf c2c report``."""
    return any(title in text for title in (*TOTALS_TITLES, LINES_TITLE))


def parse_c2c_text(text: str, label: str) -> C2cText:
    """Parse a report.

    :param label: names the source in messages
    :raises InputError: the text is not a report, is too large, or has neither table nor totals
    """
    if len(text) > LARGEST_BYTES:
        raise InputError(f"{label}: larger than {LARGEST_BYTES} bytes; pass perf.data instead")
    printed = _printed_lines(text)
    parts = _split(printed)
    if not parts.keys() & {*TOTALS_TITLES, LINES_TITLE}:
        raise InputError(
            f"{label}: unknown format (expected the complete output of `perf c2c report --stdio`); "
            "save the output again, or pass perf.data"
        )
    info = list(_info(parts.get(DETAILS_TITLE, ())))
    events = [value for key, value in info if key == "Events"]
    cut_at, cut_events = _cut_column(printed), [*filter(_CUT_EVENT.fullmatch, events)]
    reader = _ReportReader(label)
    counts = reader.read_lines(parts.get(LINES_TITLE, ()))
    rows = reader.read_offsets(parts.get(OFFSETS_TITLE, ()))
    lines = {
        index: C2cTextLine(address=address, counts=numbers, rows=tuple(rows.get(index, ())))
        for index, (address, numbers) in counts.items()
    }
    return C2cText(
        totals={
            (title, words): number
            for title in TOTALS_TITLES
            for words, number in _totals(parts.get(title, ()))
            if cut_at is None
        },
        events=() if cut_at is not None or cut_events else tuple(events),
        sorted_on=next((value for key, value in info if key == _SORT_DETAIL), None),
        lines=tuple(lines.values()),
        is_double=any("Double-Cacheline" in line for line in parts.get(LINES_TITLE, ())[:4]),
        damage=(
            *reader.damage(),
            *_missing_parts(parts, [key for key, _ in info], lines.values()),
            *_cut_values(cut_at, cut_events),
            *_cut_line(text),
        ),
    )


def _missing_parts(
    parts: Mapping[str, Sequence[str]], details: Collection[str], lines: Iterable[C2cTextLine]
) -> Iterator[str]:
    # perf prints the parts in this order; with --stats it ends after the details.
    begins_next = any({*line.strip()} == {"="} for line in parts.get(DETAILS_TITLE, ()))
    is_stats = any(key.startswith(_LAST_DETAIL) for key in details) and not begins_next
    contended = [line for line in lines if any(map(line.counts.get, _CONTENDED_COUNTS))]
    cut = sum(not line.has_all_offsets for line in contended)
    if LINES_TITLE not in parts and not is_stats:
        yield "the text ends before the table of cache lines"
    elif LINES_TITLE in parts and OFFSETS_TITLE not in parts:
        yield "the text ends before the table of offsets"
    elif cut:
        yield f"offsets are missing for {cut} of {len(contended)} contended lines"


def _cut_column(lines: Sequence[str]) -> int | None:
    # Width at which lines were truncated, e.g. by a terminal, if that may affect a total; None if
    # they were not.
    widths = [
        len(line.strip())
        for line, following in pairwise(lines)
        if following.strip() in _TITLES_OF_PARTS and _BANNER.fullmatch(line.strip())
    ]
    width = min(widths, default=_BANNER_WIDTH)
    return width if width < _BANNER_WIDTH else None


def _cut_values(column: int | None, events: Sequence[str]) -> Iterator[str]:
    if column is not None:
        yield (
            f"the lines are cut at column {column} (perf prints {_BANNER_WIDTH} columns or more), "
            "so the totals and the names of the events are left out, because they may lack "
            "characters; save the report with `perf c2c report --stdio > c2c.txt`"
        )
    elif events:
        yield (
            "the names of the events and the minimum load latency are left out, because the name "
            f"{events[0]!r} is cut; save the report with `perf c2c report --stdio > c2c.txt`"
        )


def _cut_line(text: str) -> Iterator[str]:
    if not text.endswith("\n"):
        yield "the last line has no newline, so the text may be truncated"


def _printed_lines(text: str) -> list[str]:
    lines = list(unquoted_lines(text))
    # The number of a total without a newline may lack digits.
    is_cut = not text.endswith("\n") and bool(lines) and bool(_TOTAL.match(lines[-1]))
    return lines[:-1] if is_cut else lines


def _split(lines: Sequence[str]) -> dict[str, list[str]]:
    # The lines of each part, by title.
    parts: dict[str, list[str]] = {}
    current: list[str] = []
    behind_title = 0
    for number, line in enumerate(lines):
        following = lines[number + 2] if number + 2 < len(lines) else ""
        if number < behind_title:
            continue
        if _BANNER.fullmatch(line.strip()) and _BANNER.fullmatch(following.strip()):
            current = parts.setdefault(lines[number + 1].strip(), [])
            behind_title = number + 3
        elif len(line) <= LONGEST_LINE:
            current.append(line)
    return parts


def _totals(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    for line in lines:
        match = _TOTAL.match(line)
        if match and "%" not in line:
            yield match[1].rstrip(), int(match[2])


def _info(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    # Further events are printed below the first, without a label.
    key = ""
    for line in lines:
        match = _INFO.fullmatch(line.strip())
        if match:
            key = match[1].rstrip() or key
            yield key, match[2].strip()


class _Column(NamedTuple):
    # Position and titles of a column.
    start: int
    stop: int
    titles: tuple[str, str]


class _ReportReader:
    # Counts rows that do not match the columns.

    def __init__(self, label: str) -> None:
        self._label = label
        self._rows = 0
        self._lines_left_out = 0
        self._offsets_left_out = 0
        self._missing: frozenset[str] = frozenset()
        self._widths: dict[str, int] = {}

    def damage(self) -> Iterator[str]:
        """Yield the parts that were left out, one sentence each."""
        for table, width in self._widths.items():
            yield (
                f"the table of {table} may be truncated, because the line of dashes below "
                f"its header ends at column {width}"
            )
        if self._missing:
            yield (
                f"{self._lines_left_out} row(s) of the table of cache lines are left out, because "
                f"they lack {', '.join(sorted(self._missing))} (cut or wrapped lines); save the "
                "report "
                "with `perf c2c report --stdio > c2c.txt`"
            )
        elif self._lines_left_out:
            yield (
                f"{self._lines_left_out} row(s) of the table of cache lines are left out, because "
                "their values do not fit the columns"
            )
        if self._offsets_left_out:
            yield (
                f"{self._offsets_left_out} row(s) of the table of offsets are left out, because "
                "their values do not fit the columns"
            )

    def read_lines(self, lines: Sequence[str]) -> dict[int, tuple[int, dict[str, int]]]:
        """Return address and counts of each line by its index.

        :raises InputError: the tables have more than :data:`MOST_ROWS` rows
        """
        columns, rows = self._columns(lines, "cache lines"), dict[int, tuple[int, dict[str, int]]]()
        names = {_LINE_COLUMNS[each.titles] for each in columns if each.titles in _LINE_COLUMNS}
        missing = _missing_columns(names)
        for line in lines:
            if _is_blank(line):
                continue
            self._count_row()
            row = None if missing else self._line(line, columns)
            if row is None or row[0] in rows:
                self._lines_left_out += 1
            else:
                rows[row[0]] = row[1:]
        self._missing = missing if self._lines_left_out else frozenset()
        return rows

    def _columns(self, lines: Sequence[str], table: str) -> list[_Column]:
        # Numbers of the last column may lack digits unless it is perf's last column.
        columns = _columns(lines)
        if columns and not _is_whole(columns):
            self._widths[table] = columns[-1].stop
            columns = columns if columns[-1].titles[1] == _SYMBOL else columns[:-1]
        return _up_to_symbol(columns)

    def _line(
        self, line: str, columns: Sequence[_Column]
    ) -> tuple[int, int, dict[str, int]] | None:
        cells = self._cells(line, columns, _LINE_COLUMNS)
        if cells is None:
            return None
        address = cells.pop("address")
        numbers = {name: int(cell) for name, cell in cells.items() if cell.isdecimal()}
        if not _ADDRESS.fullmatch(address) or len(numbers) != len(cells):
            return None
        return numbers.pop("index"), int(address, 16), numbers

    def read_offsets(self, lines: Sequence[str]) -> dict[int, list[OffsetRow]]:
        """Return the rows of offsets by the index of their cache line.

        The heading of each cache line is between two dashed rulers.

        :raises InputError: the tables have more than :data:`MOST_ROWS` rows
        """
        columns, rows = self._columns(lines, "offsets"), dict[int, list[OffsetRow]]()
        index, is_heading = None, False
        for line in lines:
            if _is_blank(line):
                continue
            if _DASHES.fullmatch(line):
                is_heading = not is_heading
            elif is_heading:
                index = _index_of(line)
            else:
                row = self._offset(line, columns)
                if row is None or index is None:
                    self._offsets_left_out += 1
                else:
                    rows.setdefault(index, []).append(row)
        return rows

    def _offset(self, line: str, columns: Sequence[_Column]) -> OffsetRow | None:
        self._count_row()
        shares = self._cells(line, columns, _SHARE_COLUMNS)
        cells = self._cells(line, columns, _ROW_COLUMNS)
        if not shares or cells is None or not _ADDRESS.fullmatch(cells.get("offset", "")):
            return None
        parts = {name: _share(cell) for name, cell in shares.items()}
        if None in parts.values():
            return None
        records = cells.get("records", "")
        behind = line[columns[-1].start :] if columns[-1].titles[1] == _SYMBOL else ""
        symbol = _SYMBOL_CELL.match(behind)
        return OffsetRow(
            offset=int(cells["offset"], 16),
            shares={name: part for name, part in parts.items() if part is not None and part >= 0},
            records=int(records) if records.isdecimal() else None,
            symbol=symbol[1] if symbol else cells.get("code"),
        )

    def _count_row(self) -> None:
        self._rows += 1
        if self._rows > MOST_ROWS:
            raise InputError(f"{self._label}: more than {MOST_ROWS} rows; pass perf.data instead")

    def _cells(
        self, line: str, columns: Sequence[_Column], names: Mapping[tuple[str, str], str]
    ) -> dict[str, str] | None:
        # The named cells of a row; None if the row has text between its columns.
        if any(line[left.stop : right.start].strip() for left, right in pairwise(columns)):
            return None
        cells = {
            names[column.titles]: line[column.start : column.stop].strip()
            for column in columns
            if column.titles in names
        }
        return cells or None


def _missing_columns(names: Collection[str]) -> frozenset[str]:
    # perf's titles of the required columns.
    missing = {_TITLES.get(name, name) for name in _NEEDED - {*names}}
    if not any(pair <= {*names} for pair in _NEEDED_PAIRS):
        missing.add("HITM or peer snoop counts")
    return frozenset(missing)


def _index_of(heading: str) -> int | None:
    first = heading.split(maxsplit=1)[0]
    return int(first) if first.isdecimal() and len(first) <= _LONGEST_INDEX else None


def _is_blank(line: str) -> bool:
    return not line.strip() or line.startswith("#")


def _columns(lines: Sequence[str]) -> list[_Column]:
    for number, line in enumerate(lines):
        if _RULER.fullmatch(line) and number > 1:
            groups, lower = _groups(lines[number - 2]), lines[number - 1]
            spans = [match.span() for match in islice(re.finditer(r"\.+", line), MOST_COLUMNS)]
            return [
                _Column(
                    start,
                    stop,
                    (_group_of(groups, start, stop), lower[start:stop].strip().lower()),
                )
                for start, stop in spans
            ]
    return []


def _is_whole(columns: Sequence[_Column]) -> bool:
    # Whether the last column is perf's last column.
    titles = columns[-1].titles
    return titles in _LAST_COLUMNS or titles[1].startswith(_LAST_OF_OFFSETS)


def _up_to_symbol(columns: Sequence[_Column]) -> list[_Column]:
    # Symbols may be wider than their column, so they extend to the end of the row.
    titles = [column.titles[1] for column in columns]
    if _SYMBOL not in titles:
        return [*columns]
    index = titles.index(_SYMBOL)
    return [*columns[:index], _Column(columns[index].start, LONGEST_LINE, ("", _SYMBOL))]


def _groups(upper: str) -> list[tuple[int, int, str]]:
    # In the upper row, a title in dashes spans several columns; other titles belong to one.
    body = upper.replace("#", " ", 1)
    return [
        (match.start(), match.end(), (match[1] or match[0]).strip().lower())
        for match in _GROUP.finditer(body)
    ]


def _group_of(groups: Sequence[tuple[int, int, str]], start: int, stop: int) -> str:
    over = [text for first, end, text in groups if first < stop and start < end]
    return over[0] if over else ""


def _share(cell: str) -> float | None:
    # perf prints -nan for 0 of 0; a negative number marks it.
    if cell in {"-nan%", "nan%"}:
        return -1.0
    return float(cell[:-1]) / 100 if re.fullmatch(r"\d{1,3}\.\d{1,2}%", cell) else None


def profile_of_text(text: C2cText) -> MemoryProfile:
    """Convert a report to a profile.

    Lines have no names and are not merged, since the text has no layout. ``reads`` of an offset are
    its records minus its stores, or None if the text has no records by offset. CPUs, nodes, task
    names, latencies, sharing and the sampling period are None.
    """
    totals = {
        snake(words) if title == TOTALS_TITLES[0] else shared_key(words): number
        for (title, words), number in text.totals.items()
    }
    observable = _observable(text, totals)
    if observable == "unknown" and text.damage and not _sum(totals, _HITMS):
        # Arm's events never count HITMs, so loads may be contended although the count is 0.
        totals = {key: number for key, number in totals.items() if key not in _HITMS}
    return MemoryProfile(
        observable=observable,
        is_text=True,
        event=text.events,
        perf_events=tuple(map(parse_event, text.events)),
        period=None,
        ldlat=least_latency(text.events),
        line_bytes=_USUAL_LINE_BYTES * (2 if text.is_double else 1),
        totals=totals,
        lines=tuple(_line(line, observable) for line in text.lines),
        damage=text.damage,
        notes=tuple(_notes(text)),
    )


def _observable(text: C2cText, totals: Mapping[str, int]) -> Observable:
    events = " ".join(text.events)
    if "ibs_op" in events:
        return "ibs"
    has_peer = any("lcl_peer" in line.counts for line in text.lines)
    if "arm_spe" in events or has_peer or text.sorted_on == "Peer Snoop":
        return "peer"
    # Only the details of a report name the events; IBS has the same columns as Intel's.
    if "mem-loads" in events:
        return "hitm"
    # Without event names, the totals decide, as for a recording.
    return "peer" if _sum(totals, _PEERS) and not _sum(totals, _HITMS) else "unknown"


def _sum(totals: Mapping[str, int], keys: Iterable[str]) -> int:
    return sum(totals.get(key, 0) for key in keys)


def _notes(text: C2cText) -> Iterator[str]:
    yield ("a perf c2c report names no variables, and copies of per-CPU lines are not merged")
    yield ("a perf c2c report does not list reading and writing CPUs, so sharing is not classified")
    yield "a perf c2c report does not contain the names of the tasks"
    of_user = [event for event in text.events if not parse_event(event).has_kernel]
    if names := [event for event in of_user if parse_event(event).name != _NO_SAMPLES]:
        yield kernel_not_measured(names)
    if any("loads" in line.counts for line in text.lines):
        yield (
            "on some machines, perf counts each remote HITM twice in the totals of records and "
            "loads; a perf c2c report does not show how many, so these totals may be too high"
        )
    if text.lines and not any(row.records for line in text.lines for row in line.rows):
        yield (
            "the perf c2c report does not contain loads per offset, so reads per offset are unknown"
        )
    if text.sorted_on is not None:
        yield (
            "perf c2c report omitted lines with less than 0.05% (in newer versions 0.1%) of all "
            "contended loads"
        )
    if any(count >= _EXACT_COUNT for line in text.lines for count in line.counts.values()):
        yield (
            "counts per offset are computed from percentages with two decimals, so they are not "
            f"exact for lines with {_EXACT_COUNT} or more samples"
        )
    if not text.lines:
        yield "the perf c2c report has no table of cache lines; print the report without --stats"


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
        pairs=None,
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
    # Stores are computed from rounded percentages, so the difference is limited to at least the
    # known loads.
    records = [row.records for row in rows if row.records is not None]
    return max(sum(records) - writes, at_least) if len(records) == len(rows) else None
