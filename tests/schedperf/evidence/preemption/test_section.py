# SPDX-License-Identifier: GPL-2.0-or-later
"""Preemptions of two sides: by place, function and preemptor, with a finding."""

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.preemption.capture import parse_preemption
from schedperf.evidence.preemption.findings import preemption as find_preemption
from schedperf.evidence.preemption.record import Preemption, PreemptionRow
from schedperf.evidence.preemption.section import analyse_sides
from tests.stack_documents import Json, preemption_document, side_of

STEPS = (0, 2, -1, 1, -2)


def runs(held_us: int, **changed: object) -> list[Json]:
    return [preemption_document(held_us, step, **changed) for step in STEPS]


def compare(base: list[Json], new: list[Json]) -> Preemption:
    sides = [side_of("base", base, parse_preemption), side_of("new", new, parse_preemption)]
    return analyse_sides(sides, [250, 1000])


def rows_of(record: Preemption, **wanted: object) -> list[PreemptionRow]:
    return [
        row
        for row in record.rows
        if all(getattr(row, name) == value for name, value in wanted.items())
    ]


def test_the_function_is_that_of_the_program_with_the_place_in_the_kernel() -> None:
    record = compare(runs(100), runs(300))
    [row] = rows_of(record, function="LWLockAcquire", field="wait", basis="operation")
    assert (row.place, row.program) == ("kernel: page fault", "postgres")
    assert row.kernel_function == "clear_page_erms"
    assert row.ratio == pytest.approx(3.0, rel=0.03)
    assert row.changed
    [lock] = rows_of(record, function="s_lock", field="wait", basis="operation")
    assert (lock.place, lock.kernel_function, lock.changed) == ("user code", "", False)


def test_functions_of_the_c_library_are_those_that_call_it() -> None:
    record = compare(runs(100), runs(100))
    assert rows_of(record, function="pq_flush", place="after a system call")
    assert not rows_of(record, function="write")


def test_a_yield_is_a_place_of_its_own() -> None:
    [row] = rows_of(compare(runs(9), runs(9)), place="yield", field="preemptions", basis="time")
    assert row.base == pytest.approx(2.5)


def test_workers_of_one_kind_are_one_preemptor() -> None:
    record = compare(runs(9), runs(9))
    assert {row.preemptor for row in rows_of(record, by="preemptor")} == {"postgres", "kworker"}


def test_places_add_up_to_all() -> None:
    record = compare(runs(100), runs(300))
    [whole] = rows_of(record, by="all", field="wait", basis="time")
    places = rows_of(record, by="place", field="wait", basis="time")
    for run, value in enumerate(whole.values_new):
        assert sum(row.values_new[run] for row in places) == pytest.approx(value)


def test_the_slice_that_was_left_is_a_mean_and_may_be_unknown() -> None:
    [row] = rows_of(compare(runs(9), runs(9)), by="all", field="slice left")
    assert row.base == pytest.approx(500e-6)
    unknown = [
        {**each, "rows": [{**row, "slice_left_ns": None} for row in each["rows"]]}
        for each in runs(9)
    ]
    assert not rows_of(compare(unknown, unknown), field="slice left")


def test_sides_state_preemption_model_and_ticks() -> None:
    record = compare(runs(9), runs(9, model="lazy"))
    assert [(side.model, side.hz) for side in record.sides] == [("full", 250), ("lazy", 1000)]
    assert compare(runs(9, model=None), runs(9)).sides[0].model is None


def test_the_finding_names_function_and_fault() -> None:
    [found] = find_preemption(compare(runs(100), runs(300)))
    assert found.clause.startswith(
        "wait after preemption in LWLockAcquire of postgres in clear_page_erms() "
        "(kernel: page fault): "
    )
    assert found.details == "; number of preemptions +0.0%, not significant"
    assert found.value == pytest.approx(200, rel=0.03)


def test_without_a_user_stack_the_place_is_reported() -> None:
    def without_user(documents: list[Json]) -> list[Json]:
        return [
            {**each, "rows": [{**row, "user": None} for row in each["rows"]]} for each in documents
        ]

    [found] = find_preemption(compare(without_user(runs(100)), without_user(runs(300))))
    assert "wait after preemption (kernel: page fault): " in found.clause


def test_equal_sides_have_no_finding() -> None:
    assert not list(find_preemption(compare(runs(10), runs(10))))


def test_no_preemptions_are_absent() -> None:
    with pytest.raises(Absent, match="no task of the workload was preempted"):
        compare(runs(9, rows=[]), runs(9, rows=[]))
