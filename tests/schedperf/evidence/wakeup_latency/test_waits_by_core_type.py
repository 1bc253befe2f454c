# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits of hybrid machines are compared per type of CPU core."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.wakeup_latency.capture import WakeupCapture
from schedperf.evidence.wakeup_latency.findings import core_types
from schedperf.evidence.wakeup_latency.record import WakeupLatency
from schedperf.evidence.wakeup_latency.section import analyse_sides, wakeup_latency
from schedperf.inputs.side import Side
from schedperf.model.run import SideOf
from tests.schedperf.evidence.wakeup_latency.conftest import (
    US,
    WAKEUPS,
    Json,
    side_of,
    waits_row,
)

TYPES = {0: "cpu_core", 1: "cpu_core", 2: "cpu_atom", 3: "cpu_atom"}


def runs_of(atom_us: int, **changed: Any) -> list[Json]:
    """Return runs in which waits for P-cores take 20 us and those for E-cores ``atom_us``."""
    return [
        {
            **WAKEUPS,
            "rows": [
                waits_row("hackbench", 0, {(20 + step) * US: 500}),
                waits_row("make", 1, {(20 + step) * US: 500}),
                waits_row("hackbench", 2, {(atom_us + step) * US: 1000}),
            ],
            **changed,
        }
        for step in (0, 2, -1, 1)
    ]


def typed(name: str, runs: Sequence[Json], types: dict[int, str] = TYPES) -> SideOf[WakeupCapture]:
    return side_of(name, runs).having(lambda run: replace(run.content, types=types))


def p99s(data: WakeupLatency) -> dict[str, Any]:
    return {row.core_type: row for row in data.core_types if row.quantile == "p99"}


def test_waits_for_each_type_are_compared() -> None:
    data = analyse_sides([typed("base", runs_of(40)), typed("new", runs_of(400))])
    rows = p99s(data)
    assert [*rows] == ["cpu_core", "cpu_atom"]
    assert rows["cpu_atom"].changed
    assert rows["cpu_atom"].ratio == pytest.approx(10.0, rel=0.15)
    assert rows["cpu_core"].changed is False
    assert rows["cpu_core"].base == pytest.approx(20e-6, rel=1 / 8)
    # All commands, also those of few CPUs.
    assert {row.event for row in data.core_types} == {"wakeup"}


def test_a_finding_names_the_type_whose_waits_changed() -> None:
    def found(core_us: int, atom_us: int) -> list[str]:
        new = [
            {**run, "rows": [waits_row("hackbench", 0, {core_us * US: 1000}), *run["rows"][2:]]}
            for run in runs_of(atom_us)
        ]
        data = analyse_sides([typed("base", runs_of(40)), typed("new", new)])
        return [each.clause + each.details for each in core_types(data)]

    (text,) = found(20, 400)
    assert re.fullmatch(
        r"wakeup latency p99 on CPUs of type cpu_atom: [\d.]+ -> [\d.]+ us: no significant change "
        "on cpu_core",
        text,
    )
    # It says nothing of the types if the waits for all of them changed, or none.
    assert found(200, 400) == found(20, 40) == []


def test_one_side_has_its_percentiles() -> None:
    rows = p99s(analyse_sides([typed("base", runs_of(40))]))
    assert rows["cpu_atom"].base == pytest.approx(40e-6, rel=1 / 8)
    assert rows["cpu_atom"].new is None


def test_machines_with_one_type_and_sides_that_are_not_compared_have_no_rows() -> None:
    assert analyse_sides([typed("base", runs_of(40), {})]).core_types == ()
    lossy = typed("new", runs_of(40, lost={"slots": 1_000_000}))
    assert analyse_sides([typed("base", runs_of(40)), lossy]).core_types == ()


def test_the_types_are_those_of_host_json(analyse_with: Callable[..., Any]) -> None:
    runs = [
        {"kind": "instrumented", "files": {"wakeup_latency/wakeups.json": json.dumps(one)}}
        for one in runs_of(40)
    ]
    types = {"cpu_core": {"cpus": "0-1"}, "cpu_atom": {"cpus": "2-3"}}

    def analyse(sides: Sequence[Side]) -> WakeupLatency:
        return wakeup_latency(sides, lambda *_: None)

    data = analyse_with(analyse)(runs, runs, host={"topology": {"types": types}})
    assert [*p99s(data)] == ["cpu_core", "cpu_atom"]
