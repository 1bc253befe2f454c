# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute the expected contents of a generated perf.data from its records."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from schedperf_generators.kernel import KernelImage
from schedperf_generators.perf_data import PerfData
from schedperf_generators.records import Comm, Fork, Mmap, Mmap2
from schedperf_generators.samples import MODE_USER, Sample

UNKNOWN = "[unknown]"


class Row(NamedTuple):
    """Location of samples, with the names of perf.

    :param event: index into the recording's events
    :param comm: name of the task; ``:PID`` if unknown
    :param dso: ``[kernel.kallsyms]``, ``[nf_conntrack]``, ``libc.so.6``, ``[unknown]``
    :param symbol: function of the kernel or a module; None in user space, and if unknown
    """

    event: int
    cpu: int
    comm: str
    dso: str
    symbol: str | None


class Counted(NamedTuple):
    """Number of samples, and the sum of their periods."""

    samples: int
    period: int


def count_samples(data: PerfData, kernel: KernelImage) -> Mapping[Row, Counted]:
    """Count the samples by event, CPU, name of the task, file and symbol.

    :param data: the recording, whose records must be in the order of their times
    :param kernel: the recorded kernel
    """
    tasks = _Tasks()
    counted: dict[Row, Counted] = defaultdict(lambda: Counted(0, 0))
    for record in data.records:
        if not isinstance(record, Sample):
            tasks.follow(record)
            continue
        dso, symbol = UNKNOWN, None
        if record.mode == MODE_USER:
            dso = tasks.dso(record.pid, record.ip)
        elif where := kernel.where(record.ip):
            dso, symbol = where.dso, where.symbol
        row = Row(record.event, record.cpu, tasks.comm(record.pid), dso, symbol)
        samples, period = counted[row]
        counted[row] = Counted(samples + 1, period + record.period)
    return dict(counted)


class _Tasks:
    # Names and mappings of processes; a child inherits those of its parent.

    def __init__(self) -> None:
        self._comms: dict[int, str] = {}
        self._maps: dict[int, list[Mmap | Mmap2]] = {}

    def follow(self, record: object) -> None:
        if isinstance(record, Comm):
            self._comms[record.pid] = record.comm
            if record.execed:
                self._maps[record.pid] = []
        elif isinstance(record, Fork) and record.pid != record.parent_pid:
            self._maps[record.pid] = list(self._maps.get(record.parent_pid, []))
            if record.parent_pid in self._comms:
                self._comms[record.pid] = self._comms[record.parent_pid]
        elif isinstance(record, Mmap | Mmap2):
            self._maps.setdefault(record.pid, []).append(record)

    def comm(self, pid: int) -> str:
        return self._comms.get(pid, f":{pid}")

    def dso(self, pid: int, address: int) -> str:
        for mapped in reversed(self._maps.get(pid, [])):
            if mapped.start <= address < mapped.start + mapped.length:
                return PurePosixPath(mapped.path).name
        return UNKNOWN
