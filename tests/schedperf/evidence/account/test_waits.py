# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting and blocked time are divided by reason, in the runs in which BPF followed the tasks."""

from math import fsum
from statistics import fmean, geometric_mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.account.record import Account, DividedRow, SubPartChange
from schedperf.evidence.account.waits import PARTS, parse_waits
from schedperf.model.errors import BundleError
from tests.schedperf.evidence.account.conftest import (
    EVENTS,
    Analyse,
    Run,
    divided_run,
    divided_runs,
    run_of,
    write_waits,
)

MESSAGES = 4 * 20 * 20 * 100
BASE = (2.0, 2.1, 1.9)
NEW = (6.0, 6.1, 5.9)


def part_of(data: Account, name: str) -> SubPartChange:
    [point] = data.divided
    return next(change for change in point.parts if change.part == name)


def row_of(data: Account, kind: str) -> DividedRow:
    [row] = [row for row in data.divided_rows if row.kind == kind]
    return row


def beside(*runs: Run) -> list[Run]:
    """Return these runs behind clean ones."""
    return [run_of(), run_of(), *runs]


def test_the_reasons_of_instrumented_runs_are_compared(analyse: Analyse) -> None:
    data = analyse(
        beside(*divided_runs("preempted", BASE)), beside(*divided_runs("preempted", NEW))
    )
    # The account itself is that of the clean runs.
    assert [side.kind for side in data.sides] == ["clean", "clean"]
    assert (data.points[0].n_base, data.points[0].n_new) == (2, 2)
    [point] = data.divided
    assert (point.n_base, point.n_new, point.replication) == (3, 3, "runs")
    assert (point.basis, point.unit, point.missing) == ("operation", "s/message", ())
    assert [change.part for change in point.parts] == list(PARTS)
    # 1 s on CPUs, 1 s woken, 1 s blocked.
    whole = fmean(BASE) + 3.0
    preempted = part_of(data, "preempted")
    assert preempted.base == pytest.approx(fmean(BASE) / MESSAGES)
    assert preempted.new == pytest.approx(fmean(NEW) / MESSAGES)
    assert preempted.contribution == pytest.approx(4.0 / whole)
    assert preempted.ci_low is not None
    assert preempted.ci_high is not None
    assert preempted.ci_low < preempted.contribution < preempted.ci_high
    assert part_of(data, "woken").contribution == 0.0
    row = row_of(data, "preempted")
    assert row.changed is True
    assert row.ratio == pytest.approx(geometric_mean(NEW) / geometric_mean(BASE))
    assert (row.unit, row_of(data, "migrations").unit) == ("s/message", "1/message")
    assert row_of(data, "migrations").base == pytest.approx(7 / MESSAGES)
    assert {row.row for row in data.divided_rows}.isdisjoint({row.row for row in data.rows})
    assert data.notes == ()


def test_one_instrumented_run_has_no_interval(analyse: Analyse) -> None:
    data = analyse(beside(divided_run()), beside(divided_run(preempted=3.0)))
    preempted = part_of(data, "preempted")
    assert preempted.contribution == pytest.approx(0.2)
    assert (preempted.ci_low, preempted.ci_high) == (None, None)
    assert row_of(data, "preempted").changed is None


def test_without_the_collector_nothing_is_divided(analyse: Analyse) -> None:
    data = analyse([run_of()] * 3, [run_of()] * 3)
    assert (data.divided, data.divided_rows, data.notes) == ((), (), ())


def test_a_side_without_the_collector_is_a_note(analyse: Analyse) -> None:
    data = analyse(beside(divided_run()), beside())
    assert (data.divided, data.divided_rows) == ((), ())
    assert data.notes == (
        "waits are not divided: no run of new was recorded with bpf_account",
    )  # fmt: skip


@pytest.mark.parametrize("side", [0, 1])
def test_what_a_kernel_does_not_show_is_missing(analyse: Analyse, side: int) -> None:
    sides = [beside(divided_run()), beside(divided_run())]
    sides[side] = beside(divided_run(throttled=None))
    data = analyse(*sides)
    [point] = data.divided
    assert point.missing == ("throttled",)
    assert [change.part for change in point.parts] == [
        "preempted", "woken", "yielded", "io", "other",
    ]  # fmt: skip
    assert "throttled" not in {row.kind for row in data.divided_rows}


