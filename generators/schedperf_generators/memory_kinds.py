# SPDX-License-Identifier: GPL-2.0-or-later
"""Define kinds of memory accesses: their data source, and how perf c2c counts them."""

from collections.abc import Mapping
from typing import NamedTuple

from schedperf_generators.data_source import data_source


class Kind(NamedTuple):
    """One kind of access.

    :param data_src: value of the field DATA_SRC of a sample
    :param totals: rows of perf c2c's "Trace Event Information" that count it, in snake case
    :param columns: columns of a cache line that count it
    :param weight: latency in cycles
    """

    data_src: int
    totals: tuple[str, ...]
    columns: tuple[str, ...]
    weight: int


def _load(weight: int, totals: str, columns: str, **parts: object) -> Kind:
    totals = f"load_operations {totals}"
    source = data_source("LOAD", **parts)  # type: ignore[arg-type] # the caller's are right
    return Kind(source, tuple(totals.split()), tuple(columns.split()), weight)


def _store(totals: str, columns: str, *level: str) -> Kind:
    source = data_source("STORE", level=level, level_number="L1" if "L1" in level else "NA")
    totals = f"store_operations {totals}"
    return Kind(source, tuple(totals.split()), ("store", *columns.split()), 0)


# Rows and columns that count an access, as in c2c_decode_stats of tools/perf/util/mem-events.c.
KINDS: Mapping[str, Kind] = {
    "load_l1": _load(
        5, "load_l1d_hit", "load_l1_hit",
        level=("HIT", "L1"), snoop=("NONE",), level_number="L1",
    ),
    "load_lfb": _load(
        30, "load_fill_buffer_hit", "load_fb_hit",
        level=("HIT", "LFB"), snoop=("NONE",), level_number="LFB",
    ),
    "load_l2": _load(
        16, "load_l2d_hit", "load_l2_hit",
        level=("HIT", "L2"), snoop=("NONE",), level_number="L2",
    ),
    "load_llc": _load(
        70, "load_llc_hit", "load_llc_hit",
        level=("HIT", "L3"), snoop=("NONE",), level_number="L3",
    ),
    "load_local_hitm": _load(
        180, "load_llc_hit load_local_hitm", "lcl_hitm",
        level=("HIT", "L3"), snoop=("HITM",), level_number="L3",
    ),
    # Memory of the same node; the line was in no other cache.
    "load_local_dram": _load(
        230, "load_local_dram load_mesi_state_exclusive load_llc_misses", "lcl_dram",
        level=("HIT", "LOC_RAM"), snoop=("MISS",), level_number="RAM",
    ),
    "load_remote_dram": _load(
        420, "load_remote_dram load_mesi_state_exclusive load_llc_misses", "rmt_dram",
        level=("HIT", "REM_RAM1"), snoop=("MISS",), level_number="RAM",
    ),
    # Since Skylake the kernel sets the remote bit, which perf also counts as remote DRAM.
    "load_remote_hitm": _load(
        560,
        "load_remote_hitm load_remote_dram load_mesi_state_exclusive load_llc_misses "
        "load_llc_misses",
        "rmt_hitm rmt_dram",
        level=("HIT",), snoop=("HITM",), level_number="ANY_CACHE", remote=True,
    ),
    "load_remote_hit": _load(
        380,
        "load_remote_hit load_remote_dram load_mesi_state_shared load_llc_misses load_llc_misses",
        "rmt_hit rmt_dram",
        level=("HIT",), snoop=("HIT",), level_number="ANY_CACHE", remote=True,
    ),
    # As on Haswell and older CPUs.
    "load_remote_hitm_cce1": _load(
        540, "load_remote_hitm load_llc_misses", "rmt_hitm",
        level=("HIT", "REM_CCE1"), snoop=("HITM",),
    ),
    "load_local_peer": _load(
        90, "load_llc_hit load_hit_local_peer", "load_llc_hit lcl_peer",
        level=("HIT", "L3"), snoop=("NA",), snoopx=("PEER",), level_number="L3",
    ),
    "load_remote_peer": _load(
        300, "load_remote_hit load_hit_remote_peer load_llc_misses", "rmt_hit rmt_peer",
        level=("REM_CCE1",), snoopx=("PEER",), level_number="ANY_CACHE", remote=True,
    ),
    "load_uncached": _load(
        900, "loads_uncacheable", "ld_uncache", level=("HIT", "UNC"), level_number="NA",
    ),
    "load_io": _load(900, "loads_io", "ld_io", level=("HIT", "IO"), level_number="IO"),
    "load_miss": _load(250, "loads_miss", "ld_miss", level=("MISS", "L3"), level_number="L3"),
    "store_l1_hit": _store("store_l1d_hit", "store_l1_hit", "HIT", "L1"),
    "store_l1_miss": _store("store_l1d_miss", "store_l1_miss", "MISS", "L1"),
    "store_na": _store("store_no_available_memory_level", "store_na", "NA"),
    "prefetch": Kind(data_source("PFETCH", level=("NA",)), ("unable_to_parse_data_source",), (), 0),
}  # fmt: skip
