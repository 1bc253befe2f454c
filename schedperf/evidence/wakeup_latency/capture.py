# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the waits of one run: ``wakeups.json`` of the collector ``wakeup_latency``.

::

    {"schema": "schedperf/wakeup_latency/1", "mechanism": "bpf", "seconds": 1.2,
     "programs": {"sched_wakeup": {"mechanism": "tp_btf", "function": "sched_wakeup",
                                   "reason": null}, …},
     "nodes": {"0": 0, "1": 1},
     "rows": [{"command": "hackbench", "cpu": 0, "bins": [[131, 17], [132, 20]],
               "sum_ns": 185000, "max_ns": 9731}],
     "lost": {}, "notes": []}

Bins are pairs of number and count; :mod:`schedperf.evidence.wakeup_latency.histogram` has their
edges. The texts of other tools become the same records
(:mod:`schedperf.evidence.wakeup_latency.texts`).
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from schedperf.evidence.wakeup_latency.histogram import BINS
from schedperf.evidence.wakeup_latency.record import Event, Source
from schedperf.inputs.bundle.json import MOST_HISTOGRAM_VALUES, Count, Sentence, decode

# NR_CPUS and MAX_NUMNODES of the largest configurations.
MOST_CPUS, MOST_NODES = 8192, 1024
# Limit on rows: the collector has room for 16 commands on each of 8192 CPUs, and merges all others.
MOST_ROWS = 1 << 18
MOST_NOTES = 256
# Upper limit on durations; no run takes longer.
MOST_SECONDS = 1e8
# A comm has 15 bytes; other tools append pids.
LONGEST_COMMAND = 64
# Name of the commands for which the collector had no room.
OTHERS = "(other commands)"

Cpu = Annotated[int, Meta(ge=0, lt=MOST_CPUS)]
Node = Annotated[int, Meta(ge=0, lt=MOST_NODES)]
Bin = tuple[Annotated[int, Meta(ge=0, lt=BINS)], Count]


class Waits(Struct, frozen=True, kw_only=True):
    """Waits of one command for one CPU.

    :param event: kind of wait
    :param cpu: None if not recorded or for all CPUs
    :param bins: number of waits by bin; None if only the maximum is known
    :param above: waits that are only known to exceed all recorded bins
    :param count: number of waits
    """

    event: Event
    command: str
    cpu: int | None
    bins: Mapping[int, int] | None
    above: int = 0
    max_ns: int
    count: int


class WakeupCapture(Struct, frozen=True, kw_only=True):
    """The waits of one run.

    :param nodes: NUMA node by CPU; empty if not recorded
    :param types: type of core by CPU, from host.json; empty if all CPUs have the same type
    :param commands: names of the workload's commands
    :param resolution_ns: resolution of a wait; the bins add theirs
    :param lost: events that were lost, by kind
    :param zeros: printed delays that are not counted, because they are 0
    """

    source: Source
    waits: tuple[Waits, ...]
    nodes: Mapping[int, int] = {}
    types: Mapping[int, str] = {}
    commands: frozenset[str] = frozenset()
    resolution_ns: int = 0
    lost: Mapping[str, int] = {}
    notes: tuple[str, ...] = ()
    zeros: int = 0


class _Row(Struct, frozen=True, kw_only=True):
    command: Annotated[str, Meta(max_length=LONGEST_COMMAND)]
    cpu: Cpu
    bins: Annotated[tuple[Bin, ...], Meta(max_length=BINS)]
    sum_ns: Count
    max_ns: Count


class _Program(Struct, frozen=True, kw_only=True):
    mechanism: str | None
    function: str | None = None
    reason: str | None = None


class _Document(Struct, frozen=True, kw_only=True):
    schema: Literal["schedperf/wakeup_latency/1"]
    mechanism: Literal["bpf", "perf", "trace"]
    seconds: Annotated[float, Meta(gt=0.0, le=MOST_SECONDS)]
    programs: Annotated[Mapping[str, _Program], Meta(max_length=MOST_NOTES)]
    nodes: Annotated[Mapping[Cpu, Node], Meta(max_length=MOST_CPUS)]
    rows: Annotated[tuple[_Row, ...], Meta(max_length=MOST_ROWS)]
    lost: Annotated[Mapping[str, Count], Meta(max_length=MOST_NOTES)]
    notes: Annotated[tuple[Sentence, ...], Meta(max_length=MOST_NOTES)]

    def __post_init__(self) -> None:
        """Refuse duplicate bins and rows, which would be counted twice.

        :raises ValueError: a row or a bin is duplicate
        """
        rows = [(row.command, row.cpu) for row in self.rows]
        if len(set(rows)) < len(rows):
            raise ValueError("two rows of one command and CPU (expected one)")
        for row in self.rows:
            if len({number for number, _ in row.bins}) < len(row.bins):
                raise ValueError("two counts of one bin (expected one)")


def parse_wakeups(content: bytes, label: str) -> WakeupCapture:
    """Parse wakeups.json.

    :param label: bundle and member, for messages
    :raises BundleError: invalid content
    """
    document = decode(content, _Document, label, MOST_HISTOGRAM_VALUES)
    return WakeupCapture(
        source=document.mechanism,
        waits=tuple(_waits(document)),
        nodes=document.nodes,
        lost={what: count for what, count in document.lost.items() if count},
        notes=tuple(map(str, document.notes)),
    )


def _waits(document: _Document) -> Iterator[Waits]:
    for row in document.rows:
        if row.bins:
            bins = dict(row.bins)
            yield Waits(
                event="wakeup",
                command=row.command or OTHERS,
                cpu=row.cpu,
                bins=bins,
                max_ns=row.max_ns,
                count=sum(bins.values()),
            )
