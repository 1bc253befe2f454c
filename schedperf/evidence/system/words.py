# SPDX-License-Identifier: GPL-2.0-or-later
"""What a count of the system means, in words, and which function of the kernel counts it.

Read from the kernel's own documents (admin-guide/pm/cpuidle.rst, accounting/psi.rst,
scheduler/sched-bwc.rst) and from the functions that are named, of Linux 6.12.
"""

from collections.abc import Mapping
from typing import NamedTuple, get_args

from schedperf.evidence.system.record import Group


class About(NamedTuple):
    """What is said of a count.

    :param function: of the kernel; "" where hardware or a driver counts
    """

    meaning: str
    function: str = ""


GROUPS: tuple[Group, ...] = get_args(Group)
BY_NAME: tuple[Group, ...] = ("interrupts", "softirqs")

_FIELDS: Mapping[tuple[str, str], About] = {
    ("cgroup", "throttled_share"): About(
        "share of the group's periods in which it used up its quota", "sched_cfs_period_timer()"
    ),
    ("cgroup", "nr_throttled"): About(
        "periods in which the group used up its quota", "throttle_cfs_rq()"
    ),
    ("cgroup", "nr_periods"): About("periods of the quota", "sched_cfs_period_timer()"),
    ("cgroup", "throttled"): About(
        "time in which a queue of the group was throttled, summed over CPUs", "throttle_cfs_rq()"
    ),
    ("cgroup", "nr_bursts"): About(
        "periods in which the group used more than its quota", "__refill_cfs_bandwidth_runtime()"
    ),
    ("cgroup", "burst"): About(
        "CPU time beyond the quota, from earlier periods", "__refill_cfs_bandwidth_runtime()"
    ),
    ("cgroup", "usage"): About("CPU time of the group", "update_curr()"),
    ("cgroup", "user"): About("CPU time of the group in programs", "update_curr()"),
    ("cgroup", "system"): About("CPU time of the group in the kernel", "update_curr()"),
    ("power", "energy"): About("energy from the hardware counters"),
    ("power", "power"): About("power that the hardware measured"),
    ("idle", "usage"): About("entries of the state", "cpuidle_enter_state()"),
    ("idle", "time"): About("time in the state, summed over CPUs", "cpuidle_enter_state()"),
    ("idle", "share"): About("share of CPU time in the state", "cpuidle_enter_state()"),
    ("idle", "above"): About("entries too short for the state", "menu_select(), teo_select()"),
    ("idle", "above_share"): About(
        "share of the entries that were too short for the state", "menu_select(), teo_select()"
    ),
    ("idle", "below"): About(
        "entries long enough for a deeper state", "menu_select(), teo_select()"
    ),
    ("idle", "below_share"): About(
        "share of the entries that were long enough for a deeper state",
        "menu_select(), teo_select()",
    ),
    ("idle", "rejected"): About("entries that the hardware refused", "cpuidle_enter_state()"),
    ("cgroup", "quota"): About("CPU time that the group may have in a period"),
    ("cgroup", "period"): About("period of the quota"),
    ("frequency", "mean"): About("frequency in the run, mean over CPUs"),
    ("frequency", "total_trans"): About(
        "changes of frequency", "cpufreq_stats_record_transition()"
    ),
    ("frequency", "cur"): About("frequency just before and just after the run, mean over CPUs"),
    ("frequency", "min"): About("lowest frequency that is allowed, mean over CPUs"),
    ("frequency", "max"): About("highest frequency that is allowed, mean over CPUs"),
    ("cpu", "share"): About("share of the time of all CPUs", "account_process_tick()"),
    ("cpu", "time"): About("time of CPUs, summed over them", "account_process_tick()"),
    ("tasks", "wait_mean"): About(
        "mean wait of a runnable task for its CPU", "update_stats_wait_end_fair()"
    ),
    ("tasks", "slice_mean"): About("mean time that a task kept its CPU", "pick_next_task_fair()"),
    ("tasks", "involuntary_share"): About(
        "involuntary ones among all context switches", "resched_curr()"
    ),
    ("tasks", "migrations_mean"): About("migrations of a task to another CPU", "set_task_cpu()"),
    ("tasks", "remote_share"): About(
        "share of the wakeups that came from another CPU", "select_task_rq_fair()"
    ),
    ("tasks", "iowait_mean"): About("mean wait of a task for input or output", "io_schedule()"),
}
# The root group has no statistics of its own: the kernel adds up those of its CPUs (cpustat), the
# times that /proc/stat shows.
ROOT = "/"
_ROOT: Mapping[str, str] = {
    "usage": "CPU time of all tasks and interrupts, added up from the CPUs' cpustat",
    "user": "CPU time in programs, added up from the CPUs' cpustat",
    "system": "CPU time in the kernel, added up from the CPUs' cpustat",
}
_TOTALS: Mapping[str, About] = {
    "ctxt": About("switches from one task to another", "__schedule()"),
    "processes": About("new tasks", "kernel_clone()"),
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
# x86 has short names; arm64 has the words of smp.c.
_INTERRUPTS: Mapping[str, About] = {
    "LOC": About("interrupts of the CPUs' own timers", "hrtimer_interrupt()"),
    "RES": About("interrupts that wake another CPU", "scheduler_ipi()"),
    "CAL": About("calls of functions on other CPUs", "flush_smp_call_function_queue()"),
    "TLB": About("shootdowns of other CPUs' TLBs", "flush_tlb_func()"),
    "IWI": About("queued work of interrupts", "irq_work_run()"),
    "NMI": About("interrupts that nothing masks", "default_do_nmi()"),
    "PMI": About("interrupts of the performance counters", "perf_event_nmi_handler()"),
    "Rescheduling interrupts": About("interrupts that wake another CPU", "scheduler_ipi()"),
    "Function call interrupts": About(
        "calls of functions on other CPUs", "flush_smp_call_function_queue()"
    ),
}
_RESOURCES: Mapping[str, str] = {
    "cpu": "a CPU",
    "memory": "memory",
    "io": "input or output",
    "irq": "interrupts to end",
}


def rank(group: Group, field: str) -> int:
    """Return the place of a field among those of its group; one without words is the last."""
    order = [name for found, name in _FIELDS if found == group]
    return order.index(field) if field in order else len(order)


def about(group: Group, subject: str, field: str) -> About:
    """Say what is counted; what has no words of its own is "counted by the kernel"."""
    if group == "pressure":
        return _about_pressure(subject)
    if group == "cpu" and subject in _TOTALS:
        return _TOTALS[subject]
    if group == "cgroup" and subject == ROOT and field in _ROOT:
        return About(_ROOT[field], "root_cgroup_cputime()")
    if group == "softirqs":
        return About("softirqs of this kind", _SOFTIRQS.get(subject, ""))
    if group == "interrupts":
        return _INTERRUPTS.get(subject, About("interrupts of this line"))
    return _FIELDS.get((group, field), About("counted by the kernel"))


def _about_pressure(subject: str) -> About:
    resource, _, kind = subject.partition(" ")
    who = "all tasks that could work" if kind == "full" else "at least one task"
    awaited = _RESOURCES.get(resource, resource)
    return About(f"share of time in which {who} waited for {awaited}", "psi_group_change()")
