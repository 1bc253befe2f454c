"""Which samples lie on which cache line, and the sums of each line.

Lines are told apart as ``perf c2c`` does it: addresses of the kernel by themselves, those of a
mapped file by their place in the file, so that processes which share it share its lines, and
anonymous memory by its process. What kernel code and user code did to a line are two lines there,
and here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedperf.evidence.c2c.data_src import COLUMNS, COUNTERS, SampleCounts
from schedperf.evidence.c2c.units import KERNEL_HALF
from schedperf.perf_data.recording import (
    KERNEL_SPACE,
    NO_FILE,
    Addresses,
    Integers,
    MemorySamples,
    Recording,
)

# Memory that belongs to no file is mapped under such a name: "//anon", "[heap]", "[stack]".
_ANONYMOUS = ("//", "[")
KERNEL_OWNER = 0
_PERFS_SHARED = ("lcl_hitm", "rmt_hitm", "lcl_peer", "rmt_peer")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataPlaces:
    """Where the data of each sample lies; arrays of shape (samples,).

    :param owner: 0 the kernel; a mapped file by its index + 1; a process below 0
    :param place: the address, or the offset in the file
    :param is_mapped: whether instruction and data both lie in what is known to be mapped
    """

    owner: Integers
    place: Addresses
    is_mapped: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class LineTable:
    """All lines that were sampled.

    :param of_sample: index of each sample's line, shape (samples,)
    :param address: of a line's first byte as its first sample has it, shape (lines,)
    :param owner: as in DataPlaces, shape (lines,)
    :param place: as in DataPlaces, of the first byte, shape (lines,)
    :param mode: in which mode it was touched, ``MODE_*``, shape (lines,)
    :param matrix: sums of each line's samples, shape (lines, counters)
    """

    of_sample: Integers
    address: Addresses
    owner: Integers
    place: Addresses
    mode: Integers
    matrix: Integers

    def is_kernel(self) -> NDArray[np.bool_]:
        """Say which lines are the kernel's own memory."""
        return np.asarray(self.owner == KERNEL_OWNER, dtype=np.bool_)

    def is_shared(self) -> NDArray[np.bool_]:
        """Say which lines perf takes for shared: one HITM or one answer of a peer is enough."""
        columns = [COLUMNS[name] for name in _PERFS_SHARED]
        return np.asarray(self.matrix[:, columns].any(axis=1), dtype=np.bool_)


def place_data(recording: Recording, memory: MemorySamples) -> DataPlaces:
    """Find what the data address of each sample lies in."""
    is_kernel = memory.address >= KERNEL_HALF
    spaces = np.where(is_kernel, KERNEL_SPACE, memory.space)
    files, offsets = recording.spaces.find(spaces, memory.address)
    code_spaces = np.where(memory.ip >= KERNEL_HALF, KERNEL_SPACE, memory.space)
    code_files, _ = recording.spaces.find(code_spaces, memory.ip)
    is_of_file = np.array(
        [not file.path.startswith(_ANONYMOUS) for file in recording.files] + [False], dtype=bool
    )
    # Index -1, NO_FILE, is the last one, which is no file.
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
    """Put samples together by line.

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
    """Sum the rows of a matrix from each start to the next."""
    if not len(starts):
        return np.zeros((0, len(COUNTERS)), dtype=np.int64)
    return np.add.reduceat(matrix, starts, axis=0, dtype=np.int64)
