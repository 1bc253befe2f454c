# SPDX-License-Identifier: GPL-2.0-or-later
"""What is counted has words, and the kernel's function where one counts."""

import pytest

from schedperf.evidence.system.record import GROUPS
from schedperf.evidence.system.words import about


def test_each_group_has_words_for_what_it_counts() -> None:
    for group, field in (("pressure", "total"), ("idle", "usage"), ("cgroup", "nr_throttled")):
        assert group in GROUPS
        assert about(group, "cpu full", field).function
    assert about("pressure", "io full", "total").meaning == (
        "share of time in which all non-idle tasks waited for I/O"
    )
    assert about("interrupts", "nvme0q1", "count").function == ""
    assert about("idle", "C1", "new_field").meaning == "counted by the kernel"


def test_the_root_group_has_the_times_of_the_cpus() -> None:
    # It has no statistics of its own, so nothing of it is counted by update_curr().
    assert about("cgroup", "/", "usage").function == "root_cgroup_cputime()"
    assert about("cgroup", "/work", "usage").function == "update_curr()"


@pytest.mark.parametrize(
    ("subject", "meaning"),
    [
        ("nice", "in user mode, all niced tasks: other load, unless the workload is niced"),
        ("system", "in kernel mode, all tasks"),
        ("steal", "that the hypervisor gave to other guests"),
    ],
)
def test_a_kind_of_cpu_time_says_whose_it_is(subject: str, meaning: str) -> None:
    assert about("cpu", subject, "time").meaning == f"CPU time {meaning}"
    assert about("cpu", subject, "share").meaning == f"share of total CPU time {meaning}"
