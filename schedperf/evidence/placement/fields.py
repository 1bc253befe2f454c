# SPDX-License-Identifier: GPL-2.0-or-later
"""What each number of a placement is: its name, what it means, where the kernel does it."""

from collections.abc import Mapping
from typing import NamedTuple

from schedperf.evidence.placement.measure import Key
from schedperf.model.counted import Basis


class Field(NamedTuple):
    """What a number is.

    :param title: follows the subject: "between nodes"; "": the subject itself is counted
    :param meaning: of the count, or of the mean
    :param share: meaning of the share of it; "": there is none
    :param function: of the kernel that does it
    """

    title: str
    meaning: str
    share: str
    function: str


# Newest names, since Linux 6.10; the name before stands in parentheses.
FIND_DESTINATION = "sched_balance_find_dst_group() (find_idlest_group())"
FIND_SOURCE = "sched_balance_find_src_group() (find_busiest_group())"
BALANCE = "sched_balance_rq() (load_balance())"
SELECT = "select_task_rq_fair()"
# A wait begins at the first of them, at which a task gets runnable, and ends at the other.
WAIT_TRACEPOINTS = "sched_wakeup to sched_switch"
MIGRATE = "set_task_cpu()"
BANDWIDTH = "sched_cfs_period_timer()"

# By what moved a task.
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
    "count": Field("", "moves", "share of those from the first node", MIGRATE),
    "crossing": Field("between nodes", "from one node to another", "share between nodes", MIGRATE),
}
_WAIT = "from runnable to running"

FIELDS: Mapping[str, Mapping[str, Field]] = {
    "move": _MOVES,
    "latency": {
        "mean": Field("mean", f"mean time {_WAIT}", "", WAIT_TRACEPOINTS),
        "p50": Field("p50", f"median time {_WAIT}", "", WAIT_TRACEPOINTS),
        "p99": Field("p99", f"time {_WAIT} that 1% exceed", "", WAIT_TRACEPOINTS),
        "p99.9": Field("p99.9", f"time {_WAIT} that 0.1% exceed", "", WAIT_TRACEPOINTS),
        "max": Field("max", f"longest time {_WAIT} of a run", "", WAIT_TRACEPOINTS),
    },
    "depth": {
        "mean": Field("mean", "levels of task groups above a task", "", "update_cfs_group()"),
    },
    "destination": {
        "count": Field("", "searches for the group of CPUs of a new task", "", FIND_DESTINATION),
        "remote": Field(
            "sent to another node", "results that are a group of another node",
            "share of results that are a group of another node", FIND_DESTINATION,
        ),
        "imbalanced": Field(
            "imbalance seen", "results while sgc->imbalance of a group was set",
            "share of results while sgc->imbalance of a group was set", FIND_DESTINATION,
        ),
    },
    "source": {
        "count": Field("", "searches for a group of CPUs to pull from", "", FIND_SOURCE),
        "found": Field(
            "found", "searches that found one", "share of searches that found one", FIND_SOURCE
        ),
    },
    "attempts": {
        "count": Field("", "attempts to balance", "", BALANCE),
        "pulled": Field("tasks pulled", "tasks moved", "tasks moved by an attempt", BALANCE),
    },
    "pinned": {
        "some_pinned": Field(
            "some pinned", "attempts that met a task that cannot migrate (LBF_SOME_PINNED)",
            "share of attempts that met a task that cannot migrate (LBF_SOME_PINNED)",
            "can_migrate_task()",
        ),
        "all_pinned": Field(
            "all pinned", "attempts that met no task that can migrate (LBF_ALL_PINNED)",
            "share of attempts that met no task that can migrate (LBF_ALL_PINNED)",
            "can_migrate_task()",
        ),
    },
    "migratable": {
        "count": Field("", "tasks that the balancer looked at", "", "can_migrate_task()"),
        "refused": Field(
            "refused", "tasks that cannot or should not migrate",
            "share of tasks that cannot or should not migrate", "can_migrate_task()",
        ),
        "some_pinned": Field(
            "some pinned", "tasks that set LBF_SOME_PINNED",
            "share of tasks that set LBF_SOME_PINNED", "can_migrate_task()",
        ),
    },
    "group_imbalance": {
        "count": Field(
            "", "attempts that saw or set sgc->imbalance",
            "share of attempts that saw or set sgc->imbalance", BALANCE,
        ),
    },
    "timers": {
        "expiries": Field("expiries", "expiries of the period timer", "", BANDWIDTH),
        "overruns": Field("overruns", "expiries more than a period late", "", BANDWIDTH),
        "concentration": Field(
            "concentration", "",
            "mean resultant length of a timer's phases: 1 where they are equal", BANDWIDTH,
        ),
        "distance": Field(
            "phase distance", "time from the one timer's expiry to the other's", "",
            "init_cfs_bandwidth()",
        ),
        "alignment": Field(
            "alignment", "",
            "mean resultant length of the groups' phases: 1 where they expire together",
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
    "attempts": "balance attempts",
    "pinned": "balance attempts",
    "migratable": "tasks considered",
    "group_imbalance": "imbalance of groups",
    "timers": "timers",
}
_WORDS = {"load_balance": "load balance", "numa": "NUMA balancing"}


def about(key: Key) -> Field:
    """Return what a number is."""
    fields = FIELDS.get(key.part, FIELDS["move"])
    return fields[key.field]


def function_of(key: Key) -> str:
    """Return the function of the kernel whose doing it is."""
    return about(key).function if key.part in FIELDS else MOVERS[key.cause or key.part]


def meaning_of(key: Key, basis: Basis) -> str:
    """Say what a number means in words."""
    field = about(key)
    return field.share if basis == "share" and field.share else field.meaning


def name_of(key: Key) -> str:
    """Name a number: ``migrations by load balance 0 -> 1``, ``wait on node 0: p99``."""
    words = [_subject(key), *_where(key)]
    title = about(key).title
    return f"{' '.join(words)}: {title}" if title else " ".join(words)


def _subject(key: Key) -> str:
    subject = _SUBJECTS[key.part]
    if key.groups:
        return f"{subject} of {' and '.join(key.groups)}"
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
    return words
