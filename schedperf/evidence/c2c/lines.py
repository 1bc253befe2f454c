# SPDX-License-Identifier: GPL-2.0-or-later
"""Group memory samples by cache line, sum the counters per line, and list accesses per offset.

Lines are identified as in ``perf c2c``: kernel memory by its address, mapped files by file and
offset, so that processes that share a file share its lines, and anonymous memory by process and
address. As in ``perf c2c``, accesses of kernel code and of user code to a line are separate lines.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from schedperf.evidence.c2c.data_src import COLUMNS, COUNTERS, SampleCounts
from schedperf.evidence.c2c.model import Access, NodeAccesses
from schedperf.evidence.c2c.naming import Named, is_known_user
from schedperf.evidence.c2c.percpu_copies import KERNEL_HALF
from schedperf.evidence.c2c.record import Grade, Observable
from schedperf.inputs.perf_data.recording import (
    KERNEL_SPACE,
    NO_FILE,
    NO_TASK,
    Addresses,
    Integers,
    MemorySamples,
    Recording,
)

# Names of mappings without a file: "//anon", "[heap]", "[stack]".
_ANONYMOUS = ("//", "[")
KERNEL_OWNER = 0
_PERFS_SHARED = ("lcl_hitm", "rmt_hitm", "lcl_peer", "rmt_peer")
# By observable: the counters of contended loads served by the same node and by another node.
CONTENDED: Mapping[Observable, tuple[str, str]] = {
    "hitm": ("lcl_hitm", "rmt_hitm"),
    "ibs": ("lcl_hitm", "rmt_hitm"),
    "peer": ("lcl_peer", "rmt_peer"),
    "unknown": ("lcl_hitm", "rmt_hitm"),
}
# Node number for CPUs without a node.
NO_NODE = -1

# Columns of a subset of the samples, by name.
Part = Mapping[str, NDArray[Any]]


class DataPlaces(Struct, frozen=True, kw_only=True):
    """Location of the data of each sample; arrays of shape (samples,).

    :param owner: 0 for the kernel; index + 1 of a mapped file; negative for a process
    :param place: the address, or the offset in the file
    :param is_mapped: whether instruction and data are both in known mappings
    """

    owner: Integers
    place: Addresses
    is_mapped: NDArray[np.bool_]


class LineTable(Struct, frozen=True, kw_only=True):
    """All sampled lines.

    :param of_sample: index of each sample's line, shape (samples,)
    :param address: address of a line's first byte according to its first sample, shape (lines,)
    :param owner: as in DataPlaces, shape (lines,)
    :param place: as in DataPlaces, for the first byte, shape (lines,)
    :param mode: CPU mode of the accesses, ``MODE_*``, shape (lines,)
    :param matrix: sums of each line's samples, shape (lines, counters)
    """

    of_sample: Integers
    address: Addresses
    owner: Integers
    place: Addresses
    mode: Integers
    matrix: Integers

    def is_kernel(self) -> NDArray[np.bool_]:
        """Return which lines are kernel memory, shape (lines,)."""
        return np.asarray(self.owner == KERNEL_OWNER, dtype=np.bool_)

    def is_shared(self) -> NDArray[np.bool_]:
        """Return which lines perf counts as shared: with a HITM or peer snoop, shape (lines,)."""
        columns = [COLUMNS[name] for name in _PERFS_SHARED]
        return np.asarray(self.matrix[:, columns].any(axis=1), dtype=np.bool_)


def place_data(recording: Recording, memory: MemorySamples) -> DataPlaces:
    """Locate the data of each sample: in the kernel, in a mapped file, or in a process."""
    is_kernel = memory.address >= KERNEL_HALF
    spaces = np.where(is_kernel, KERNEL_SPACE, memory.space)
    files, offsets = recording.spaces.find(spaces, memory.address)
    code_spaces = np.where(memory.ip >= KERNEL_HALF, KERNEL_SPACE, memory.space)
    code_files, _ = recording.spaces.find(code_spaces, memory.ip)
    is_of_file = np.array(
        [not file.path.startswith(_ANONYMOUS) for file in recording.files] + [False], dtype=bool
    )
    # Index -1 (NO_FILE) selects the last element, which does not belong to a file.
    in_file = ~is_kernel & is_of_file[files]
    owner = np.where(in_file, files + 1, -1 - memory.space)
    return DataPlaces(
        owner=np.where(is_kernel, KERNEL_OWNER, owner).astype(np.int64),
        place=np.where(in_file, offsets, memory.address),
        is_mapped=(files != NO_FILE) & (code_files != NO_FILE),
    )


def make_lines(
    memory: MemorySamples, places: DataPlaces, counts: SampleCounts, line_bytes: int
) -> LineTable:
    """Group samples by line, owner and CPU mode, and sum their counters.

    :param places: location of the data of each sample
    :param counts: counters of each sample
    :param line_bytes: a power of two
    """
    mask = ~np.uint64(line_bytes - 1)
    line = places.place & mask
    order = np.lexsort((line, places.owner, memory.mode))
    keys = (line[order], places.owner[order], memory.mode[order])
    is_first = np.ones(len(order), dtype=bool)
    if len(order):
        is_first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    starts = np.flatnonzero(is_first)
    of_sample = np.empty(len(order), dtype=np.int64)
    of_sample[order] = np.cumsum(is_first) - 1
    # lexsort is stable, so the first sample of a line is the first one in the file.
    first = order[starts]
    return LineTable(
        of_sample=of_sample,
        address=memory.address[first] & mask,
        owner=places.owner[first],
        place=line[first],
        mode=memory.mode[first],
        matrix=sum_by(counts.matrix[order], starts),
    )


def sum_by(matrix: NDArray[np.integer], starts: Integers) -> Integers:
    """Sum the rows of a matrix from each start to the next.

    :param matrix: shape (rows, counters)
    :param starts: rising row indices, shape (parts,)
    :return: shape (parts, counters)
    """
    if not len(starts):
        return np.zeros((0, len(COUNTERS)), dtype=np.int64)
    return np.add.reduceat(matrix, starts, axis=0, dtype=np.int64)


def for_each_part(samples: Part, column: str) -> Iterator[tuple[int, Part]]:
    """Yield each value of a sorted column with its rows."""
    values = samples[column]
    is_first = np.r_[True, values[1:] != values[:-1]][: len(values)]
    starts = np.flatnonzero(is_first).tolist()
    for start, stop in zip(starts, [*starts[1:], len(values)], strict=False):
        yield int(values[start]), {name: array[start:stop] for name, array in samples.items()}


def touched_by(part: Part, names: Sequence[str]) -> dict[int, Counter[str]]:
    """Count the contended loads and the writes, by offset in the line and by function.

    Other loads do not indicate sharing, so they are not counted. Writes are stores and locked
    loads.

    :param part: samples of one line
    :param names: of functions, by the samples' ``function``
    """
    return _by_function(part, names, (part["slow"] > 0) | part["writes"])


def written_by(part: Part, names: Sequence[str]) -> dict[int, Counter[str]]:
    """Count the writes (stores and locked loads), by offset in the line and by function."""
    return _by_function(part, names, part["writes"])


def _by_function(
    part: Part, names: Sequence[str], is_counted: NDArray[np.bool_]
) -> dict[int, Counter[str]]:
    counts: dict[int, Counter[str]] = {}
    pairs = zip(part["offset"][is_counted], part["function"][is_counted], strict=True)
    for offset, function in pairs:
        counts.setdefault(int(offset), Counter())[names[int(function)]] += 1
    return counts


def make_access(
    part: Part, named: Named | None, names: Sequence[str], commands: Sequence[str]
) -> Access:
    """Return the accesses to one offset of a line.

    :param part: samples of one offset of a line
    :param named: variable or field at this offset; None if unknown
    :param names: of functions, by the samples' ``function``
    :param commands: of tasks, by the samples' ``task``
    """
    symbols = _counted(part["function"], names)
    weights = part["weight"][(part["slow"] > 0) & (part["weight"] > 0)]
    reads, stores, cpus = part["reads"], part["stores"], part["cpu"]
    return Access(
        offset=int(part["offset"][0]),
        size=None if named is None or named.end is None else named.end - named.at,
        name=None if named is None else named.name,
        grade=None if named is None else _grade(named, symbols),
        reads=int(reads.sum()),
        writes=int(stores.sum()),
        local=int(part["local"].sum()),
        remote=int(part["remote"].sum()),
        readers=frozenset(np.unique(cpus[reads > 0]).tolist()),
        writers=frozenset(np.unique(cpus[part["writes"]]).tolist()),
        nodes={int(node): _of_node(part, node) for node in np.unique(part["node"])},
        symbols=symbols,
        writing_symbols=_counted(part["function"][stores > 0], names),
        commands=_counted(part["task"][part["task"] != NO_TASK], commands) or None,
        mean_weight=float(weights.mean()) if len(weights) else None,
    )


def _counted(indices: NDArray[Any], names: Sequence[str]) -> dict[str, int]:
    # Most samples first. Several tasks may have the same name.
    counts: Counter[str] = Counter()
    for index, count in zip(*np.unique(indices, return_counts=True), strict=True):
        counts[names[int(index)]] += int(count)
    return dict(counts.most_common())


def _of_node(part: Part, node: int) -> NodeAccesses:
    is_of_node = part["node"] == node
    columns = ("reads", "stores", "local", "remote")
    return NodeAccesses(*(int(part[name][is_of_node].sum()) for name in columns))


def _grade(named: Named, symbols: Mapping[str, int]) -> Grade:
    # An object is identified only by the code that accesses it; the slab type of its address is not
    # recorded.
    is_object = named.unit.startswith(("struct ", "union "))
    return "A" if not is_object and is_known_user(named.unit, named.name, symbols) else "B"
