# SPDX-License-Identifier: GPL-2.0-or-later
"""Each function is attached by the first mechanism that works, and each refusal is kept."""

from collections.abc import Callable

from schedperf_collectors.bpf.probes import FENTRY, KPROBE, RAW_TRACEPOINT, NoPrograms
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel_files import KernelFunctions
from schedperf_collectors.machine.system import System
from schedperf_collectors.pelt.programs import (
    FUNCTIONS,
    MARKERS,
    attach_functions,
    attach_markers,
    mechanism_of,
)
from schedperf_collectors.plugin import Skipped

ALL = [*FUNCTIONS, *(name for groups in MARKERS.values() for names in groups for name in names)]


def kernel_with(*names: str) -> KernelFunctions:
    return KernelFunctions(addresses=dict.fromkeys(names, (1,)), copies={})


class Picky(NoPrograms):
    """A kernel that refuses some probes: the edge to the loader, which needs such a kernel."""

    def __init__(self, refuses: Callable[[str, str], bool]) -> None:
        super().__init__(Skipped("nothing is counted"))
        self.refuses = refuses
        self.attached: list[tuple[str, str]] = []

    def attach_pair(self, mechanism: str, name: str) -> None:
        if self.refuses(mechanism, name):
            raise Unavailable(f"{mechanism} refused")
        self.attached.append((mechanism, name))

    def attach_raw_tracepoint(self, name: str) -> None:
        self.attach_pair(RAW_TRACEPOINT, name)


def test_each_function_falls_back_by_itself() -> None:
    refused = {(FENTRY, "update_load_avg"), (KPROBE, "update_load_avg"),
               (FENTRY, "update_cfs_group"), (RAW_TRACEPOINT, "pelt_se_tp")}  # fmt: skip
    programs = Picky(lambda mechanism, name: (mechanism, name) in refused)
    tried = attach_functions(programs, kernel_with(*FUNCTIONS))
    assert {name: mechanism_of(one) for name, one in tried.items()} == {
        "update_cfs_group": KPROBE,
        "__update_load_avg_se": FENTRY,
        "__update_load_avg_cfs_rq": FENTRY,
        "update_load_avg": None,
        "pelt_cfs_tp": RAW_TRACEPOINT,
        "pelt_se_tp": None,
    }
    assert list(tried["update_cfs_group"].items()) == [
        (FENTRY, f"{FENTRY} refused"),
        (KPROBE, None),
    ]
    assert tried["__update_load_avg_se"] == {FENTRY: None}


def test_a_function_that_is_not_there_is_not_even_tried() -> None:
    programs = Picky(lambda _mechanism, _name: False)
    tried = attach_functions(programs, kernel_with("update_cfs_group"))
    assert set(programs.attached) == {
        (FENTRY, "update_cfs_group"), (RAW_TRACEPOINT, "pelt_cfs_tp"),
        (RAW_TRACEPOINT, "pelt_se_tp"),
    }  # fmt: skip
    missing = "inlined or not built: not in the kernel's symbols"
    assert tried["update_load_avg"] == {FENTRY: missing, KPROBE: missing}


def test_of_renamed_functions_the_one_that_is_there_is_marked(
    make_system: Callable[..., System],
) -> None:
    older = kernel_with("newidle_balance", "run_rebalance_domains", "enqueue_task_fair")
    marked = attach_markers(Picky(lambda _m, _n: False), make_system({}), older)
    assert marked.mechanism == FENTRY
    assert marked.markers == {
        "enqueue": ["enqueue_task_fair"],
        "newidle": ["newidle_balance"],
        "balance": ["run_rebalance_domains"],
    }
    assert set(marked.missing) == {"dequeue", "tick", "fork", "migration", "switch"}
    assert marked.missing["dequeue"] == (
        "dequeue_task_fair: inlined or not built: not in the kernel's symbols"
    )


def test_all_contexts_are_marked_by_one_mechanism(make_system: Callable[..., System]) -> None:
    programs = Picky(lambda mechanism, _name: mechanism == FENTRY)
    marked = attach_markers(programs, make_system({}), kernel_with(*ALL))
    assert marked.mechanism == KPROBE
    assert set(marked.markers) == set(MARKERS)
    assert not marked.missing


def test_a_kernel_that_refuses_all_markers_says_why(make_system: Callable[..., System]) -> None:
    marked = attach_markers(Picky(lambda _m, _n: True), make_system({}), kernel_with(*ALL))
    assert marked.mechanism is None
    assert not marked.markers
    assert marked.missing["tick"] == f"task_tick_fair: {FENTRY} refused"


def test_a_softirq_that_can_be_preempted_is_not_marked(make_system: Callable[..., System]) -> None:
    system = make_system({"sys/kernel/realtime": "1\n"})
    marked = attach_markers(Picky(lambda _m, _n: False), system, kernel_with(*ALL))
    assert "balance" not in marked.markers
    assert marked.missing == {"balance": "softirqs are preemptible in this kernel"}
