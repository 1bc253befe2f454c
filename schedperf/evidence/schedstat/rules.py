"""What a change means, in plain words: the rules of ``rules.toml``, applied to rows."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from schedperf.stats.counted.rates import BASES, LEAST_EVENTS, distance_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
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


def read_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what the rules say of changed rows, largest change first.

    :param rows: as :func:`schedperf.evidence.schedstat.analysis.analyse_sides` returns them
    :return: ``rule, row, side, workload, point, level, text, meaning, look_at``; a row that may be
        noise, of which nothing is known or which is of too few events is passed over
    """
    read: list[tuple[float, dict[str, Any]]] = []
    for rule in all_rules():
        found: dict[tuple[str, ...], Mapping[str, Any]] = {}
        mine = [row for row in rows if (row["field"], row["idle"]) == (rule.field, rule.idle)]
        for row in sorted(mine, key=lambda row: BASES.index(row["basis"])):
            found.setdefault(
                tuple(row[name] for name in ("side", "workload", "point", "level")), row
            )
        read += [
            (distance_of(row["ratio"]), _read(rule, row))
            for row in found.values()
            if row["changed"] and _events(row) >= LEAST_EVENTS
        ]
    return [reading for _, reading in sorted(read, key=lambda one: -one[0])]


def _events(row: Mapping[str, Any]) -> float:
    if row["basis"] == "share":
        return math.inf
    return max(row["total_base"] or 0.0, row["total_new"] or 0.0)


def _read(rule: Rule, row: Mapping[str, Any]) -> dict[str, Any]:
    at = f" at {row['level']}" if row["level"] else ""
    return {
        "rule": rule.name,
        **{name: row[name] for name in ("row", "side", "workload", "point", "level")},
        "text": f"{rule.what}{at} {_describe(row)}: look at {rule.look_at}",
        "meaning": rule.up if row["new"] > row["base"] else rule.down,
        "look_at": rule.look_at,
    }


def _describe(row: Mapping[str, Any]) -> str:
    per = "" if row["basis"] == "share" else f" per {_unit(row)}"
    if row["ratio"] is None:
        return f"{row['base']:.3g} before, {row['new']:.3g} after{per}"
    return f"{100.0 * (row['ratio'] - 1.0):+.0f} %{per}"


def _unit(row: Mapping[str, Any]) -> str:
    name = str(row["unit"]).partition("/")[2]
    return "second" if name == "s" else name
