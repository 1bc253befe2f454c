# SPDX-License-Identifier: GPL-2.0-or-later
"""Decode memory samples into the counters of ``perf c2c``.

::

    counts = count_samples(memory.data_src, memory.address, is_mapped)
    counts.of("lcl_hitm").sum()

The bits are those of ``union perf_mem_data_src`` in include/uapi/linux/perf_event.h. Local and
remote HITMs are decoded like in ``c2c_decode_stats`` of tools/perf/util/mem-events.c in Linux 6.1
to 6.16, including its double count: on machines with a separate "remote" bit (Skylake server), a
remote HITM is also counted as a remote DRAM access. ``double_counted`` is the number of these.
"""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from schedperf.inputs.perf_data.recording import Addresses

Flags = NDArray[np.bool_]
Counts = NDArray[np.uint8]

# First bit and number of bits of each field.
_OP, _LEVEL, _SNOOP, _LOCK = (0, 5), (5, 14), (19, 5), (24, 2)
_REMOTE, _SNOOPX, _BLOCK, _HOPS = (37, 1), (38, 2), (40, 3), (43, 3)

OP_LOAD, OP_STORE = 0x02, 0x04
LEVEL_NA, LEVEL_HIT, LEVEL_MISS = 0x01, 0x02, 0x04
LEVEL_L1, LEVEL_LFB, LEVEL_L2, LEVEL_L3 = 0x08, 0x10, 0x20, 0x40
LEVEL_LOCAL_RAM, LEVEL_REMOTE_RAM = 0x80, 0x100 | 0x200
LEVEL_REMOTE_CACHE = 0x400 | 0x800
LEVEL_IO, LEVEL_UNCACHED = 0x1000, 0x2000
SNOOP_HIT, SNOOP_HITM = 0x04, 0x10
LOCK_LOCKED = 0x02
SNOOPX_PEER = 0x02
BLOCK_DATA, BLOCK_ADDRESS = 0x02, 0x04

# The counters, in the order of the columns of SampleCounts.
COUNTERS = (
    "locked",
    "blocked_data",
    "blocked_address",
    "load",
    "load_no_address",
    "load_uncacheable",
    "load_io",
    "load_miss",
    "load_fb_hit",
    "load_l1_hit",
    "load_l2_hit",
    "load_llc_hit",
    "lcl_hitm",
    "rmt_hitm",
    "lcl_peer",
    "rmt_peer",
    "rmt_hit",
    "lcl_dram",
    "rmt_dram",
    "load_exclusive",
    "load_shared",
    "store",
    "store_uncacheable",
    "store_no_address",
    "store_l1_hit",
    "store_l1_miss",
    "store_na",
    "no_map",
    "no_parse",
    "double_counted",
)
COLUMNS: Mapping[str, int] = {name: column for column, name in enumerate(COUNTERS)}


class SampleCounts(Struct, frozen=True, kw_only=True):
    """The counters of each sample.

    :param matrix: shape (samples, counters), in the order of ``COUNTERS``. One sample may increment
        two counters of a kind: an access whose level is both L2 and L3
    :param writes: whether the sample changed the bytes; a locked load does, but counts as a load
    """

    matrix: Counts
    writes: Flags

    def of(self, name: str) -> Counts:
        """Return one counter of all samples, shape (samples,)."""
        column: Counts = self.matrix[:, COLUMNS[name]]
        return column


def count_samples(data_src: Addresses, address: Addresses, is_mapped: Flags) -> SampleCounts:
    """Return the counters of each sample, like ``perf c2c``.

    :param data_src: shape (samples,); any bits are accepted
    :param address: data address; 0 if not recorded
    :param is_mapped: whether instruction and data are both in known mappings
    """
    counting = _Counting(data_src, address)
    counting.count_loads()
    counting.count_stores()
    counting.count_what_is_wrong(is_mapped)
    writes = counting.is_store | (counting.is_load & counting.is_locked)
    writes |= counting.has(_OP, OP_STORE)
    return SampleCounts(matrix=counting.matrix, writes=writes)


def sums(matrix: NDArray[np.integer]) -> dict[str, int]:
    """Return the sums of a matrix with the columns of ``COUNTERS``, by counter."""
    totals = matrix.sum(axis=0, dtype=np.int64)
    return {name: int(total) for name, total in zip(COUNTERS, totals, strict=True)}


