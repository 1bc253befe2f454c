# SPDX-License-Identifier: GPL-2.0-or-later
"""Which mechanisms count alike, and what is said of what was not seen."""

from collections.abc import Callable
from typing import Any

import pytest

from schedperf.evidence.placement.comparability import (
    invisible_elsewhere,
    loss_of,
    mechanism_of,
    refusals,
    why_levels_differ,
    why_unseen,
)

Make = Callable[..., Any]


@pytest.fixture
def sides(place_side: Make, make_placement: Make) -> Make:
    """Return base, as it is generated, and a new side with changes."""
    return lambda **chosen: (
        place_side("base", [make_placement()]),
        place_side("new", [make_placement(**chosen)]),
    )


def with_programs(make_placement: Make, **chosen: Any) -> Any:
    return make_placement()["programs"] | chosen


def perf_programs(make_program: Make) -> Any:
    names = ("sched_wakeup_new", "sched_wakeup", "sched_migrate_task", "sched_switch")
    return {name: make_program("perf", name) for name in names}


def test_tracepoints_count_alike_however_they_are_attached(
    sides: Make, make_placement: Make, make_program: Make
) -> None:
    changed = with_programs(
        make_placement, sched_migrate_task=make_program("raw_tp", "sched_migrate_task")
    )
    assert refusals(*sides(programs=changed)) == {}


def test_names_of_older_and_newer_kernels_are_the_same_function(
    sides: Make, make_placement: Make, make_program: Make
) -> None:
    changed = with_programs(
        make_placement, load_balance_exit=make_program("fexit", "sched_balance_rq")
    )
    assert refusals(*sides(programs=changed)) == {}


def test_probes_of_another_kind_are_not_compared(
    sides: Make, make_placement: Make, make_program: Make
) -> None:
    changed = with_programs(
        make_placement, load_balance_exit=make_program("kretprobe", "load_balance")
    )
    found = refusals(*sides(programs=changed))
    assert found["attempts"] == (
        "observed by different mechanisms (base: fentry/fexit, new: kprobe/kretprobe); "
        "record both sides with the same mechanism"
    )
    assert set(found) == {"attempts", "pinned", "group_imbalance"}


def test_levels_of_other_sources_are_not_compared(sides: Make) -> None:
    base, new = sides(levels_from="topology")
    assert why_levels_differ(base, new) == (
        "the names of the levels come from different sources (base: source not recorded, new: "
        "the topology in /sys); record both sides with the same collectors"
    )
    assert why_levels_differ(base, base) is None
    assert why_levels_differ(new, new) is None
    assert refusals(base, new) == {}


def test_causes_are_compared_only_where_the_same_markers_tell_them(
    sides: Make, make_placement: Make, make_program: Make
) -> None:
    refused = make_program(None, "select_task_rq_fair", "EPERM")
    found = refusals(*sides(programs=with_programs(make_placement, select_marker=refused)))
    assert found == {
        "cause": "observed by different mechanisms (base: bpf + tracepoint + "
        "select_marker (fentry/fexit), new: bpf + tracepoint); record both sides "
        "with the same mechanism"
    }


def test_a_refused_program_is_named_with_its_reason(
    sides: Make, make_placement: Make, make_program: Make
) -> None:
    refused = make_program(None, "can_migrate_task", "fentry: EPERM")
    changed = with_programs(make_placement, can_migrate_task_exit=refused)
    balance = make_placement()["balance"] | {"migratable": None}
    found = refusals(*sides(programs=changed, balance=balance))
    reason = "not measured on new: can_migrate_task: fentry: EPERM"
    assert found == {"migratable": reason, "pinned": reason}


def test_a_function_without_a_program_is_found_among_the_invisible(
    place_side: Make, make_placement: Make
) -> None:
    programs = make_placement()["programs"]
    programs.pop("find_busiest_group_exit")
    invisible = [{"what": "find_busiest_group", "reason": "inlined"}]
    [run] = place_side("base", [make_placement(programs=programs, invisible=invisible)]).runs
    assert mechanism_of(run.content, "source") is None
    assert why_unseen(run.content, "source") == ("find_busiest_group", "inlined")
    assert invisible_elsewhere(run.content) == []


def test_a_whole_group_that_is_invisible_and_notes_are_reasons(
    place_side: Make, make_placement: Make
) -> None:
    content = make_placement(
        programs=dict(list(make_placement()["programs"].items())[:6]),
        balance=None,
        depth=[],
        invisible=[
            {"what": "balance", "reason": "no BTF"},
            {"what": "detach_tasks", "reason": "inlined"},
        ],
        notes=["depth: CONFIG_FAIR_GROUP_SCHED is off"],
    )
    [run] = place_side("base", [content]).runs
    assert why_unseen(run.content, "attempts") == (None, "no BTF")
    assert why_unseen(run.content, "depth") == (None, "CONFIG_FAIR_GROUP_SCHED is off")
    assert invisible_elsewhere(run.content) == [("detach_tasks", "inlined")]


def test_perf_compares_with_bpf_until_it_loses_an_event(sides: Make, make_program: Make) -> None:
    chosen: dict[str, Any] = {"mechanism": "perf", "programs": perf_programs(make_program)}
    assert "wakeup" not in refusals(*sides(**chosen, lost={"records": 0}))
    found = refusals(*sides(**chosen, lost={"records": 3}))
    assert found["wakeup"] == "perf lost at least 3 events on new, in run 0 of boot 0"


def test_perf_has_no_causes_and_no_balancer(
    sides: Make, make_program: Make, make_move: Make
) -> None:
    found = refusals(
        *sides(
            mechanism="perf", programs=perf_programs(make_program), balance=None, depth=[],
            moves=[make_move("migration", 5)],
        )
    )  # fmt: skip
    assert found["cause"] == "not measured on new: perf cannot observe the cause of a migration"
    assert found["attempts"] == "not measured on new: no BPF program was attached"


def test_few_losses_of_bpf_are_tolerated_and_many_are_not(
    place_side: Make, make_placement: Make
) -> None:
    # 9400 moves were counted.
    few, many = (
        place_side("base", [make_placement(lost={"moves": lost})]).runs[0].content
        for lost in (90, 100)
    )
    assert loss_of(few) is None
    assert loss_of(many) == "100 of 9500 events were lost"


def test_runs_of_one_side_that_saw_differently_are_said(
    place_side: Make, make_placement: Make, make_program: Make
) -> None:
    changed = with_programs(
        make_placement, load_balance_exit=make_program("kretprobe", "load_balance")
    )
    mixed = place_side("base", [make_placement(), make_placement(programs=changed)])
    assert refusals(mixed, mixed)["attempts"].startswith(
        "observed by different mechanisms (base: fentry/fexit or kprobe/kretprobe"
    )
