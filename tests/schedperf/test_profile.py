import re
import subprocess
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from schedperf.captures.kernel_symbols import parse_kernel_symbols
from schedperf.captures.perf_data import MODE_GUEST_KERNEL, MODE_USER, read_perf_data
from schedperf.profile import (
    KERNEL,
    Place,
    Profile,
    fold_parts,
    function_name,
    is_idle_routine,
    is_scheduler_function,
    profile_event,
    shares,
)

MakePerfData = Callable[..., bytes]

TEXT = 0xFFFFFFFF81000000
KALLSYMS = """\
ffffffff81000000 T update_cfs_group
ffffffff81000100 t finish_task_switch.isra.0
ffffffff81000200 t finish_task_switch.isra.0.cold
ffffffff81000300 T default_idle
ffffffff81000400 T end_of_text
ffffffffc0001000 t nf_ct_get_tuple\t[nf_conntrack]
"""
# A row of `perf report --sort sym`; rounded to two digits.
REPORT_ROW = re.compile(r"^\s+([\d.]+)%\s+\[(.)\] (.+?)\s*$", re.MULTILINE)
ROUNDING = 0.005


def profile_of(data: bytes, nodes: dict[int, int] | None = None) -> Profile:
    recording = read_perf_data(data, "perf.data")
    symbols = parse_kernel_symbols(KALLSYMS, "kallsyms")
    return profile_event(recording, recording.events[0], symbols, nodes or {})


def test_shares_are_weighted_by_period(make_perf_data: MakePerfData) -> None:
    samples = [{"ip": TEXT, "period": 30}, {"ip": TEXT + 0x110, "period": 10}]
    profile = profile_of(make_perf_data(samples))
    assert shares(profile.weights) == {
        Place("update_cfs_group", KERNEL): 75.0,
        Place("finish_task_switch.isra.0", KERNEL): 25.0,
    }
    assert profile.samples == 2


def test_no_samples_are_no_shares() -> None:
    assert shares({}) == {}
    assert shares({Place("schedule", KERNEL): 0}) == {}


def test_a_nodes_share_is_of_its_own_samples_without_idle(make_perf_data: MakePerfData) -> None:
    samples = [
        {"ip": TEXT, "cpu": 0, "period": 10},
        {"ip": TEXT + 0x300, "cpu": 0, "pid": 0, "period": 80},
        {"ip": TEXT + 0x100, "cpu": 0, "pid": 0, "period": 30},
        {"ip": TEXT, "cpu": 1, "period": 50},
        {"ip": TEXT + 0x300, "cpu": 1, "pid": 3, "period": 50},
        {"ip": TEXT, "cpu": 7, "period": 20},
    ]
    profile = profile_of(make_perf_data(samples), {0: 0, 1: 1})
    hot = Place("update_cfs_group", KERNEL)
    assert profile.idle == 80
    assert shares(profile.node_weights[0])[hot] == 25.0
    assert shares(profile.node_weights[1])[hot] == 50.0
    assert shares(profile.weights)[hot] == pytest.approx(100.0 * 80 / 240)


def test_what_has_no_symbol_is_unresolved_by_file(make_perf_data: MakePerfData) -> None:
    data = make_perf_data(
        [
            {"ip": 0x1100, "pid": 7, "mode": MODE_USER},
            {"ip": 0x3100, "pid": 7, "mode": MODE_USER},
            {"ip": 0x9100, "pid": 7, "mode": MODE_USER},
            {"ip": 0xFFFFFFFFC0800000},
            {"ip": 0xFFFFFFFFD0000000},
            {"ip": 0xFFFFFFFFC0001004},
            {"ip": TEXT, "mode": MODE_GUEST_KERNEL},
        ],
        mappings=[
            (7, 0x1000, 0x1000, "/usr/lib/libc.so.6"),
            (7, 0x3000, 0x1000, "[vdso]"),
            (0xFFFFFFFF, 0xFFFFFFFFC0800000, 0x1000, "/lib/modules/6.1/net/foo-bar.ko.xz"),
        ],
    )
    assert set(profile_of(data).weights) == {
        Place("[libc.so.6] unresolved", "libc.so.6"),
        Place("[vdso] unresolved", "[vdso]"),
        Place("[unknown] unresolved", "unknown"),
        Place("[foo_bar] unresolved", "[foo_bar]"),
        Place("[kernel] unresolved", KERNEL),
        Place("nf_ct_get_tuple", "[nf_conntrack]"),
        Place("[guest kernel] unresolved", "[guest kernel]"),
    }


def test_without_symbols_all_of_the_kernel_is_unresolved(make_perf_data: MakePerfData) -> None:
    recording = read_perf_data(make_perf_data([{"ip": TEXT}]), "perf.data")
    profile = profile_event(recording, recording.events[0], None, {})
    assert profile.weights == {Place("[kernel] unresolved", KERNEL): 1}


