"""Where the time went: shares of functions from counted samples.

Pure functions on what :mod:`schedperf.captures.perf_data` read. Shares are
weighted by period, as in ``perf report``, whose totals they equal.

Two denominators, never mixed: a share of **all CPUs** is of everything that was
sampled, idle time included (that is what ``perf report`` prints); the share of a
**node** is of what its own CPUs did while not idle, so that a node that sleeps
half of the time is not half as hot.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from schedperf.captures.kernel_symbols import KernelSymbols
from schedperf.captures.perf_data import (
    KERNEL_PID,
    MODE_GUEST_KERNEL,
    MODE_GUEST_USER,
    MODE_HYPERVISOR,
    MODE_KERNEL,
    MODE_USER,
    EventSamples,
    PerfData,
)

KERNEL = "[kernel]"
IDLE_PID = 0

# What a compiler appends to the parts and copies of a function: the part that seldom runs, the
# copy for one argument, the part that was split off. gcc and clang with LTO number them.
_PART_SUFFIX = re.compile(
    r"\.(?:cold|isra|constprop|part|lto_priv|llvm|warm|localalias|cfi|cfi_jt)(?:\.\d+)*"
)

# A CPU is idle in samples of process 0 that end in one of these. Process 0 does other things too:
# interrupts, softirqs and `schedule` from the idle loop are work.
IDLE_ROUTINES: Mapping[str, str] = {
    "default_idle": "x86: halts",
    "amd_e400_idle": "x86: halts, with an erratum",
    "native_safe_halt": "x86: the halt itself",
    "pv_native_safe_halt": "x86: the halt itself, since 6.7",
    "native_halt": "x86: the halt itself",
    "kvm_safe_halt": "x86: the halt of a guest",
    "tdx_halt": "x86: the halt of a confidential guest",
    "tdx_safe_halt": "x86: the halt of a confidential guest",
    "xen_safe_halt": "x86: the halt of a Xen guest",
    "arch_cpu_idle": "all: enters the architecture's routine",
    "default_idle_call": "all: without a cpuidle driver; interrupts come back on here",
    "mwait_idle": "x86: waits with mwait",
    "mwait_idle_with_hints": "x86: waits with mwait",
    "intel_idle": "x86: the intel_idle driver",
    "intel_idle_irq": "x86: the intel_idle driver",
    "intel_idle_ibrs": "x86: the intel_idle driver",
    "intel_idle_xstate": "x86: the intel_idle driver",
    "intel_idle_hlt": "x86: the intel_idle driver in a guest",
    "acpi_idle_do_entry": "ACPI: enters a state",
    "acpi_idle_enter": "ACPI: enters a state; interrupts come back on here",
    "acpi_safe_halt": "ACPI: the halt itself",
    "acpi_processor_ffh_cstate_enter": "ACPI: waits with mwait",
    "cpu_do_idle": "arm64: wfi",
    "psci_enter_idle_state": "arm64: asks the firmware to sleep",
    "cpuidle_enter_state": "all: interrupts come back on here after the driver slept",
    "poll_idle": "all: spins because it expects to be woken at once",
    "cpu_idle_poll": "all: spins, with idle=poll",
    "haltpoll_enter_idle": "guests: spins, then halts",
}

# kernel/sched of Linux 5.15 to 6.18, by the beginning of a name.
_SCHEDULER_PREFIXES = (
    # PELT and the load of task groups.
    "update_load_avg", "__update_load_avg", "update_cfs_group", "update_tg_load_avg",
    "update_tg_cfs", "propagate_entity", "__update_blocked", "update_blocked_",
    "sched_balance_update_blocked", "sync_entity_load", "remove_entity_load", "attach_entity",
    "detach_entity", "accumulate_sum", "decay_load", "calc_group_", "reweight_",
    "update_rt_rq_load", "update_irq_load", "util_est", "tg_", "walk_tg_tree",
    # Enqueue, dequeue and pick.
    "enqueue_task", "dequeue_task", "enqueue_entity", "dequeue_entit", "__enqueue_entity",
    "__dequeue_entity", "activate_task", "deactivate_task", "ttwu_", "try_to_wake_up", "sched_ttwu",
    "pick_next_", "__pick_next_", "pick_task", "pick_eevdf", "__pick_eevdf", "pick_entity",
    "put_prev_", "set_next_", "place_entity", "check_preempt_", "wakeup_preempt", "resched_curr",
    "__resched_curr", "update_curr", "update_min_vruntime", "min_vruntime_", "__calc_delta",
    "avg_vruntime", "vruntime_eligible", "entity_eligible", "entity_tick", "entity_before",
    "update_deadline", "update_entity_lag", "wake_affine", "wake_up_new_task", "sched_slice",
    "context_switch", "prepare_task_switch", "finish_task_switch", "switch_mm_cid", "yield_task",
    # Choice of a CPU and balancing.
    "select_task_rq", "select_idle", "__select_idle", "available_idle_cpu", "find_idlest",
    "sched_balance_", "load_balance", "newidle_balance", "rebalance_domains", "find_busiest",
    "update_sd_", "update_sg_", "update_group_capacity", "detach_task", "attach_task",
    "can_migrate_task", "migration_cpu_stop", "active_load_balance", "nohz_balance",
    "nohz_idle_balance", "nohz_csd_func", "nohz_run_idle", "kick_ilb", "trigger_load_balance",
    "should_we_balance", "calculate_imbalance", "cpu_util", "cpu_load", "set_task_cpu",
    "move_queued_task", "migrate_task", "task_h_load", "update_cfs_rq_h_load",
    # The tick, clocks and accounting of run queues.
    "sched_tick", "scheduler_tick", "task_tick", "update_rq_clock", "hrtick", "account_entity",
    "account_user_time", "account_system_", "account_idle", "account_process_", "cpuacct_",
    "cpu_cgroup", "psi_", "raw_spin_rq_", "_raw_spin_rq_", "task_rq_lock", "__task_rq_lock",
    "task_sched_runtime", "sched_clock_cpu",
    # Bandwidth, real time and deadline, sched_ext, utilisation of the frequency governor.
    "throttle_cfs", "unthrottle_cfs", "__account_cfs", "sched_cfs_", "push_rt", "pull_rt",
    "push_dl", "pull_dl", "inc_rt", "dec_rt", "scx_", "sugov_", "sched_core_",
)  # fmt: skip
# These are the beginning of other names: schedule_work, update_sem …
_SCHEDULER_NAMES = frozenset(
    ("schedule", "__schedule", "schedule_idle", "schedule_preempt_disabled", "schedule_tail",
     "preempt_schedule", "preempt_schedule_common", "preempt_schedule_irq",
     "preempt_schedule_notrace", "update_se", "balance_fair", "balance_rt", "balance_dl",
     "balance_stop", "balance_idle", "balance_push", "balance_callback", "balance_one")
)  # fmt: skip


class Place(NamedTuple):
    """Where a sample was.

    :param symbol: a function, or ``[libc.so.6] unresolved`` for all of a file
    :param dso: ``[kernel]``, a module ``[nf_conntrack]``, or a file's name
    """

    symbol: str
    dso: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """One event's samples by place; weights are sums of periods.

    :param samples: how many there are
    :param weights: over all CPUs, idle time included
    :param node_weights: over each NUMA node's CPUs, idle time left out
    :param idle: weight of idle time over all CPUs
    """

    samples: int
    weights: Mapping[Place, int]
    node_weights: Mapping[int, Mapping[Place, int]]
    idle: int


def profile_event(
    recording: PerfData,
    counted: EventSamples,
    symbols: KernelSymbols | None,
    node_of_cpu: Mapping[int, int],
) -> Profile:
    """Give every sample of one event its place, under the symbol's own name.

    :param symbols: of the kernel that was recorded; None leaves its samples unresolved
    :param node_of_cpu: CPU number to NUMA node; samples of other CPUs belong to no node
    """
    find_place = _place_finder(recording, symbols)
    weights: Counter[Place] = Counter()
    nodes: defaultdict[int, Counter[Place]] = defaultdict(Counter)
    idle = 0
    for (mode, cpu, pid, address, _), (_, period) in counted.stacks.items():
        place = find_place(mode, pid, address)
        weights[place] += period
        if pid == IDLE_PID and is_idle_routine(place):
            idle += period
        elif cpu in node_of_cpu:
            nodes[node_of_cpu[cpu]][place] += period
    return Profile(samples=counted.samples, weights=weights, node_weights=nodes, idle=idle)


def fold_parts(profile: Profile) -> Profile:
    """Return the profile with the parts and copies of each function together under its name.

    Which parts a compiler makes differs from build to build: without this,
    ``finish_task_switch.isra.0`` would vanish and ``finish_task_switch`` appear.
    """
    return Profile(
        samples=profile.samples,
        weights=_fold(profile.weights),
        node_weights={node: _fold(weights) for node, weights in profile.node_weights.items()},
        idle=profile.idle,
    )


def shares(weights: Mapping[Place, int]) -> dict[Place, float]:
    """Return each place's share in per cent of their sum; empty if nothing was counted."""
    total = sum(weights.values())
    return {place: 100.0 * weight / total for place, weight in weights.items()} if total else {}


