# SPDX-License-Identifier: GPL-2.0-or-later
"""Aggregate memory samples by cache line: count, merge per-CPU copies, name, classify sharing.

::

    profile = analyse_memory(recording, namer=namer, node_of_cpu=nodes, line_bytes=64)
    profile.lines[0].key, profile.totals["load_remote_hitm"]
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from msgspec import Struct

from schedperf.evidence.c2c.blindness import least_latency, notes_of_recording, period_of
from schedperf.evidence.c2c.data_src import SampleCounts, count_samples, sums
from schedperf.evidence.c2c.lines import (
    CONTENDED,
    KERNEL_OWNER,
    NO_NODE,
    LineTable,
    Part,
    for_each_part,
    make_access,
    make_lines,
    place_data,
    touched_by,
    written_by,
)
from schedperf.evidence.c2c.model import Access, Line, MemoryProfile
from schedperf.evidence.c2c.namer import Namer
from schedperf.evidence.c2c.naming import Named
from schedperf.evidence.c2c.pairs import attribute_loads
from schedperf.evidence.c2c.percpu_copies import Folded, fold_addresses
from schedperf.evidence.c2c.record import Observable
from schedperf.evidence.c2c.sharing import df_false_share, sharing_of
from schedperf.evidence.c2c.totals import LOADS, RECORDS, make_totals
from schedperf.inputs.perf_data.event import identify_event
from schedperf.inputs.perf_data.recording import (
    MODE_USER,
    NO_TASK,
    Integers,
    MemorySamples,
    Recording,
)
from schedperf.model.errors import InputError

# Number of lines that are kept, most contended first; other lines are only in the totals. A few
# hundred lines matter on a machine; in a damaged file every sample may be on a different line.
MOST_LINES = 10_000
# Line sizes in bytes. Real machines have 32 (some ARMv7), 64, 128 (POWER) or 256 (s390).
LINE_BYTES = frozenset({16, 32, 64, 128, 256})

_PEER_MACHINES = ("aarch64", "arm64")
# Number of ambiguous lines (two structs match equally well) that the notes list.
MOST_CONFLICTS = 5

# Names by offset in a line; other offsets are unknown.
_Names = Mapping[int, Named]


class _Group(Struct, frozen=True, kw_only=True):
    """Lines that are analysed as one: the copies of a per-CPU line, or a single line.

    :param lines: indices into the table of lines
    :param percpu: offset of the line in each CPU's unit; None if it is not per-CPU
    """

    lines: Integers
    percpu: int | None


def analyse_memory(
    recording: Recording, *, namer: Namer, node_of_cpu: Mapping[int, int], line_bytes: int
) -> MemoryProfile:
    """Find the contended cache lines, at most the :data:`MOST_LINES` most contended.

    :param recording: recording that was read with memory samples
    :param namer: names variables and functions
    :param node_of_cpu: NUMA node by CPU number
    :param line_bytes: cache line size of the machine
    :raises InputError: the recording has no memory samples, or ``line_bytes`` is not one of
        :data:`LINE_BYTES`
    """
    memory = recording.memory
    if memory is None or not len(memory):
        raise InputError(
            "no memory samples (expected data addresses and data sources); record with "
            "`perf c2c record` or the collector `perf_c2c`"
        )
    if line_bytes not in LINE_BYTES:
        raise InputError(
            f"invalid cache line size {line_bytes} (expected a power of two from 16 to 256)"
        )
    places = place_data(recording, memory)
    counts = count_samples(memory.data_src, memory.address, places.is_mapped)
    lines = make_lines(memory, places, counts, line_bytes)
    totals, shared = sums(lines.matrix), lines.matrix[lines.is_shared()]
    observable = _observable(recording, totals)
    is_foldable = lines.is_shared() & lines.is_kernel()
    addresses = np.where(is_foldable, lines.address, np.uint64(0))
    folded = fold_addresses(addresses, namer.units, line_bytes)
    of_line = _group(folded, line_bytes)
    samples = df_samples(
        memory,
        counts,
        lines,
        of_line=of_line,
        observable=observable,
        node_of_cpu=node_of_cpu,
        line_bytes=line_bytes,
    )
    kept, left_out = _keep_most_contended(samples)
    maker = _LineMaker(
        recording, memory, lines, namer=namer, observable=observable, line_bytes=line_bytes
    )
    made = maker.make(kept, _groups(lines, of_line, folded, line_bytes))
    notes = [*notes_of_recording(recording, memory, totals, observable), folded.note, left_out]
    return MemoryProfile(
        observable=observable,
        is_text=False,
        event=tuple(event.name for event in recording.events),
        perf_events=tuple(
            identify_event(event, recording.features.pmus) for event in recording.events
        ),
        period=period_of(recording, memory),
        ldlat=least_latency(event.name for event in recording.events),
        line_bytes=line_bytes,
        totals=make_totals(len(memory), totals, len(shared), sums(shared)),
        lines=made,
        notes=tuple(dict.fromkeys(note for note in (*notes, *namer.notes, *maker.notes) if note)),
    )


def _observable(recording: Recording, totals: Mapping[str, int]) -> Observable:
    # Determined from the event, else from the machine; a hand-made file may record neither.
    names = " ".join(event.name for event in recording.events)
    if "ibs_op" in names:
        return "ibs"
    is_peer = "arm_spe" in names or recording.features.arch in _PEER_MACHINES
    has_hitm = totals["lcl_hitm"] or totals["rmt_hitm"]
    has_peer = totals["lcl_peer"] or totals["rmt_peer"]
    return "peer" if is_peer or (has_peer and not has_hitm) else "hitm"


def _group(folded: Folded, line_bytes: int) -> Integers:
    # Each line is a group, except that the copies of a per-CPU line form one group.
    own = -1 - np.arange(len(folded.offset))
    keys = np.where(folded.is_folded, folded.offset // line_bytes, own)
    group_of_line: Integers = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    return group_of_line


def _groups(
    lines: LineTable, of_line: Integers, folded: Folded, line_bytes: int
) -> dict[int, _Group]:
    # Counts only lines that perf considers shared, so uncontended copies are not counted.
    members: dict[int, list[int]] = {}
    for line in np.flatnonzero(lines.is_shared()):
        members.setdefault(int(of_line[line]), []).append(int(line))
    return {
        group: _Group(
            lines=np.array(copies, dtype=np.int64),
            percpu=int(folded.offset[copies[0]]) // line_bytes * line_bytes
            if folded.is_folded[copies[0]]
            else None,
        )
        for group, copies in members.items()
    }


def df_samples(
    memory: MemorySamples,
    counts: SampleCounts,
    lines: LineTable,
    *,
    of_line: Integers,
    observable: Observable,
    node_of_cpu: Mapping[int, int],
    line_bytes: int,
) -> pd.DataFrame:
    """Return the samples of shared lines (lines with a HITM or peer snoop), one row each.

    :param of_line: the group of each line, shape (lines,)
    :param node_of_cpu: NUMA node by CPU number
    :return: ``row`` (index in ``memory``), ``line`` (group), ``copy`` (line), ``offset`` (in the
        line), ``cpu``, ``task``, ``node`` (-1 if unknown), ``reads`` (loads), ``stores``,
        ``local`` and ``remote`` (contended loads by the node that served them), ``slow`` (the sum
        of both), ``weight`` (latency); all int64; and ``writes`` (bool: a store or a locked load)
    """
    rows = np.flatnonzero(lines.is_shared()[lines.of_sample])
    local, remote = (counts.of(name)[rows].astype(np.int64) for name in CONTENDED[observable])
    copy, cpu = lines.of_sample[rows], memory.cpu[rows]
    cpus, inverse = np.unique(cpu, return_inverse=True)
    nodes = np.array([node_of_cpu.get(int(number), NO_NODE) for number in cpus], dtype=np.int64)
    offset = memory.address[rows] & np.uint64(line_bytes - 1)
    return pd.DataFrame(
        {
            "row": rows,
            "line": of_line[copy],
            "copy": copy,
            "offset": offset.astype(np.int64),
            "cpu": cpu,
            "task": memory.task[rows],
            "node": nodes[inverse],
            "reads": counts.of("load")[rows].astype(np.int64),
            "stores": counts.of("store")[rows].astype(np.int64),
            "local": local,
            "remote": remote,
            "slow": local + remote,
            "weight": memory.weight[rows],
            "writes": counts.writes[rows],
        }
    )


def columns_of(samples: pd.DataFrame) -> Part:
    """Return the columns as arrays, since slicing a table is a hundred times slower."""
    return {str(name): samples[name].to_numpy() for name in samples.columns}


def _keep_most_contended(samples: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    slow = samples.groupby("line")["slow"].agg(["sum", "size"])
    if len(slow) <= MOST_LINES:
        return samples, ""
    ranked = slow.sort_values(["sum", "size"], ascending=False, kind="stable")
    left_out = ranked.iloc[MOST_LINES:]
    note = (
        f"cache lines counted in the totals but not listed: {len(left_out)} (at most "
        f"{left_out['sum'].iloc[0]} contended samples each)"
    )
    return samples[samples["line"].isin(ranked.index[:MOST_LINES])], note


class _LineMaker:
    """Builds the lines of one recording.

    :ivar notes: ambiguous names, one sentence each
    """

    def __init__(
        self,
        recording: Recording,
        memory: MemorySamples,
        lines: LineTable,
        *,
        namer: Namer,
        observable: Observable,
        line_bytes: int,
    ) -> None:
        self.notes: list[str] = []
        self._recording = recording
        self._memory = memory
        self._lines = lines
        self._namer = namer
        self._contended = CONTENDED[observable]
        self._line_bytes = line_bytes
        self._commands = [task.comm for task in recording.tasks]

    def make(self, samples: pd.DataFrame, groups: Mapping[int, _Group]) -> tuple[Line, ...]:
        """Return the lines that have samples, most contended first.

        :param samples: result of :func:`df_samples`, for all or some lines
        :param groups: indexed by the samples' ``line``
        """
        rows = samples["row"].to_numpy()
        functions, index = self._namer.name_code(self._recording, self._memory, rows)
        samples = samples.assign(function=index).sort_values(["line", "offset"], kind="stable")
        columns = columns_of(samples)
        names = {
            line: self._name_line(groups[line], part, functions)
            for line, part in for_each_part(columns, "line")
        }
        starts = [
            start
            for line, part in for_each_part(columns, "line")
            for start in _starts(part, names[line])
        ]
        false_share = df_false_share(samples.assign(bytes=np.array(starts, dtype=np.int64)))
        made = [
            self._line(groups[line], part, names[line], functions, float(false_share[line]))
            for line, part in for_each_part(columns, "line")
        ]
        return tuple(sorted(made, key=lambda line: (-self._slow(line), -line.records, line.key)))

    def _slow(self, line: Line) -> int:
        return sum(line.counts[name] for name in self._contended)

    def _start(self, group: _Group) -> int:
        return int(self._lines.address[group.lines[0]])

    def _name_line(self, group: _Group, part: Part, functions: Sequence[str]) -> _Names:
        variables = self._namer.variables
        if variables is None or self._lines.owner[group.lines[0]] != KERNEL_OWNER:
            return {}
        offsets = np.unique(part["offset"]).tolist()
        name_at: dict[int, Named | None]
        if group.percpu is not None:
            name_at = {offset: variables.percpu(group.percpu + offset) for offset in offsets}
        else:
            start = self._start(group)
            name_at = {offset: variables.at(start + offset) for offset in offsets}
            if not any(name_at.values()):
                name_at = self._name_object(start, part, functions)
        return {offset: named for offset, named in name_at.items() if named is not None}

    def _name_object(
        self, start: int, part: Part, functions: Sequence[str]
    ) -> dict[int, Named | None]:
        variables = self._namer.variables
        if variables is None:
            return {}
        candidates = variables.find_object(
            touched_by(part, functions), written_by(part, functions), self._line_bytes
        )
        if len(candidates) > 1 and len(self.notes) < MOST_CONFLICTS:
            places = " or ".join(f"{unit} at offset {offset}" for unit, offset in candidates)
            self.notes.append(f"line {start:#x} is not named, because it may be {places}")
        if len(candidates) != 1:
            return {}
        unit, line = candidates[0]
        return {
            offset: variables.field(unit, line + offset)
            for offset in np.unique(part["offset"]).tolist()
        }

    def _line(
        self,
        group: _Group,
        part: Part,
        names: _Names,
        functions: Sequence[str],
        false_share: float,
    ) -> Line:
        matrix = self._lines.matrix[group.lines]
        counts = sums(matrix)
        share = None if np.isnan(false_share) else false_share
        accesses = tuple(
            make_access(bytes_of, names.get(offset), functions, self._commands)
            for offset, bytes_of in for_each_part(part, "offset")
        )
        address = self._lines.address[group.lines]
        return Line(
            key=self._key(group, part, names),
            address=int(address[np.argmax(matrix.sum(axis=1))]),
            copies=len(np.unique(address)),
            name=_hottest_name(accesses),
            records=sum(counts[name] for name in RECORDS),
            counts={**counts, "loads": sum(counts[name] for name in LOADS)},
            sharing=sharing_of(share),
            false_share=share,
            accesses=accesses,
            pairs=attribute_loads(part, functions),
        )

    def _key(self, group: _Group, part: Part, names: _Names) -> str:
        first, start = int(group.lines[0]), self._start(group)
        if group.percpu is not None:
            return f"percpu+{group.percpu:#x}"
        for offset, named in names.items():
            return f"{named.unit.removeprefix('struct ')}+{named.at - offset:#x}"
        owner = int(self._lines.owner[first])
        if owner == KERNEL_OWNER:
            return f"{start:#x}"
        # Like perf, separate the kernel's accesses to a process's memory from its own.
        is_own = self._lines.mode[first] == MODE_USER
        by_whom = "" if is_own else " (accessed by the kernel)"
        if owner > KERNEL_OWNER:
            path = self._recording.files[owner - 1].path
            return f"{path}+{int(self._lines.place[first]):#x}{by_whom}"
        return f"{start:#x} of {self._process(int(part['row'][0]))}{by_whom}"

    def _process(self, row: int) -> str:
        task = int(self._memory.task[row])
        if task == NO_TASK:
            return f"address space {int(self._memory.space[row])}"
        return f"process {self._recording.tasks[task].pid}"


def _starts(part: Part, names: _Names) -> list[int]:
    # All accesses to one named field count as accesses to the same bytes.
    starts = {}
    for offset in np.unique(part["offset"]).tolist():
        named = names.get(offset)
        starts[offset] = offset if named is None else named.start - named.at + offset
    return [starts[offset] for offset in part["offset"].tolist()]


def _hottest_name(accesses: Sequence[Access]) -> str | None:
    named = [access for access in accesses if access.name is not None]
    hottest = max(
        named,
        key=lambda access: (access.local + access.remote, (access.reads or 0) + access.writes),
        default=None,
    )
    return None if hottest is None else hottest.name