@pytest.mark.parametrize("side", [0, 1])
def test_throttled_waits_of_one_kernel_are_preempted_if_the_other_cannot_tell(
    analyse: Analyse, side: int
) -> None:
    # The same waits: one kernel shows 4 s of them as throttled.
    told = beside(*(divided_run(preempted=1.0 + at, throttled=4.0) for at in (0.0, 0.1)))
    untold = beside(*(divided_run(preempted=5.0 + at, throttled=None) for at in (0.0, 0.1)))
    data = analyse(*((told, untold) if side else (untold, told)))
    assert part_of(data, "preempted").contribution == pytest.approx(0.0)
    assert row_of(data, "preempted").ratio == pytest.approx(1.0)
    assert any("are counted as preempted" in note for note in data.notes)
    assert not any("counted as preempted" in note for note in analyse(told, told).notes)


def test_a_fixed_amount_of_work_is_divided_per_run(analyse: Analyse) -> None:
    sides = [[{**run, "stdout": ""} for run in beside(divided_run())] for _ in range(2)]
    data = analyse(*sides, workload="make")
    assert data.divided[0].unit == "s/run"
    assert part_of(data, "preempted").base == pytest.approx(2.0)


def test_tasks_and_events_that_were_missed_are_notes(analyse: Analyse) -> None:
    new = [divided_run(left_out=2, missed=3), divided_run(unfinished=1, missed=6)]
    few = divided_runs("preempted", (2.0, 2.0), missed=6)
    data = analyse(beside(*few), beside(*new))
    events = 2 * EVENTS * len(PARTS)
    assert data.notes == (
        "new: of the tasks whose waits are divided: 2 tasks left out, for lack of memory",
        "new: of the tasks whose waits are divided: 1 task not ended, and the last wait left out",
    )
    data = analyse(beside(*few), beside(*divided_runs("preempted", (2.0, 2.0), missed=7)))
    assert data.notes == (
        f"new: BPF did not see all events of 14 of {events} waits, so their reasons may be wrong",
    )


def test_runs_that_did_nothing_are_no_point(analyse: Analyse) -> None:
    nothing = dict.fromkeys(PARTS, 0.0)
    idle = {**divided_run(**nothing), "rusage": None}
    idle["rusage"] = {**divided_run()["rusage"], "utime_s": 0.0, "stime_s": 0.0}
    data = analyse(beside(idle), beside(divided_run()))
    assert data.divided == ()
    assert data.divided_rows


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not JSON"),
        (write_waits(io=-1.0), "$.parts.io.seconds"),
        (write_waits(preempted=1e300), "$.parts.preempted.seconds"),
        (write_waits(tasks=-1), "$.tasks"),
        (write_waits(parts={}), "$.parts"),
        (write_waits(schema="schedperf/bpf_account/2"), "schema"),
    ],
)
def test_a_damaged_file_is_a_note(analyse: Analyse, content: str, problem: str) -> None:
    damaged = {**divided_run(), "files": {"bpf_account/waits.json": content}}
    data = analyse(beside(divided_run()), beside(damaged))
    assert data.divided == ()
    [note] = data.notes
    assert note.startswith("new: ")
    assert "waits.json" in note
    with pytest.raises(BundleError) as caught:
        parse_waits(content.encode(), "waits.json")
    assert len(str(caught.value).splitlines()) == 1
    assert problem in str(caught.value) or problem == "not JSON"


def test_waits_without_a_cpu_time_are_a_note(analyse: Analyse) -> None:
    new: Any = {**divided_run(), "rusage": None}
    data = analyse(beside(divided_run()), beside(new))
    assert data.divided == ()
    assert "run.json has no CPU time" in data.notes[0]


@given(st.dictionaries(st.sampled_from(PARTS), st.floats(0.0, 1e12), min_size=len(PARTS)))
def test_the_times_are_those_of_the_file(times: dict[str, float]) -> None:
    file = parse_waits(write_waits(**times).encode(), "waits.json")
    assert file.times == times
    assert fsum(file.times.values()) == pytest.approx(fsum(times.values()))
    assert file.events == EVENTS * len(PARTS)