def function_name(symbol: str) -> str:
    """Return the name of the function that a symbol is a part or a copy of.

    >>> function_name("finish_task_switch.isra.0"), function_name("do_exit.cold")
    ('finish_task_switch', 'do_exit')
    """
    return _PART_SUFFIX.sub("", symbol)


def is_idle_routine(place: Place) -> bool:
    """Say whether this is code in which process 0 waits for work."""
    return function_name(place.symbol) in IDLE_ROUTINES


def is_scheduler_function(place: Place) -> bool:
    """Say whether this is a function of kernel/sched, most of which run with interrupts off."""
    name = function_name(place.symbol)
    return place.dso == KERNEL and (
        name in _SCHEDULER_NAMES or name.startswith(_SCHEDULER_PREFIXES)
    )


def _fold(weights: Mapping[Place, int]) -> dict[Place, int]:
    folded: Counter[Place] = Counter()
    for place, weight in weights.items():
        folded[place._replace(symbol=function_name(place.symbol))] += weight
    return dict(folded)


def _place_finder(
    recording: PerfData, symbols: KernelSymbols | None
) -> Callable[[int, int, int], Place]:
    # Stacks are many and addresses few, so every address is looked up once.
    known: dict[tuple[int, int, int], Place] = {}

    def find_place(mode: int, pid: int, address: int) -> Place:
        key = (mode, pid, address)
        place = known.get(key)
        if place is None:
            place = known[key] = _find_place(recording, symbols, mode, pid, address)
        return place

    return find_place