class _Counting:
    # The matrix of counters while it is filled.

    def __init__(self, data_src: Addresses, address: Addresses) -> None:
        self._data_src = data_src
        self.matrix: Counts = np.zeros((len(data_src), len(COUNTERS)), dtype=np.uint8)
        self._has_address = address != 0
        self.is_load = self.has(_OP, OP_LOAD)
        self.is_store = self.has(_OP, OP_STORE) & ~self.is_load
        self.is_locked = self.has(_LOCK, LOCK_LOCKED)

    def has(self, part: tuple[int, int], mask: int) -> Flags:
        """Return which samples have any of these bits in one field of their data source."""
        first, bits = part
        bit_mask = np.uint64((mask & ((1 << bits) - 1)) << first)
        is_set: Flags = (self._data_src & bit_mask) != 0
        return is_set

    def add(self, name: str, where: Flags) -> None:
        self.matrix[:, COLUMNS[name]] += where

    def count_loads(self) -> None:
        self.add("locked", self.is_locked)
        self.add("blocked_data", self.has(_BLOCK, BLOCK_DATA))
        self.add("blocked_address", self.has(_BLOCK, BLOCK_ADDRESS))
        self.add("load", self.is_load)
        self.add("load_no_address", self.is_load & ~self._has_address)
        seen = self.is_load & self._has_address
        self._count_caches(seen & self.has(_LEVEL, LEVEL_HIT))
        self._count_remote(seen)
        self.add("load_miss", seen & self.has(_LEVEL, LEVEL_MISS))

    def _count_caches(self, hit: Flags) -> None:
        for name, level in (
            ("load_uncacheable", LEVEL_UNCACHED),
            ("load_io", LEVEL_IO),
            ("load_fb_hit", LEVEL_LFB),
            ("load_l1_hit", LEVEL_L1),
            ("load_l2_hit", LEVEL_L2),
        ):
            self.add(name, hit & self.has(_LEVEL, level))
        hitm, peer = self.has(_SNOOP, SNOOP_HITM), self.has(_SNOOPX, SNOOPX_PEER)
        last_level = hit & self.has(_LEVEL, LEVEL_L3)
        self.add("lcl_hitm", last_level & hitm)
        self.add("load_llc_hit", last_level & ~hitm)
        self.add("lcl_peer", hit & self.has(_LEVEL, LEVEL_L2) & peer)
        self.add("lcl_peer", last_level & peer)
        self._count_memory("lcl_dram", hit & self.has(_LEVEL, LEVEL_LOCAL_RAM))
        self._count_memory(
            "rmt_dram", hit & (self.has(_LEVEL, LEVEL_REMOTE_RAM) | self._is_remote())
        )

    def _count_memory(self, name: str, where: Flags) -> None:
        is_shared = self.has(_SNOOP, SNOOP_HIT)
        self.add(name, where)
        self.add("load_shared", where & is_shared)
        self.add("load_exclusive", where & ~is_shared)

    def _is_remote(self) -> Flags:
        # POWER also sets "remote" for another core of the same node, and then sets the number of
        # hops.
        return self.has(_REMOTE, 1) & ~self.has(_HOPS, 7)

    def _count_remote(self, seen: Flags) -> None:
        remote = seen & (self.has(_LEVEL, LEVEL_REMOTE_CACHE) | self._is_remote())
        hit = remote & self.has(_SNOOP, SNOOP_HIT)
        hitm = remote & ~hit & self.has(_SNOOP, SNOOP_HITM)
        peer = remote & ~hit & ~hitm & self.has(_SNOOPX, SNOOPX_PEER)
        self.add("rmt_hit", hit | peer)
        self.add("rmt_hitm", hitm)
        self.add("rmt_peer", peer)
        self.add("double_counted", hitm & (self.matrix[:, COLUMNS["rmt_dram"]] != 0))

    def count_stores(self) -> None:
        self.add("store", self.is_store)
        self.add("store_no_address", self.is_store & ~self._has_address)
        seen = self.is_store & self._has_address
        hit, first_level = self.has(_LEVEL, LEVEL_HIT), self.has(_LEVEL, LEVEL_L1)
        self.add("store_uncacheable", seen & hit & self.has(_LEVEL, LEVEL_UNCACHED))
        self.add("store_l1_hit", seen & hit & first_level)
        self.add("store_l1_miss", seen & self.has(_LEVEL, LEVEL_MISS) & first_level)
        self.add("store_na", seen & self.has(_LEVEL, LEVEL_NA))

    def count_what_is_wrong(self, is_mapped: Flags) -> None:
        is_known = self.is_load | self.is_store
        self.add("no_parse", ~is_known)
        self.add("no_map", is_known & self._has_address & ~is_mapped)
