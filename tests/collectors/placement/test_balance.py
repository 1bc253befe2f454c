# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions of the balancer can be watched here, and what their counts become."""

import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from schedperf_collectors.bpf.libbpf import BpfObject
from schedperf_collectors.bpf.objects import read_object
from schedperf_collectors.bpf.probes import NO_KPROBES, lacks_kprobes
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.btf import function_arguments
from schedperf_collectors.machine.kernel_files import find_functions
from schedperf_collectors.machine.system import System
from schedperf_collectors.placement import balance
from schedperf_collectors.placement.balance import (
    DECISIONS,
    KEPT_LOCAL,
    KEY,
    PAIRS,
    VALUE,
    Counts,
    Key,
    candidates,
    choose_functions,
    describe_balance,
    is_nowhere,
    is_watched,
    read_counts,
    table_entries,
)
from schedperf_collectors.placement.machine import Machine, Place, read_machine

SOURCES = Path(balance.__file__).parents[1] / "bpf"
BTF = "/sys/kernel/btf/vmlinux"
FUNC, FUNC_PROTO = 12, 13
BEFORE = {"find_idlest_group": 3, "find_busiest_group": 1, "load_balance": 5, "can_migrate_task": 2}
SINCE = {
    "sched_balance_find_dst_group": 3,
    "sched_balance_find_src_group": 1,
    "sched_balance_rq": 5,
    "can_migrate_task": 2,
}

DECISIONS_BY_NAME = {each.name: number for number, each in enumerate(DECISIONS)}
ONE_CPU = Machine({0: Place(0, (0,))}, 1, 0, ("PKG",), "topology")


def build_btf(functions: Mapping[str, int], order: str = "<") -> bytes:
    """Return the BTF of a kernel with these functions, each with so many arguments."""
    strings, types = b"\0", b""
    for number, (name, arguments) in enumerate(functions.items()):
        types += struct.pack(f"{order}III", 0, FUNC_PROTO << 24 | arguments, 0)
        types += bytes(8 * arguments)
        types += struct.pack(f"{order}III", len(strings), FUNC << 24, 2 * number + 1)
        strings += name.encode() + b"\0"
    header = struct.pack(
        f"{order}HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings)
    )
    return header + types + strings


def build_kallsyms(*names: str) -> str:
    return "".join(f"ffffffff8100{at:04x} t {name}\n" for at, name in enumerate(names))


def find(kallsyms: str, btf: bytes, system: System) -> tuple[dict[str, str], dict[str, str]]:
    """Return the function of each decision, and of each that is invisible the reason."""
    names = [name for each in DECISIONS for name in each.functions]
    system.path("/proc").mkdir(parents=True)
    system.path("/proc/kallsyms").write_text(kallsyms)
    symbols = find_functions(system, [*names, "find_idlest_cpu", "detach_tasks"])
    functions, invisible = choose_functions(symbols, function_arguments(btf, names))
    return functions, {each["what"]: each["reason"] for each in invisible}


@pytest.fixture
def attached() -> Iterator[balance.Balance]:
    """Watch the balancer of this machine, as far as it lets itself be watched."""
    watching = balance.start(read_machine(System()))
    yield watching
    watching.close()


@pytest.mark.parametrize("names", [BEFORE, SINCE])
@pytest.mark.parametrize("order", ["<", ">"])
def test_each_decision_is_found_under_the_kernels_own_name(
    names: dict[str, int], order: str, make_system: Callable[..., System]
) -> None:
    kallsyms = build_kallsyms(*names, "find_idlest_cpu", "detach_tasks")
    functions, invisible = find(kallsyms, build_btf(names, order), make_system({}))
    assert list(functions.values()) == list(names)
    assert invisible == {}


def test_a_function_that_was_cloned_is_named_with_its_clone(
    make_system: Callable[..., System],
) -> None:
    kallsyms = build_kallsyms(
        "sched_balance_find_dst_group.isra.0", "find_busiest_group", "load_balance"
    )
    functions, invisible = find(kallsyms, build_btf(BEFORE), make_system({}))
    assert functions == {"source": "find_busiest_group", "attempt": "load_balance"}
    assert set(invisible) == {
        "sched_balance_find_dst_group", "can_migrate_task", "find_idlest_cpu", "detach_tasks",
    }  # fmt: skip
    clone = invisible.pop("sched_balance_find_dst_group")
    assert clone == "inlined: the kernel's symbols contain only sched_balance_find_dst_group.isra.0"
    assert all(
        "inlined or not built: not in the kernel's symbols" in reason
        for reason in invisible.values()
    )


def test_a_function_with_other_arguments_or_without_a_type_is_left_alone(
    make_system: Callable[..., System],
) -> None:
    # find_idlest_group() had a fourth argument, sd_flag, before v5.4.
    types = {"find_idlest_group": 4, "find_busiest_group": 1, "load_balance": 5}
    kallsyms = build_kallsyms(*BEFORE, "find_idlest_cpu", "detach_tasks")
    functions, invisible = find(kallsyms, build_btf(types), make_system({}))
    assert functions == {"source": "find_busiest_group", "attempt": "load_balance"}
    assert invisible == {
        "find_idlest_group": "has 4 arguments in this kernel (expected 3)",
        "can_migrate_task": "not in the kernel's BTF",
    }


