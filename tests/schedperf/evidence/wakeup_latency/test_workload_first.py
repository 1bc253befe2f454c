# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands of the workload come first, however often others wake up and whatever they change by."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from schedperf.evidence.account.capture import commands_of_tasks
from schedperf.evidence.wakeup_latency.findings import wakeup_latency as findings_of
from schedperf.evidence.wakeup_latency.record import WakeupLatency
from schedperf.evidence.wakeup_latency.section import wakeup_latency
from schedperf.evidence.wakeup_latency.subjects import MOST_COMMANDS
from tests.schedperf.evidence.account.conftest import write_account
from tests.schedperf.evidence.wakeup_latency.conftest import US, Json, waits_row, with_tail

Analyse = Callable[..., WakeupLatency]

STEPS = (0, 2, -1, 1, -2)
BACKGROUND = tuple(f"daemon-{number}" for number in range(MOST_COMMANDS + 2))


@pytest.fixture
def analyse(analyse_with: Callable[..., Any]) -> Analyse:
    analysed: Analyse = analyse_with(lambda sides: wakeup_latency(sides, commands_of_tasks))
    return analysed


def runs_of(
    tail_us: int,
    background_us: int,
    *,
    tasks: Sequence[str] | None = None,
    command: Sequence[str] = ("hackbench",),
) -> list[Json]:
    """Return runs in which other commands wake up more often than hackbench.

    :param tasks: names of the workload's tasks in account.json; None without that file
    """
    runs = []
    for step in STEPS:
        document = with_tail(tail_us, step)
        document["rows"] += [
            waits_row(name, 0, {(background_us + step) * US: 9000}) for name in BACKGROUND
        ]
        files = {"wakeup_latency/wakeups.json": json.dumps(document)}
        if tasks is not None:
            files["account/account.json"] = write_account(commands=tasks)
        runs.append({"kind": "instrumented", "files": files, "command": list(command)})
    return runs


def commands_of(data: WakeupLatency) -> list[str]:
    return [*dict.fromkeys(row.command for row in data.rows if row.node is None)]


@pytest.mark.parametrize(
    "known",
    [
        {"tasks": ["hackbench"], "command": ["sh", "-c", "$WORKLOAD"]},
        {"command": ["hackbench", "-g", "2"]},
        {"command": ["sh", "-c", "exec /usr/bin/hackbench -g 2"]},
    ],
    ids=["names of tasks", "command line", "shell"],
)
def test_the_workload_has_rows_beside_busier_commands(
    analyse: Analyse, known: dict[str, Any]
) -> None:
    data = analyse(runs_of(200, 50, **known), runs_of(900, 50, **known))
    assert commands_of(data)[:2] == ["", "hackbench"]
    assert len(commands_of(data)) == 1 + MOST_COMMANDS
    assert {row.command for row in data.rows if row.of_workload} == {"hackbench"}
    assert data.distributions[0].command == "hackbench"


def test_without_any_command_of_the_workload_the_most_frequent_come_first(
    analyse: Analyse,
) -> None:
    runs = runs_of(200, 50, tasks=["sleep"])
    data = analyse(runs, runs)
    assert commands_of(data) == ["", *BACKGROUND[:MOST_COMMANDS]]
    assert not any(row.of_workload for row in data.rows)


def test_a_larger_change_of_others_is_an_effect(analyse: Analyse) -> None:
    known = {"tasks": ["hackbench"]}
    data = analyse(runs_of(200, 50, **known), runs_of(900, 5000, **known))
    first, *others = findings_of(data)
    assert first.metric == "wakeup latency p99 of hackbench"
    assert first.bearing == "reason"
    assert others
    assert all(other.bearing == "effect" for other in others)


def test_if_the_workload_is_not_known_every_command_is_a_reason(analyse: Analyse) -> None:
    known = {"tasks": ["sleep"]}
    data = analyse(runs_of(200, 50, **known), runs_of(200, 5000, **known))
    assert {found.bearing for found in findings_of(data)} == {"reason"}
