# SPDX-License-Identifier: GPL-2.0-or-later
"""Build ``union perf_mem_data_src`` from the names of include/uapi/linux/perf_event.h."""

from collections.abc import Iterable, Mapping

_OP = {"NA": 1, "LOAD": 2, "STORE": 4, "PFETCH": 8, "EXEC": 16}
_LEVEL = {
    name: 1 << bit
    for bit, name in enumerate(
        (
            "NA", "HIT", "MISS", "L1", "LFB", "L2", "L3", "LOC_RAM", "REM_RAM1", "REM_RAM2",
            "REM_CCE1", "REM_CCE2", "IO", "UNC",
        )
    )
}  # fmt: skip
_SNOOP = {"NA": 1, "NONE": 2, "HIT": 4, "MISS": 8, "HITM": 16}
_SNOOPX = {"FWD": 1, "PEER": 2}
_LOCK = {"NA": 1, "LOCKED": 2}
_TLB = {"NA": 1, "HIT": 2, "MISS": 4, "L1": 8, "L2": 16, "WK": 32, "OS": 64}
_BLOCKED = {"NA": 1, "DATA": 2, "ADDR": 4}
_LEVEL_NUMBER = {
    "L1": 1, "L2": 2, "L3": 3, "L4": 4, "CXL": 9, "IO": 10, "ANY_CACHE": 11, "LFB": 12, "RAM": 13,
    "PMEM": 14, "NA": 15,
}  # fmt: skip
# PERF_MEM_*_SHIFT.
_OP_AT, _LEVEL_AT, _SNOOP_AT, _LOCK_AT, _TLB_AT = 0, 5, 19, 24, 26
_LEVEL_NUMBER_AT, _REMOTE_AT, _SNOOPX_AT, _BLOCKED_AT, _HOPS_AT = 33, 37, 38, 40, 43


def data_source(
    op: str,
    *,
    level: Iterable[str] = ("NA",),
    snoop: Iterable[str] = ("NA",),
    level_number: str = "NA",
    remote: bool = False,
    snoopx: Iterable[str] = (),
    lock: Iterable[str] = ("NA",),
    tlb: Iterable[str] = ("HIT", "L1", "L2"),
    blocked: Iterable[str] = ("NA",),
    hops: int = 0,
) -> int:
    """Return the 64-bit word, which has the same value in both byte orders.

    :param op: PERF_MEM_OP_* without the prefix: "LOAD", "STORE", …
    :param level: PERF_MEM_LVL_*: "HIT" or "MISS" and the level
    :param level_number: PERF_MEM_LVLNUM_*, the newer encoding of the level
    :param hops: 0 none, 1 remote core of the node, 2 remote node of the socket, 3 remote socket
    :raises KeyError: a name is unknown
    """
    return (
        _OP[op] << _OP_AT
        | _bits(_LEVEL, level) << _LEVEL_AT
        | _bits(_SNOOP, snoop) << _SNOOP_AT
        | _bits(_LOCK, lock) << _LOCK_AT
        | _bits(_TLB, tlb) << _TLB_AT
        | _LEVEL_NUMBER[level_number] << _LEVEL_NUMBER_AT
        | remote << _REMOTE_AT
        | _bits(_SNOOPX, snoopx) << _SNOOPX_AT
        | _bits(_BLOCKED, blocked) << _BLOCKED_AT
        | hops << _HOPS_AT
    )


def _bits(table: Mapping[str, int], names: Iterable[str]) -> int:
    return sum(table[name] for name in set(names))