@pytest.mark.parametrize("length", range(0, len(build_btf(BEFORE)), 7))
def test_types_that_were_cut_off_are_an_error_or_fewer_functions(length: int) -> None:
    try:
        found = function_arguments(build_btf(BEFORE)[:length], BEFORE)
    except Unavailable as error:
        assert "BTF of vmlinux" in error.reason  # noqa: PT017 # both ends are fine
    else:
        assert found.items() <= BEFORE.items()


def test_damaged_types_are_the_reason_why_nothing_is_seen(
    make_system: Callable[..., System],
) -> None:
    files = {
        "proc/kallsyms": build_kallsyms(*BEFORE),
        "sys/kernel/btf/vmlinux": build_btf(BEFORE)[:11],
    }
    watching = balance.start(ONE_CPU, make_system(files))
    assert len(watching.invisible) == len(DECISIONS)
    assert all("BTF of vmlinux is truncated" in each["reason"] for each in watching.invisible)


@pytest.mark.parametrize("missing", ["proc/kallsyms", "sys/kernel/btf/vmlinux"])
def test_without_symbols_or_types_all_is_invisible_with_that_reason(
    missing: str, make_system: Callable[..., System]
) -> None:
    files = {"proc/kallsyms": build_kallsyms(*BEFORE), "sys/kernel/btf/vmlinux": build_btf(BEFORE)}
    del files[missing]
    watching = balance.start(ONE_CPU, make_system(files))
    assert {each["what"]: each["reason"] for each in watching.invisible} == {
        decision.functions[0]: f"/{missing}: no such file or directory" for decision in DECISIONS
    }
    watching.open_gate()
    watching.close_gate()
    assert watching.read() is None
    assert (watching.programs, watching.lost) == ({}, {})


def test_exits_that_have_the_arguments_need_no_entries() -> None:
    functions = {"source": "some_name", "attempt": "other_name"}
    trampolines, probes = (
        [(each.slot, each.program, each.mechanism) for each in candidates(functions, pair)]
        for pair in PAIRS
    )
    assert trampolines == [
        ("source_leave", "source_fexit", "fexit"),
        ("attempt_enter", "attempt_fentry", "fentry"),
        ("attempt_leave", "attempt_fexit", "fexit"),
    ]
    assert probes == [
        ("source_enter", "source_kprobe", "kprobe"),
        ("source_leave", "source_kretprobe", "kretprobe"),
        ("attempt_enter", "attempt_kprobe", "kprobe"),
        ("attempt_leave", "attempt_kretprobe", "kretprobe"),
    ]


def test_each_refused_program_has_the_reasons_of_both_pairs(attached: balance.Balance) -> None:
    refused = {
        slot: program["reason"] or ""
        for slot, program in attached.programs.items()
        if program["mechanism"] is None
    }
    if not refused:
        pytest.skip("this kernel refuses none of the programs")
    if shutil.which("clang") is None:
        pytest.skip("needs clang")
    for slot, reason in refused.items():
        assert "kprobe" in reason, slot
    if lacks_kprobes():
        # Of all programs it is the same, and is said once.
        (reason,) = set(refused.values())
        if "trivial BPF program" in reason:
            # Who may not load any program gets one reason for both pairs.
            assert reason.startswith("fentry/fexit, kprobe/kretprobe: ")
        else:
            assert reason.startswith("fentry/fexit: ")
            assert reason.endswith(f"; {NO_KPROBES}")


def test_domains_of_one_name_are_one_level_and_only_one_cpu_knows_the_name() -> None:
    machine = Machine({0: Place(0, (0,)), 1: Place(8, (1,))}, 2, 0, ("PKG",), "topology")
    values = VALUE.pack(1, 0, 0, 0, 0, b"") + VALUE.pack(2, 1, 0, 0, 1, b"MC")
    items = [
        (KEY.pack(0xFFFF1000, 1, 0, DECISIONS_BY_NAME["attempt"], 2, 0), values),
        (KEY.pack(0xFFFF2000, 1, 0, DECISIONS_BY_NAME["attempt"], 2, 0), values),
        (KEY.pack(3, 0, KEPT_LOCAL, 0, 0, 1), VALUE.pack(5, 0, 0, 0, 0, b"")),
    ]
    assert read_counts(items, machine) == {
        make_key("attempt", level="MC", from_node=8, to_node=0, idle="newidle"): Counts(
            6, 2, 0, 0, 2
        ),
        # A kernel without names of domains has numbers of levels.
        make_key("destination", level="level 3", is_local=True, yes=True): Counts(5, 0, 0, 0, 0),
    }


