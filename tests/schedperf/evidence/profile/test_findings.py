# SPDX-License-Identifier: GPL-2.0-or-later
"""Hot symbols as findings: what changed, what nothing can be said about, and how it is said."""

from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.profile.family import USER
from schedperf.evidence.profile.findings import MOST_FINDINGS, hotter_symbols
from schedperf.evidence.profile.independent import ONE_AFTER_THE_OTHER
from schedperf.evidence.profile.record import Profile, ProfileRow, ProfileTest
from schedperf.model.base_new import BaseNew
from schedperf.model.sections import Finding
from schedperf_generators.events import Event
from tests.schedperf.evidence.profile.records import (
    COST,
    make_class_row,
    make_event,
    make_others,
    make_point,
    make_profile,
    make_row,
)

TIMER = Event(name="cpu-clock:ppp", type=1)


def findings_of(data: Profile) -> list[Finding]:
    return list(hotter_symbols(data))


def test_the_same_data_has_no_finding(profiled: Any) -> None:
    data = profiled.compare(profiled.runs(10, 20, 30), profiled.runs(10, 20, 30))
    assert profiled.row(data).share.change == 0.0
    assert findings_of(data) == []


def test_a_function_of_the_scheduler_that_changed_is_a_finding_with_its_numbers(
    profiled: Any,
) -> None:
    four = {"point": {"groups": "4"}}
    data = profiled.compare(profiled.runs(10, 20, 30, **four), profiled.runs(110, 120, 130, **four))
    # All of these runs weigh the same, so the whole did not change and nothing is a part of it.
    found, other = findings_of(data)
    assert other.clause == "vfs_write uses 88.00% of total CPU time at groups=4"
    assert found.claim == (
        "PELT and group shares: 12.00% of total CPU time at groups=4, "
        "10.00 pp more than in base (95% CI [+7.73, +12.27] pp): update_cfs_group +10.00 pp; "
        # Two runs of 20 and 120 in 4 groups of 20 senders, 20 receivers and 100 messages.
        "from 0.000125 to 0.00075 cycles per message (+0.000625 "
        "[+0.0004833, +0.0007667])"
    )
    assert found.evidence == ("profile#class:PELT and group shares",)
    assert (found.n, found.unit) == ((3, 3), "pp")
    assert found.attribution == "correlated; causation not shown"
    assert found.value == pytest.approx(10.0)


def test_sides_that_took_no_turns_are_said_in_the_attribution(profiled: Any) -> None:
    sides = (
        [
            {**run, "session": name, "start": f"2026-11-21T0{name}:00:0{place}.0Z"}
            for place, run in enumerate(profiled.runs(*hot))
        ]
        for name, hot in (("1", (10, 20, 30)), ("2", (110, 120, 130)))
    )
    data = profiled.compare(*sides)
    assert ONE_AFTER_THE_OTHER in profiled.points(data)[0].cautions
    found, *_ = findings_of(data)
    assert found.attribution.endswith(ONE_AFTER_THE_OTHER)


def test_a_function_outside_of_the_scheduler_is_a_finding_if_its_own_cost_changed(
    profiled: Any,
) -> None:
    names = "update_cfs_group", "vfs_write", "default_idle"
    base, new = (
        profiled.weighted(names, *((0, 1000 - idle, idle) for idle in side))
        for side in ((10, 20, 30), (510, 520, 530))
    )
    data = profiled.compare(base, new, names=names)
    assert profiled.row(data, "vfs_write").changed
    explained, own = findings_of(data)
    assert own.clause == "vfs_write uses 48.00% of total CPU time"
    assert explained.claim.startswith(
        "vfs_write accounts for 100% of the change in cycles per message"
    )


