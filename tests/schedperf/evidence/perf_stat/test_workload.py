# SPDX-License-Identifier: GPL-2.0-or-later
"""Events of the workload are compared beside those of the machine, and are those of findings."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from schedperf.evidence.perf_stat.findings import counter_changes
from schedperf.evidence.perf_stat.record import Counters, NotCounted
from schedperf.evidence.perf_stat.section import counters

Analyse = Callable[..., Any]
Counts = Mapping[str, float | str]
Run = dict[str, Any]

NOISE = (0, 3, -2, 1, -3)


@pytest.fixture
def analyse(analyse_with: Callable[..., Analyse]) -> Analyse:
    return analyse_with(counters)


def csv(counts: Counts, node: str = "") -> str:
    return "".join(
        f"{node}{value},{'msec' if event.endswith('clock') else ''},{event},1000,100.00,,\n"
        for event, value in counts.items()
    )


def runs_of(
    machine: Mapping[str, float], workload: Counts | None, facts: object = None, **changes: Any
) -> list[Run]:
    """Return runs with some noise; without workload.csv if ``workload`` is None."""
    runs = []
    for noise in NOISE:
        noisy = {event: value + noise for event, value in machine.items()}
        files = {"perf_stat/perf_stat.csv": csv(noisy, "N0,2,")}
        if workload is not None:
            own = {
                event: value if isinstance(value, str) else value + noise
                for event, value in workload.items()
            }
            files["perf_stat/workload.csv"] = csv(own)
        if facts is not None:
            files["perf_stat/perf_stat.json"] = json.dumps(facts)
        runs.append({"kind": "instrumented", "time_s": 1.99, "files": files, **changes})
    return runs


def ratios(data: Counters, basis: str = "operation") -> dict[tuple[str, str], float | None]:
    return {(row.scope, row.event): row.ratio for row in data.rows if row.basis == basis}


def test_the_workload_and_the_machine_are_compared_each_with_itself(analyse: Analyse) -> None:
    data = analyse(
        runs_of({"context-switches": 1100}, {"context-switches": 1000}),
        runs_of({"context-switches": 9900}, {"context-switches": 1000}),
    )
    assert ratios(data) == {
        ("workload", "context-switches"): pytest.approx(1.0),
        ("machine", "context-switches"): pytest.approx(9.0, rel=0.01),
    }
    changed = {row.scope: row.changed for row in data.rows if row.basis == "operation"}
    assert changed == {"workload": False, "machine": True}
    assert [(side.workload_runs, side.no_workload) for side in data.sides] == [(5, None)] * 2


def test_a_load_beside_the_workload_is_no_finding(analyse: Analyse) -> None:
    data = analyse(
        runs_of({"context-switches": 1100}, {"context-switches": 1000}),
        runs_of({"context-switches": 9900}, {"context-switches": 1000}),
    )
    assert [*counter_changes(data)] == []


def test_a_finding_is_about_the_workload_though_the_machine_changed_more(
    analyse: Analyse,
) -> None:
    data = analyse(
        runs_of({"context-switches": 1100}, {"context-switches": 1000}),
        runs_of({"context-switches": 9900}, {"context-switches": 2000}),
    )
    [found] = counter_changes(data)
    assert found.bearing == "reason"
    assert "context-switches of the workload's tasks per " in found.clause
    assert found.value == pytest.approx(100.0, rel=0.01)
    [section] = found.evidence
    [row] = [row for row in data.rows if f"counters#{row.row}" == section]
    assert row.scope == "workload"


@pytest.mark.parametrize("workload", [None, {"page-faults": 7}])
def test_where_only_the_machine_was_counted_it_is_named_and_an_effect(
    analyse: Analyse, workload: Counts | None
) -> None:
    data = analyse(
        runs_of({"context-switches": 1100}, workload),
        runs_of({"context-switches": 9900}, workload),
    )
    [found] = counter_changes(data)
    assert found.clause.startswith("whole machine: context-switches per ")
    assert found.bearing == "effect"


def test_clocks_and_cycles_restate_the_cpu_time(analyse: Analyse) -> None:
    names = ("cpu-clock", "task-clock", "cycles", "branches", "sched:sched_switch")
    base, new = (dict.fromkeys(names, value) for value in (1000, 3000))
    data = analyse(runs_of(base, base), runs_of(new, new))
    assert [*counter_changes(data)] == []
    # The clock of tasks is their CPU time; that of CPUs is the duration.
    clocks = {key for key in ratios(data) if key[1].endswith("clock")}
    assert clocks == {("workload", "cpu-clock"), ("workload", "task-clock")}


def test_hardware_events_of_hybrid_machines_have_shares_for_the_workload(
    analyse: Analyse,
) -> None:
    def counts(core: float, atom: float) -> dict[str, float]:
        return {
            "cpu_core/instructions/": core, "cpu_atom/instructions/": atom,
            "cpu_core/cycles/": core, "cpu_atom/cycles/": atom,
        }  # fmt: skip

    data = analyse(
        runs_of(counts(7000, 7000), counts(3000, 1000)),
        runs_of(counts(7000, 7000), counts(3000, 3000)),
    )
    shares = {
        row.event: (row.base, row.new)
        for row in data.rows
        if (row.scope, row.basis) == ("workload", "share")
    }
    assert shares["cpu_core/cycles/"] == pytest.approx((0.75, 0.5), rel=0.01)
    [found] = counter_changes(data)
    assert "cpu_atom/instructions/ of the workload's tasks per " in found.clause


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (None, "recorded by an earlier version"),
        ({"not_counted": {}, "workload": None, "no_workload": "perf hung"}, "perf hung"),
    ],
)
def test_a_side_without_the_workload_is_compared_as_a_machine(
    analyse: Analyse, facts: object, reason: str
) -> None:
    data = analyse(
        runs_of({"context-switches": 1100}, {"context-switches": 1000}),
        runs_of({"context-switches": 9900}, None, facts),
    )
    assert {row.scope for row in data.rows} == {"machine"}
    assert [(side.workload_runs, side.no_workload) for side in data.sides] == [
        (5, None), (0, reason),
    ]  # fmt: skip
    # One reason for all events, not one for each.
    assert data.not_counted == ()


def test_events_that_perf_did_not_count_for_the_workload_are_named(analyse: Analyse) -> None:
    facts = {
        "not_counted": {},
        "workload": {"not_counted": {"cycles": "not supported by perf on this machine"}},
    }
    own: Counts = {"context-switches": 1000, "instructions": "<not counted>"}
    runs = runs_of({"context-switches": 1100}, own, facts)
    data = analyse(runs, runs)
    assert {(each.scope, each.event, each.reason) for each in data.not_counted} == {
        ("workload", "cycles", "not supported by perf on this machine"),
        ("workload", "instructions", "perf reports <not counted>"),
    }


def test_an_event_of_the_workload_on_one_side_only_is_named(analyse: Analyse) -> None:
    machine = {"context-switches": 1100}
    data = analyse(
        runs_of(machine, {"context-switches": 1000}),
        runs_of(machine, {"context-switches": 1000, "cycles": 10**9}),
    )
    assert data.not_counted == (
        NotCounted(
            side="base", scope="workload", event="cycles",
            reason="the event was counted on one side only (new)",
        ),
    )  # fmt: skip


def test_counts_of_zero_are_named_for_the_workload_and_for_the_machine(analyse: Analyse) -> None:
    def zero(machine: float) -> list[Run]:
        files = {
            "perf_stat/perf_stat.csv": csv({"cpu-migrations": machine, "page-faults": 0}),
            "perf_stat/workload.csv": csv({"cpu-migrations": 0, "page-faults": 0}),
        }
        return [{"kind": "instrumented", "time_s": 1.99, "files": files}] * 2

    data = analyse(zero(3), zero(3))
    assert (data.workload_zeros, data.zeros) == (
        ("cpu-migrations", "page-faults"),
        ("page-faults",),
    )


@pytest.mark.parametrize("text", ["1,2\n", "x,,context-switches,1000,100.00,,\n"])
def test_a_damaged_line_of_the_workload_is_a_note(analyse: Analyse, text: str) -> None:
    runs: Sequence[Run] = runs_of({"context-switches": 1100}, {})
    runs[0]["files"]["perf_stat/workload.csv"] = text
    data = analyse(runs, runs_of({"context-switches": 1100}, {}))
    assert any("perf_stat/workload.csv:1: " in note for note in data.notes)
    assert {row.scope for row in data.rows} == {"machine"}
