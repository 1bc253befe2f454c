# SPDX-License-Identifier: GPL-2.0-or-later
"""Report system counters: idle states, power, interrupts and throttling, new vs base."""

from collections.abc import Iterator, Sequence

from schedperf.evidence.system.record import (
    BY_NAME,
    CPU_TIME,
    LEAST,
    SettingRow,
    SystemCounters,
    SystemRow,
    SystemSide,
)
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf.model.text import join_names
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Item,
    Items,
    Table,
    Text,
)
from schedperf_reports.rates.cells import (
    CHANGED,
    MEANS,
    RULE,
    Shown,
    explain_gaps,
    gather_twins,
    lead,
    main_rows,
    state_of,
    tone_of,
    zeros_table,
)
from schedperf_reports.rates.cpu_maps import cpu_maps
from schedperf_reports.rates.tables import Rates, by_subject, notes_below
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.quantities import format_share
from schedperf_reports.words.rows import count_of, group_by_reason, merge_sides
from schedperf_reports.words.states import State

# Rows that a terminal shows: changes, and some rows of the whole machine for scale.
MOST_CHANGED = 10
MOST_OTHERS = 8
COUNTED_ONE_WAY = ("pressure", "interrupts", "softirqs")
# Missing parts that a terminal lists; they seldom differ between reports.
MOST_MISSING = 2
# Differing settings that a terminal shows; the page has all.
MOST_SETTINGS = 8
# /proc/stat and the clock are read a tick and some ms apart, less than 10% of a run of 1 s.
MOST_UNACCOUNTED = 0.1

SETTING_COLUMNS = (
    Column(title="setting", code=True),
    Column(title="base", code=True),
    Column(title="new", code=True),
)


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, SystemCounters)
    return (
        None if data is None else state_of(data.rows, _name, lambda row: row.group not in CPU_TIME)
    )


@report_section(
    "system_counters",
    title="Idle, power, interrupts and throttling",
    chapter="scheduler",
    order=40,
    is_analysis=True,
    state=_state,
)
def system_counters(comparison: Comparison) -> Iterator[Block]:
    """Show the counts of each workload and point, changes first, and what is missing."""
    data = record_of(comparison, SystemCounters)
    if isinstance(data, Text):
        yield data
        return
    rows = data.rows
    yield from lead(rows, _name)
    yield Text(text="; ".join(_describe_side(side) for side in data.sides), tone="muted")
    yield from _warn_of_lost_ticks(data.sides)
    yield from _settings(data.settings)
    text = f"sums over CPUs; {MEANS}; neither direction is better"
    yield Text(text=text, tone="muted")
    if any(row.changed for row in rows):
        text = f"{CHANGED}: significant, {RULE}; base or new has at least {LEAST}"
        yield Text(text=text, tone="muted")
    for _, subject, of_point in by_subject(rows):
        ordered = _order(of_point)
        table = _table(subject, ordered)
        yield table
        yield from explain_gaps([shown.row for shown in ordered[: table.limit]])
    yield from cpu_maps(comparison, data.cpus)
    yield from _missing(data)
    yield from notes_below(merge_sides(data.notes))


def _describe_side(side: SystemSide) -> str:
    kind = f"{side.kind} run"
    tasks = f", per-task data of {count_of(side.task_runs, 'run')}" if side.task_runs else ""
    return f"{side.side}: {count_of(side.runs, kind)}{tasks}"


def _warn_of_lost_ticks(sides: Sequence[SystemSide]) -> Iterator[Text]:
    for side in sides:
        share = side.accounted
        if share is not None and abs(share - 1.0) > MOST_UNACCOUNTED:
            text = (
                f"{side.side}: /proc/stat accounts for {format_share(share)} of the wall time of "
                f"{count_of(side.cpus, 'CPU')} (expected 100%; emulated guests lose ticks), so "
                "busy and idle times and the CPU times of cgroups are unreliable"
            )
            yield Text(text=text, tone="warning")


def _settings(settings: Sequence[SettingRow]) -> Iterator[Block]:
    for side in dict.fromkeys(row.side for row in settings):
        yield Table(
            caption=f"scheduler settings that differ between base and {side}",
            columns=SETTING_COLUMNS,
            rows=tuple(
                tuple(Cell(text=text) for text in (row.name, _value(row.base), _value(row.new)))
                for row in settings
                if row.side == side
            ),
            limit=MOST_SETTINGS,
        )


def _value(text: str | None) -> str:
    return "not present" if text is None else " ".join(text.split()) or "empty"


def _order(rows: Sequence[SystemRow]) -> list[Shown[SystemRow]]:
    firsts = {(row.group, row.subject): row.row for row in reversed(main_rows(rows))}
    first = set(firsts.values())
    return sorted(
        gather_twins(rows),
        key=lambda shown: (*_interest(shown.row), shown.row.row not in first),
    )


def _table(subject: str, ordered: Sequence[Shown[SystemRow]]) -> Table:
    rows = [shown.row for shown in ordered]
    changed = sum(bool(row.changed) for row in rows)
    others = sum(not row.changed and row.node is None for row in rows)
    limit = min(changed, MOST_CHANGED)
    limit += min(others, MOST_OTHERS) if changed <= MOST_CHANGED else 0
    return RATES.table(subject, ordered, limit=limit, least=MOST_OTHERS)


def _is_set(row: SystemRow) -> bool:
    is_exact = row.ci_low is not None and row.ci_low == row.ci_high
    return is_exact and row.ratio not in (None, 1.0)


def _interest(row: SystemRow) -> tuple[bool, bool, bool]:
    # Changes first, including settings, which have no noise; rows of single nodes last. The order
    # of the groups is kept.
    return not row.changed, not _is_set(row), row.node is not None


def _about(row: SystemRow) -> str:
    return f"{row.meaning}: {row.function}" if row.function else row.meaning


def _name(row: SystemRow) -> str:
    # A group with a single field does not repeat its name.
    field = "" if row.group in COUNTED_ONE_WAY else f" {row.field}"
    node = "" if row.node is None else f" (node {row.node})"
    return f"{row.group} {row.subject}{field}{node}"


def _kind(row: SystemRow) -> str:
    if row.group in CPU_TIME:
        return "rows of CPU times"
    if row.group in BY_NAME:
        return f"rows of {join_names(BY_NAME)}"
    return f"rows of groups other than {', '.join((*CPU_TIME, *BY_NAME))}"


RATES: Rates[SystemRow] = Rates(
    first=Column(title="counted", code=True),
    name=_name,
    about=_about,
    more=(Column(title="what", priority=REFERENCE_PRIORITY),),
    more_cells=lambda row: (Cell(text=_about(row), tone=tone_of(row)),),
    kind=_kind,
    small=lambda row: row.why_small,
)


def _missing(data: SystemCounters) -> Iterator[Block]:
    items = [
        f"not measured in {sides}: {', '.join(files)}: {reason}"
        for sides, reason, files in group_by_reason(
            (missing.side, missing.what, missing.reason) for missing in data.missing
        )
    ]
    items += [
        f"not compared: {refused.group} of {refused.side}: {refused.what}: {refused.reason}"
        for refused in data.not_compared
    ]
    if items:
        yield Items(
            items=tuple(Item(text=text, tone="muted") for text in items), limit=MOST_MISSING
        )
    yield from zeros_table(data.zeros)
