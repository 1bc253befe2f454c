# SPDX-License-Identifier: GPL-2.0-or-later
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.inputs.perf_data._walk import walk_lanes

SAMPLE, COMM = 9, 3


def records(sizes: list[int], order: str, kind: int = SAMPLE) -> bytes:
    """Make records of so many words, filled with what is no header."""
    return b"".join(
        struct.pack(f"{order}IHH", kind, 1, 8 * size) + b"\xff" * 8 * (size - 1) for size in sizes
    )


def words(raw: bytes, order: str) -> np.ndarray:
    return np.frombuffer(raw, f"{order}u8")


def sizes_of(seed: int, count: int) -> list[int]:
    return [int(size) for size in np.random.default_rng(seed).integers(1, 40, count)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_all_records_are_found_in_their_order(order: str) -> None:
    sizes = sizes_of(1, 5000)

    found = walk_lanes(words(records(sizes, order), order), order)

    assert found is not None
    assert found.tolist() == np.cumsum([0, *sizes]).tolist()


def test_other_records_between_samples_are_found_too() -> None:
    sizes = sizes_of(2, 5000)
    raw = b"".join(
        records([size], "<", COMM if number % 3 else SAMPLE) for number, size in enumerate(sizes)
    )

    found = walk_lanes(words(raw, "<"), "<")

    assert found is not None
    assert found.tolist() == np.cumsum([0, *sizes]).tolist()


def test_nothing_is_guessed_where_there_are_no_samples() -> None:
    assert walk_lanes(words(records(sizes_of(3, 5000), "<", COMM), "<"), "<") is None


@given(st.data())
def test_what_only_looks_like_a_record_never_counts(data: st.DataObject) -> None:
    # Records whose bodies hold headers of samples, as a hostile file or a user's stack may.
    sizes = sizes_of(data.draw(st.integers(0, 1000)), 3000)
    content = bytearray(records(sizes, "<"))
    bounds = np.cumsum([0, *sizes])
    for number in data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=300)):
        for place in range(int(bounds[number]) + 1, int(bounds[number + 1])):
            struct.pack_into("<IHH", content, 8 * place, SAMPLE, 1, 8 * data.draw(st.just(3)))

    found = walk_lanes(words(bytes(content), "<"), "<")

    if found is not None:
        assert found.tolist() == bounds[: len(found)].tolist()


@pytest.mark.parametrize("size", [0, 4, 12])
def test_the_walk_ends_at_a_record_without_a_size_to_step_over(size: int) -> None:
    sizes = sizes_of(4, 4000)
    content = bytearray(records(sizes, "<"))
    bounds = np.cumsum([0, *sizes])
    struct.pack_into("<IHH", content, 8 * int(bounds[2500]), SAMPLE, 1, size)

    found = walk_lanes(words(bytes(content), "<"), "<")

    assert found is not None
    assert found.tolist() == bounds[:2501].tolist()


def test_one_long_lane_of_small_records_does_not_cost_steps_of_all_lanes() -> None:
    sizes = [128] * 4096 + [1] * (1 << 19)
    raw = records(sizes[:4096], "<") + records([1], "<", COMM) * (1 << 19)

    tracemalloc.start()
    found = walk_lanes(words(raw, "<"), "<")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found is not None
    assert len(found) > 4096
    assert found.tolist() == np.cumsum([0, *sizes])[: len(found)].tolist()
    assert peak < 4 * len(raw)