def test_parts_of_a_function_are_folded_into_it(make_perf_data: MakePerfData) -> None:
    samples = [
        {"ip": TEXT + 0x100, "period": 3},
        {"ip": TEXT + 0x200, "period": 1},
        {"ip": TEXT + 0x300, "pid": 0},
    ]
    folded = fold_parts(profile_of(make_perf_data(samples), {0: 0}))
    assert folded.weights == {
        Place("finish_task_switch", KERNEL): 4,
        Place("default_idle", KERNEL): 1,
    }
    assert folded.node_weights == {0: {Place("finish_task_switch", KERNEL): 4}}
    assert (folded.samples, folded.idle) == (3, 1)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("update_cfs_group", "update_cfs_group"),
        ("try_to_wake_up.part.0", "try_to_wake_up"),
        ("do_exit.cold", "do_exit"),
        ("a.constprop.0.isra.1.cold", "a"),
        ("b.llvm.123456", "b"),
        ("[libc.so.6] unresolved", "[libc.so.6] unresolved"),
        ("__key.12", "__key.12"),
    ],
)
def test_a_compilers_suffixes_are_no_part_of_a_name(symbol: str, name: str) -> None:
    assert function_name(symbol) == name


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("update_cfs_group", True),
        ("update_load_avg", True),
        ("enqueue_task_fair", True),
        ("finish_task_switch.isra.0", True),
        ("__schedule", True),
        ("sched_balance_newidle", True),
        ("schedule_work", False),
        ("schedule_timeout", False),
        ("balance_dirty_pages", False),
        ("update_sem", False),
        ("_raw_spin_unlock_irqrestore", False),
        ("[kernel] unresolved", False),
    ],
)
def test_functions_of_the_scheduler_are_known_by_name(name: str, *, is_one: bool) -> None:
    assert is_scheduler_function(Place(name, KERNEL)) is is_one
    assert not is_scheduler_function(Place(name, "[module]"))


def test_idle_routines_are_known_by_name() -> None:
    assert is_idle_routine(Place("mwait_idle_with_hints.constprop.0", KERNEL))
    assert is_idle_routine(Place("acpi_safe_halt", "[processor]"))
    assert not is_idle_routine(Place("schedule_idle", KERNEL))


def report_of(recorded: Any) -> list[tuple[str, str, float]]:
    """Return what perf report prints: kind of place, symbol, share."""
    command = ["perf", "report", "-i", str(recorded.path), "--no-children", "-g", "none"]
    command += ["--stdio", "--sort", "sym", "--percent-limit", "0"]
    kallsyms = recorded.path.with_name("kallsyms")
    kallsyms.write_text(recorded.kallsyms, encoding="utf-8")
    done = subprocess.run(
        [*command, "--kallsyms", str(kallsyms)], capture_output=True, text=True, check=True
    )
    return [
        (kind, symbol, float(percent)) for percent, kind, symbol in REPORT_ROW.findall(done.stdout)
    ]


def test_shares_of_a_real_recording_equal_those_of_perf_report(recorded: Any) -> None:
    recording = read_perf_data(recorded.path.read_bytes(), "perf.data")
    symbols = parse_kernel_symbols(recorded.kallsyms, "kallsyms")
    counted = max(recording.events, key=lambda one: one.samples)
    own = shares(profile_event(recording, counted, symbols, {}).weights)
    assert sum(own.values()) == pytest.approx(100.0)

    # perf may call an address by another of its names, so names are compared by address.
    address_of = {line.split()[2]: line.split()[0] for line in recorded.kallsyms.splitlines()}
    reported: defaultdict[str, list[float]] = defaultdict(list)
    for kind, symbol, share in report_of(recorded):
        if kind == "k":
            reported[address_of.get(symbol, "unresolved")].append(share)
    expected: defaultdict[str, float] = defaultdict(float)
    for place, share in own.items():
        if place.dso.startswith("["):
            expected[address_of.get(place.symbol, "unresolved")] += share
    assert len(expected) > 10
    for address in expected.keys() | reported.keys():
        rows = reported[address]
        tolerance = ROUNDING * max(1, len(rows)) + 1e-9
        assert sum(rows) == pytest.approx(expected[address], abs=tolerance), address


def test_user_space_of_a_real_recording_adds_up_to_what_perf_report_prints(recorded: Any) -> None:
    recording = read_perf_data(recorded.path.read_bytes(), "perf.data")
    counted = max(recording.events, key=lambda one: one.samples)
    user = sum(weight[1] for stack, weight in counted.stacks.items() if stack[0] == MODE_USER)
    rows = [share for kind, _, share in report_of(recorded) if kind == "."]
    expected = 100.0 * user / counted.period
    assert sum(rows) == pytest.approx(expected, abs=ROUNDING * len(rows) + 1e-9)
