"""The scheduling domains as a tree, from the smallest: what the balancer did at each of them."""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.evidence.schedstat.record import Idle, LevelRow, SchedstatRow
from schedperf.model.units import format_measure
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.rates.cells import OPERATIONS, change_of, divisor_of, main_rows
from schedperf_reports.words.rows import count_of

IDLE_TYPES: Mapping[Idle, str] = {
    "busy": "CPUs that are busy",
    "idle": "idle CPUs",
    "newidle": "CPUs that become idle",
}
# Columns of an idle type, then of a whole level; those of which nothing was counted are left out.
_FIELDS: Mapping[str, str] = {
    "lb_count": "attempts",
    "lb_balanced": "balanced",
    "lb_failed": "failed",
    "lb_gained": "pulled",
    "lb_imbalance": "imbalance",
    "lb_imbalance_load": "imbalance, load",
    "lb_imbalance_util": "imbalance, util",
    "lb_imbalance_task": "imbalance, tasks",
    "lb_imbalance_misfit": "imbalance, misfit",
    "alb_count": "active balances",
    "ttwu_wake_remote": "remote wakeups",
    "ttwu_move_affine": "affine wakeups",
}
NOTHING = "0"


def domain_tree(
    levels: Sequence[LevelRow],
    rows: Sequence[SchedstatRow],
    side: str,
    what: str,
    limit: int | None,
) -> Iterator[Table]:
    """Yield the tree of one side at one point; nothing without levels or counts of them.

    :param levels: of the record, of base and of the side
    :param rows: of one point
    :param what: workload and point, "" where there is one
    :param limit: rows that a terminal shows
    """
    main = [row for row in main_rows(rows) if row.level and row.basis != "share"]
    described = {row.level: row for row in reversed(levels) if row.side in ("base", side)}
    order = list(dict.fromkeys(row.level for row in levels if row.side in ("base", side)))
    found = {(row.level, row.idle, row.field): row for row in main}
    fields = [field for field in _FIELDS if any(key[2] == field for key in found)]
    if not order or not fields:
        return
    per, times = _divisor(main)
    meanings = {row.field: f"{row.meaning}: {row.function}" for row in main}
    is_compared = any(row.n_new for row in main)
    values = f"per {per}, base -> {side}" if is_compared else f"per {per}"
    yield Table(
        caption=f"{what}{': ' if what else ''}the domains, smallest first: {values}; the change "
        "where it is beyond noise",
        columns=(
            Column(title="domain"),
            *(
                Column(title=_FIELDS[field], align="right", explains=meanings[field])
                for field in fields
            ),
        ),
        rows=tuple(
            line
            for depth, level in enumerate(order)
            for line in _lines(described[level], depth, fields, found, times)
        ),
        limit=limit,
        details=tuple(one for level in order for one in _details(described[level])),
    )


def _divisor(rows: Sequence[SchedstatRow]) -> tuple[str, float]:
    # One for all cells, or nobody could compare them.
    per = divisor_of(rows[0])
    return (f"{OPERATIONS} {per}s", OPERATIONS) if rows[0].basis == "operation" else (per, 1.0)


def _lines(
    level: LevelRow,
    depth: int,
    fields: Sequence[str],
    found: Mapping[tuple[str, Idle, str], SchedstatRow],
    times: float,
) -> Iterator[tuple[Cell, ...]]:
    name, indent = level.level, "   " * depth
    cpus = "" if level.cpus is None else f", {count_of(level.cpus, 'CPU')}"
    domains = "" if level.domains is None else f", {count_of(level.domains, 'domain')}"
    branch = f"{indent}└ " if depth else ""
    whole = [_cell(found.get((name, "", field)), times, is_of_it=False) for field in fields]
    yield (Cell(text=f"{branch}{name}{cpus}{domains}", tone="strong"), *whole)
    for idle, words in IDLE_TYPES.items():
        cells = [
            _cell(found.get((name, idle, field)), times, is_of_it=field.startswith("lb_"))
            for field in fields
        ]
        yield (Cell(text=f"{indent}   {words}"), *cells)


def _details(level: LevelRow) -> Iterator[tuple[Block, ...]]:
    # The line of the level opens to its flags, those of its idle types to nothing.
    flags = " ".join(level.flags or ("not captured",))
    yield (Text(text=f"flags of its domains: {flags}"),)
    yield from [()] * len(IDLE_TYPES)


def _cell(row: SchedstatRow | None, times: float, *, is_of_it: bool) -> Cell:
    # What was 0 in all runs has no row.
    if row is None:
        return Cell(text=NOTHING if is_of_it else "", tone="muted")
    base, new = (
        format_measure(None if one is None else times * one, "1") for one in (row.base, row.new)
    )
    text = base if row.new is None else f"{base} -> {new}"
    change = f" ({change_of(row)})" if row.changed else ""
    return Cell(text=f"{text}{change}", tone="strong" if change else "plain", sort=row.new)
