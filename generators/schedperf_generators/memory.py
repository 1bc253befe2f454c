# SPDX-License-Identifier: GPL-2.0-or-later
"""Generate memory samples of machines with many CPUs, with known contended cache lines.

::

    run = scheduler_run("base")
    write_perf_data(run.perf_data())
    run.truth().folded[("runqueues", 0)]["rmt_hitm"]
"""

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

from schedperf_generators.events import MEMORY, Event, SampleType
from schedperf_generators.features import BuildId, Cache, Cpu, Machine
from schedperf_generators.kernel import DATA_START, KernelImage, Symbol, lay_out
from schedperf_generators.memory_kinds import KINDS
from schedperf_generators.numa import DIRECT_MAP, NODE_BYTES, Numa
from schedperf_generators.perf_data import PerfData
from schedperf_generators.records import Comm, Mmap2, Record
from schedperf_generators.samples import MODE_KERNEL, MODE_USER, Sample, Weight

Vendor = Literal["intel", "amd", "arm"]
LINE_BYTES = 64

# Size of the memory blocks by which perf maps physical addresses to nodes.
_BLOCK_BYTES = 1 << 30
_TASK = 4000


@dataclass(frozen=True, kw_only=True, slots=True)
class Touch:
    """Accesses of one kind to one address.

    :param target: a variable, per-CPU variable or slab object of the run
    :param offset: offset of the access in the target
    :param kind: a key of ``KINDS``
    :param function: function of the access
    :param samples: number of samples
    :param cpus: CPUs of the samples, round-robin; None: all. For a per-CPU variable, the CPUs whose
        copies are accessed; for remote and contended loads, other CPUs access them
    :param locked: whether the accesses are locked
    """

    target: str
    offset: int
    kind: str
    function: str
    samples: int
    cpus: tuple[int, ...] | None = None
    locked: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryTruth:
    """The expected counts of a run, from its definition.

    :param totals: perf c2c's "Trace Event Information", by the names of its rows in snake case
    :param lines: counts by column, by address of the line; "records" counts all of its samples
    :param folded: the same by target and offset of the line in it, summed over the copies of a
        per-CPU variable
    :param offsets: the same by target and offset of the access in it
    :param copies: number of CPUs whose copies of each line in ``folded`` were accessed
    """

    totals: Mapping[str, int]
    lines: Mapping[int, Counter[str]]
    folded: Mapping[tuple[str, int], Counter[str]]
    offsets: Mapping[tuple[str, int], Counter[str]]
    copies: Mapping[tuple[str, int], int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A program with one thread per CPU, whose functions access memory.

    :param functions: at file offsets
    :param start: address at which the file is mapped
    """

    path: str
    build_id: bytes
    functions: tuple[Symbol, ...]
    start: int = 0x400000

    def records(self) -> tuple[Record, ...]:
        """Return the records of its start."""
        end = max(function.address + function.size for function in self.functions)
        name = self.path.rpartition("/")[2]
        return (
            Comm(pid=_TASK, comm=name, execed=True, time=1),
            Mmap2(
                pid=_TASK, start=self.start, length=-(-end // 4096) * 4096, path=self.path,
                build_id=self.build_id, time=1,
            ),
        )  # fmt: skip

    def address(self, function: str, offset: int) -> int | None:
        """Return a run-time address in a function; None if it has no such function."""
        starts = (symbol.address for symbol in self.functions if symbol.name == function)
        start = next(starts, None)
        return None if start is None else self.start + start + offset

    def symbols(self) -> str:
        """Return the file of the collector ``symbols``."""
        head = {"format": "schedperf-symbols/1", "build_id": self.build_id.hex(),
                "path": self.path, "table": ".symtab", "functions": len(self.functions),
                "reason": None}  # fmt: skip
        rows = (f"{symbol.address:x} {symbol.size:x} {symbol.name}" for symbol in self.functions)
        return "\n".join((json.dumps(head), *rows, ""))


class _Access(NamedTuple):
    touch: Touch
    cpu: int
    base: int


@dataclass(frozen=True, kw_only=True)
class MemoryRun:
    """One recording of memory samples.

    :param kernel: kernel with the accessing functions and the accessed variables
    :param slabs: address of each slab object, and of each object of the program
    :param program: program with accessing functions; None: only the kernel has such
    :param period: memory operations per sample
    :param ldlat: smallest latency of a sampled load, in cycles
    :param seed: seed for the order of the samples
    :param weight_struct: whether samples have the newer field with three weights
    :param order: byte order of the recording
    """

    numa: Numa
    kernel: KernelImage
    touches: tuple[Touch, ...]
    slabs: Mapping[str, int] = field(default_factory=dict)
    program: Program | None = None
    vendor: Vendor = "intel"
    period: int = 1000
    ldlat: int = 30
    seed: int = 1
    weight_struct: bool = False
    order: Literal["<", ">"] = "<"

    def perf_data(self) -> PerfData:
        """Return the recording, ready to be written."""
        return PerfData(
            events=self._events(),
            records=tuple(self._records()),
            machine=_machine(self.numa, self.vendor, self.kernel.build_id),
            order=self.order,
        )

    def truth(self) -> MemoryTruth:
        """Return the expected counts."""
        totals: Counter[str] = Counter()
        lines: dict[int, Counter[str]] = {}
        folded: dict[tuple[str, int], Counter[str]] = {}
        offsets: dict[tuple[str, int], Counter[str]] = {}
        copies: dict[tuple[str, int], set[int]] = {}
        for touch, _, base in self._accesses:
            kind = KINDS[touch.kind]
            totals.update(("total_records", *kind.totals))
            totals["locked_load_store_operations"] += touch.locked
            address = base + touch.offset
            line = address & -LINE_BYTES
            key = (touch.target, line - base)
            columns = ("records", *kind.columns)
            lines.setdefault(line, Counter()).update(columns)
            folded.setdefault(key, Counter()).update(columns)
            offsets.setdefault((touch.target, touch.offset), Counter()).update(columns)
            copies.setdefault(key, set()).add(base)
        return MemoryTruth(
            totals=totals,
            lines=lines,
            folded=folded,
            offsets=offsets,
            copies={key: len(bases) for key, bases in copies.items()},
        )

    @cached_property
    def _accesses(self) -> tuple[_Access, ...]:
        accesses = [access for touch in self.touches for access in self._of_touch(touch)]
        random.Random(self.seed).shuffle(accesses)  # noqa: S311 # the order of test data
        return tuple(accesses)

    def _of_touch(self, touch: Touch) -> list[_Access]:
        cpus = touch.cpus or tuple(range(self.numa.cpus))
        cpu_sequence = [cpus[number % len(cpus)] for number in range(touch.samples)]
        per_cpu = {symbol.name: symbol.address for symbol in self.kernel.per_cpu}
        if touch.target in per_cpu:
            bases, offset = self.numa.unit_bases(), per_cpu[touch.target]
            return [
                _Access(touch, self._toucher(touch, owner), bases[owner] + offset)
                for owner in cpu_sequence
            ]
        base = self.slabs.get(touch.target)
        if base is None:
            base = self.kernel.address(touch.target)
        return [_Access(touch, cpu, base) for cpu in cpu_sequence]

    def _toucher(self, touch: Touch, owner: int) -> int:
        # A copy is contended because other CPUs read it; its own CPU writes it.
        if "remote" in touch.kind:
            return (owner + self.numa.cpus // self.numa.nodes) % self.numa.cpus
        if "local_hitm" in touch.kind or "local_peer" in touch.kind:
            neighbour = (owner + 1) % self.numa.cpus
            return neighbour if self.numa.node(neighbour) == self.numa.node(owner) else owner - 1
        return owner

    def _events(self) -> tuple[Event, ...]:
        asked = MEMORY
        if self.weight_struct:
            asked = asked & ~SampleType.WEIGHT | SampleType.WEIGHT_STRUCT
        plain = Event(rate=self.period, by_frequency=False, sample_type=asked, precise_ip=3, type=4)
        if self.vendor == "amd":
            return (replace(plain, name="ibs_op//", type=11, precise_ip=0, ids=(1,)),)
        if self.vendor == "arm":
            name = f"arm_spe_0/ts_enable=1,load_filter=1,store_filter=1,min_latency={self.ldlat}/"
            return (replace(plain, name=name, type=12, precise_ip=0, ids=(1,)),)
        loads = f"cpu/mem-loads,ldlat={self.ldlat}/P"
        return (
            replace(plain, name=loads, config=0x1CD, config1=self.ldlat, ids=(1,)),
            replace(plain, name="cpu/mem-stores/P", config=0x2CD, ids=(2,)),
        )

    def _records(self) -> list[Record]:
        records: list[Record] = [*self.kernel.mappings()]
        records += [
            Comm(pid=_TASK + cpu, comm="hackbench", time=1) for cpu in range(self.numa.cpus)
        ]
        records += self.program.records() if self.program else ()
        for number, (touch, cpu, base) in enumerate(self._accesses):
            kind = KINDS[touch.kind]
            ip, mode, pid = self._code(touch, cpu)
            weight = Weight(latency=kind.weight, instruction=kind.weight + 4)
            address = base + touch.offset
            records.append(
                Sample(
                    event=1 if self.vendor == "intel" and "store" in touch.kind else 0,
                    ip=ip,
                    mode=mode,
                    pid=pid,
                    tid=_TASK + cpu,
                    cpu=cpu,
                    time=1000 * (number + 2),
                    period=self.period,
                    address=address,
                    physical=_physical(address),
                    data_src=kind.data_src | (1 << 25 | 1 << 24 if touch.locked else 0),
                    weight=weight if self.weight_struct else kind.weight,
                )
            )
        return records

    def _code(self, touch: Touch, cpu: int) -> tuple[int, int, int]:
        # Instruction, mode and process; the threads of a program are one process.
        offset = 16 + touch.offset % 128
        own = self.program.address(touch.function, offset) if self.program else None
        if own is not None:
            return own, MODE_USER, _TASK
        return self.kernel.address(touch.function, offset), MODE_KERNEL, _TASK + cpu


def _physical(address: int) -> int:
    is_direct = DIRECT_MAP <= address < DIRECT_MAP + (1 << 46)
    return address - DIRECT_MAP if is_direct else 0


def _machine(numa: Numa, vendor: Vendor, build_id: bytes) -> Machine:
    cpuids = {
        "intel": ("x86_64", "GenuineIntel,6,143,8"),
        "amd": ("x86_64", "AuthenticAMD,25,17,1"),
        "arm": ("aarch64", "0x00000000410fd0c0"),
    }
    arch, cpuid = cpuids[vendor]
    return Machine(
        arch=arch,
        cpuid=cpuid,
        command=("/usr/bin/perf", "c2c", "record", "-a"),
        cpus=tuple(
            Cpu(core=cpu, socket=numa.node(cpu), node=numa.node(cpu)) for cpu in range(numa.cpus)
        ),
        memory_bytes=NODE_BYTES,
        memory_block_bytes=_BLOCK_BYTES,
        with_memory=True,
        caches=(Cache(level=1, line_bytes=LINE_BYTES),),
        build_ids=(BuildId(path="[kernel.kallsyms]", raw=build_id, mode=1),),
    )


# Offsets as in a 6.14 kernel, rounded; they only have to be distinct.
_PER_CPU = (
    Symbol("kernel_cpustat", 0x29E40, 0x50),
    Symbol("tick_cpu_sched", 0x2A000, 0x140),
    Symbol("runqueues", 0x2BA40, 0xE00),
)
_VARIABLES = (
    Symbol("jiffies_64", DATA_START + 0x5980, 8),
    Symbol("nohz", DATA_START + 0x6000, 0x40),
    Symbol("sched_clock_irqtime", DATA_START + 0x6040, 4),
    Symbol("root_task_group", DATA_START + 0x7000, 0x280),
)
# The text of a kernel begins with boot code, at the address of _text.
_FUNCTIONS = (
    "startup_64", "update_load_avg", "update_cfs_group", "enqueue_task_fair", "try_to_wake_up",
    "select_task_rq_fair", "sched_balance_trigger", "nohz_balancer_kick",
    "tick_do_update_jiffies64", "available_idle_cpu", "irqtime_account_irq", "cpu_util",
)  # fmt: skip
# An object of the slab cache task_group; load_avg is at offset 256.
_TASK_GROUP = DIRECT_MAP + 0x14A2C8400
LOAD_AVG_AT = 256


def scheduler_kernel(slide: int = 0x1C00000) -> KernelImage:
    """Return a kernel with functions and variables of the scheduler that are often contended."""
    return KernelImage(
        functions=lay_out(_FUNCTIONS, size=0x400),
        variables=_VARIABLES,
        per_cpu=_PER_CPU,
        per_cpu_bytes=Numa().static_bytes,
        slide=slide,
    )


def scheduler_run(
    side: Literal["base", "new"],
    *,
    numa: Numa | None = None,
    vendor: Vendor = "intel",
    seed: int = 1,
    scale: float = 1.0,
) -> MemoryRun:
    """Return a run with contended cache lines, as in real regressions.

    All CPUs read and write ``task_group.load_avg`` (true sharing); its contention decreases from
    base to new. ``nohz`` has a word that every tick writes, next to words that are only read
    (false sharing), and does not change. ``runqueues`` has low contention on each CPU's copy,
    high contention in total, and more in new.

    :param numa: the machine; None for ``Numa()``
    :param scale: factor for the numbers of samples, as for another run length
    """
    numa = numa or Numa()
    local, remote = _CONTENDED[vendor]
    hot, cold = (1.0, 0.5) if side == "base" else (0.15, 1.0)
    group, queue, idle = "task_group", "runqueues", "nohz"
    accesses = (
        (group, LOAD_AVG_AT, remote, "update_cfs_group", 2600 * hot),
        (group, LOAD_AVG_AT, local, "update_cfs_group", 1400 * hot),
        (group, LOAD_AVG_AT, "store", "update_load_avg", 1500 * hot),
        (queue, 4, remote, "available_idle_cpu", 5 * numa.cpus * cold),
        (queue, 4, local, "select_task_rq_fair", 3 * numa.cpus * cold),
        (queue, 4, "store", "enqueue_task_fair", 4 * numa.cpus * cold),
        (queue, 0x48, "load_l1", "cpu_util", 2 * numa.cpus),
        (idle, 8, remote, "nohz_balancer_kick", 300),
        (idle, 16, "store", "sched_balance_trigger", 400),
        ("jiffies_64", 0, remote, "irqtime_account_irq", 60),
        ("jiffies_64", 0, "store", "tick_do_update_jiffies64", 40),
        ("root_task_group", 8, "load_local_dram", "update_load_avg", 25),
        ("root_task_group", 0x88, "load_l2", "update_load_avg", 35),
    )
    stores = "store_na" if vendor == "arm" else "store_l1_hit"
    touches = tuple(
        Touch(
            target=target,
            offset=offset,
            kind=stores if kind == "store" else kind,
            function=function,
            samples=round(samples * scale),
        )
        for target, offset, kind, function, samples in accesses
    )
    return MemoryRun(
        numa=numa, kernel=scheduler_kernel(), touches=touches, slabs={group: _TASK_GROUP},
        vendor=vendor, seed=seed,
    )  # fmt: skip


# By vendor: kinds of samples for lines of another CPU in the node, and in another node.
_CONTENDED: Mapping[Vendor, tuple[str, str]] = {
    "intel": ("load_local_hitm", "load_remote_hitm"),
    "amd": ("load_local_hitm", "load_remote_hitm_cce1"),
    "arm": ("load_local_peer", "load_remote_peer"),
}
