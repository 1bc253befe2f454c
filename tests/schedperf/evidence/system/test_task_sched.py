# SPDX-License-Identifier: GPL-2.0-or-later
"""tasks.json is bounded and checked; what a kernel writes of a task is read field by field."""

import json
from typing import Any

import pytest

from schedperf.evidence.system.task_sched import parse_sched, parse_task_sched
from schedperf.model.errors import InputError

SCHED = """\
a (b) (42, #threads: 3)
-------------------------------------------------------------------
se.statistics.wait_sum                       :             0.216732
se.avg.util_avg                              :                  294
numa_preferred_nid                           :                   -1
current_node=0, numa_group_id=0
numa_faults node=0 task_private=0 task_shared=0
nr_switches                      :   """


def encode(**changes: Any) -> bytes:
    record = {
        "schema": "schedperf/task_sched/1",
        "looks": 2,
        "left_out": 0,
        "tasks": [{"pid": 42, "tid": 43, "seen_ns": 5, "sched": SCHED}],
    }
    return json.dumps({**record, **changes}).encode()


def test_a_task_has_its_name_and_fields_and_a_line_cut_off_is_left_out() -> None:
    [task] = parse_task_sched(encode(), "tasks.json").tasks
    assert (task.comm, task.pid, task.tid) == ("a (b)", 42, 43)
    assert {name: field.value for name, field in task.fields.items()} == {
        "wait_sum": pytest.approx(216.732e-6),
        "avg.util_avg": 294,
        "numa_preferred_nid": -1,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "schedperf/task_sched/2"},
        {"looks": -1},
        {"tasks": {}},
        {"tasks": [{"pid": 1}]},
        {"tasks": [{"pid": 1, "tid": 1, "seen_ns": 1, "sched": ""}]},
        {"tasks": [{"pid": 1, "tid": 1, "seen_ns": 1, "sched": SCHED}] * 5000},
    ],
)
def test_another_form_is_refused_in_one_line(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="^tasks.json") as caught:
        parse_task_sched(encode(**changes), "tasks.json")
    assert "\n" not in str(caught.value)


def test_endless_texts_are_refused() -> None:
    with pytest.raises(InputError, match="100001 lines"):
        parse_sched("a : 1\n" * 100000, "tasks.json")
