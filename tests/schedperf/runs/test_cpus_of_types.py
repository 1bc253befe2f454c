# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.runs.cpus_of_types: lists of CPUs become numbers; invalid lists have none."""

import pytest

from schedperf.model.host import MOST_CPUS, CoreType, Policy
from schedperf.runs.cpus_of_types import cpus_by_type, cpus_of, type_of_cpu

CORE, ATOM = CoreType(cpus="0-2"), CoreType(cpus=f"4-5,{MOST_CPUS}")


def test_each_type_has_its_cpus() -> None:
    types = {"cpu_core": CORE, "cpu_atom": ATOM, "none": CoreType(cpus="")}
    assert cpus_by_type(types) == {"cpu_core": {0, 1, 2}, "cpu_atom": {4, 5}}
    assert type_of_cpu(types) == {
        **dict.fromkeys((0, 1, 2), "cpu_core"),
        **dict.fromkeys((4, 5), "cpu_atom"),
    }


@pytest.mark.parametrize("other", ["", "0-4294967295", "3-1", "x"])
def test_one_type_of_core_makes_no_groups(other: str) -> None:
    types = {"cpu_core": CORE, "cpu_atom": CoreType(cpus=other)}
    assert cpus_by_type(types) == {}
    assert type_of_cpu(types) == {}


def test_a_policy_has_cpus() -> None:
    assert cpus_of(Policy(cpus="0,2")) == {0, 2}
