# SPDX-License-Identifier: GPL-2.0-or-later
"""Generate profiles of whole machines with known hot functions.

::

    kernel = profiled_kernel()
    data = profile(kernel, {("update_load_avg", 0): 120, ("update_load_avg", 1): 40})
    write_perf_data(data)
"""

import random
from collections.abc import Mapping
from typing import Literal

from schedperf_generators.events import PLAIN, Event, SampleType
from schedperf_generators.features import BuildId, Cache, Cpu, Machine
from schedperf_generators.kernel import MODULES_START, KernelImage, lay_out
from schedperf_generators.perf_data import PerfData
from schedperf_generators.records import FINISHED_ROUND, Comm, Fork, Mmap2, Record
from schedperf_generators.samples import (
    CONTEXT_KERNEL,
    CONTEXT_USER,
    MODE_KERNEL,
    MODE_USER,
    Sample,
)

_FUNCTIONS = (
    "entry_SYSCALL_64_after_hwframe", "do_syscall_64", "ksys_read", "ksys_write", "pipe_write",
    "pipe_read", "schedule", "__schedule", "enqueue_task_fair", "dequeue_entities",
    "update_load_avg", "update_cfs_group", "try_to_wake_up", "select_task_rq_fair",
    "sched_balance_rq", "native_queued_spin_lock_slowpath", "pv_native_safe_halt",
    "do_idle", "start_secondary",
)  # fmt: skip
_MODULE = "nf_conntrack"
_MODULE_FUNCTIONS = ("nf_conntrack_in", "nf_ct_get_tuple")
# The outermost functions of call chains into the scheduler, innermost first.
_CALLERS = ("__schedule", "schedule", "pipe_read", "ksys_read", "do_syscall_64")
# The benchmark and its library; the files need not exist.
_BENCHMARK, _LIBRARY = "/opt/bench/hackbench", "/opt/bench/libmessages.so.1"
_BENCHMARK_AT, _LIBRARY_AT = 0x555555554000, 0x7FFFF7D00000
_USER_BYTES = 0x20000
_PARENT = 4000
_STEP_NS = 250_000
# Key of samples in user space.
USER = "user"


def profiled_kernel(slide: int = 0x2E00000) -> KernelImage:
    """Return a kernel with the functions of a messaging benchmark, and one module."""
    module = lay_out(_MODULE_FUNCTIONS, MODULES_START + 0x23000, module=_MODULE)
    return KernelImage(functions=(*lay_out(_FUNCTIONS, size=0x380), *module), slide=slide)


def profile(
    kernel: KernelImage,
    samples: Mapping[tuple[str, int], int],
    *,
    event: Event | None = None,
    cpus: int = 4,
    nodes: int = 2,
    chains: bool = True,
    order: Literal["<", ">"] = "<",
    seed: int = 1,
) -> PerfData:
    """Return a recording of a benchmark with one task per CPU.

    :param samples: number of samples by function (or ``USER``) and CPU
    :param event: the sampled event; None: cycles
    :param cpus: number of CPUs, spread evenly over the nodes
    :param chains: whether cycles are sampled with call chains; ignored if ``event`` is given
    :param order: byte order of the recording
    :param seed: seed for the order and the periods
    """
    # For a reproducible order, not for cryptography.
    digits = random.Random(seed)  # noqa: S311
    places = [location for location, count in samples.items() for _ in range(count)]
    digits.shuffle(places)
    asked = PLAIN | SampleType.CALLCHAIN if chains else PLAIN
    records: list[Record] = [*kernel.mappings(), *_tasks(cpus)]
    start_ns = 1000 * len(records)
    for number, (function, cpu) in enumerate(places):
        time = start_ns + _STEP_NS * number
        period = digits.randrange(100_000, 300_000)
        ip, mode, chain = _stack(kernel, function, digits.randrange(64))
        records.append(
            Sample(
                ip=ip, mode=mode, pid=_PARENT + 1 + cpu, cpu=cpu, time=time, period=period,
                chain=chain,
            )
        )  # fmt: skip
        if number % 100 == 0:
            records.append(FINISHED_ROUND)
    machine = Machine(
        cpus=tuple(
            Cpu(core=cpu, socket=cpu * nodes // cpus, node=cpu * nodes // cpus)
            for cpu in range(cpus)
        ),
        caches=(Cache(level=1, line_bytes=64),),
        build_ids=(
            BuildId(path="[kernel.kallsyms]", raw=kernel.build_id, mode=1),
            BuildId(path=_BENCHMARK, raw=bytes(range(20, 40))),
            BuildId(path=_LIBRARY, raw=bytes(range(40, 60))),
        ),
    )
    return PerfData(
        events=(event or Event(sample_type=asked),), records=tuple(records), machine=machine,
        order=order,
    )  # fmt: skip


def _tasks(cpus: int) -> list[Record]:
    # The benchmark maps its files; its children, one per CPU, share the mappings.
    maps = ((_BENCHMARK, _BENCHMARK_AT), (_LIBRARY, _LIBRARY_AT))
    records: list[Record] = [Comm(pid=_PARENT, comm="hackbench", execed=True, time=1)]
    records += [
        Mmap2(pid=_PARENT, start=start, length=_USER_BYTES, path=path, time=2 + index)
        for index, (path, start) in enumerate(maps)
    ]
    records += [
        Fork(pid=_PARENT + 1 + cpu, parent_pid=_PARENT, time=10 + cpu, cpu=cpu)
        for cpu in range(cpus)
    ]
    return records


def _stack(kernel: KernelImage, function: str, offset: int) -> tuple[int, int, tuple[int, ...]]:
    # The sampled address, the mode and the call chain.
    user_chain = (CONTEXT_USER, _LIBRARY_AT + 0x1000 + offset, _BENCHMARK_AT + 0x2000)
    if function == USER:
        return user_chain[1], MODE_USER, user_chain
    ip = kernel.address(function, offset)
    callers = tuple(kernel.address(name, 32) for name in _CALLERS)
    return ip, MODE_KERNEL, (CONTEXT_KERNEL, ip, *callers, *user_chain)
