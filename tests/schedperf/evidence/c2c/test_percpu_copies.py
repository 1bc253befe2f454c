# SPDX-License-Identifier: GPL-2.0-or-later
"""Which addresses are copies of per-CPU memory, by units and by alignment."""

import numpy as np

from schedperf.evidence.c2c.percpu_copies import fold_addresses
from schedperf.inputs.kernel.percpu_units import PercpuUnits

UNIT = 1 << 20
HALF = 0xFFFF888000000000


def make(bases: dict[int, int], **changes: int | None) -> PercpuUnits:
    facts: dict[str, int | None] = {"unit_bytes": UNIT, "first_chunk_bytes": None, "cpus": None}
    facts |= changes
    return PercpuUnits(
        method="kcore" if bases else "alignment",
        units=bases,
        unit_bytes=facts["unit_bytes"],
        first_chunk_bytes=facts["first_chunk_bytes"],
        cpus=facts["cpus"],
    )


def fold(addresses: list[int], units: PercpuUnits | None) -> list[int | None]:
    found = fold_addresses(np.array(addresses, dtype=np.uint64), units, 64)
    pairs = zip(found.is_folded, found.offset, strict=True)
    return [int(offset) if is_folded else None for is_folded, offset in pairs]


def test_an_address_less_its_units_base_is_the_offset_on_every_cpu() -> None:
    units = make({0: HALF + 5 * UNIT, 1: HALF + (1 << 37), 2: HALF + 6 * UNIT})
    addresses = [HALF + 5 * UNIT + 64, HALF + (1 << 37) + 64, HALF + 6 * UNIT + 64]
    assert fold(addresses, units) == [64, 64, 64]


def test_what_is_in_no_unit_is_not_folded() -> None:
    units = make({0: HALF + 5 * UNIT, 1: HALF + 7 * UNIT})
    assert fold([0, HALF, HALF + 6 * UNIT + 8, HALF + 9 * UNIT], units) == [None] * 4


def test_behind_the_first_chunk_other_memory_lies() -> None:
    units = make({0: HALF, 1: HALF + UNIT}, first_chunk_bytes=4096)
    assert fold([HALF + 4095, HALF + 4096], units) == [4095, None]


def test_units_of_unknown_size_end_where_the_next_begins() -> None:
    units = make({0: HALF, 1: HALF + 8192}, unit_bytes=None)
    assert fold([HALF + 8191, HALF + 8192 + 8191, HALF + 2 * 8192], units) == [8191, 8191, None]


def test_without_units_nothing_is_folded() -> None:
    assert fold([HALF, HALF + UNIT], None) == [None, None]


def test_alignment_alone_needs_the_same_line_in_three_units() -> None:
    lines = [HALF + number * UNIT + 4096 for number in range(3)]
    assert fold(lines, make({})) == [4096] * 3
    assert fold(lines[:2], make({})) == [None, None]
    assert fold(lines[:2], make({}, cpus=2)) == [4096, 4096]


def test_one_line_seen_often_confirms_nothing() -> None:
    assert fold([HALF + 4096] * 5, make({})) == [None] * 5


def test_more_blocks_than_cpus_are_no_units_and_that_is_said() -> None:
    addresses = np.array([HALF + number * UNIT for number in range(4)], dtype=np.uint64)
    found = fold_addresses(addresses, make({}, cpus=3), 64)
    assert not found.is_folded.any()
    assert "4 memory blocks look like per-CPU units, but there are 3 CPUs" in found.note


def test_addresses_of_users_are_never_candidates() -> None:
    assert fold([number * UNIT for number in range(1, 6)], make({})) == [None] * 5
