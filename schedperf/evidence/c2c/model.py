# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines that several CPUs touched, as memory samples show them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from schedperf.evidence.c2c.record import Grade, Observable, Sharing
from schedperf.model.perf_event import PerfEvent


class NodeAccesses(NamedTuple):
    """What the CPUs of one NUMA node did to some bytes.

    :param local: of the reads those that hit a modified (or peer's) line of the same node
    :param remote: the same of another node
    """

    reads: int
    writes: int
    local: int
    remote: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """What hit one stretch of bytes of a line.

    :param offset: of the first byte in the line
    :param size: bytes from there to the end of the named field; None where no field of at most 8
        bytes is known. How far an access reached no sample says
    :param name: the variable, or struct and field: ``runqueues.nr_running``; None: not known
    :param reads: loads, however they were answered; None where the source gives none by offset
    :param writes: stores
    :param local: loads that hit a modified (or peer's) line of the same node
    :param remote: the same of another node
    :param readers: CPUs that read; None where the source does not say which, as for ``writers``
    :param nodes: by the NUMA node of the CPU, -1 where it has none; None as for ``readers``
    :param symbols: samples by function, "symbol" or "symbol [module]"
    :param writing_symbols: stores among them by function
    :param commands: samples by name of the task that was running; None where the source does not
        say which one was
    :param mean_weight: mean latency of local and remote ones together, in the PMU's unit; None
        where there were none or it was not recorded
    """

    offset: int
    size: int | None
    name: str | None
    grade: Grade | None
    reads: int | None
    writes: int
    local: int
    remote: int
    readers: frozenset[int] | None
    writers: frozenset[int] | None
    nodes: Mapping[int, NodeAccesses] | None
    symbols: Mapping[str, int]
    writing_symbols: Mapping[str, int]
    commands: Mapping[str, int] | None
    mean_weight: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One cache line; the copies of a per-CPU line, which every CPU has, count as one.

    :param key: what names the line in another run and on the other side: ``percpu+0x2ba40``,
        ``globals+0x5980``, ``task_group+0x100``: what it is in and where it begins there; of a
        process's line the file, or the address and the process; an address where nothing better
        is known
    :param address: of the line; of a folded one the copy with most samples
    :param copies: how many CPUs' copies were contended; 1 for any other line; None where copies of
        per-CPU lines cannot be told from other lines
    :param name: what lies there, the most sampled first: ``runqueues.nr_running``; None: not known
    :param records: perf's "Total records" of the line, with what perf counts twice
    :param counts: by the column names of perf c2c in snake case: ``rmt_hitm``, ``lcl_hitm``,
        ``rmt_peer``, ``lcl_peer``, ``store``, ``store_l1_hit``, ``store_l1_miss``, ``load`` …
    :param sharing: "true": CPUs write or read the same bytes; "false": different bytes; None where
        no other CPU was seen to write, or the source does not say who did
    :param false_share: part of the contended samples that are of false sharing, 0 to 1
    :param accesses: by offset
    """

    key: str
    address: int
    copies: int | None
    name: str | None
    records: int
    counts: Mapping[str, int]
    sharing: Sharing | None
    false_share: float | None
    accesses: tuple[Access, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryProfile:
    """What the memory samples of one run show.

    :param event: names of the events, as perf wrote them
    :param perf_events: the same in parts
    :param is_text: it was read from what perf printed, which does not say the period
    :param period: memory operations from one sample to the next; None where perf chose them, or
        where it is not known
    :param ldlat: least latency of a sampled load in cycles; None where there was no such filter
    :param totals: perf's "Trace Event Information" in snake case: ``total_records``,
        ``load_operations``, ``load_local_hitm`` …
    :param lines: most contended first
    :param notes: what was not measured, one sentence each
    """

    observable: Observable
    is_text: bool
    event: tuple[str, ...]
    perf_events: tuple[PerfEvent, ...]
    period: int | None
    ldlat: int | None
    line_bytes: int
    totals: Mapping[str, int]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
