# SPDX-License-Identifier: GPL-2.0-or-later
"""Moves and waits of hybrid machines are compared per type of CPU core."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.placement.capture import MOST_TYPES, parse_placement
from schedperf.evidence.placement.findings import task_placement
from schedperf.evidence.placement.record import Placement
from schedperf.model.errors import BundleError

Analyse = Callable[..., Placement]
Json = dict[str, Any]

TYPES = {"0": "cpu_core", "1": "cpu_core", "2": "cpu_atom", "3": "cpu_atom"}
CORE, ATOM = "cpu_core", "cpu_atom"


@pytest.fixture
def hybrid(make_placement: Callable[..., Json], make_move: Callable[..., Json]) -> Any:
    """Return placement.json of a machine with one node, by its wakeups onto E-cores."""

    def wait(core_type: str, bin_: int, shorter_ns: int = 0) -> Json:
        counts = [5000 if index == bin_ else 0 for index in range(40)]
        return {"node": 0, "core_type": core_type, "log2_ns": counts, "count": 5000,
                "sum_ns": 5000 << bin_, "max_ns": (2 << bin_) - 1 - shorter_ns}  # fmt: skip

    def move(event: str, count: int, start: str, end: str, **chosen: Any) -> Json:
        return make_move(event, count, from_type=start, to_type=end, **chosen)

    def make(onto_atom: int, wait_bin: int = 12) -> Json:
        return make_placement(
            nodes=dict.fromkeys(TYPES, 0),
            types=TYPES,
            moves=[
                move("wakeup", 8000 - onto_atom, CORE, CORE),
                move("wakeup", onto_atom, CORE, ATOM),
                move("wakeup", 2000, ATOM, ATOM),
                move("migration", onto_atom, CORE, ATOM, cause="load_balance"),
                move("migration", 100, ATOM, CORE, cause="load_balance"),
            ],
            latency=[wait(CORE, 10), wait(ATOM, wait_bin, onto_atom)],
        )

    return make


def rows(data: Placement, *types: str, basis: str = "share") -> dict[str, Any]:
    return {row.name: row for row in data.rows if row.types == types and row.basis == basis}


def test_moves_and_waits_of_each_type(analyse_runs: Analyse, hybrid: Any) -> None:
    data = analyse_runs(
        [hybrid(500 + run) for run in range(4)], [hybrid(4000 + run) for run in range(4)]
    )
    onto = rows(data, ATOM)["wakeups onto cpu_atom"]
    # 2500 and 6000 of 10000 wakeups.
    assert (onto.base, onto.new) == pytest.approx((0.25, 0.60), rel=0.01)
    pair = rows(data, CORE, ATOM)["wakeups cpu_core -> cpu_atom"]
    assert (pair.base, pair.new) == pytest.approx((500 / 8000, 0.5), rel=0.01)
    assert pair.meaning == "share of all moves from the source type of core"
    moved = rows(data, CORE, ATOM, basis="operation")
    assert moved["migrations by load balance cpu_core -> cpu_atom"].changed
    assert rows(data, ATOM)["wait on cpu_atom: p99"].base == pytest.approx(8e-6, rel=0.05)
    assert rows(data, CORE)["wait on cpu_core: p99"].base == pytest.approx(2e-6, rel=0.05)


def test_findings_name_the_type(analyse_runs: Analyse, hybrid: Any) -> None:
    base = [hybrid(500 + run) for run in range(4)]
    new = [hybrid(4000 + run, wait_bin=15) for run in range(4)]
    clauses = [finding.clause for finding in task_placement(analyse_runs(base, new))]
    assert any(
        clause.startswith("whole machine: wakeups onto CPUs of type cpu_atom: 25.0% -> 60.0%")
        for clause in clauses
    )
    assert any(
        clause.startswith("whole machine: run-queue latency p99 on CPUs of type cpu_atom:")
        for clause in clauses
    )


def test_the_sums_do_not_depend_on_types(
    analyse_runs: Analyse, hybrid: Any, make_placement: Callable[..., Json]
) -> None:
    typed = hybrid(500)
    untyped = {**typed, "types": {}}
    for part in ("moves", "latency"):
        names = ("from_type", "to_type", "core_type")
        untyped[part] = [
            {name: value for name, value in row.items() if name not in names} for row in typed[part]
        ]
    whole = [
        [replace(row, row="") for row in analyse_runs([content]).rows if not row.types]
        for content in (typed, untyped)
    ]
    assert whole[0] == whole[1]
    assert not [row for row in analyse_runs([make_placement()]).rows if row.types]


@pytest.mark.parametrize(
    "change",
    [
        {"types": {"0": ""}},
        {"types": {"0": "x" * 65}},
        {"types": {"9000": "cpu_core"}},
        {"types": {"0": 7}},
        {"types": {str(cpu): f"type {cpu}" for cpu in range(MOST_TYPES + 1)}},
        {"types": ["cpu_core"]},
    ],
)
def test_invalid_types_are_refused(make_placement: Callable[..., Json], change: Json) -> None:
    with pytest.raises(BundleError, match=r"placement\.json"):
        parse_placement(json.dumps(make_placement(**change)).encode(), "placement.json")


def test_types_of_moves_are_bounded(
    make_placement: Callable[..., Json],
    make_move: Callable[..., Json],
) -> None:
    moves = [
        make_move("wakeup", 1, from_type="a", to_type=f"\u202etype {number}\r\n")
        for number in range(MOST_TYPES + 1)
    ]
    with pytest.raises(BundleError, match="types of CPU cores"):
        parse_placement(json.dumps(make_placement(moves=moves)).encode(), "placement.json")
