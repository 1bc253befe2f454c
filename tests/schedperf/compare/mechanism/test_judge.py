# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.compare.mechanism: known causes in two comparisons, and what is not measured in one."""

from collections.abc import Callable
from typing import Any

import pytest

from schedperf.compare.mechanism.judge import Source, compare_mechanisms
from schedperf.compare.mechanism.record import MechanismPair
from schedperf.model.comparison import Comparison
from schedperf.model.errors import InputError
from tests.account_records import account_row, divided_row, other_load
from tests.counted_rows import named_row
from tests.mechanisms import DOWN, STILL, UP, WIDE, measured, rows_of
from tests.reports.comparison_records import make_comparison, make_row


def compared(micro: Comparison, production: Comparison, **options: Any) -> MechanismPair:
    sources = (
        Source(file="micro.json", comparison=micro, **options),
        Source(file="production.json", comparison=production),
    )
    [pair] = compare_mechanisms(sources[0], sources[1:], "1.0").pairs
    return pair


def outcomes(pair: MechanismPair) -> dict[str, str]:
    return {row.name: row.outcome for row in pair.rows}


class TestTruth:
    def test_same_cause(self) -> None:
        micro = measured(rows_of(system=UP, waiting=UP, user=STILL))
        pair = compared(micro, measured(rows_of(system=UP, waiting=UP, user=STILL)))
        assert outcomes(pair) == {"system": "same", "waiting": "same", "user": "unchanged"}
        assert pair.sentence == "same in 2 of 2 mechanisms that changed in production"

    def test_another_cause_of_the_same_size(self) -> None:
        micro = measured(rows_of(system=UP, waiting=STILL))
        pair = compared(micro, measured(rows_of(system=STILL, waiting=UP)))
        assert outcomes(pair) == {"waiting": "only in production", "system": "only in micro"}
        assert pair.sentence == (
            "same in 0 of 1 mechanism that changed in production; only in production: "
            "account: waiting"
        )

    def test_partly_the_same_cause(self) -> None:
        micro = measured(rows_of(system=UP, waiting=STILL, user=UP))
        pair = compared(micro, measured(rows_of(system=UP, waiting=UP, user=DOWN, blocked=UP)))
        assert outcomes(pair) == {
            "system": "same",
            "user": "opposite",
            "waiting": "only in production",
            "blocked": "not measured in micro",
        }
        assert pair.sentence == (
            "same in 1 of 4 mechanisms that changed in production; opposite direction in micro: "
            "account: user; only in production: account: waiting; not measured in micro: "
            "account: blocked"
        )


def test_an_interval_that_includes_the_change_of_production_excludes_nothing() -> None:
    pair = compared(measured(rows_of(system=WIDE)), measured(rows_of(system=UP)))
    assert outcomes(pair) == {"system": "undecided"}
    unbounded = {**WIDE, "ratio": None, "ci_low": None, "ci_high": None}
    pair = compared(measured(rows_of(system=unbounded)), measured(rows_of(system=UP)))
    assert outcomes(pair) == {"system": "undecided"}


def test_changes_without_a_test_are_not_counted() -> None:
    untested = {**UP, "changed": None}
    pair = compared(measured(rows_of(system=UP)), measured(rows_of(system=untested)))
    assert pair.sentence == (
        "no mechanism changed significantly in production; 1 not tested in production"
    )
    pair = compared(measured(rows_of(system=untested)), measured(rows_of(system=UP)))
    assert outcomes(pair) == {"system": "not measured in micro"}


def test_sums_and_other_load() -> None:
    rows = rows_of(cpu=UP, user=UP)
    data: dict[str, Any] = {**other_load(0.1, 0.4), "divided_rows": (divided_row("preempted"),)}
    pair = compared(measured(rows), measured(rows, **data))
    assert outcomes(pair) == {
        "user": "same",
        "CPU time of other commands": "not measured in micro",
        "preempted": "not measured in micro",
    }


def test_the_denominator_is_one_that_both_have() -> None:
    by_run = {**UP, "basis": "share", "unit": "s/run"}
    both = [*rows_of(system=UP), account_row("system", **by_run)]
    pair = compared(measured([account_row("system", **by_run)]), measured(both))
    assert bases_of(pair) == [("share", "share")]
    assert bases_of(compared(measured(both), measured(both))) == [("operation", "operation")]


def test_a_change_per_run_of_fixed_work_is_one_per_operation() -> None:
    by_run = account_row("system", basis="share", unit="s/run")
    pair = compared(measured([by_run]), measured(rows_of(system=UP)))
    assert bases_of(pair) == [("operation", "share")]
    assert outcomes(pair) == {"system": "same"}
    by_time = account_row("system", basis="time", unit="s/s")
    pair = compared(measured([by_time]), measured(rows_of(system=UP)))
    assert outcomes(pair) == {"system": "not measured in micro"}


def bases_of(pair: MechanismPair) -> list[tuple[str, str]]:
    return [
        (row.production.basis, row.micro.basis)
        for row in pair.rows
        if row.production is not None and row.micro is not None
    ]


def test_words_of_a_row_of_any_evidence() -> None:
    assert named_row(name="forks", field="count").mechanism == "forks count"


class TestChoice:
    def test_unknown_points_and_sides(self) -> None:
        micro = measured(rows_of(system=UP))
        with pytest.raises(InputError, match=r"micro.json: no point 'g=1' \(expected one of hack"):
            compared(micro, micro, point="g=1")
        with pytest.raises(InputError, match=r"no new side 'new2' \(expected one of new\)"):
            compared(micro, micro, side="new2")
        with pytest.raises(InputError, match=r"micro.json: no results; compare recordings"):
            compared(make_comparison(rows=()), micro)

    def test_a_point_by_each_of_its_names(self) -> None:
        micro = measured(rows_of(system=UP))
        for name in ("groups=4", "hackbench -g {groups}", "hackbench -g {groups} at groups=4"):
            assert outcomes(compared(micro, micro, point=name)) == {"system": "same"}

    def test_without_a_deciding_result_the_smallest_p_counts(self) -> None:
        rows = (
            make_row(point="groups=4", workload="hackbench -g {groups}", p=0.2),
            make_row(point="groups=1", workload="hackbench -g {groups}", p=0.5),
        )
        micro = measured(rows_of(system=UP))
        open_result = make_comparison(rows=rows, sections=micro.sections)
        assert outcomes(compared(open_result, micro)) == {"system": "same"}


class TestRecorded:
    def test_deep_cgroups_and_other_load(
        self, compared_example: Callable[[str], Comparison]
    ) -> None:
        deep, load = compared_example("deep-cgroup"), compared_example("other-load")
        found = outcomes(compared(deep, load))
        assert found["CPU time of other commands"] == "only in production"
        assert found["system"] == "only in micro"
        assert found["waiting"] == "same"
        same = compared(deep, deep)
        assert {row.outcome for row in same.rows} <= {"same", "unchanged", "unknown"}

    def test_the_same_cause_on_another_machine(
        self, compared_example: Callable[[str], Comparison]
    ) -> None:
        pair = compared(compared_example("deep-cgroup"), compared_example("deep-cgroup-arm64"))
        found = {row.name: row for row in pair.rows}
        assert found["system"].outcome == "same"
        # The profile of the microbenchmark cannot sample code with interrupts off.
        assert found["update_cfs_group"].outcome == "not measured in micro"
        assert found["update_cfs_group"].within == "functions of the class PELT and group shares"
        back = compared(compared_example("deep-cgroup-arm64"), compared_example("deep-cgroup"))
        assert outcomes(back)["update_cfs_group"] == "only in micro"
