# SPDX-License-Identifier: GPL-2.0-or-later
"""Interpret changed rows with the rules of ``rules.toml``."""

import math
import tomllib
from collections.abc import Hashable, Sequence
from functools import cache
from importlib.resources import files

from msgspec import Struct

from schedperf.evidence.schedstat.record import ReadingRow, SchedstatRow
from schedperf.stats.counted.rates import BASES, LEAST_EVENTS_OF_FINDING, distance_of


class Rule(Struct, frozen=True, kw_only=True):
    """One rule; its keys are explained in rules.toml."""

    name: str
    field: str
    idle: str
    what: str
    look_at: str
    up: str
    down: str


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return the rules in the order of their file."""
    text = (files("schedperf.evidence.schedstat") / "rules.toml").read_text()
    return tuple(
        Rule(name=name, **rule)
        for name, rule in tomllib.loads(text).items()
        if isinstance(rule, dict)
    )


def read_rows(rows: Sequence[SchedstatRow]) -> tuple[ReadingRow, ...]:
    """Return the interpretations of changed rows, largest change first.

    Rows without a rule, rows without a significant change, and rows with too few events are
    skipped. Of the rates of one counter, the rate per operation is used; per time only if there is
    none.
    """
    read: list[tuple[float, ReadingRow]] = []
    for rule in all_rules():
        by_identity: dict[tuple[Hashable, ...], SchedstatRow] = {}
        mine = [row for row in rows if (row.field, row.idle) == (rule.field, rule.idle)]
        for row in sorted(mine, key=lambda row: BASES.index(row.basis)):
            by_identity.setdefault(row.identity, row)
        read += [
            (distance_of(row.ratio), _read(rule, row))
            for row in by_identity.values()
            if row.changed and _events(row) >= LEAST_EVENTS_OF_FINDING
        ]
    return tuple(reading for _, reading in sorted(read, key=lambda item: -item[0]))


def _events(row: SchedstatRow) -> float:
    if row.basis == "share":
        return math.inf
    return max(row.total_base or 0.0, row.total_new or 0.0)


def _read(rule: Rule, row: SchedstatRow) -> ReadingRow:
    at = f" at {row.level}" if row.level else ""
    return ReadingRow(
        rule=rule.name,
        row=row.row,
        side=row.side,
        workload=row.workload,
        point=row.point,
        level=row.level,
        text=f"{rule.what}{at} {_describe(row)}",
        meaning=rule.up if (row.new or 0.0) > (row.base or 0.0) else rule.down,
        look_at=rule.look_at,
    )


def _describe(row: SchedstatRow) -> str:
    per = "" if row.basis == "share" else f" per {_unit(row)}"
    if row.ratio is None:
        return f"{row.base:.3g} -> {row.new:.3g}{per}"
    return f"{100.0 * (row.ratio - 1.0):+.0f}%{per}"


def _unit(row: SchedstatRow) -> str:
    name = row.unit.partition("/")[2]
    return "second" if name == "s" else name
