# SPDX-License-Identifier: GPL-2.0-or-later
"""Which changes of the time of the workload's tasks become findings."""

from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.account.findings import (
    MOST_FINDINGS,
    account_changes,
    sampled_waiting,
)
from schedperf.evidence.account.record import AccountRow
from tests.account_records import (
    account_of,
    account_point,
    account_row,
    other_load,
    sampled_row,
)
from tests.schedperf.evidence.account.conftest import Analyse, run_of, runs_of

WAITING = account_row("waiting", row="new-3")
BLOCKED = account_row(
    "blocked", row="new-4", base=20e-6, new=19e-6, ratio=0.95, ci_low=0.94, ci_high=0.96
)
SYSTEM = account_row(
    "system", row="new-2", base=35e-6, new=36e-6, ratio=1.03, ci_low=1.02, ci_high=1.04
)
LOAD = other_load(0.5, 5.5, ("stress-ng", 0.0, 4.0), ("sshd", 0.1, 0.2), ("x", 0.0, 0.1))


def test_waiting_for_a_cpu_names_the_commands_that_used_them() -> None:
    [found] = account_changes(account_of(WAITING, **LOAD))
    assert found.claim == (
        "groups=4: time that the workload's tasks waited for a CPU per message 40 us -> 60 us, "
        "+50.0% (95% CI [+40%, +60%], +20 pp of all thread-time): runnable, but not running; "
        "other commands used 0.5 s -> 5.5 s of CPU time per second, most: stress-ng 0 s -> 4 s, "
        "sshd 100 ms -> 200 ms, x 0 ms -> 100 ms"
    )
    assert (found.id, found.evidence) == ("account_changes#new-3", ("account#new-3",))
    assert (found.better, found.bearing, found.n) == ("lower", "reason", (5, 5))
    assert found.metric == "waiting time per message"


def test_commands_that_used_less_or_no_waiting_name_nobody() -> None:
    for rows, others in ((SYSTEM, LOAD), (WAITING, other_load(5.5, 0.5, ("a", 0, 0.1)))):
        [found] = account_changes(account_of(rows, **others))
        assert "other commands" not in found.claim
    elsewhere = other_load(0.5, 5.5, point="groups=9")
    [found] = account_changes(account_of(WAITING, **elsewhere))
    assert "other commands" not in found.claim


def test_a_finding_names_the_main_reason() -> None:
    point = account_point()
    parts = [
        replace(each, mostly="preempted" if each.part == "waiting" else None)
        for each in point.parts
    ]
    [found] = account_changes(account_of(WAITING, points=(replace(point, parts=tuple(parts)),)))
    assert found.claim.startswith(
        "groups=4: time that the workload's tasks waited for a CPU (mostly preempted) per message "
    )


LONGER_BLOCKED = replace(BLOCKED, ratio=1.45, ci_low=1.35, ci_high=1.55)


def bearings(*rows: AccountRow) -> dict[str, str]:
    """Return the bearing of each part; all of them contribute the same."""
    whole = account_point()
    parts = tuple(replace(part, contribution=0.2) for part in whole.parts)
    found = account_changes(account_of(*rows, points=(replace(whole, parts=parts),)))
    return {each.metric.split()[0]: each.bearing for each in found}


def test_blocked_time_is_an_effect_of_waiting_that_changed_as_much() -> None:
    assert bearings(LONGER_BLOCKED) == {"blocked": "reason"}
    assert bearings(LONGER_BLOCKED, SYSTEM, WAITING) == {
        "waiting": "reason", "system": "reason", "blocked": "effect",
    }  # fmt: skip
    # Waiting did not change, changed less, or changed in the other direction.
    others: tuple[dict[str, Any], ...] = (
        {"changed": False},
        {"ratio": 1.1, "ci_low": 1.05, "ci_high": 1.15},
        {"ratio": 0.5, "ci_low": 0.4, "ci_high": 0.6},
    )
    for changes in others:
        assert bearings(LONGER_BLOCKED, replace(WAITING, **changes))["blocked"] == "reason"


def test_waiting_is_an_effect_of_cpu_time_that_changed_as_much() -> None:
    cpu = account_row("cpu", row="new-7", ratio=1.45)
    assert bearings(cpu, SYSTEM, WAITING) == {"system": "reason", "waiting": "effect"}
    # Tasks that share CPUs then wait less, too.
    less: dict[str, Any] = {"ratio": 0.5, "ci_low": 0.4, "ci_high": 0.6}
    assert bearings(replace(cpu, **less), replace(WAITING, **less)) == {"waiting": "effect"}
    # The tasks waited more than that explains.
    assert bearings(replace(cpu, ratio=1.1), WAITING) == {"waiting": "reason"}
    assert bearings(replace(cpu, **less), WAITING) == {"waiting": "reason"}


