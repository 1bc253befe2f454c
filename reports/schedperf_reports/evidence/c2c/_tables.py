"""The tables of cache lines: of two sides compared, and of one side alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from schedperf_reports.blocks import REFERENCE_PRIORITY, Cell, Column, Table, Tone
from schedperf_reports.words.rows import count_of
from schedperf_reports.words.units import MISSING, format_number, format_p, format_share

Entry = Mapping[str, Any]

# Rows that a terminal shows of the lines of a point: an even number, so that lines of base and of
# new are cut alike.
MOST_ROWS = 10

_WORDS = {"hitm": "HITM", "ibs": "HITM", "peer": "peer snoop"}
MEASURES = ("remote", "local")
_RATE_COLUMNS = (
    Column(title="base", align="right"),
    Column(title="new", align="right"),
    Column(title="times", align="right"),
    Column(title="95 % CI", align="right"),
    Column(title="q", align="right", priority=2),
    Column(title="could see", align="right", priority=1),
    Column(title="samples", align="right", priority=REFERENCE_PRIORITY),
)
_COUNT_COLUMNS = (Column(title="base", align="right"), Column(title="new", align="right"))


def word_of(observables: Collection[str]) -> str:
    """Return what a contended load is called where all sides see the same."""
    words = {_WORDS[one] for one in observables}
    return words.pop() if len(set(observables)) == 1 else "contended load"


def per_operation(point: Entry) -> str:
    """Return what rates are for: ``per 1000 messages``, ``per run``."""
    if point["unit"] is None:
        return "per operation"
    return f"per {point['unit']}" if point["per"] == 1 else f"per {point['per']} {point['unit']}s"


def totals_table(point: Entry) -> Table:
    """Return the rates over all addresses; without rates the samples."""
    word = word_of(point["observable"].values())
    names = {"remote": f"remote {word}", "local": f"local {word}", "stores": "stores"}
    return Table(
        caption=f"all addresses together, {_measured(point)}",
        columns=(Column(title=""), *_change_columns(point)),
        rows=tuple(
            (Cell(text=names[name]), *_change(point, change))
            for name, change in point["totals"].items()
        ),
    )


def _measured(point: Entry) -> str:
    return per_operation(point) if point["reason"] is None else "samples"


def _change_columns(point: Entry) -> tuple[Column, ...]:
    return _RATE_COLUMNS if point["reason"] is None else _COUNT_COLUMNS


def lines_table(point: Entry, lines: Sequence[Entry], limit: int | None = MOST_ROWS) -> Table:
    """Return the lines, each with its remote and its local accesses as far as there were any.

    :param limit: rows that a terminal shows; None: all
    """
    rows, anchors = [], []
    for line in lines:
        for place, name in enumerate(_measures(line)):
            first = Cell(text=called(line), tone=_tone(line)) if not place else Cell(text="")
            facts = (_sharing(line), _copies(line), _place(line)) if not place else ("", "", "")
            rows.append(
                (first, Cell(text=name), *_change(point, line[name]),
                 *(Cell(text=fact) for fact in facts))
            )  # fmt: skip
            anchors.append(line["row"] if not place else "")
    table = Table(
        caption=_lines_caption(point, lines),
        columns=(
            Column(title="line", code=True),
            Column(title="from"),
            *_change_columns(point),
            Column(title="sharing", priority=3),
            Column(title="copies", align="right", priority=4),
            Column(title="place", priority=REFERENCE_PRIORITY, code=True),
        ),
        rows=tuple(rows),
        limit=limit,
        anchors=tuple(anchors),
    )
    return _without_blank(table)


def _lines_caption(point: Entry, lines: Sequence[Entry]) -> str:
    word = word_of(point["observable"].values())
    hidden = point["seen"] - sum(point["seen_unmatched"].values()) - len(lines)
    more = f"; {count_of(hidden, 'line')} less contended left out" if hidden > 0 else ""
    power = "; could see: the smallest ratio with a power of 80 %"
    return (
        f"{count_of(len(lines), 'contended line')}, {word} {_measured(point)}"
        f"{power if point['reason'] is None else ''}{more}"
    )


def _measures(line: Entry) -> list[str]:
    seen = [name for name in MEASURES if any(line[name]["samples"].values())]
    return seen or [MEASURES[0]]


def called(line: Entry) -> str:
    """Return what a line of two sides is called."""
    return str(line["name"] or line["row"])


def _tone(line: Entry) -> Tone:
    changed = [line[name] for name in MEASURES if line[name]["changed"]]
    if not changed:
        return "plain"
    return "bad" if sum(one["difference"] for one in changed) > 0.0 else "good"


def side_by_side(lines: Sequence[Entry], most: int | None = None) -> list[Entry]:
    """Return lines that are compared with nothing, one of base after one of new.

    :param most: of each side; None: all
    """
    of_base = [line for line in lines if line["base"] is not None][:most]
    of_new = [line for line in lines if line["base"] is None][:most]
    pairs = zip_longest(of_base, of_new)
    return [line for pair in pairs for line in pair if line is not None]


def unmatched_table(point: Entry, lines: Sequence[Entry], limit: int | None = MOST_ROWS) -> Table:
    """Return lines that are compared with nothing: what one side does not show is no 0.

    :param lines: as :func:`side_by_side` returns them
    :param limit: rows that a terminal shows; None: all
    """
    word = word_of(point["observable"].values())
    hidden = sum(point["seen_unmatched"].values()) - len(lines)
    more = f"; {count_of(hidden, 'line')} less contended left out" if hidden > 0 else ""
    why = " and ".join(dict.fromkeys(line["unmatched"] for line in lines))
    table = Table(
        caption=(
            f"{count_of(len(lines), 'contended line')} that cannot be found again on the other "
            f"side ({why}), {word} samples remote + local{more}"
        ),
        columns=(
            Column(title="line", code=True),
            Column(title="base", align="right"),
            Column(title="new", align="right"),
            Column(title="compared with"),
            Column(title="sharing", priority=3),
            Column(title="copies", align="right", priority=4),
            Column(title="place", priority=REFERENCE_PRIORITY, code=True),
        ),
        rows=tuple(
            tuple(
                Cell(text=text)
                for text in (
                    called(line),
                    _alone(line, "base"),
                    _alone(line, "new"),
                    "nothing",
                    _sharing(line),
                    _copies(line),
                    _place(line),
                )
            )
            for line in lines
        ),
        limit=limit,
        anchors=tuple(line["row"] for line in lines),
    )
    return _without_blank(table)


def _alone(line: Entry, side: str) -> str:
    counts = [line[name]["samples"][side] for name in MEASURES]
    return MISSING if None in counts else f"{counts[0]}+{counts[1]}"


def _place(line: Entry) -> str:
    # What has no name is called by its place.
    if line["name"] is None:
        return ""
    keys = dict.fromkeys(line[side]["key"] for side in ("base", "new") if line[side])
    return " -> ".join(keys)


def _sharing(line: Entry) -> str:
    kinds = [line[side]["sharing"] or MISSING for side in ("base", "new") if line[side]]
    return " -> ".join(dict.fromkeys(kinds))


def _copies(line: Entry) -> str:
    counts = [line[side]["copies"] for side in ("base", "new") if line[side]]
    return MISSING if None in counts else str(max(counts))


def _change(point: Entry, change: Entry) -> tuple[Cell, ...]:
    counts = change["samples"]
    if point["reason"] is not None:
        return Cell(text=format_count(counts["base"])), Cell(text=format_count(counts["new"]))
    tone: Tone = "plain"
    if change["changed"]:
        tone = "bad" if change["difference"] > 0.0 else "good"
    return (
        Cell(text=format_rate(change["base"])),
        Cell(text=format_rate(change["new"])),
        Cell(text=_ratio(change["ratio"]), tone=tone),
        Cell(text=format_interval(change)),
        Cell(text=format_p(change["q"])),
        Cell(text=_ratio(change["least_ratio"])),
        Cell(text=f"{counts['base']}+{counts['new']}"),
    )


def format_rate(value: float | None) -> str:
    """Write a number with three digits."""
    return MISSING if value is None else format_number(float(f"{value:.3g}"))


def _ratio(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}"


def format_interval(change: Entry) -> str:
    """Write the 95 % interval of a ratio; what bounds nothing is a dash."""
    if change["ratio_low"] is None:
        return MISSING
    return f"{_ratio(change['ratio_low'])}..{_ratio(change['ratio_high'])}"


def seen_table(side: Entry, lines: Sequence[Entry]) -> Table:
    """Return the lines of one side alone."""
    hidden = len(side["lines"]) - len(lines)
    more = f"; {hidden} more with --limit or --json" if hidden > 0 else ""
    table = Table(
        caption=f"{count_of(len(lines), 'line')}, samples{_twice(lines)}{more}",
        columns=(
            Column(title="line", code=True),
            Column(title="remote", align="right"),
            Column(title="local", align="right"),
            Column(title="stores", align="right", priority=1),
            Column(title="records", align="right", priority=1),
            Column(title="twice", align="right", priority=1),
            Column(title="sharing"),
            Column(title="copies", align="right", priority=2),
            Column(title="place", priority=3, code=True),
        ),
        rows=tuple(
            (
                Cell(text=line["name"] or line["key"]),
                Cell(text=str(line["remote"])),
                Cell(text=str(line["local"])),
                Cell(text=str(line["stores"])),
                Cell(text=str(line["records"])),
                Cell(text=format_count(line["double_counted"])),
                Cell(text=_sharing_alone(line)),
                Cell(text=format_count(line["copies"])),
                Cell(text=line["key"] if line["name"] else ""),
            )
            for line in lines
        ),
    )
    return _without_blank(table)


def _twice(lines: Sequence[Entry]) -> str:
    if not any(line["double_counted"] for line in lines):
        return ""
    return "; records: perf's number, twice: how many of them perf counts twice"


def format_count(value: int | None) -> str:
    """Write a count that a source may not say."""
    return MISSING if value is None else str(value)


def _sharing_alone(line: Entry) -> str:
    if line["sharing"] is None:
        return "not known"
    if line["sharing"] == "mixed":
        return f"mixed, {format_share(line['false_share'])} false"
    return str(line["sharing"])


def _without_blank(table: Table) -> Table:
    # A column that has nothing to say, such as places of lines that are called by their place.
    kept = [
        index for index in range(len(table.columns)) if any(row[index].text for row in table.rows)
    ]
    return replace(
        table,
        columns=tuple(table.columns[index] for index in kept),
        rows=tuple(tuple(row[index] for index in kept) for row in table.rows),
    )