def test_what_explains_the_change_is_told_apart_by_event(profiled: Any) -> None:
    names = "update_cfs_group", "default_idle"
    base, new = (
        profiled.weighted(names, *((1000 - idle, idle) for idle in side))
        for side in ((510, 520, 530), (10, 20, 30))
    )
    data = profiled.compare(base, new, names=names)
    (event,) = data.comparisons[0].events
    both = make_profile(event, replace(event, event="instructions"))
    ids = [one.id for one in findings_of(both) if "explained" in one.id]
    assert len(ids) == len(set(ids)) == 2


def test_a_small_or_uncertain_change_is_no_finding(profiled: Any) -> None:
    assert (
        findings_of(profiled.compare(profiled.runs(100, 300, 20), profiled.runs(150, 60, 420)))
        == []
    )
    tiny = profiled.compare(profiled.runs(100, 100, 101), profiled.runs(100, 101, 101))
    assert findings_of(tiny) == []


def test_a_blind_event_is_a_finding_beside_the_changes_that_it_saw(profiled: Any) -> None:
    chosen = {"event": TIMER, "facts": {"blind": True, "clock": "hrtimer", "blind_reason": "x"}}
    data = profiled.compare(
        profiled.runs(10, 20, 30, **chosen), profiled.runs(110, 120, 130, **chosen)
    )
    event = data.comparisons[0].events[0]
    assert event.event == "cpu-clock"
    assert event.blind == BaseNew(base=True, new=True)
    found, *changes = findings_of(data)
    assert [one.id for one in changes] == [
        "hotter_symbols#class:PELT and group shares",
        "hotter_symbols#vfs_write",
    ]
    assert found.claim.startswith("most scheduler code (profile by cpu-clock): it cannot sample")
    assert found.value is None
    assert found.attribution == "a cause in the scheduler is possible but not shown"


def of_user_code(base: float, **changes: Any) -> ProfileRow:
    row = make_row(symbol="checksum_message", dso="slow.so", class_=USER, scheduler=False)
    share = replace(row.share, base=base, new=10.2, change=10.2 - base, ci_low=8.0, ci_high=12.0)
    return replace(row, share=share, changed=True, **changes)


@pytest.mark.parametrize("is_blind", [True, False])
def test_user_code_that_only_one_side_runs_is_a_finding_with_any_event(*, is_blind: bool) -> None:
    blind = BaseNew(base=is_blind, new=is_blind)
    event = replace(
        make_event(make_point(rows=(of_user_code(0.0, cost=None),), classes=(), explained=None)),
        blind=blind,
    )
    *_, found = findings_of(make_profile(event))
    assert found.clause == (
        "new user code: checksum_message (slow.so) uses 10.20% of total CPU time at groups=4"
    )


@pytest.mark.parametrize(
    ("cost", "is_found"),
    [
        (None, False),
        (replace(COST, base=1.0, new=2.0, change=1.0, ci_low=0.5, ci_high=1.5), True),
        (replace(COST, base=1.0, new=2.0, change=1.0, ci_low=-0.5, ci_high=2.5), False),
        (replace(COST, base=2.0, new=1.0, change=-1.0, ci_low=-1.5, ci_high=-0.5), False),
    ],
)
def test_a_share_of_user_code_may_only_have_followed_other_shares(
    cost: ProfileTest | None, *, is_found: bool
) -> None:
    point = make_point(rows=(of_user_code(5.0, cost=cost),), classes=(), explained=None)
    clauses = [found.clause for found in findings_of(make_profile(make_event(point)))]
    claim = "user code: checksum_message (slow.so) uses 10.20% of total CPU time at groups=4"
    assert clauses == ([claim] if is_found else [])


def test_each_further_new_side_has_findings_of_its_own_name(profiled: Any) -> None:
    chosen = {"event": TIMER, "facts": {"blind": True, "clock": "hrtimer", "blind_reason": "x"}}
    data = profiled.compare(
        profiled.runs(10, 20, 30, **chosen), profiled.runs(110, 120, 130, **chosen)
    )
    (first,) = data.comparisons
    found = findings_of(replace(data, comparisons=(first, replace(first, side="new2"))))
    assert [(one.side, one.id) for one in found if one.bearing == "unseen"] == [
        ("new", "hotter_symbols#blind:cpu-clock"),
        ("new2", "hotter_symbols#new2/blind:cpu-clock"),
    ]


