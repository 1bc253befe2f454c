# SPDX-License-Identifier: GPL-2.0-or-later
"""Define name, meaning and kernel function of each placement counter."""

from collections.abc import Mapping
from typing import NamedTuple

from schedperf.evidence.placement.measure import Key
from schedperf.model.counted import Basis
from schedperf.model.text import join_names


class Field(NamedTuple):
    """Description of a counter.

    :param title: suffix of the subject, e.g. "between nodes"; "" if the subject itself is counted
    :param meaning: meaning of the count, mean, quantile or maximum; "" if there is only a share
    :param share: meaning of the share; "" if there is none
    :param function: kernel function that decides; for waits, the tracepoints that delimit them
    """

    title: str
    meaning: str
    share: str
    function: str


# Newest names; the section uses the names in the kernels of the sides.
FIND_DESTINATION = "sched_balance_find_dst_group()"
FIND_SOURCE = "sched_balance_find_src_group()"
BALANCE = "sched_balance_rq()"
SELECT = "select_task_rq_fair()"
# A wait begins at the first tracepoint (the task becomes runnable) and ends at the second.
WAIT_TRACEPOINTS = "sched_wakeup to sched_switch"
MIGRATE = "set_task_cpu()"
BANDWIDTH = "sched_cfs_period_timer()"

# Kernel functions by cause of the move.
MOVERS: Mapping[str, str] = {
    "fork": FIND_DESTINATION,
    "exec": "sched_exec()",
    "wakeup": SELECT,
    "load_balance": BALANCE,
    "numa": "task_numa_migrate()",
    "affinity": "__set_cpus_allowed_ptr()",
    "migration": MIGRATE,
    "other": MIGRATE,
}

_MOVES = {
    "count": Field("", "task moves", "share of all moves from the source node", MIGRATE),
    "crossing": Field(
        "between nodes",
        "task moves between NUMA nodes",
        "share of moves that change the NUMA node",
        MIGRATE,
    ),
    "onto_type": Field(
        "", "task moves onto CPUs of this type", "share of moves onto CPUs of this type", MIGRATE
    ),
}
_WAIT = "from runnable to running"

FIELDS: Mapping[str, Mapping[str, Field]] = {
    "move": _MOVES,
    "latency": {
        "mean": Field("mean", f"mean time {_WAIT}", "", WAIT_TRACEPOINTS),
        "p50": Field("p50", f"median time {_WAIT}", "", WAIT_TRACEPOINTS),
        "p99": Field("p99", f"99th percentile of the time {_WAIT}", "", WAIT_TRACEPOINTS),
        "p99.9": Field("p99.9", f"99.9th percentile of the time {_WAIT}", "", WAIT_TRACEPOINTS),
        "max": Field("max", f"longest time {_WAIT} in a run", "", WAIT_TRACEPOINTS),
    },
    "depth": {
        "mean": Field("mean", "mean task group depth (0: root group)", "", "update_cfs_group()"),
    },
    "destination": {
        "count": Field("", "searches for a sched_group to place a task in", "", FIND_DESTINATION),
        "remote": Field(
            "sent to another node", "searches that chose a sched_group on another node",
            "share of searches that chose a sched_group on another node", FIND_DESTINATION,
        ),
        "imbalanced": Field(
            "imbalance seen", "searches while sgc->imbalance was set",
            "share of searches while sgc->imbalance was set", FIND_DESTINATION,
        ),
    },
    "source": {
        "count": Field("", "searches for a sched_group to pull from", "", FIND_SOURCE),
        "found": Field(
            "found", "searches that found a sched_group to pull from",
            "share of searches that found a sched_group to pull from", FIND_SOURCE,
        ),
    },
    "attempts": {
        "count": Field("", "load-balancing attempts", "", BALANCE),
        "pulled": Field(
            "tasks pulled", "tasks pulled", "tasks pulled per load-balancing attempt", BALANCE
        ),
    },
    "pinned": {
        "some_pinned": Field(
            "some pinned", "load-balancing attempts that found a pinned task (LBF_SOME_PINNED)",
            "share of load-balancing attempts that found a pinned task (LBF_SOME_PINNED)",
            "can_migrate_task()",
        ),
        "all_pinned": Field(
            "all pinned", "load-balancing attempts that found only pinned tasks (LBF_ALL_PINNED)",
            "share of load-balancing attempts that found only pinned tasks (LBF_ALL_PINNED)",
            "can_migrate_task()",
        ),
    },
    "migratable": {
        "count": Field("", "tasks that the balancer considered", "", "can_migrate_task()"),
        "refused": Field(
            "refused", "tasks that can_migrate_task() refused",
            "share of tasks that can_migrate_task() refused", "can_migrate_task()",
        ),
        "some_pinned": Field(
            "some pinned", "tasks for which LBF_SOME_PINNED was set",
            "share of tasks for which LBF_SOME_PINNED was set", "can_migrate_task()",
        ),
    },
    "group_imbalance": {
        "count": Field(
            "", "load-balancing attempts that found sgc->imbalance set, or set it",
            "share of load-balancing attempts that found sgc->imbalance set, or set it", BALANCE,
        ),
    },
    "timers": {
        "expiries": Field("expiries", "expiries of the CFS bandwidth period timer", "", BANDWIDTH),
        "overruns": Field("overruns", "timer expiries more than one period late", "", BANDWIDTH),
        "concentration": Field(
            "concentration", "",
            "mean resultant length of a timer's phases: 1 if all phases are equal", BANDWIDTH,
        ),
        "distance": Field(
            "phase distance", "time between the expiries of the two timers", "",
            "init_cfs_bandwidth()",
        ),
        "alignment": Field(
            "alignment", "",
            "mean resultant length of the cgroups' timer phases: 1 if all expire together",
            "init_cfs_bandwidth()",
        ),
    },
}  # fmt: skip