def test_each_decision_here_is_watched_or_said_to_be_invisible(attached: balance.Balance) -> None:
    said = {each["what"] for each in attached.invisible if each["reason"]}
    for decision in DECISIONS:
        assert is_watched(attached.programs, decision.name) != bool(said & set(decision.functions))
    for program in attached.programs.values():
        assert (program["mechanism"] is None) == bool(program["reason"])


def test_what_is_watched_here_counts_and_what_is_not_is_none(
    attached: balance.Balance, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    attached.open_gate()
    for _ in range(11):
        subprocess.run(["true"])
    if is_watched(attached.programs, "attempt"):
        wait_for(lambda: bool((attached.read() or {})["attempts"]))
    attached.close_gate()
    parts = attached.read()
    watched = [decision for decision in DECISIONS if is_watched(attached.programs, decision.name)]
    if not watched:
        assert parts is None
        return
    assert parts is not None
    for decision in DECISIONS:
        assert (parts[decision.part] is None) == (decision not in watched)
    # A CPU that is idle for a while looks for work.
    attempts = parts["attempts"]
    assert attempts is None or sum(row["count"] for row in attempts) > 0  # type: ignore[misc] # JSON


def test_records_are_as_large_as_those_of_the_programs() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make BPF maps")
    try:
        loaded = BpfObject(read_object("balance"), "balance")
    except Unavailable as error:
        pytest.skip(error.reason)
    with loaded:
        loaded.load([])
        counts = loaded.map("balance_counts")
        assert (counts.key_size, counts.value_size) == (KEY.size, VALUE.size)


@pytest.mark.parametrize("name", ["balance", "timers"])
def test_the_programs_name_members_as_this_kernel_does(name: str, tmp_path: Path) -> None:
    if not (shutil.which("bpftool") and shutil.which("clang") and Path(BTF).exists()):
        pytest.skip("needs bpftool, clang and a kernel with BTF")
    with (tmp_path / "vmlinux.h").open("wb") as header:
        subprocess.run(
            ["bpftool", "btf", "dump", "file", BTF, "format", "c"], stdout=header, check=True
        )
    command = ["clang", "-target", "bpf", "-O2", "-g", "-DUSE_VMLINUX_H", f"-I{tmp_path}"]
    done = subprocess.run(
        [*command, "-c", str(SOURCES / f"{name}.bpf.c"), "-o", str(tmp_path / "object")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def make_key(decision: str, **changed: object) -> Key:
    values: dict[str, object] = {
        "decision": decision,
        "level": "NUMA",
        "from_node": 0,
        "to_node": None,
        "is_local": False,
        "idle": "busy",
        "yes": False,
    }
    return Key(**{**values, **changed})  # type: ignore[arg-type] # one dict for all members


def test_counts_become_rows_and_what_is_not_watched_none() -> None:
    counts = {
        make_key("destination", to_node=1, yes=True): Counts(13, 0, 0, 0, 12),
        make_key("destination", is_local=True): Counts(5, 0, 0, 0, 0),
        make_key("attempt", level="MC", idle="newidle"): Counts(9, 3, 2, 1, 4),
        make_key("attempt", level="MC", from_node=1): Counts(9, 0, 0, 0, 1),
        make_key("migratable", idle="idle", yes=True): Counts(7, 0, 0, 0, 0),
    }
    parts = describe_balance(counts, {"destination", "attempt", "migratable"})
    assert parts["source"] is None
    assert parts["destination"] == [
        {"level": "NUMA", "from_node": 0, "to_node": 1, "fork": True, "count": 13,
         "imbalanced": 12},
        {"level": "NUMA", "from_node": 0, "to_node": None, "fork": False, "count": 5,
         "imbalanced": 0},
    ]  # fmt: skip
    assert parts["attempts"] is not None
    assert parts["attempts"][0] == {
        "level": "MC", "idle": "newidle", "node": 0, "count": 9, "pulled": 3, "some_pinned": 2,
        "all_pinned": 1,
    }  # fmt: skip
    assert parts["migratable"] == [
        {"level": "NUMA", "idle": "idle", "answer": True, "some_pinned": 0, "count": 7}
    ]
    assert parts["group_imbalance"] == [{"level": "MC", "count": 5}]


def test_an_unknown_node_is_not_taken_for_the_local_group() -> None:
    assert not is_nowhere(make_key("destination", is_local=True))
    assert is_nowhere(make_key("destination"))
    assert is_nowhere(make_key("attempt", from_node=None))
    # Neither part names a node.
    assert not is_nowhere(make_key("source", from_node=None))


def test_the_table_holds_all_that_a_small_machine_can_count_and_stays_small_on_a_large_one() -> (
    None
):
    assert table_entries(nodes=2, possible=4) == 10 * (12 + 12 + 6)
    for nodes, possible in ((8, 512), (64, 4096), (64, 8192)):
        entries = table_entries(nodes, possible)
        assert entries >= 256
        assert entries * possible * VALUE.size <= 112 << 20
