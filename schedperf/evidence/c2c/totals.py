# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute the totals of ``perf c2c report --stats``, under perf's labels.

::

    totals["load_remote_hitm"], totals["total_shared_cache_lines"]

Percentages are omitted; they follow from the counts.
"""

import re
from collections.abc import Mapping

# Labels of perf's "Trace Event Information", and the counters whose sum follows each label.
EVENT_LABELS: Mapping[str, tuple[str, ...]] = {
    "Locked Load/Store Operations": ("locked",),
    "Load Operations": ("load",),
    "Loads - uncacheable": ("load_uncacheable",),
    "Loads - IO": ("load_io",),
    "Loads - Miss": ("load_miss",),
    "Loads - no mapping": ("load_no_address",),
    "Load Fill Buffer Hit": ("load_fb_hit",),
    "Load L1D hit": ("load_l1_hit",),
    "Load L2D hit": ("load_l2_hit",),
    "Load LLC hit": ("load_llc_hit", "lcl_hitm"),
    "Load Local HITM": ("lcl_hitm",),
    "Load Remote HITM": ("rmt_hitm",),
    "Load Remote HIT": ("rmt_hit",),
    "Load Local DRAM": ("lcl_dram",),
    "Load Remote DRAM": ("rmt_dram",),
    "Load MESI State Exclusive": ("load_exclusive",),
    "Load MESI State Shared": ("load_shared",),
    "Load LLC Misses": ("lcl_dram", "rmt_dram", "rmt_hit", "rmt_hitm"),
    "Load access blocked by data": ("blocked_data",),
    "Load access blocked by address": ("blocked_address",),
    "Load HIT Local Peer": ("lcl_peer",),
    "Load HIT Remote Peer": ("rmt_peer",),
    "Store Operations": ("store",),
    "Store - uncacheable": ("store_uncacheable",),
    "Store - no mapping": ("store_no_address",),
    "Store L1D Hit": ("store_l1_hit",),
    "Store L1D Miss": ("store_l1_miss",),
    "Store No available memory level": ("store_na",),
    "No Page Map Rejects": ("no_map",),
    "Unable to parse data source": ("no_parse",),
}
# The same of "Global Shared Cache Line Event Information".
SHARED_LABELS: Mapping[str, tuple[str, ...]] = {
    "Load HITs on shared lines": ("load",),
    "Fill Buffer Hits on shared lines": ("load_fb_hit",),
    "L1D hits on shared lines": ("load_l1_hit",),
    "L2D hits on shared lines": ("load_l2_hit",),
    "LLC hits on shared lines": ("load_llc_hit", "lcl_hitm"),
    "Load hits on peer cache or nodes": ("lcl_peer", "rmt_peer"),
    "Locked Access on shared lines": ("locked",),
    "Blocked Access on shared lines": ("blocked_data", "blocked_address"),
    "Store HITs on shared lines": ("store",),
    "Store L1D hits on shared lines": ("store_l1_hit",),
    "Store No available memory level": ("store_na",),
    "Total Merged records": ("lcl_hitm", "rmt_hitm", "store"),
}
# perf uses these labels in both parts; in the second they count shared lines only.
_SAID_TWICE = "Store No available memory level"
# perf's "Total records" and "Total Loads" of a line, which include double counts.
LOADS = (
    "lcl_dram", "rmt_dram", "rmt_hitm", "rmt_hit",
    "load_fb_hit", "load_l1_hit", "load_l2_hit", "load_llc_hit", "lcl_hitm",
)  # fmt: skip
RECORDS = (*LOADS, "store_l1_hit", "store_l1_miss", "store_na")


def snake(words: str) -> str:
    """Convert a label of perf to a key.

    >>> snake("Loads - uncacheable"), snake("Locked Load/Store Operations")
    ('loads_uncacheable', 'locked_load_store_operations')
    """
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def shared_key(words: str) -> str:
    """Convert a label of "Global Shared Cache Line Event Information" to a key.

    One label occurs in both parts, so its key gets a suffix.

    >>> shared_key("Store HITs on shared lines"), shared_key("Store No available memory level")
    ('store_hits_on_shared_lines', 'store_no_available_memory_level_on_shared_lines')
    """
    return snake(words) + ("_on_shared_lines" if words == _SAID_TWICE else "")


def make_totals(
    samples: int, counts: Mapping[str, int], shared_lines: int, shared: Mapping[str, int]
) -> dict[str, int]:
    """Return perf's totals, and ``double_counted``, by key.

    :func:`snake` and :func:`shared_key` make the keys from perf's labels.

    :param samples: number of samples
    :param counts: by counter, over all samples
    :param shared_lines: lines with at least one HITM or peer snoop; copies of a per-CPU line count
        separately, as in perf
    :param shared: by counter, over the samples of these lines
    """
    totals = {"total_records": samples}
    totals |= {
        snake(words): sum(counts[name] for name in names) for words, names in EVENT_LABELS.items()
    }
    totals["total_shared_cache_lines"] = shared_lines
    totals |= {
        shared_key(words): sum(shared[name] for name in names)
        for words, names in SHARED_LABELS.items()
    }
    return totals | {"double_counted": counts["double_counted"]}
