# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare two or more tables: build a :class:`~schedperf.model.comparison.Comparison`.

The first table, or the first side of the only one, is base. A table says nothing of
its machines and holds no captures: the numbers are compared, and nothing else.
"""

import hashlib
import textwrap
from collections.abc import Iterator, Sequence

import pandas as pd
from msgspec.structs import replace

from schedperf.compare.advice.next_steps import next_steps
from schedperf.compare.bundles import (
    CompareOptions,
    comparison_id,
    say_history,
    say_same_data,
    to_families,
    to_rows,
)
from schedperf.compare.side_by_side import compare_side_by_side, find_movers
from schedperf.evidence import all_sections
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.comparison import (
    BASE,
    SCHEMA,
    Comparability,
    Comparison,
    Difference,
    SideSummary,
)
from schedperf.model.errors import InputError
from schedperf.model.frame import Frame
from schedperf.model.verdict import decide_overall, undecided
from schedperf.runs.side import side_name
from schedperf.stats import compare_runs
from schedperf.tables.read import Table
from schedperf_collectors import __version__

NO_CAPTURES = "CSV tables contain no collector data"
NO_MACHINE = "CSV tables do not describe the machine, so machines are not compared"
# The reason of a comparison without a primary row.
ABSENCE = undecided("no row of the tables has `primary` in column `family`")

FEWEST_SIDES = 2
# An error message is one line.
LONGEST_LIST = 200


# A side and its rows of the table, each with its place in the file.
_Measured = tuple[SideSummary, pd.DataFrame]


def compare_tables(
    tables: Sequence[Table], options: CompareOptions | None = None, *, base: str | None = None
) -> Comparison:
    """Compare every side with the first one.

    :param tables: one table with several sides, or several tables with one side each
    :param base: the side of a single table that is base; None for the first one
    :raises InputError: the tables do not contain the sides that a comparison needs
    """
    chosen = options or CompareOptions()
    measured = _sides_of_one(tables[0], base) if len(tables) == 1 else _sides_of_many(tables)
    sides = tuple(side for side, _ in measured)
    runs = pd.concat([of_side for _, of_side in measured], ignore_index=True)
    new = [side.name for side in sides[1:]]
    result = compare_runs(runs, base=BASE, new=new, margin=chosen.margin, history=chosen.history)
    same = {side.name for side in sides[1:] if side.digest == sides[0].digest}
    judged = [say_same_data(row) if row.side in same else row for row in result.rows]
    rows = tuple(to_rows(judged, Frame.of(_df_single_runs(runs)), chosen.margin))
    digests = {side.name: side.digest for side in sides}
    beside = tuple(compare_side_by_side(rows, digests, Frame.of(runs)))
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
            *say_history(chosen),
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
            # Sides of one file are separate measurements, also where they have equal numbers.
            hashlib.sha256(f"{table.digest} {label}".encode()).hexdigest(),
            table.runs[table.runs["side"] == label],
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
            table.runs,
        )
        for index, table in enumerate(tables)
    ]


def _df_single_runs(runs: pd.DataFrame) -> pd.DataFrame:
    # The runs that a report can draw: a mean that somebody published is none. A table need not
    # number its runs; their place in it then tells them apart.
    succeeded = runs[runs["status"] == "ok"]
    values = succeeded["value"] if "value" in runs else pd.Series(dtype="float64")
    single = succeeded.loc[values.dropna().index]
    unknown = {name: None for name in ("boot", "order", "round") if name not in single}
    return single.assign(run=single.get("run", single.groupby("side").cumcount()), **unknown)


def _comparability(new: Sequence[str]) -> Comparability:
    differences = tuple(
        Difference(
            path="machine", side=side, base=None, new=None, severity="noted", reason=NO_MACHINE
        )
        for side in new
    )
    return Comparability(comparable=True, compared=0, differences=differences)


def _measured(index: int, label: str, table: Table, digest: str, runs: pd.DataFrame) -> _Measured:
    succeeded = runs["status"] == "ok"
    side = SideSummary(
        name=side_name(index),
        label=label,
        path=str(table.path),
        digest=digest,
        created=None,
        complete=True,
        boots=_count_boots(runs),
        runs_clean=_count_runs(runs[succeeded]),
        runs_instrumented=0,
        runs_failed=int((~succeeded).sum()),
        host={},
        recorded_by=None,
    )
    sources = [table.sources[row] for row in runs.index]
    return side, runs.assign(side=side.name, source=sources)


def _count_boots(runs: pd.DataFrame) -> int | None:
    return int(runs["boot"].nunique()) or None if "boot" in runs else None


def _count_runs(runs: pd.DataFrame) -> int | None:
    # A run can have several metrics; its points are measured by runs of their own. None where
    # nobody said of how many runs a mean is.
    counts = runs["n"] if "n" in runs else pd.Series(float("nan"), index=runs.index)
    numbers = counts.where(runs["mean"].notna(), 1.0) if "mean" in runs else counts.fillna(1.0)
    if numbers.isna().any():
        return None
    by_metric = numbers.groupby([runs[name] for name in ("workload", "point", "metric")]).sum()
    return int(by_metric.groupby(["workload", "point"]).max().sum())


def _caveats(measured: Sequence[_Measured]) -> Iterator[Caveat]:
    for side, runs in measured:
        if side.runs_failed:
            yield caveat("failed-runs", failed=side.runs_failed, total=len(runs), side=side.name)
        if side.boots == 1:
            yield caveat("one-boot", side=side.name)
