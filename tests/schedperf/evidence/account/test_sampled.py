# SPDX-License-Identifier: GPL-2.0-or-later
"""Sampled waiting time is a lower bound, and its change is one only beyond what was not seen."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from schedperf.evidence.account.findings import account_changes, sampled_waiting
from schedperf.evidence.account.record import Account, SampledWaiting
from schedperf.evidence.account.sampled import (
    LARGEST_BYTES,
    LEAST_COVERAGE,
    exceeds_coverage,
    parse_samples,
)
from schedperf.model.errors import BundleError
from schedperf_collectors.task_times import SCHEMA
from tests.schedperf.evidence.account.conftest import Analyse, Run, run_of

# hackbench of the bundles of tests.
MESSAGES = 4 * 20 * 20 * 100
CLEAN = [run_of(waiting=None)] * 3
BASE = (3.0, 3.1, 2.9, 3.05, 2.95)
NEW = (5.0, 5.1, 4.9, 5.05, 4.95)


def write_samples(**changes: Any) -> str:
    """Return task_times.json: of 1 s of CPU time, 0.9 s were seen."""
    samples = {"schema": SCHEMA, "looks": 9, "tasks": 41, "exec_s": 0.9, "waiting_s": 3.0}
    return json.dumps({**samples, **changes})


def sampled_runs(values: Sequence[float], coverage: float = 0.9, **others: Any) -> list[Run]:
    """Return instrumented runs with 1 s of CPU time."""
    return [
        {
            **run_of(waiting=None, kind="instrumented", **others),
            "files": {"task_times/task_times.json": write_samples(waiting_s=each, exec_s=coverage)},
        }
        for each in values
    ]


def only_row(data: Account) -> SampledWaiting:
    [row] = data.sampled
    return row


def test_the_file_of_the_collector_is_read() -> None:
    file = parse_samples(write_samples(new_field=1).encode(), "run")
    assert (file.looks, file.tasks, file.exec_s, file.waiting_s) == (9, 41, 0.9, 3.0)
    assert len(write_samples()) < LARGEST_BYTES


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"schema": "schedperf/task_times/2"}, r"\$\.schema is "),
        ({"looks": -1}, r"\$\.looks is -1"),
        ({"tasks": 1.5}, r"\$\.tasks is 1.5"),
        ({"tasks": 2**63}, r"number too large"),
        ({"exec_s": -0.1}, r"\$\.exec_s is -0.1"),
        ({"waiting_s": 1e13}, r"\$\.waiting_s is 10000000000000.0"),
        ({"waiting_s": None}, r"\$\.waiting_s is null"),
        ({"waiting_s": float("nan")}, r"invalid number NaN"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(BundleError, match=problem) as caught:
        parse_samples(write_samples(**changes).encode(), "run")
    assert str(caught.value).startswith("run: ")
    assert len(str(caught.value).splitlines()) == 1


def test_every_truncation_is_refused() -> None:
    content = write_samples().encode()
    for end in range(len(content)):
        with pytest.raises(BundleError, match="^run: "):
            parse_samples(content[:end], "run")


def test_samples_of_instrumented_runs_stand_beside_the_clean_runs(analyse: Analyse) -> None:
    data = analyse([*CLEAN, *sampled_runs(BASE)], [*CLEAN, *sampled_runs(NEW, 0.95)])
    assert {(side.kind, side.runs) for side in data.sides} == {("clean", 3)}
    [point] = data.points
    assert point.missing == ("waiting", "blocked")
    assert "waiting" not in {row.kind for row in data.rows}
    row = only_row(data)
    assert (row.basis, row.unit, row.n_base, row.n_new) == ("operation", "s/message", 5, 5)
    assert row.values_base == pytest.approx([each / MESSAGES for each in BASE])
    assert (row.coverage_base, row.coverage_new) == pytest.approx((0.9, 0.95))
    assert row.changed is True
    assert data.notes == ()
    assert not [*account_changes(data)]
    [found] = sampled_waiting(data)
    assert found.evidence == (f"account#{row.row}",)
    assert "waited for a CPU per message at least 18.7" in found.clause
    assert "instrumented runs, coverage 90% -> 95%" in found.change
    assert len({each.row for each in (*data.rows, *data.sampled)}) == len(data.rows) + 1


def test_where_waiting_was_measured_samples_are_not_used(analyse: Analyse) -> None:
    measured = [run_of()] * 3
    data = analyse([*measured, *sampled_runs(BASE)], [*measured, *sampled_runs(NEW)])
    assert data.points[0].missing == ()
    assert data.sampled == ()
    # Nor are damaged ones a problem then.
    damaged = sampled_runs(NEW)
    damaged[0]["files"] = {"task_times/task_times.json": "{"}
    assert analyse([*measured, *sampled_runs(BASE)], [*measured, *damaged]).notes == ()


def test_a_side_without_samples_is_not_compared(analyse: Analyse) -> None:
    for sides in (
        ([*CLEAN, *sampled_runs(BASE)], CLEAN),
        (CLEAN, [*CLEAN, *sampled_runs(NEW)]),
        (CLEAN, CLEAN),
    ):
        data = analyse(*sides)
        assert (data.sampled, data.notes) == ((), ())


def test_runs_without_seen_tasks_are_not_0(analyse: Analyse) -> None:
    sides = [*CLEAN, *sampled_runs(BASE)], [*CLEAN, *sampled_runs([0.0] * 5, 0.0)]
    assert analyse(*sides).sampled == ()
    # Of a run that was over before the first look, no waiting is known: at least 0.
    some = sampled_runs([0.0], 0.0) + sampled_runs(NEW[1:])
    row = only_row(analyse([*CLEAN, *sampled_runs(BASE)], [*CLEAN, *some]))
    assert row.values_new[0] == 0.0
    assert row.coverage_new == pytest.approx(0.72)
    assert row.changed is not True


def test_a_resource_usage_of_0_has_no_coverage(analyse: Analyse) -> None:
    nothing = sampled_runs(NEW, user=0.0, system=0.0)
    assert analyse([*CLEAN, *sampled_runs(BASE)], [*CLEAN, *nothing]).sampled == ()


def test_a_damaged_file_is_a_note(analyse: Analyse) -> None:
    new = sampled_runs(NEW)
    new[0]["files"] = {"task_times/task_times.json": "{"}
    data = analyse([*CLEAN, *sampled_runs(BASE)], [*CLEAN, *new])
    [note] = data.notes
    assert note.startswith("new: ")
    assert "task_times.json: invalid JSON" in note
    assert only_row(data).n_new == 4


def test_each_point_and_side_has_its_bounds(analyse: Analyse) -> None:
    def sweep(values: Sequence[float]) -> list[Run]:
        return [
            run
            for groups in ("4", "16")
            for each in ([run_of(waiting=None)] * 2, sampled_runs(values))
            for run in ({**single, "point": {"groups": groups}} for single in each)
        ]

    data = analyse(sweep(BASE), sweep(BASE[::-1]), sweep(NEW))
    assert [(row.side, row.point) for row in data.sampled] == [
        ("new", "groups=4"), ("new", "groups=16"), ("new2", "groups=4"), ("new2", "groups=16"),
    ]  # fmt: skip
    assert len({row.row for row in data.sampled}) == 4
    assert [found.side for found in sampled_waiting(data)] == ["new2", "new2"]


@pytest.mark.parametrize(
    ("base", "new", "changed"),
    [
        (0.9, 0.9, True),
        # Of base, less was seen: its tasks may have waited as long as those of new.
        (0.55, 0.95, False),
        (LEAST_COVERAGE, LEAST_COVERAGE, True),
        (0.9, LEAST_COVERAGE - 0.01, False),
        (LEAST_COVERAGE - 0.01, 0.9, False),
        # The clocks of both times differ.
        (1.01, 1.02, True),
    ],
)
def test_a_change_is_one_if_what_was_not_seen_cannot_explain_it(
    analyse: Analyse, *, base: float, new: float, changed: bool
) -> None:
    data = analyse([*CLEAN, *sampled_runs(BASE, base)], [*CLEAN, *sampled_runs(NEW, new)])
    row = only_row(data)
    assert row.changed is changed
    # The numbers are there.
    assert row.ratio == pytest.approx(5.0 / 3.0, rel=0.01)
    assert len([*sampled_waiting(data)]) == changed


def test_the_same_waiting_of_which_a_different_part_was_seen_did_not_change() -> None:
    # Of 10 s, base saw 8 s and new all, in narrow intervals.
    assert not exceeds_coverage(1.249, 1.25, base=0.8, new=1.0)
    assert exceeds_coverage(1.251, 1.252, base=0.8, new=1.0)
    assert not exceeds_coverage(0.8, 0.801, base=1.0, new=0.8)
    assert exceeds_coverage(0.798, 0.799, base=1.0, new=0.8)
    assert not exceeds_coverage(0.9, 1.1, base=1.0, new=1.0)


def test_one_run_per_side_shows_bounds_without_a_change(analyse: Analyse) -> None:
    data = analyse([*CLEAN, *sampled_runs(BASE[:1])], [*CLEAN, *sampled_runs(NEW[:1])])
    row = only_row(data)
    assert (row.n_base, row.n_new, row.changed) == (1, 1, None)
    assert not [*sampled_waiting(data)]
