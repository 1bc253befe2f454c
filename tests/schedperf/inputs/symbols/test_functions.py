# SPDX-License-Identifier: GPL-2.0-or-later
import re
import tomllib
from collections import Counter
from importlib.resources import files

import pytest

from schedperf.inputs.symbols.functions import (
    SharedNames,
    class_of,
    function_name,
    function_table,
    is_idle_routine,
    is_scheduler_function,
    newest_name,
)
from schedperf.model.place import KERNEL, Place
from tests.shared_data import shared

CLASSES = {
    "wakeup", "tick", "load balance", "PELT and group shares", "locks", "idle", "network", "memory",
    "syscall entry", "scheduler core", "accounting",
}  # fmt: skip


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("finish_task_switch.isra.0", "finish_task_switch"),
        ("do_exit.cold", "do_exit"),
        ("select_idle_core.constprop.0.isra.0", "select_idle_core"),
        ("__schedule.part.0.cold", "__schedule"),
        ("update_curr.llvm.1234567890", "update_curr"),
        ("foo.lto_priv.0", "foo"),
        ("nohz_csd_func.__uniq.108492", "nohz_csd_func"),
        ("nohz_csd_func.__uniq.108492.llvm.77.cold", "nohz_csd_func"),
        ("std.coldplay", "std.coldplay"),
        ("x.partial", "x.partial"),
        (".cold", ".cold"),
        ("plain", "plain"),
    ],
)
def test_parts_and_copies_have_the_name_of_their_function(symbol: str, name: str) -> None:
    assert function_name(symbol) == name


def test_only_the_kernels_functions_are_renamed() -> None:
    assert newest_name(Place("load_balance.isra.0", KERNEL)) == Place("sched_balance_rq", KERNEL)
    assert newest_name(Place("load_balance", "a.out")) == Place("load_balance", "a.out")
    assert newest_name(Place("schedule", KERNEL)) == Place("schedule", KERNEL)


@pytest.mark.parametrize(
    ("base", "new", "shown", "former"),
    [
        # Both kernels have one name.
        ("load_balance", "load_balance", "load_balance", None),
        ("sched_balance_rq", "sched_balance_rq", "sched_balance_rq", None),
        # Renamed between them: new's name, in either direction.
        ("load_balance", "sched_balance_rq", "sched_balance_rq", "load_balance"),
        ("sched_balance_rq", "load_balance", "load_balance", "sched_balance_rq"),
        # One side has it.
        ("load_balance", "", "load_balance", None),
        ("", "load_balance", "load_balance", None),
        # Parts and copies: the plain name only if a side has it.
        ("update.isra.0", "update.isra.0 update.cold", "update.isra.0", None),
        ("schedule", "schedule.isra.0", "schedule", None),
        ("schedule.cold", "schedule", "schedule", None),
        ("load_balance", "sched_balance_rq.isra.0", "sched_balance_rq.isra.0", "load_balance"),
        ("tick_sched_timer", "tick_nohz_handler", "tick_nohz_handler", "tick_sched_timer"),
    ],
)
def test_functions_are_compared_under_a_name_that_a_side_has(
    base: str, new: str, shown: str, former: str | None
) -> None:
    sides = [{Place(symbol, KERNEL) for symbol in side.split()} for side in (base, new)]
    names = SharedNames(*sides)
    assert {names.of(place) for side in sides for place in side} == {Place(shown, KERNEL)}
    assert names.base_name(Place(shown, KERNEL)) == former


