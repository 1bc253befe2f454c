"""Which readings of the scheduler's counts become findings, on bundles that are compared."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from schedperf.evidence.schedstat.findings import MOST_FINDINGS, scheduler_counts
from schedperf.model.comparison import Finding, Section

Find = Callable[..., list[Finding]]

READING: Mapping[str, Any] = {
    "rule": "newidle-pulls",
    "row": "new-0",
    "side": "new",
    "workload": "hackbench",
    "point": "groups=4",
    "level": "MC",
    "text": "newidle pulls at MC -91 % per message: look at sched_balance_newidle()",
    "meaning": "CPUs that run out of work take fewer tasks",
    "look_at": "sched_balance_newidle()",
}
ROW: Mapping[str, Any] = {
    "row": "new-0",
    "side": "new",
    "workload": "hackbench",
    "point": "groups=4",
    "level": "MC",
    "idle": "newidle",
    "field": "lb_gained",
    "basis": "operation",
    "unit": "1/message",
    "changed": True,
    "base": 0.1,
    "new": 0.009,
    "n_base": 5,
    "n_new": 4,
    "ratio": 0.09,
    "ci_low": 0.08,
    "ci_high": 0.1,
    "replication": "runs",
}


@pytest.fixture
def find() -> Find:
    """Return the findings of readings, each with a row of its own."""

    def run(
        *readings: Mapping[str, Any], others: Sequence[Mapping[str, Any]] = (), **row: Any
    ) -> list[Finding]:
        named = [{**one, "row": f"new-{number}"} for number, one in enumerate(readings)]
        rows = [{**ROW, "row": one["row"], "side": one["side"], **row} for one in named]
        section = Section(
            schema="schedperf/section/schedstat/1",
            status="ok",
            reason=None,
            data={"rows": [*rows, *others], "readings": named},
        )
        return list(scheduler_counts({"schedstat": section}))

    return run


def test_one_reading_stands_for_all_of_a_function(find: Find) -> None:
    other = {**READING, "look_at": "detach_tasks()", "point": ""}
    found = find(READING, {**READING, "point": "groups=16"}, other)
    assert [one.evidence for one in found] == [("schedstat#new-0",), ("schedstat#new-2",)]


def test_each_side_has_a_few_findings_of_its_own(find: Find) -> None:
    readings = [
        {**READING, "side": side, "look_at": f"function_{number}()"}
        for number in range(MOST_FINDINGS + 2)
        for side in ("new", "new2")
    ]
    found = find(*readings)
    assert [sum(one.side == side for one in found) for side in ("new", "new2")] == [4, 4]


def test_a_count_that_was_zero_has_neither_ratio_nor_interval(find: Find) -> None:
    [found] = find(READING, ratio=None, ci_low=None, ci_high=None)
    assert (found.value, found.ci) == (None, None)
    assert "interval" not in found.claim


@pytest.mark.parametrize(("ratio", "changed"), [(1.0, False), (0.9, False), (1.2, True)])
def test_what_comes_as_often_or_more_often_per_second_is_no_finding(
    ratio: float, find: Find, *, changed: bool
) -> None:
    rate = {**ROW, "row": "s", "basis": "time", "unit": "1/s", "ratio": ratio, "changed": changed}
    assert find(READING, others=[{**rate, "new": 0.1 * ratio}]) == []
    # A rate of another level says nothing of it.
    [found] = find(READING, others=[{**rate, "new": 0.1 * ratio, "level": "PKG"}])
    assert "per second" not in found.claim


def test_what_falls_per_second_too_says_both_rates(find: Find) -> None:
    rate = {**ROW, "row": "s", "basis": "time", "unit": "1/tick", "ratio": 0.1, "ci_high": 0.12}
    [found] = find(READING, others=[rate])
    assert "(95 % interval -92..-90 %, per tick -90 % within -92..-88 %); CPUs" in found.claim