def test_sampled_waiting_is_a_lower_bound() -> None:
    [found] = sampled_waiting(account_of(sampled=(sampled_row(),)))
    assert found.claim == (
        "groups=4: time that the workload's tasks waited for a CPU per message at least "
        "40 us -> 60 us, +50.0% (95% CI [+40%, +60%], sampled in instrumented runs, coverage "
        "89% -> 91%): runnable, but not running"
    )
    assert (found.id, found.evidence) == (
        "sampled_waiting#sampled-new-0", ("account#sampled-new-0",),
    )  # fmt: skip
    assert (found.better, found.bearing) == ("lower", "reason")
    for changed in (False, None):
        assert not [*sampled_waiting(account_of(sampled=(sampled_row(changed=changed),)))]


def test_sampled_waiting_is_an_effect_of_cpu_time_that_changed_as_much() -> None:
    cpu = account_row("cpu", row="new-7", ratio=1.45)
    [found] = sampled_waiting(account_of(cpu, sampled=(sampled_row(),)))
    assert found.bearing == "effect"
    less = account_row("cpu", row="new-7", ratio=1.1)
    [found] = sampled_waiting(account_of(less, sampled=(sampled_row(),)))
    assert found.bearing == "reason"


def test_another_workload_or_point_is_no_cause_of_blocked_time() -> None:
    for field in ("workload", "point"):
        other: dict[str, Any] = {field: "other"}
        data = account_of(
            BLOCKED, account_row("waiting", row="new-9", **other),
            points=(account_point(), account_point(**other)),
        )  # fmt: skip
        assert [each.bearing for each in account_changes(data)] == ["reason", "reason"]


def test_what_did_not_change_is_no_finding() -> None:
    for changed in (False, None):
        assert not [*account_changes(account_of(account_row(changed=changed)))]
    assert not [*account_changes(account_of(account_row("cpu"), account_row("tasks")))]
    assert not [*account_changes(account_of(WAITING, points=()))]


@pytest.mark.parametrize(("new_s", "count"), [(35.3e-6, 0), (34.7e-6, 0), (35.5e-6, 1)])
def test_cpu_time_that_changed_by_less_than_1_percent_of_all_is_no_finding(
    new_s: float, count: int
) -> None:
    whole = account_point()
    # All CPU time is 40 us.
    parts = tuple(
        replace(part, new=new_s) if part.part == "system" else part for part in whole.parts
    )
    data = account_of(SYSTEM, points=(replace(whole, parts=parts),))
    assert len([*account_changes(data)]) == count


@pytest.mark.parametrize(("new_s", "bearing"), [(100e-6, "reason"), (1000e-6, "effect")])
def test_a_part_that_is_small_beside_a_reason_is_an_effect(new_s: float, bearing: str) -> None:
    sizes: dict[str | None, float] = {"system": 0.5, "blocked": new_s / 20e-6 - 1.0}
    whole = account_point()
    parts = tuple(
        replace(part, new=part.base * 1.5, contribution=sizes[part.part])
        for part in whole.parts
        if part.part in sizes
    )
    much = account_row("blocked", row="new-4", ratio=100.0, ci_low=90.0, ci_high=110.0)
    data = account_of(SYSTEM, much, points=(replace(whole, parts=parts),))
    blocked, system = account_changes(data)
    assert (blocked.bearing, system.bearing) == ("reason", bearing)


def test_a_few_findings_per_side_are_the_largest_contributions() -> None:
    points = [f"groups={number}" for number in range(3)]
    data = account_of(
        *(
            account_row(kind, row=f"{side}-{point}-{kind}", point=point, side=side)
            for side in ("new", "new2")
            for point in points
            for kind in ("system", "waiting", "blocked")
        ),
        points=tuple(
            account_point(point=point, side=side) for side in ("new", "new2") for point in points
        ),
    )
    found = list(account_changes(data))
    assert [each.side for each in found] == ["new"] * MOST_FINDINGS + ["new2"] * MOST_FINDINGS
    assert {each.metric for each in found} == {"waiting time per message"}


def test_without_all_parts_there_is_no_share_of_all_time() -> None:
    data = account_of(SYSTEM, points=(account_point(("user", "system")),))
    [found] = account_changes(data)
    assert " pp " not in found.claim


def test_a_part_that_was_zero_has_both_values() -> None:
    zero = account_row("waiting", base=0.0, ratio=None, ci_low=None, ci_high=None)
    [found] = account_changes(account_of(zero))
    assert found.claim.startswith("groups=4: time that the workload's tasks waited for a CPU per")
    assert "0 us -> 60 us (+20 pp of all thread-time): " in found.claim
    assert (found.value, found.ci) == (None, None)


def test_runs_beside_a_load_have_the_finding(analyse: Analyse) -> None:
    values = (3.0, 3.1, 2.9, 3.05, 2.95)
    load = {"others": [{"command": "stress-ng", "cpu_s": 4.0}], "others_cpu_s": 4.5}
    base = runs_of("waiting", values, wall_s=1.0)
    new = runs_of("waiting", [2 * each for each in values], changes=load, wall_s=1.0)
    [found] = account_changes(analyse(base, new))
    assert found.clause.startswith("time that the workload's tasks waited for a CPU per message ")
    assert "most: stress-ng 0 s -> 4 s" in found.details
    assert [*account_changes(analyse([run_of()] * 3, [run_of()] * 3))] == []
