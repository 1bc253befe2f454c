# SPDX-License-Identifier: GPL-2.0-or-later
"""Blocked times of two sides: by cause, function, waker and stack, with a finding."""

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.blocking.capture import parse_blocking
from schedperf.evidence.blocking.findings import blocking as find_blocking
from schedperf.evidence.blocking.findings import lost
from schedperf.evidence.blocking.record import Blocking, BlockingRow
from schedperf.evidence.blocking.section import analyse_sides
from schedperf.model.probes import ProbeCost
from tests.stack_documents import Json, blocking_document, side_of

STEPS = (0, 2, -1, 1, -2)


def runs(pipe_us: int, **changed: object) -> list[Json]:
    return [blocking_document(pipe_us, step, **changed) for step in STEPS]


def compare(base: list[Json], new: list[Json]) -> Blocking:
    sides = [side_of("base", base, parse_blocking), side_of("new", new, parse_blocking)]
    return analyse_sides(sides)


def rows_of(record: Blocking, **wanted: object) -> list[BlockingRow]:
    return [
        row
        for row in record.rows
        if all(getattr(row, name) == value for name, value in wanted.items())
    ]


def test_blocked_time_ends_with_the_wakeup() -> None:
    record = compare(runs(110), runs(310))
    [blocked] = rows_of(record, by="cause", cause="pipe", field="blocked", basis="operation")
    [runnable] = rows_of(record, by="cause", cause="pipe", field="runnable", basis="operation")
    assert blocked.base == pytest.approx(60 * 100e-6 / 1000, rel=0.02)
    assert blocked.ratio == pytest.approx(3.0, rel=0.02)
    assert (blocked.changed, runnable.changed) == (True, False)
    assert runnable.base == pytest.approx(60 * 10e-6 / 1000, rel=0.02)


def test_the_function_is_outside_of_the_c_library_if_the_stack_has_one() -> None:
    record = compare(runs(100), runs(100))
    functions = {(row.cause, row.function) for row in rows_of(record, by="function")}
    assert functions == {
        ("pipe", "read_all"),
        ("futex", "__futex_abstimed_wait_common"),
        ("page fault: I/O", "unknown function"),
    }


def test_an_unknown_waker_has_a_row_of_its_own() -> None:
    record = compare(runs(100), runs(100))
    wakers = {row.waker for row in rows_of(record, by="waker")}
    assert wakers == {"writer", "postgres", "(unknown)"}


def test_a_stack_has_the_functions_of_the_kernel_before_those_of_the_program() -> None:
    [row] = rows_of(
        compare(runs(100), runs(100)), by="stack", cause="pipe", field="blocked", basis="time"
    )
    assert row.stack == (
        "anon_pipe_read", "vfs_read", "do_syscall_64", "entry_SYSCALL_64_after_hwframe", "read",
        "read_all", "main",
    )  # fmt: skip


def test_notes_state_what_stacks_lack_and_what_was_too_short() -> None:
    notes = compare(runs(100), runs(100)).notes
    assert [note.partition(" (")[0] for note in notes[:3]] == [
        "base: user stacks that end in the C library after 2 frames: 150 of 470",
        "base: user stacks whose function is unknown: 20 of 470",
        "base: pauses shorter than 1 us, without stacks: 35",
    ]


def test_files_without_symbols_are_named_and_code_without_a_file_is_counted() -> None:
    document = blocking_document(100)
    fault = document["rows"][-1]
    document["stacks"].append([len(document["frames"])])
    document["frames"].append([None, None])
    document["rows"].append({**fault, "user": len(document["stacks"]) - 1, "call": 7})
    note, _ = [note for note in compare([document], [document]).notes if "is unknown" in note]
    assert note == (
        "base: user stacks whose function is unknown: 8 of 98 (without symbols: postgres 4; "
        "generated code without a map in /tmp, or a file that was not found: 4)"
    )


def test_the_cost_of_a_probe_is_its_mean_over_all_runs() -> None:
    costs = [
        {"sched_switch": {"calls": calls, "ns": ns}}
        for calls, ns in ((100, 150_000), (300, 250_000))
    ]
    record = compare([blocking_document(100, costs=each) for each in costs], runs(100, costs={}))
    assert record.sides[0].probes == (
        ProbeCost(program="sched_switch", calls=400, mean_s=pytest.approx(1e-6)),  # type: ignore[arg-type]
    )
    # The other side was recorded by an earlier version.
    assert record.sides[1].probes == ()


def test_many_lost_events_are_a_caveat_and_few_are_not() -> None:
    full = {"pauses for which the maps had no room": 12}
    record = compare(
        runs(100, lost=full), runs(100, lost={"kernel stacks that were not stored": 0})
    )
    [found] = lost(record)
    assert found.text == (
        "bpf_blocking lost 60 of 530 events of base, because its maps were full or the kernel "
        "skipped calls, so times or stacks are missing"
    )
    few = [blocking_document(100, step, lost=full if step > 1 else {}) for step in STEPS]
    few[1]["lost"] = {"user stacks that were not stored": 1}
    assert not list(lost(compare(runs(100), few)))


def test_the_finding_names_function_cause_and_waker() -> None:
    [found] = find_blocking(compare(runs(110), runs(310)))
    assert found.clause.startswith("blocked on pipe in read_all of postgres: ")
    assert found.details == "; largest change by waker: writer +200%"
    assert found.better == "lower"


def test_equal_sides_have_no_finding() -> None:
    assert not list(find_blocking(compare(runs(100), runs(100))))


def test_no_blocked_time_is_absent() -> None:
    with pytest.raises(Absent, match="no task of the workload was blocked"):
        compare(runs(9, rows=[]), runs(9, rows=[]))
