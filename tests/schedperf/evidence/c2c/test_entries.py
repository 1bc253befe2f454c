# SPDX-License-Identifier: GPL-2.0-or-later
"""Names on cache lines, and what they are in the layout."""

import pytest

from schedperf.evidence.c2c.entries import contended_entries, entries_of
from schedperf.evidence.c2c.merge import SeenLine
from schedperf.evidence.c2c.model import Access


@pytest.mark.parametrize(
    ("key", "name", "entries"),
    [
        ("percpu+0x2ba40", "sd_llc_id", (("percpu", "sd_llc_id"),)),
        (
            "percpu+0x2ba40",
            "runqueues.nr_running",
            (("percpu", "runqueues"), ("struct rq", "nr_running")),
        ),
        (
            "percpu+0x40",
            "kernel_cpustat.cpustat[2]",
            (("percpu", "kernel_cpustat"), ("struct kernel_cpustat", "cpustat[2]")),
        ),
        ("percpu+0x40", "rcu_data.gp_seq", (("percpu", "rcu_data"),)),
        ("percpu+0x40", "warned#2", (("percpu", "warned"),)),
        (
            "globals:root_task_group+0x100",
            "root_task_group.load_avg",
            (("globals", "root_task_group"), ("struct task_group", "load_avg")),
        ),
        ("globals+0x100", "nohz", (("globals", "nohz"),)),
        ("task_group+0x100", "task_group.load_avg", (("struct task_group", "load_avg"),)),
        ("task_group+0x100", "task_group", ()),
        ("0xffff888014a2c840", "", ()),
    ],
)
def test_a_name_is_an_entry_of_each_unit_that_has_it(
    key: str, name: str, entries: tuple[tuple[str, str], ...]
) -> None:
    assert entries_of(key, name) == entries


def test_contended_samples_are_counted_by_entry_and_others_are_not() -> None:
    def access(offset: int, name: str | None, local: int, remote: int) -> Access:
        return Access(
            offset=offset, size=8, name=name, grade=None, reads=50, writes=7, local=local,
            remote=remote, readers=frozenset(), writers=frozenset(), nodes={}, symbols={},
            writing_symbols={}, commands=None, mean_weight=None,
        )  # fmt: skip

    line = SeenLine(
        identity="percpu+0x40", key="percpu+0x40", name="runqueues.cpu", is_address=False,
        boots=frozenset(), kernels=frozenset(), copies=1, remote={}, local={}, stores=0,
        records=0, loads=None, double_counted=None,
        sharing=None, false_share=None, pairs=None,
        accesses=(
            access(0, "runqueues.cpu", 1, 2), access(8, "runqueues.clock", 0, 4),
            access(16, "sd_llc", 0, 0), access(24, None, 9, 9),
        ),
    )  # fmt: skip
    assert contended_entries([line]) == {
        "percpu": {"runqueues": 7},
        "struct rq": {"cpu": 3, "clock": 4},
    }
