# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists of CPUs are read as the kernel prints them."""

from collections.abc import Callable

import pytest

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.cpu import CPUS, online_cpus, possible_cpus
from schedperf_collectors.machine.system import System


def test_cpus_are_those_of_the_kernel(make_system: Callable[..., System]) -> None:
    system = make_system({f"{CPUS[1:]}/online": "0,2\n", f"{CPUS[1:]}/possible": "0-2,8\n"})
    assert online_cpus(system) == [0, 2]
    assert possible_cpus(system) == [0, 1, 2, 8]


def test_a_machine_without_sysfs_says_which_file_it_lacks(
    make_system: Callable[..., System],
) -> None:
    for read, name in ((online_cpus, "online"), (possible_cpus, "possible")):
        with pytest.raises(Unavailable, match=f"{CPUS}/{name}"):
            read(make_system({}))