CLASSES = (
    "update_cfs_group", "try_to_wake_up", "sched_balance_rq", "sched_tick", "enqueue_task_fair",
    "queued_spin_lock_slowpath", "kmem_cache_alloc", "tcp_ack",
)  # fmt: skip


def test_other_load_is_a_finding_with_its_largest_commands() -> None:
    others = BaseNew(base=make_others(2.0, "cc1"), new=make_others(31.4, "python3"))
    load = make_class_row(row="class:other load", class_="other load", functions=())
    point = make_point(rows=(), classes=(load,), explained=None, others=others, point="")
    (found,) = findings_of(make_profile(make_event(point)))
    assert found.clause == "other load: 16.25% of total CPU time"
    assert found.change.endswith("pp): python3 - -> 31%, cc1 2% -> - of the busy time")


def test_findings_are_limited(profiled: Any) -> None:
    names = (*CLASSES, "vfs_write")
    base, new = (
        profiled.weighted(
            names, *((*(period * place for place in range(1, 9)), 1000) for period in periods)
        )
        for periods in ((1, 1, 2), (11, 12, 13))
    )
    data = profiled.compare(base, new, names=names)
    found = [one for one in findings_of(data) if "class:" in one.id]
    changed = [row.class_ for row in profiled.points(data)[0].classes if row.changed]
    assert len(changed) > MOST_FINDINGS
    assert len(found) == MOST_FINDINGS
    assert found[0].metric == "share of cycles"
    assert found[0].evidence == ("profile#class:network",)


def test_a_function_of_the_scheduler_whose_class_did_not_change_stands_for_itself(
    profiled: Any,
) -> None:
    names = "update_cfs_group", "update_load_avg", "vfs_write"
    base, new = (
        profiled.weighted(names, *((group, 500 - group, 1000) for group in groups))
        for groups in ((100, 102, 98), (200, 203, 197))
    )
    ids = {one.id for one in findings_of(profiled.compare(base, new, names=names))}
    assert {"hotter_symbols#update_cfs_group", "hotter_symbols#update_load_avg"} <= ids
    assert not any(one.startswith("hotter_symbols#class:") for one in ids)


def test_where_nobody_knows_whether_a_pmu_is_blind_changes_are_findings(profiled: Any) -> None:
    sides = profiled.runs(10, 20, 30, facts=None), profiled.runs(110, 120, 130)
    data = profiled.compare(*sides, host={"kernel": {"machine": None}})
    event = data.comparisons[0].events[0]
    assert event.blind == BaseNew(base=None, new=False)
    assert event.remedy is not None
    assert profiled.row(data).changed
    assert {one.bearing for one in findings_of(data)} == {"reason"}


@pytest.mark.parametrize(
    ("change", "low", "told"), [(82.3, 9.7, 1), (82.3, -1.0, 0), (-82.3, -99.0, 0)]
)
def test_a_blind_profile_says_what_the_unseen_code_was_charged_to(
    change: float, low: float, told: int
) -> None:
    cost = replace(COST, base=100.0, new=100.0 + change, change=change, ci_low=low, ci_high=155.0)
    rows = make_row("finish_task_switch", cost=cost), make_row("vfs_read", cost=cost)
    runs = BaseNew(base=5, new=5)
    point = make_point(rows=rows, classes=(), explained=None, point="", runs=runs)
    blind = BaseNew(base=True, new=True)
    data = make_profile(make_event(point, event="cpu-clock", remedy="r", blind=blind))
    found, *_ = findings_of(data)
    assert found.bearing == "unseen"
    text = "more time with interrupts off: finish_task_switch +82.3 ns per message"
    assert found.attribution.count(text) == told
    assert "vfs_read" not in found.attribution
