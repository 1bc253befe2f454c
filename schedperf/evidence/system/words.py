# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the meaning of each system counter, and the kernel function that increments it.

The texts are derived from the kernel's documentation (admin-guide/pm/cpuidle.rst,
accounting/psi.rst, scheduler/sched-bwc.rst) and from the named functions of Linux 6.12.
"""

from collections.abc import Mapping
from typing import NamedTuple

from schedperf.evidence.system.record import Group


class About(NamedTuple):
    """Meaning of a counter.

    :param function: kernel function; "" if hardware or a driver counts
    """

    meaning: str
    function: str = ""


_FIELDS: Mapping[tuple[str, str], About] = {
    ("cgroup", "throttled_share"): About(
        "share of quota periods in which the cgroup was throttled", "sched_cfs_period_timer()"
    ),
    ("cgroup", "nr_throttled"): About(
        "quota periods in which the cgroup was throttled", "throttle_cfs_rq()"
    ),
    ("cgroup", "nr_periods"): About("elapsed quota periods", "sched_cfs_period_timer()"),
    ("cgroup", "throttled"): About(
        "time in which a cfs_rq of the cgroup was throttled, summed over CPUs", "throttle_cfs_rq()"
    ),
    ("cgroup", "nr_bursts"): About(
        "quota periods in which the cgroup used more than its quota",
        "__refill_cfs_bandwidth_runtime()",
    ),
    ("cgroup", "burst"): About(
        "CPU time beyond the quota, from unused quota of earlier periods",
        "__refill_cfs_bandwidth_runtime()",
    ),
    ("cgroup", "usage"): About("CPU time of the cgroup", "update_curr()"),
    ("cgroup", "user"): About("CPU time of the cgroup in user mode", "update_curr()"),
    ("cgroup", "system"): About("CPU time of the cgroup in kernel mode", "update_curr()"),
    ("power", "energy"): About("energy counted by the hardware"),
    ("power", "power"): About("power measured by the hardware"),
    ("idle", "usage"): About("entries into the idle state", "cpuidle_enter_state()"),
    ("idle", "time"): About("time in the idle state, summed over CPUs", "cpuidle_enter_state()"),
    ("idle", "share"): About("share of CPU time in the idle state", "cpuidle_enter_state()"),
    ("idle", "above"): About(
        "entries that ended before the target residency of the idle state",
        "menu_select(), teo_select()",
    ),
    ("idle", "above_share"): About(
        "share of entries into the idle state that ended before its target residency",
        "menu_select(), teo_select()",
    ),
    ("idle", "below"): About(
        "entries that lasted long enough for a deeper idle state",
        "menu_select(), teo_select()",
    ),
    ("idle", "below_share"): About(
        "share of entries into the idle state that lasted long enough for a deeper one",
        "menu_select(), teo_select()",
    ),
    ("idle", "rejected"): About(
        "rejected requests to enter the idle state", "cpuidle_enter_state()"
    ),
    ("cgroup", "quota"): About("CPU time quota of the cgroup per period"),
    ("cgroup", "period"): About("length of a quota period"),
    ("frequency", "mean"): About("CPU frequency during the run, mean over CPUs"),
    ("frequency", "total_trans"): About(
        "CPU frequency transitions", "cpufreq_stats_record_transition()"
    ),
    ("frequency", "cur"): About(
        "CPU frequency immediately before and after the run, mean over CPUs"
    ),
    ("frequency", "min"): About("lowest allowed CPU frequency, mean over CPUs"),
    ("frequency", "max"): About("highest allowed CPU frequency, mean over CPUs"),
    ("cpu", "share"): About("share of total CPU time", "account_process_tick()"),
    ("cpu", "time"): About("CPU time", "account_process_tick()"),
    ("tasks", "wait_mean"): About(
        "mean time that a runnable task waited for its CPU", "update_stats_wait_end_fair()"
    ),
    ("tasks", "slice_mean"): About(
        "mean time that a task ran before it was switched out", "pick_next_task_fair()"
    ),
    ("tasks", "involuntary_share"): About(
        "share of context switches that were involuntary", "resched_curr()"
    ),
    ("tasks", "migrations_mean"): About("task migrations per context switch", "set_task_cpu()"),
    ("tasks", "remote_share"): About(
        "share of wakeups onto a CPU other than the waker's", "select_task_rq_fair()"
    ),
    ("tasks", "iowait_mean"): About("mean duration of an I/O wait", "io_schedule()"),
}
# Meaning of the columns of /proc/stat (proc_stat(5)); processes are not distinguished.
_CPU_TIMES: Mapping[str, str] = {
    "user": "in user mode, all tasks",
    "nice": "in user mode, all niced tasks: other load, unless the workload is niced",
    "system": "in kernel mode, all tasks",
    "idle": "of idle CPUs",
    "iowait": "of idle CPUs with a task that waits for I/O",
    "irq": "in interrupt handlers",
    "softirq": "in softirqs",
    "steal": "that the hypervisor gave to other guests",
    "guest": "of guests (user includes it)",
    "guest_nice": "of niced guests (nice includes it)",
}
# The root group has no separate statistics: the kernel sums cpustat over CPUs, as in /proc/stat.
ROOT = "/"
_ROOT: Mapping[str, str] = {
    "usage": "CPU time of all tasks and interrupts, sum of cpustat over CPUs",
    "user": "CPU time in user mode, sum of cpustat over CPUs",
    "system": "CPU time in kernel mode, sum of cpustat over CPUs",
}
_TOTALS: Mapping[str, About] = {
    "ctxt": About("context switches", "__schedule()"),
    "processes": About("created tasks", "kernel_clone()"),
}
_SOFTIRQS: Mapping[str, str] = {
    "HI": "tasklet_hi_action()",
    "TIMER": "run_timer_softirq()",
    "NET_TX": "net_tx_action()",
    "NET_RX": "net_rx_action()",
    "BLOCK": "blk_done_softirq()",
    "IRQ_POLL": "irq_poll_softirq()",
    "TASKLET": "tasklet_action()",
    "SCHED": "sched_balance_softirq()",
    "HRTIMER": "hrtimer_run_softirq()",
    "RCU": "rcu_core()",
}
# Names of x86 are short; those of arm64 are the descriptions in smp.c.
_INTERRUPTS: Mapping[str, About] = {
    "LOC": About("local timer interrupts", "hrtimer_interrupt()"),
    "RES": About("rescheduling IPIs", "scheduler_ipi()"),
    "CAL": About("function call IPIs", "flush_smp_call_function_queue()"),
    "TLB": About("TLB shootdown IPIs", "flush_tlb_func()"),
    "IWI": About("IRQ work interrupts", "irq_work_run()"),
    "NMI": About("non-maskable interrupts", "default_do_nmi()"),
    "PMI": About("performance monitoring interrupts", "perf_event_nmi_handler()"),
    "Rescheduling interrupts": About("rescheduling IPIs", "scheduler_ipi()"),
    "Function call interrupts": About("function call IPIs", "flush_smp_call_function_queue()"),
}
_RESOURCES: Mapping[str, str] = {
    "cpu": "a CPU",
    "memory": "memory",
    "io": "I/O",
    "irq": "interrupt handling",
}


def rank(group: Group, field: str) -> int:
    """Return the rank of a field in its group; fields without a meaning come last."""
    order = [name for field_group, name in _FIELDS if field_group == group]
    return order.index(field) if field in order else len(order)


def about(group: Group, subject: str, field: str) -> About:
    """Return the meaning of a counter; "counted by the kernel" if it has none."""
    if group == "pressure":
        return _about_pressure(subject)
    if group == "cpu" and subject in _TOTALS:
        return _TOTALS[subject]
    if (group, field) in _FIELDS and group == "cpu" and subject in _CPU_TIMES:
        counted = _FIELDS[group, field]
        return counted._replace(meaning=f"{counted.meaning} {_CPU_TIMES[subject]}")
    if group == "cgroup" and subject == ROOT and field in _ROOT:
        return About(_ROOT[field], "root_cgroup_cputime()")
    if group in ("softirqs", "interrupts"):
        return _about_interrupts(group, subject)
    return _FIELDS.get((group, field), About("counted by the kernel"))


def _about_interrupts(group: Group, subject: str) -> About:
    if group == "softirqs":
        return About("number of softirqs of this type", _SOFTIRQS.get(subject, ""))
    return _INTERRUPTS.get(subject, About("number of interrupts of this device or type"))


def _about_pressure(subject: str) -> About:
    resource, _, kind = subject.partition(" ")
    who = "all non-idle tasks" if kind == "full" else "at least one task"
    awaited = _RESOURCES.get(resource, resource)
    return About(f"share of time in which {who} waited for {awaited}", "psi_group_change()")
