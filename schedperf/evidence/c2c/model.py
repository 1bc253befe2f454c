# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the contended cache lines of a recording of memory samples.

A contended load is a HITM, or on Arm a peer snoop (``record.Observable``).
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from schedperf.evidence.c2c.record import Grade, Observable, Sharing
from schedperf.model.perf_event import PerfEvent


class NodeAccesses(NamedTuple):
    """Sampled accesses of one NUMA node's CPUs to a range of bytes.

    :param reads: all loads
    :param writes: stores
    :param local: contended loads served by the same node
    :param remote: contended loads served by another node
    """

    reads: int
    writes: int
    local: int
    remote: int


class Functions(NamedTuple):
    """A function with contended loads of a line, and a function that writes to the line."""

    reader: str
    writer: str

    @property
    def are_named(self) -> bool:
        """Whether both are functions: neither unresolved addresses nor the rest of the functions.

        >>> Functions("update_cfs_group", "[kernel] unresolved").are_named
        False
        """
        return not any(name.startswith(("[", "(")) for name in self)


class Access(Struct, frozen=True, kw_only=True):
    """Sampled accesses to one range of bytes of a line.

    :param offset: first byte, from the start of the line
    :param size: bytes from ``offset`` to the end of the named field; None if no field of at most 8
        bytes is known, or if merged accesses differ. Samples do not record the size of an access
    :param name: variable, or struct and field: ``runqueues.nr_running``; None if unknown
    :param grade: evidence for the name (``record.Grade``); None without a name
    :param reads: all loads; None if the source does not count loads per offset
    :param writes: stores
    :param local: contended loads served by the same node
    :param remote: contended loads served by another node
    :param readers: CPUs that read; None if not recorded
    :param writers: CPUs that wrote, also with locked loads; None if not recorded
    :param nodes: by NUMA node of the CPU, -1 if it has none; None if not recorded
    :param symbols: samples by function: "symbol" of the kernel, or "symbol [module or program]"
    :param writing_symbols: stores among them by function
    :param commands: samples by name of the running task; None if not recorded
    :param mean_weight: mean latency of the contended loads, in the PMU's unit; None if there are
        none, if it was not recorded, or if accesses of several lines or runs were merged
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


class Line(Struct, frozen=True, kw_only=True):
    """One cache line; the CPUs' copies of a per-CPU line count as one.

    :param key: identifies the line in other runs of the same kernel by unit and offset:
        ``percpu+0x2ba40``, ``globals+0x5980``, ``task_group+0x100``; a line of a process by file
        and offset, or by address and process; otherwise the address
    :param address: address of the line; for merged copies, of the copy with most samples
    :param copies: number of contended copies; 1 for lines that are not per-CPU; None for the lines
        of a perf c2c report
    :param name: most contended variable or field: ``runqueues.nr_running``; None if unknown
    :param records: perf's "Total records" of the line, including perf's double counts
    :param counts: by the column names of perf c2c in snake case: ``rmt_hitm``, ``lcl_hitm``,
        ``rmt_peer``, ``lcl_peer``, ``store``, ``store_l1_hit``, ``store_l1_miss``, ``load`` …
    :param sharing: "true": CPUs access the same bytes; "false": different bytes; "mixed": both;
        None if no write by another CPU was sampled or recorded
    :param false_share: fraction of contended samples with false sharing, 0 to 1; None if
        ``sharing`` is None
    :param accesses: sorted by offset
    :param pairs: expected contended loads by the functions that read and write; None if the source
        does not record CPUs
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
    pairs: Mapping[Functions, float] | None


class MemoryProfile(Struct, frozen=True, kw_only=True):
    """The memory samples of one run, by cache line.

    :param observable: what counts as a contended load (``record.Observable``)
    :param event: names of the events, as perf wrote them
    :param perf_events: the same events, parsed
    :param is_text: parsed from the output of perf, which does not contain the period
    :param period: memory operations per sample; None if perf adapted the period or it is unknown
    :param ldlat: minimum latency of sampled loads in cycles; None if not set or not recorded
    :param line_bytes: cache line size
    :param totals: perf's "Trace Event Information" and "Global Shared Cache Line Event
        Information", in snake case: ``total_records``, ``load_operations``, ``load_local_hitm`` …;
        totals that a text lacks are left out
    :param lines: lines with a HITM or peer snoop, most contended first; those of a text in its
        order
    :param damage: parts of a damaged text that were left out, one sentence each
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
    damage: tuple[str, ...] = ()
