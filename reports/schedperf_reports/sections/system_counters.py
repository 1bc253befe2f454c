"""System counters: idle states, power, interrupts and throttling, base against new."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from schedperf.model import Comparison
from schedperf_reports._rate_cells import (
    change_of,
    describe_rate,
    explain_gaps,
    interval_of,
    split_twins,
    zeros_table,
)
from schedperf_reports._words import count_changes, count_of, merge_sides
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Item,
    Items,
    Table,
    Text,
    Tone,
)
from schedperf_reports.sections import report_section

Row = Mapping[str, Any]

# A terminal shows what changed, and some of the whole machine to judge it by.
MOST_CHANGED = 10
MOST_OTHERS = 8
COUNTED_ONE_WAY = ("pressure", "interrupts", "softirqs")
# Of what is not seen: it seldom changes from report to report.
MOST_MISSING = 2
# Of settings that differ; the page has all.
MOST_SETTINGS = 8
# More notes than these repeat each other.
MOST_NOTES = 5

COLUMNS = (
    Column(title="counted", code=True),
    Column(title="per", priority=1),
    Column(title="base", align="right"),
    Column(title="new", align="right"),
    Column(title="change", align="right"),
    Column(title="95 % CI", align="right", priority=2),
    Column(title="n", align="right", priority=REFERENCE_PRIORITY),
    Column(title="what", priority=REFERENCE_PRIORITY),
)

SETTING_COLUMNS = (
    Column(title="setting", code=True),
    Column(title="base", code=True),
    Column(title="new", code=True),
)


@report_section(
    "system_counters", title="Idle, power, interrupts and throttling", order=37, is_analysis=True
)
def system_counters(comparison: Comparison) -> Iterator[Block]:
    """Show the counts of each workload and point, what changed first, and what is missing."""
    section = comparison.sections.get("system_counters")
    if section is None or section.data is None:
        reason = None if section is None else section.reason
        yield Text(text=reason or "not analysed", tone="muted")
        return
    data: Any = section.data
    yield Text(text="; ".join(_describe_side(side) for side in data["sides"]), tone="muted")
    yield from _settings(data["settings"])
    rows = cast("Sequence[Row]", data["rows"])
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["side"], row["workload"], row["point"]), []).append(row)
    yield Text(text=_judge(split_twins(rows)[0]), tone="muted")
    for (side, workload, point), found in groups.items():
        ordered = _order(found)
        table = _table(side, f"{workload} at {point}" if point else workload, ordered)
        yield table
        yield from explain_gaps(ordered[: table.limit])
    yield from _missing(data)
    yield from _notes(merge_sides(data["notes"]))


def _describe_side(side: Mapping[str, Any]) -> str:
    kind = f"{side['kind']} run"
    tasks = f", tasks of {count_of(side['task_runs'], 'run')}" if side["task_runs"] else ""
    return f"{side['side']}: {count_of(side['runs'], kind)}{tasks}"


def _settings(settings: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    for side in dict.fromkeys(one["side"] for one in settings):
        yield Table(
            caption=f"settings of the scheduler that differ, base against {side}",
            columns=SETTING_COLUMNS,
            rows=tuple(
                tuple(
                    Cell(text=text)
                    for text in (one["name"], *map(_value, (one["base"], one["new"])))
                )
                for one in settings
                if one["side"] == side
            ),
            limit=MOST_SETTINGS,
        )


def _value(text: str | None) -> str:
    return "not there" if text is None else " ".join(text.split()) or "empty"


def _order(rows: Sequence[Row]) -> list[Row]:
    main, twins = split_twins(rows)
    firsts = {(row["group"], row["subject"]): row["row"] for row in reversed(main)}
    first = set(firsts.values())
    return [*sorted(main, key=lambda row: (*_interest(row), row["row"] not in first)), *twins]


def _table(side: str, what: str, rows: Sequence[Row]) -> Table:
    main = split_twins(rows)[0]
    changed = sum(bool(row["changed"]) for row in main)
    others = sum(not row["changed"] and row["node"] is None for row in main)
    return Table(
        caption=f"{what}, base against {side}",
        columns=COLUMNS,
        rows=tuple(_cells(row) for row in rows),
        limit=min(changed, MOST_CHANGED)
        + (min(others, MOST_OTHERS) if changed <= MOST_CHANGED else 0),
        anchors=tuple(row["row"] for row in rows),
    )


def _is_set(row: Row) -> bool:
    is_exact = row["ci_low"] is not None and row["ci_low"] == row["ci_high"]
    return is_exact and row["ratio"] not in (None, 1.0)


def _interest(row: Row) -> tuple[bool, bool, bool]:
    # Within both halves the order of the groups stays, the most telling one first. A node says
    # the same as all nodes together, in another place. A setting that was changed has no noise.
    return not row["changed"], not _is_set(row), row["node"] is not None


def _cells(row: Row) -> tuple[Cell, ...]:
    texts = (
        _name(row),
        *describe_rate(row),
        change_of(row),
        interval_of(row),
        f"{row['n_base']} + {row['n_new']}",
        f"{row['meaning']}: {row['function']}" if row["function"] else row["meaning"],
    )
    tone: Tone = "strong" if row["changed"] else "plain"
    return tuple(Cell(text=text, tone=tone) for text in texts)


def _name(row: Row) -> str:
    # What a group counts in one way alone needs no name for it.
    field = "" if row["group"] in COUNTED_ONE_WAY else f" {row['field']}"
    node = "" if row["node"] is None else f" (node {row['node']})"
    return f"{row['group']} {row['subject']}{field}{node}"


def _judge(rows: Sequence[Row]) -> str:
    return (
        f"sums over CPUs, means over runs; {count_changes(rows)}; more is neither better nor worse"
    )


def _missing(data: Mapping[str, Any]) -> Iterator[Block]:
    # One line a reason: most files are missing for the same one, and on all sides.
    sides: dict[tuple[str, str], list[str]] = {}
    for one in data["missing"]:
        sides.setdefault((one["what"], one["reason"]), []).append(one["side"])
    whats: dict[tuple[str, str], list[str]] = {}
    for (what, reason), where in sides.items():
        whats.setdefault((" and ".join(dict.fromkeys(where)), reason), []).append(what)
    items = [
        f"not seen in {place}: {', '.join(names)}: {reason}"
        for (place, reason), names in whats.items()
    ]
    items += [
        f"not compared: {one['group']} of {one['side']}: {one['what']}: {one['reason']}"
        for one in data["not_compared"]
    ]
    if items:
        yield Items(
            items=tuple(Item(text=text, tone="muted") for text in items), limit=MOST_MISSING
        )
    yield from zeros_table(data["zeros"])


def _notes(notes: Sequence[str]) -> Iterator[Block]:
    for note in notes[:MOST_NOTES]:
        yield Text(text=note, tone="warning")
    if len(notes) > MOST_NOTES:
        yield Text(text=count_of(len(notes) - MOST_NOTES, "more note"), tone="warning")
