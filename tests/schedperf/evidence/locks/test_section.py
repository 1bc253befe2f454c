# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits for locks of two sides: by lock, node and stack, per operation, with a finding."""

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.locks.capture import parse_locks
from schedperf.evidence.locks.findings import locks as find_locks
from schedperf.evidence.locks.record import LockRow, Locks
from schedperf.evidence.locks.section import analyse_sides
from tests.stack_documents import Json, locks_document, side_of

STEPS = (0, 2, -1, 1, -2)


def runs(mutex_us: int) -> list[Json]:
    return [locks_document(mutex_us, step) for step in STEPS]


def compare(base: list[Json], new: list[Json]) -> Locks:
    return analyse_sides([side_of("base", base, parse_locks), side_of("new", new, parse_locks)])


def rows_of(record: Locks, **wanted: object) -> list[LockRow]:
    return [
        row
        for row in record.rows
        if all(getattr(row, name) == value for name, value in wanted.items())
    ]


def test_waits_are_compared_per_operation_and_per_second() -> None:
    record = compare(runs(10), runs(30))
    [row] = rows_of(
        record, lock="fdget_pos", field="wait time", basis="operation", node=None, is_whole=True
    )
    assert row.base == pytest.approx(1e-6, rel=0.02)
    assert row.ratio == pytest.approx(3.0, rel=0.02)
    assert row.changed
    assert (row.unit, row.named_by, row.type) == ("s/message", "caller", "mutex")
    [count] = rows_of(
        record, lock="fdget_pos", field="waits", basis="time", node=None, is_whole=True
    )
    assert count.base == pytest.approx(50.0, rel=0.02)
    assert not count.changed


def test_the_sum_of_all_locks_is_that_of_the_document() -> None:
    record = compare(runs(10), runs(10))
    [row] = rows_of(record, lock="", field="waits", basis="time", node=None)
    assert row.base == pytest.approx(200 / 2.0, rel=0.01)
    assert row.type is None


def test_nodes_have_rows_if_there_are_several() -> None:
    record = compare(runs(10), runs(10))
    assert {row.node for row in rows_of(record, lock="")} == {None, 0, 1}
    # Nobody waits for it on node 0.
    assert {row.node for row in rows_of(record, lock="mmap_lock")} == {None, 1}
    one = [{**each, "rows": [{**row, "node": 0} for row in each["rows"]]} for each in runs(10)]
    assert {row.node for row in compare(one, one).rows} == {None}


def test_a_lock_that_one_side_never_waited_for_has_the_value_0() -> None:
    without = [{**each, "rows": each["rows"][1:]} for each in runs(10)]
    record = compare(without, runs(10))
    [row] = rows_of(
        record, lock="fdget_pos", field="wait time", basis="operation", node=None, is_whole=True
    )
    assert (row.base, row.ratio, row.changed) == (0.0, None, True)
    assert [found.value for found in find_locks(record)] == [None]


def test_a_percentile_is_interpolated_in_its_bin() -> None:
    record = compare(runs(10), runs(10))
    [row] = rows_of(record, lock="fdget_pos", field="p99", node=None)
    assert row.base == pytest.approx(10e-6, rel=1 / 8)


def test_the_finding_names_the_lock_and_the_functions_that_wait() -> None:
    [found] = find_locks(compare(runs(10), runs(30)))
    assert found.clause.startswith("waits for a mutex in fdget_pos(): 0.9998 us -> 3 us per ")
    assert found.details.startswith("; most of it below ksys_read < do_syscall_64")
    assert found.details.endswith("; the largest part until reader released it in ksys_read()")
    assert found.better == "lower"
    assert found.value == pytest.approx(200, rel=0.02)


def test_the_waits_until_an_owner_have_rows() -> None:
    [row] = rows_of(
        compare(runs(10), runs(30)), released_in="ksys_read", field="wait time", basis="operation"
    )
    assert (row.lock, row.owner, row.functions, row.is_whole) == ("fdget_pos", "reader", (), False)
    assert row.ratio == pytest.approx(3.0, rel=0.02)
    # A spinlock is released without a wakeup.
    assert {each.lock for each in compare(runs(10), runs(10)).rows if each.released_in} == {
        "fdget_pos"
    }


def test_equal_sides_have_no_finding() -> None:
    assert not list(find_locks(compare(runs(10), runs(10))))


def test_a_single_side_is_described() -> None:
    record = analyse_sides([side_of("base", runs(10), parse_locks)])
    assert {row.new for row in record.rows} == {None}
    assert record.sides[0].waits == 1000


def test_no_waits_at_all_are_absent() -> None:
    none = [{**each, "rows": []} for each in runs(10)]
    with pytest.raises(Absent, match="no task of the workload waited"):
        compare(none, none)


def test_losses_are_stated_once_per_side() -> None:
    lost = [{**each, "lost": {"waits for which the maps had no room": 2}} for each in runs(10)]
    record = compare(runs(10), lost)
    assert record.notes == ("new: events lost: 10 (waits for which the maps had no room)",)