_SUBJECTS: Mapping[str, str] = {
    "fork": "forks",
    "exec": "execs",
    "wakeup": "wakeups",
    "migration": "migrations",
    "cause": "migrations",
    "latency": "wait",
    "depth": "depth of task groups",
    "destination": "destinations",
    "source": "busiest groups",
    "attempts": "load balancing attempts",
    "pinned": "load balancing attempts",
    "migratable": "tasks considered",
    "group_imbalance": "imbalance of groups",
    "timers": "timers",
}
_WORDS = {"load_balance": "load balance", "numa": "NUMA balancing"}


def about(key: Key) -> Field:
    """Return the description of a counter."""
    fields = FIELDS.get(key.part, FIELDS["move"])
    return fields[key.field]


def function_of(key: Key) -> str:
    """Return the kernel function that decides; for waits, the tracepoints that delimit them."""
    return about(key).function if key.part in FIELDS else MOVERS[key.cause or key.part]


def meaning_of(key: Key, basis: Basis) -> str:
    """Return the meaning of a counter, or of its share, in words."""
    field = about(key)
    if basis == "share" and len(key.types) > 1:
        return "share of all moves from the source type of core"
    return field.share if basis == "share" and field.share else field.meaning


def name_of(key: Key) -> str:
    """Return the name of a row: ``migrations by load balance 0 -> 1``, ``wait on node 0: p99``."""
    words = [_subject(key), *_where(key)]
    title = about(key).title
    return f"{' '.join(words)}: {title}" if title else " ".join(words)


def _subject(key: Key) -> str:
    subject = _SUBJECTS[key.part]
    if key.groups:
        return f"{subject} of {join_names(key.groups)}"
    if not key.cause:
        return subject
    word = _WORDS.get(key.cause, key.cause)
    return f"{word} {subject}" if key.part == "destination" else f"{subject} by {word}"


def _where(key: Key) -> list[str]:
    words = [f"at {key.level}"] if key.level else []
    words += [key.idle] if key.idle else []
    if len(key.nodes) == 1:
        words.append(f"{'from' if key.part == 'destination' else 'on'} node {key.nodes[0]}")
    elif key.nodes:
        words.append(" -> ".join(map(str, key.nodes)))
    if key.field == "onto_type":
        words.append(f"onto {key.types[0]}")
    elif len(key.types) == 1:
        words.append(f"on {key.types[0]}")
    elif key.types:
        words.append(" -> ".join(key.types))
    return words