def test_user_functions_are_not_renamed() -> None:
    old, new = Place("load_balance", "a.out"), Place("sched_balance_rq", "a.out")
    names = SharedNames({old}, {new})
    assert (names.of(old), names.of(new)) == (old, new)


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("update_load_avg", "PELT and group shares"),
        ("update_cfs_group", "PELT and group shares"),
        ("__update_load_avg_cfs_rq", "PELT and group shares"),
        ("try_to_wake_up", "wakeup"),
        ("select_task_rq_fair", "wakeup"),
        ("select_idle_sibling.isra.0", "wakeup"),
        ("sched_tick", "tick"),
        ("scheduler_tick", "tick"),
        ("tick_nohz_handler", "tick"),
        ("update_process_times", "tick"),
        ("sched_balance_rq", "load balance"),
        ("load_balance", "load balance"),
        ("sched_balance_update_blocked_averages", "load balance"),
        ("native_queued_spin_lock_slowpath", "locks"),
        ("_raw_spin_lock", "locks"),
        ("rwsem_down_read_slowpath", "locks"),
        ("pv_native_safe_halt", "idle"),
        ("cpu_do_idle", "idle"),
        ("tick_nohz_idle_enter", "idle"),
        ("tcp_sendmsg_locked", "network"),
        ("unix_stream_read_generic", "network"),
        ("__slab_free", "memory"),
        ("kmem_cache_alloc_noprof", "memory"),
        ("do_syscall_64", "syscall entry"),
        ("invoke_syscall", "syscall entry"),
        ("finish_task_switch.isra.0", "scheduler core"),
        ("enqueue_task_fair", "scheduler core"),
        ("pick_next_task_fair", "scheduler core"),
        ("cpu_switch_to", "scheduler core"),
        ("vfs_read", None),
        ("ip4_string", None),
        ("schedule_work", None),
        ("mt_event", None),
        ("shrink_dcache_sb", None),
    ],
)
def test_a_function_of_the_kernel_has_a_class(symbol: str, expected: str | None) -> None:
    assert class_of(Place(symbol, KERNEL)) == expected


def test_a_module_gives_its_functions_a_class_and_user_code_has_none() -> None:
    assert class_of(Place("anything", "[nf_conntrack]")) == "network"
    assert class_of(Place("anything", "[ext4]")) is None
    assert class_of(Place("update_load_avg", "a.out")) is None
    assert class_of(Place("tcp_sendmsg", "[unknown]")) is None


def test_classes_are_the_known_ones_and_no_entry_is_there_twice() -> None:
    table = function_table()
    groups = [*table.names.values(), *table.prefixes.values(), *table.modules.values()]
    assert {group.function_class for group in groups} - {""} == CLASSES
    text = (files("schedperf.inputs.symbols") / "classes.toml").read_text(encoding="utf-8")
    for key in ("names", "prefixes", "modules"):
        entries = [one for group in tomllib.loads(text)["group"] for one in group.get(key, ())]
        assert [one for one, count in Counter(entries).items() if count > 1] == []


@pytest.mark.parametrize(
    ("symbol", "dso", "expected"),
    [
        ("update_load_avg", KERNEL, True),
        ("schedule", KERNEL, True),
        ("finish_task_switch.isra.0", KERNEL, True),
        ("sched_tick", KERNEL, True),
        ("psi_group_change", KERNEL, True),
        ("schedule_work", KERNEL, False),
        ("update_process_times", KERNEL, False),
        ("_raw_spin_lock", KERNEL, False),
        ("schedule", "[a_module]", False),
        ("schedule", "a.out", False),
    ],
)
def test_functions_of_the_scheduler_are_told_apart(
    symbol: str, dso: str, *, expected: bool
) -> None:
    assert is_scheduler_function(Place(symbol, dso)) is expected


def test_where_process_0_waits_is_told_apart() -> None:
    assert is_idle_routine(Place("default_idle", KERNEL))
    assert is_idle_routine(Place("acpi_idle_do_entry.isra.0", KERNEL))
    assert not is_idle_routine(Place("do_idle", KERNEL))


@pytest.mark.parametrize("name", ["System.map-arm64-4.14-nabu", "System.map-x86_64-4.2-loki"])
def test_no_driver_or_file_system_is_taken_for_the_scheduler(name: str) -> None:
    text = shared(f"data/sysmap/{name}").read_text(errors="replace")
    symbols = re.findall(r"^[0-9a-f]+ [tT] (\S+)$", text, re.MULTILINE)
    scheduler = [one for one in symbols if is_scheduler_function(Place(one, KERNEL))]
    # Names of drivers, file systems and buses that begin as the scheduler's do.
    foreign = re.compile(
        r"_(?:ioctl|probe|sysfs|debugfs|uevent|inode|dentry|bio|urb|pci|usb)(?:_|$)"
    )
    assert len(scheduler) > 100
    assert not [one for one in scheduler if foreign.search(one)]
