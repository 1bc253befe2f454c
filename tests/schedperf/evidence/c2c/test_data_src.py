# SPDX-License-Identifier: GPL-2.0-or-later
"""Data sources: each sample against a second, plain reading of what the bits mean."""

import random
from collections import Counter

import numpy as np
import pytest

from schedperf.evidence.c2c.data_src import COUNTERS, count_samples, sums

LOAD, STORE = 2, 4


def bits(
    *, op: int = LOAD, level: int = 0, snoop: int = 0, lock: int = 0, remote: int = 0,
    snoopx: int = 0, block: int = 0, hops: int = 0,
) -> int:  # fmt: skip
    word = op | level << 5 | snoop << 19 | lock << 24 | remote << 37
    return word | snoopx << 38 | block << 40 | hops << 43


def count(*words: int, address: int = 64) -> dict[str, int]:
    data_src = np.array(words, dtype=np.uint64)
    addresses = np.full(len(words), address, dtype=np.uint64)
    found = count_samples(data_src, addresses, np.ones(len(words), dtype=bool))
    return {name: number for name, number in sums(found.matrix).items() if number}


def read_load(word: int) -> Counter[str]:
    level, snoop = word >> 5 & 0x3FFF, word >> 19 & 31
    remote = bool(word >> 37 & 1) and not word >> 43 & 7
    peer = bool(word >> 38 & 2)
    told: Counter[str] = Counter(load=1)
    if level & 2:
        told.update(
            name
            for mask, name in (
                (0x2000, "load_uncacheable"), (0x1000, "load_io"), (0x10, "load_fb_hit"),
                (8, "load_l1_hit"), (0x20, "load_l2_hit"),
            )
            if level & mask
        )  # fmt: skip
        if level & 0x40:
            told["lcl_hitm" if snoop & 16 else "load_llc_hit"] += 1
        told["lcl_peer"] += peer * (bool(level & 0x20) + bool(level & 0x40))
        for is_there, name in ((level & 0x80, "lcl_dram"), (level & 0x300 or remote, "rmt_dram")):
            if is_there:
                told.update((name, "load_shared" if snoop & 4 else "load_exclusive"))
    if level & 0xC00 or remote:
        if snoop & 4:
            told["rmt_hit"] += 1
        elif snoop & 16:
            told["rmt_hitm"] += 1
            told["double_counted"] += told["rmt_dram"] > 0
        elif peer:
            told.update(("rmt_hit", "rmt_peer"))
    told["load_miss"] += bool(level & 4)
    return told


def read_store(word: int) -> Counter[str]:
    level = word >> 5 & 0x3FFF
    told: Counter[str] = Counter(store=1)
    told["store_uncacheable"] += bool(level & 2 and level & 0x2000)
    told["store_l1_hit"] += bool(level & 2 and level & 8)
    told["store_l1_miss"] += bool(level & 4 and level & 8)
    told["store_na"] += bool(level & 1)
    return told


def read_plainly(word: int) -> Counter[str]:
    if word & LOAD:
        told = read_load(word)
    elif word & STORE:
        told = read_store(word)
    else:
        told = Counter(no_parse=1)
    told["locked"] += bool(word >> 24 & 2)
    told["blocked_data"] += bool(word >> 40 & 2)
    told["blocked_address"] += bool(word >> 40 & 4)
    return told


def test_a_local_hitm_is_a_hit_in_the_last_level_that_was_modified() -> None:
    assert count(bits(level=0x42, snoop=16)) == {"load": 1, "lcl_hitm": 1}
    assert count(bits(level=0x42, snoop=4)) == {"load": 1, "load_llc_hit": 1}


def test_a_remote_hitm_told_by_the_remote_bit_is_counted_as_dram_too_and_that_is_said() -> None:
    found = count(bits(level=0x42, snoop=16, remote=1))
    assert found["rmt_hitm"] == found["rmt_dram"] == found["double_counted"] == 1


def test_the_remote_bit_with_hops_is_another_core_of_the_node() -> None:
    assert "rmt_hitm" not in count(bits(level=0x42, snoop=16, remote=1, hops=1))


def test_a_sample_without_an_address_counts_for_nothing_but_that() -> None:
    assert count(bits(level=0x42, snoop=16), address=0) == {"load": 1, "load_no_address": 1}
    assert count(bits(op=STORE, level=0xA), address=0) == {"store": 1, "store_no_address": 1}


def test_a_locked_load_writes() -> None:
    words = np.array([bits(lock=2), bits(), bits(op=STORE), bits(op=1)], dtype=np.uint64)
    found = count_samples(words, words, np.ones(4, dtype=bool))
    assert found.writes.tolist() == [True, False, True, False]


def test_what_is_not_mapped_is_counted_once_it_has_an_address() -> None:
    words = np.array([bits(), bits(op=1)], dtype=np.uint64)
    found = count_samples(words, np.array([64, 64], dtype=np.uint64), np.zeros(2, dtype=bool))
    assert sums(found.matrix)["no_map"] == 1


@pytest.mark.property
def test_any_bits_are_read_as_a_plain_reading_reads_them() -> None:
    chance = random.Random(5)  # noqa: S311 # test data
    words = [chance.getrandbits(64) for _ in range(20_000)] + [0, (1 << 64) - 1]
    found = count_samples(
        np.array(words, dtype=np.uint64),
        np.full(len(words), 64, dtype=np.uint64),
        np.ones(len(words), dtype=bool),
    )
    for word, row in zip(words, found.matrix, strict=True):
        told = {name: int(number) for name, number in zip(COUNTERS, row, strict=True) if number}
        assert told == {name: number for name, number in read_plainly(word).items() if number}
