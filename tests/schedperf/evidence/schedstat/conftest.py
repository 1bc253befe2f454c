# SPDX-License-Identifier: GPL-2.0-or-later
"""Generators of /proc/schedstat and of what perf makes of it.

They write the fields in the order of show_schedstat() of each version, which is spelled out here
again, so that the parsers' own table is tested and not repeated.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.shared_data import shared

CPU_ORDER = [
    "yld_count", "array_exp", "sched_count", "sched_goidle", "ttwu_count",
    "ttwu_local", "rq_cpu_time", "run_delay", "pcount",
]  # fmt: skip
OLD_BALANCE = [
    "count", "balanced", "failed", "imbalance", "gained",
    "hot_gained", "nobusyq", "nobusyg",
]  # fmt: skip
NEW_BALANCE = [
    "count", "balanced", "failed", "imbalance_load", "imbalance_util",
    "imbalance_task", "imbalance_misfit", "gained", "hot_gained", "nobusyq",
    "nobusyg",
]  # fmt: skip
TAIL = [
    "alb_count", "alb_failed", "alb_pushed", "sbe_count", "sbe_balanced",
    "sbe_pushed", "sbf_count", "sbf_balanced", "sbf_pushed", "ttwu_wake_remote",
    "ttwu_move_affine", "ttwu_move_balance",
]  # fmt: skip
IDLE_ORDER = {
    15: ("idle", "busy", "newidle"),
    16: ("busy", "idle", "newidle"),
    17: ("busy", "idle", "newidle"),
}
IDLE_WORDS = {"idle": "idle", "busy": "busy", "newidle": "newly idle"}
CPU_SENTENCES = (
    "sched_yield() count",
    "Legacy counter can be ignored",
    "schedule() called",
    "schedule() left the processor idle",
    "try_to_wake_up() was called",
    "try_to_wake_up() was called to wake up the local cpu",
    "total runtime by tasks on this processor (in jiffies)",
    "total waittime by tasks on this processor (in jiffies)",
    "total timeslices run on this cpu",
)
BALANCE_SENTENCES = {
    "count": "load_balance() count",
    "balanced": "load_balance() found balanced",
    "failed": "load_balance() move task failed",
    "imbalance": "imbalance sum",
    "imbalance_load": "imbalance in load",
    "imbalance_util": "imbalance in utilization",
    "imbalance_task": "imbalance in number of tasks",
    "imbalance_misfit": "imbalance in misfit tasks",
    "gained": "pull_task() count",
    "hot_gained": "pull_task() when target task was cache-hot",
    "nobusyq": "load_balance() failed to find busier queue",
    "nobusyg": "load_balance() failed to find busier group",
}
TAIL_SENTENCES = (
    "active_load_balance() count",
    "active_load_balance() move task failed",
    "active_load_balance() successfully moved a task",
    *(f"{name} is not used" for name in TAIL[3:9]),
    "try_to_wake_up() awoke a task that last ran on a diff cpu",
    "try_to_wake_up() moved task because cache-cold on own cpu",
    "try_to_wake_up() started passive balancing",
)

Counts = Mapping[str, int]
# By CPU: counts of the CPU and of its domains, keys as "sched_count" and "newidle lb_gained".
Machine = Mapping[int, Counts]


def domain_order(version: int) -> list[str]:
    """Return the keys of a domain line's numbers, as "newidle lb_gained"."""
    names = NEW_BALANCE if version >= 17 else OLD_BALANCE
    return [f"{idle} lb_{name}" for idle in IDLE_ORDER[version] for name in names] + TAIL


def numbers(order: Sequence[str], counts: Counts) -> list[int]:
    return [counts.get(name, 0) for name in order]


