# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare two or more tables: build a :class:`~schedperf.model.comparison.Comparison`.

The first table, or the first side of the only one, is base. A table does not describe its machines
and holds no captures, so only its numbers are compared.
"""

import hashlib
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from schedperf.compare.advice.next_steps import next_steps
from schedperf.compare.facts import as_same_data
from schedperf.compare.options import CompareOptions, comparison_id, history_caveats
from schedperf.compare.rows import to_families, to_rows
from schedperf.compare.side_by_side import compare_side_by_side, find_movers
from schedperf.evidence import all_sections
from schedperf.inputs.side import side_name
from schedperf.inputs.tables.read import Table
from schedperf.model.base_new import BASE
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.comparison import SCHEMA, Comparison
from schedperf.model.errors import InputError
from schedperf.model.frame import Frame, Integers, objects, plain
from schedperf.model.sides import Comparability, Difference, SideSummary
from schedperf.model.verdict import decide_overall, undecided
from schedperf.stats import compare_runs
from schedperf_collectors import __version__

NO_CAPTURES = "CSV tables contain no collector data"
NO_MACHINE = "CSV tables do not describe the machine, so machines are not compared"
# The reason of a comparison that has no primary row.
ABSENCE = undecided("no row of the tables has `primary` in column `family`")

FEWEST_SIDES = 2
# An error message is one line.
LONGEST_LIST = 200


# A side and its rows of the table, each with its place in the file.
_Measured = tuple[SideSummary, Frame]


def compare_tables(
    tables: Sequence[Table], options: CompareOptions | None = None, *, base: str | None = None
) -> Comparison:
    """Compare every side with base.

    :param tables: one table with several sides, or several tables with one side each, base first
    :param base: the side of a single table that is base; None for the first side; ignored with
        several tables
    :raises InputError: the tables do not contain the sides that a comparison needs, a row has an
        invalid value, or the margin is out of range
    """
    chosen = options or CompareOptions()
    measured = _sides_of_one(tables[0], base) if len(tables) == 1 else _sides_of_many(tables)
    sides = tuple(side for side, _ in measured)
    runs = Frame.joined([of_side for _, of_side in measured])
    new = [side.name for side in sides[1:]]
    result = compare_runs(runs, base=BASE, new=new, margin=chosen.margin, history=chosen.history)
    same = {side.name for side in sides[1:] if side.digest == sides[0].digest}
    judged = [as_same_data(row) if row.side in same else row for row in result.rows]
    rows = tuple(to_rows(judged, _single_runs(runs), chosen.margin))
    digests = {side.name: side.digest for side in sides}
    beside = tuple(compare_side_by_side(rows, digests, runs, history=chosen.history))
    comparison = Comparison(
        schema=SCHEMA,
        id=comparison_id([side.digest for side in sides], chosen),
        tool_version=__version__,
        sides=sides,
        comparability=_comparability(new),
        rows=rows,
        sweeps=tuple(sweep for _, sweep in result.sweeps),
        families=tuple(to_families(rows)),
        side_by_side=beside,
        movers=find_movers(beside),
        findings=(),
        sections={
            name: plugin.without(
                "absent" if plugin.applies is None else "not-applicable", NO_CAPTURES
            )
            for name, plugin in all_sections().items()
        },
        caveats=(
            *(of_table for table in tables for of_table in table.caveats),
            *_caveats(measured),
            *history_caveats(chosen),
        ),
        overall=decide_overall(rows, blocking=(), absence=("inconclusive", ABSENCE)),
    )
    # A table does not record the command that made it.
    return replace(comparison, next_steps=next_steps(comparison, {}))


def _sides_of_one(table: Table, base: str | None) -> list[_Measured]:
    if len(table.sides) < FEWEST_SIDES:
        held = f"only the side {table.sides[0]!r}" if table.sides else "one side"
        raise InputError(
            f"{table.path}: contains {held} (expected at least {FEWEST_SIDES} sides); "
            "give a second table, or add a column `side`"
        )
    if base is not None and base not in table.sides:
        raise InputError(
            f"{table.path}: unknown side {base!r} (expected one of {_list_sides(table)}); choose "
            "one of them with --base"
        )
    first = table.sides[0] if base is None else base
    labels = [first, *(name for name in table.sides if name != first)]
    return [
        _measured(
            index,
            label,
            table,
            # Sides of one file are separate measurements, even if their numbers are equal.
            hashlib.sha256(f"{table.digest} {label}".encode()).hexdigest(),
            np.flatnonzero(table.runs["side"] == label),
        )
        for index, label in enumerate(labels)
    ]


def _list_sides(table: Table) -> str:
    return textwrap.shorten(", ".join(table.sides), LONGEST_LIST, placeholder="…")


def _sides_of_many(tables: Sequence[Table]) -> list[_Measured]:
    for table in tables:
        if len(table.sides) > 1:
            raise InputError(
                f"{table.path}: contains {len(table.sides)} sides ({_list_sides(table)}; "
                "expected one side per table); compare this table alone, or split it"
            )
    return [
        _measured(
            index,
            table.sides[0] if table.sides else table.path.stem,
            table,
            table.digest,
            np.arange(len(table.runs)),
        )
        for index, table in enumerate(tables)
    ]


def _single_runs(runs: Frame) -> Frame:
    # Runs that a report can draw: a published mean is not a run. If a table does not number its
    # runs, their index among those of the side identifies them.
    has_value = ~np.isnan(runs["value"]) if "value" in runs else np.zeros(len(runs), bool)
    single = runs.take(has_value & (runs["status"] == "ok"))
    counts = Counter[str]()
    index = []
    for side in single["side"].tolist():
        index.append(counts[side])
        counts[side] += 1
    unknown = {name: None for name in ("boot", "order", "round") if name not in single}
    numbered = {} if "run" in single else {"run": index}
    return single.assign(**unknown, **numbered)


def _comparability(new: Sequence[str]) -> Comparability:
    differences = tuple(
        Difference(
            path="machine", side=side, base=None, new=None, severity="noted", reason=NO_MACHINE
        )
        for side in new
    )
    return Comparability(comparable=True, compared=0, differences=differences)


def _measured(index: int, label: str, table: Table, digest: str, places: Integers) -> _Measured:
    runs = table.runs.take(places)
    succeeded = runs["status"] == "ok"
    side = SideSummary(
        name=side_name(index),
        label=label,
        path=str(table.path),
        digest=digest,
        created=None,
        complete=True,
        boots=_count_boots(runs),
        runs_clean=_count_runs(runs.take(succeeded)),
        runs_instrumented=0,
        runs_failed=int((~succeeded).sum()),
        host={},
        recorded_by=None,
    )
    sources = objects([table.sources[place] for place in places])
    return side, runs.assign(side=side.name, source=sources)


def _count_boots(runs: Frame) -> int | None:
    return len({*plain(runs["boot"])} - {None}) or None if "boot" in runs else None


def _count_runs(runs: Frame) -> int | None:
    # A run can have several metrics; points are measured by separate runs. None if the number of
    # runs of a mean is not recorded.
    by_metric = Counter[tuple[object, ...]]()
    missing = {name: None for name in ("mean", "n") if name not in runs}
    columns = ("mean", "n", "workload", "point", "metric")
    for mean, n, *metric in runs.assign(**missing).rows(columns):
        if mean is not None and n is None:
            return None
        by_metric[tuple(metric)] += 1 if n is None or mean is None else int(n)
    points: dict[tuple[object, ...], int] = {}
    for (*point, _), count in by_metric.items():
        points[tuple(point)] = max(count, points.get(tuple(point), 0))
    return sum(points.values())


def _caveats(measured: Sequence[_Measured]) -> Iterator[Caveat]:
    for side, runs in measured:
        if side.runs_failed:
            yield caveat("failed-runs", failed=side.runs_failed, total=len(runs), side=side.name)
        if side.boots == 1:
            yield caveat("one-boot", side=side.name)