def _find_place(
    recording: PerfData, symbols: KernelSymbols | None, mode: int, pid: int, address: int
) -> Place:
    if mode == MODE_KERNEL:
        symbol = symbols.find(address) if symbols else None
        if symbol is not None:
            dso = f"[{symbol.module}]" if symbol.module else KERNEL
            return Place(symbol.name, dso)
        module = recording.mappings.find(KERNEL_PID, address)
        return _unresolved(KERNEL if module is None else f"[{_module_name(module)}]")
    if mode == MODE_USER:
        return _unresolved(_file_name(recording.mappings.find(pid, address)))
    return _unresolved(_OTHER_MODES.get(mode, "[unknown]"))


_OTHER_MODES = {
    MODE_HYPERVISOR: "[hypervisor]",
    MODE_GUEST_KERNEL: "[guest kernel]",
    MODE_GUEST_USER: "[guest]",
}


def _unresolved(dso: str) -> Place:
    bracketed = dso if dso.startswith("[") else f"[{dso}]"
    return Place(f"{bracketed} unresolved", dso)


def _file_name(path: str | None) -> str:
    return "unknown" if path is None else path.rpartition("/")[2] or path


def _module_name(path: str) -> str:
    # /lib/modules/6.1.0/kernel/net/foo-bar.ko.xz is the module foo_bar.
    return path.rpartition("/")[2].partition(".ko")[0].strip("[]").replace("-", "_")