def write_schedstat(
    version: int,
    machine: Machine,
    *,
    levels: Sequence[tuple[str, str]] = (("MC", "3"),),
    jiffies: int = 4295000000,
) -> str:
    """Write a snapshot of a machine whose domains all have the same CPUs."""
    lines = [f"version {version}", f"timestamp {jiffies}"]
    for cpu, counts in machine.items():
        lines.append(f"cpu{cpu} {' '.join(map(str, numbers(CPU_ORDER, counts)))}")
        for number, (name, mask) in enumerate(levels):
            who = f"{name} {mask}" if version >= 17 else mask
            found = " ".join(map(str, numbers(domain_order(version), counts)))
            lines.append(f"domain{number} {who} {found}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def make_schedstat() -> Callable[..., str]:
    """Write a snapshot of a machine whose domains all have the same CPUs."""
    return write_schedstat


def write_report(version: int, machine: Machine, *, name: str = "0", jiffies: int = 150000) -> str:
    """Write what ``perf sched stats report`` prints for changes of CPUs with one domain."""
    cpus = f"{min(machine)}-{max(machine)}, \b\b"
    lines = ["Columns description", "-" * 100, "COUNT\t\t\t-> Value of the field"]
    lines += [f"{'Time elapsed (in jiffies)':<65}: {jiffies:>11}", "-" * 100]
    heads: list[tuple[str, str, Counts]] = [
        ("CPU <ALL CPUS SUMMARY>", f"CPU <ALL CPUS SUMMARY>, DOMAIN {name}", {})
    ]
    heads += [
        (f"CPU {cpu}", f"CPU {cpu}, DOMAIN {name} CPUS <{cpus}>", counts)
        for cpu, counts in machine.items()
    ]
    for of_cpu, of_domain, counts in heads:
        lines += [of_cpu, "-" * 100, "DESC   COUNT   PCT_CHANGE", "-" * 100]
        values = numbers(CPU_ORDER, counts)
        lines += [
            f"{text:<65}: {one:>11}  (  21.57% )"
            for text, one in zip(CPU_SENTENCES, values, strict=True)
        ]
        lines += ["-" * 100, of_domain, "-" * 100, "DESC   COUNT   AVG_JIFFIES"]
        lines += report_of_domain(version, counts)
    return "\n".join(lines) + "\n"


@pytest.fixture
def make_report() -> Callable[..., str]:
    """Write what ``perf sched stats report`` prints for changes of CPUs with one domain."""
    return write_report


def report_of_domain(version: int, counts: Counts) -> list[str]:
    lines = []
    names = NEW_BALANCE if version >= 17 else OLD_BALANCE
    for idle in IDLE_ORDER[version]:
        lines.append(f"{'-' * 40} <Category {idle}> {'-' * 40}")
        for name in names:
            text = f"{BALANCE_SENTENCES[name]} on cpu {IDLE_WORDS[idle]}"
            lines.append(f"{text:<65}: {counts.get(f'{idle} lb_{name}', 0):>11}  $  9.15 $")
        lines.append(f"*load_balance() success count on cpu {IDLE_WORDS[idle]:<20}:       1663")
        lines.append(f"*avg task pulled per successful lb attempt (cpu {IDLE_WORDS[idle]}) : 1.48")
    lines.append(f"{'-' * 40} <Wakeup Info> {'-' * 40}")
    lines += [
        f"{text:<65}: {counts.get(name, 0):>11}"
        for text, name in zip(TAIL_SENTENCES, TAIL, strict=True)
    ]
    return lines


def write_sched_stats_data(
    version: int,
    moments: Mapping[int, Machine],
    *,
    form: str = "patches",
    name: str = "MC",
    features: int = 0,
    order: str = "<",
) -> bytes:
    """Write the perf.data of ``perf sched stats record``: snapshots by time stamp.

    :param form: "patches" (records 83 and 84) or "upstream" (85 and 86, domains in the header)
    """
    writer = write_patches if form == "patches" else write_upstream
    records = b"".join(
        writer(
            version=version,
            time=time,
            cpu=cpu,
            counts=counts,
            name=name,
            order=order,
            cpus=len(machine),
        )
        for time, machine in moments.items()
        for cpu, counts in machine.items()
    )
    bits = features | (1 << 32 if form == "upstream" else 0)
    magic = b"PERFILE2" if order == "<" else b"2ELIFREP"
    header = magic + struct.pack(f"{order}6Q", 104, 152, 104, 0, 104, len(records))
    header += struct.pack(f"{order}6Q", 0, 0, bits, 0, 0, 0)
    tail = b""
    if form == "upstream":
        info = header_info(version, next(iter(moments.values())), name, order)
        tail = struct.pack(f"{order}2Q", len(header + records) + 16, len(info)) + info
    return header + records + tail


@pytest.fixture
def make_sched_stats_data() -> Callable[..., bytes]:
    """Write the perf.data of ``perf sched stats record``: snapshots by time stamp."""
    return write_sched_stats_data


def record_of(kind: int, body: bytes, order: str) -> bytes:
    padded = body + b"\0" * (-len(body) % 8)
    return struct.pack(f"{order}IHH", kind, 0, 8 + len(padded)) + padded


def domain_numbers(version: int, counts: Counts, order: str) -> bytes:
    values = numbers(domain_order(version), counts)
    # The union has room for the longest version.
    return struct.pack(f"{order}{len(values)}I", *values).ljust(180, b"\0")


def write_patches(
    *, version: int, time: int, cpu: int, counts: Counts, name: str, cpus: int, order: str
) -> bytes:
    body = struct.pack(f"{order}Q6I3QIH", time, *numbers(CPU_ORDER, counts), cpu, version)
    found = record_of(83, body, order)
    shown = name.encode() if version >= 17 else b""
    head = struct.pack(f"{order}H6xQIH16s2x", version, time, cpu, 0, shown)
    mask = ((1 << cpus) - 1).to_bytes(-(-cpus // 8), "little")
    body = head + domain_numbers(version, counts, order) + struct.pack(f"{order}H", cpus) + mask
    return found + record_of(84, body, order)


def write_upstream(
    *, version: int, time: int, cpu: int, counts: Counts, name: str, cpus: int, order: str
) -> bytes:
    del name, cpus  # The header has them.
    head = struct.pack(f"{order}QIH", time, cpu, version)
    values = struct.pack(f"{order}6I3Q", *numbers(CPU_ORDER, counts))
    number = struct.pack(f"{order}H", 0)
    return record_of(85, head + b"\0\0" + values, order) + record_of(
        86, head + number + domain_numbers(version, counts, order), order
    )


def header_info(version: int, machine: Machine, name: str, order: str) -> bytes:
    def text(value: str) -> bytes:
        raw = value.encode() + b"\0"
        raw += b"\0" * (-len(raw) % 64)
        return struct.pack(f"{order}I", len(raw)) + raw

    mask = f"{(1 << len(machine)) - 1:x}"
    info = struct.pack(f"{order}2I", version, 1)
    for cpu in machine:
        info += struct.pack(f"{order}3I", cpu, 1, 0)
        info += (text(name) if version >= 17 else b"") + text(mask) + text("0-1")
    return info


@pytest.fixture
def samples() -> Path:
    """Return the directory with reports and recordings of 11 kernels; skip where it is not."""
    return shared("data/schedstats/20250519")


@pytest.fixture
def sum_sentences() -> Callable[[Path], dict[str, float]]:
    """Sum a report's numbers over its CPUs by their sentence, wherever the sentence stands.

    A report has its summary first, so of each sentence the first number is left out. The keys are
    those of the tables above, "newidle lb_gained"; no position and no version has a part in it.
    """
    names = dict(zip((*CPU_SENTENCES, *TAIL_SENTENCES), (*CPU_ORDER, *TAIL), strict=True)) | {
        f"{text} on cpu {word}": f"{idle} lb_{name}"
        for name, text in BALANCE_SENTENCES.items()
        for idle, word in IDLE_WORDS.items()
    }

    def sums(path: Path) -> dict[str, float]:
        found: dict[str, list[float]] = {}
        for line in path.read_text().splitlines():
            sentence, _, rest = line.partition(":")
            name = names.get(sentence.strip())
            if name is not None:
                found.setdefault(name, []).append(float(rest.split()[0]))
        return {name: sum(values[1:]) for name, values in found.items()}

    return sums


def make_stat_runs(
    pulls: Sequence[int], *, version: int = 17, files: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return runs of a bundle, one for each count of newidle pulls in 250 ticks of two CPUs."""
    start = {"sched_count": 5, "pcount": 5, "newidle lb_gained": 7, "newidle lb_count": 9}
    before = dict.fromkeys((0, 1), start)
    return [
        {
            "files": {
                "schedstat/before": write_schedstat(version, before),
                "schedstat/after": write_schedstat(
                    version,
                    {
                        cpu: {
                            "sched_count": 5 + 1000,
                            "ttwu_count": 700,
                            "pcount": 5 + 500,
                            "run_delay": 2_000_000,
                            "newidle lb_gained": 7 + count,
                            "newidle lb_count": 9 + 5000,
                        }
                        for cpu in before
                    },
                    jiffies=4295000250,
                ),
                **(files or {}),
            }
        }
        for count in pulls
    ]


@pytest.fixture
def stat_runs() -> Callable[..., list[dict[str, Any]]]:
    """Return runs of a bundle: ``stat_runs([900, 910], version=17)``."""
    return make_stat_runs
