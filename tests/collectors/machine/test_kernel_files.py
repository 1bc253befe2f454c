# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions are found among the kernel's own symbols, and what is missing says why."""

from collections.abc import Callable

import pytest

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel_files import ADDRESSES_HIDDEN, find_functions
from schedperf_collectors.machine.system import System

KALLSYMS = """\
ffffffff810db740 t update_blocked_averages
ffffffff810dece0 t update_cfs_group
ffffffff810dece8 T update_cfs_groups
ffffffff810f0000 t update_load_avg.isra.0
ffffffff810f0100 t update_load_avg.part.0.cold
ffffffff810f09b0 T __update_load_avg_se
ffffffff810f0d60 t twice
ffffffff810f0d90 t twice
ffffffff82000000 d data
ffffffffc0000000 t modular\t[module]
0000000000000000 T hidden
"""
NAMES = ["update_cfs_group", "update_load_avg", "__update_load_avg_se", "twice", "data", "modular",
         "hidden"]  # fmt: skip


def test_only_functions_of_the_kernel_itself_are_found(
    make_system: Callable[..., System],
) -> None:
    found = find_functions(make_system({"proc/kallsyms": KALLSYMS}), NAMES)
    assert dict(found.addresses) == {
        "update_cfs_group": (0xFFFFFFFF810DECE0,),
        "__update_load_avg_se": (0xFFFFFFFF810F09B0,),
        "twice": (0xFFFFFFFF810F0D60, 0xFFFFFFFF810F0D90),
        "hidden": (0,),
    }
    assert found.first(["data", "twice", "hidden"]) == "twice"
    assert found.first(["data"]) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("update_cfs_group", ""),
        (
            "update_load_avg",
            (
                "inlined: the kernel's symbols contain only update_load_avg.isra.0, "
                "update_load_avg.part.0.cold"
            ),
        ),
        ("modular", "inlined or not built: not in the kernel's symbols"),
        ("twice", "2 kernel functions have this name"),
        ("hidden", ADDRESSES_HIDDEN),
    ],
)
def test_an_address_is_known_or_there_is_a_reason(
    make_system: Callable[..., System], name: str, reason: str
) -> None:
    found = find_functions(make_system({"proc/kallsyms": KALLSYMS}), NAMES)
    address, why = found.address(name)
    assert why == reason
    assert (address is None) == bool(reason)


def test_a_kernel_without_symbols_says_so(make_system: Callable[..., System]) -> None:
    with pytest.raises(Unavailable, match="/proc/kallsyms: no such file"):
        find_functions(make_system({}), NAMES)


@pytest.mark.parametrize("content", [b"", b"\0\xff" * 1000, KALLSYMS.encode()[:-40], b"f" * 100000])
def test_damaged_symbols_are_no_functions(
    make_system: Callable[..., System], content: bytes
) -> None:
    found = find_functions(make_system({"proc/kallsyms": content}), ["hidden"])
    assert not found.addresses
